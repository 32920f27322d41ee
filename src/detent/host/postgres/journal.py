"""The journal in PostgreSQL: the questions of any journal, asked on a connection of a pool or inside a transaction."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache
from typing import Any, NamedTuple

import psycopg
from psycopg_pool import PoolTimeout

from detent.core.machine import Machine
from detent.errors import JournalError
from detent.host.parts.journal_query import Batch, Claim, EventRow, JournalIdentity, encode
from detent.host.parts.listing import Listing
from detent.host.postgres.connection import CONNECTIONS_MAX, GONE, Database, is_gone, told_plainly
from detent.host.postgres.statement_batch import Statements
from detent.host.reading import Step

PLACES = 4096  # events one transaction can have places for

KEEP_MACHINE = "insert into machines (digest, name, body) values (%s, %s, %s) on conflict do nothing"
INSERT_EVENT = (
    "insert into events (rowid, run, seq, id, body, hash)"
    " values ((pg_current_xact_id()::text::bigint + %s) * 4096 + %s, %s, %s, %s, %s, %s)"
)
INSERT_RUN = (
    "insert into runs (no, run_id, name, machine, state, status, seq, head, started_at, updated_at, wake_at, waiting,"
    " by, session, parent, source, cost_usd, error)"
    " values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
)
UPDATE_RUN = (
    "update runs set machine = %s, state = %s, status = %s, seq = %s, head = %s, updated_at = %s, wake_at = %s,"
    " waiting = %s, cost_usd = %s, held_by = %s, error = %s, alarms = %s where no = %s"
)
ADVANCE_RUN = "update runs set state = %s, seq = %s, head = %s, updated_at = %s where no = %s"
KEEP_SNAPSHOT = (
    "insert into snapshots (run, seq, engine, body) values (%s, %s, %s, %s)"
    " on conflict (run, seq) do update set engine = excluded.engine, body = excluded.body"
)
TAKE_CLAIM = (
    "insert into claims (scope, key, run_id, contract_id, call_hash, at) values (%s, %s, %s, %s, %s, %s)"
    " on conflict (scope, key) do update set contract_id = excluded.contract_id, call_hash = excluded.call_hash,"
    " at = excluded.at where claims.run_id = excluded.run_id"
)
FREE_CLAIM = "delete from claims where scope = %s and key = %s and run_id = %s and contract_id = %s"
PRUNE = (
    "delete from events where run = %s",
    "delete from snapshots where run = %s",
    "delete from projections where run = %s",
    "delete from work where run = %s",
    "delete from pins where run_id = (select run_id from runs where no = %s)",
    "delete from runs where no = %s",
)
KEEP_META = "insert into meta (name, value) values (%s, %s) on conflict (name) do update set value = excluded.value"
PUT_NOTE = "insert into outbox (key, run_id, message, at) values (%s, %s, %s, %s) on conflict do nothing"
KEEP_NOTE = "update outbox set delivered_at = %s, tries = %s, problem = %s where key = %s"
NEWEST = "select coalesce(max(rowid), 0) from events where "
STEPS = (
    "select events.rowid, runs.run_id, runs.name, events.seq from events join runs on runs.no = events.run"
    " where events.rowid > ? and "
)
SHORT = 50  # events that are read at once, without asking for a snapshot first
READ_ON = (
    "select runs.no, runs.seq, runs.head, found.seq, found.body, found.hash from runs left join lateral"
    " (select seq, body, hash from events where run = runs.no and seq > ? order by seq limit ?) as found on true"
    " where run_id = ? order by found.seq"
)
# Whoever reads holds no lock that others wait for, and may take his time.
ONE_MOMENT = (
    "set transaction isolation level repeatable read, read only; set local idle_in_transaction_session_timeout = 0"
)
WRITTEN = "rowid < (pg_snapshot_xmin(pg_current_snapshot())::text::bigint + ?) * 4096"


class NewEvents(NamedTuple):
    """Where a run is, and events of it that were read with that."""

    no: int
    seq: int
    head: bytes
    found: list[EventRow]


class Overtaken(Exception):
    """Somebody else has changed a claim since it was read: the fold has to be made anew."""


class PostgresJournal(Listing):
    """The journal on connections that are lent for each question, or on one that is given."""

    def __init__(
        self,
        name: str,
        connect: Callable[[], AbstractContextManager[psycopg.Connection]],
        machines: "OrderedDict[str, Machine] | None" = None,
        places: int = 0,
        is_inside: bool = False,
    ) -> None:
        super().__init__(name)
        self._connect, self._held, self.places = connect, threading.local(), places
        self._is_inside = is_inside  # of a transaction, which holds the lock on its run
        if machines is not None:
            self._machines = machines

    @classmethod
    def on(cls, database: Database, machines: "OrderedDict[str, Machine]", places: int) -> "PostgresJournal":
        """On the connections of a database."""
        return cls(database.name, database.connection, machines, places)

    def inside(self, connection: psycopg.Connection) -> "PostgresJournal":
        """The same journal as one transaction sees it."""
        return PostgresJournal(self.name, lambda: nullcontext(connection), self._machines, self.places, is_inside=True)

    def rows(self, query: str, values: Sequence[Any]) -> list[Any]:
        """What a query finds."""
        with told_plainly(self.name):
            held = getattr(self._held, "connection", None)
            if held is not None:
                return _ask(held, query, values)
            tries = 1 if self._is_inside else 1 + CONNECTIONS_MAX  # inside nothing can be asked again
            while True:
                tries -= 1
                try:
                    with self._connect() as connection:
                        return _ask(connection, query, values)
                except GONE as error:  # after an outage every connection of the pool may be
                    if not tries or isinstance(error, PoolTimeout):
                        raise

    @contextmanager
    def one_moment(self) -> Iterator[None]:
        """Everything read inside, in this thread, is of one moment."""
        if self._is_inside or getattr(self._held, "connection", None) is not None:
            yield
            return
        with self._connect() as connection, connection.transaction():
            connection.execute(ONE_MOMENT, prepare=False)
            self._held.connection = connection
            try:
                yield
            finally:
                self._held.connection = None

    def is_away(self, error: Exception) -> bool:
        """Whether an error only says that the database could not be asked just then."""
        return is_gone(error)

    def identity(self) -> JournalIdentity:
        """Which journal this is."""
        found = dict(self.rows("select name, value from meta where name in ('journal_id', 'epoch')", ()))
        return JournalIdentity(found["journal_id"], int(found["epoch"]))

    def check(self) -> list[str]:
        """Whether it answers."""
        try:
            self.rows("select 1 from runs limit 1", ())
        except JournalError as error:
            return [str(error)]
        return []

    def close(self) -> None:
        """The connections are the pool's."""

    def read_on(self, run_id: str, after: int) -> NewEvents | None:
        """Where a run is, with the first events after one that this process knows, in one question."""
        return gather_new(self.rows(READ_ON, (after, SHORT, run_id)))

    def cursor(self) -> int:
        """The place of the newest event before which nothing more can come."""
        return int(self._one(f"{NEWEST}{WRITTEN}", (self.places,))[0])

    def steps(self, after: int, limit: int) -> list[Step]:
        """The events after a place, up to where a transaction is still open: so nobody ever misses one."""
        return [
            Step(*row) for row in self.rows(f"{STEPS}{WRITTEN} order by rowid limit ?", (after, self.places, limit))
        ]


def gather_new(rows: Sequence[Any]) -> NewEvents | None:
    """What the answer to `READ_ON` says of a run; None where there is none."""
    if not rows:
        return None
    found = [(row[3], row[4], row[5]) for row in rows if row[3] is not None]
    no, seq, head, *_ = rows[0]
    return NewEvents(no, seq, head, found)


def ask_on(connection: psycopg.Connection, run_id: str, after: int) -> psycopg.Cursor:
    """Ask where a run is, for `gather_new`; in a pipeline the answer comes later."""
    return connection.execute(_translate(READ_ON), (after, SHORT, run_id))


def _ask(connection: psycopg.Connection, query: str, values: Sequence[Any]) -> list[Any]:
    return connection.execute(_translate(query), tuple(values)).fetchall()


@lru_cache(maxsize=1000)
def _translate(query: str) -> str:
    """A question of `host/parts`, with the marks for values that this driver knows."""
    return query.replace("%", "%%").replace("?", "%s")


def take_claims(connection: psycopg.Connection, batch: Batch) -> None:
    """Take, hand over and free the keys of a batch; raises where one has changed hands meanwhile."""
    for moved in batch.moved:
        if connection.execute(f"{FREE_CLAIM} returning 1", moved).fetchone() is None:
            raise Overtaken
    for claim in batch.claims:
        _take(connection, claim)
    for freed in batch.freed:
        connection.execute(FREE_CLAIM, freed)


def _take(connection: psycopg.Connection, claim: Claim) -> None:
    if connection.execute(f"{TAKE_CLAIM} returning 1", claim).fetchone() is None:
        raise Overtaken


def write_batch(statements: Statements, batch: Batch, places: int) -> None:
    """Write everything of a batch but its claims; part of the caller's transaction."""
    execute = statements.add
    if batch.machine is not None:
        execute(KEEP_MACHINE, (batch.machine.digest, batch.machine.name, batch.machine.to_json()))
    if batch.insert is not None:
        execute(INSERT_RUN, batch.insert)
    for number, row in enumerate(batch.events):
        execute(INSERT_EVENT, (places, min(number, PLACES - 1), *row))
    if batch.advance is not None:
        execute(ADVANCE_RUN, batch.advance)
    if batch.update is not None:
        execute(UPDATE_RUN, batch.update)
    if batch.snapshot is not None:
        execute(KEEP_SNAPSHOT, batch.snapshot)
    for note in batch.notes:
        execute(PUT_NOTE, (note.key, note.run_id, encode(note.message), note.at))
    for note in batch.posted:
        execute(KEEP_NOTE, (note.delivered_at, note.tries, note.problem, note.key))
    for gone in batch.pruned:
        for statement in PRUNE:
            execute(statement, gone)
    for meta in batch.meta:
        execute(KEEP_META, meta)
