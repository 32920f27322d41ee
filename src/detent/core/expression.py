"""The expressions `{{ … }}` of workflow files: Jinja2's grammar over JSON values, compiled at load.

There are no calls, no attributes of Python objects and no statements, and every size is capped. A missing
path is null, a boolean is not a number (`true == 1` is false), and a result may share parts with the scope:
values are immutable.
"""

import functools
import math
import operator
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from itertools import takewhile
from typing import TYPE_CHECKING, Any, NoReturn

from detent.core.filter import (
    BITS_MAX,
    FILTERS,
    ITEMS_MAX,
    MISSING,
    TESTS,
    WORK_MAX,
    Work,
    bounded,
    charge,
    comparable,
    contains,
    equal,
    fits,
    integer,
    is_number,
    joined,
    kind,
    look,
    number,
    size,
    text,
)
from detent.errors import DefinitionError, ExpressionError

if TYPE_CHECKING:
    from jinja2 import Environment, nodes

Scope = Mapping[str, Any]
Evaluate = Callable[[Scope], Any]
Step = Callable[[Scope, Work], Any]

SOURCE_MAX = 4_000
NESTING_MAX = 40
TEMPLATE_DEPTH_MAX = 64
CACHE_SIZE = 4_096

_TOO_DEEP = f"nested more than {NESTING_MAX} deep; split it into several expressions"
_STATEMENT = "`{% %}` statements and `{# #}` comments are not allowed; only `{{ }}` expressions are"
_TRIMMING = "`{{-` and `{{+` are not allowed; use `| trim`, or put a blank before the sign"
_DELIMITER = re.compile(r"""'[^'\\]*(?:\\.[^'\\]*)*'|"[^"\\]*(?:\\.[^"\\]*)*"|[\[({]|[\])}]""", re.DOTALL)
_BAD_ESCAPE = re.compile(r"""\\[^'"\nabfnrtv0-7xuUN]""")
_OPENING, _CLOSING, _SIGNS = frozenset("([{"), frozenset(")]}"), frozenset({"not", "-", "+"})


@functools.lru_cache(CACHE_SIZE)
def compile_condition(source: str) -> Evaluate:
    """Compile `{{ a < b }}` or bare `a < b` to a function that says yes or no."""
    inner = _inner(source)
    step, shown = _expression(inner), _shown(inner)

    def evaluate(scope: Scope) -> bool:
        try:
            value = step(scope, [WORK_MAX])
            return value if value is True or value is False else bool(bounded(value))
        except Exception as error:  # noqa: BLE001 - values may be anything; the engine must see one type
            _fail(shown, error)

    return evaluate


def compile_template(value: Any) -> Evaluate:
    """Compile a JSON value with `{{ }}` in its texts; an expression that is a whole text keeps its type."""
    try:
        step = _template(value, 0)
    except RecursionError:
        raise DefinitionError(_TOO_DEEP) from None
    if step is None:
        return lambda _scope: value

    def evaluate(scope: Scope) -> Any:
        try:
            return step(scope, [WORK_MAX])
        except RecursionError:
            raise ExpressionError("nested too deeply") from None

    return evaluate


def is_constant(value: Any) -> bool:
    """Whether no text inside the value holds `{{`."""
    pending = [value]
    while pending:
        value = pending.pop()
        if isinstance(value, str) and "{{" in value:
            return False
        if isinstance(value, dict):
            pending.extend(value.values())
        elif isinstance(value, list):
            pending.extend(value)
    return True


@functools.lru_cache(CACHE_SIZE)
def names(source: str) -> frozenset[str]:
    """The dotted paths that an expression, or a text with expressions, reads; each ends before an index."""
    inside = [piece for is_code, piece in _pieces(source) if is_code]
    found: set[str] = set()
    for expression in inside or [source]:
        with _refusing(expression):
            found.update(_paths(_parse(expression)))
    return frozenset(found)


def _paths(tree: "nodes.Expr") -> Iterator[str]:
    pending: list[Any] = [tree]
    while pending:
        node = pending.pop()
        if type(node).__name__ not in ("Name", "Getattr", "Getitem"):
            pending.extend(node.iter_child_nodes())
            continue
        base, keys = _unwind(node)
        pending.extend(key for key in keys if not isinstance(key, str))
        if type(base).__name__ == "Name":
            static = takewhile(lambda key: isinstance(key, str) and "." not in key, keys)
            yield ".".join((base.name, *static))
        else:
            pending.append(base)


def _inner(source: str) -> str:
    """The expression of a condition, without its braces."""
    if not source.lstrip().startswith("{{"):
        return source
    pieces = list(_pieces(source.strip()))
    if len(pieces) != 1:
        raise DefinitionError(f"`{_shown(source)}`: a condition is one expression; write it all inside one `{{{{ }}}}`")
    return pieces[0][1]


def _pieces(source: str) -> Iterator[tuple[bool, str]]:
    """Cut a text into (False, literal text) and (True, expression) in order."""
    at = 0
    while (start := source.find("{{", at)) >= 0:
        if start > at:
            yield False, _literal_text(source[at:start])
        if source.startswith(("-", "+"), start + 2):
            raise DefinitionError(f"`{_shown(source[start:])}`: {_TRIMMING}")
        end = _end(source, start + 2)
        yield True, source[start + 2 : end]
        at = end + 2
    if at < len(source):
        yield False, _literal_text(source[at:])


def _end(source: str, start: int) -> int:
    """Where the `}}` that closes an expression stands, skipping strings and nested brackets."""
    depth = 0
    limit = start + SOURCE_MAX + 2
    at = start
    while (found := _DELIMITER.search(source, at, limit)) is not None:
        mark, at = found.group(), found.end()
        if depth == 0 and mark == "}" and source.startswith("}", at):
            return found.start()
        depth += (mark in "[({") - (mark in "])}")
    shown = _shown(source[start - 2 : limit])
    raise DefinitionError(f"`{shown}`: `{{{{` is not closed by `}}}}` within {SOURCE_MAX:,} characters")


def _literal_text(source: str) -> str:
    for opening, closing in (("{%", "%}"), ("{#", "#}")):
        if (start := source.find(opening)) >= 0 and source.find(closing, start + 2) >= 0:
            raise DefinitionError(f"`{_shown(source[start:])}`: {_STATEMENT}")
    return source


def _template(value: Any, depth: int) -> Step | None:
    """The step that fills in a value, or None for a constant."""
    if depth > TEMPLATE_DEPTH_MAX:
        raise DefinitionError(f"nested more than {TEMPLATE_DEPTH_MAX} deep")
    if isinstance(value, str):
        return _text_template(value)
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise DefinitionError("the keys of a mapping must be text")
        return _filled(dict, value, [(key, _template(part, depth + 1)) for key, part in value.items()])
    if isinstance(value, list):
        return _filled(list, value, [(at, _template(part, depth + 1)) for at, part in enumerate(value)])
    if isinstance(value, float) and not math.isfinite(value):
        raise DefinitionError(f"{value} is not a JSON number")
    if value is not None and not isinstance(value, (int, float)):
        raise DefinitionError(f"the value is {kind(value)}")
    return None


def _filled(copy: Callable[[Any], Any], value: Any, parts: list[tuple[Any, Step | None]]) -> Step | None:
    changing = [(key, step) for key, step in parts if step is not None]

    def fill(scope: Scope, work: Work) -> Any:
        filled = copy(value)
        for key, step in changing:
            filled[key] = step(scope, work)
        return filled

    return fill if changing else None


def _text_template(source: str) -> Step | None:
    pieces = list(_pieces(source))
    if not any(is_code for is_code, _ in pieces):
        return None
    steps = [_guarded(piece) if is_code else _constant(piece) for is_code, piece in pieces]
    if len(steps) == 1:
        return steps[0]
    shown = _shown(source)

    def interpolate(scope: Scope, work: Work) -> str:
        parts = [step(scope, work) for step in steps]
        try:
            return joined([text(part, work=work) for part in parts], "", work)
        except Exception as error:  # noqa: BLE001 - as above
            _fail(shown, error)

    return interpolate


def _guarded(source: str) -> Step:
    step, shown = _expression(source), _shown(source)

    def guard(scope: Scope, work: Work) -> Any:
        try:
            return bounded(step(scope, work))
        except Exception as error:  # noqa: BLE001 - as above
            _fail(shown, error)

    return guard


def _fail(shown: str, error: Exception) -> NoReturn:
    if isinstance(error, ExpressionError):
        problem = str(error)
    elif isinstance(error, RecursionError):
        problem = "nested too deeply"
    elif isinstance(error, OverflowError):
        problem = "result too large"
    else:
        problem = f"cannot work with these values: {error}"
    raise ExpressionError(f"`{shown}`: {problem}") from error


def _shown(source: str) -> str:
    line = " ".join(source[:200].split()).encode(errors="replace").decode()
    return line if len(line) <= 60 else f"{line[:59]}…"


@functools.cache
def _environment() -> "Environment":
    # Jinja2 takes longer to import than the rest of detent: only who compiles an expression pays for it.
    from jinja2 import Environment  # noqa: PLC0415

    return Environment(autoescape=False, keep_trailing_newline=True)  # noqa: S701 - we only parse


@functools.lru_cache(CACHE_SIZE)
def _expression(source: str) -> Step:
    with _refusing(source):
        return _compile(_parse(source), 0)


@contextmanager
def _refusing(source: str) -> Iterator[None]:
    """Turn whatever goes wrong with a source at load into one error that shows it."""
    try:
        yield
    except DefinitionError as error:
        problem = error.problem
    except RecursionError:
        problem = _TOO_DEEP
    except Exception as error:  # noqa: BLE001 - Jinja's lexer also lets ValueError and SyntaxError through
        problem = str(getattr(error, "message", None) or error)
        if "{%" in source or "{#" in source:
            problem = _STATEMENT
        elif "{{" in source:
            problem += "; write the whole expression inside one `{{ }}`"
    else:
        return
    raise DefinitionError(f"`{_shown(source)}`: {problem}")


def _parse(source: str) -> "nodes.Expr":
    from jinja2.parser import Parser  # noqa: PLC0415 - see _environment

    if len(source) > SOURCE_MAX:
        raise DefinitionError(f"longer than {SOURCE_MAX:,} characters; split it")
    if not source.strip():
        raise DefinitionError("an expression is missing")
    source.encode()
    _scan(_environment().lexer.tokeniter(source, None, state="variable"))
    parser = Parser(_environment(), source, state="variable")
    node = parser.parse_expression()
    if not parser.stream.eos:
        rest = _shown(str(parser.stream.current.value))
        raise DefinitionError(f"unexpected `{rest}` after a complete expression")
    return node


def _scan(tokens: Iterable[tuple[int, str, str]]) -> None:
    """Refuse what is nested too deep for a recursive parser, and escapes that Python only warns about."""
    levels = [0]
    signs = 0
    for _, sort, value in tokens:
        if sort == "whitespace":
            continue
        if sort == "string" and (bad := _BAD_ESCAPE.search(value.replace("\\\\", ""))):
            raise DefinitionError(f"unknown escape `{bad.group()}` in a text; write `\\{bad.group()}`")
        if value in _OPENING:
            levels.append(max(signs, 1))
        elif value in _CLOSING:
            levels.pop()
        elif value == "else":
            levels[-1] += 1
        signs = signs + 1 if value in _SIGNS else 0
        if sum(levels) + max(signs - 1, 0) > NESTING_MAX:
            raise DefinitionError(_TOO_DEEP)


def _compile(node: "nodes.Node", depth: int) -> Step:
    if depth > NESTING_MAX:
        raise DefinitionError(_TOO_DEEP)
    literal = _literal(node)
    if literal is not MISSING:
        return _constant(literal)
    build = _NODES.get(type(node).__name__)
    if build is None:
        raise DefinitionError(f"`{type(node).__name__}` is not allowed in an expression")
    return build(node, depth + 1)


def _constant(value: Any) -> Step:
    return lambda _scope, _work: value


def _literal(node: Any) -> Any:
    """The value of a node that is made of literals only, or MISSING."""
    match type(node).__name__:
        case "Const":
            return _allowed(node.value)
        case "Neg" if type(node.node).__name__ == "Const" and is_number(node.node.value):
            return -_allowed(node.node.value)
        case "List" | "Tuple":
            items = [_literal(item) for item in node.items]
            return MISSING if any(item is MISSING for item in items) else items
        case "Dict":
            pairs = [(_literal(pair.key), _literal(pair.value)) for pair in node.items]
            if any(key is not MISSING and not isinstance(key, str) for key, _ in pairs):
                raise DefinitionError("the keys of a mapping must be text; put them in quotes")
            return MISSING if any(MISSING in pair for pair in pairs) else dict(pairs)
    return MISSING


def _allowed(value: Any) -> Any:
    try:
        if isinstance(value, str):
            value.encode()
        return bounded(value)
    except UnicodeEncodeError:
        raise DefinitionError("a text holds half a character (a lone surrogate)") from None
    except ExpressionError as error:
        raise DefinitionError(str(error)) from None


def _public(name: str) -> str:
    if unicodedata.normalize("NFKC", name).startswith("_"):
        raise DefinitionError(f"`{name}` is private: a name may not start with `_`")
    return name


def _unwind(node: Any) -> tuple[Any, list[Any]]:
    """A path as its base and its keys: text for a key known at load, a node for any other."""
    keys: list[Any] = []
    while (name := type(node).__name__) in ("Getattr", "Getitem"):
        key = node.attr if name == "Getattr" else node.arg
        if type(key).__name__ == "Const" and isinstance(key.value, str):
            key = key.value
        keys.append(_public(key) if isinstance(key, str) else key)
        node = node.node
    if name == "Name":
        _public(node.name)
    return node, keys[::-1]


def _path(node: Any, depth: int) -> Step:
    base, keys = _unwind(node)
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
    base, keys = _unwind(node)
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
    return bounded(part)


def _list(node: Any, depth: int) -> Step:
    steps = [_compile(item, depth) for item in node.items]
    return lambda scope, work: [step(scope, work) for step in steps]


def _dict(node: Any, depth: int) -> Step:
    pairs = [(_compile(pair.key, depth), _compile(pair.value, depth)) for pair in node.items]

    def build(scope: Scope, work: Work) -> dict[str, Any]:
        built = {}
        for key, value in pairs:
            name = key(scope, work)
            if not isinstance(name, str):
                raise ExpressionError(f"the keys of a mapping must be text, not {kind(name)}")
            built[name] = value(scope, work)
        return built

    return build


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
    no = _constant(None) if node.expr2 is None else _compile(node.expr2, depth)
    return lambda scope, work: yes(scope, work) if test(scope, work) else no(scope, work)


def _concat(node: Any, depth: int) -> Step:
    steps = [_compile(part, depth) for part in node.nodes]
    return lambda scope, work: joined([text(step(scope, work), work=work) for step in steps], "", work)


def _signed(node: Any, depth: int) -> Step:
    step = _compile(node.node, depth)
    sign = operator.neg if type(node).__name__ == "Neg" else operator.pos
    return lambda scope, work: sign(number(step(scope, work)))


def _binary(node: Any, depth: int) -> Step:
    left, right = _compile(node.left, depth), _compile(node.right, depth)
    name = type(node).__name__
    if name == "Add":
        return lambda scope, work: _add(left(scope, work), right(scope, work), work)
    sign, compute = _ARITHMETIC[name]
    return lambda scope, work: _arithmetic(sign, compute, left(scope, work), right(scope, work))


def _add(left: Any, right: Any, work: Work) -> Any:
    if isinstance(left, str) and isinstance(right, str):
        return joined([left, right], "", work)
    if isinstance(left, list) and isinstance(right, list):
        fits(len(left) + len(right), ITEMS_MAX, "items")
        charge(work, size(left) + size(right))
        return left + right
    return _arithmetic("+", operator.add, left, right)


def _arithmetic(sign: str, compute: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    if not (is_number(left) and is_number(right)):
        raise ExpressionError(f"`{sign}` does not work on {kind(left)} and {kind(right)}")
    try:
        result = compute(left, right)
    except ZeroDivisionError:
        raise ExpressionError("division by zero") from None
    if isinstance(result, complex):
        raise ExpressionError("a fractional power of a negative number is not a real number")
    return bounded(result)


def _multiply(left: Any, right: Any) -> Any:
    if isinstance(left, int) and isinstance(right, int):
        fits(left.bit_length() + right.bit_length() - 1, BITS_MAX, "bits")
    return left * right


def _power(base: Any, exponent: Any) -> Any:
    if isinstance(base, int) and isinstance(exponent, int) and exponent > 0:
        fits((base.bit_length() - 1) * exponent, BITS_MAX, "bits")
    return base**exponent


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


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any, Work], bool]:
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
        result = bounded(apply(value, scope, work))
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
            _public(part)
    if node.name in ("selectattr", "rejectattr"):
        for test in map(_literal, node.args[1:2]):
            if isinstance(test, str) and test not in ("defined", "undefined"):
                _known(test, TESTS, "test")


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

    call = _known(_public(node.name), table, noun)
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


def _known(name: str, table: Mapping[str, Callable[..., Any]], noun: str) -> Callable[..., Any]:
    if name in table:
        return table[name]
    close = get_close_matches(name, table, 1)
    hint = f"did you mean `{close[0]}`?" if close else f"known: {', '.join(sorted(table))}"
    raise DefinitionError(f"unknown {noun} `{name}`, {hint}")


def _call(_node: Any, _depth: int) -> NoReturn:
    raise DefinitionError("calls are not allowed; use a filter such as `| length`")


_ARITHMETIC: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "Sub": ("-", operator.sub),
    "Mul": ("*", _multiply),
    "Div": ("/", operator.truediv),
    "FloorDiv": ("//", operator.floordiv),
    "Mod": ("%", operator.mod),
    "Pow": ("**", _power),
}

_COMPARISONS: dict[str, Callable[[Any, Any, Work], bool]] = {
    "eq": lambda left, right, work: equal(left, right, work=work),
    "ne": lambda left, right, work: not equal(left, right, work=work),
    "lt": _ordered(operator.lt),
    "lteq": _ordered(operator.le),
    "gt": _ordered(operator.gt),
    "gteq": _ordered(operator.ge),
    "in": lambda left, right, work: contains(left, right, work=work),
    "notin": lambda left, right, work: not contains(left, right, work=work),
}

# What is not listed here is not in the language.
_NODES: dict[str, Callable[[Any, int], Step]] = {
    **dict.fromkeys(("Name", "Getattr", "Getitem"), _path),
    **dict.fromkeys(("List", "Tuple"), _list),
    **dict.fromkeys(("And", "Or"), _logic),
    **dict.fromkeys(("Neg", "Pos"), _signed),
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
