"""Small wrong changes of a module, each at one place; made on its syntax tree, so that every one of them compiles."""

import ast
import copy
import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import NamedTuple

SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv,
}  # fmt: skip
WORDS = {"none": "possible", "possible": "none", "done": "possible"}  # what is known of a deed


class Mutant(NamedTuple):
    """One wrong change: where, in which function, and what it is."""

    file: str
    line: int
    function: str
    what: str
    number: int  # of the changes of this file
    end: int  # the last line of what is changed

    @property
    def place(self) -> str:
        """Where it is, for people."""
        return f"{self.file}:{self.line} {self.function}: {self.what}"


Change = Callable[[], None]


def mutants(root: Path, file: Path) -> list[Mutant]:
    """Every change that can be made in a file."""
    name = str(file.relative_to(root))
    return [
        Mutant(name, line, function, what, number, end)
        for number, (line, end, function, what, _) in enumerate(_changes(ast.parse(file.read_text())))
    ]


def mutated(root: Path, mutant: Mutant) -> ast.Module:
    """The module with that change in it."""
    tree = ast.parse((root / mutant.file).read_text())
    for number, (_, _, _, _, change) in enumerate(_changes(tree)):
        if number == mutant.number:
            change()
            return ast.fix_missing_locations(tree)
    raise LookupError(mutant.place)


def exchange(root: Path, mutant: Mutant) -> None:
    """Put the change into the functions of a module that is imported already."""
    file = str(root / mutant.file)
    changed = _codes(compile(mutated(root, mutant), file, "exec"))
    codes = {(code.co_qualname, code.co_firstlineno): code for code in changed}
    for one in gc.get_objects():
        if type(one) is FunctionType and one.__code__.co_filename == file:
            old = one.__code__
            new = codes.get((old.co_qualname, old.co_firstlineno), old)
            if len(new.co_freevars) == len(old.co_freevars):
                one.__code__ = new


def _codes(code: CodeType) -> Iterator[CodeType]:
    """The code of every function in a module, those inside of others as well."""
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield one
            yield from _codes(one)


def _changes(tree: ast.Module) -> Iterator[tuple[int, int, str, str, Change]]:
    for owner, name in _functions(tree):
        for node in _own_nodes(owner):
            for what, change in _changes_of(node):
                yield *_lines(node), name, what, change
            for body in (getattr(node, "body", None), getattr(node, "orelse", None)):
                if isinstance(body, list):
                    yield from ((*_lines(gone), name, what, change) for gone, what, change in _without(body))


def _lines(node: ast.AST) -> tuple[int, int]:
    """The first and last line that show whether a node was reached: of a block, those of its head."""
    shown = getattr(node, "test", node) if isinstance(node, (ast.If, ast.While)) else node
    return node.lineno, shown.end_lineno  # type: ignore[attr-defined,union-attr]


def _functions(tree: ast.Module) -> Iterator[tuple[ast.AST, str]]:
    def walk(node: ast.AST, names: tuple[str, ...]) -> Iterator[tuple[ast.AST, str]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield child, ".".join((*names, child.name))
            inner = (
                (*names, child.name)
                if isinstance(child, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
                else names
            )
            yield from walk(child, inner)

    yield from walk(tree, ())


def _own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function's body, without those of functions inside it, annotations and messages."""
    todo: list[ast.AST] = [function, *function.body]  # type: ignore[attr-defined]
    yield todo.pop(0)
    while todo:
        node = todo.pop(0)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.JoinedStr)):
            continue
        yield node
        skipped = node.annotation if isinstance(node, ast.AnnAssign) else None
        todo = [child for child in ast.iter_child_nodes(node) if child is not skipped] + todo


def _changes_of(node: ast.AST) -> Iterator[tuple[str, Change]]:
    match node:
        case ast.Compare(ops=[op]) if type(op) in SWAPS:
            yield f"{type(op).__name__} → {SWAPS[type(op)].__name__}", _set(node, "ops", [SWAPS[type(op)]()])
        case ast.BoolOp() | ast.BinOp() if type(node.op) in SWAPS:
            new = SWAPS[type(node.op)]
            yield f"{type(node.op).__name__} → {new.__name__}", _set(node, "op", new())
        case ast.UnaryOp(op=ast.Not()):
            yield "not x → bool(x)", _set(node, "op", ast.Not(), node.operand)
        case ast.If() | ast.While() | ast.IfExp():
            negated = ast.UnaryOp(ast.Not(), copy.copy(node.test))
            yield "condition turned round", _set(node, "test", negated)
        case ast.Constant(value=bool()):
            yield f"{node.value!r} → {not node.value}", _set(node, "value", not node.value)
        case ast.Constant(value=int() as number):
            yield f"{number} → {number + 1}", _set(node, "value", number + 1)
        case ast.Constant(value=str()) if node.value in WORDS:
            word = WORDS[str(node.value)]
            yield f"{node.value!r} → {word!r}", _set(node, "value", word)
        case ast.Return(value=ast.expr()) if not (isinstance(node.value, ast.Constant) and node.value.value is None):
            yield "returns None", _set(node, "value", ast.Constant(None))


def _set(node: ast.AST, field: str, value: object, operand: ast.expr | None = None) -> Change:
    def change() -> None:
        setattr(node, field, value)
        if operand is not None:
            node.operand = ast.UnaryOp(ast.Not(), operand)  # type: ignore[attr-defined]

    return change


def _without(body: list[ast.stmt]) -> Iterator[tuple[ast.stmt, str, Change]]:
    """A body without one of its statements."""
    for place, statement in enumerate(body):
        is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        is_deed = isinstance(statement, (ast.Expr, ast.Continue, ast.Break, ast.Raise, ast.AugAssign, ast.Delete))
        is_end = isinstance(statement, ast.Return) and statement.value is None
        is_kept = isinstance(statement, ast.Assign) and any(
            isinstance(one, (ast.Attribute, ast.Subscript)) for one in statement.targets
        )
        if (is_deed and not is_text) or is_end or is_kept:
            yield statement, f"without `{ast.unparse(statement).partition(chr(10))[0][:60]}`", _drop(body, place)


def _drop(body: list[ast.stmt], place: int) -> Change:
    def change() -> None:
        body[place] = ast.copy_location(ast.Pass(), body[place])

    return change
