"""A shell line with references in it: each value reaches the shell in a variable, quoted where it stands.

The line itself is fixed when the file is loaded. Whatever a value holds, the shell sees one word of text and no code.
"""

import re
from typing import NamedTuple

from detent.define.steps.reference import EITHER, StepScope, TextPiece, escape, fill, render_text, split

_HEREDOC = re.compile(r"<<(-?)\s*(['\"]?)([A-Za-z_][A-Za-z0-9_]*)\2")
_UNQUOTED = ("plain", "command", "tick")


class ShellLine(NamedTuple):
    """A line for `sh -c`, the variables it reads, and what is wrong with it."""

    text: str
    variables: dict[str, str]
    problem: str = ""


def render_line(text: str, scope: StepScope, *, is_unsafe: bool) -> ShellLine:
    """The line with its references as quoted variables; where the file wants it unsafe, with their text as code."""
    if is_unsafe:
        return ShellLine(render_text(text, scope), {})
    writer = _Writer(text, scope)
    writer.walk()
    return ShellLine(escape("".join(writer.made)), writer.variables, writer.problem)


def _insert(name: str, inside: str, other: str) -> str:
    """How a variable is read where it stands; `other` is what the shell reads where no such argument was given."""
    plain = f"${{{name}-{other}}}" if other else f"${{{name}}}"
    if inside == "single":
        literal = f"${{{name}-\\{other[:-1]}\\}}}}" if other else plain
        return f"'\"{literal}\"'"
    if inside not in _UNQUOTED:
        return plain
    # The second variable is there, and empty, exactly when the first is: then the shell's own is not read.
    return f'${{{name}+"${{{name}}}"}}${{{name}_-{other}}}' if other else f'"{plain}"'


class _Writer:
    """One pass over a line that knows, at every place, how the shell would read what stands there."""

    def __init__(self, text: str, scope: StepScope) -> None:
        self.text, self.scope = text, scope
        self.made: list[str] = []
        self.variables: dict[str, str] = {}
        self.problem = ""
        self._names: dict[str, str] = {}
        self._stack = ["plain"]
        self._pending: list[tuple[str, bool, bool]] = []  # here-documents that begin with the next line
        self._at = 0

    def walk(self) -> None:
        """Read the whole line."""
        while self._at < len(self.text):
            if not self._reference():
                self._character()

    def _copy(self, length: int = 1) -> None:
        self.made.append(self.text[self._at : self._at + length])
        self._at += length

    def _reference(self) -> bool:
        found = EITHER.match(self.text, self._at)
        pieces = list(split(found.group(), self.scope)) if found is not None else []
        if found is None or not pieces or not isinstance(pieces[0], TextPiece):
            return False
        self._at = found.end()
        inside = self._stack[-1]
        if inside == "quoted document":
            self.problem = f"`{found.group()}` stands in a here-document that the shell does not look into"
            return True
        name = self._variable(pieces[0], is_stripped=inside in _UNQUOTED)
        self.made.append(_insert(name, inside, found.group() if pieces[0].fallback else ""))
        return True

    def _variable(self, piece: TextPiece, *, is_stripped: bool) -> str:
        """The variable that holds a reference's text; at the end of a plain word, line ends mean nothing."""
        expression = fill(piece._replace(fallback=""), is_stripped)
        if piece.fallback:  # absent where no such argument was given, so that the shell's own variable stands
            expression = f"({expression}) if '{piece.name}' in context else none"
        if expression not in self._names:
            base = f"step_{re.sub(r'[^A-Za-z0-9]', '_', piece.name)}"
            name, number = base, 1
            while name in self.variables:
                number += 1
                name = f"{base}_{number}"
            self._names[expression] = name
            self.variables[name] = f"{{{{ {expression} }}}}"
            if piece.fallback:
                self.variables[f"{name}_"] = f"{{{{ '' if '{piece.name}' in context else none }}}}"
        return self._names[expression]

    def _character(self) -> None:
        character, inside = self.text[self._at], self._stack[-1]
        if inside == "single":
            if character == "'":
                self._stack.pop()
            self._copy()
        elif inside == "quoted document":
            self._copy()
        elif character == "\\" and inside != "single":
            self._copy(2)
        elif character == "$" and self.text.startswith("$((", self._at):
            self._stack.append("arithmetic")
            self._copy(3)
        elif character == "$" and self.text.startswith("$(", self._at):
            self._stack.append("command")
            self._copy(2)
        elif character == "`":
            self._toggle("tick")
        elif character == '"' and inside != "document":
            self._toggle("double")
        elif inside == "arithmetic" and self.text.startswith("))", self._at):
            self._stack.pop()
            self._copy(2)
        elif inside in _UNQUOTED or inside == "group":
            self._plain(character)
        else:
            self._copy()

    def _toggle(self, kind: str) -> None:
        if self._stack[-1] == kind:
            self._stack.pop()
        else:
            self._stack.append(kind)
        self._copy()

    def _plain(self, character: str) -> None:
        """A character outside quotes."""
        if character == "'":
            self._stack.append("single")
        elif character == "(" and self._stack[-1] == "command":
            self._stack.append("command")
        elif character == ")" and self._stack[-1] == "command":
            self._stack.pop()
        elif character == "#" and (not self.made or self.made[-1][-1:] in ("", " ", "\t", "\n", ";", "&", "|", "(")):
            end = self.text.find("\n", self._at)
            self._copy((end if end >= 0 else len(self.text)) - self._at)
            return
        elif character == "<" and (found := _HEREDOC.match(self.text, self._at)) is not None:
            self._pending.append((found.group(3), bool(found.group(2)), bool(found.group(1))))
            self._copy(len(found.group()))
            return
        self._copy()
        if character == "\n" and self._pending:
            self._documents()

    def _documents(self) -> None:
        """The bodies of here-documents, each up to its word."""
        for word, is_quoted, is_indented in self._pending:
            self._stack.append("quoted document" if is_quoted else "document")
            while self._at < len(self.text):
                end = self.text.find("\n", self._at)
                stop = end + 1 if end >= 0 else len(self.text)
                line = self.text[self._at : stop].rstrip("\n")
                is_last = (line.lstrip("\t") if is_indented else line) == word
                while self._at < stop:
                    if not self._reference():
                        self._character()
                if is_last:
                    break
            self._stack.pop()
        self._pending.clear()
