"""What can be said of a condition before anything has run: it holds, it does not, or it depends."""

from collections.abc import Mapping
from typing import Any

from detent.core.expression import inner_of, parse, unwind

UNKNOWN: Any = object()


def truth(condition: str, known: Mapping[str, Any]) -> bool | None:
    """Whether a condition holds where these paths have these values; None: it depends on others."""
    if not condition:
        return True
    value = _value(parse(inner_of(condition)), known)
    return None if value is UNKNOWN else bool(value)


def _value(node: Any, known: Mapping[str, Any]) -> Any:
    name = type(node).__name__
    if name in ("Name", "Getattr", "Getitem"):
        return _path(node, known)
    match name:
        case "Const":
            return node.value
        case "Not":
            value = _value(node.node, known)
            return UNKNOWN if value is UNKNOWN else not value
        case "And" | "Or":
            return _join(node, known, name == "Or")
        case "Compare" if len(node.ops) == 1:
            return _compare(node.ops[0].op, _value(node.expr, known), _value(node.ops[0].expr, known))
        case "Test" if node.name in ("none", "defined"):
            value = _value(node.node, known)
            return UNKNOWN if value is UNKNOWN else (value is None) == (node.name == "none")
    return UNKNOWN


def _path(node: Any, known: Mapping[str, Any]) -> Any:
    base, keys = unwind(node)
    if type(base).__name__ != "Name" or not all(isinstance(key, str) for key in keys):
        return UNKNOWN
    return known.get(".".join((base.name, *keys)), UNKNOWN)


def _join(node: Any, known: Mapping[str, Any], decides: bool) -> Any:
    """`a or b` is true if one of them surely is, `a and b` false if one surely is not."""
    sides = [_value(node.left, known), _value(node.right, known)]
    if any(side is not UNKNOWN and bool(side) is decides for side in sides):
        return decides
    return UNKNOWN if any(side is UNKNOWN for side in sides) else not decides


def _compare(sign: str, left: Any, right: Any) -> Any:
    if left is UNKNOWN or right is UNKNOWN or sign not in ("eq", "ne"):
        return UNKNOWN
    is_same = isinstance(left, bool) is isinstance(right, bool) and left == right  # as expressions compare
    return is_same if sign == "eq" else not is_same
