"""The journal as one SQLite file. More SQL: `schema`, and the questions that any journal answers in `host/parts`.

What `commit` has returned from survives a power cut, unless all of it may trail: that survives the end of the process,
and a power cut after the next `sync` or the next commit that waits for the disk.
"""

import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from detent.errors import JournalError, Unknown
from detent.host.embedded.journal_marker import check_missing, read_identity
from detent.host.embedded.schema import (
    MIGRATIONS,
    close_writing,
    explain_disk_fault,
    explain_trouble,
    find_disk_fault,
    lacking,
    open_reading,
    open_writing,
    roll_back,
)
from detent.host.embedded.wal_preallocation import WalPreallocation
from detent.host.parts.journal_query import SUMMARY, Batch, JournalIdentity, encode
from detent.host.parts.listing import Listing
from detent.host.reading import Note

INSERT_EVENT = "insert into events (run, seq, id, body, hash) values (?, ?, ?, ?, ?)"
INSERT_RUN = (
    "insert into runs (no, run_id, name, machine, state, status, seq, head, started_at, updated_at, wake_at, waiting,"
    " by, session, parent, source, cost_usd, error) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
UPDATE_RUN = (
    "update runs set machine = ?, state = ?, status = ?, seq = ?, head = ?, updated_at = ?, wake_at = ?, waiting = ?,"
    " cost_usd = ?, held_by = ?, error = ?, alarms = ? where no = ?"
)
# Where nothing that is listed by has changed, the indexes are left alone.
# Several events of one run may be written at once: an entry never goes back.
ADVANCE_RUN = "update runs set state = ?1, seq = ?2, head = ?3, updated_at = ?4 where no = ?5 and seq < ?2"
KEEP_SNAPSHOT = "insert or replace into snapshots (run, seq, engine, body) values (?, ?, ?, ?)"
KEEP_PROJECTION = (
    "insert or replace into projections (run, name, version, seq, engine, body) select ?, ?, ?, ?, ?, ?"
    " where exists (select 1 from runs where no = ?)"
)
KEEP_MACHINE = "insert or ignore into machines (digest, name, body) values (?, ?, ?)"
TAKE_CLAIM = (
    "insert into claims (scope, key, run_id, contract_id, call_hash, at) values (?, ?, ?, ?, ?, ?)"
    " on conflict (scope, key) do update set contract_id = excluded.contract_id, call_hash = excluded.call_hash,"
    " at = excluded.at where claims.run_id = excluded.run_id"
)
PRUNE = (
    "delete from events where run = ?",
    "delete from snapshots where run = ?",
    "delete from projections where run = ?",
    "delete from runs where no = ?",
)
KEEP_META = "insert or replace into meta (name, value) values (?, ?)"
FREE_CLAIM = "delete from claims where scope = ? and key = ? and run_id = ? and contract_id = ?"
PUT_NOTE = "insert or ignore into outbox (key, run_id, message, at) values (?, ?, ?, ?)"
KEEP_NOTE = "update outbox set delivered_at = ?, tries = ?, problem = ? where key = ?"
YOUNG = ("error", "alarms")  # columns of it that a file of an older version has not


class Journal(Listing):
    """One connection to the file; a writing one is owned by one thread of one process."""

    def __init__(
        self, path: Path, *, is_writer: bool = False, sync: str = "full", migrations: Mapping[int, str] = MIGRATIONS
    ) -> None:
        super().__init__(str(path))
        self.path, self._is_writer = path, is_writer
        self._fault = ""  # why nothing more may be written
        self._kept: set[str] = set()  # digests of machines known to be in the file
        try:
            self._db = open_writing(path, sync, migrations) if is_writer else open_reading(path, migrations)
            self.summary = SUMMARY
            for name in lacking(self._db, YOUNG):
                self.summary = self.summary.replace(f" {name}", " ''")
        except (sqlite3.Error, OSError) as error:
            raise JournalError(f"cannot open the journal {path}: {error}") from None
        self._preallocation = WalPreallocation(path) if is_writer and sync == "full" else None
        self._is_trailing = False  # how SQLite was last told to commit: without waiting for the disk
        self._syncing = threading.Lock()
        self.is_behind = False  # something is written that may not be on disk yet

    @property
    def connection(self) -> sqlite3.Connection:
        """For what looks at the file as a whole: markers, backups."""
        return self._db

    def close(self) -> None:
        """Let go of the file."""
        if self._preallocation is not None:
            self._preallocation.close()
        close_writing(self._db) if self._is_writer else self._db.close()

    @contextmanager
    def one_moment(self) -> Iterator[None]:
        """Everything read inside is of one moment, whatever others write meanwhile; for reading, and not for long."""
        if self._db.in_transaction:
            yield
            return
        self._one("begin", ())
        try:
            yield
        finally:
            roll_back(self._db)

    def commit(self, batches: Sequence[Batch]) -> None:
        """Write all batches in one transaction; all or nothing."""
        db = self._db
        if self._fault:
            raise JournalError(self._fault)
        try:
            self._pace([batch.is_trailing for batch in batches])
            db.execute("begin immediate")
            self._write(batches)
            db.execute("commit")
        except JournalError:
            roll_back(db)
            raise
        except sqlite3.Error as error:
            roll_back(db)
            self._fault = find_disk_fault(error, self.path)
            raise JournalError(self._fault or explain_trouble(error, self.path)) from None
        except Exception as error:  # a value SQLite cannot take must not end the thread that writes for everybody
            roll_back(db)
            raise JournalError(f"{self.path}: {type(error).__name__}: {error}") from error
        self._kept.update([batch.machine.digest for batch in batches if batch.machine is not None])
        if self._preallocation is not None:
            self._preallocation.roll()
            self.is_behind = self._is_trailing

    def _pace(self, trailing: list[bool]) -> None:
        """Wait for the disk at the end of this transaction, unless all of it may trail; the next one that waits, waits
        for both.
        """
        may_trail = bool(trailing) and all(trailing)
        if may_trail != self._is_trailing and self._preallocation is not None:
            self._db.execute(f"pragma synchronous = {'normal' if may_trail else 'full'}")
            self._is_trailing = may_trail

    def sync(self) -> None:
        """Wait until everything written is on disk. From any thread."""
        with self._syncing:
            if not self.is_behind or self._preallocation is None:
                return
            self.is_behind = False
            try:
                self._preallocation.sync()
            except OSError as error:
                self._fault = explain_disk_fault(error, self.path)

    def _write(self, batches: Sequence[Batch]) -> None:
        db = self._db
        for batch in batches:
            machine = batch.machine
            if machine is not None and machine.digest not in self._kept:
                db.execute(KEEP_MACHINE, (machine.digest, machine.name, machine.to_json()))
            if batch.insert is not None:
                db.execute(INSERT_RUN, batch.insert)
            if batch.claims or batch.moved or batch.freed:
                self._keep_claims(batch)
        db.executemany(INSERT_EVENT, [row for batch in batches for row in batch.events])
        db.executemany(UPDATE_RUN, [batch.update for batch in batches if batch.update])
        db.executemany(ADVANCE_RUN, [batch.advance for batch in batches if batch.advance])
        for batch in batches:
            if batch.notes or batch.posted or batch.pruned or batch.meta:
                self._post(batch)
            if batch.snapshot is not None:
                db.execute(KEEP_SNAPSHOT, batch.snapshot)
            if batch.projection is not None:
                db.execute(KEEP_PROJECTION, (*batch.projection, batch.projection[0]))

    def _post(self, batch: Batch) -> None:
        for statement in PRUNE if batch.pruned else ():
            self._db.executemany(statement, batch.pruned)
        self._db.executemany(KEEP_META, batch.meta)
        self._db.executemany(PUT_NOTE, [(n.key, n.run_id, encode(n.message), n.at) for n in batch.notes])
        self._db.executemany(KEEP_NOTE, [(n.delivered_at, n.tries, n.problem, n.key) for n in batch.posted])

    def _keep_claims(self, batch: Batch) -> None:
        self._db.executemany(FREE_CLAIM, batch.moved)
        for claim in batch.claims:
            if self._db.execute(TAKE_CLAIM, claim).rowcount != 1:
                raise JournalError(f"the key {claim.key} is held by another run")
        self._db.executemany(FREE_CLAIM, batch.freed)

    def notes(self, run_id: str = "") -> list[Note]:
        """The messages of a run, or those of all runs that are not delivered, oldest first."""
        try:
            return super().notes(run_id)
        except JournalError as error:
            if "no such table" in str(error):
                return []  # an older file that nobody has written to since
            raise

    def identity(self) -> JournalIdentity | None:
        """Which journal this is; None for a file of a version that had no identity yet."""
        found = read_identity(self._db)
        return None if found is None else JournalIdentity(found.journal_id, found.epoch)

    def data_version(self) -> int:
        """A number that changes when another connection commits."""
        row = self._one("pragma data_version", ())
        return int(row[0]) if row else 0

    def check(self) -> list[str]:
        """What SQLite itself finds wrong with the file; empty when it is sound."""
        try:
            found = [str(row[0]) for row in self._db.execute("pragma quick_check(20)")]
        except sqlite3.Error as error:
            found = [str(error)]
        return [] if found == ["ok"] else found

    def rows(self, query: str, values: Sequence[Any]) -> list[Any]:
        """What a query finds; `listing`, `claim`, `family`, `retention`, `gap`, `anchor` have queries of their own."""
        try:
            return self._db.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise JournalError(explain_trouble(error, self.path)) from None


def open_journal(home: Path) -> Journal:
    """The journal of a home for reading."""
    path = home / "journal.db"
    check_missing(home)
    if not path.exists():
        raise Unknown(f"there is no journal in {home} yet; `detent run FILE` makes one")
    return Journal(path)
