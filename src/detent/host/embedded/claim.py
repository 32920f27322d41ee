"""Once only: keys of irreversible deeds, claimed across all runs of a journal.

A claim is written in the same transaction as the contract that takes it. It is freed only on evidence that nothing
happened; a doubt keeps it.
"""

from collections.abc import Callable

from detent.core.contract import Contract, Failure
from detent.core.events import ContractMoved, Event
from detent.core.run import Run
from detent.core.status import Status
from detent.host.embedded.clock import Clock
from detent.host.embedded.journal import Batch, Claim, Journal

OPEN = "open"
KEPT_MAX = 1000  # keys; deeds that wait for people may be many, and theirs are read again


class Claims:
    """Takes, frees and looks up keys; those of deeds under way, and what is not yet on disk, are kept here.

    Only this process writes the journal, so what is kept here is what the journal says, or will say in a moment.
    """

    def __init__(self, journal: Callable[[], Journal]) -> None:
        self._journal = journal
        self._fresh: dict[tuple[str, str], Claim | None] = {}

    def take(self, batch: Batch, run: Run, contract_id: str, clock: Clock) -> ContractMoved | None:
        """Claim a contract's key; the event that ends the contract when it is taken already."""
        contract = run.contract(contract_id)
        if contract is None or contract.kind != "irreversible" or contract.effect in ("ask", "wait"):
            return None
        at = clock.now()
        place = _place(run, contract)
        held = self.holder(*place)
        claim = Claim(*place, run.id, contract.id, contract.call_hash, OPEN, None, at)
        if held is None or (held.run_id == run.id and held.contract_id == contract.id):
            self._write(batch, claim)
            return None
        if held.run_id == run.id and held.contract_id == contract.supersedes:
            self._write(batch, claim)
            return None
        return _refusal(contract, held, at)

    def follow(self, batch: Batch, before: Run, run: Run, event: Event) -> None:
        """Free or seal the keys of contracts this event has ended."""
        for contract in before.contracts:
            if contract.kind == "irreversible" and run.contract(contract.id) is None:
                self._ended(batch, run, contract, event)

    def holder(self, scope: str, key: str) -> Claim | None:
        """Who has this key."""
        if (scope, key) in self._fresh:
            return self._fresh[scope, key]
        return self._journal().claim(scope, key)

    def wrote(self, batch: Batch) -> None:
        """What is on disk need not be kept here, but for the keys that will soon be asked for again."""
        for claim in batch.claims:
            is_kept = claim.status == OPEN and len(self._fresh) <= KEPT_MAX
            if not is_kept and self._fresh.get((claim.scope, claim.key)) is claim:
                del self._fresh[claim.scope, claim.key]
        for scope, key, _, _ in batch.freed:
            if self._fresh.get((scope, key), batch) is None:
                del self._fresh[scope, key]

    def forget(self, run_id: str) -> None:
        """Drop what a run has claimed only in memory."""
        for place in [p for p, claim in self._fresh.items() if claim is None or claim.run_id == run_id]:
            del self._fresh[place]

    def _ended(self, batch: Batch, run: Run, contract: Contract, event: Event) -> None:
        place = _place(run, contract)
        held = self.holder(*place)
        if held is None or (held.run_id, held.contract_id) != (run.id, contract.id):
            return
        moved = event if isinstance(event, ContractMoved) and event.contract_id == contract.id else None
        if moved is not None and _has_happened(moved):
            result = moved.result.get("result") if moved.trigger == "resume" else moved.result
            self._write(batch, held._replace(status=Status.COMPLETED.value, result=result))
        elif moved is not None and _is_in_doubt(contract, moved):
            self._write(batch, held._replace(status="in doubt"))
        else:
            self._fresh[place] = None
            batch.freed += ((*place, run.id, contract.id),)

    def _write(self, batch: Batch, claim: Claim) -> None:
        self._fresh[claim.scope, claim.key] = claim
        batch.claims += (claim,)


def _place(run: Run, contract: Contract) -> tuple[str, str]:
    owner = {"run": f"run:{run.id}", "session": f"session:{run.session or run.id}"}.get(contract.scope, "global")
    return owner, contract.key


def _has_happened(moved: ContractMoved) -> bool:
    if moved.trigger == "resume":
        return isinstance(moved.result, dict) and moved.result.get("outcome") == "happened"
    # A tool that answers `success: false` reports that it did not do it: the key is free for another try.
    is_refused = isinstance(moved.result, dict) and moved.result.get("success") is False
    return moved.trigger == "succeed" and not is_refused


def _is_in_doubt(contract: Contract, moved: ContractMoved) -> bool:
    """Somebody gave up on finding out, or a call that was told no did not say that it did nothing."""
    gave_up = isinstance(moved.result, dict) and moved.result.get("outcome") == "give_up"
    is_told_no = moved.trigger == "reject" and moved.deed == "possible"
    return is_told_no or (moved.trigger == "resume" and gave_up and contract.deed == "possible")


def _refusal(contract: Contract, held: Claim, at: float) -> ContractMoved:
    holder = {"run_id": held.run_id, "contract_id": held.contract_id}
    if held.call_hash != contract.call_hash and held.call_hash:
        problem = f"the key {contract.key} was used for another call by {held.run_id}"
        error = Failure("validation_error", problem, {"holder": holder})
    elif held.status == Status.COMPLETED.value:
        error = Failure("already_done", f"already done by {held.contract_id} of run {held.run_id}", {"holder": holder})
    else:
        problem = f"the same deed is {held.status} in {held.contract_id} of run {held.run_id}"
        error = Failure("key_held", problem, {"holder": holder})
    if contract.status is Status.WAITING:
        answer = {"approved": False, "by": "journal", "comment": error.message, "result": held.result}
        return ContractMoved(contract.id, "resume", result=answer, error=error, actor="journal", at=at)
    return ContractMoved(contract.id, "reject", result=held.result, error=error, actor="journal", at=at)
