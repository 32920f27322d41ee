"""Secrets: named in a definition as `{"secret": "NAME"}`, read from the environment only when an effect is called.

The journal holds the name. A value that comes back in a result or an error is hidden again before anything is kept.
"""

import os
from typing import Any

import msgspec
from msgspec.structs import replace

from detent.core.effect import EffectFailed
from detent.core.events import ContractMoved

HIDDEN = "•••"
LENGTH_MIN = 4  # hiding shorter values would damage ordinary text


class Secrets:
    """The secrets one attempt has used."""

    def __init__(self) -> None:
        self._values: list[str] = []

    def find(self, value: Any) -> bool:
        """Whether a value names a secret anywhere."""
        if isinstance(value, dict):
            return _is_reference(value) or any(self.find(v) for v in value.values())
        return isinstance(value, list) and any(self.find(v) for v in value)

    def resolve(self, value: Any) -> Any:
        """The value with every reference replaced by what it stands for."""
        if isinstance(value, list):
            return [self.resolve(v) for v in value]
        if not isinstance(value, dict):
            return value
        if not _is_reference(value):
            return {k: self.resolve(v) for k, v in value.items()}
        found = os.environ.get(value["secret"])
        if found is None:
            raise EffectFailed(f"the secret `{value['secret']}` is not set in the environment", "validation_error")
        self._values.append(found)
        return f"{value.get('prefix', '')}{found}"

    def hidden(self, moved: ContractMoved) -> ContractMoved:
        """The event without any secret in it."""
        values = [v for v in self._values if len(v) >= LENGTH_MIN]
        if not values:
            return moved
        error = moved.error
        if error is not None:
            error = msgspec.convert(_hide(msgspec.to_builtins(error), values), type(error))
        return replace(moved, result=_hide(moved.result, values), patch=_hide(moved.patch, values), error=error)


def _is_reference(value: dict[str, Any]) -> bool:
    return isinstance(value.get("secret"), str) and set(value) <= {"secret", "prefix"}


def _hide(value: Any, secrets: list[str]) -> Any:
    if isinstance(value, str):
        for secret in secrets:
            value = value.replace(secret, HIDDEN)
        return value
    if isinstance(value, dict):
        return {_hide(k, secrets): _hide(v, secrets) for k, v in value.items()}
    return [_hide(v, secrets) for v in value] if isinstance(value, list) else value
