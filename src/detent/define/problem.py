"""What is wrong with a definition file: every problem with its place, and all of them at once.

A problem is an error, a warning, or advice on what is right as it stands. Only errors keep a file from being used, and
they are raised together at the end.
"""

from collections.abc import Iterable
from typing import Literal, NamedTuple

from detent.errors import DefinitionError

SHOWN_MAX = 50  # a reader who has so much to mend needs no more

Severity = Literal["error", "warning", "advice"]


class Problem(NamedTuple):
    """One thing that is wrong, where it stands, and what would be right."""

    file: str
    line: int
    column: int
    message: str
    hint: str = ""
    severity: Severity = "error"

    @property
    def where(self) -> str:
        """The place as editors know it."""
        return f"{self.file}:{self.line}:{self.column}"

    @property
    def text(self) -> str:
        """What is wrong and what would be right, without the place."""
        return f"{self.message}; {self.hint}" if self.hint else self.message

    def __str__(self) -> str:
        mark = "" if self.severity == "error" else f"{self.severity}: "
        return f"{self.where}: {mark}{self.text}"


class BrokenDefinition(DefinitionError):
    """A file with problems; the message shows all of them, `problems` holds them as data."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(problems, key=lambda p: (p.file, p.line, p.column)))
        if len(self.problems) == 1:
            super().__init__(self.problems[0].text, self.problems[0].where)
            return
        shown = [str(problem) for problem in self.problems[:SHOWN_MAX]]
        if len(self.problems) > SHOWN_MAX:
            shown.append(f"… and {len(self.problems) - SHOWN_MAX:,} more problems")
        super().__init__("\n".join(shown))


def refuse(problems: Iterable[Problem]) -> None:
    """Raise the errors among these problems, if there are any."""
    errors = [problem for problem in problems if problem.severity == "error"]
    if errors:
        raise BrokenDefinition(errors)


def cut(text: object, length: int = 60) -> str:
    """A value short enough for one line, and printable."""
    line = " ".join(str(text)[: length * 4].split()).encode(errors="replace").decode()
    line = "".join(mark if mark.isprintable() else "\N{REPLACEMENT CHARACTER}" for mark in line)
    return line if len(line) <= length else f"{line[: length - 1]}…"
