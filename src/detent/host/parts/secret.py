"""Secrets: named in a definition as `{"secret": "NAME"}`, read only when an effect is called.

A value comes from what the run was given (`secret_box`), where its input declares such a secret, else from the
environment.

The journal holds the name. A value that comes back in a result, a question or an error is hidden again before anything
is kept, and so is what looks like a secret although nobody declared it (see `detent.redaction`). Only a name that
stands in the action's own definition is read: the same words in a run's data, which may come from a
model or from the network, stay data.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from detent.core.contract import Failure
from detent.core.effect_type import EffectFailed
from detent.core.events import ContractMoved
from detent.core.machine import Action, Machine
from detent.host.parts.outcome import UnknownOutcome
from detent.redaction import AMBIENT_MIN, HIDDEN, Redactor, ambient_redactor, declare_variable, declared_redactor

KEPT = ("event", "contract_id", "trigger", "deed", "actor", "at", "id")  # ours, and never an effect's words
NOT_KEPT = {"not_kept": f"what came of it holds a secret where none can be hidden ({HIDDEN})"}
_encode = msgspec.json.Encoder().encode


FindGiven = Callable[[str], str | None]


class Secrets:
    """The secrets one attempt has used."""

    def __init__(self, known: frozenset[str] = frozenset(), find_given: FindGiven | None = None) -> None:
        self._known = known
        self._find_given = find_given  # what the run was given under a name, where it has secrets of its own
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
        found = self._find_given(value["secret"]) if self._find_given is not None else None
        if found is None:
            found = os.environ.get(value["secret"])
            declare_variable(value["secret"])
        if found is None:
            raise EffectFailed(f"the secret `{value['secret']}` is not set in the environment", "validation_error")
        self._values.add(found)
        return f"{value.get('prefix', '')}{found}"

    def hide(self, moved: ContractMoved) -> ContractMoved:
        """The event without any secret in it."""
        is_plain = not (moved.error or moved.question or moved.patch or moved.usage or moved.raises)
        if is_plain and not moved.result:
            return moved
        try:
            json = _encode(moved.result if is_plain else moved)
            if len(json) < AMBIENT_MIN and not self._values:
                return moved  # too little for any of them: what most steps return
            redactor = declared_redactor(frozenset(self._values)) if self._values else ambient_redactor()
            if not redactor.may_find(json):
                return moved
        except (msgspec.MsgspecError, ValueError, TypeError, OverflowError, RecursionError):
            return moved  # the journal cannot keep it, and says so
        plain = msgspec.to_builtins(moved)
        try:
            return msgspec.convert(_hide_in_event(redactor, plain), ContractMoved)
        except msgspec.ValidationError:  # a secret stood where only certain words may stand
            kept = {name: plain[name] for name in KEPT if name in plain}
            error = {"type": "validation_error", "message": HIDDEN} if moved.error else None
            question = {"text": HIDDEN, "reason": moved.question.reason} if moved.question else None
            return msgspec.convert({**kept, "result": NOT_KEPT, "error": error, "question": question}, ContractMoved)

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
            probe = one.probe.input if one.probe is not None else None
            if names := frozenset(_references([one.input, probe])):
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


def _hide_in_event(redactor: Redactor, plain: dict[str, Any]) -> dict[str, Any]:
    """An event field by field: what people read is free text, what later steps read is data."""
    shown = {name: value if name in KEPT else redactor.hide_in(value) for name, value in plain.items()}
    if error := plain.get("error"):
        shown["error"]["message"] = redactor.hide_free(error.get("message", ""))
    if question := plain.get("question"):
        shown["question"]["text"] = redactor.hide_free(question.get("text", ""))
        cause = question.get("data", {}).get("cause")
        if isinstance(cause, dict) and isinstance(cause.get("message"), str):
            shown["question"]["data"]["cause"]["message"] = redactor.hide_free(cause["message"])
    return shown
