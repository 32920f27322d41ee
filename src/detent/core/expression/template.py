"""Texts and values with `{{ }}` in them: found, compiled, filled in; and one error for whatever goes wrong."""

import functools
import math
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn

from detent.core.expression.compiler import CACHE_SIZE, Scope, Step, build, constant
from detent.core.expression.parser import SOURCE_MAX, STATEMENT, TOO_DEEP, parse, paths, plain_path, refusing, shorten
from detent.core.expression.value_operation import WORK_MAX, Work, check_bounds, join, kind, text
from detent.errors import DefinitionError, ExpressionError

Evaluate = Callable[[Scope], Any]

TEMPLATE_DEPTH_MAX = 64

_TRIMMING = "`{{-` and `{{+` are not allowed; use `| trim`, or put a blank before the sign"
_DELIMITER = re.compile(r"""'[^'\\]*(?:\\.[^'\\]*)*'|"[^"\\]*(?:\\.[^"\\]*)*"|[\[({]|[\])}]""", re.DOTALL)


@functools.lru_cache(CACHE_SIZE)
def compile_condition(source: str) -> Evaluate:
    """Compile `{{ a < b }}` or bare `a < b` to a function that says yes or no."""
    inner = inner_of(source)
    step = build(inner)

    def evaluate(scope: Scope) -> bool:
        try:
            value = step(scope, [WORK_MAX])
            return value if value is True or value is False else bool(check_bounds(value))
        except Exception as error:  # noqa: BLE001 - values may be anything; the engine must see one type
            _fail(inner, error)

    return evaluate


def compile_template(value: Any) -> Evaluate:
    """Compile a JSON value with `{{ }}` in its texts; an expression that is a whole text keeps its type."""
    try:
        step = _template(value, 0)
    except RecursionError:
        raise DefinitionError(TOO_DEEP) from None
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
    return _read(inside or [source], is_needed=False)


def list_needed(value: Any) -> frozenset[str]:
    """The dotted paths without which a value with `{{ }}` in its texts would have holes its author has not foreseen."""
    if isinstance(value, dict):
        return frozenset[str]().union(*map(list_needed, value.values()))
    if isinstance(value, list):
        return frozenset[str]().union(*map(list_needed, value))
    if not isinstance(value, str) or "{{" not in value:
        return frozenset()
    return _read([piece for is_code, piece in _pieces(value) if is_code], is_needed=True)


def _read(expressions: Iterable[str], *, is_needed: bool) -> frozenset[str]:
    found: set[str] = set()
    for expression in expressions:
        if keys := plain_path(expression):
            found.add(".".join(keys))
            continue
        with refusing(expression):
            found.update(paths(parse(expression), is_needed=is_needed))
    return frozenset(found)


def inner_of(source: str) -> str:
    """The expression of a condition, without its braces."""
    if not source.lstrip().startswith("{{"):
        return source
    pieces = list(_pieces(source.strip()))
    if len(pieces) != 1:
        raise DefinitionError(
            f"`{shorten(source)}`: a condition is one expression; write it all inside one `{{{{ }}}}`"
        )
    return pieces[0][1]


def _pieces(source: str) -> Iterator[tuple[bool, str]]:
    """Cut a text into (False, literal text) and (True, expression) in order."""
    at = 0
    while (start := source.find("{{", at)) >= 0:
        if start > at:
            yield False, _literal_text(source[at:start])
        if source.startswith(("-", "+"), start + 2):
            raise DefinitionError(f"`{shorten(source[start:])}`: {_TRIMMING}")
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
    label = shorten(source[start - 2 : limit])
    raise DefinitionError(f"`{label}`: `{{{{` is not closed by `}}}}` within {SOURCE_MAX:,} characters")


def _literal_text(source: str) -> str:
    for opening, closing in (("{%", "%}"), ("{#", "#}")):
        if (start := source.find(opening)) >= 0 and source.find(closing, start + 2) >= 0:
            raise DefinitionError(f"`{shorten(source[start:])}`: {STATEMENT}")
    return source


def _template(value: Any, depth: int) -> Step | None:
    """The step that fills in a value, or None for a constant."""
    if depth > TEMPLATE_DEPTH_MAX:
        raise DefinitionError(f"nested more than {TEMPLATE_DEPTH_MAX} deep")
    if isinstance(value, str):
        return _text_template(value)
    if isinstance(value, dict):
        return _fill(dict, value, value.items(), depth + 1)
    if isinstance(value, list):
        return _fill(list, value, enumerate(value), depth + 1)
    if isinstance(value, float) and not math.isfinite(value):
        raise DefinitionError(f"{value} is not a JSON number")
    if value is not None and not isinstance(value, (int, float)):
        raise DefinitionError(f"the value is {kind(value)}")
    return None


def _fill(copy: Callable[[Any], Any], value: Any, parts: Iterable[tuple[Any, Any]], depth: int) -> Step | None:
    changing: list[tuple[Any, Step]] = []
    for key, part in parts:
        if copy is dict and not isinstance(key, str):
            raise DefinitionError("the keys of a mapping must be text")
        step = _template(part, depth)
        if step is not None:
            changing.append((key, step))
    if not changing:
        return None

    def fill(scope: Scope, work: Work) -> Any:
        filled = copy(value)
        for key, step in changing:
            filled[key] = step(scope, work)
        return filled

    return fill


def _text_template(source: str) -> Step | None:
    if "{" not in source:
        return None
    return _known_text(source) if len(source) <= SOURCE_MAX else _interpolation(source)


def _interpolation(source: str) -> Step | None:
    pieces = list(_pieces(source))
    if not any(is_code for is_code, _ in pieces):
        return None
    steps = [_guard(piece) if is_code else constant(piece) for is_code, piece in pieces]
    if len(steps) == 1:
        return steps[0]

    def interpolate(scope: Scope, work: Work) -> str:
        parts = [step(scope, work) for step in steps]
        try:
            return join([text(part, work=work) for part in parts], "", work)
        except Exception as error:  # noqa: BLE001 - as above
            _fail(source, error)

    return interpolate


# Who reads a file compiles its texts, and its machine again.
_known_text = functools.lru_cache(CACHE_SIZE)(_interpolation)


def _guard(source: str) -> Step:
    step = build(source)

    def guard(scope: Scope, work: Work) -> Any:
        try:
            return check_bounds(step(scope, work))
        except Exception as error:  # noqa: BLE001 - as above
            _fail(source, error)

    return guard


def _fail(source: str, error: Exception) -> NoReturn:
    if isinstance(error, ExpressionError):
        problem = str(error)
    elif isinstance(error, RecursionError):
        problem = "nested too deeply"
    elif isinstance(error, OverflowError):
        problem = "result too large"
    else:
        problem = f"cannot work with these values: {error}"
    raise ExpressionError(f"`{shorten(source)}`: {problem}") from error
