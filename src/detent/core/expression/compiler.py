"""From tree to closure: every node of an expression that is on the list below becomes a function of the scope."""

import functools
import operator
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NoReturn

from detent.core.expression.filter import FILTERS, TESTS
from detent.core.expression.parser import NESTING_MAX, TOO_DEEP, parse, plain_path, public, refusing, shorten, unwind
from detent.core.expression.value_operation import (
    MISSING,
    Work,
    add,
    arithmetic,
    charge,
    check_bounds,
    comparable,
    contains,
    differs,
    equal,
    integer,
    is_number,
    join,
    kind,
    look,
    multiply,
    number,
    power,
    size,
    text,
)
from detent.errors import DefinitionError, ExpressionError

if TYPE_CHECKING:
    from jinja2 import nodes

Scope = Mapping[str, Any]
Step = Callable[[Scope, Work], Any]

CACHE_SIZE = 4_096


@functools.lru_cache(CACHE_SIZE)
def build(source: str) -> Step:
    """Compile one expression, without braces, to a closure."""
    keys = plain_path(source)
    if keys:
        return _read(keys[0], keys[1:])
    with refusing(source):
        return _compile(parse(source), 0)


def _compile(node: "nodes.Node", depth: int) -> Step:
    if depth > NESTING_MAX:
        raise DefinitionError(TOO_DEEP)
    literal = _literal(node)
    if literal is not MISSING:
        return constant(literal)
    make = _NODES.get(type(node).__name__)
    if make is None:
        raise DefinitionError(f"`{type(node).__name__}` is not allowed in an expression")
    return make(node, depth + 1)


def constant(value: Any) -> Step:
    return lambda _scope, _work: value


def _literal(node: Any) -> Any:
    """The value of a node that is made of literals only, or MISSING."""
    match type(node).__name__:
        case "Const":
            return _check_value(node.value)
        case "Neg" if type(node.node).__name__ == "Const" and is_number(node.node.value):
            return -_check_value(node.node.value)
        case "List" | "Tuple":
            items = [_literal(item) for item in node.items]
            return MISSING if any(item is MISSING for item in items) else items
        case "Dict":
            pairs = [(_literal(pair.key), _literal(pair.value)) for pair in node.items]
            if any(key is not MISSING and not isinstance(key, str) for key, _ in pairs):
                raise DefinitionError("the keys of a mapping must be text; put them in quotes")
            return MISSING if any(MISSING in pair for pair in pairs) else dict(pairs)
    return MISSING


def _check_value(value: Any) -> Any:
    try:
        if isinstance(value, str):
            value.encode()
        return check_bounds(value)
    except UnicodeEncodeError:
        raise DefinitionError("a text holds half a character (a lone surrogate)") from None
    except ExpressionError as error:
        raise DefinitionError(str(error)) from None


def _path(node: Any, depth: int) -> Step:
    base, keys = unwind(node)
    if type(base).__name__ == "Name" and all(isinstance(key, str) for key in keys):
        return _read(base.name, keys)
    reach = _reach(node, depth)

    def path(scope: Scope, work: Work) -> Any:
        value = reach(scope, work)
        return None if value is MISSING else value

    return path


def _read(root: str, keys: list[str]) -> Step:
    """The common paths, without a loop where it pays."""
    if not keys:
        return lambda scope, _work: scope.get(root)
    if len(keys) == 1:
        only = keys[0]

        def read_key(scope: Scope, _work: Work) -> Any:
            value = scope.get(root)
            return value.get(only) if isinstance(value, dict) else None

        return read_key

    def read(scope: Scope, _work: Work) -> Any:
        value = scope.get(root)
        for key in keys:
            if not isinstance(value, dict):
                return None
            value = value.get(key)
        return value

    return read


def _reach(node: Any, depth: int) -> Step:
    """A path that gives MISSING where it breaks off."""
    base, keys = unwind(node)
    root = base.name if type(base).__name__ == "Name" else None
    start = _compile(base, depth) if root is None else lambda scope, _work: scope.get(root, MISSING)
    moves = [_move(key, depth) for key in keys]

    def reach(scope: Scope, work: Work) -> Any:
        value = start(scope, work)
        for move in moves:
            value = move(value, scope, work)
        return value

    return reach


def _move(key: Any, depth: int) -> Callable[[Any, Scope, Work], Any]:
    if isinstance(key, str):
        return lambda value, _scope, _work: look(value, key)
    name = type(key).__name__
    if name == "Slice":
        ends = [None if end is None else _compile(end, depth) for end in (key.start, key.stop, key.step)]
        return lambda value, scope, work: _slice(value, [end and end(scope, work) for end in ends], work)
    if name == "Tuple":
        raise DefinitionError("one index or key belongs between `[` and `]`")
    step = _compile(key, depth)
    return lambda value, scope, work: look(value, step(scope, work))


def _slice(value: Any, ends: list[Any], work: Work) -> Any:
    if not isinstance(value, (list, str)):
        return MISSING
    start, stop, step = (None if end is None else integer(end) for end in ends)
    if step == 0:
        raise ExpressionError("the step of a slice cannot be zero")
    part = value[start:stop:step]
    charge(work, size(part))
    return check_bounds(part)


def _list(node: Any, depth: int) -> Step:
    steps = [_compile(item, depth) for item in node.items]
    return lambda scope, work: [step(scope, work) for step in steps]


def _dict(node: Any, depth: int) -> Step:
    pairs = [(_compile(pair.key, depth), _compile(pair.value, depth)) for pair in node.items]

    def mapping(scope: Scope, work: Work) -> dict[str, Any]:
        built = {}
        for key, value in pairs:
            name = key(scope, work)
            if not isinstance(name, str):
                raise ExpressionError(f"the keys of a mapping must be text, not {kind(name)}")
            built[name] = value(scope, work)
        return built

    return mapping


def _operands(node: Any, depth: int) -> list[Step]:
    """The operands of a chain of one operator, flat: twenty `or` are no deeper than one."""
    chain = []
    link = type(node)
    while type(node) is link:
        chain.append(node.right)
        node = node.left
    return [_compile(operand, depth) for operand in (node, *reversed(chain))]


def _logic(node: Any, depth: int) -> Step:
    steps, ends_when = _operands(node, depth), type(node).__name__ == "Or"

    def decide(scope: Scope, work: Work) -> Any:
        for step in steps:
            value = step(scope, work)
            if (not value) is not ends_when:
                break
        return value

    return decide


def _not(node: Any, depth: int) -> Step:
    step = _compile(node.node, depth)
    return lambda scope, work: not step(scope, work)


def _choice(node: Any, depth: int) -> Step:
    test, yes = _compile(node.test, depth), _compile(node.expr1, depth)
    no = constant(None) if node.expr2 is None else _compile(node.expr2, depth)
    return lambda scope, work: yes(scope, work) if test(scope, work) else no(scope, work)


def _concat(node: Any, depth: int) -> Step:
    steps = [_compile(part, depth) for part in node.nodes]
    return lambda scope, work: join([text(step(scope, work), work=work) for step in steps], "", work)


def _compile_sign(node: Any, depth: int) -> Step:
    step = _compile(node.node, depth)
    sign = operator.neg if type(node).__name__ == "Neg" else operator.pos
    return lambda scope, work: sign(number(step(scope, work)))


def _binary(node: Any, depth: int) -> Step:
    left, right = _compile(node.left, depth), _compile(node.right, depth)
    name = type(node).__name__
    if name == "Add":
        return lambda scope, work: add(left(scope, work), right(scope, work), work)
    sign, compute = _ARITHMETIC[name]
    return lambda scope, work: arithmetic(sign, compute, left(scope, work), right(scope, work))


def _compare(node: Any, depth: int) -> Step:
    left = _compile(node.expr, depth)
    rest = [(_COMPARISONS[operand.op], _compile(operand.expr, depth)) for operand in node.ops]
    literal = _literal(node.ops[-1].expr)
    if [operand.op for operand in node.ops] == ["eq"] and isinstance(literal, str):
        return lambda scope, work: left(scope, work) == literal
    if len(rest) == 1:
        compare, right = rest[0]
        return lambda scope, work: compare(left(scope, work), right(scope, work), work)

    def chain(scope: Scope, work: Work) -> bool:
        before = left(scope, work)
        for compare, step in rest:
            after = step(scope, work)
            if not compare(before, after, work):
                return False
            before = after
        return True

    return chain


def _compile_order(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any, Work], bool]:
    def ordered(left: Any, right: Any, _work: Work) -> bool:
        if type(left) is not int or type(right) is not int:
            comparable(left, right)
        return compare(left, right)

    return ordered


def _filter(node: Any, depth: int) -> Step:
    _check_attribute(node)
    subject = _compile(node.node, depth)
    apply = _application(node, FILTERS, "filter", depth)

    def filtered(scope: Scope, work: Work) -> Any:
        value = subject(scope, work)
        result = check_bounds(apply(value, scope, work))
        if result is not value:
            charge(work, size(result))
        return result

    return filtered


def _check_attribute(node: Any) -> None:
    """Filters that take the name of an attribute, or of a test, are held to the same rules as a path."""
    given = [pair.value for pair in node.kwargs if pair.key == "attribute"]
    if node.name in ("get", "selectattr", "rejectattr"):
        given += node.args[:1]
    for name in map(_literal, given):
        for part in name.split(".") if isinstance(name, str) else ():
            public(part)
    if node.name in ("selectattr", "rejectattr"):
        for test in map(_literal, node.args[1:2]):
            if isinstance(test, str) and test not in ("defined", "undefined"):
                _find(test, TESTS, "test")


def _test(node: Any, depth: int) -> Step:
    if node.name in ("defined", "undefined"):
        reach, is_wanted = _reach(node.node, depth), node.name == "defined"
        return lambda scope, work: (reach(scope, work) is not MISSING) is is_wanted
    subject = _compile(node.node, depth)
    apply = _application(node, TESTS, "test", depth)
    return lambda scope, work: apply(subject(scope, work), scope, work)


def _application(
    node: Any, table: Mapping[str, Callable[..., Any]], noun: str, depth: int
) -> Callable[[Any, Scope, Work], Any]:
    """A filter or test with its arguments, checked against its signature now."""
    from inspect import signature  # noqa: PLC0415 - see _environment

    call = _find(public(node.name), table, noun)
    if node.dyn_args is not None or node.dyn_kwargs is not None:
        raise DefinitionError(f"`*` and `**` arguments are not allowed in {noun} `{node.name}`")
    arguments = [_compile(argument, depth) for argument in node.args]
    keywords = {pair.key: _compile(pair.value, depth) for pair in node.kwargs}
    takes = signature(call)
    offered = [parameter for parameter in takes.parameters.values() if parameter.name != "work"]
    try:
        takes.replace(parameters=offered).bind(None, *arguments, **keywords)
    except TypeError as error:
        raise DefinitionError(f"{noun} `{node.name}`: {error}") from None
    if not (arguments or keywords or "work" in takes.parameters):
        return lambda value, _scope, _work: call(value)
    if "work" in takes.parameters:
        keywords["work"] = lambda _scope, work: work

    def apply(value: Any, scope: Scope, work: Work) -> Any:
        given = [step(scope, work) for step in arguments]
        return call(value, *given, **{name: step(scope, work) for name, step in keywords.items()})

    return apply


def _find(name: str, table: Mapping[str, Callable[..., Any]], noun: str) -> Callable[..., Any]:
    if name in table:
        return table[name]
    close = get_close_matches(name, table, 1)
    hint = f"did you mean `{close[0]}`?" if close else f"known: {', '.join(sorted(table))}"
    raise DefinitionError(f"unknown {noun} `{shorten(name)}`, {hint}")


def _call(_node: Any, _depth: int) -> NoReturn:
    raise DefinitionError("calls are not allowed; use a filter such as `| length`")


_ARITHMETIC: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "Sub": ("-", operator.sub),
    "Mul": ("*", multiply),
    "Div": ("/", operator.truediv),
    "FloorDiv": ("//", operator.floordiv),
    "Mod": ("%", operator.mod),
    "Pow": ("**", power),
}

_COMPARISONS: dict[str, Callable[[Any, Any, Work], bool]] = {
    "eq": equal,
    "ne": differs,
    "lt": _compile_order(operator.lt),
    "lteq": _compile_order(operator.le),
    "gt": _compile_order(operator.gt),
    "gteq": _compile_order(operator.ge),
    "in": contains,
    "notin": lambda left, right, work: not contains(left, right, work),
}

# What is not listed here is not in the language.
_NODES: dict[str, Callable[[Any, int], Step]] = {
    **dict.fromkeys(("Name", "Getattr", "Getitem"), _path),
    **dict.fromkeys(("List", "Tuple"), _list),
    **dict.fromkeys(("And", "Or"), _logic),
    **dict.fromkeys(("Neg", "Pos"), _compile_sign),
    **dict.fromkeys(("Add", *_ARITHMETIC), _binary),
    "Dict": _dict,
    "Not": _not,
    "CondExpr": _choice,
    "Concat": _concat,
    "Compare": _compare,
    "Filter": _filter,
    "Test": _test,
    "Call": _call,
}
