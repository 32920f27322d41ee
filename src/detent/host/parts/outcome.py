"""What came of a call, as the events it means: results, failures, doubts, and the limit on a call's time."""

import asyncio
from typing import Any, NamedTuple

from msgspec.structs import replace

from detent.core.contract import Contract, Failure
from detent.core.effect_type import Declined, EffectFailed, Outcome, OutcomeUnknown, PartialFailure
from detent.core.events import ContractMoved
from detent.core.question import Question
from detent.core.status import Status
from detent.core.value import plain
from detent.errors import Refused
from detent.host.parts.clock import Clock

MESSAGE_MAX = 10_000
EVIDENCE = "evidence"  # who speaks when a call that was given up answers late
ANSWERS = ("tool_failure.exit", "tool_failure.http")  # failures that came with an answer


class Limit:
    """A contract's time limit: cancels the current task when it is over."""

    __slots__ = ("_alarm", "_task", "is_over")

    def __init__(self, clock: Clock, timeout_s: float, task: asyncio.Task[None] | None = None) -> None:
        self.is_over = False
        self._task = task or asyncio.current_task()
        self._alarm = clock.call_at(clock.now() + timeout_s, self) if timeout_s else None

    @property
    def is_from_outside(self) -> bool:
        """Whether somebody other than this limit has cancelled the task."""
        return self._task is not None and self._task.cancelling() > self.is_over

    @property
    def is_abandoned(self) -> bool:
        """Whether the task is being closed, and not carried on by its loop: nothing can be said any more."""
        try:
            return asyncio.current_task() is not self._task
        except RuntimeError:  # the loop has ended
            return True

    def __call__(self) -> None:
        """The time is over."""
        self.is_over = True
        if self._task is not None:
            self._task.cancel()

    def cancel(self) -> None:
        """The call came back."""
        if self._alarm is not None:
            self._alarm.cancel()
        if self.is_over and self._task is not None:
            self._task.uncancel()


class UnknownOutcome(NamedTuple):
    """Nobody knows whether a call happened, and why; `result` is what came back all the same."""

    cause: str = ""
    type: str = "tool_failure.unknown_outcome"
    result: Any = None
    sandbox: str = ""  # in which it was made


def make_failure(contract: Contract, kind: str, message: str, at: float, result: Any = None) -> ContractMoved:
    """A contract that did not work, with as much of the reason as can be kept."""
    try:
        result, message = plain(result), plain(message[:MESSAGE_MAX])
    except Refused as error:
        result, message = None, f"{message[:200]} (and its result could not be kept: {error})"
    return ContractMoved(contract.id, "fail", error=Failure(kind, message), result=result, at=at)


def take_report(contract: Contract, error: EffectFailed | PartialFailure, at: float, rules: int) -> ContractMoved:
    """What the tool itself says went wrong, or that it ended because somebody said no."""
    if rules == 1 and error.type in ANSWERS and isinstance(error.result, dict):
        return move_for(contract, error.result, at)  # in 0.1 an exit code and a status were results, not errors
    moved = replace(make_failure(contract, error.type, str(error), at, error.result), usage=error.usage)
    if isinstance(error, Declined):
        return replace(moved, trigger="reject", deed=error.deed)
    is_kept = isinstance(error, PartialFailure) and contract.is_irreversible and not contract.is_lenient
    return replace(moved, deed="possible") if is_kept else moved


def judge_exception(contract: Contract, error: BaseException, at: float) -> ContractMoved | UnknownOutcome:
    """An exception that is nobody's word on what happened: after an irreversible call, a doubt."""
    result = _plain(error.result) if isinstance(error, OutcomeUnknown) else None
    kind = "timeout.action" if isinstance(error, TimeoutError) else "tool_failure.exception"
    if contract.is_irreversible:
        return UnknownOutcome(describe_exception(error), kind, result)
    return make_failure(contract, kind, describe_exception(error), at, result)


def not_kept(contract: Contract | None, moved: ContractMoved, error: Refused) -> ContractMoved:
    """The engine could not take what an effect gave: an irreversible deed is done, or in doubt, all the same."""
    if contract is not None and contract.is_irreversible:
        if moved.trigger == "succeed":
            return ContractMoved(moved.contract_id, "succeed", result={"not_kept": str(error)}, at=moved.at)
        if moved.deed == "possible":
            return replace(doubtful(contract, UnknownOutcome(str(error), "validation_error")), at=moved.at)
    return ContractMoved(moved.contract_id, "fail", error=Failure("validation_error", str(error)), at=moved.at)


def _plain(value: Any) -> Any:
    """A value as the journal can keep it; None where it cannot."""
    try:
        return plain(value)
    except Refused:
        return None


def describe_exception(error: BaseException) -> str:
    """An exception as a sentence, whatever its own `__str__` does."""
    try:
        return f"{type(error).__name__}: {error}"
    except (Exception, SystemExit) as problem:  # noqa: BLE001
        return f"{type(error).__name__} (and it cannot say more: {type(problem).__name__})"


def doubtful(contract: Contract, doubt: UnknownOutcome, lands_until: float = 0.0, advice: str = "") -> ContractMoved:
    """The question whether it happened; until `lands_until` nobody can know that it did not."""
    data: dict[str, Any] = {"choices": ["happened", "not_happened", "give_up"], "key": contract.key}
    if doubt.cause:
        data["cause"] = {"type": doubt.type, "message": doubt.cause[:MESSAGE_MAX]}
    if doubt.result is not None:
        data["result"] = doubt.result
    if lands_until:
        data["lands_until"] = lands_until
    text = f"`{contract.effect}` may already have happened. Did it?" + (f"\n{advice}" if advice else "")
    question = Question(text, "outcome_unknown", data=data)
    return ContractMoved(contract.id, "suspend", question=question, deed="possible", actor="recovery")


def not_done(contract: Contract, error: EffectFailed, is_crash: bool) -> list[ContractMoved]:
    """What follows from the probe's word that nothing happened."""
    cause = f"it did not happen: {error}"[:MESSAGE_MAX]
    if contract.status is Status.WAITING:
        answer = {"outcome": "not_happened", "by": "probe"}
        failure = None if is_crash or contract.is_adrift else Failure("timeout.action", cause)
        return [ContractMoved(contract.id, "resume", result=answer, error=failure, actor="probe")]
    if contract.is_adrift:
        return [ContractMoved(contract.id, "cancel", error=Failure("cancelled", cause), actor="probe", deed="none")]
    if is_crash:
        return run_again(contract, "probe")
    return [ContractMoved(contract.id, "fail", error=Failure("timeout.action", cause), actor="probe")]


def evident(contract: Contract, moved: ContractMoved) -> ContractMoved:
    """What came late of a call, as what it means for a contract that is still in doubt."""
    if moved.trigger == "succeed":
        return confirm_happened(contract, moved, EVIDENCE)
    if contract.status is not Status.WAITING:
        return replace(moved, actor=EVIDENCE)
    outcome = "give_up" if moved.deed == "possible" else "not_happened"
    answer = {"outcome": outcome, "by": EVIDENCE}
    return replace(moved, trigger="resume", result=answer, deed="", actor=EVIDENCE)


def confirm_happened(contract: Contract, moved: ContractMoved, by: str) -> ContractMoved:
    """What a call gave, as the answer to the question whether it happened."""
    if contract.status is not Status.WAITING:
        return replace(moved, actor=by)
    answer = {"outcome": "happened", "result": moved.result, "by": by}
    return replace(moved, trigger="resume", result=answer, actor=by)


def run_again(contract: Contract, actor: str) -> list[ContractMoved]:
    """The two moves that put a contract known not to have happened to work again."""
    doubt = Question("interrupted", "outcome_unknown")
    return [
        ContractMoved(contract.id, "suspend", question=doubt, deed="none", actor=actor),
        ContractMoved(contract.id, "resume", result={"outcome": "not_happened", "by": actor}, actor=actor),
    ]


def _for_judges(contract: Contract, asked: Question) -> Question:
    """What an effect asks, for those alone who could approve its call."""
    if asked.reason != "form" or asked.approvers or not (contract.judges or contract.separate):
        return asked
    return replace(asked, approvers=contract.judges, separate=asked.separate or contract.separate)


def move_for(contract: Contract, outcome: Any, at: float) -> ContractMoved:
    """What an effect returned, as the event it means."""
    try:
        if outcome is None or type(outcome) is not Outcome:
            return ContractMoved(contract.id, "succeed", result=plain(outcome, "result"), at=at)
        if outcome.question is not None:
            asked = _for_judges(contract, outcome.question)
            deed = "possible" if asked.hears_no else "none"
            return ContractMoved(contract.id, "suspend", question=asked, deed=deed, usage=outcome.usage, at=at)
        result = plain(outcome.result, "result")
        if not (outcome.raises or outcome.patch or outcome.usage):
            return ContractMoved(contract.id, "succeed", result=result, at=at)
        patch = plain(outcome.patch, "patch")
        return ContractMoved(
            contract.id, "succeed", result=result, raises=outcome.raises, patch=patch, usage=outcome.usage, at=at
        )
    except Refused as error:
        return not_kept(contract, ContractMoved(contract.id, "succeed", at=at), error)
