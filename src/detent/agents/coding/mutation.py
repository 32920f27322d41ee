"""Small wrong changes of the lines that a worker has added: would the tests notice them?

Tests that pass whatever the new lines do say nothing about them. So a few variants of the new source are made, each
with one thing turned round, and checked like the original. Those that no test minds are named.
"""

import ast
import itertools
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

SWAPPED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip


class Mutant(NamedTuple):
    """A file with one wrong change."""

    line: int
    what: str
    text: str


def make_mutants(text: str, lines: Collection[int], most: int) -> list[Mutant]:
    """Up to so many variants of a Python file, spread over the given lines."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return []
    found: dict[int, list[Mutant]] = {}
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        if line not in lines or getattr(node, "end_lineno", 0) != line:
            continue
        for new in _list_variants(node):
            changed = replace_nodes(text, [(node, new)])
            if changed != text:
                found.setdefault(line, []).append(Mutant(line, f"`{new}`", changed))
    rows = [found[line] for line in sorted(found)]
    spread = [row[turn] for turn in range(max(map(len, rows), default=0)) for row in rows if turn < len(row)]
    return spread[:most]


def _list_variants(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Return) and node.value is not None and not _is_none(node.value):
        yield "return None"
    elif isinstance(node, ast.Compare):
        yield f"(not ({ast.unparse(node)}))"
    elif isinstance(node, ast.BinOp) and type(node.op) in SWAPPED:
        yield f"({ast.unparse(ast.BinOp(node.left, SWAPPED[type(node.op)](), node.right))})"
    elif isinstance(node, ast.BoolOp):
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield f"({ast.unparse(ast.BoolOp(other, node.values))})"
    elif isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) and not isinstance(node.value, bool):
        yield repr(node.value + 1)


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def replace_nodes(text: str, edits: Iterable[tuple[ast.AST, str]]) -> str:
    """The text with what these nodes stand for replaced; none lies in another. Columns count bytes."""
    body = text.encode()
    starts = [0, *itertools.accumulate(len(row) for row in body.splitlines(keepends=True))]
    spans = [
        (
            starts[_at(n, "lineno") - 1] + _at(n, "col_offset"),
            starts[_at(n, "end_lineno") - 1] + _at(n, "end_col_offset"),
            new,
        )
        for n, new in edits
    ]
    for start, end, new in sorted(spans, reverse=True):
        body = body[:start] + new.encode() + body[end:]
    return body.decode()


def _at(node: ast.AST, name: str) -> int:
    return int(getattr(node, name))
