"""Plain JSON values: the only data that enters a machine, a journal or an expression.

Everything from outside passes `plain()` once; after that values are treated as immutable and shared freely.
"""

import hashlib
import math
import sys
from typing import Any

import msgspec
from msgspec.structs import force_setattr

from detent.errors import Refused

DEPTH_MAX = 64
NODES_MAX = 500_000
TEXT_MAX = 16 * 1024 * 1024
WHOLE_MAX = 1 << 63

Where = str | tuple[Any, Any]  # what is looked at, or the way to a part of it: (the way to the whole, key or index)

_encode = msgspec.json.Encoder(order="sorted").encode


def canonical(value: Any) -> bytes:
    """JSON with sorted keys and no blanks: equal values give equal bytes."""
    return _encode(value)


def digest(value: Any) -> str:
    """SHA-256 of the canonical JSON, in hex."""
    return hashlib.sha256(_encode(value)).hexdigest()


def intern_texts(struct: msgspec.Struct, *fields: str) -> None:
    """Make equal texts one object: msgspec leaves out a default by identity, and equal values must give equal bytes."""
    for field in fields:
        force_setattr(struct, field, sys.intern(str(getattr(struct, field))))


def sort_keys(value: Any) -> Any:
    """The same value with the keys of every mapping sorted, so that equal values also look alike to expressions."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return {key: sort_keys(value[key]) for key in sorted(value)}
    return [sort_keys(inner) for inner in value] if isinstance(value, list) else value


def plain(value: Any, what: str = "value") -> Any:
    """Return `value` as plain JSON data, or say exactly what in it is not."""
    kind = type(value)
    if kind is str:
        return _text(value, what)
    if value is None or kind is bool:
        return value
    return _Walk(what).plain(value, what, 0)


def _is_plain(part: Any) -> bool:
    """Whether a part is plain at the first look, as most are."""
    kind = type(part)
    if kind is str:
        return part.isascii() and len(part) <= TEXT_MAX
    return part is None or kind is bool or (kind is int and -WHOLE_MAX < part < WHOLE_MAX)


def _text(value: str, where: Where) -> str:
    if len(value) > TEXT_MAX:
        raise Refused(f"{_render_path(where)} has {len(value):,} characters; at most {TEXT_MAX:,} are kept")
    return scrub(value)


def scrub(text: str) -> str:
    """The same text; halves of characters are joined where they make one and replaced where they do not."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


class _Walk:
    """One pass over a value with a budget, so that a hostile one ends in a sentence and not in a hang."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.left = NODES_MAX

    def plain(self, value: Any, where: Where, depth: int) -> Any:
        if depth > DEPTH_MAX:
            raise Refused(f"{_render_path(where)} is nested deeper than {DEPTH_MAX} levels")
        if isinstance(value, dict):
            return self._mapping(value, where, depth)
        if isinstance(value, (list, tuple)):
            return self._sequence(value, where, depth)
        if isinstance(value, str):
            return _text(str(value), where)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int):
            return self._whole(int(value), where)
        if isinstance(value, float):
            if not math.isfinite(value):
                raise Refused(f"{_render_path(where)} is {value}; JSON has no such number, use null or a text")
            return float(value)
        raise Refused(f"{_render_path(where)} is a {type(value).__name__}; only JSON values are kept")

    def _mapping(self, value: dict[Any, Any], where: Where, depth: int) -> dict[str, Any]:
        self._count(len(value))
        is_deepest, made = depth == DEPTH_MAX, {}
        for key, part in value.items():
            name = key if type(key) is str and _is_plain(key) else self._key(key, where)
            is_done = not is_deepest and _is_plain(part)
            made[name] = part if is_done else self.plain(part, (where, key), depth + 1)
        return made

    def _sequence(self, value: list[Any] | tuple[Any, ...], where: Where, depth: int) -> list[Any]:
        self._count(len(value))
        is_deepest = depth == DEPTH_MAX
        return [
            part if not is_deepest and _is_plain(part) else self.plain(part, (where, at), depth + 1)
            for at, part in enumerate(value)
        ]

    def _count(self, parts: int) -> None:
        self.left -= parts
        if self.left < 0:
            raise Refused(f"{self.what} has more than {NODES_MAX:,} parts")

    @staticmethod
    def _whole(value: int, where: Where) -> int:
        if value.bit_length() > 4096:
            raise Refused(f"{_render_path(where)} is a whole number of more than 4,096 bits")
        return value

    @staticmethod
    def _key(key: Any, where: Where) -> str:
        if not isinstance(key, str):
            raise Refused(f"{_render_path(where)} has the key {key!r}; keys must be text")
        return _text(str(key), where)


def _render_path(where: Where) -> str:
    """The way to a part, as it would be written."""
    if isinstance(where, str):
        return where
    whole, key = where
    return f"{_render_path(whole)}[{key}]" if isinstance(key, int) else f"{_render_path(whole)}.{key}"
