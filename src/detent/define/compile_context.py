"""The file being compiled: what is wrong with it, and which expressions stand in it.

Nothing here raises for what an author wrote: a problem is noted at its place, the value is left out, reading goes on.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from detent.core.expression import compile_condition, compile_template, names
from detent.core.machine import did_you_mean
from detent.define.document import Document, Route
from detent.define.problem import SHOWN_MAX, Problem, Severity, cut
from detent.errors import DefinitionError, ExpressionError

KNOWN_MAX = 500  # names that are looked through for the one that was meant
PLAIN = re.compile(r"\{\{ *((?:[a-z]+)(?:\.[A-Za-z]\w*)+) *\}\}", re.ASCII)  # an expression that is one path
MARKS = ("{{", "{%", "{#")


class Reading(NamedTuple):
    """An expression somewhere in the file: where it stands and which paths it reads."""

    path: Route
    reads: frozenset[str]


class Page:
    """One file with everything the compiler has found in it."""

    def __init__(self, document: Document, known_effects: Iterable[str] = ()) -> None:
        self.file = document.file
        self.value = document.value
        self.places = document.places
        self.problems = document.problems
        self.lines = document.source.splitlines()
        self.known_effects = frozenset(known_effects)
        self.variables: dict[str, Any] = {}  # as the file declares them, for numbers that are expressions
        self.readings: list[Reading] = []
        self.tools: Mapping[str, Any] = {}  # names that the file gives to tools (`define.tool`)
        self.called: dict[str, set[str]] = {}  # which of them each action calls, by its id
        self._guesses = SHOWN_MAX  # looking for what was meant takes time, and nobody reads more hints

    def say(self, path: Route, message: str, hint: str = "", *, at_key: bool = False) -> None:
        """Note an error."""
        self._note(path, message, hint, "error", at_key)

    def warn(self, path: Route, message: str, hint: str = "", *, at_key: bool = False) -> None:
        """Note something that is probably not meant."""
        self._note(path, message, hint, "warning", at_key)

    def warn_at(self, line: int, column: int, message: str) -> None:
        """Note something about a place that is no value."""
        self.problems.append(Problem(self.file, line, column, message, "", "warning"))

    def advise(self, path: Route, message: str, hint: str = "") -> None:
        """Note something that may be meant, and is worth knowing."""
        self._note(path, message, hint, "advice", at_key=False)

    def _note(self, path: Route, message: str, hint: str, severity: Severity, at_key: bool) -> None:
        line, column = self.places.key(path) if at_key else self.places[path]
        self.problems.append(Problem(self.file, line, column, message, hint, severity))

    def suggest(self, name: str, known: Iterable[str]) -> str:
        """ "did you mean `x`?" for a name like this one, or nothing."""
        allowed = list(known)[:KNOWN_MAX]
        if self._guesses <= 0 or not allowed:
            return ""
        self._guesses -= 1
        close = did_you_mean(name[:100], allowed).removeprefix("; ")
        begun = [one for one in allowed if len(name) > 2 and one.startswith(name)]
        if close and name.isascii() != close.isascii():
            return f"{close} It has other letters that look like these"
        return close or (f"did you mean `{begun[0]}`?" if len(begun) == 1 else "")

    def unknown(self, what: str, name: str, known: Iterable[str]) -> tuple[str, str]:
        """The message and the hint for a name that is not one of the known ones."""
        allowed = list(known)
        listed = ", ".join(f"`{one}`" for one in allowed[:20]) + (", …" if len(allowed) > 20 else "")
        return f"unknown {what} `{cut(name)}`", self.suggest(name, allowed) or (f"known: {listed}" if allowed else "")

    @property
    def is_sound(self) -> bool:
        """Whether no error has been found so far."""
        return all(problem.severity != "error" for problem in self.problems)

    def condition(self, path: Route, source: str) -> bool:
        """Compile a condition where it stands; False when it cannot be used."""
        try:
            compile_condition(source)
            self.readings.append(Reading(path, names(source)))
        except DefinitionError as error:
            self.say(path, error.problem)
            return False
        return True

    def template(self, path: Route, value: Any) -> bool:
        """Compile every expression in a value where it stands; False when one cannot be used."""
        if isinstance(value, dict):
            parts: Iterable[tuple[str | int, Any]] = value.items()
        elif isinstance(value, list):
            parts = enumerate(value)
        else:
            return not isinstance(value, str) or self._text(path, value)
        found = [self.template((*path, key), inner) for key, inner in parts]  # all of them, to note every problem
        return all(found)

    def _text(self, path: Route, value: str) -> bool:
        if not any(mark in value for mark in MARKS):
            return True
        try:
            compile_template(value)
            if "{{" in value:
                plain = PLAIN.fullmatch(
                    value
                )  # most are, and parsing them once more is what loading takes its time for
                self.readings.append(Reading(path, frozenset(plain.groups()) if plain is not None else names(value)))
        except DefinitionError as error:
            self.say(path, error.problem)
            return False
        return True

    def constant(self, path: Route, source: str) -> Any:
        """The value of an expression that reads only the file's own variables; None when it has none."""
        if not self.template(path, source):
            return None
        if any(not read.startswith("variables.") for read in names(source)):
            self.say(path, f"`{cut(source)}` must be known when the file is loaded", "it may read only `variables`")
            return None
        try:
            value = compile_template(source)({"variables": self.variables})
        except ExpressionError as error:
            self.say(path, str(error))
            return None
        if value is None:
            self.say(path, f"`{cut(source)}` gives nothing", "declare what it reads under `variables`")
        return value

    def as_written(self, path: Route) -> str:
        """A plain number as the file shows it: 1.10 is not 1.1 when it is a label."""
        line, column = self.places[path]
        rest = self.lines[line - 1][column - 1 :] if line <= len(self.lines) else ""
        found = re.match(r"[-+.\w]+", rest)
        return found.group() if found is not None else ""


def items(page: Page, path: Route, value: Any, what: str) -> Iterator[tuple[Route, Any]]:
    """The items of a list with their paths; a note where it is none."""
    if value is None:
        return
    if not isinstance(value, list):
        page.say(path, f"{what} must be a list, not {kind_of(value)}", "begin each item with `- `")
        return
    for index, inner in enumerate(value):
        yield (*path, index), inner


def kind_of(value: Any) -> str:
    """What a value is, in the words of people who write files."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, (int, float)):
        return f"the number {value}"
    if isinstance(value, str):
        return f"the text `{cut(value, 40)}`"
    return "a list" if isinstance(value, list) else "a mapping"
