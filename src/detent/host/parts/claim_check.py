"""Whether the claims are what the events say: who holds which key is worked out anew from every run, and compared.

The claims are written beside the events, so a file can lose them and still look sound. A key that nobody holds any more
would let a deed be done a second time: that must be said, and can be repaired, because the events know better.
"""

from collections.abc import Iterator
from typing import Literal, NamedTuple

from detent.core.contract import Contract
from detent.core.events import Event
from detent.core.machine import Machine
from detent.core.run import Run
from detent.core.status import Status
from detent.errors import JournalError, ReplayError
from detent.host.parts.idempotency_claim import OPEN, judge_fate, place_of
from detent.host.parts.journal_query import CLAIMS, AnyJournal, Batch, Claim, Record
from detent.host.parts.loaded_run import beginning, replay
from detent.host.parts.restore_gap import is_gap

RUNS_MAX = 1_000_000
Place = tuple[str, str]


class Holder(NamedTuple):
    """A contract that holds a key, by its own run's events."""

    claim: Claim
    status: str  # open, possible or completed


class Difference(NamedTuple):
    """A key about which the claims and the events do not agree."""

    kind: Literal["missing", "stray"]
    claim: Claim

    @property
    def problem(self) -> str:
        """What is wrong, as a sentence."""
        who = f"{self.claim.contract_id} of run {self.claim.run_id}"
        if self.kind == "missing":
            return f"the key {self.claim.key} is held by {who}, but its claim is gone: the deed could be done twice"
        return f"the key {self.claim.key} is claimed for {who}, which does not hold it"


class ClaimTally:
    """The keys one run holds, worked out while it is replayed."""

    def __init__(self) -> None:
        self.held: dict[str, Holder] = {}

    def take(self, before: Run, run: Run, event: Event) -> None:
        """What one event changed about who holds what."""
        for contract in before.contracts:
            if contract.id in self.held and run.contract(contract.id) is None:
                fate = judge_fate(contract, event)
                if fate is None:
                    del self.held[contract.id]
                else:
                    self.held[contract.id] = self.held[contract.id]._replace(status=fate.status)
        for contract in run.contracts:
            if _holds(contract):
                claim = Claim(*place_of(run, contract), run.id, contract.id, contract.call_hash, contract.created_at)
                self.held[contract.id] = Holder(claim, OPEN)
            else:
                self.held.pop(contract.id, None)


def _holds(contract: Contract) -> bool:
    """Whether an open contract holds its key; one that asks about somebody else's deed does not."""
    if not contract.is_irreversible or contract.effect in ("ask", "wait") or contract.status is Status.PENDING:
        return False
    return contract.question is None or not contract.question.earlier or is_gap(contract.question.earlier)


def check_run(journal: AnyJournal, tally: ClaimTally) -> str:
    """What is wrong with the claims of one replayed run; nothing, when all is well."""
    for holder in tally.held.values():
        found = journal.claim(holder.claim.scope, holder.claim.key)
        if found is None:
            return Difference("missing", holder.claim).problem
    return ""


def differences(journal: AnyJournal) -> list[Difference]:
    """Where the claims and the events of all runs do not agree; a run that does not replay is left to `verify`."""
    with journal.one_moment():
        held: dict[Place, list[Holder]] = {}
        known: set[str] = set()
        for record in journal.runs(limit=RUNS_MAX):
            known.add(record.summary.run_id)
            for holder in _list_held(journal, record):
                held.setdefault((holder.claim.scope, holder.claim.key), []).append(holder)
        claims = {(row[0], row[1]): Claim(*row) for row in journal.rows(CLAIMS, ())}
    found = [Difference("missing", _latest(holders)) for place, holders in held.items() if place not in claims]
    for place, claim in claims.items():
        holders = {(h.claim.run_id, h.claim.contract_id) for h in held.get(place, ())}
        if claim.run_id in known and (claim.run_id, claim.contract_id) not in holders:
            found.append(Difference("stray", claim))
    return found


def repair(batch: Batch, found: list[Difference], held: dict[Place, Claim]) -> None:
    """Write the claims as the events say them; `held` are those that take the place of strays."""
    for one in found:
        claim = one.claim
        if one.kind == "stray":
            batch.moved += ((claim.scope, claim.key, claim.run_id, claim.contract_id),)
            right = held.get((claim.scope, claim.key))
            batch.claims += (right,) if right is not None else ()
        else:
            batch.claims += (claim,)


def right_holders(journal: AnyJournal, found: list[Difference]) -> dict[Place, Claim]:
    """Who holds the keys of stray claims by the events, if anybody does."""
    wanted = {(one.claim.scope, one.claim.key) for one in found if one.kind == "stray"}
    right: dict[Place, list[Holder]] = {}
    for record in journal.runs(limit=RUNS_MAX) if wanted else ():
        for holder in _list_held(journal, record):
            place = (holder.claim.scope, holder.claim.key)
            if place in wanted:
                right.setdefault(place, []).append(holder)
    return {place: _latest(holders) for place, holders in right.items()}


def _latest(holders: list[Holder]) -> Claim:
    return max(holders, key=lambda holder: holder.claim.at).claim


def _list_held(journal: AnyJournal, record: Record) -> Iterator[Holder]:
    """The keys a run holds; one that cannot hold any is not replayed."""
    tally, point = ClaimTally(), beginning(record.summary.run_id)
    try:
        if not _may_hold(journal.machine(record.summary.machine), journal, record):
            return
        for after in replay(journal, record.no, point):
            if after.event is not None:
                tally.take(point.run, after.run, after.event)
            point = after
    except (JournalError, ReplayError):
        return
    yield from tally.held.values()


def _may_hold(machine: Machine, journal: AnyJournal, record: Record) -> bool:
    """Whether any contract of a run can be irreversible: by its actions, or by what its effects declared."""
    if any(action.kind == "irreversible" for actions in machine.work.values() for action in actions):
        return True
    first = next(iter(journal.events(record.no, upto=1)), None)
    declared = getattr(first[1], "effects", {}) if first is not None else {}
    is_declared = any(one.kind == "irreversible" for one in declared.values())
    return is_declared or bool(set(machine.chart.effects) - set(declared))
