"""The effect `python`: one call of a Python function.

    function  "module:name"; the name may be dotted (`module:Class.method`), no part of it private
    args      a mapping of keyword arguments or a list of positional ones
    sandbox   a level (see `sandbox`): the function is then called in a process of its own; so are `paths` and `network`

Without `sandbox` the function runs inside detent itself, and nothing can be kept from it. A policy that demands a
sandbox gives it one. In a process of its own it takes and gives JSON.

An async function is awaited on the event loop; any other has a thread to itself. Nothing can stop such a thread: after
a timeout or a cancel it runs on. What comes of it answers the question whether it happened, and until then nobody can
say that it did not. The thread does not keep the process alive.

A function that knows that nothing happened raises `detent.EffectFailed`. Any other exception says only that something
went wrong: after an irreversible call a person is asked.

The module is found as by `import`; whoever starts detent decides what is on `sys.path`.
"""

import contextlib
import functools
import importlib
import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from detent.core.contract import Contract
from detent.core.effect_type import EffectFailed, Outcome, OutcomeUnknown, effect
from detent.core.value import plain
from detent.effects import sandbox
from detent.effects.arguments import Arguments, invalid
from detent.effects.call_fact import python_facts
from detent.effects.function_process import call_in_sandbox
from detent.effects.thread import in_thread, perform_in_thread
from detent.errors import Refused

TIMEOUT_S = 600.0
KNOWN = f"function args {sandbox.KNOWN}"


@effect("python", kind="irreversible", timeout_s=TIMEOUT_S, is_lenient=True, facts=python_facts, is_local=True)
async def python(contract: Contract) -> Outcome:
    """Call a Python function."""
    name, positional, named = _parse_call(contract.input)
    wish = sandbox.read_wish(Arguments("python", contract.input, KNOWN)) if len(contract.input) > 2 else sandbox.NO_WISH
    if (wish.level or sandbox.find_demanded()) not in ("", "off"):
        _parts(name)
        return _outcome(contract, name, await call_in_sandbox(contract, name, positional or named, wish))
    is_loaded = name.partition(":")[0] in sys.modules  # importing may take its time, looking up does not
    function = _find(name) if is_loaded else await in_thread(_find, name)
    shape = _shape_of(function)
    if positional or named or not shape.is_content:
        _check_arguments(name, shape.signature, positional, named)
    try:
        if shape.is_async:
            result = await function(*positional, **named)
        else:
            call = functools.partial(function, *positional, **named)
            result = await perform_in_thread(name, call, functools.partial(_late, contract, name))
            if inspect.isawaitable(result):
                result = await result
    except SystemExit as error:  # a function may end itself, not the host
        raise RuntimeError(f"`{name}` asked to exit with {error.code!r}") from error
    return _outcome(contract, name, result)


def _late(contract: Contract, name: str, result: Any) -> Outcome:
    """What a call that was given up gave in the end; a rest that it left for the loop is not begun any more."""
    if inspect.iscoroutine(result):
        result.close()
        raise OutcomeUnknown(f"`{name}` was given up before all of it had begun")
    return _outcome(contract, name, result)


def _parse_call(input: Mapping[str, Any]) -> tuple[str, list[Any], dict[str, Any]]:
    """The function's name, and its arguments by place or by name."""
    name, args = input.get("function"), input.get("args")
    if type(name) is str and type(args) is dict and len(input) == 2:
        return name, [], args  # as a workflow writes it; what is anything else is looked at in turn
    given = Arguments("python", input, KNOWN)
    name, args = given.text("function"), given.any("args", {})
    if isinstance(args, dict):
        return name, [], args
    if isinstance(args, list):
        return name, args, {}
    raise given.refuse_type("args", args, "a mapping of keyword arguments or a list of positional ones")


def _find(name: str) -> Callable[..., Any]:
    """The function of that name, or a refusal that says at which part the search ended."""
    module, path = _parts(name)
    try:
        found: Any = importlib.import_module(module)
    except (Exception, SystemExit) as error:  # importing runs somebody else's code
        raise invalid(f"importing `{module}` failed: {type(error).__name__}: {error}") from error
    for part in path:
        try:
            found = getattr(found, part)
        except AttributeError as error:
            raise invalid(f"`{name}`: there is no `{part}` in it") from error
    if not callable(found):
        raise invalid(f"`{name}` is a {type(found).__name__}, not a function")
    return found  # type: ignore[no-any-return]


@functools.lru_cache(256)
def _parts(name: str) -> tuple[str, tuple[str, ...]]:
    """The module, and the way to the function in it."""
    module, colon, path = name.partition(":")
    parts = [*module.split("."), *path.split(".")]
    if not colon or not all(part.isidentifier() for part in parts):
        raise invalid(f'`function` of `python` must be like "module:name"; this is {name!r}')
    if any(part.startswith("_") for part in parts):
        raise invalid(f"`{name}` has a private part (a name that begins with an underscore)")
    return module, tuple(path.split("."))


class _Shape(NamedTuple):
    """How a function is called."""

    is_async: bool
    signature: inspect.Signature | None  # some built-ins do not say what they take
    is_content: bool  # without any arguments


def _shape_of(function: Callable[..., Any]) -> _Shape:
    try:
        return _known_shape(function)
    except TypeError:  # it cannot be a key
        return _shape(function)


def _shape(function: Callable[..., Any]) -> _Shape:
    signature = None
    is_content = True
    with contextlib.suppress(ValueError, TypeError):
        signature = inspect.signature(function)
    try:
        if signature is not None:
            signature.bind()
    except TypeError:
        is_content = False
    return _Shape(inspect.iscoroutinefunction(function), signature, is_content)


_known_shape = functools.lru_cache(256)(_shape)  # looking costs more than a short call


def _check_arguments(name: str, signature: inspect.Signature | None, args: list[Any], named: dict[str, Any]) -> None:
    """Refuse arguments that do not fit before anything runs."""
    if signature is None:
        return
    try:
        signature.bind(*args, **named)
    except TypeError as error:
        raise invalid(f"`{name}{signature}` does not fit these `args`: {error}") from error


def _outcome(contract: Contract, name: str, result: Any) -> Outcome:
    if isinstance(result, Outcome):
        return result
    try:
        return Outcome(plain(result, "the result"))
    except Refused as error:
        message = f"`{name}` ran to its end, but {error}"
        if contract.is_irreversible:  # it did happen, so it must not count as a failure that may be tried again
            raise OutcomeUnknown(message) from error
        raise EffectFailed(message, type="validation_error") from error
