"""Forgetting old runs: which of them may go, and the record that says which went.

A run that holds a key never goes: its trace is why a deed is refused. Every run has a hash chain of its own, so those
that stay can be verified as before; what went is named, with the last hash of its chain, in a run of its own.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from detent.core.identity import By
from detent.core.machine import Machine
from detent.core.run import Run
from detent.host.parts.journal_query import AnyJournal
from detent.host.system_run import PRUNED

AT_ONCE = 500  # runs that go in one transaction
RECORDS = "('pruned', 'restored', 'anchored')"  # what was forgotten, restored and anchored is never forgotten
ENDED = "('completed', 'failed', 'rejected', 'cancelled')"
OLD = (
    f"select no, run_id, name, status, seq, head, parent, updated_at from runs"  # noqa: S608  # our own text
    f" where status in {ENDED} and updated_at < ? and name not in {RECORDS}"
    " and not exists (select 1 from claims where claims.run_id = runs.run_id) order by no"
)
HOLDING = (
    f"select count(*) from runs where status in {ENDED} and updated_at < ? and name not in {RECORDS}"  # noqa: S608
    " and exists (select 1 from claims where claims.run_id = runs.run_id)"
)
UNSENT = "select distinct run_id from outbox where delivered_at = 0"
KIN = "select run_id, parent from runs where parent <> ''"


class Old(NamedTuple):
    """A run that may be forgotten."""

    no: int
    run_id: str
    name: str
    status: str
    seq: int
    head: bytes
    parent: str
    updated_at: float

    @property
    def record(self) -> dict[str, Any]:
        """What is kept of it."""
        return {"run_id": self.run_id, "name": self.name, "status": self.status, "events": self.seq,
                "checkpoint": self.head.hex()}  # fmt: skip


def old_runs(journal: AnyJournal, before: float) -> tuple[list[Old], int]:
    """The runs that ended before a time and protect nothing, and how many are kept because they hold a key."""
    found = {row[1]: Old(*row) for row in journal.rows(OLD, (before,))}
    for row in journal.rows(UNSENT, ()):
        found.pop(row[0], None)
    kin = [(child, parent.partition(" ")[0]) for child, parent in journal.rows(KIN, ())]
    while True:  # a family goes together or not at all
        torn = [name for pair in kin for name in pair if name in found and not (pair[0] in found and pair[1] in found)]
        if not torn:
            break
        for name in torn:
            found.pop(name, None)
    return list(found.values()), int(journal.rows(HOLDING, (before,))[0][0])


class PruningHost(Protocol):
    """What forgetting runs needs of a host."""

    @property
    def journal(self) -> AnyJournal:
        """The journal, for reading."""

    async def start(self, machine: Machine, input: Mapping[str, Any] | None = None, *, by: By = "") -> Run:
        """Begin a run."""

    async def forget(self, runs: Mapping[str, int]) -> None:
        """Remove ended runs, by id and number, from the journal and from memory."""


async def prune(host: PruningHost, before: float, by: By) -> dict[str, Any]:
    """Forget them: first the record is on disk, then they go; a crash between the two forgets nothing."""
    found, kept = old_runs(host.journal, before)
    records = []
    for at in range(0, len(found), AT_ONCE):
        some = found[at : at + AT_ONCE]
        given = {"before": before, "runs": [one.record for one in some]}
        records.append((await host.start(PRUNED, given, by=by)).id)
        await host.forget({one.run_id: one.no for one in some})
    return {"pruned": [one.record for one in found], "kept_for_keys": kept, "records": records}
