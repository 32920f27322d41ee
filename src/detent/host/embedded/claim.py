"""Once only: keys of irreversible deeds, claimed across all runs of a journal.

A claim is written in the same transaction as the contract that takes it. It is freed only on evidence that nothing
happened; a doubt keeps it. What came of a deed is read from its holder's events when somebody else asks for its key.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from detent.core.contract import Contract, Failure
from detent.core.events import ContractMoved, Event
from detent.core.run import Run
from detent.core.status import Status
from detent.host.embedded.clock import Clock
from detent.host.embedded.journal import Batch, Claim, Journal, decode_event, encode

MENTIONS = (
    "select cast(body as blob) from events where run = (select no from runs where run_id = ?)"
    " and instr(body, cast(? as blob)) order by seq desc"
)


class Fate(NamedTuple):
    """What came of a deed whose key is taken."""

    status: str = "open"
    result: Any = None


class Claims:
    """Takes, frees and looks up keys; what is not yet on disk is kept here.

    Only this process writes the journal, so what is kept here is what the journal will say in a moment.
    """

    def __init__(self, journal: Callable[[], Journal]) -> None:
        self._journal = journal
        self._fresh: dict[tuple[str, str], Claim | None] = {}
        self._ended: dict[tuple[str, str], Fate] = {}  # by run and contract

    def take(self, batch: Batch, run: Run, contract_id: str, clock: Clock) -> ContractMoved | None:
        """Claim a contract's key; the event that ends the contract when it is taken already."""
        contract = run.contract(contract_id)
        if contract is None or contract.kind != "irreversible" or contract.effect in ("ask", "wait"):
            return None
        place = _place(run, contract)
        held = self.holder(*place)
        if held is None or (held.run_id == run.id and held.contract_id == contract.supersedes):
            claim = Claim(*place, run.id, contract_id, contract.call_hash, clock.now())
            self._fresh[place] = claim
            batch.claims += (claim,)
            return None
        if held.run_id == run.id and held.contract_id == contract_id:
            return None
        return _refusal(contract, held, self._fate(held), clock.now())

    def follow(self, batch: Batch, before: Run, run: Run, event: Event) -> None:
        """Free the keys of contracts this event has ended, unless they have happened, or nobody knows."""
        for contract in before.contracts:
            if contract.kind == "irreversible" and run.contract(contract.id) is None:
                self._follow(batch, run, contract, event)

    def holder(self, scope: str, key: str) -> Claim | None:
        """Who has this key."""
        if (scope, key) in self._fresh:
            return self._fresh[scope, key]
        return self._journal().claim(scope, key)

    def wrote(self, batch: Batch) -> None:
        """What is on disk need not be kept here."""
        for claim in batch.claims:
            if self._fresh.get((claim.scope, claim.key)) is claim:
                del self._fresh[claim.scope, claim.key]
        for scope, key, _, _ in batch.freed:
            if self._fresh.get((scope, key), batch) is None:
                del self._fresh[scope, key]
        for mark in batch.fates:
            self._ended.pop(mark, None)

    def forget(self, run_id: str) -> None:
        """Drop what a run has claimed only in memory."""
        for place in [p for p, claim in self._fresh.items() if claim is None or claim.run_id == run_id]:
            del self._fresh[place]
        for mark in [m for m in self._ended if m[0] == run_id]:
            del self._ended[mark]

    def _follow(self, batch: Batch, run: Run, contract: Contract, event: Event) -> None:
        if type(event) is ContractMoved and event.contract_id == contract.id:
            fate = _fate(event)
            if fate.status == "completed" or (fate.status == "in doubt" and contract.deed == "possible"):
                self._ended[run.id, contract.id] = fate
                batch.fates += ((run.id, contract.id),)
                return
        place = _place(run, contract)
        held = self.holder(*place)
        if held is not None and held.run_id == run.id and held.contract_id == contract.id:
            self._fresh[place] = None
            batch.freed += ((*place, run.id, contract.id),)

    def _fate(self, held: Claim) -> Fate:
        known = self._ended.get((held.run_id, held.contract_id))
        if known is not None:
            return known
        moved = _last_move(self._journal(), held)
        return Fate() if moved is None else _fate(moved)


def _place(run: Run, contract: Contract) -> tuple[str, str]:
    if contract.scope == "run":
        return f"run:{run.id}", contract.key
    if contract.scope == "session":
        return f"session:{run.session or run.id}", contract.key
    return "global", contract.key


def _last_move(journal: Journal, held: Claim) -> ContractMoved | None:
    """The latest event about the holder's contract."""
    for (body,) in journal.rows(MENTIONS, (held.run_id, encode(held.contract_id))):
        try:
            event = decode_event(body)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            continue  # its own run will say that it is damaged; here the key just stays taken
        if type(event) is ContractMoved and event.contract_id == held.contract_id:
            return event
    return None


def _fate(moved: ContractMoved) -> Fate:
    """What a contract's latest event says of its deed; one that ended otherwise than here has given back its key."""
    given = moved.result if isinstance(moved.result, dict) else {}
    if moved.trigger == "succeed" and given.get("success") is not False:
        return Fate(Status.COMPLETED.value, moved.result)
    if moved.trigger == "resume" and given.get("outcome") == "happened":
        return Fate(Status.COMPLETED.value, given.get("result"))
    # Somebody gave up on finding out, or a call that was told no did not say that it did nothing.
    is_told_no = moved.trigger == "reject" and moved.deed == "possible"
    gave_up = moved.trigger == "resume" and given.get("outcome") == "give_up"
    return Fate("in doubt") if is_told_no or gave_up else Fate()


def _refusal(contract: Contract, held: Claim, fate: Fate, at: float) -> ContractMoved:
    holder = {"run_id": held.run_id, "contract_id": held.contract_id}
    if held.call_hash != contract.call_hash and held.call_hash:
        problem = f"the key {contract.key} was used for another call by {held.run_id}"
        error = Failure("validation_error", problem, {"holder": holder})
    elif fate.status == Status.COMPLETED.value:
        error = Failure("already_done", f"already done by {held.contract_id} of run {held.run_id}", {"holder": holder})
    else:
        problem = f"the same deed is {fate.status} in {held.contract_id} of run {held.run_id}"
        error = Failure("key_held", problem, {"holder": holder})
    if contract.status is Status.WAITING:
        answer = {"approved": False, "by": "journal", "comment": error.message, "result": fate.result}
        return ContractMoved(contract.id, "resume", result=answer, error=error, actor="journal", at=at)
    return ContractMoved(contract.id, "reject", result=fate.result, error=error, actor="journal", at=at)
