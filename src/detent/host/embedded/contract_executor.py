"""Carrying out contracts: calling effects, and turning whatever happens into one event.

After an irreversible call has left, silence is not failure: a timeout, a lost connection or a cancel leads to the
effect's probe, and without an answer from it to a question.
"""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from detent.core import progress
from detent.core.contract import Contract, Failure
from detent.core.effect_type import Effect, Outcome, StillRunning
from detent.core.events import HOLD, ContractMoved, Signalled
from detent.core.identity import Identity
from detent.core.run import Run
from detent.core.status import Status
from detent.errors import DetentError, JournalError, NotWaiting, Refused
from detent.host.embedded.doubt import DoubtRegister, guard_work
from detent.host.embedded.task_pool import TaskPool
from detent.host.parts.child import awaiting, begin_child, child_id, child_machine, describe_end
from detent.host.parts.effect_call import call_effect
from detent.host.parts.loaded_run import LoadedRun
from detent.host.parts.outcome import (
    UnknownOutcome,
    describe_exception,
    doubtful,
    make_failure,
    not_kept,
)
from detent.host.parts.secret import NONE, Secrets, hide, list_secrets

if TYPE_CHECKING:
    from detent.host.embedded.host_protocol import ChildHost

_CHILD_MARK = " child"


class Attempts:
    """Every effect this host has under way."""

    def __init__(self, host: "ChildHost") -> None:
        self._host = host
        self._under_way: dict[tuple[str, str], bool] = {}  # attempts that have begun; whether the effect was called
        self._aborted: set[tuple[str, str]] = set()
        self.doubts = DoubtRegister(host, self)
        self.is_draining = False
        self._may_begin = True
        self._pool = TaskPool(host.tasks, self._attempt)

    def begin(self, live: LoadedRun, contract_id: str) -> None:
        """Carry out a contract whose start is on disk."""
        contract = live.run.contract(contract_id)
        if contract is None or contract.status is not Status.RUNNING or not self._may_begin:
            live.dispatched.discard(contract_id)
        elif contract.is_adrift:
            self._never_left(live, contract_id)
        else:
            self._under_way[live.run.id, contract_id] = False
            live.tasks[contract_id] = self._pool.take(live, contract)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way that could have something to write in a moment."""
        return not self._under_way

    def abort(self, live: LoadedRun, contract: Contract) -> None:
        """Stop a contract's effect, or the child run it waits for; a doubt being settled goes on."""
        contract_id, question = contract.id, contract.question
        if contract.status is Status.WAITING and question is not None and question.hears_no:
            effect = self._host.effect(live, contract.effect)
            if effect is not None and effect.withdraw is not None:
                effect.withdraw(contract)
        task = live.tasks.get(contract_id)
        if task is not None:
            if self._under_way.get((live.run.id, contract_id)):
                self._aborted.add((live.run.id, contract_id))
                task.cancel()
            elif contract_id in live.dispatched:
                self._never_left(live, contract_id)
        for child in filter(None, (child_id(live.run.id, contract_id), contract.reopens)):
            if self._host.live(child) is not None or self._host.journal.record(child) is not None:
                mark = f"{contract_id}{' again' if child == contract.reopens else ''}{_CHILD_MARK}"
                self._host.spawn(live, mark, self._cancel_child(live, mark, child))

    def drop(self, live: LoadedRun) -> None:
        """Stop whatever a run has under way; its journal has broken off, and nothing more is said of it."""
        for mark, task in live.tasks.items():
            if self._under_way.pop((live.run.id, mark), True):  # one that has not begun has no task of its own yet
                task.cancel()

    def _never_left(self, live: LoadedRun, contract_id: str) -> None:
        """Stopped before the effect was called: that is known, and nothing is in doubt."""
        live.dispatched.discard(contract_id)
        live.tasks.pop(contract_id, None)
        self._under_way.pop((live.run.id, contract_id), None)
        error = Failure("cancelled", "stopped before it began")
        self.tell(live, ContractMoved(contract_id, "cancel", error=error, deed="none", at=self._host.clock.now()))

    async def close(self, grace_s: float) -> None:
        """Hold every run that has something under way, let it finish for a moment, then stop it."""
        self.is_draining = True
        for live in self._to_hold():
            try:
                self._host.fold(live, Signalled(HOLD, {"reason": "shutdown"}, "host", self._host.clock.now()))
            except DetentError as error:
                self._host.report(live.run.id, error)
        loop = asyncio.get_running_loop()
        until = loop.time() + grace_s
        while grace_s > 0:
            await self._host.all_written()
            at_work = [task for live in self._host.all_live() for mark, task in live.tasks.items()
                       if mark in live.dispatched or mark.endswith(_CHILD_MARK)]  # fmt: skip
            left = until - loop.time()
            if not at_work or left <= 0:
                break
            await asyncio.wait(
                at_work, timeout=None if until == float("inf") else left, return_when=asyncio.FIRST_COMPLETED
            )
        self._may_begin = False
        self._pool.clear()
        tasks = [task for live in self._host.all_live() for task in live.tasks.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self.is_draining = False

    def _to_hold(self) -> list[LoadedRun]:
        """The runs with something under way, and those that hear of it when it is done."""
        found: dict[str, LoadedRun] = {}
        busy = [live for live in self._host.all_live() if live.tasks or live.unwritten]
        while busy:
            live = busy.pop()
            above = live.run.parent.partition(" ")[0]
            if above and live.run.id not in found:
                try:
                    busy.append(self._host.load(above))
                except DetentError as error:
                    self._host.report(above, error)
            found[live.run.id] = live
        return [live for live in found.values() if live.run.ended is None and not live.run.is_held]

    def broke(self, live: LoadedRun, contract_id: str, error: Exception) -> None:
        """Carrying out a contract went wrong on our side: end it, so that its run does not wait for ever."""
        self._host.report(live.run.id, error)
        live.dispatched.discard(contract_id)
        live.tasks.pop(contract_id, None)
        self._under_way.pop((live.run.id, contract_id), None)
        contract = live.run.contract(contract_id)
        if isinstance(error, JournalError) or contract is None or contract.status is not Status.RUNNING:
            return  # the journal has the last word, and it is with `recover`
        at = self._host.clock.now()
        moved = make_failure(contract, "engine_error", describe_exception(error), at)
        if contract.is_irreversible:
            moved = doubtful(contract, UnknownOutcome(describe_exception(error), "engine_error"))
        try:
            self._host.fold(live, replace(moved, at=at))
        except DetentError as problem:
            self._host.report(live.run.id, problem)

    async def _attempt(self, live: LoadedRun, contract: Contract, task: asyncio.Task[None]) -> None:
        """Call the effect, then say what came of it; guarded as `_owned` would, without one more coroutine."""
        host, run_id = self._host, live.run.id
        mark = (run_id, contract.id)
        if mark not in self._under_way:
            return  # stopped before it began
        live.tasks[contract.id] = task
        try:
            effect, known = host.find_effect(live, contract), list_secrets(live.machine, contract.action)
            if contract.effect == "child":
                effect, known = Effect("child", lambda c: self._child(live, c)), frozenset()
            secrets = Secrets(known, partial(host.secret_box.find, run_id)) if known else NONE
            self._under_way[mark] = True
            notes: dict[str, str] = {}
            least = host.least_sandbox(live, contract)
            speaking = progress.attempt.set(
                progress.Attempt(contract, run_id, self._pass_on, host.ground, least, notes, host.artefacts)
            )
            try:
                met = None
                if effect is None or host.claims.gap is not None:
                    met = await self._meet_obstacle(live, effect, contract)
                linger = partial(self._linger, live, contract)
                moved = met or await call_effect(effect, contract, secrets, host.clock, live.run.rules, linger, task)
            except asyncio.CancelledError:
                if mark not in self._aborted:
                    raise  # the host is closing: the contract stays as it is and is recovered later
                moved = UnknownOutcome(f"`{contract.effect}` was stopped", "cancelled")
            finally:
                progress.attempt.reset(speaking)
                host.onlookers.finish(run_id, contract.id)
                self._under_way.pop(mark, None)
                self._aborted.discard(mark)
                live.dispatched.discard(contract.id)
                live.tasks.pop(contract.id, None)
            if type(moved) is UnknownOutcome:
                doubt = hide(secrets, moved)._replace(sandbox=notes.get("sandbox", ""))
                host.spawn(live, contract.id, self.doubts.settle(live, contract.id, effect, doubt))
            elif type(moved) is ContractMoved:
                if notes:
                    moved = replace(moved, sandbox=notes.get("sandbox", ""))
                self._pool.at_hand(task)
                self.tell(live, secrets.hide(moved))
        except Exception as error:  # noqa: BLE001  # the last guard: whatever it is, the other runs go on
            self.broke(live, contract.id, error)

    def _pass_on(self, run_id: str, contract_id: str, data: Mapping[str, Any]) -> None:
        """An effect said something; after its end nobody is told any more."""
        if self.is_under_way(run_id, contract_id):
            self._host.overheard(run_id, contract_id, data)

    def is_under_way(self, run_id: str, contract_id: str) -> bool:
        """Whether the effect of a contract is being called now."""
        return (run_id, contract_id) in self._under_way

    async def _meet_obstacle(self, live: LoadedRun, effect: Effect | None, contract: Contract) -> ContractMoved | None:
        """What stands against a call: there is no such effect, or it may have been made before a restore."""
        if effect is None:
            missing = f"there is no effect `{contract.effect}` here"
            return make_failure(contract, "tool_failure.not_found", missing, self._host.clock.now())
        return await self.doubts.meet_gap(live, effect, contract)

    def _linger(self, live: LoadedRun, contract: Contract, secrets: Secrets, error: StillRunning) -> None:
        if self._may_begin:  # a host that closes does not wait for what cannot be stopped
            self.doubts.linger(live, contract, secrets, error)

    async def _child(self, live: LoadedRun, contract: Contract) -> Outcome:
        machine = child_machine(self._host.journal, live.machine, contract)
        return await begin_child(self._host, machine, live, contract)

    @guard_work
    async def _cancel_child(self, live: LoadedRun, mark: str, run_id: str) -> None:
        try:
            await self._host.cancel(run_id, by=Identity("parent", "detent"))
        except Refused:
            return  # it has ended already
        finally:
            live.tasks.pop(mark, None)

    def hand_up(self, run: Run) -> None:
        """A child run has ended: give its parent what came of it."""
        parent_id, _, contract_id = run.parent.partition(" ")
        try:
            live = self._host.load(parent_id)
        except DetentError:
            return  # the parent is gone or damaged; the child's own record stands
        contract = awaiting(live.run, run.id, contract_id)
        if contract is None or contract.status is not Status.WAITING:
            return
        result, error = describe_end(run)
        try:
            self.tell(
                live,
                ContractMoved(
                    contract.id, "resume", result=result, error=error, actor="child", at=self._host.clock.now()
                ),
            )
        except DetentError as problem:
            self._host.report(parent_id, problem)  # `recover` hands it up again

    def is_at_work(self, live: LoadedRun, contract_id: str) -> bool:
        """Whether this process has begun a contract, or is about to."""
        return (live.run.id, contract_id) in self._under_way or contract_id in live.dispatched

    def tell(self, live: LoadedRun, moved: ContractMoved, follow: Sequence[ContractMoved] = ()) -> None:
        """Fold what came of a contract; too late, it changes nothing."""
        try:
            self._host.fold(live, moved, follow=follow)
        except NotWaiting:
            return  # it was ended in the meantime; a late result changes nothing
        except Refused as error:
            contract = live.run.contract(moved.contract_id)
            if contract is None or contract.status is not Status.RUNNING:
                self._host.report(live.run.id, error)
                return
            self._host.fold(live, not_kept(contract, moved, error))
        if moved.question is not None and moved.question.reason == "callback":
            self._hand_up_again(str(moved.question.data.get("run_id")))

    def _hand_up_again(self, run_id: str) -> None:
        """A child that ended before its parent began to wait has called in vain."""
        try:
            child = self._host.load(run_id)
        except DetentError:
            return  # not a run of ours: somebody else will call back
        if child.run.ended is not None and not child.unwritten:
            self.hand_up(child.run)
