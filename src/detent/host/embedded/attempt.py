"""Carrying out contracts: calling effects, and turning whatever happens into one event.

After an irreversible call has left, silence is not failure: a timeout, a lost connection or a cancel leads to the
effect's probe, and without an answer from it to a question.
"""

import asyncio
import weakref
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from detent.core.contract import Contract, Failure
from detent.core.effect import Effect, EffectFailed, Outcome, OutcomeUnknown
from detent.core.events import HOLD, ContractMoved, Signalled
from detent.core.question import Question
from detent.core.run import Run
from detent.core.status import Status
from detent.core.value import plain
from detent.errors import DetentError, NotWaiting, Refused
from detent.host.embedded.live import Live
from detent.host.embedded.secret import Secrets

if TYPE_CHECKING:
    from detent.host.embedded.host import EmbeddedHost

FAILURES: dict[type[BaseException], str] = {TimeoutError: "timeout.action"}


class Attempts:
    """Every effect this host has under way."""

    def __init__(self, host: "EmbeddedHost") -> None:
        self._host = host
        self._aborted: set[tuple[str, str]] = set()
        self._begun: weakref.WeakSet[asyncio.Task[Any]] = weakref.WeakSet()
        self.is_draining = False

    def begin(self, live: Live, contract: Contract) -> None:
        """Carry out a contract whose start is on disk."""
        current = live.run.contract(contract.id)
        if current is None or current.status is not Status.RUNNING or self._host.is_closing:
            return
        if current.is_adrift:
            self._never_left(live, contract.id)
            return
        self._host.spawn(live, contract.id, self._attempt(live, current))

    def abort(self, live: Live, contract_id: str) -> None:
        """Stop a contract's effect, or the child run it waits for."""
        task = live.tasks.get(contract_id)
        if task is not None:
            task.cancel()
            if task in self._begun:
                self._aborted.add((live.run.id, contract_id))
            else:
                self._never_left(live, contract_id)
        child = child_id(live.run.id, contract_id)
        if self._host.journal.record(child) is not None:
            self._host.spawn(live, f"{contract_id} child", self._cancel_child(child))

    def _never_left(self, live: Live, contract_id: str) -> None:
        """Stopped before the effect was called: that is known, and nothing is in doubt."""
        error = Failure("cancelled", "stopped before it began")
        self._tell(live, ContractMoved(contract_id, "cancel", error=error, deed="none"))

    async def close(self, grace_s: float) -> None:
        """Hold every run that has something under way, let it finish for a moment, then stop it."""
        busy = [live for live in self._host.all_live() if live.tasks]
        self.is_draining = True
        for live in busy:
            if live.run.ended is None and not live.run.is_held:
                self._host.fold(live, Signalled(HOLD, {"reason": "shutdown"}, "host", self._host.clock.now()))
        tasks = [task for live in busy for task in live.tasks.values()]
        if tasks and grace_s > 0:
            await asyncio.wait(tasks, timeout=None if grace_s == float("inf") else grace_s)
        self.is_draining = False
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _attempt(self, live: Live, contract: Contract) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._begun.add(task)
        effect = self._host.effect(live, contract.effect)
        if contract.effect == "child":
            effect = Effect("child", lambda c: self._child(live, c))
        if effect is None:
            known = Failure("tool_failure.not_found", f"there is no effect `{contract.effect}` here")
            self._tell(live, ContractMoved(contract.id, "fail", error=known))
            return
        secrets = Secrets()
        try:
            moved = await self._call(live, effect, contract, secrets)
        except asyncio.CancelledError:
            if (live.run.id, contract.id) not in self._aborted:
                raise  # the host is closing: the contract stays as it is and is recovered later
            self._aborted.discard((live.run.id, contract.id))
            moved = None
        if moved is None:
            await self.doubt(live, contract.id, effect)
        else:
            self._tell(live, secrets.hidden(moved))

    async def _call(self, live: Live, effect: Effect, contract: Contract, secrets: Secrets) -> ContractMoved | None:
        """Call the effect; None when nobody knows whether it happened."""
        may_doubt = contract.is_irreversible
        task = asyncio.current_task()
        is_late = False

        def late() -> None:
            nonlocal is_late
            is_late = True
            if task is not None:
                task.cancel()

        clock = self._host.clock
        alarm = clock.call_at(clock.now() + contract.timeout_s, late) if contract.timeout_s else None
        try:
            given = contract if not secrets.find(contract.input) else replace(contract, input=secrets.resolve(contract.input))
            outcome = await effect.perform(given)
            return moved_by(contract, outcome)
        except asyncio.CancelledError:
            if not is_late:
                raise
            if task is not None:
                task.uncancel()
            if may_doubt:
                return None
            problem = f"`{contract.effect}` took longer than {contract.timeout_s:g} s"
            return ContractMoved(contract.id, "fail", error=Failure("timeout.action", problem))
        except OutcomeUnknown as error:
            if may_doubt:
                return None
            return ContractMoved(contract.id, "fail", error=Failure("tool_failure.unknown_outcome", str(error)))
        except EffectFailed as error:
            result = plain(error.result) if error.result is not None else None
            return ContractMoved(contract.id, "fail", error=Failure(error.type, str(error)), result=result)
        except TimeoutError as error:
            if may_doubt:
                return None
            return ContractMoved(contract.id, "fail", error=Failure("timeout.action", str(error) or "timed out"))
        except Exception as error:  # effects may fail in any way; the machine decides what that means
            failure = Failure("tool_failure.exception", f"{type(error).__name__}: {error}")
            return ContractMoved(contract.id, "fail", error=failure)
        finally:
            if alarm is not None:
                alarm.cancel()

    async def doubt(self, live: Live, contract_id: str, effect: Effect | None, is_crash: bool = False) -> None:
        """Nobody knows whether it happened: wait until nothing can be in flight, ask the probe, then a person."""
        contract = live.run.contract(contract_id)
        if contract is None or contract.status is not Status.RUNNING:
            return
        await self._host.clock.sleep_until(contract.moved_at + contract.settle_s)
        effect = effect or self._host.effect(live, contract.effect)
        if effect is not None and effect.reconcile is not None:
            found = await self._probe(effect, contract, is_crash)
            if found is not None:
                for moved in found:
                    self._tell(live, moved)
                return
        question = Question(
            f"`{contract.effect}` may already have happened. Did it?",
            "outcome_unknown",
            data={"choices": ["happened", "not_happened", "give_up"], "key": contract.key},
        )
        self._tell(live, ContractMoved(contract_id, "suspend", question=question, deed="possible", actor="recovery"))

    async def _probe(self, effect: Effect, contract: Contract, is_crash: bool) -> list[ContractMoved] | None:
        assert effect.reconcile is not None
        secrets = Secrets()
        try:
            given = replace(contract, input=secrets.resolve(contract.input)) if secrets.find(contract.input) else contract
            outcome = await effect.reconcile(given)
            if outcome is None:
                return None
            return [secrets.hidden(replace(moved_by(contract, outcome), actor="probe"))]
        except EffectFailed as error:
            if contract.is_adrift:
                return [ContractMoved(contract.id, "cancel", error=Failure("cancelled", str(error)), actor="probe", deed="none")]
            if not is_crash:
                failure = Failure("timeout.action", f"it did not happen: {error}")
                return [ContractMoved(contract.id, "fail", error=failure, actor="probe")]
            return run_again(contract, "probe")
        except Exception:
            return None  # a probe that breaks cannot tell

    async def _child(self, live: Live, contract: Contract) -> Outcome:
        """Start (or find again) the run this contract stands for, and wait for it to call back."""
        machine = self._host.child_machine(live, contract)
        run_id = child_id(live.run.id, contract.id)
        given = contract.input.get("input")
        await self._host.start(
            machine,
            given if isinstance(given, dict) else {},
            run_id=run_id,
            by=live.run.by,
            session=live.run.session,
            source=live.run.source,
            parent=f"{live.run.id} {contract.id}",
        )
        return Outcome(question=Question(f"waits for run {run_id}", "callback", data={"run_id": run_id}))

    async def _cancel_child(self, run_id: str) -> None:
        try:
            await self._host.cancel(run_id, by="parent")
        except Refused:
            return  # it has ended already

    def hand_up(self, run: Run) -> None:
        """A child run has ended: give its parent what came of it."""
        parent_id, _, contract_id = run.parent.partition(" ")
        try:
            live = self._host.load(parent_id)
        except DetentError:
            return  # the parent is gone or damaged; the child's own record stands
        contract = live.run.contract(contract_id)
        if contract is None or contract.status is not Status.WAITING:
            return
        error = None
        if run.ended is not Status.COMPLETED:
            kind = {Status.REJECTED: "approval_rejected", Status.CANCELLED: "cancelled"}.get(run.ended or Status.FAILED, "tool_failure")
            cause = run.error.message if run.error else ""
            error = Failure(kind, f"run {run.id} ended as {run.ended.value if run.ended else '?'}: {cause}", {"run_id": run.id})
        result = {"run_id": run.id, "output": run.output, "state": run.state}
        self._tell(live, ContractMoved(contract_id, "resume", result=result, error=error, actor="child"))

    def _tell(self, live: Live, moved: ContractMoved) -> None:
        try:
            self._host.fold(live, replace(moved, at=self._host.clock.now()))
        except NotWaiting:
            return  # it was ended in the meantime; a late result changes nothing
        except Refused as error:
            failure = Failure("validation_error", str(error))
            self._host.fold(live, ContractMoved(moved.contract_id, "fail", error=failure, at=self._host.clock.now()))
        contract = live.run.contract(moved.contract_id)
        if contract and contract.question and contract.question.reason == "callback":
            child = self._host.live(str(contract.question.data.get("run_id")))
            if child is not None and child.run.ended is not None and not child.unwritten:
                self.hand_up(child.run)


def run_again(contract: Contract, actor: str) -> list[ContractMoved]:
    """The two moves that put a contract known not to have happened to work again."""
    doubt = Question("interrupted", "outcome_unknown")
    return [
        ContractMoved(contract.id, "suspend", question=doubt, deed="none", actor=actor),
        ContractMoved(contract.id, "resume", result={"outcome": "not_happened", "by": actor}, actor=actor),
    ]


def moved_by(contract: Contract, outcome: Any) -> ContractMoved:
    """What an effect returned, as the event it means."""
    if not isinstance(outcome, Outcome):
        return ContractMoved(contract.id, "succeed", result=plain(outcome, "result"))
    if outcome.question is not None:
        return ContractMoved(contract.id, "suspend", question=outcome.question, deed="none", usage=outcome.usage)
    return ContractMoved(
        contract.id,
        "succeed",
        result=plain(outcome.result, "result"),
        raises=outcome.raises,
        patch=plain(outcome.patch, "patch"),
        usage=outcome.usage,
    )


def child_id(run_id: str, contract_id: str) -> str:
    """The id of the run a contract starts: the same every time it is tried."""
    return f"{run_id}.{contract_id.replace('/', '.')}"[:100]
