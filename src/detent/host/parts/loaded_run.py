"""A run in memory: loaded from the journal, folded forward, written back as batches."""

import asyncio
from collections.abc import Iterator, MutableMapping, Sequence
from typing import Any, NamedTuple

import msgspec

from detent.core.consequence import Consequence
from detent.core.engine import advance
from detent.core.events import Event, digest_after
from detent.core.machine import Machine
from detent.core.run import Run
from detent.core.status import Status
from detent.core.tolerance import list_tolerated
from detent.errors import DetentError, JournalError, Refused, ReplayError, Unknown
from detent.host.parts.journal_query import TOLERATED, AnyJournal, Batch, EventRow, Record, chain, encode, genesis
from detent.host.standing import question_of

ENGINE = "4"  # changes when the fold's meaning does: older snapshots are then ignored
SNAPSHOT_EVERY = 200  # events, and as many bytes as the last snapshot had: all are kept, and cost less than the events
CHECKPOINT_MIN = 6  # letters
ERROR_MAX = 500  # letters of a message in the list

STATUS_TEXT = {status: status.value for status in Status}  # `.value` is slow, and this is asked at every event

_run = msgspec.json.Decoder(Run)


class ResidentRun(msgspec.Struct, frozen=True, eq=False):
    """A run in memory, as it is on disk."""

    run: Run
    head: bytes
    machine: Machine


class LoadedRun:
    """One run that this process is driving."""

    __slots__ = (
        "__weakref__",
        "dispatched",
        "effects",
        "head",
        "ids",
        "is_broken",
        "is_new",
        "kept",
        "listed",
        "machine",
        "no",
        "run",
        "since",
        "since_bytes",
        "snapshot_bytes",
        "tasks",
        "trails",
        "unwritten",
        "waiters",
    )

    def __init__(self, no: int, machine: Machine, run: Run, head: bytes, since: int = 0, is_new: bool = False) -> None:
        self.no = no
        self.machine = machine
        self.run = run
        self.head = head
        self.kept = None if is_new else ResidentRun(run, head, machine)  # as it is on disk
        self.since = since  # events since the last snapshot
        self.since_bytes = 0  # and their bytes
        self.snapshot_bytes = 0  # of the last one
        self.is_new = is_new
        self.is_broken = False  # a write failed: what is here is ahead of the disk and must not go on
        self.listed: tuple[Any, ...] = ()  # what the list of runs was last told of it
        self.unwritten = 0  # batches not yet on disk
        self.ids: set[str] = set()  # of the events in them
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.waiters: list[asyncio.Future[None]] = []
        self.effects: dict[str, Any] | None = None
        self.dispatched: set[str] = set()  # begun by this process, or about to be
        self.trails = is_new  # so far it has done nothing that must be on disk; see `may_trail`

    @property
    def is_adrift(self) -> bool:
        """Whether a contract is RUNNING that this process does not carry out."""
        at_work = [contract.id for contract in self.run.contracts if contract.status is Status.RUNNING]
        return any(one not in self.dispatched and one not in self.tasks for one in at_work)

    def write(self, batch: Batch, event: Event, body: bytes, run: Run) -> None:
        """Add one accepted event to a batch."""
        self.head = chain(self.head, body)
        batch.events.append((self.no, run.seq, event.id or None, body, self.head))
        if event.id:
            self.ids.add(event.id)
        self.run = run
        self.since += 1
        self.since_bytes += len(body)

    def seal(self, batch: Batch) -> None:
        """Add the run's row, and now and then a snapshot."""
        run = self.run
        cost = run.usage.get("cost_usd", 0.0) if run.usage else 0.0
        waiting = _waiting(run)
        status, wake_at = STATUS_TEXT[run.status], run.wake_at or None
        if self.is_new:
            self.is_new = False
            batch.machine = self.machine
            first = (self.no, run.id, self.machine.name, run.machine, run.state, status, run.seq, self.head)
            times = (run.started_at, run.at, wake_at)
            error = _error(self.machine, run)
            batch.insert = (*first, *times, waiting, run.by, run.session, run.parent, run.source, cost, error)
            self.listed = (run.machine, status, wake_at, waiting, cost, "", error, "")
            return
        held_by = run.held_by if run.is_held else ""
        error = "" if run.ended is None else _error(self.machine, run)
        alarms = encode(run.alarms).decode() if run.alarms else ""
        listed = (run.machine, status, wake_at, waiting, cost, held_by, error, alarms)
        if listed == self.listed:
            batch.advance = (run.state, run.seq, self.head, run.at, self.no)
        else:
            now = (run.machine, run.state, status, run.seq, self.head, run.at)
            batch.update = (*now, *listed[2:], self.no)
            self.listed = listed
        if self.since >= SNAPSHOT_EVERY and self.since_bytes >= self.snapshot_bytes:
            body = encode(run)
            batch.snapshot = (self.no, run.seq, engine(self.head, body), body)
            self.since, self.since_bytes, self.snapshot_bytes = 0, 0, len(body)


def engine(head: bytes, body: bytes) -> str:
    """What a snapshot is signed with: the fold's meaning, the event it was taken after, and its own bytes."""
    return f"{ENGINE}:{chain(head, body).hex()}"


def _waiting(run: Run) -> str:
    for contract in run.contracts:
        if contract.status is Status.WAITING:
            return encode([question_of(c) for c in run.waiting]).decode()
    return "[]"


def _error(machine: Machine, run: Run) -> str:
    """Why a run has not ended well, as the list keeps it; of one that has, how much failed all the same."""
    if run.ended is Status.COMPLETED and machine.chart.tolerant:
        count = sum(one.failed for one in list_tolerated(machine, run))
        return encode({"type": TOLERATED, "message": str(count)}).decode() if count else ""
    if run.error is None or run.ended is None or run.ended is Status.COMPLETED:
        return ""
    return encode({"type": run.error.type, "message": run.error.message[:ERROR_MAX]}).decode()


class Point(NamedTuple):
    """Where the fold of a run stands: after `seq` events, of which `event` was the last and led to `taken`."""

    seq: int
    run: Run
    head: bytes
    machine: Machine | None = None
    event: Event | None = None
    taken: tuple[Consequence, ...] = ()


def beginning(run_id: str) -> Point:
    """Before a run's first event."""
    return Point(0, Run(id=run_id), genesis(run_id))


def drop_ended(runs: MutableMapping[str, LoadedRun], before: LoadedRun | None, latest: LoadedRun) -> LoadedRun:
    """Keep of the ended runs only the latest, for whoever waited for its end looks at it next; returns that."""
    if before is None or before is latest or before.unwritten or before.waiters or before.tasks:
        return latest
    if before.run.ended is not None and runs.get(before.run.id) is before:
        del runs[before.run.id]
    return latest


def load(journal: AnyJournal, run_id: str, upto: int = 0) -> LoadedRun:
    """Fold a run from its latest snapshot and the events after it, checking the chain on the way."""
    with journal.one_moment():
        return _load(journal, run_id, upto)


def _load(journal: AnyJournal, run_id: str, upto: int) -> LoadedRun:
    record = journal.record(run_id)
    if record is None:
        raise Unknown(f"there is no run {run_id}")
    cached = _load_snapshot(journal, record.no, upto or record.summary.seq)
    first = point = beginning(run_id) if cached is None else cached[0]
    bytes_before = journal.bytes_read
    for point in replay(journal, record.no, first, upto):  # noqa: B007  # the last one is what is wanted
        pass
    if point.machine is None or (not upto and (point.seq, point.head) != (record.summary.seq, record.head)):
        raise JournalError(
            f"run {run_id} is damaged: its list entry says event {record.summary.seq}, the chain ends at {point.seq}"
        )
    live = LoadedRun(record.no, point.machine, point.run, point.head, point.seq - first.seq)
    live.since_bytes = journal.bytes_read - bytes_before
    live.snapshot_bytes = 0 if cached is None else cached[1]
    return live


def seq_at(journal: AnyJournal, record: Record, at: str) -> int:
    """The event that a number or the beginning of a checkpoint names; the latest for nothing."""
    last = record.summary.seq
    if not at:
        return last
    if at.isdecimal() and len(at) < 10:
        if 1 <= int(at) <= last:
            return int(at)
        raise Unknown(f"run {record.summary.run_id} has the events 1 to {last}, not {at}")
    if len(at) < CHECKPOINT_MIN:
        raise Refused(f"`{at}` is too short for a checkpoint; give at least {CHECKPOINT_MIN} of its letters")
    found = [seq for seq, _event, _body, hashed in journal.events(record.no) if hashed.hex().startswith(at.lower())]
    if len(found) == 1:
        return found[0]
    if found:
        raise Refused(f"`{at}` fits {len(found)} checkpoints of run {record.summary.run_id}; give more letters")
    raise Unknown(f"run {record.summary.run_id} has no checkpoint `{at}`; `detent log` shows them")


def _load_snapshot(journal: AnyJournal, no: int, upto: int) -> tuple[Point, int] | None:
    """The latest snapshot that is signed, readable and not past `upto`, and its size."""
    cached = journal.snapshot(no, upto)
    found = journal.hash_at(no, cached[0]) if cached is not None else None
    if cached is None or found is None or cached[1] != engine(found, cached[2]):
        return None
    try:
        run = _run.decode(cached[2])
        return Point(cached[0], run, found, journal.machine(run.machine)), len(cached[2])
    except (msgspec.MsgspecError, Unknown):
        return None


def replay(
    journal: AnyJournal, no: int, point: Point, upto: int = 0, found: Sequence[EventRow] = ()
) -> Iterator[Point]:
    """Fold on from a point, event by event, as far as they are `found` already; raises where the chain is broken."""
    seq, run, head, machine, *_ = point
    for number, event, body, hashed in journal.decode(no, found) if found else journal.events(no, seq, upto):
        if number != seq + 1:
            raise JournalError(f"run {run.id} is damaged: event {seq + 1} is missing")
        if chain(head, body) != hashed:
            raise JournalError(
                f"run {run.id} is damaged at event {number}: its hash does not follow from the one before"
            )
        try:
            if machine is None:
                machine = journal.machine(getattr(event, "machine", ""))
            elif digest := digest_after(event):
                machine = journal.machine(digest)
        except Unknown as error:
            raise JournalError(f"run {run.id} is damaged at event {number}: {error}") from None
        try:
            run, _, taken = advance(machine, run, event)
        except DetentError as error:
            raise ReplayError(f"event {number} of run {run.id} does not replay: {error}") from None
        head, seq = hashed, number
        yield Point(seq, run, head, machine, event, taken)


def may_trail(live: LoadedRun, batch: Batch) -> bool:
    """Whether a power cut could take nothing with this batch but the record of a harmless call nobody was asked about.

    Only where the run's effect says so: what a verb has promised is on disk otherwise.
    """
    if not live.trails or not live.effects or not all(effect.may_trail for effect in live.effects.values()):
        return False
    live.trails = not (batch.claims or batch.moved or batch.freed or batch.fates or batch.notes) and all(
        one.kind == "pure" and one.question is None and not one.answers for one in live.run.contracts
    )
    return live.trails
