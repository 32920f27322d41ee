"""The values, filters and tests of workflow expressions: pure functions over JSON values.

Every function is bounded: what walks a value charges `work` first, what builds one checks its size before.
"""

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

from detent.errors import ExpressionError

TEXT_MAX = 1_000_000
ITEMS_MAX = 100_000
BITS_MAX = 4_096
DEPTH_MAX = 64
PRECISION_MAX = 30

# The units one evaluation may spend: a character costs one, an item of a list or mapping ten.
WORK_MAX = 10_000_000
ITEM_COST = 10
Work = list[int]

MISSING: Any = object()

_KINDS = {
    type(None): "null",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    str: "text",
    list: "a list",
    dict: "a mapping",
}


def kind(value: Any) -> str:
    return _KINDS.get(type(value), f"a {type(value).__name__}, which is not JSON")


def charge(work: Work, units: int) -> None:
    work[0] -= units
    if work[0] < 0:
        raise ExpressionError("too much work for one expression; make the values smaller")


def size(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    return ITEM_COST * len(value) if isinstance(value, (list, dict)) else 1


def bounded(value: Any) -> Any:
    """Pass on a value that is finite and within the caps; refuse any other."""
    if isinstance(value, str):
        fits(len(value), TEXT_MAX, "characters")
    elif isinstance(value, (list, dict)):
        fits(len(value), ITEMS_MAX, "items")
    elif isinstance(value, int):
        fits(value.bit_length(), BITS_MAX, "bits")
    elif isinstance(value, float) and not math.isfinite(value):
        raise ExpressionError("a number became infinite or is not a number")
    return value


def fits(length: int, most: int, unit: str) -> None:
    if length > most:
        raise ExpressionError(f"result too large: more than {most:,} {unit}")


def is_number(value: Any) -> bool:
    """A boolean is not a number here, as in JSON."""
    return type(value) is int or type(value) is float


def number(value: Any) -> Any:
    if not is_number(value):
        raise ExpressionError(f"a number is needed, not {kind(value)}")
    return bounded(value)


def integer(value: Any) -> int:
    if type(value) is not int:
        raise ExpressionError(f"a whole number is needed, not {kind(value)}")
    return value


def look(value: Any, key: Any) -> Any:
    """The value under a key or index, or MISSING; never an attribute of a Python object."""
    if isinstance(value, dict):
        return value.get(key, MISSING) if isinstance(key, str) else MISSING
    if isinstance(value, (list, str)) and type(key) is int and -len(value) <= key < len(value):
        return value[key]
    return MISSING


def dig(value: Any, path: Any, default: Any = None, *, work: Work) -> Any:
    """The value at a dotted path; a part made of digits is an index."""
    if not isinstance(path, str):
        raise ExpressionError(f"an attribute is named by text, not {kind(path)}")
    charge(work, len(path))
    for part in path.split("."):
        is_index = part.isdecimal() and len(part) < len(str(ITEMS_MAX)) and not isinstance(value, dict)
        value = look(value, int(part) if is_index else part)
    return default if value is MISSING else value


def equal(left: Any, right: Any, *, work: Work) -> bool:
    """JSON equality at any depth: 1 equals 1.0, but true does not equal 1."""
    if isinstance(left, str) or left is None:
        return bool(left == right)
    pending = [(left, right)]
    while pending:
        left, right = pending.pop()
        if isinstance(left, bool) or isinstance(right, bool):
            if left is not right:
                return False
        elif isinstance(left, list) and isinstance(right, list):
            if len(left) != len(right):
                return False
            charge(work, size(left))
            pending.extend(zip(reversed(left), reversed(right), strict=True))
        elif isinstance(left, dict) and isinstance(right, dict):
            charge(work, size(left))
            if left.keys() != right.keys():
                return False
            pending.extend((value, right[key]) for key, value in left.items())
        elif isinstance(left, (list, dict)) or left != right:
            return False
    return True


def comparable(left: Any, right: Any) -> None:
    """Refuse an order between anything but two numbers or two texts."""
    if is_number(left) and is_number(right):
        bounded(left), bounded(right)
    elif not (isinstance(left, str) and isinstance(right, str)):
        raise ExpressionError(f"only numbers or texts have an order, not {kind(left)} and {kind(right)}")


def contains(value: Any, container: Any, *, work: Work) -> bool:
    """Membership in a list, a key of a mapping, or a part of a text; nothing is in null."""
    if isinstance(container, dict):
        return isinstance(value, str) and value in container
    if isinstance(container, list):
        charge(work, size(container))
        if isinstance(value, str):
            return value in container
        return any(equal(value, item, work=work) for item in container)
    if isinstance(container, str) and isinstance(value, str):
        charge(work, len(container))
        return value in container
    if container is None:
        return False
    raise ExpressionError(f"cannot look for {kind(value)} in {kind(container)}")


def measure(value: Any, work: Work) -> None:
    """Charge for everything inside a value, and refuse what canonical JSON cannot hold."""
    pending = [(value, 0)]
    length = 0
    while pending:
        value, depth = pending.pop()
        length += 1
        if isinstance(value, str):
            length += len(value)
            if not value.isascii():
                _encode(value)
        elif isinstance(value, (list, dict)):
            charge(work, size(value))
            fits(depth, DEPTH_MAX, "levels")
            parts: Iterable[Any] = value
            if isinstance(value, dict):
                if not all(isinstance(key, str) for key in value):
                    raise ExpressionError("the keys of a mapping must be text")
                parts = [*value.keys(), *value.values()]
            pending.extend((part, depth + 1) for part in parts)
        elif type(value) not in _KINDS:
            raise ExpressionError(f"the value is {kind(value)}")
        else:
            bounded(value)
        fits(length, TEXT_MAX, "characters")
    charge(work, length)


def canonical(value: Any, *, work: Work) -> str:
    measure(value, work)
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def scalar_text(value: Any) -> str:
    """The text of a value that is not a container."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if value is True or value is False:
        return "true" if value else "false"
    if is_number(value):
        return repr(bounded(value))
    raise ExpressionError(f"text is needed, not {kind(value)}")


def text(value: Any, *, work: Work) -> str:
    """The text a value has inside other text: null is empty, containers are canonical JSON."""
    return canonical(value, work=work) if isinstance(value, (list, dict)) else scalar_text(value)


def joined(parts: list[str], separator: str, work: Work) -> str:
    length = sum(map(len, parts)) + len(separator) * max(len(parts) - 1, 0)
    fits(length, TEXT_MAX, "characters")
    charge(work, length)
    return separator.join(parts)


def _encode(value: str) -> bytes:
    try:
        return value.encode()
    except UnicodeEncodeError:
        raise ExpressionError("the text holds half a character (a lone surrogate)") from None


def _items(value: Any, work: Work) -> list[Any]:
    """The items of a list, the characters of a text, the keys of a mapping; null has none."""
    if value is None:
        return []
    if not isinstance(value, (list, str, dict)):
        raise ExpressionError(f"a list is needed, not {kind(value)}")
    fits(len(value), ITEMS_MAX, "items")
    charge(work, ITEM_COST * len(value))
    return list(value)


def _mapping(value: Any) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ExpressionError(f"a mapping is needed, not {kind(value)}")
    return value


def _default(value: Any, fallback: Any = "", boolean: Any = False) -> Any:
    return fallback if value is None or (boolean and not value) else value


def _length(value: Any) -> int:
    if value is not None and not isinstance(value, (list, str, dict)):
        raise ExpressionError(f"only text, lists and mappings have a length, not {kind(value)}")
    return len(value or "")


def _title(value: Any) -> str:
    parts = re.split(r"([-\s({\[<]+)", scalar_text(value))
    return "".join(part[:1].upper() + part[1:].lower() for part in parts)


def _join(value: Any, separator: Any = "", *, work: Work) -> str:
    return joined([text(item, work=work) for item in _items(value, work)], scalar_text(separator), work)


def _split(value: Any, separator: Any = None, limit: Any = -1) -> list[str]:
    if separator == "":
        raise ExpressionError("cannot split at an empty text")
    return scalar_text(value).split(None if separator is None else scalar_text(separator), integer(limit))


def _replace(value: Any, old: Any, new: Any, count: Any = -1) -> str:
    source, old, new = scalar_text(value), scalar_text(old), scalar_text(new)
    found = source.count(old)
    count = found if integer(count) < 0 else min(found, count)
    fits(len(source) + count * (len(new) - len(old)), TEXT_MAX, "characters")
    return source.replace(old, new, count)


def _truncate(value: Any, length: Any = 255, end: Any = "...") -> str:
    source, end = scalar_text(value), scalar_text(end)
    return source if len(source) <= integer(length) else source[: max(length - len(end), 0)] + end


def _round(value: Any, precision: Any = 0, method: Any = "common") -> Any:
    if abs(integer(precision)) > PRECISION_MAX:
        raise ExpressionError(f"round takes at most {PRECISION_MAX} digits")
    if method == "common":
        return round(number(value), precision)
    if method not in ("ceil", "floor"):
        raise ExpressionError("the method of round is 'common', 'ceil' or 'floor'")
    return getattr(math, method)(number(value) * 10**precision) / 10**precision


def _int(value: Any, default: Any = 0) -> Any:
    if isinstance(value, str):
        fits(len(value), BITS_MAX // 4, "digits")
        try:
            return int(value)
        except ValueError:
            value = _float(value, None)
    return int(bounded(value)) if isinstance(value, (int, float)) else default


def _float(value: Any, default: Any = 0.0) -> Any:
    if isinstance(value, str):
        try:
            return bounded(float(value))
        except ValueError:
            return default
    return float(bounded(value)) if isinstance(value, (int, float)) else default


def _sum(value: Any, attribute: Any = None, start: Any = 0, *, work: Work) -> Any:
    total = number(start)
    # Not sum(): since Python 3.12 it rounds differently, and a replay must not depend on the version.
    for item in _items(value, work):
        total += number(item if attribute is None else dig(item, attribute, work=work))
    return total


def _ranked(value: Any, work: Work) -> list[Any]:
    ranks = _items(value, work)
    for left, right in pairwise(ranks):
        comparable(left, right)
    return ranks


def _min(value: Any, *, work: Work) -> Any:
    return min(_ranked(value, work), default=None)


def _max(value: Any, *, work: Work) -> Any:
    return max(_ranked(value, work), default=None)


def _sort(value: Any, reverse: Any = False, *, attribute: Any = None, work: Work) -> list[Any]:
    items = _items(value, work)
    ranks = _ranked(items if attribute is None else [dig(item, attribute, work=work) for item in items], work)
    order = sorted(range(len(items)), key=ranks.__getitem__, reverse=bool(reverse))
    return [items[at] for at in order]


def _unique(value: Any, *, work: Work) -> list[Any]:
    scalars: set[tuple[bool, Any]] = set()
    containers: list[Any] = []
    kept = []
    for item in _items(value, work):
        if isinstance(item, (list, dict)):
            if contains(item, containers, work=work):
                continue
            containers.append(item)
        else:
            mark = (isinstance(item, bool), item)
            if mark in scalars:
                continue
            scalars.add(mark)
        kept.append(item)
    return kept


def _reverse(value: Any, *, work: Work) -> Any:
    return value[::-1] if isinstance(value, str) else _items(value, work)[::-1]


def _first(value: Any) -> Any:
    return next(iter(value), None) if isinstance(value, (list, str, dict)) else None


def _last(value: Any) -> Any:
    return next(reversed(value), None) if isinstance(value, (list, str, dict)) else None


def _fromjson(value: Any, *, work: Work) -> Any:
    try:
        parsed = json.loads(scalar_text(value))
    except RecursionError:
        raise ExpressionError("the JSON text is nested too deeply") from None
    except ValueError as error:
        raise ExpressionError(f"the text is not JSON: {error}") from None
    measure(parsed, work)
    return parsed


def _get(value: Any, key: Any, default: Any = None) -> Any:
    found = look(value, key)
    return default if found is MISSING else found


def _map(value: Any, *, attribute: Any, default: Any = None, work: Work) -> list[Any]:
    return [dig(item, attribute, default, work=work) for item in _items(value, work)]


def _selectattr(value: Any, name: Any, test: Any = None, *operand: Any, work: Work) -> list[Any]:
    return [item for item in _items(value, work) if _passes(item, name, test, operand, work)]


def _rejectattr(value: Any, name: Any, test: Any = None, *operand: Any, work: Work) -> list[Any]:
    return [item for item in _items(value, work) if not _passes(item, name, test, operand, work)]


def _passes(item: Any, name: Any, test: Any, operand: tuple[Any, ...], work: Work) -> bool:
    found = dig(item, name, MISSING, work=work)
    if test in ("defined", "undefined"):
        return (found is not MISSING) is (test == "defined")
    found = None if found is MISSING else found
    if test is None:
        return bool(found)
    passes = TESTS.get(test) if isinstance(test, str) else None
    if passes is None:
        raise ExpressionError(f"unknown test {scalar_text(test)!r}")
    # A test that may walk deep asks for `work` by name.
    asked = {"work": work} if "work" in passes.__code__.co_varnames else {}
    return bool(passes(found, *operand, **asked))


def _differs(left: Any, right: Any, *, work: Work) -> bool:
    return not equal(left, right, work=work)


def _less(left: Any, right: Any) -> bool:
    comparable(left, right)
    return bool(left < right)


def _at_most(left: Any, right: Any) -> bool:
    comparable(left, right)
    return bool(left <= right)


def _divisible(value: Any, by: Any) -> bool:
    if by == 0:
        raise ExpressionError("division by zero")
    return integer(value) % integer(by) == 0


FILTERS: dict[str, Callable[..., Any]] = {
    "default": _default,
    "d": _default,
    "length": _length,
    "count": _length,
    "lower": lambda value: scalar_text(value).lower(),
    "upper": lambda value: scalar_text(value).upper(),
    "trim": lambda value: scalar_text(value).strip(),
    "title": _title,
    "capitalize": lambda value: scalar_text(value).capitalize(),
    "join": _join,
    "split": _split,
    "replace": _replace,
    "truncate": _truncate,
    "round": _round,
    "int": _int,
    "float": _float,
    "string": text,
    "abs": lambda value: abs(number(value)),
    "first": _first,
    "last": _last,
    "min": _min,
    "max": _max,
    "sum": _sum,
    "sort": _sort,
    "unique": _unique,
    "reverse": _reverse,
    "keys": lambda value: list(_mapping(value)),
    "values": lambda value: list(_mapping(value).values()),
    "items": lambda value: [list(pair) for pair in _mapping(value).items()],
    "list": lambda value, *, work: _items(value, work),
    "tojson": canonical,
    "fromjson": _fromjson,
    "map": _map,
    "selectattr": _selectattr,
    "rejectattr": _rejectattr,
    "get": _get,
    "sha256": lambda value, *, work: hashlib.sha256(_encode(text(value, work=work))).hexdigest(),
}

# `defined` and `undefined` are not here: they ask about a path, not about its value.
TESTS: dict[str, Callable[..., bool]] = {
    "none": lambda value: value is None,
    "true": lambda value: value is True,
    "false": lambda value: value is False,
    "boolean": lambda value: isinstance(value, bool),
    "number": is_number,
    "integer": lambda value: type(value) is int,
    "float": lambda value: isinstance(value, float),
    "string": lambda value: isinstance(value, str),
    "mapping": lambda value: isinstance(value, dict),
    "sequence": lambda value: isinstance(value, (list, str)),
    "empty": lambda value: value is None or value in ("", [], {}),
    "odd": lambda value: integer(value) % 2 == 1,
    "even": lambda value: integer(value) % 2 == 0,
    "divisibleby": _divisible,
    "in": contains,
    "eq": equal,
    "ne": _differs,
    "lt": _less,
    "le": _at_most,
    "gt": lambda left, right: _less(right, left),
    "ge": lambda left, right: _at_most(right, left),
}
