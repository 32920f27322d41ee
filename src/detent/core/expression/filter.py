"""The filters and tests of workflow expressions: pure functions over JSON values.

One that may walk deep asks for `work` by name, and charges it.
"""

import hashlib
import json
import math
import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from detent.core.expression.step_filter import STEP_FILTERS
from detent.core.expression.value_operation import (
    BITS_MAX,
    ITEM_COST,
    ITEMS_MAX,
    MISSING,
    TEXT_MAX,
    Work,
    canonical,
    charge,
    check_bounds,
    comparable,
    contains,
    differs,
    dig,
    encode,
    equal,
    fits,
    integer,
    is_number,
    join,
    kind,
    look,
    measure,
    number,
    scalar_text,
    text,
)
from detent.errors import ExpressionError

PRECISION_MAX = 30


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
    return join([text(item, work=work) for item in _items(value, work)], scalar_text(separator), work)


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
    return int(check_bounds(value)) if isinstance(value, (int, float)) else default


def _float(value: Any, default: Any = 0.0) -> Any:
    if isinstance(value, str):
        try:
            return check_bounds(float(value))
        except ValueError:
            return default
    return float(check_bounds(value)) if isinstance(value, (int, float)) else default


def _sum(value: Any, attribute: Any = None, start: Any = 0, *, work: Work) -> Any:
    total = number(start)
    # Not sum(): since Python 3.12 it rounds differently, and a replay must not depend on the version.
    for item in _items(value, work):
        total += number(item if attribute is None else dig(item, attribute, work=work))
    return total


def _rank(value: Any, work: Work) -> list[Any]:
    ranks = _items(value, work)
    for left, right in pairwise(ranks):
        comparable(left, right)
    return ranks


def _min(value: Any, *, work: Work) -> Any:
    return min(_rank(value, work), default=None)


def _max(value: Any, *, work: Work) -> Any:
    return max(_rank(value, work), default=None)


def _sort(value: Any, reverse: Any = False, *, attribute: Any = None, work: Work) -> list[Any]:
    items = _items(value, work)
    ranks = _rank(items if attribute is None else [dig(item, attribute, work=work) for item in items], work)
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
    "sha256": lambda value, *, work: hashlib.sha256(encode(text(value, work=work))).hexdigest(),
    **STEP_FILTERS,
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
    "ne": differs,
    "lt": _less,
    "le": _at_most,
    "gt": lambda left, right: _less(right, left),
    "ge": lambda left, right: _at_most(right, left),
}
