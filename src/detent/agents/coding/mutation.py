"""Small wrong changes of the lines that a worker has added: would the tests notice them?

Tests that pass whatever the new lines do say nothing about them. So a few variants of the new source are made, each
with one thing turned round, and checked like the original. Those that no test minds are named.
"""

import ast
import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

SWAPPED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
UNIT_MAX = 200  # variants of one function or statement


class Mutant(NamedTuple):
    """A file with one wrong change."""

    line: int
    what: str
    text: str


def make_mutants(text: str, lines: Collection[int], most: int) -> list[Mutant]:
    """Up to so many variants of a Python file: of every function with such lines one, then of every function another.

    What is in no function comes last, and of each such statement only one: a table of a thousand numbers is one thing.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return []
    inside, outside = list[list[Mutant]](), list[list[Mutant]]()
    for unit in _list_units(tree.body):
        found = _spread_over_lines(_mutate(text, unit, lines))
        if isinstance(unit, FUNCTIONS):
            inside.append(found)
        else:
            outside.append(found[:1])
    return [*_take_turns(inside), *_take_turns(outside)][:most]


def _list_units(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The functions and methods of a file, and the statements that are in none."""
    for item in body:
        if isinstance(item, ast.ClassDef):
            yield from _list_units(item.body)
        else:
            yield item


def _mutate(text: str, unit: ast.stmt, lines: Collection[int]) -> Iterator[Mutant]:
    for node in ast.walk(unit):
        line = getattr(node, "lineno", 0)
        if line in lines and getattr(node, "end_lineno", 0) == line:
            for new in _list_variants(node):
                changed = replace_nodes(text, [(node, new)])
                if changed != text:
                    yield Mutant(line, f"`{new}`", changed)


def _spread_over_lines(mutants: Iterable[Mutant]) -> list[Mutant]:
    found: dict[int, list[Mutant]] = {}
    for mutant in itertools.islice(mutants, UNIT_MAX):
        found.setdefault(mutant.line, []).append(mutant)
    return _take_turns([found[line] for line in sorted(found)])


def _take_turns(rows: Sequence[Sequence[Mutant]]) -> list[Mutant]:
    """Of every row the first, then of every row the second."""
    return [one for turn in itertools.zip_longest(*rows) for one in turn if one is not None]


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
