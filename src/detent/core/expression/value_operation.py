"""What may be done with the JSON values of an expression, and how much of it.

Every function is bounded: what walks a value charges `work` first, what builds one checks its size before.
"""

import json
import math
import operator
from collections.abc import Callable, Iterable
from typing import Any

from detent.errors import ExpressionError

TEXT_MAX = 1_000_000
ITEMS_MAX = 100_000
BITS_MAX = 4_096
DEPTH_MAX = 64

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


def check_bounds(value: Any) -> Any:
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
    return check_bounds(value)


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


def equal(left: Any, right: Any, work: Work) -> bool:
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


def differs(left: Any, right: Any, work: Work) -> bool:
    return not equal(left, right, work)


def comparable(left: Any, right: Any) -> None:
    """Refuse an order between anything but two numbers or two texts."""
    if is_number(left) and is_number(right):
        check_bounds(left), check_bounds(right)
    elif not (isinstance(left, str) and isinstance(right, str)):
        raise ExpressionError(f"only numbers or texts have an order, not {kind(left)} and {kind(right)}")


def contains(value: Any, container: Any, work: Work) -> bool:
    """Membership in a list, a key of a mapping, or a part of a text; nothing is in null."""
    if isinstance(container, dict):
        return isinstance(value, str) and value in container
    if isinstance(container, list):
        charge(work, size(container))
        if isinstance(value, str):
            return value in container
        return any(equal(value, item, work) for item in container)
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
                encode(value)
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
            check_bounds(value)
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
        return repr(check_bounds(value))
    raise ExpressionError(f"text is needed, not {kind(value)}")


def text(value: Any, *, work: Work) -> str:
    """The text a value has inside other text: null is empty, containers are canonical JSON."""
    return canonical(value, work=work) if isinstance(value, (list, dict)) else scalar_text(value)


def join(parts: list[str], separator: str, work: Work) -> str:
    length = sum(map(len, parts)) + len(separator) * max(len(parts) - 1, 0)
    fits(length, TEXT_MAX, "characters")
    charge(work, length)
    return separator.join(parts)


def encode(value: str) -> bytes:
    try:
        return value.encode()
    except UnicodeEncodeError:
        raise ExpressionError("the text holds half a character (a lone surrogate)") from None


def add(left: Any, right: Any, work: Work) -> Any:
    if isinstance(left, str) and isinstance(right, str):
        return join([left, right], "", work)
    if isinstance(left, list) and isinstance(right, list):
        fits(len(left) + len(right), ITEMS_MAX, "items")
        charge(work, size(left) + size(right))
        return left + right
    return arithmetic("+", operator.add, left, right)


def arithmetic(sign: str, compute: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    if not (is_number(left) and is_number(right)):
        raise ExpressionError(f"`{sign}` does not work on {kind(left)} and {kind(right)}")
    try:
        result = compute(left, right)
    except ZeroDivisionError:
        raise ExpressionError("division by zero") from None
    if isinstance(result, complex):
        raise ExpressionError("a fractional power of a negative number is not a real number")
    return check_bounds(result)


def multiply(left: Any, right: Any) -> Any:
    if isinstance(left, int) and isinstance(right, int):
        fits(left.bit_length() + right.bit_length() - 1, BITS_MAX, "bits")
    return left * right


def power(base: Any, exponent: Any) -> Any:
    if isinstance(base, int) and isinstance(exponent, int) and exponent > 0:
        fits((base.bit_length() - 1) * exponent, BITS_MAX, "bits")
    return base**exponent
