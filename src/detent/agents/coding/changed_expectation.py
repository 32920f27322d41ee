"""Tests that expect something else than before: with the new source they must fail.

Whoever wants to look good makes a test pass whatever it says: with an object that is equal to everything, by replacing
the test or what runs it, by forging its report, or by reading in it what it would like to hear. All of these pass when
the test is changed to expect something else, and none of what works honestly does.
"""

import ast
import doctest
import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from detent.agents.coding.mutation import replace_nodes

OTHER = "object()"  # equal to nothing else
_NOT_ENTERED = ("raises", "warns", "deprecated_call", "assertRaises", "assertRaisesRegex", "assertWarns", "assertLogs")
EQUAL = (
    "assertEqual", "assertEquals", "assertListEqual", "assertDictEqual", "assertTupleEqual", "assertSetEqual",
    "assertSequenceEqual", "assertMultiLineEqual", "assertCountEqual", "assertIs",
)  # fmt: skip
DOCUMENTED = (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
Edit = tuple[ast.AST, str]
Function = ast.FunctionDef | ast.AsyncFunctionDef
With = ast.With | ast.AsyncWith


def split_name(test: str) -> tuple[str, str]:
    """The file and the function of a test's name, without its parameters."""
    file, _, function = test.partition("[")[0].partition("::")
    return file, function


def change_expectations(text: str, functions: Collection[str], turn: int) -> tuple[str, set[str]]:
    """A file of tests with one expectation of each of these functions changed, and the functions that have so many.

    Turn 0 changes the last one, turn 1 the one before it, and so on.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return text, set()
    edits, changed = list[Edit](), set[str]()
    for name, function in list_functions(tree.body):
        if name not in functions:
            continue
        found = [edit for claim in list_claims(function.body) if (edit := _turn_round(claim, function)) is not None]
        if turn < len(found):
            edits.append(found[-1 - turn])
            changed.add(name)
    return replace_nodes(text, edits), changed


def list_functions(body: list[ast.stmt], around: str = "") -> Iterator[tuple[str, Function]]:
    """The functions of a file of tests, by the names that pytest gives them."""
    for item in body:
        if isinstance(item, Function):
            yield f"{around}{item.name}", item
        elif isinstance(item, ast.ClassDef):
            yield from list_functions(item.body, f"{around}{item.name}::")


def list_claims(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """What a test says at its end, in the statements that are surely reached when it passes.

    A function inside of it counts if it is called there: `run(inner())`.
    """
    called = {get_called(node) for item in body for node in ast.walk(item) if isinstance(node, ast.Call)}
    for item in body:
        if isinstance(item, Function) and item.name in called:
            yield from list_claims(item.body)
        if isinstance(item, ast.Assert) or (isinstance(item, ast.Expr) and isinstance(item.value, ast.Call)):
            yield item
        elif isinstance(item, ast.For | ast.AsyncFor) or (isinstance(item, With) and not expects_error(item)):
            yield from list_claims(item.body)


def expects_error(item: With) -> bool:
    """Whether a test goes on only if something fails in there."""
    calls = [one.context_expr for one in item.items if isinstance(one.context_expr, ast.Call)]
    return any(get_called(call) in _NOT_ENTERED for call in calls)


def get_called(call: ast.Call) -> str:
    """The last name of what is called."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _turn_round(item: ast.stmt, function: Function) -> Edit | None:
    """The change that makes a claim another one."""
    edit = _turn_claim(item)
    if edit is not None and edit[1] == OTHER and isinstance(edit[0], ast.Name):
        return _turn_value(edit[0].id, function) or edit
    return edit


def _turn_value(name: str, function: Function) -> Edit | None:
    """The change of what a name is given, if nothing but the claim asks for it."""
    nodes = list(ast.walk(function))
    given = [node for node in nodes if isinstance(node, ast.Assign) and _is_name(node.targets[0], name)]
    uses = [node for node in nodes if isinstance(node, ast.Name) and node.id == name]
    if len(given) != 1 or len(uses) != 1 + len(given[0].targets):
        return None
    part, new = _change_part(given[0].value)
    return None if new == OTHER else (part, new)


def _is_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _turn_claim(item: ast.stmt) -> Edit | None:
    if isinstance(item, ast.Assert):
        return _turn_test(item.test)
    call = item.value if isinstance(item, ast.Expr) else None
    if not isinstance(call, ast.Call) or len(call.args) < 1 or any(isinstance(arg, ast.Starred) for arg in call.args):
        return None
    name = get_called(call)
    if name in EQUAL and len(call.args) > 1:
        return _turn_sides(call.args[0], call.args[1])
    if name == "assertIn":
        return call.args[0], OTHER
    if name in ("assertTrue", "assertFalse"):
        return call.args[0], f"(not ({ast.unparse(call.args[0])}))"
    return None


def _turn_test(test: ast.expr) -> Edit | None:
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        left, right = test.left, test.comparators[0]
        if isinstance(test.ops[0], ast.Eq | ast.Is):
            return _turn_sides(left, right)
        if isinstance(test.ops[0], ast.In):
            return left, OTHER
    return None if _is_any(test) else (test, f"(not ({ast.unparse(test)}))")


def _turn_sides(left: ast.expr, right: ast.expr) -> Edit | None:
    """One side of an equation as something else: a constant if there is one, for it is what was expected.

    It stays of its kind where that can be, for what is equal to all of a kind would tell an object of another one.
    """
    if _is_any(left) or _is_any(right):
        return None
    chosen = left if isinstance(left, ast.Constant) and not isinstance(right, ast.Constant) else right
    part, new = _change_part(chosen)
    return (chosen, OTHER) if new == OTHER else (part, new)


def _change_part(node: ast.expr) -> tuple[ast.expr, str]:
    """The innermost part of something that is made of parts, and what it becomes."""
    while (inner := _find_part(node)) is not None:
        node = inner
    return node, _change(node)


def _is_any(node: ast.expr) -> bool:
    """Whether the test itself is content with anything."""
    return any(getattr(inner, "id", getattr(inner, "attr", "")) in ("ANY", "IsAnyStr") for inner in ast.walk(node))


def _change(node: ast.expr) -> str:
    value: object = node.value if isinstance(node, ast.Constant) else None
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        value = -node.operand.value if isinstance(node.operand.value, int | float) else None
    if isinstance(value, bool) or value is None:
        return OTHER
    if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value) and value + 1 != value):
        return repr(value + 1)
    if isinstance(value, str):
        return repr(value + "?")
    return repr(value + b"?") if isinstance(value, bytes) else OTHER


def _find_part(node: ast.expr) -> ast.expr | None:
    """A part of something that is made of parts: its last entry, or what an object is made from."""
    match node:
        case ast.List(elts=[*_, last]) | ast.Tuple(elts=[*_, last]) | ast.Dict(values=[*_, last]):
            return last
        case ast.Call(args=[first, *_]) if get_called(node)[:1].isupper():
            return first
    return None


def list_lost_claims(before: str, tree: ast.Module, tests: Sequence[str]) -> Iterator[str]:
    """Assertions that tests may rely on, by calling the function that they are in, and that are there no longer."""
    try:
        was = _list_assertions(ast.parse(before))
    except (SyntaxError, ValueError, RecursionError):
        return
    now = _list_assertions(tree)
    for claim, function in was.items():
        if claim not in now and any(re.search(rf"\b{re.escape(function)}\b", text) for text in tests):
            yield f"`{claim[:80]}` in `{function}`, which tests use, is gone or another one"
            return


def _list_assertions(tree: ast.Module) -> dict[str, str]:
    """Every assertion, and the function or class that it is in."""
    found = {}
    for item in tree.body:
        for node in ast.walk(item) if isinstance(item, ast.FunctionDef | ast.ClassDef) else ():
            is_raised = isinstance(node, ast.Raise) and "AssertionError" in ast.unparse(node)
            if isinstance(node, ast.Assert) or is_raised:
                found[ast.unparse(node)] = getattr(item, "name", "")
    return found


def describe_claims(before: str, after: str) -> str:
    """How many assertions of a file of tests are gone or others; empty: none."""
    was, now = _count_claims(before), _count_claims(after)
    gone, new = (was - now).total(), (now - was).total()
    if not gone:
        return ""
    return f"{gone} of {was.total()} assertions gone or changed, {new} new"


def _count_claims(text: str) -> Counter[str]:
    try:
        nodes = list(ast.walk(ast.parse(text)))
    except (SyntaxError, ValueError, RecursionError):
        return Counter()
    calls = [node for node in nodes if isinstance(node, ast.Call) and get_called(node).startswith("assert")]
    raised = [node for node in nodes if isinstance(node, ast.Call) and get_called(node) in _NOT_ENTERED[:3]]
    return Counter(ast.unparse(node) for node in (*(n for n in nodes if isinstance(n, ast.Assert)), *calls, *raised))


def find_lost_examples(before: str, after: str) -> str:
    """What a documentation showed as an example, and shows no longer or otherwise; empty: nothing."""
    left = _list_shown(after)
    lost = [source for source, want in _list_shown(before) if (source, want) not in left]
    return (
        f"the example `{lost[0].strip()[:60]}` in its documentation is a test, and is gone or another one"
        if lost
        else ""
    )


def _list_shown(text: str) -> list[tuple[str, str]]:
    parser, found = doctest.DocTestParser(), list[tuple[str, str]]()
    try:
        nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, DOCUMENTED)]
        for node in nodes:
            found += [(one.source, one.want) for one in parser.get_examples(ast.get_docstring(node) or "")]
    except (SyntaxError, ValueError, RecursionError):
        return found
    return found
