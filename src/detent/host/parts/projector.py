"""Projections that are kept: in memory for whoever asks again, and beside the journal for the next process.

Only the process that holds the journal writes those rows, and they are only caches: one that is missing, older than
its class or damaged is made again from the entries.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

from detent.core.history import Entry
from detent.errors import JournalError
from detent.host.parts.journal_query import AnyJournal
from detent.host.parts.journal_tail import Tail
from detent.host.parts.loaded_run import ResidentRun, engine
from detent.host.parts.replay import Follower
from detent.host.projection import P, Projection
from detent.host.reading import Summary

KEPT_MAX = 256  # projections in memory
WRITE_EVERY = 200  # entries between two rows of one projection
WRITE_PART = 4  # and at least so small a part of all: a row has to be written whole, so a long run gets them rarely
ROW = "select run, name, version, seq, engine, cast(body as blob) from projections where run = ? and name = ?"


class ProjectionRow(NamedTuple):
    """What a projection had made of a run up to an event; only a cache."""

    run: int
    name: str
    version: int
    seq: int
    engine: str
    body: bytes


class RunMemory(Protocol):
    """What the process that holds the journal has in memory."""

    def find_resident(self, run_id: str) -> ResidentRun | None:
        """A run as it is on disk; None when it is not in memory."""

    def keep_projection(self, row: ProjectionRow) -> None:
        """Write what a projection has made, as a cache."""


class ProjectionSource(Protocol):
    """What projections are made from."""

    @property
    def memory(self) -> RunMemory | None:
        """Of this process, while it holds the journal."""

    @property
    def tail(self) -> Tail:
        """The newest entries of what is followed."""

    def journal(self) -> AbstractContextManager[AnyJournal]:
        """A connection of one's own while the block goes on."""

    def find_resident(self, run_id: str) -> ResidentRun | None:
        """A run as it is on disk; None when it is not in memory."""

    def summary(self, run_id: str) -> Summary | None:
        """The line of a run in the list; None when there is none."""


class Made:
    """A projection of one run, and how far it has come."""

    def __init__(self, projection: Projection, seq: int = 0) -> None:
        self.projection = projection
        self.seq = seq
        self.written = seq  # up to where a row has it
        self.lock = threading.Lock()
        self.is_spoilt = False  # it may have taken half of an entry
        self._behind: Follower | None = None  # where it left off in the file

    def take(self, entries: Iterable[Entry], until: float | None = None) -> None:
        """Take what has come, as much as can be taken until then."""
        for entry in entries:
            if entry.seq > self.seq:
                self.projection.take(entry)
                self.seq = entry.seq
            if until is not None and time.monotonic() > until:
                return

    def read_on(self, journal: AnyJournal, run_id: str, until: float | None = None) -> None:
        """Take what the file has more; what was folded for that before is not folded again."""
        if self._behind is None or self._behind.run.seq < self.seq:
            self._behind = Follower(journal, run_id, self.seq)
        self.take(self._behind.more(journal=journal), until)


class Projector:
    """The projections of one reader."""

    def __init__(self, reader: ProjectionSource) -> None:
        self._reader = reader
        self._made: OrderedDict[tuple[str, type[Projection]], Made] = OrderedDict()
        self._lock = threading.Lock()

    def project(self, run_id: str, projection: type[P]) -> P:
        """A projection that has taken every entry there is."""
        made = self._move_on(run_id, projection, None)
        result: Any = made.projection
        return result  # type: ignore[no-any-return]

    def project_part(self, run_id: str, projection: type[P], seconds: float | None) -> tuple[P, int]:
        """What a projection makes of a run in a time (None: in any), and up to which event; the next goes on there."""
        made = self._move_on(run_id, projection, seconds)
        result: Any = made.projection
        return result, made.seq

    def _move_on(self, run_id: str, projection: type[P], seconds: float | None) -> Made:
        key = (run_id, projection)
        with self._lock:
            known = self._made.get(key)
        begun = known or self._begin(run_id, projection)
        with self._lock:
            made = self._made.setdefault(key, begun)  # at once, so that two who ask do not fold it twice
        if not made.lock.acquire(timeout=-1 if seconds is None else seconds):
            return made  # somebody is at it: what they have by now
        try:
            if not made.is_spoilt:
                self._catch_up(run_id, made, None if seconds is None else time.monotonic() + seconds)
                self._write(run_id, made)
        except BaseException:
            self._drop(key, made)
            raise
        finally:
            made.lock.release()
        if made.is_spoilt:  # by somebody else, while this one waited for its turn
            return self._move_on(run_id, projection, seconds)
        self._keep(key, made)
        return made

    def _catch_up(self, run_id: str, made: Made, until: float | None) -> None:
        kept = self._reader.find_resident(run_id)
        fresh = None if kept is None else self._recall_entries(run_id, made.seq, kept.run.seq)
        if fresh is not None:
            made.take(fresh)
            return
        with self._reader.journal() as journal:
            made.read_on(journal, run_id, until)

    def _drop(self, key: tuple[str, type[Projection]], made: Made) -> None:
        """It may have taken half of an entry: the next one who asks begins anew."""
        made.is_spoilt = True
        with self._lock:
            if self._made.get(key) is made:
                del self._made[key]

    def _recall_entries(self, run_id: str, seq: int, upto: int) -> Sequence[Entry] | None:
        """The entries after one, if memory has all of them; None: the file has to be read."""
        if seq >= upto:
            return ()
        watched = self._reader.tail.runs.get(run_id)
        found = None if watched is None else watched.since(seq)
        return found if found and found[-1].seq >= upto else None

    def at_hand(self, run_id: str, projection: type[P], upto: int) -> P | None:
        """A projection that has taken everything up to an event, if memory alone is enough for that."""
        key = (run_id, projection)
        with self._lock:
            made = self._made.get(key) or Made(projection(run_id))
        if not made.lock.acquire(blocking=False):
            return None  # somebody is at it
        try:
            fresh = None if made.is_spoilt else self._recall_entries(run_id, made.seq, upto)
            made.take(fresh or ())
        except BaseException:
            self._drop(key, made)
            raise
        finally:
            made.lock.release()
        if fresh is None:
            return None
        self._keep(key, made)
        result: Any = made.projection
        return result  # type: ignore[no-any-return]

    def _keep(self, key: tuple[str, type[Projection]], made: Made) -> None:
        with self._lock:
            self._made[key] = made
            self._made.move_to_end(key)
            while len(self._made) > KEPT_MAX:
                self._made.popitem(last=False)

    def _begin(self, run_id: str, projection: type[P]) -> Made:
        """One that is near the end already where that can be: its latest entries are enough, or a row has it."""
        if projection.reach:
            summary = self._reader.summary(run_id)
            return Made(projection(run_id), max(0, (summary.seq if summary else 0) - projection.reach))
        load: Any = getattr(projection, "load", None)
        if load is None:
            return Made(projection(run_id))
        with self._reader.journal() as journal:
            record = journal.record(run_id)
            row = _row(journal, record.no, projection.name) if record is not None else None
            head = journal.hash_at(row.run, row.seq) if row is not None else None
        if row is None or head is None or (row.version, row.engine) != (projection.version, engine(head, row.body)):
            return Made(projection(run_id))
        try:
            return Made(load(run_id, row.body), row.seq)
        except Exception:  # noqa: BLE001  # only a cache
            return Made(projection(run_id))

    def _write(self, run_id: str, made: Made) -> None:
        memory, dump = self._reader.memory, getattr(made.projection, "dump", None)
        if memory is None or dump is None or made.seq - made.written < max(WRITE_EVERY, made.seq // WRITE_PART):
            return
        with self._reader.journal() as journal:
            record = journal.record(run_id)
            head = journal.hash_at(record.no, made.seq) if record is not None else None
        if record is None or head is None:
            return
        body, kind = dump(), type(made.projection)
        memory.keep_projection(ProjectionRow(record.no, kind.name, kind.version, made.seq, engine(head, body), body))
        made.written = made.seq


def _row(journal: AnyJournal, no: int, name: str) -> ProjectionRow | None:
    """What a projection had made of a run, if that was kept."""
    try:
        rows = journal.rows(ROW, (no, name))
    except JournalError:
        return None  # only a cache, and an older file has none
    return ProjectionRow(*rows[0]) if rows else None
