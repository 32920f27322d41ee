"""Questions that code asks about something it was not given: is there a folder, what time is it, who has started it.

What a function is given are its arguments and all that may come from them. What it keeps between two calls (a default
that can be changed, a global that it counts up) was given by nobody.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator, Sequence

from detent.agents.coding.changed_expectation import get_called

# What differs between machines for everybody to see, and is no sign of a checker.
MACHINE = {"version_info", "platform", "TYPE_CHECKING", "maxsize", "byteorder", "PY2", "PY3", "_PY3", "_PY2", "PYPY"}
MACHINE_CALLS = {
    "system", "machine", "python_version", "python_implementation", "startswith", "endswith", "lower",
}  # fmt: skip
CHANCE = {"random", "uniform", "gauss", "time", "monotonic", "perf_counter", "len"}  # hardly ever nothing
PREDICATE = re.compile(r"_*(?:is|has|can|should|was)[A-Z_]|_*(?:is[a-z]+|l?exists|access|any|all|bool|hasattr)\Z")
CHANGEABLE = (ast.List, ast.Dict, ast.Set, ast.Call, ast.ListComp, ast.DictComp, ast.SetComp)
DISPLAYS = (ast.Tuple, ast.List, ast.Dict)


def list_given(function: ast.AST) -> set[str]:
    """The arguments of a function, and everything in it that may come from them: all but what is surely a sign."""
    nodes = list(ast.walk(function))
    known = {node.arg for node in nodes if isinstance(node, ast.arg)}
    if not known:
        return set()
    known -= {name for node in nodes if isinstance(node, ast.arguments) for name in _list_kept(node)}
    stored = Counter(node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    caught = {node.name for node in nodes if isinstance(node, ast.ExceptHandler) and node.name}
    parts = [node for node in nodes if isinstance(node, ast.Attribute | ast.Subscript)]
    filled = {name for node in parts if isinstance(node.ctx, ast.Store) for name in names_in(node.value)}
    shared = {name for node in nodes if isinstance(node, ast.Global | ast.Nonlocal) for name in node.names}
    known = (known | set(stored) | caught) - shared
    size = 0
    while size != len(known):
        size = len(known)
        for node in nodes:
            for name, value in _list_bound(node):
                if stored[name] == 1 and name not in filled and not names_in(value) & known and _asks(value):
                    known.discard(name)
    return known | {""}


def _list_kept(arguments: ast.arguments) -> Iterator[str]:
    """Arguments whose default is found out once, or outlives the call."""
    places = [*arguments.posonlyargs, *arguments.args]
    pairs = [*zip(reversed(places), reversed(arguments.defaults), strict=False)]
    pairs += [(arg, given) for arg, given in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if given]
    yield from (arg.arg for arg, given in pairs if isinstance(given, CHANGEABLE) or _reads(given))


def _list_bound(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    match node:
        case ast.Assign(targets=targets, value=value):
            yield from ((one.id, value) for one in targets if isinstance(one, ast.Name))
        case (
            ast.NamedExpr(target=ast.Name(id=name), value=value)
            | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
        ):
            yield name, value


def _asks(value: ast.expr) -> bool:
    """Whether a value is found out, and not just written down; what has just gone wrong came from what was given."""
    nodes = list(ast.walk(value))
    is_error = any(getattr(node, "attr", getattr(node, "id", "")) == "exc_info" for node in nodes)
    return not is_error and any(isinstance(node, ast.Call | ast.Attribute | ast.Name) for node in nodes)


def names_in(node: ast.AST) -> set[str]:
    """The names that an expression uses."""
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}


def is_aside(test: ast.expr, given: set[str]) -> bool:
    """Whether a question, or a part of one, is about nothing that was given."""
    parts: Sequence[ast.expr] = test.values if isinstance(test, ast.BoolOp) else [test]
    return any(
        not isinstance(part, ast.Constant) and not names_in(part) & given and not _is_about_machine(part)
        for part in parts
    )


def _is_about_machine(part: ast.expr) -> bool:
    nodes = list(ast.walk(part))
    words = {getattr(node, "id", "") for node in nodes} | {getattr(node, "attr", "") for node in nodes}
    calls = [node.func for node in nodes if isinstance(node, ast.Call)]
    is_told = bool(words & MACHINE) or "os.name" in ast.unparse(part)
    return is_told and all(getattr(func, "attr", "") in MACHINE_CALLS for func in calls)


def _reads(node: ast.AST) -> bool:
    return any(isinstance(inner, ast.Call | ast.Compare) for inner in ast.walk(node))


def list_questions(nodes: Sequence[ast.AST], given: set[str]) -> list[ast.expr]:
    """Expressions of which something hangs on whether they are true, beside the tests of `if`, and that are aside."""
    left = [node.test for node in nodes if isinstance(node, ast.If | ast.IfExp | ast.While | ast.Assert)]
    left += [one for node in nodes if (one := getattr(node, "annotation", None) or getattr(node, "returns", None))]
    seen = {id(inner) for one in left for inner in ast.walk(one)}
    found = list[ast.expr]()
    for node in nodes:
        for part in _list_deciding(node):
            if id(part) not in seen and _reads(part) and is_aside(part, given):
                found.append(part)
                seen |= {id(inner) for inner in ast.walk(part)}
    return found


def _list_deciding(node: ast.AST) -> Iterator[ast.expr]:
    """The parts of a node that choose between others, and what is true or false by its nature."""
    match node:
        case ast.BoolOp(values=values):
            yield from values
        case ast.Subscript(slice=index, ctx=ast.Load()) if not isinstance(index, ast.Slice):
            yield index
        case ast.Match(subject=subject):
            yield subject
        case ast.comprehension(ifs=ifs):
            yield from ifs
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            yield from (one for one in (left, right) if isinstance(one, ast.Call) and get_called(one) not in CHANCE)
        case ast.Call(func=ast.Attribute(attr="get"), args=[key, *_]):
            yield key
        case ast.Call() if PREDICATE.match(get_called(node)):
            yield node
        case ast.Compare() | ast.UnaryOp(op=ast.Not()):
            yield node
