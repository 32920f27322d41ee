"""From source to tree: Jinja2's grammar for one expression, and the paths that stand in it.

The source is scanned before the parser sees it: the parser recurses, and a hostile source would exhaust its stack.
"""

import functools
import re
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from detent.errors import DefinitionError

if TYPE_CHECKING:
    from jinja2 import Environment, nodes

SOURCE_MAX = 4_000
NESTING_MAX = 40

TOO_DEEP = f"nested more than {NESTING_MAX} deep; split it into several expressions"
STATEMENT = "`{% %}` statements and `{# #}` comments are not allowed; only `{{ }}` expressions are"
_PLAIN_PATH = re.compile(r"\s*([A-Za-z]\w*(?:\.[A-Za-z]\w*)*)\s*", re.ASCII)
_RESERVED = frozenset({"true", "false", "none", "True", "False", "None", "not", "and", "or", "if", "else", "in", "is"})
_BAD_ESCAPE = re.compile(r"""\\[^'"\nabfnrtv0-7xuUN]""")
_OPENING, _CLOSING, _SIGNS = frozenset("([{"), frozenset(")]}"), frozenset({"not", "-", "+"})


def shorten(source: str) -> str:
    line = " ".join(source[:200].split()).encode(errors="replace").decode()
    return line if len(line) <= 60 else f"{line[:59]}…"


@functools.cache
def _environment() -> "Environment":
    # Jinja2 takes longer to import than the rest of detent: only who compiles an expression pays for it.
    from jinja2 import Environment  # noqa: PLC0415

    return Environment(autoescape=False, keep_trailing_newline=True)  # noqa: S701 - we only parse


@contextmanager
def refusing(source: str) -> Iterator[None]:
    """Turn whatever goes wrong with a source at load into one error that shows it."""
    try:
        yield
    except DefinitionError as error:
        problem = error.problem
    except RecursionError:
        problem = TOO_DEEP
    except Exception as error:  # noqa: BLE001 - Jinja's lexer also lets ValueError and SyntaxError through
        problem = str(getattr(error, "message", None) or error)
        if "{%" in source or "{#" in source:
            problem = STATEMENT
        elif "{{" in source:
            problem += "; write the whole expression inside one `{{ }}`"
    else:
        return
    raise DefinitionError(f"`{shorten(source)}`: {problem}")


def plain_path(source: str) -> list[str]:
    """The keys of an expression that is one path of ordinary names, which most are; empty: it needs the parser."""
    found = _PLAIN_PATH.fullmatch(source) if len(source) <= 400 else None
    keys = found.group(1).split(".") if found is not None else []
    return [] if _RESERVED.intersection(keys) else keys


@functools.lru_cache(16)  # whoever compiles an expression also asks which paths it reads
def parse(source: str) -> "nodes.Expr":
    from jinja2.parser import Parser  # noqa: PLC0415 - see _environment

    if len(source) > SOURCE_MAX:
        raise DefinitionError(f"longer than {SOURCE_MAX:,} characters; split it")
    if not source.strip():
        raise DefinitionError("an expression is missing")
    source.encode()
    _scan(_environment().lexer.tokeniter(source, None, state="variable"))
    parser = Parser(_environment(), source, state="variable")
    node = parser.parse_expression()
    if not parser.stream.eos:
        rest = shorten(str(parser.stream.current.value))
        raise DefinitionError(f"unexpected `{rest}` after a complete expression")
    return node


def _scan(tokens: Iterable[tuple[int, str, str]]) -> None:
    """Refuse what is nested too deep for a recursive parser, and escapes that Python only warns about."""
    levels = [0]
    signs = 0
    for _, sort, value in tokens:
        if sort == "whitespace":
            continue
        if sort == "string" and (bad := _BAD_ESCAPE.search(value.replace("\\\\", ""))):
            raise DefinitionError(f"unknown escape `{bad.group()}` in a text; write `\\{bad.group()}`")
        if value in _OPENING:
            levels.append(max(signs, 1))
        elif value in _CLOSING:
            levels.pop()
        elif value == "else":
            levels[-1] += 1
        signs = signs + 1 if value in _SIGNS else 0
        if sum(levels) + max(signs - 1, 0) > NESTING_MAX:
            raise DefinitionError(TOO_DEEP)


def paths(tree: "nodes.Expr", *, is_needed: bool = False) -> Iterator[str]:
    """The paths that an expression reads; `is_needed`: without those for whose absence it provides."""
    pending: list[Any] = [tree]
    while pending:
        node = pending.pop()
        if is_needed and _provides(node):
            continue
        if type(node).__name__ not in ("Name", "Getattr", "Getitem"):
            pending.extend(node.iter_child_nodes())
            continue
        base, keys = unwind(node)
        pending.extend(key for key in keys if not isinstance(key, str))
        if type(base).__name__ == "Name":
            static = takewhile(lambda key: isinstance(key, str) and "." not in key, keys)
            yield ".".join((base.name, *static))
        else:
            pending.append(base)


def _provides(node: Any) -> bool:
    """Whether an expression looks whether there is a value, or has another for when there is none."""
    kind = type(node).__name__
    return kind in ("Or", "CondExpr", "Test") or (kind == "Filter" and node.name == "default")


def public(name: str) -> str:
    if unicodedata.normalize("NFKC", name).startswith("_"):
        raise DefinitionError(f"`{shorten(name)}` is private: a name may not start with `_`")
    return name


def unwind(node: Any) -> tuple[Any, list[Any]]:
    """A path as its base and its keys: text for a key known at load, a node for any other."""
    keys: list[Any] = []
    while (name := type(node).__name__) in ("Getattr", "Getitem"):
        key = node.attr if name == "Getattr" else node.arg
        if type(key).__name__ == "Const" and isinstance(key.value, str):
            key = key.value
        keys.append(public(key) if isinstance(key, str) else key)
        node = node.node
    if name == "Name":
        public(node.name)
    return node, keys[::-1]
