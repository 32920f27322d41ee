"""Pinning arguments: conditions of a rule that hold for calls people have approved, and for no others.

Whatever stands in an argument is data. It gets into a condition as a quoted literal, and what a person could not read
there (hidden letters, very long texts) is not pinned at all.
"""

import math
from collections.abc import Sequence
from os.path import commonprefix
from typing import Any

from detent.kit.safe_text import visible

SOURCE_MAX = 2_000  # characters of a condition; a person has to read it
DEPTH_MAX = 8
VALUES_MAX = 8  # of one argument
SEEN_MIN = 2  # how often each of several values must have been approved
PREFIX_MIN = 4
TEXT_EFFECTS = ("shell", "python")  # what follows the beginning of their arguments can do anything

Arguments = dict[str, Any]


def pin_exactly(args: Arguments) -> str:
    """The condition that holds for these arguments alone; nothing if they cannot be written down readably."""
    return _finish(["args == " + written]) if (written := _literal(args, 0)) is not None else ""


def pin_pattern(effect: str, kind: str, calls: Sequence[Arguments]) -> str:
    """A condition for calls that differ in ways that can be pinned; nothing where one of them cannot.

    Arguments that never differ are pinned to their value, one that takes few values to those, and texts below one
    folder or address to that. An irreversible call is only ever pinned to values.
    """
    keys = sorted(calls[0])
    if not keys or any(sorted(call) != keys for call in calls) or any(key.startswith("_") for key in keys):
        return ""
    names = _literal(keys, 0)
    parts = [f"args | keys | sort == {names}"]
    sets = 0
    for key in keys:
        values = [call[key] for call in calls]
        part = _pin_value(key, values)
        if not part:
            part, sets = _pin_values(key, values), sets + 1
            if not part or sets > 1:  # two sets would also let through pairs that nobody has seen
                part = "" if kind == "irreversible" or effect in TEXT_EFFECTS else _pin_prefix(key, values)
        parts.append(part)
    return _finish(parts) if names is not None and all(parts) else ""


def _pin_value(key: str, values: list[Any]) -> str:
    written = _literal(values[0], 0)
    is_stable = all(_is_same(value, values[0]) for value in values)
    return f"{_name(key)} == {written}" if is_stable and written is not None else ""


def _pin_values(key: str, values: list[Any]) -> str:
    """One of a few values, each of which was seen more than once."""
    written = [_literal(value, 0) for value in values]
    distinct = list(dict.fromkeys(written))
    if len(distinct) > VALUES_MAX or None in distinct or any(written.count(one) < SEEN_MIN for one in distinct):
        return ""
    return f"{_name(key)} in [{', '.join(str(one) for one in distinct)}]"


def _pin_prefix(key: str, values: list[Any]) -> str:
    """Texts below one folder or one address; a way up and out of it is left out."""
    if not all(isinstance(value, str) and ".." not in value and not _has_blank(value) for value in values):
        return ""
    prefix = commonprefix(values)  # noqa: RUF071  # letter by letter is meant; the next line goes back to a `/`
    prefix = prefix[: prefix.rfind("/") + 1]
    is_address = "://" in prefix
    if len(prefix) < PREFIX_MIN or (is_address and prefix.count("/") < 3):
        return ""
    written, name = _literal(prefix, 0), _name(key)
    if written is None:
        return ""
    return f'{name} is string and {name}[:{len(prefix)}] == {written} and ".." not in {name}'


def _has_blank(text: str) -> bool:
    return any(letter.isspace() for letter in text)


def _is_same(one: Any, other: Any) -> bool:
    """Equal as JSON has it: true is not 1."""
    return bool(one == other) and _literal(one, 0) == _literal(other, 0)


def _name(key: str) -> str:
    return f"args[{_literal(key, 0)}]"


def _literal(value: Any, depth: int) -> str | None:
    """A JSON value as an expression writes it; None where a person could not read it."""
    if depth > DEPTH_MAX:
        return None
    if value is None or isinstance(value, bool):
        return {None: "none", True: "true", False: "false"}[value]
    if isinstance(value, int | float):
        return repr(value) if math.isfinite(value) else None
    if isinstance(value, str):
        is_readable = visible(value) == value and len(value) <= SOURCE_MAX
        quoted = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{quoted}"' if is_readable else None
    if isinstance(value, list | tuple):
        items = [_literal(item, depth + 1) for item in value]
        return None if None in items else f"[{', '.join(str(item) for item in items)}]"
    if isinstance(value, dict):
        pairs = [(_literal(key, depth + 1), _literal(item, depth + 1)) for key, item in value.items()]
        is_whole = not any(part is None for pair in pairs for part in pair)
        return f"{{{', '.join(f'{key}: {item}' for key, item in pairs)}}}" if is_whole else None
    return None


def _finish(parts: list[str]) -> str:
    source = f"{{{{ {' and '.join(parts)} }}}}"
    return source if len(source) <= SOURCE_MAX else ""
