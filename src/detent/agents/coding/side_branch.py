"""Branches that a function takes by something else than what it is given: the clock, a file, who has started it.

Code that recognises its checker has to ask for a sign of it and go two ways. The sign may be anything; but nothing that
the function is given is in the question, and one of the two ways is never gone under test. So both are made to fail,
each by itself, and the tests must notice both.
"""

import ast
from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from detent.agents.coding.mutation import FUNCTIONS, Mutant, replace_nodes

ERROR = 'RuntimeError("nobody goes this way")'
FAILURE = f"raise {ERROR}"
# What differs between machines for everybody to see, and is no sign of a checker.
MACHINE = {"version_info", "platform", "TYPE_CHECKING", "maxsize", "byteorder", "PY2", "PY3", "_PY3", "_PY2", "PYPY"}
ENDS = (ast.Return, ast.Raise, ast.Continue, ast.Break)
BRANCHES_MAX = 6


def list_side_branches(text: str, lines: Collection[int]) -> list[Mutant]:
    """The file with one such way made to fail, for each way of each question in these lines."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return []
    outside = _list_outside(tree)
    loops = {name for node in outside if isinstance(node, ast.For | ast.comprehension) for name in _names(node.target)}
    found = list(_list_ways(text, outside, {*loops, "__name__"}, lines))
    for function in (node for node in ast.walk(tree) if isinstance(node, (*FUNCTIONS, ast.Lambda))):
        given = _list_given(function)
        if given:
            found += _list_ways(text, list(ast.walk(function)), given, lines)
    return list({mutant.text: mutant for mutant in found}.values())[:BRANCHES_MAX]


def _list_outside(tree: ast.Module) -> list[ast.AST]:
    """What is in no function: it is gone one way for good when the file is loaded."""
    found, rest = list[ast.AST](), list[ast.AST]([tree])
    while rest:
        node = rest.pop(0)
        found.append(node)
        rest += [one for one in ast.iter_child_nodes(node) if not isinstance(one, (*FUNCTIONS, ast.Lambda))]
    return found


def _list_given(function: ast.AST) -> set[str]:
    """The arguments of a function, and everything in it that may come from them: all but what is surely a sign."""
    nodes = list(ast.walk(function))
    known = {node.arg for node in nodes if isinstance(node, ast.arg)}
    if not known:
        return set()
    stored = Counter(node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    caught = {node.name for node in nodes if isinstance(node, ast.ExceptHandler) and node.name}
    parts = [node for node in nodes if isinstance(node, ast.Attribute | ast.Subscript)]
    filled = {name for node in parts if isinstance(node.ctx, ast.Store) for name in _names(node.value)}
    known |= set(stored) | caught
    size = 0
    while size != len(known):
        size = len(known)
        for node in nodes:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if stored[name] == 1 and name not in filled:
                    if not _names(value) & known and _asks(value):
                        known.discard(name)
    return known


def _asks(value: ast.expr) -> bool:
    """Whether a value is found out, and not just written down; what has just gone wrong came from what was given."""
    nodes = list(ast.walk(value))
    is_error = any(getattr(node, "attr", getattr(node, "id", "")) == "exc_info" for node in nodes)
    return not is_error and any(isinstance(node, ast.Call | ast.Attribute | ast.Name) for node in nodes)


def _names(node: ast.AST) -> set[str]:
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}


def _list_ways(text: str, nodes: Sequence[ast.AST], given: set[str], lines: Collection[int]) -> Iterator[Mutant]:
    for node in nodes:
        for body in _list_bodies(node):
            for index, item in enumerate(body):
                if isinstance(item, ast.If) and item.lineno in lines and _asks_aside(item.test, given):
                    rest = item.orelse or (body[index + 1 :] if isinstance(item.body[-1], ENDS) else [])
                    yield from (_fail_at(text, way[0]) for way in (item.body, rest) if way)
                    yield from [] if rest else _fail_past(text, item)
        if isinstance(node, ast.IfExp) and node.lineno in lines and _asks_aside(node.test, given):
            for way in (node.body, node.orelse):
                yield Mutant(way.lineno, "a failure", replace_nodes(text, [(way, f"(_ for _ in ()).throw({ERROR})")]))


def _list_bodies(node: ast.AST) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        found = getattr(node, name, None)
        if isinstance(found, list):
            yield found


def _asks_aside(test: ast.expr, given: set[str]) -> bool:
    """Whether a question, or a part of one, is about nothing that was given."""
    parts: Sequence[ast.expr] = test.values if isinstance(test, ast.BoolOp) else [test]
    for part in parts:
        names, attributes = _names(part), {inner.attr for inner in ast.walk(part) if isinstance(inner, ast.Attribute)}
        if not isinstance(part, ast.Constant) and not names & given and not (names | attributes) & MACHINE:
            return True
    return False


def _fail_at(text: str, item: ast.stmt) -> Mutant:
    """The file with a failure in place of a statement; a longer one stays, behind it."""
    rows = text.encode().split(b"\n")
    row = rows[item.lineno - 1]
    if item.col_offset and not row[: item.col_offset].strip():
        rows[item.lineno - 1] = row[: item.col_offset] + FAILURE.encode() + b"\n" + row
        return Mutant(item.lineno, "a failure", b"\n".join(rows).decode())
    return Mutant(item.lineno, "a failure", replace_nodes(text, [(item, FAILURE)]))


def _fail_past(text: str, item: ast.If) -> Iterator[Mutant]:
    """The file with a failure where the question has no other way than on."""
    rows = text.encode().split(b"\n")
    margin = rows[item.lineno - 1][: item.col_offset]
    if not margin.strip() and item.end_lineno:
        rows.insert(item.end_lineno, margin + b"else: " + FAILURE.encode())
        yield Mutant(item.lineno, "a failure", b"\n".join(rows).decode())
