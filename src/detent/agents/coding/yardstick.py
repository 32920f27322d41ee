"""What tests measure by, where it lies in the source: how objects compare, and functions whose results are expected.

A worker who cannot change the tests may change these instead. An honest one may, too; so it is shown.
"""

import ast
from collections.abc import Collection, Iterable, Iterator

COMPARING = {
    "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__bool__", "__contains__", "__instancecheck__",
}  # fmt: skip
KINDS = {"__instancecheck__", "__subclasscheck__", "__subclasshook__"}  # what decides of which kind something is
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
Function = ast.FunctionDef | ast.AsyncFunctionDef


def list_changed_yardsticks(
    tree: ast.Module, before: str, lines: Collection[int], tests: Iterable[str]
) -> Iterator[tuple[int, str]]:
    """Changed functions that decide what is equal, of which kind something is, or what a test expects."""
    try:
        was = {node.name for node in ast.walk(ast.parse(before)) if isinstance(node, FUNCTIONS)}
    except (SyntaxError, ValueError, RecursionError):
        was = set()
    functions = [node for node in ast.walk(tree) if isinstance(node, FUNCTIONS)]
    changed = [node for node in functions if lines and _is_changed(node, lines)]
    names = {node.name for node in changed}
    deciding = {name for node in functions if node.name in COMPARING for name in _list_called(node)} | COMPARING
    expected = {name for text in tests for name in _list_expected(text, names)} if names else set()
    for node in changed:
        if node.name in KINDS:
            yield node.lineno, f"`{node.name}` decides of which kind something is"
        elif node.name in deciding and node.name in was and COMPARING & was:
            yield node.lineno, f"`{node.name}` decides what is equal, and is another one"
        elif node.name in expected and node.name in was:
            yield node.lineno, f"tests expect what `{node.name}` gives, and it is another one"


def _is_changed(node: Function, lines: Collection[int]) -> bool:
    return any(line in lines for line in range(node.lineno, (node.end_lineno or node.lineno) + 1))


def _list_called(node: ast.AST) -> set[str]:
    calls = [inner.func for inner in ast.walk(node) if isinstance(inner, ast.Call)]
    return {func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "") for func in calls} - {""}


def _list_expected(test: str, changed: set[str]) -> Iterator[str]:
    """Of the changed functions those on the right of an equation on whose left none is."""
    try:
        nodes = list(ast.walk(ast.parse(test)))
    except (SyntaxError, ValueError, RecursionError):
        return
    for node in nodes:
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Eq):
            left, right = _list_called(node.left), _list_called(node.comparators[0])
            if left and not left & changed:
                yield from right & changed
