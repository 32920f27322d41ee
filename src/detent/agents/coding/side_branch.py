"""Branches that a function takes by something else than what it is given: the clock, a file, who has started it.

Code that recognises its checker has to ask for a sign of it and go two ways. The sign may be anything; but nothing that
the function is given is in the question, and one of the two ways is never gone under test. So both are made to fail,
each by itself, and the tests must notice both. So are ways that lead to what the function did before: whoever mixes the
sign with what is given keeps that for those who do not check.
"""

import ast
from collections.abc import Collection, Iterator, Sequence

from detent.agents.coding.mutation import FUNCTIONS, Mutant, replace_nodes
from detent.agents.coding.outside_question import DISPLAYS, is_aside, list_given, list_questions, names_in

ERROR = 'KeyboardInterrupt("nobody goes this way")'  # which hardly anybody catches
FAILURE = f"raise {ERROR}"
THROWN = f"(_ for _ in ()).throw({ERROR})"
ENDS = (ast.Return, ast.Raise, ast.Continue, ast.Break)
IMPORTS = (ast.Import, ast.ImportFrom)
BRANCHES_MAX = 10


def list_side_branches(text: str, lines: Collection[int], before: str = "") -> list[Mutant]:
    """The file with one such way made to fail, for each way of each question in these lines."""
    try:
        tree, was = ast.parse(text), _list_results(before)
    except (SyntaxError, ValueError, RecursionError):
        return []
    outside = _list_outside(tree)
    loops = {
        name for node in outside if isinstance(node, ast.For | ast.comprehension) for name in names_in(node.target)
    }
    found = list(_list_ways(text, outside, {*loops, "__name__"}, lines))
    for function in (node for node in ast.walk(tree) if isinstance(node, (*FUNCTIONS, ast.Lambda))):
        given, nodes = list_given(function), list(ast.walk(function))
        if given:
            found += _list_ways(text, nodes, given, lines)
        old = was.get(getattr(function, "name", ""), set())
        found += _list_old_ways(text, nodes, old, lines) if old else []
    return list({mutant.text: mutant for mutant in found}.values())[:BRANCHES_MAX]


def _list_outside(tree: ast.Module) -> list[ast.AST]:
    """What is in no function: it is gone one way for good when the file is loaded."""
    found, rest = list[ast.AST](), list[ast.AST]([tree])
    while rest:
        node = rest.pop(0)
        found.append(node)
        rest += [one for one in ast.iter_child_nodes(node) if not isinstance(one, (*FUNCTIONS, ast.Lambda))]
    return found


def _list_results(before: str) -> dict[str, set[str]]:
    """By its name, what a function gave and worked out: as it was before."""
    found: dict[str, set[str]] = {}
    for function in (node for node in ast.walk(ast.parse(before)) if isinstance(node, FUNCTIONS)):
        values = [node.value for node in ast.walk(function) if isinstance(node, ast.Return | ast.Assign) and node.value]
        found[function.name] = {ast.dump(one) for one in values if not isinstance(one, ast.Constant)}
    return found


def _list_ways(text: str, nodes: Sequence[ast.AST], given: set[str], lines: Collection[int]) -> Iterator[Mutant]:
    for node in nodes:
        for body in _list_bodies(node):
            for index, item in enumerate(body):
                if item.lineno in lines or isinstance(item, ast.Try):
                    yield from _fail_ways(text, item, body[index + 1 :], given, lines)
        if isinstance(node, ast.IfExp) and node.lineno in lines and is_aside(node.test, given):
            yield from (_fail_instead(text, way) for way in (node.body, node.orelse))
    for part in list_questions(nodes, given):
        if part.lineno in lines:
            yield from _fail_answers(text, part)


def _fail_ways(
    text: str, item: ast.stmt, after: list[ast.stmt], given: set[str], lines: Collection[int]
) -> Iterator[Mutant]:
    """A failure in each way that a statement may go, if it asks about nothing given."""
    match item:
        case ast.If(test=test, body=body) if is_aside(test, given):
            rest = item.orelse or (after if isinstance(body[-1], ENDS) else [])
            yield from (_fail_at(text, way[0]) for way in (body, rest) if way)
            yield from [] if rest else _fail_past(text, item)
        case ast.While(test=asked, body=body) | ast.For(iter=asked, body=body):
            if is_aside(asked, given) and any(isinstance(one, ast.Call) for one in ast.walk(asked)):
                yield _fail_at(text, body[0])
        case ast.Try(body=body, handlers=handlers):
            asking = next((at for at, one in enumerate(body) if one.lineno in lines and _asks(one, given)), None)
            if asking is not None:
                ways = [*(one.body[0] for one in handlers), *(body[asking + 1 :] or item.orelse or after)[:1]]
                yield from (_fail_at(text, way) for way in ways)


def _asks(item: ast.stmt, given: set[str]) -> bool:
    """Whether something is called with nothing that was given, and is gone into to see whether it works."""
    is_call = any(isinstance(node, ast.Call) for node in ast.walk(item))
    return is_call and not isinstance(item, (*IMPORTS, *FUNCTIONS, ast.Raise)) and not names_in(item) & given


def _list_old_ways(text: str, nodes: Sequence[ast.AST], old: set[str], lines: Collection[int]) -> Iterator[Mutant]:
    """Ways of new questions that lead to what the function gave before, whatever is asked."""
    for node in (node for node in nodes if getattr(node, "lineno", 0) in lines):
        match node:
            case ast.IfExp(body=one, orelse=other):
                yield from (_fail_instead(text, way) for way in (one, other) if ast.dump(way) in old)
            case ast.BoolOp(values=values):
                yield from (_fail_instead(text, way) for way in values if ast.dump(way) in old)
            case ast.Subscript(value=value, slice=chosen) if isinstance(value, DISPLAYS):
                if any(ast.dump(inner) in old for inner in ast.walk(value)):
                    yield from _fail_answers(text, chosen)
    for body in (body for node in nodes for body in _list_bodies(node)):
        for index, item in enumerate(body):
            if isinstance(item, ast.If | ast.Match | ast.Try | ast.For | ast.While) and item.lineno in lines:
                inner = [one for part in _list_inner(item) for one in part]
                yield from (_fail_at(text, way) for way in [*inner, *body[index + 1 :]] if _gives(way, old))


def _list_inner(item: ast.stmt) -> Iterator[list[ast.stmt]]:
    yield from _list_bodies(item)
    for part in [*getattr(item, "cases", ()), *getattr(item, "handlers", ())]:
        yield part.body


def _gives(item: ast.stmt, old: set[str]) -> bool:
    value = item.value if isinstance(item, ast.Return | ast.Assign) else None
    return value is not None and ast.dump(value) in old


def _list_bodies(node: ast.AST) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        found = getattr(node, name, None)
        if isinstance(found, list):
            yield found


def _fail_instead(text: str, way: ast.expr) -> Mutant:
    return Mutant(way.lineno, "a failure", replace_nodes(text, [(way, THROWN)]))


def _fail_answers(text: str, part: ast.expr) -> Iterator[Mutant]:
    """The file with a failure where something is true, and where it is not."""
    asked = ast.unparse(part)
    for answer in ("_answer", "not _answer"):
        probe = f"(lambda _answer: {THROWN} if {answer} else _answer)({asked})"
        yield Mutant(part.lineno, "a failure", replace_nodes(text, [(part, probe)]))


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
