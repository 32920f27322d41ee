"""A strict reader of YAML: plain JSON values, and the line and column of each of them.

The words are those of YAML 1.2: `on`, `off`, `yes` and `no` are text, and so are dates and times. Whatever would make a
file say something else than it shows (keys that are there twice, anchors, tags, merge keys) is refused, and every size
is limited before anything grows or recurses.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import yaml

from detent.define.problem import BrokenDefinition, Problem, cut
from detent.errors import DefinitionError

SOURCE_MAX = 1024 * 1024
DEPTH_MAX = 64
NODES_MAX = 50_000
SCALAR_MAX = 100_000
DIGITS_MAX = 18  # JSON readers elsewhere keep no more of a whole number

# The C parser is ten times as fast; the other gives the same events.
_Parser: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_WORDS = {"": None, "~": None, "null": None, "Null": None, "NULL": None}
_WORDS |= {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}  # type: ignore[dict-item]
_NUMERIC = frozenset("-+.0123456789")
_WHOLE = re.compile(r"[-+]?[0-9]+")
_BASED = re.compile(r"0(?:o[0-7]+|x[0-9a-fA-F]+)")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_ENDLESS = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_CONTROL = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

Route = tuple[str | int, ...]
_SCALAR, _MAPPING = yaml.ScalarEvent, yaml.MappingStartEvent
_MAPPING_END, _SEQUENCE_END = yaml.MappingEndEvent, yaml.SequenceEndEvent


class Document(NamedTuple):
    """What a file says: plain values, where each stands, and what is wrong with it so far."""

    file: str
    value: Any
    places: "Places"
    problems: list[Problem]
    source: str

    def part(self, *path: str | int) -> "Document":
        """What stands at a path, as a document of its own that still knows its lines."""
        value = self.value
        for key in path:
            value = value[key]
        return Document(self.file, value, self.places.part(path), [], self.source)

    def merge(self, other: "Document") -> "Document":
        """This document with the top-level keys of another added or put in place of its own."""
        value = {**(self.value or {}), **(other.value or {})}
        return Document(self.file, value, self.places.merge(other.places), self.problems, self.source)


class Places(Mapping[Route, tuple[int, int]]):
    """The line and column of every path, both from 1; a path is made of keys and positions.

    A path that is not there has the place of the longest part of it that is.
    """

    def __init__(self, marks: Any) -> None:
        self._marks = marks

    def __getitem__(self, path: Route) -> tuple[int, int]:
        return _at(self._walk(path, "value"))

    def key(self, path: Route) -> tuple[int, int]:
        """Where the key of a value stands; for an item of a list, the item."""
        return _at(self._walk(path, "key"))

    def part(self, path: Route) -> "Places":
        """The places of what stands at a path, seen from there."""
        return Places(self._walk(path, "value"))

    def merge(self, other: "Places") -> "Places":
        """These places, with the top-level keys of another mapping added or put in their place."""
        marks = [places._marks if type(places._marks) is tuple else (places._marks, {}) for places in (self, other)]
        return Places((marks[0][0], {**marks[0][1], **marks[1][1]}))

    def _walk(self, path: Route, want: str) -> Any:
        node = key = self._marks
        for part in path:
            inner = node[1] if type(node) is tuple else None
            try:
                if isinstance(inner, dict):
                    key, node = inner[part]
                elif isinstance(inner, list) and isinstance(part, int):
                    key = node = inner[part]
                else:
                    break
            except (KeyError, IndexError):
                break
        return key if want == "key" else node

    def __iter__(self) -> Iterator[Route]:
        pending: list[tuple[Route, Any]] = [((), self._marks)]
        while pending:
            path, node = pending.pop()
            yield path
            inner = node[1] if type(node) is tuple else None
            if isinstance(inner, dict):
                pending += [((*path, key), child) for key, (_, child) in reversed(inner.items())]
            elif isinstance(inner, list):
                pending += [((*path, index), child) for index, child in reversed(list(enumerate(inner)))]

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _at(node: Any) -> tuple[int, int]:
    mark = node[0] if type(node) is tuple else node
    return (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)


def read_file(path: Path) -> str:
    """The text of a file, if it is one that a person can have written."""
    try:
        if path.is_dir():
            raise DefinitionError("this is a folder; name the file in it", f"{path}:1:1")
        if path.exists() and not path.is_file():
            raise DefinitionError("this is not a plain file", f"{path}:1:1")
        with path.open("rb") as file:
            content = file.read(SOURCE_MAX + 1)
    except FileNotFoundError:
        raise DefinitionError("there is no such file", f"{path}:1:1") from None
    except (OSError, ValueError) as error:
        problem = getattr(error, "strerror", None) or str(error)
        raise DefinitionError(f"it cannot be read: {problem}", f"{path}:1:1") from None
    return decode(content, str(path))


def decode(content: bytes, file: str) -> str:
    """Bytes as text: UTF-8, with or without its mark."""
    if len(content) > SOURCE_MAX:
        raise DefinitionError(f"the file has more than {SOURCE_MAX:,} bytes", f"{file}:1:1")
    if content.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in content[:4]:
        way_out = "save it as UTF-8"
        raise DefinitionError(f"the file is UTF-16, UTF-32 or binary, not UTF-8; {way_out}", f"{file}:1:1")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start].decode("utf-8-sig", "replace")
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        problem = f"the byte 0x{content[error.start]:02x} is not UTF-8; save the file as UTF-8"
        raise DefinitionError(problem, f"{file}:{line}:{column}") from None


def read_document(source: str, file: str) -> Document:
    """Read one YAML document; raises at once only where there is no sense in reading on."""
    source = source.removeprefix("\ufeff")
    _check_source(source, file)
    return _Reader(source, file).read()


def _check_source(source: str, file: str) -> None:
    if len(source) > SOURCE_MAX:
        raise DefinitionError(f"the text has more than {SOURCE_MAX:,} characters", f"{file}:1:1")
    bad = _CONTROL.search(source)
    if bad is not None:
        line = source.count("\n", 0, bad.start()) + 1
        column = bad.start() - source.rfind("\n", 0, bad.start())
        what = "a NUL: the file is binary" if bad.group() == "\0" else f"the character U+{ord(bad.group()):04X}"
        problem = f"{what}, which cannot stand in YAML; save the file as UTF-8 text"
        raise DefinitionError(problem, f"{file}:{line}:{column}")
    directive = 0 if source.startswith("%") else source.find("\n%") + 1 or None
    if directive is not None:
        line = source.count("\n", 0, directive) + 1
        problem = "directives (lines that begin with `%`) are not allowed; leave them out"
        raise DefinitionError(problem, f"{file}:{line}:1")


class _Reader:
    """One pass over the parser's events; what is nested is read by a call, and how deep that goes is limited."""

    def __init__(self, source: str, file: str) -> None:
        self.source, self.file = source, file
        self.has_extras = "&" in source or "!" in source  # anchors and tags; most files cannot have any
        self.problems: list[Problem] = []
        self.nodes = 0

    def read(self) -> Document:
        try:
            return self._read()
        except yaml.YAMLError as error:
            self._say(*_syntax(error, self.source))
        except RecursionError:
            self._say(None, f"nested more than {DEPTH_MAX} deep")
        except _Stop:
            pass
        raise BrokenDefinition(self.problems) from None

    def _say(self, mark: Any, message: str, hint: str = "") -> None:
        line, column = _at(mark)
        self.problems.append(Problem(self.file, line, column, message, hint))

    def _stop(self, mark: Any, message: str, hint: str = "") -> NoReturn:
        self._say(mark, message, hint)
        raise _Stop

    def _read(self) -> Document:
        parser = _Parser(self.source)
        try:
            value, marks = self._documents(parser)
        finally:
            parser.dispose()
        return Document(self.file, value, Places(marks), self.problems, self.source)

    def _documents(self, parser: Any) -> tuple[Any, Any]:
        parser.get_event()  # the stream begins
        start = parser.get_event()
        if type(start) is yaml.StreamEndEvent:
            self._stop(None, "the file is empty", "write `states:` and `transitions:`")
        value, marks = self._tree(parser)
        parser.get_event()  # the document ends
        after = parser.get_event()
        if type(after) is not yaml.StreamEndEvent:
            self._say(after.start_mark, "a second document begins here", "one file holds one document; take out `---`")
        return value, marks

    def _tree(self, parser: Any) -> tuple[Any, Any]:
        """The value and its marks; a mark stands alone for a scalar, and with those of its parts for the rest."""
        self._next = parser.get_event
        return self._node(self._next(), 0)

    def _node(self, event: Any, depth: int) -> tuple[Any, Any]:
        kind = type(event)
        if kind is _SCALAR:
            return self._scalar(event), event.start_mark
        if kind is yaml.AliasEvent:
            self._say(event.start_mark, f"the alias `*{cut(event.anchor)}` is not allowed", "write the value out")
            return None, event.start_mark
        self.nodes += 1
        if self.nodes > NODES_MAX:
            self._stop(event.start_mark, f"more than {NODES_MAX:,} values in one file")
        if event.anchor is not None or event.tag is not None:
            self._extra(event)
        if depth >= DEPTH_MAX:
            self._stop(event.start_mark, f"nested more than {DEPTH_MAX} deep")
        made = self._mapping(depth + 1) if kind is _MAPPING else self._sequence(depth + 1)
        return made[0], (event.start_mark, made[1])

    def _mapping(self, depth: int) -> tuple[dict[str, Any], dict[str, Any]]:
        """The loop of the reader's time: what is nearly always there is looked at here, the rest elsewhere."""
        values: dict[str, Any] = {}
        parts: dict[str, Any] = {}
        next_event, scalar_event, node, scalar = self._next, _SCALAR, self._node, self._scalar
        while type(event := next_event()) is not _MAPPING_END:
            at = event.start_mark
            key = scalar(event) if type(event) is scalar_event else self._no_scalar(event)
            if type(key) is not str or key in parts or key == "<<":
                key = self._key(event, key, parts)
            event = next_event()
            if type(event) is scalar_event:
                value, mark = scalar(event), event.start_mark
            else:
                value, mark = node(event, depth)
            if key is not None:
                values[key] = value
                parts[key] = at, mark
        return values, parts

    def _sequence(self, depth: int) -> tuple[list[Any], list[Any]]:
        values: list[Any] = []
        parts: list[Any] = []
        next_event, node = self._next, self._node
        while type(event := next_event()) is not _SEQUENCE_END:
            value, mark = node(event, depth)
            values.append(value)
            parts.append(mark)
        return values, parts

    def _no_scalar(self, event: Any) -> Any:
        """A key that is an alias, or more than one value."""
        if type(event) is not yaml.AliasEvent:
            if event.anchor is not None or event.tag is not None:
                self._extra(event)
            hint = 'a key is plain text; an expression is written in quotes: "{{ … }}"'
            self._stop(event.start_mark, "a mapping or a list cannot be a key", hint)
        return self._node(event, 0)[0]

    def _extra(self, event: Any) -> None:
        if event.anchor is not None:
            self._say(event.start_mark, f"the anchor `&{cut(event.anchor)}` is not allowed", "write the value out")
        if event.tag is not None:
            tag = str(event.tag).replace("tag:yaml.org,2002:", "!!")
            self._say(event.start_mark, f"the tag `{cut(tag)}` is not allowed", "write the plain value")

    def _scalar(self, event: Any) -> Any:
        self.nodes = nodes = self.nodes + 1
        text: str = event.value
        if nodes > NODES_MAX:
            self._stop(event.start_mark, f"more than {NODES_MAX:,} values in one file")
        if len(text) > SCALAR_MAX:
            self._stop(event.start_mark, f"a text of more than {SCALAR_MAX:,} characters")
        if self.has_extras and (event.anchor is not None or event.tag is not None):
            self._extra(event)
        if not event.implicit[0]:
            return text if text.isascii() else self._whole_characters(event, text)
        return self._number(event, text) if text[:1] in _NUMERIC else _WORDS.get(text, text)

    def _whole_characters(self, event: Any, text: str) -> str:
        """An escape may name half a character, which no file can hold."""
        try:
            text.encode()
        except UnicodeEncodeError:
            self._say(event.start_mark, "the text holds half a character (a lone surrogate)")
            return ""
        return text

    def _number(self, event: Any, text: str) -> Any:
        """What a plain scalar that begins like a number means by the rules of YAML 1.2."""
        if _WHOLE.fullmatch(text) or _BASED.fullmatch(text):
            if len(text.lstrip("+-0")) > DIGITS_MAX:
                self._say(event.start_mark, f"a whole number of more than {DIGITS_MAX} digits", "write it in quotes")
                return 0
            return int(text) if text[1:2] not in ("o", "x") else int(text, 0)
        if _FLOAT.fullmatch(text):
            value = float(text)
            if value in (float("inf"), float("-inf")):
                self._say(event.start_mark, f"`{cut(text)}` is too large for a number", "write it in quotes")
            return value if -1e308 < value < 1e308 else 0.0
        if _ENDLESS.fullmatch(text):
            self._say(event.start_mark, f"`{text}` is not a number that JSON has", "use null or a text")
            return 0.0
        return text

    def _key(self, event: Any, key: Any, before: dict[str, Any]) -> str | None:
        """A mapping's key, or None where its value must be left out."""
        mark = event.start_mark
        if not isinstance(key, str):
            shown = cut(event.value) if type(event) is yaml.ScalarEvent and event.value else "null"
            self._say(mark, f"the key `{shown}` is not text", "write it in quotes")
            return None
        if key == "<<" and event.implicit[0]:
            self._say(mark, "merge keys (`<<`) are not allowed", "write the values out")
            return None
        if key in before:
            line, column = _at(before[key][0])
            lines = f", in lines {line} and {mark.line + 1}" if line != mark.line + 1 else ""
            hint = f"it stands first in line {line}, column {column}"
            self._say(mark, f"the key `{cut(key)}` is there twice{lines}", hint)
            return None
        return key


class _Stop(Exception):
    """There is no sense in reading on; what is wrong has been said."""


def _is_quoted(line: str) -> bool:
    """Whether the text with the first expression of a line is in double quotes already, which end too early."""
    return line[: line.index("{{")].count('"') % 2 == 1


def _syntax(error: yaml.YAMLError, source: str) -> tuple[Any, str, str]:
    """The parser's complaint in words that help."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    problem = str(getattr(error, "problem", None) or error)
    lines = source.splitlines()
    line = lines[mark.line] if mark is not None and mark.line < len(lines) else ""
    hint = ""
    if "\\t" in problem or "\t" in line[: mark.column + 1 if mark is not None else 0]:
        hint = "indent with blanks, not with tabs"
    elif "mapping values are not allowed" in problem:
        hint = "a text with `: ` in it needs quotes, and keys of one mapping stand in one column"
    elif "{{" in line and _is_quoted(line):
        hint = "inside double quotes write single ones, as in \"{{ context['name'] }}\""
    elif "{{" in line or "{%" in line:
        hint = 'the whole text around an expression is written in quotes: "echo {{ … }}"'
    elif "cannot start any token" in problem:
        hint = "a text that begins with this sign needs quotes"
    elif "expected <block end>" in problem or "did not find expected key" in problem:
        hint = "look at the indentation, and at a quote or bracket that is not closed before this line"
    return mark, f"this is not YAML: {problem}", hint
