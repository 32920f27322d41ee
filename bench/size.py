"""How large the package is: lines of code by folder, without blanks, comments and docstrings.

`./run bench size` prints the folders with a budget; `python -m bench.size FOLDER` counts each module of a folder.
"""

import ast
import io
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

from bench.figure import Figure

SOURCE = Path(__file__).parents[1] / "src" / "detent"
# docs/decisions/0037-budgets-of-size.md
BUDGETS = {
    "core": 5600,
    "define": 8210,
    "effects": 4990,
    "host": 12220,
    "kit": 7150,
    "surfaces": 12160,
    "testing": 4290,
}
WITHOUT_AGENTS, PACKAGE = 56_690, 83_490
_NO_CODE = frozenset(
    {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
)


def code_lines(source: str) -> int:
    """The lines of a module that hold a token of code."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines.difference(_docstrings(ast.parse(source))))


def _docstrings(tree: ast.Module) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
            match node.body[0]:
                case ast.Expr(value=ast.Constant(value=str()), lineno=first, end_lineno=last):
                    yield from range(first, (last or first) + 1)


def count(place: Path) -> int:
    """The lines of code of a module, or of a folder with everything in it."""
    paths = sorted(place.rglob("*.py")) if place.is_dir() else [place]
    return sum(code_lines(path.read_text(encoding="utf-8")) for path in paths)


def size() -> Iterator[Figure]:
    """Each folder of the package against its budget, and the whole."""
    guests = 0
    for folder in sorted(path for path in SOURCE.iterdir() if any(path.glob("*.py"))):
        lines, budget = count(folder), BUDGETS.get(folder.name, 0)
        guests += lines if folder.name == "agents" else 0
        yield _figure(folder.name, lines, budget)
    whole = count(SOURCE)
    yield _figure("without agents", whole - guests, WITHOUT_AGENTS)
    yield _figure("the package", whole, PACKAGE)


def _figure(name: str, lines: int, budget: int) -> Figure:
    ratio = round(lines / budget, 2) if budget else 0.0
    bar = f"≤ {budget}" if budget else "none"
    return Figure("size", name, lines, "lines", budget, ratio, bar, not budget or lines <= budget)


GROUPS = {"size": size}


if __name__ == "__main__":
    for place in sorted((SOURCE / sys.argv[1]).iterdir()):
        if place.suffix == ".py" or place.is_dir():
            print(f"{count(place):>6} {place.name}")
