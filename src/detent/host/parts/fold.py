"""The fold: an event, what policy and keys say to what it leads to, and what is to be done when all that is on disk."""

from abc import abstractmethod
from collections import deque
from functools import partial
from typing import assert_never

from msgspec import Struct

from detent.core.commands import Abort, Ask, Command, Finish, Perform, Wake
from detent.core.contract import Contract
from detent.core.engine import advance
from detent.core.events import ContractMoved, Event
from detent.core.history import Entry
from detent.core.run import Run
from detent.errors import Refused
from detent.host.parts.call_precaution import Precautions
from detent.host.parts.clock import Clock
from detent.host.parts.idempotency_claim import Claims
from detent.host.parts.journal_query import Batch, seal
from detent.host.parts.loaded_run import LoadedRun
from detent.host.parts.outbox import Outbox


class FoldPlan(Struct, eq=False):
    """What to do when a batch of one run is on disk, and not before."""

    live: LoadedRun
    batch: Batch
    performs: tuple[str, ...] = ()
    aborts: tuple[Contract, ...] = ()
    entries: tuple[Entry, ...] = ()


class FoldRoom(Precautions):
    """Where runs are folded; who keeps the journal says what a timer is."""

    claims: Claims
    clock: Clock
    outbox: Outbox

    @abstractmethod
    def set_timer(self, run_id: str, at: float) -> None:
        """Wake that run at that time; 0: no more."""

    def _fold_all(self, todo: deque[Event], deeds: FoldPlan, is_followed: bool) -> None:
        """Fold these events one after the other, and what the journal itself has to say to them."""
        live, batch = deeds.live, deeds.batch
        has_notes = live.machine.chart.has_notes
        while todo:
            before = live.run
            try:
                body, event = seal(todo.popleft())  # what is folded is what a replay will read
                run, commands, taken = advance(live.machine, before, event)
            except Refused:
                if not batch.events:
                    raise
                continue  # what the first event led to has closed this contract already
            if run is before:
                continue
            live.write(batch, event, body, run)
            if is_followed:
                deeds.entries += (Entry(run.seq, event, taken, run),)
            if has_notes:
                self.outbox.take(batch, run, live.machine.name, taken)
            if before.contracts:
                self.claims.follow(batch, before, run, event)
            for command in commands:
                self._plan(command, before, todo, deeds)

    def _plan(self, command: Command, before: Run, todo: deque[Event], deeds: FoldPlan) -> None:
        """Keep a command for when its event is on disk; what policy and keys say to it is still to be folded."""
        match command:
            case Perform():
                if self._may_go_on(deeds, before, command.contract_id, todo):
                    deeds.performs += (command.contract_id,)
            case Ask():
                self._may_go_on(deeds, before, command.contract_id, todo)
            case Abort():
                stopped = before.contract(command.contract_id)
                deeds.aborts += (stopped,) if stopped is not None else ()
            case Wake():
                self.set_timer(before.id, command.at)
            case Finish():
                pass  # how a run ended is in the run
            case _:
                assert_never(command)

    def _may_go_on(self, deeds: FoldPlan, before: Run, contract_id: str, todo: deque[Event]) -> bool:
        """Whether the policy and the keys let a contract act or ask as it is; what they say joins `todo`."""
        live, run = deeds.live, deeds.live.run
        contract = run.contract(contract_id)
        if contract is None or not (contract.question or contract.kind == "irreversible" or self.rulings.has_policy):
            return True
        ruling = self.rulings.on(before, run, live.machine, contract_id, partial(self.facts, live))
        if ruling is not None:
            todo.append(ruling)
            if type(ruling) is ContractMoved:
                return False  # it waits, is rejected, or begins with that move
        taken = self.claims.take(deeds.batch, run, contract_id, self.clock, partial(self._on_repeat, live, run))
        todo.extend(taken.events)
        return taken.may_go_on
