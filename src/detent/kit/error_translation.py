"""Errors in the reader's language: raised in English, and recognised by their sentence where a person reads them.

Whoever raises knows nothing of languages, and a sentence that came from another process or out of a journal is
translated like one that was raised here. What is stored, and what machines read, stays English.
"""

import functools
import importlib
import pkgutil

from detent.kit.language import language

LONGEST = 4000  # characters; what is longer is somebody's output, not our sentence
DEEPEST = 5  # sentences inside sentences
HOLE = "{}"


def translate_error(english: str) -> str:
    """An error's sentence in the language of whoever is at the terminal."""
    return error_in_chinese(english) if language() == "zh" else english


def error_in_chinese(english: str, depth: int = DEEPEST) -> str:
    """An error's sentence in Chinese; one that is not known stays as it is."""
    if not english or len(english) > LONGEST:
        return english
    place, found, rest = english.partition(": ")
    if found and depth and _is_place(place):
        return f"{place}: {error_in_chinese(rest, depth - 1)}"
    for parts, chinese in _templates():
        values = _match(parts, english)
        if values is not None:
            return _fill(chinese, [error_in_chinese(value, depth - 1) if depth else value for value in values])
    for mark in ("; ", ": "):  # several sentences in one, or one after the place that it is about
        first, found, rest = english.partition(mark)
        if found and depth:
            said = (error_in_chinese(first, depth - 1), error_in_chinese(rest, depth - 1))
            if said != (first, rest):
                return mark.join(said)
    return english


def _is_place(text: str) -> bool:
    """Whether this is a file with a line and a column."""
    return all(number.isdecimal() for number in text.split(":")[-2:]) and text.count(":") > 1


def error_templates() -> dict[str, str]:
    """Every sentence there is in Chinese, by the English one; the agents bring theirs."""
    from detent.kit import error_words
    from detent.kit.agent import load_all

    names = [found.name for found in pkgutil.iter_modules(error_words.__path__)]
    found: dict[str, str] = {}
    for brought in load_all("errors"):
        found.update(brought)
    for name in names:
        found.update(importlib.import_module(f"{error_words.__name__}.{name}").CHINESE)
    return found


@functools.cache
def _templates() -> list[tuple[list[str], str]]:
    """The parts between the values of each sentence; those that say most come first, for they fit least by chance."""
    known = [(english.split(HOLE), chinese) for english, chinese in error_templates().items()]
    return sorted(known, key=lambda one: -sum(map(len, one[0])))


def _match(parts: list[str], text: str) -> list[str] | None:
    """The values of a sentence of these parts; each reaches to where the next part is first found, so this is quick."""
    if len(parts) == 1:
        return [] if text == parts[0] else None
    at, end = len(parts[0]), len(text) - len(parts[-1])
    if at > end or not text.startswith(parts[0]) or not text.endswith(parts[-1]):
        return None
    values = []
    for part in parts[1:-1]:
        found = text.find(part, at, end) if part else _end_of_word(text, at, end)
        if found < 0:
            return None
        values.append(text[at:found])
        at = found + len(part)
    return [*values, text[at:end]]


def _end_of_word(text: str, at: int, end: int) -> int:
    """Where the first of two values that stand together ends: the second begins with a mark, or is empty."""
    return min((place for mark in ":;, (" if (place := text.find(mark, at, end)) >= 0), default=end)


def _fill(chinese: str, values: list[str]) -> str:
    """The values in their places; braces that are no place stay."""
    pieces = chinese.split("{")
    made = pieces[0]
    for piece in pieces[1:]:
        number, closed, rest = piece.partition("}")
        is_place = closed and number.isdecimal() and int(number) < len(values)
        made += values[int(number)] + rest if is_place else "{" + piece
    return made
