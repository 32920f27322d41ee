"""A journal that arrives from a home's file: all of it in one transaction, not to be used before the other is sealed.

What was RUNNING there is here in the hands of a worker that never was (`NOBODY`), so that whoever takes it follows the
crash rules. Live runs belong to the place they came from: their files are there.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

import psycopg

from detent.core.status import Status
from detent.errors import DetentError, JournalError, Refused
from detent.host.address import find_address, find_place
from detent.host.parts.anchor import read_head
from detent.host.parts.loaded_run import load
from detent.host.postgres.artefact_table import ArtefactTable
from detent.host.postgres.connection import Database, explain
from detent.host.postgres.job_queue import QUEUE
from detent.host.postgres.journal import KEEP_META, PostgresJournal
from detent.host.postgres.schema import ARRIVING, init
from detent.host.postgres.worker_affinity import LEASE_S
from detent.host.reading import JournalHead

Tables = Iterable[tuple[str, Sequence[str], Iterator[tuple[Any, ...]]]]

State = Literal["none", "arriving", "live"]

LOCK = 0x64657476
CLEAR = """
truncate runs, events, snapshots, projections, claims, outbox, work, machines, places, pins, artefacts, contents,
    content_parts;
delete from procrastinate_jobs;
update meta set value = replace(gen_random_uuid()::text, '-', '') where name = 'journal_id'
"""
NOBODY = -1
NEXT = "select setval(pg_get_serial_sequence('runs', 'no'), greatest(1, (select coalesce(max(no), 1) from runs)))"
PLACE = (
    "insert into places (place, seen_at, lease_s) values (%s, extract(epoch from clock_timestamp()), %s)"
    " on conflict do nothing"
)
PIN = "insert into pins (run_id, place) select run_id, %s from runs where status in ('running', 'pending', 'waiting')"
WORK = "insert into work (run, contract_id, turn, worker, begun_at) values (%s, %s, %s, %s, 0)"
QUEUED = (
    "select procrastinate_defer_jobs_v1(array_agg(row({queue}, {task}, 0, null, null, {args},"
    " {at})::procrastinate_job_to_defer_v1)) from {rows} having count(*) > 0"
)
WAKE = QUEUED.format(
    queue=f"'{QUEUE}'",
    task="'wake'",
    args="jsonb_build_object('run_id', run_id)",
    at="to_timestamp(wake_at)",
    rows="runs where wake_at is not null",
)
PERFORM = QUEUED.format(
    queue=f"'{QUEUE}'",
    task="'perform'",
    args="jsonb_build_object('run_id', run_id, 'contract_id', contract_id, 'turn', turn)",
    at="null::timestamptz",
    rows="work join runs on runs.no = work.run",
)
LIVE = "select run_id from runs where status = 'running'"


class ArtefactSource(Protocol):
    """What files the arriving runs have kept."""

    def list_runs(self) -> dict[str, list[str]]:
        """Which contents which run has."""

    def read(self, run_id: str, digest: str) -> Iterator[bytes]:
        """One of them."""


class Arrival:
    """The arriving side of a move."""

    def __init__(self, home: Path) -> None:
        self._database = Database(find_address(home))
        self.name = self._database.name
        init(self._database)

    def close(self) -> None:
        """Let go of the database."""
        self._database.close()

    def find_state(self, journal_id: str) -> State:
        """What is there of that journal; raises where another one is in the way."""
        with self._database.connection() as connection:
            found = dict(connection.execute("select name, value from meta").fetchall())
            row = connection.execute("select exists (select 1 from runs), exists (select 1 from claims)").fetchone()
        if found["journal_id"] == journal_id:
            return "arriving" if ARRIVING in found else "live"
        if ARRIVING in found or row is None or row[0] or row[1]:
            raise Refused(f"{self.name} holds another journal; a journal moves into a database that has none")
        return "none"

    def clear(self) -> None:
        """Drop what a move brought that was given up."""
        with self._database.connection() as connection, connection.transaction():
            if connection.execute("delete from meta where name = %s returning 1", (ARRIVING,)).fetchone() is not None:
                connection.execute(CLEAR, prepare=False)

    def take(self, tables: Tables, head: JournalHead, home: Path) -> None:
        """Take over everything in one transaction, and compare; it cannot be used before `open`."""
        try:
            with self._database.connection() as connection, connection.transaction():
                connection.execute("select pg_advisory_xact_lock(%s)", (LOCK,))
                for name, columns, rows in tables:
                    with connection.cursor().copy(f"copy {name} ({', '.join(columns)}) from stdin") as copy:
                        for row in rows:
                            copy.write_row(row)
                connection.execute(NEXT)
                for meta in (("journal_id", head.journal), ("epoch", str(head.epoch)), (ARRIVING, head.journal)):
                    connection.execute(KEEP_META, meta)
                journal = PostgresJournal.on(self._database, OrderedDict(), 0).inside(connection)
                self._put_to_work(connection, journal)
                found = read_head(journal, home)
                if found != head:
                    raise JournalError(f"{self.name}: what arrived is not what was sent")
        except psycopg.Error as error:
            raise JournalError(f"{self.name}: {explain(error)}") from None

    def _put_to_work(self, connection: psycopg.Connection, journal: PostgresJournal) -> None:
        place = find_place()
        connection.execute(PLACE, (place, LEASE_S))
        connection.execute(PIN, (place,))
        for (run_id,) in journal.rows(LIVE, ()):
            try:
                live = load(journal, run_id)
            except DetentError:
                continue  # a damaged run is carried as it is, and does not go on here either
            for contract in live.run.contracts:
                if contract.status is Status.RUNNING:
                    connection.execute(WORK, (live.no, contract.id, live.run.seq, NOBODY))
        connection.execute(WAKE)
        connection.execute(PERFORM)

    def take_artefacts(self, folder: ArtefactSource) -> None:
        """Take over the files that runs have kept; those that are here already are not sent again."""
        table = ArtefactTable(self._database)
        for run_id, digests in folder.list_runs().items():
            for digest in digests:
                table.keep(run_id, folder.read(run_id, digest))

    def open(self) -> None:
        """The other side is sealed: from now on this is the journal."""
        with self._database.connection() as connection:
            connection.execute("delete from meta where name = %s", (ARRIVING,))
