"""References in texts: `${arg}` and `$step.field.path`, as expressions of the machine.

A name that is neither an argument nor a step that has run stays as it is written, for the shell to read.
"""

import re
from collections.abc import Iterator
from keyword import iskeyword
from typing import NamedTuple

REFERENCE = re.compile(r"\$([A-Za-z0-9_-]+)\.([A-Za-z0-9_]+(?:\.[A-Za-z0-9_]+)*)")
EITHER = re.compile(r"\$\{([A-Za-z0-9_-]+)\}|" + REFERENCE.pattern)
MARK = re.compile(r"\{(?=[{%#])|\}(?=[}])")
FIELDS = (
    "stdout", "json", "approved", "approvedBy", "skipped", "error", "errorMessage", "response", "subject", "id",
)  # fmt: skip
JINJA_WORDS = frozenset({"true", "false", "none", "elif", "else", "if", "for", "in", "is", "not", "and", "or"})


class StepSource(NamedTuple):
    """Where the result of a step is found: its place as an expression, and those of its answer and its subject."""

    result: str
    answer: str = "none"
    subject: str = "none"
    is_item: bool = False  # an item of a loop, or its position
    ids: str = ""  # where the ids of branches are kept, if they are other than their names

    def read(self, path: str) -> str:
        """An expression for a field of the step and what is inside it."""
        if not self.is_item:
            more = f", {self.ids}" if self.ids else ""
            return f"({self.result} | step({quote(path)}, {self.answer}, {self.subject}{more}))"
        first, _, rest = path.partition(".")
        if first == "json":
            return f"({self.result} | step_at({quote(rest)}))"
        return f"('null' if {self.result} is none else {self.result} | step_text)" if path == "stdout" else "none"

    def has(self, path: str) -> str:
        """An expression for whether there is anything at that path."""
        if not self.is_item:
            return self.read(path).replace(" | step(", " | step_has(", 1)
        first, _, rest = path.partition(".")
        if first == "json":
            return f"({self.result} | step_has_at({quote(rest)}))"
        return "true" if path == "stdout" else "false"


class StepScope(NamedTuple):
    """What a text can refer to: the arguments that have a default, and the steps that come before.

    Any other argument may be given to a run or not; then its name stays for the shell to read.
    """

    arguments: frozenset[str]
    sources: dict[str, StepSource]

    def inside(self, more: dict[str, StepSource]) -> "StepScope":
        """The same with further names, as in a loop."""
        return self._replace(sources={**self.sources, **more})


class TextPiece(NamedTuple):
    """A reference in a text."""

    name: str
    expression: str
    fallback: str = ""  # the text it stays if no such argument was given


def path_of(root: str, name: str) -> str:
    """A key of one of the scopes as an expression."""
    is_plain = name.isidentifier() and not iskeyword(name) and name not in JINJA_WORDS and not name.startswith("_")
    return f"{root}.{name}" if is_plain else f"{root}[{quote(name)}]"


def quote(text: str) -> str:
    """A text as a literal of an expression."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\r", "\\r") + "'"


def split(text: str, scope: StepScope) -> Iterator[str | TextPiece]:
    """The parts of a text: what stays, and what is referred to."""
    at = 0
    for found in EITHER.finditer(text):
        piece = _piece(found, scope)
        if piece is None:
            continue
        if found.start() > at:
            yield text[at : found.start()]
        yield piece
        at = found.end()
    if at < len(text):
        yield text[at:]


def _piece(found: re.Match[str], scope: StepScope) -> TextPiece | None:
    argument, step, path = found.groups()
    if argument is not None:
        expression = f"context | step_at({quote(argument)}) | default('null')"
        return TextPiece(argument, f"({expression})", "" if argument in scope.arguments else found.group())
    if step not in scope.sources:
        return None
    expression = scope.sources[step].read(path)
    return TextPiece(step, f"({expression} or false)" if path in ("approved", "skipped") else expression)


def escape(text: str) -> str:
    """A text that a template leaves as it is."""
    return MARK.sub(lambda found: "{{ '" + found.group() + "' }}", text)


def render_text(text: str, scope: StepScope) -> str:
    """A template for a text with its references filled in."""
    return "".join(escape(part) if isinstance(part, str) else f"{{{{ {fill(part)} }}}}" for part in split(text, scope))


def fill(piece: TextPiece, is_stripped: bool = False) -> str:
    """An expression for the text of a reference."""
    made = f"{piece.expression} | step_text({'true' if is_stripped else 'false'})"
    if not piece.fallback:
        return made
    return f"({made}) if {quote(piece.name)} in context else {quote(piece.fallback)}"


def render_value(text: str, scope: StepScope) -> str:
    """A template for a text; one that is wholly one reference keeps its type."""
    parts = list(split(text.strip(), scope))
    if len(parts) == 1 and isinstance(parts[0], TextPiece):
        whole = parts[0].expression.replace(" | default('null')", "")
        return f"{{{{ {whole} }}}}"
    return render_text(text, scope)
