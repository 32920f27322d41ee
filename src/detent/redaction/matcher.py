"""Finding any of many texts in a text, in time that grows with its length alone.

A text is looked at four bytes at a time, every fourth byte only. Each pattern is indexed by four-byte grams such that
one of them falls on such a place wherever the pattern stands; so a text without a pattern costs one look-up in a set
for every four bytes, made by the interpreter's own loop.
"""

import sys
from collections.abc import Iterable, Iterator
from typing import NamedTuple

GRAM = 4
ALIKE_MAX = 4  # places of one gram in one pattern that are tried; only a secret like "aaaaaaaa" has more
PATTERN_MIN = 2 * GRAM - 1  # bytes; shorter ones are searched for one by one
_BREAKS = b"\r\n"


class Pattern(NamedTuple):
    """Something to find: the whole of it, or any part of at least `part_min` bytes."""

    code: bytes
    part_min: int = 0
    is_wrapped: bool = False  # line breaks may stand anywhere in it


class Matcher:
    """Finds patterns; made once, used for every text."""

    def __init__(self, patterns: Iterable[Pattern]) -> None:
        self._index: dict[int, list[tuple[Pattern, int]]] = {}
        self._short: list[bytes] = []
        for pattern in sorted(set(patterns)):
            if len(pattern.code) < PATTERN_MIN:
                self._short.append(pattern.code)
                continue
            for offset in _offsets(pattern):
                gram = int.from_bytes(pattern.code[offset : offset + GRAM], sys.byteorder)
                known = self._index.setdefault(gram, [])
                if [one for one, _ in known[-ALIKE_MAX:]].count(pattern) < ALIKE_MAX:
                    known.append((pattern, offset))
        self._grams = frozenset(self._index)

    def may_find(self, text: bytes) -> bool:
        """Whether the text is worth a closer look; if not, nothing is in it."""
        if self._grams and not self._grams.isdisjoint(_grams_of(text)):
            return True
        return any(code in text for code in self._short)

    def find_spans(self, text: bytes) -> list[tuple[int, int]]:
        """The parts of the text that are to be hidden, in order and apart from each other."""
        found = list(self._long_spans(text))
        for code in self._short:
            start = text.find(code)
            while start >= 0:
                found.append((start, start + len(code)))
                start = text.find(code, start + len(code))
        return merge_spans(found)

    def _long_spans(self, text: bytes) -> Iterator[tuple[int, int]]:
        covered = -1
        for number, gram in enumerate(_grams_of(text)):
            if gram not in self._index:
                continue
            place = number * GRAM
            if place + GRAM <= covered:
                continue  # inside what is hidden already
            for pattern, offset in self._index[gram]:
                span = _span_at(text, place, pattern, offset)
                if span is not None:
                    covered = max(covered, span[1])
                    yield span


def _grams_of(text: bytes) -> memoryview:
    return memoryview(text)[: len(text) // GRAM * GRAM].cast("I")


def _offsets(pattern: Pattern) -> Iterator[int]:
    """Where in a pattern the grams are by which it is found: one for each way it may lie, or all."""
    if pattern.part_min:
        yield from range(len(pattern.code) - GRAM + 1)
        return
    last = len(pattern.code) - GRAM
    for lie in range(GRAM):  # of several, the one with the most different letters: it stands in the fewest other texts
        yield max(range(lie, last + 1, GRAM), key=lambda at: len(set(pattern.code[at : at + GRAM])))


def _span_at(text: bytes, place: int, pattern: Pattern, offset: int) -> tuple[int, int] | None:
    """The part of the text around a place that is the pattern, or enough of it."""
    code = pattern.code
    if not pattern.part_min:
        start = place - offset
        return (start, start + len(code)) if start >= 0 and text.startswith(code, start) else None
    start, end = place, place + GRAM
    first, last = offset, offset + GRAM
    while first and start and (text[start - 1] == code[first - 1] or _is_break(pattern, text, start - 1)):
        first -= text[start - 1] == code[first - 1]
        start -= 1
    while last < len(code) and end < len(text) and (text[end] == code[last] or _is_break(pattern, text, end)):
        last += text[end] == code[last]
        end += 1
    if last - first < pattern.part_min:
        return None
    return start, end


def _is_break(pattern: Pattern, text: bytes, place: int) -> bool:
    return pattern.is_wrapped and text[place] in _BREAKS


def merge_spans(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same spans in order; what touches becomes one."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged
