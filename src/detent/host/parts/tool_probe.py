"""The probe that a definition names for a call: another call, whose answer says whether the first one happened.

Only its two conditions decide. A probe that fails, that the policy would not let through, or whose answer fits neither
of them has not said anything.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from msgspec.structs import replace

from detent.core.contract import Contract
from detent.core.effect_type import Effect, EffectFailed, Outcome, OutcomeUnknown, PartialFailure
from detent.core.expression import compile_condition
from detent.errors import ExpressionError

AskProbeCall = Callable[[Contract], Awaitable[Any]]  # makes the call; None: it may not be made


def add_probe(effect: Effect, call: AskProbeCall) -> Effect:
    """The effect, whose own probe is asked first, then that of the contract."""

    async def reconcile(contract: Contract) -> Outcome | None:
        found = await effect.reconcile(contract) if effect.reconcile is not None else None
        return found if found is not None else await _ask(contract, call)

    return replace(effect, reconcile=reconcile)


async def _ask(contract: Contract, call: AskProbeCall) -> Outcome | None:
    probe = contract.probe
    asked = replace(
        contract,
        effect=probe["effect"],
        input=probe["input"],
        kind="pure",
        key=f"{contract.key} probe",
        call_hash="",
        question=None,
        probe={},
    )
    try:
        said = await call(asked)
    except (EffectFailed, PartialFailure, OutcomeUnknown):
        return None  # of the probe itself: about the deed it says nothing
    if said is None:
        return None
    result = said.result if isinstance(said, Outcome) else dict(said)
    if _holds(probe["happened"], result):
        return Outcome(result)
    if _holds(probe["not_happened"], result):
        raise EffectFailed("its probe says that it did not happen", result=result)
    return None


def _holds(condition: str, result: Any) -> bool:
    try:
        return bool(compile_condition(condition)({"result": result}))
    except ExpressionError:
        return False
