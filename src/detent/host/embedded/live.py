"""A run in memory: loaded from the journal, folded forward, written back as batches."""

import asyncio
from typing import Any

import msgspec

from detent.core.contract import Contract
from detent.core.engine import advance
from detent.core.events import Event
from detent.core.machine import Machine
from detent.core.run import Run
from detent.core.status import Status
from detent.errors import DetentError, JournalError, ReplayError, Unknown
from detent.host.embedded.journal import Batch, Journal, chain, encode, genesis, migrated_to

ENGINE = "1"  # changes when the fold's meaning does: older snapshots are then ignored
SNAPSHOT_EVERY = 100

STATUS_TEXT = {status: status.value for status in Status}  # `.value` is slow, and this is asked at every event

_run = msgspec.json.Decoder(Run)


class Live:
    """One run that this process is driving."""

    __slots__ = ("__weakref__", "dispatched", "effects", "head", "ids", "is_broken", "is_new", "machine", "no", "run", "since", "tasks", "unwritten",
                 "waiters")  # fmt: skip

    def __init__(self, no: int, machine: Machine, run: Run, head: bytes, since: int = 0, is_new: bool = False) -> None:
        self.no = no
        self.machine = machine
        self.run = run
        self.head = head
        self.since = since  # events since the last snapshot
        self.is_new = is_new
        self.is_broken = False  # a write failed: what is here is ahead of the disk and must not go on
        self.unwritten = 0  # batches not yet on disk
        self.ids: set[str] = set()  # of the events in them
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.waiters: list[asyncio.Future[None]] = []
        self.effects: dict[str, Any] | None = None
        self.dispatched: set[str] = set()  # begun by this process, or about to be

    def write(self, batch: Batch, event: Event, body: bytes, run: Run) -> None:
        """Add one accepted event to a batch."""
        self.head = chain(self.head, body)
        batch.events.append((self.no, run.seq, event.id or None, body, self.head))
        self.run = run
        self.since += 1

    def seal(self, batch: Batch) -> None:
        """Add the run's row, and now and then a snapshot."""
        run = self.run
        cost = run.usage.get("cost_usd", 0.0) if run.usage else 0.0
        waiting = _waiting(run) if run.contracts else "[]"
        if self.is_new:
            self.is_new = False
            batch.machine = self.machine
            batch.insert = (self.no, run.id, self.machine.name, run.machine, run.state, STATUS_TEXT[run.status], run.seq, self.head,
                            run.started_at, run.at, run.wake_at or None, waiting, run.by, run.session, run.parent, run.source,
                            cost)  # fmt: skip
        else:
            batch.update = (run.machine, run.state, STATUS_TEXT[run.status], run.seq, self.head, run.at, run.wake_at or None, waiting,
                            cost, run.held_by if run.is_held else "", self.no)  # fmt: skip
        if self.since >= SNAPSHOT_EVERY:
            body = encode(run)
            batch.snapshot = (self.no, run.seq, engine(self.head, body), body)
            self.since = 0


def engine(head: bytes, body: bytes) -> str:
    """What a snapshot is signed with: the fold's meaning, the event it was taken after, and its own bytes."""
    return f"{ENGINE}:{chain(head, body).hex()}"


def _waiting(run: Run) -> str:
    return encode([question_of(c) for c in run.waiting]).decode()


def question_of(contract: Contract) -> dict[str, Any]:
    """What a person must see to answer: the question and the exact call it is about."""
    question = contract.question
    assert question is not None
    shown: dict[str, Any] = {
        "contract_id": contract.id,
        "action": contract.action,
        "question": question.text,
        "reason": question.reason,
        "call": {"effect": contract.effect, "input": contract.input},
        "call_hash": contract.call_hash,
        "since": contract.moved_at,
    }
    if question.approvers:
        shown["approvers"] = list(question.approvers)
    if question.quorum > 1:
        shown["quorum"] = question.quorum
        shown["approved_by"] = [a.by for a in contract.answers]
    if question.schema:
        shown["schema"] = question.schema
    if question.data:
        shown["data"] = question.data
    if contract.expires_at:
        shown["expires_at"] = contract.expires_at
    return shown


def load(journal: Journal, run_id: str, upto: int = 0) -> Live:
    """Fold a run from its latest snapshot and the events after it, checking the chain on the way."""
    record = journal.record(run_id)
    if record is None:
        raise Unknown(f"there is no run {run_id}")
    run, head, seq, machine = Run(id=run_id), genesis(run_id), 0, None
    cached = journal.snapshot(record.no, upto or record.summary.seq)
    if cached is not None:
        found = journal.hash_at(record.no, cached[0])
        if found is not None and cached[1] == engine(found, cached[2]):
            try:
                run, seq = _run.decode(cached[2]), cached[0]
                machine = journal.machine(run.machine)
                head = found
            except (msgspec.MsgspecError, Unknown):
                run, seq = Run(id=run_id), 0
    folded = 0
    for seq, event, run, head, machine in replay(journal, record.no, run, head, seq, machine, upto):  # noqa: B007
        folded += 1
    if machine is None or (not upto and (seq != record.summary.seq or head != record.head)):
        raise JournalError(f"run {run_id} is damaged: its list entry says event {record.summary.seq}, the chain ends at {seq}")
    return Live(record.no, machine, run, head, folded)


def replay(journal: Journal, no: int, run: Run, head: bytes, seq: int, machine: Machine | None = None, upto: int = 0) -> Any:
    """Fold events one by one, yielding (seq, event, run, head, machine); raises where the chain is broken."""
    for number, event, body, hashed in journal.events(no, seq, upto):
        if number != seq + 1:
            raise JournalError(f"run {run.id} is damaged: event {seq + 1} is missing")
        if chain(head, body) != hashed:
            raise JournalError(f"run {run.id} is damaged at event {number}: its hash does not follow from the one before")
        try:
            if machine is None:
                machine = journal.machine(getattr(event, "machine", ""))
            elif digest := migrated_to(event):
                machine = journal.machine(digest)
        except Unknown as error:
            raise JournalError(f"run {run.id} is damaged at event {number}: {error}") from None
        try:
            run, _, _ = advance(machine, run, event)
        except DetentError as error:
            raise ReplayError(f"event {number} of run {run.id} does not replay: {error}") from None
        head, seq = hashed, number
        yield seq, event, run, head, machine
