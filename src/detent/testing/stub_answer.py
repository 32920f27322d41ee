"""What a made-up answer of `shell` or `http` means: an exit code or a status fails as the real tool's would."""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from detent.core.contract import Contract
from detent.core.effect_type import Effect, EffectFailed, Outcome, OutcomeUnknown, PartialFailure
from detent.effects.http import UNDECIDED


def judge_answers(effect: Effect, kind: str = "", allowed: Mapping[str, Any] | None = None) -> Effect:
    """The same effect; an answer that the real tool of its name, or of that kind, would take for a failure is one."""
    judge = {"shell": _exit, "http": _status}.get(kind or effect.name)
    if judge is None:
        return effect

    async def perform(contract: Contract) -> Any:
        said = await effect.perform(contract)
        given = said.result if isinstance(said, Outcome) else said
        if isinstance(given, dict) and given.get("success") is not True:
            judge(contract, {**(allowed or {}), **contract.input}, {**given, "success": False})
        return said

    return replace(effect, perform=perform)


def _exit(_: Contract, said: dict[str, Any], given: dict[str, Any]) -> None:
    code = given.get("exit")
    if _is_number(code) and code not in _as_list(said.get("ok_exit", 0)):
        raise PartialFailure(f"exit code {code}", "tool_failure.exit", given)


def _status(contract: Contract, said: dict[str, Any], given: dict[str, Any]) -> None:
    status: Any = given.get("status")
    if not _is_number(status) or status < 400 or status in _as_list(said.get("ok_status", [])):
        return
    if contract.is_irreversible and (status >= 500 or status in UNDECIDED):
        raise OutcomeUnknown(f"status {status}", given)
    failure = EffectFailed if contract.is_irreversible else PartialFailure
    raise failure(f"status {status}", "tool_failure.http", given)


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
