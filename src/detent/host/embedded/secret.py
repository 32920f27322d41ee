"""Secrets: named in a definition as `{"secret": "NAME"}`, read from the environment only when an effect is called.

The journal holds the name. A value that comes back in a result, a question or an error is hidden again before anything
is kept. Only a name that stands in the action's own definition is read: the same words in a run's data, which may come
from a model or from the network, stay data.
"""

import json
import os
import urllib.parse
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec.structs import replace

from detent.core.contract import Failure
from detent.core.effect_type import EffectFailed
from detent.core.events import ContractMoved
from detent.core.machine import Action, Machine
from detent.host.embedded.outcome import UnknownOutcome

HIDDEN = "•••"
LENGTH_MIN = 4  # hiding shorter values would damage ordinary text


class Secrets:
    """The secrets one attempt has used."""

    def __init__(self, known: frozenset[str] = frozenset()) -> None:
        self._known = known
        self._values: set[str] = set()

    def find(self, value: Any) -> bool:
        """Whether a value names a secret of the definition anywhere."""
        if not self._known:
            return False
        if isinstance(value, dict):
            return self._is_mine(value) or any(self.find(v) for v in value.values())
        return isinstance(value, list) and any(self.find(v) for v in value)

    def resolve(self, value: Any) -> Any:
        """The value with every reference replaced by what it stands for."""
        if isinstance(value, list):
            return [self.resolve(v) for v in value]
        if not isinstance(value, dict):
            return value
        if not self._is_mine(value):
            return {k: self.resolve(v) for k, v in value.items()}
        found = os.environ.get(value["secret"])
        if found is None:
            raise EffectFailed(f"the secret `{value['secret']}` is not set in the environment", "validation_error")
        self._values.add(found)
        return f"{value.get('prefix', '')}{found}"

    def hide(self, moved: ContractMoved) -> ContractMoved:
        """The event without any secret in it."""
        if not self._values:
            return moved
        forms = {form for value in self._values if len(value) >= LENGTH_MIN for form in _forms(value)}
        if not forms:
            return moved
        longest_first = sorted(forms, key=len, reverse=True)
        plain = msgspec.to_builtins(moved)
        kept = {name: plain[name] for name in ("contract_id", "trigger", "event") if name in plain}
        hidden = _hide({k: v for k, v in plain.items() if k not in kept}, longest_first)
        try:
            return msgspec.convert({**hidden, **kept}, ContractMoved)
        except msgspec.ValidationError:
            return replace(moved, result=_hide(moved.result, longest_first), patch={}, usage={}, question=None)

    def _is_mine(self, value: dict[str, Any]) -> bool:
        return _is_reference(value) and value["secret"] in self._known


def hide(secrets: Secrets, doubt: UnknownOutcome) -> UnknownOutcome:
    """The reason of a doubt without any secret in it."""
    shown = secrets.hide(ContractMoved("", "fail", error=Failure(doubt.type, doubt.cause), result=doubt.result))
    return UnknownOutcome(shown.error.message if shown.error else "", doubt.type, shown.result)


NONE = Secrets()  # of an attempt whose action names none

_NAMED: dict[str, dict[str, frozenset[str]]] = {}  # by the machine's digest and the action
NAMED_MAX = 100


def list_secrets(machine: Machine, action: str) -> frozenset[str]:
    """The secrets that the definition of an action names."""
    known = _NAMED.get(machine.digest)
    if known is None:
        if len(_NAMED) >= NAMED_MAX:
            _NAMED.clear()
        known = _NAMED[machine.digest] = {}
        for one in _actions(machine):
            if names := frozenset(_references(one.input)):
                known[one.id] = known.get(one.id, frozenset()) | names
    return known.get(action, frozenset())


def _actions(machine: Machine) -> Iterator[Action]:
    def walk(actions: Iterable[Action]) -> Iterator[Action]:
        for action in actions:
            yield action
            for branch in action.branches:
                yield from walk(branch.actions)

    for actions in machine.work.values():
        yield from walk(actions)


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if _is_reference(value):
            yield value["secret"]
        for inner in value.values():
            yield from _references(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _references(inner)


def _is_reference(value: dict[str, Any]) -> bool:
    return isinstance(value.get("secret"), str) and set(value) <= {"secret", "prefix"}


def _forms(value: str) -> Iterable[str]:
    """A secret as it may come back: as it is, inside JSON, inside a Python repr, inside an address."""
    yield value
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    yield repr(value)[1:-1]
    yield urllib.parse.quote(value, safe="")
    yield urllib.parse.quote_plus(value)


def _hide(value: Any, secrets: list[str]) -> Any:
    if isinstance(value, str):
        for secret in secrets:
            value = value.replace(secret, HIDDEN)
        return value
    if isinstance(value, dict):
        return {_hide(k, secrets): _hide(v, secrets) for k, v in value.items()}
    return [_hide(v, secrets) for v in value] if isinstance(value, list) else value
