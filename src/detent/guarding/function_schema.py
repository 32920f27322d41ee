"""A function's parameters as JSON: the schema for whoever must be told how to call it, and arguments there and back."""

import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from detent.core.value import plain
from detent.errors import DefinitionError, Refused

_BOUND = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class FunctionSchema:
    """What a function takes."""

    def __init__(self, function: Callable[..., Any], leave_out: frozenset[str] = frozenset()) -> None:
        self.signature = inspect.signature(function)
        self._left_out = leave_out  # what the program gives it beside its arguments: no part of the call
        try:
            self._hints = typing.get_type_hints(function)
        except (NameError, TypeError, AttributeError):  # a name that is only there for a type checker
            self._hints = {}
        name = getattr(function, "__name__", "it")
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise DefinitionError(f"`{name}` yields, and does its work after the call; guard a function that returns")
        kinds = {parameter.name: parameter.kind for parameter in self.signature.parameters.values()}
        if found := [name for name, kind in kinds.items() if kind is inspect.Parameter.VAR_POSITIONAL]:
            raise DefinitionError(f"`{name}` takes *{found[0]}; a guarded function's arguments have names")
        self._takes_any = inspect.Parameter.VAR_KEYWORD in kinds.values()
        self._positional = [name for name, kind in kinds.items() if kind is inspect.Parameter.POSITIONAL_ONLY]

    def bind(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of a call by name, with the defaults filled in; `TypeError` as the function itself raises."""
        bound = self.signature.bind(*args, **named)
        bound.apply_defaults()
        given = dict(bound.arguments)
        for parameter in self.signature.parameters.values():
            if parameter.kind in _BOUND:
                more = given.pop(parameter.name, {})
                if twice := given.keys() & more.keys():
                    raise TypeError(f"two arguments are called {sorted(twice)[0]!r}")
                given.update(more)
        return given

    def accept(self, said: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments as a model gives them, each as the type that the function wants; `Refused` where one is not."""
        unknown = [name for name in said if name not in self.signature.parameters]
        if unknown and not self._takes_any:
            known = ", ".join(name for name in self.signature.parameters if name not in self._left_out)
            raise Refused(f"there is no argument `{unknown[0]}`; known: {known}")
        return {name: self._fit(name, value) for name, value in said.items()}

    def split(self, given: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments by name as the function takes them: those that have a place first, then the named ones."""
        first = tuple(given[name] for name in self._positional if name in given)
        return first, {name: value for name, value in given.items() if name not in self._positional}

    def encode(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments as the journal keeps them."""
        kept = {name: value for name, value in given.items() if name not in self._left_out}
        try:
            return dict(plain(to_json(kept), "arguments"))
        except (TypeError, RecursionError) as error:
            raise Refused(
                f"an argument cannot be written down as JSON: {error}; name what is not part of the call in leave_out"
            ) from None

    def decode(self, said: Mapping[str, Any], given: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments to call with: those given, unless a person has changed what they were as JSON `before`."""
        changed = {name: self._fit(name, value) for name, value in said.items() if before.get(name) != value}
        kept = {name: value for name, value in given.items() if name in said or name in self._left_out}
        return {**kept, **changed}

    def decode_result(self, result: Any) -> Any:
        """A result from the journal as what the function says it returns, where that can be made of it."""
        try:
            return self._fit("return", result)
        except Refused:
            return result

    def _fit(self, name: str, value: Any) -> Any:
        hint = self._hints.get(name)
        if hint is None:
            return value
        try:
            return msgspec.convert(value, hint, strict=False, dec_hook=_decode_model)
        except ValueError as error:  # of msgspec or of a model
            raise Refused(f"argument `{name}` does not fit: {error}") from None
        except TypeError:  # a type that JSON has no word for
            return value

    def call(self, function: Callable[..., Any], given: Mapping[str, Any]) -> Any:
        """Call the function with arguments by name."""
        first, named = self.split(given)
        return function(*first, **named)

    def describe(self) -> dict[str, Any]:
        """The parameters as JSON Schema."""
        properties: dict[str, Any] = {}
        required = []
        for parameter in self.signature.parameters.values():
            if parameter.kind in _BOUND or parameter.name in self._left_out:
                continue
            shown = _describe_type(self._hints.get(parameter.name))
            if parameter.default is inspect.Parameter.empty:
                required.append(parameter.name)
            else:
                shown = {**shown, **_describe_default(parameter.default)}
            properties[parameter.name] = shown
        return {"type": "object", "properties": properties, "required": required,
                "additionalProperties": self._takes_any}  # fmt: skip


def _describe_default(value: Any) -> dict[str, Any]:
    try:
        return {"default": to_json(value)}
    except TypeError:
        return {}


def _describe_type(hint: Any) -> dict[str, Any]:
    if hint is None or hint is Any:
        return {}
    if hasattr(hint, "model_json_schema"):
        return dict(hint.model_json_schema())
    try:
        (shown,), parts = msgspec.json.schema_components(
            [hint], schema_hook=_describe_model, ref_template="#/$defs/{name}"
        )
    except TypeError:
        return {}  # nothing that can be said in JSON
    return {**shown, "$defs": parts} if parts else dict(shown)


def to_json(value: Any) -> Any:
    """A value as JSON; models and dataclasses become objects. `TypeError` where it cannot be one."""
    return msgspec.to_builtins(value, enc_hook=_encode_model, str_keys=True)


def _encode_model(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    raise TypeError(f"a {type(value).__name__} is not JSON")


def _describe_model(kind: Any) -> dict[str, Any]:
    if hasattr(kind, "model_json_schema"):
        return dict(kind.model_json_schema())
    raise NotImplementedError


def _decode_model(kind: Any, value: Any) -> Any:
    if hasattr(kind, "model_validate"):
        return kind.model_validate(value)
    raise TypeError(f"nothing says how a {kind} is made of JSON")
