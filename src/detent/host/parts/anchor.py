"""Anchors: what a journal held at some moment, as one small line that somebody else keeps.

Every run has a hash chain of its own, so a run that is deleted whole, or a tail that is cut with its head, leaves a
journal that verifies. An anchor closes that. What has changed since the last one is listed in a run of its own
(`anchored`): every run with its number of events and last hash. The line that is published has the hash of that record,
and the record names the one before it. So a line stays small, and whoever has it can say later whether the journal has
only grown.
"""

import hashlib
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec

from detent.core.events import Started
from detent.core.identity import By
from detent.core.machine import Machine
from detent.core.run import Run
from detent.errors import JournalError, ReplayError
from detent.host.parts.claim_check import differences
from detent.host.parts.journal_query import CLAIMS, AnyJournal, Record
from detent.host.parts.loaded_run import load
from detent.host.parts.replay import verify
from detent.host.reading import AnchorLine, AnchorProof, JournalHead
from detent.host.system_run import ANCHORED

AT_ONCE = 2000  # runs listed in one record
RUNS = "select run_id, seq, cast(head as blob), name from runs order by run_id"
NEWEST = "select run_id from runs where name = 'anchored' order by no desc limit 1"
PRUNED = "select run_id from runs where name = 'pruned' order by no"
PEOPLE = "detent.people.yaml"  # in the home


def read_head(journal: AnyJournal, home: Path) -> JournalHead:
    """One digest over every run, every claim and the people of a journal, as of one moment."""
    with journal.one_moment():
        return _read_head(journal, home)


def _read_head(journal: AnyJournal, home: Path) -> JournalHead:
    digest, runs, events = hashlib.sha256(), 0, 0
    for run_id, seq, head, _name in journal.rows(RUNS, ()):
        digest.update(f"run {run_id} {seq} {head.hex()}\n".encode())
        runs, events = runs + 1, events + seq
    claims = sorted(tuple(map(str, row[:5])) for row in journal.rows(CLAIMS, ()))
    for claim in claims:
        digest.update(b"claim " + msgspec.json.encode(claim) + b"\n")
    people = hash_people(home)
    digest.update(f"people {people}\n".encode())
    found = journal.identity()
    journal_id, epoch = ("", 0) if found is None else (found.journal_id, found.epoch)
    return JournalHead(journal_id, epoch, runs, events, len(claims), people, digest.hexdigest())


def hash_people(home: Path) -> str:
    """The digest of the people file; empty where there is none."""
    try:
        return hashlib.sha256((home / PEOPLE).read_bytes()).hexdigest()
    except OSError:
        return ""


class Listed(NamedTuple):
    """A run as an anchor knows it."""

    seq: int
    head: str


class AnchoringHost(Protocol):
    """What putting an anchor on record needs of a host."""

    @property
    def home(self) -> Path:
        """Where the journal is."""

    @property
    def journal(self) -> AnyJournal:
        """The journal, for reading."""

    async def start(self, machine: Machine, input: Mapping[str, Any] | None = None, *, by: By = "") -> Run:
        """Begin a run."""


async def anchor(host: AnchoringHost, at: float, by: By) -> AnchorLine:
    """Put on record what has changed since the last anchor; the line that stands for all of it."""
    journal = host.journal
    before = _newest(journal)
    checkpoint = _checkpoint(journal, before)
    for part in _list_changes(journal, before):
        given = {"runs": part, "before": before, "before_checkpoint": checkpoint}
        before = (await host.start(ANCHORED, given, by=by)).id
        checkpoint = _checkpoint(journal, before)
    found = read_head(journal, host.home)
    counts = {name: getattr(found, name) for name in ("journal", "epoch", "runs", "events", "claims", "people", "head")}
    return AnchorLine(at=at, record=before, checkpoint=checkpoint, **counts)


def _checkpoint(journal: AnyJournal, run_id: str) -> str:
    record = journal.record(run_id) if run_id else None
    return "" if record is None else record.summary.checkpoint


def _list_changes(journal: AnyJournal, before: str) -> list[list[Any]]:
    """Every run that has changed since the last anchor, with its number of events and its last hash; in parts."""
    known: dict[str, Listed] = {}
    for record in _records(journal, before):
        for run_id, seq, head in record.runs:
            known.setdefault(run_id, Listed(seq, head))
    changed = [
        [run_id, seq, head.hex()]
        for run_id, seq, head, name in journal.rows(RUNS, ())
        if known.get(run_id) != (seq, head.hex()) and name != ANCHORED.name
    ]
    return [changed[at : at + AT_ONCE] for at in range(0, len(changed), AT_ONCE)] or [[]]


def _newest(journal: AnyJournal) -> str:
    rows = journal.rows(NEWEST, ())
    return str(rows[0][0]) if rows else ""


class AnchorRecord(NamedTuple):
    """What one record says: the runs that had changed, and the record before it with its hash."""

    run_id: str
    checkpoint: str
    runs: list[Any]
    before: str
    before_checkpoint: str


def _records(journal: AnyJournal, run_id: str) -> Iterator[AnchorRecord]:
    """A record and those before it, newest first; ends where one is missing."""
    while run_id:
        record = journal.record(run_id)
        if record is None or record.summary.name != ANCHORED.name:
            return
        found = _read_record(journal, record)
        yield found
        run_id = found.before


def _read_record(journal: AnyJournal, record: Record) -> AnchorRecord:
    given: Mapping[str, Any] = {}
    for _seq, event, _body, _hash in journal.events(record.no, upto=1):
        given = event.input if isinstance(event, Started) else {}
    head = load(journal, record.summary.run_id).head.hex()  # folded from its events: its chain is checked by that
    runs = given.get("runs")
    said = (str(given.get(name) or "") for name in ("before", "before_checkpoint"))
    return AnchorRecord(record.summary.run_id, head, runs if isinstance(runs, list) else [], *said)


def check_anchor(journal: AnyJournal, line: AnchorLine) -> AnchorProof:
    """Whether a journal has everything that it had when it was anchored; what is missing or changed, as sentences."""
    with journal.one_moment():
        anchored: dict[str, Listed] = {}
        try:
            problems = [*_check_records(journal, line, anchored)]
        except (JournalError, ReplayError) as error:
            problems = [str(error)]
        pruned = _list_pruned(journal)
        forgotten = [run_id for run_id in anchored if run_id in pruned and journal.record(run_id) is None]
        problems += [] if problems else _check_runs(journal, anchored, pruned)
        return AnchorProof(len(anchored), tuple(forgotten), tuple(problems))


def _check_records(journal: AnyJournal, line: AnchorLine, anchored: dict[str, Listed]) -> Iterator[str]:
    """Whether the records on which an anchor stands are what they were; `anchored` gets what they list."""
    found = journal.identity()
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(line.at))
    if found is None or found.journal_id != line.journal:
        yield f"the anchor of {when} UTC is of another journal ({line.journal[:8]})"
        return
    if journal.record(line.record) is None:
        restored = f"; it was restored from a backup since (epoch {found.epoch})" if found.epoch > line.epoch else ""
        yield f"the record {line.record} of the anchor of {when} UTC is gone, with what was done before it{restored}"
        return
    wanted, checkpoint = line.record, line.checkpoint
    for record in _records(journal, line.record):
        if (record.run_id, record.checkpoint) != (wanted, checkpoint):
            yield f"the record {record.run_id} of the anchor of {when} UTC is not what it was"
            return
        wanted, checkpoint = record.before, record.before_checkpoint
        for run_id, seq, head in record.runs:
            anchored.setdefault(run_id, Listed(seq, head))
    if wanted:
        yield f"the record {wanted}, on which the anchor of {when} UTC stands, is gone"


def _check_runs(journal: AnyJournal, anchored: Mapping[str, Listed], pruned: Mapping[str, Listed]) -> Iterator[str]:
    for run_id, was in anchored.items():
        record = journal.record(run_id)
        if record is None:
            if pruned.get(run_id, Listed(0, "")).seq < was.seq:
                yield f"run {run_id}, which had {was.seq} events, is gone, and no `prune` is on record that removed it"
            continue
        hashed = journal.hash_at(record.no, was.seq)
        if hashed is None:
            yield f"run {run_id} had {was.seq} events and has {record.summary.seq} now: its end was cut off"
        elif hashed.hex() != was.head:
            yield f"run {run_id} was rewritten: its event {was.seq} is not the one that was anchored"
        elif problem := verify(journal, run_id).problem:
            yield f"run {run_id}: {problem}"
    for difference in differences(journal):
        yield difference.problem


def _list_pruned(journal: AnyJournal) -> dict[str, Listed]:
    """What the records of `prune` say they removed."""
    found: dict[str, Listed] = {}
    for (run_id,) in journal.rows(PRUNED, ()):
        for one in load(journal, run_id).run.context.get("runs", ()):
            found[str(one["run_id"])] = Listed(int(one["events"]), str(one["checkpoint"]))
    return found
