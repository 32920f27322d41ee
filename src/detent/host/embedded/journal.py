"""The journal: every event of every run in one SQLite file, and all the SQL there is.

Events are the truth; each carries the hash of the one before it. The `runs` table and the snapshots are only
caches of the fold, written in the same transaction. What `commit` has returned from survives a power cut.
"""

import hashlib
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from detent.core.events import MIGRATE, Event, Signalled
from detent.core.machine import Machine
from detent.core.status import Status
from detent.errors import JournalError, Unknown
from detent.host.port import Summary

VERSION = 1
RECORD_MAX = 32 * 1024 * 1024

SCHEMA = """
create table machines (digest text primary key, name text not null, body blob not null) without rowid;
create table runs (
    no integer primary key,
    run_id text not null unique,
    name text not null,
    machine text not null,
    state text not null,
    status text not null,
    seq integer not null,
    head blob not null,
    started_at real not null,
    updated_at real not null,
    wake_at real,
    waiting text not null,
    by text not null,
    session text not null,
    parent text not null,
    source text not null,
    cost_usd real not null
);
create index runs_by_status on runs (status, no);
create index runs_by_wake on runs (wake_at) where wake_at is not null;
create index runs_by_parent on runs (parent) where parent <> '';
create table events (run integer not null, seq integer not null, id text, body blob not null, hash blob not null);
create unique index events_in_order on events (run, seq);
create unique index events_once on events (run, id) where id is not null;
create table snapshots (run integer primary key, seq integer not null, engine text not null, body blob not null);
create table claims (
    scope text not null, key text not null, run_id text not null, contract_id text not null,
    call_hash text not null, status text not null, result blob, at real not null, primary key (scope, key)
) without rowid;
"""

MIGRATIONS: dict[int, str] = {}  # from version n to n + 1

INSERT_EVENT = "insert into events (run, seq, id, body, hash) values (?, ?, ?, ?, ?)"
INSERT_RUN = (
    "insert into runs (no, run_id, name, machine, state, status, seq, head, started_at, updated_at, wake_at, waiting,"
    " by, session, parent, source, cost_usd) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
UPDATE_RUN = (
    "update runs set machine = ?, state = ?, status = ?, seq = ?, head = ?, updated_at = ?, wake_at = ?, waiting = ?,"
    " cost_usd = ? where no = ?"
)
KEEP_SNAPSHOT = "insert or replace into snapshots (run, seq, engine, body) values (?, ?, ?, ?)"
KEEP_MACHINE = "insert or ignore into machines (digest, name, body) values (?, ?, ?)"
TAKE_CLAIM = (
    "insert into claims (scope, key, run_id, contract_id, call_hash, status, result, at) values (?, ?, ?, ?, ?, ?, ?, ?)"
    " on conflict (scope, key) do update set run_id = excluded.run_id, contract_id = excluded.contract_id,"
    " call_hash = excluded.call_hash, status = excluded.status, result = excluded.result, at = excluded.at"
    " where claims.run_id = excluded.run_id"
)
FREE_CLAIM = "delete from claims where scope = ? and key = ? and run_id = ? and contract_id = ?"
SUMMARY = (
    "select run_id, name, machine, state, status, seq, started_at, updated_at, wake_at, waiting, by, session, parent,"
    " cost_usd, head, source, no from runs"
)


class Record(NamedTuple):
    """A run's row with what is needed to go on writing."""

    no: int
    summary: Summary
    head: bytes


class Claim(NamedTuple):
    """Who holds an irreversible deed's key."""

    scope: str
    key: str
    run_id: str
    contract_id: str
    call_hash: str
    status: str
    result: Any
    at: float


class Batch:
    """Everything one run writes in one transaction."""

    __slots__ = ("claims", "events", "freed", "insert", "machine", "owner", "snapshot", "update")

    def __init__(self, owner: object) -> None:
        self.owner = owner  # once one of an owner's batches has failed, none of its later ones may be written
        self.events: list[tuple[int, int, str | None, bytes, bytes]] = []
        self.machine: Machine | None = None
        self.insert: tuple[Any, ...] | None = None
        self.update: tuple[Any, ...] | None = None
        self.snapshot: tuple[int, int, str, bytes] | None = None
        self.claims: list[Claim] = []
        self.freed: list[tuple[str, str, str, str]] = []


_event = msgspec.json.Decoder(Event)  # type: ignore[var-annotated]
encode = msgspec.json.Encoder().encode


def chain(head: bytes, body: bytes) -> bytes:
    """The hash of an event: SHA-256 over the hash before it and its own bytes."""
    return hashlib.sha256(head + body).digest()


def genesis(run_id: str) -> bytes:
    """The hash before a run's first event."""
    return hashlib.sha256(run_id.encode()).digest()


class Journal:
    """One connection to the file; a writing one is owned by one thread of one process."""

    def __init__(self, path: Path, *, is_writer: bool = False, sync: str = "full") -> None:
        self.path = path
        try:
            if is_writer:
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=5.0)
                path.chmod(0o600)
                self._db.execute("pragma journal_mode = wal")
                self._db.execute(f"pragma synchronous = {'full' if sync == 'full' else 'off'}")
                self._migrate()
            else:
                uri = f"{path.absolute().as_uri()}?mode=ro"
                self._db = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False, timeout=5.0)
                self._check_version()
        except sqlite3.Error as error:
            raise JournalError(f"cannot open the journal {path}: {error}") from None

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    def _migrate(self) -> None:
        version = self._check_version()
        self._db.execute("begin immediate")
        try:
            if version == 0:
                for statement in SCHEMA.split(";"):
                    self._db.execute(statement)
                version = VERSION
            while version < VERSION:
                for statement in MIGRATIONS[version].split(";"):
                    self._db.execute(statement)
                version += 1
            self._db.execute(f"pragma user_version = {version}")
            self._db.execute("commit")
        except BaseException:
            self._db.execute("rollback")
            raise

    def _check_version(self) -> int:
        version = int(self._db.execute("pragma user_version").fetchone()[0])
        if version > VERSION:
            raise JournalError(f"{self.path} was written by a newer detent (schema {version}, this one knows {VERSION})")
        return version

    def commit(self, batches: Sequence[Batch]) -> None:
        """Write all batches in one transaction; all or nothing."""
        db = self._db
        try:
            db.execute("begin immediate")
            for batch in batches:
                if batch.machine is not None:
                    machine = batch.machine
                    db.execute(KEEP_MACHINE, (machine.digest, machine.name, machine.to_json()))
                if batch.insert is not None:
                    db.execute(INSERT_RUN, batch.insert)
                for claim in batch.claims:
                    self._take(claim)
                for freed in batch.freed:
                    db.execute(FREE_CLAIM, freed)
            db.executemany(INSERT_EVENT, [row for batch in batches for row in batch.events])
            db.executemany(UPDATE_RUN, [batch.update for batch in batches if batch.update])
            db.executemany(KEEP_SNAPSHOT, [batch.snapshot for batch in batches if batch.snapshot])
            db.execute("commit")
        except sqlite3.Error as error:
            if db.in_transaction:
                db.execute("rollback")
            raise JournalError(_explained(error, self.path)) from None

    def _take(self, claim: Claim) -> None:
        result = None if claim.result is None else encode(claim.result)
        changed = self._db.execute(TAKE_CLAIM, (*claim[:6], result, claim.at)).rowcount
        if changed != 1:
            raise JournalError(f"the key {claim.key} is held by another run")

    def claim(self, scope: str, key: str) -> Claim | None:
        """Who holds a key."""
        row = self._one("select * from claims where scope = ? and key = ?", (scope, key))
        return None if row is None else Claim(*row[:6], None if row[6] is None else msgspec.json.decode(row[6]), row[7])

    def machine(self, digest: str) -> Machine:
        """A machine by its digest."""
        row = self._one("select body from machines where digest = ?", (digest,))
        if row is None:
            raise Unknown(f"there is no machine {digest[:12]} in {self.path}")
        return Machine.from_json(row[0])

    def has_event(self, no: int, event_id: str) -> bool:
        """Whether the run has an event of that id."""
        return self._one("select 1 from events where run = ? and id = ?", (no, event_id)) is not None

    def record(self, run_id: str) -> Record | None:
        """A run's row by its whole id."""
        row = self._one(f"{SUMMARY} where run_id = ?", (run_id,))
        return None if row is None else _record(row)

    def find(self, prefix: str) -> list[Record]:
        """The runs whose id begins like this, newest first; at most ten."""
        like = prefix.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"
        return [_record(r) for r in self._all(f"{SUMMARY} where run_id like ? escape '\\' order by no desc limit 10", (like,))]

    def runs(self, status: Iterable[Status] = (), name: str = "", limit: int = 100, before: int = 0) -> list[Record]:
        """Runs, newest first."""
        wanted = [s.value for s in status]
        where, values = [], [*wanted]
        if wanted:
            where.append(f"status in ({', '.join('?' * len(wanted))})")
        if name:
            where.append("name = ?")
            values.append(name)
        if before:
            where.append("no < ?")
            values.append(str(before))
        clause = f" where {' and '.join(where)}" if where else ""
        return [_record(row) for row in self._all(f"{SUMMARY}{clause} order by no desc limit ?", (*values, limit))]

    def timers(self) -> list[tuple[float, str]]:
        """Every run that wants to be woken, soonest first."""
        return self._all("select wake_at, run_id from runs where wake_at is not null order by wake_at", ())

    def unattended(self) -> list[str]:
        """The runs that were at work when the last writer stopped, oldest first."""
        return [r[0] for r in self._all("select run_id from runs where status in ('running', 'pending') order by no", ())]

    def ended_children(self) -> list[str]:
        """Ended runs whose parent still waits for something."""
        query = (
            "select child.run_id from runs child join runs parent on parent.run_id = substr(child.parent, 1,"
            " instr(child.parent, ' ') - 1) where child.parent <> '' and parent.status in ('waiting', 'running')"
            " and child.status in ('completed', 'failed', 'rejected', 'cancelled') order by child.no"
        )
        return [row[0] for row in self._all(query, ())]

    def next_no(self) -> int:
        """The number for the next run."""
        row = self._one("select coalesce(max(no), 0) + 1 from runs", ())
        return int(row[0]) if row else 1

    def events(self, no: int, after: int = 0, upto: int = 0) -> Iterator[tuple[int, Event, bytes, bytes]]:
        """A run's events as (seq, event, body, hash)."""
        query = "select seq, body, hash from events where run = ? and seq > ? and seq <= ? order by seq"
        seq = after
        try:
            for seq, body, hashed in self._db.execute(query, (no, after, upto or 2**62)):
                yield seq, _event.decode(body), body, hashed
        except (sqlite3.Error, msgspec.MsgspecError, UnicodeDecodeError, TypeError) as error:
            raise JournalError(f"run no. {no} is damaged after event {seq}: {error}") from None

    def snapshot(self, no: int) -> tuple[int, str, bytes] | None:
        """The latest cached fold of a run, if any: (seq, engine, body)."""
        try:
            row = self._db.execute("select seq, engine, body from snapshots where run = ?", (no,)).fetchone()
        except sqlite3.Error:
            return None  # only a cache: without it the events are folded again
        return None if row is None else (row[0], row[1], row[2])

    def hash_at(self, no: int, seq: int) -> bytes | None:
        """The hash of one event."""
        row = self._one("select hash from events where run = ? and seq = ?", (no, seq))
        return None if row is None else row[0]

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

    def _one(self, query: str, values: Sequence[Any]) -> Any:
        try:
            return self._db.execute(query, values).fetchone()
        except sqlite3.Error as error:
            raise JournalError(_explained(error, self.path)) from None

    def _all(self, query: str, values: Sequence[Any]) -> list[Any]:
        try:
            return self._db.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise JournalError(_explained(error, self.path)) from None


def migrated_to(event: Event) -> str:
    """The digest a `@migrate` event leads to, else nothing."""
    return str(event.data.get("machine", "")) if type(event) is Signalled and event.name == MIGRATE else ""


def _record(row: Any) -> Record:
    summary = Summary(
        run_id=row[0], name=row[1], machine=row[2], state=row[3], status=Status(row[4]), seq=row[5],
        started_at=row[6], updated_at=row[7], wake_at=row[8] or 0.0, waiting=tuple(msgspec.json.decode(row[9])),
        by=row[10], session=row[11], parent=row[12], cost_usd=row[13], checkpoint=row[14].hex(), source=row[15],
    )  # fmt: skip
    return Record(row[16], summary, row[14])


def _explained(error: sqlite3.Error, path: Path) -> str:
    text = str(error)
    if "full" in text:
        return f"no space left for {path}; free some and resume: what was acknowledged is whole"
    if "malformed" in text or "not a database" in text:
        return f"{path} is damaged ({text}); `detent doctor` says more, other runs may still be readable"
    return f"{path}: {text}"
