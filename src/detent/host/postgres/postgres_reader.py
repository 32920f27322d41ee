"""Reading a journal in PostgreSQL, and hearing that there is more: LISTEN is a hint, and whoever hears it looks."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import psycopg

from detent.core.machine import Machine
from detent.errors import JournalError
from detent.host.parts.run_reader import RunReader
from detent.host.postgres.artefact_table import ArtefactTable
from detent.host.postgres.connection import END_STANDING, IDLE_S, Database
from detent.host.postgres.job_queue import ANYWHERE, NEEDS, PLACE, QUEUE, RULES_NEEDED, STALLED_S
from detent.host.postgres.journal import PostgresJournal
from detent.host.postgres.notification import MOVED, make_mark, read_moved
from detent.host.postgres.schema import VERSION, check_version
from detent.host.reading import Lack, StoreCheck, Unserved

LOOK_S = 1.0  # a hint may be lost, so that one looks so often all the same
TROUBLE_S = 0.5
LOST_AFTER = 3  # a connection that was only cut is there again by then
TEND_S = 5.0  # so often a process looks whether another stands still and holds a run
PATIENCE_S = 5.0  # so long a call that anybody can make may lie there before somebody says that nobody works
UNSERVED_MAX = 1000
# Jobs in queues that no worker with a heartbeat serves.
UNSERVED = (
    "select runs.run_id, work.contract_id, job.queue_name, runs.source, pins.place, places.seen_at"  # noqa: S608
    " from procrastinate_jobs job join runs on runs.run_id = job.args->>'run_id'"
    " join work on work.run = runs.no and work.contract_id = job.args->>'contract_id'"
    " left join pins on pins.run_id = runs.run_id left join places on places.place = pins.place"
    " where job.status = 'todo' and job.task_name = 'perform' and not exists (select 1 from stations"
    " join procrastinate_workers on id = worker and last_heartbeat > now() - make_interval(secs => ?)"
    " where job.queue_name = any(queues))"
    " and (runs.updated_at < extract(epoch from clock_timestamp()) - ? or job.queue_name <> ?)"
    f" and ? in ('', runs.run_id) order by runs.no limit {UNSERVED_MAX}"
)


def find_lack(queue: str) -> Lack:
    """What those lack who are at work, to make a call of a queue that nobody serves."""
    if queue.startswith(RULES_NEEDED):
        return "rules"
    if queue.startswith(NEEDS):
        return "effect"
    if queue.startswith(PLACE):
        return "place"
    return "local" if queue == ANYWHERE else "worker"


def explain_lack(lack: Lack, effect: str, source: str, place: str | None, seen_at: float | None) -> str:
    """Why nobody makes a call."""
    if lack == "rules":
        return "no worker here is new enough for this run; update one"
    if lack == "effect" and source:
        return f"no worker here has the effect `{effect}` of {source}"
    if lack == "effect":
        return f"no worker here has the effect `{effect}`"
    if lack == "place":
        since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seen_at or 0.0))
        return f"no worker is at `{place}` since {since}, where the files of this run are"
    if lack == "local":
        return "no worker takes local calls of new runs; start one with `detent worker`"
    return "no worker is there; start one with `detent worker`"


class OtherChannels(NamedTuple):
    """What else is heard on the connection that listens, by channel."""

    hears: Mapping[str, Callable[[str], None]]
    catch_up: Callable[[], Awaitable[None]]
    lose: Callable[[], None]  # the database does not answer, and has not for a moment


class PostgresReader(RunReader):
    """The reading half of the port, for a journal in PostgreSQL."""

    has_workers = True

    def __init__(self, database: Database, home: Path, *, is_owner: bool = False) -> None:
        super().__init__(home)
        self.database, self._is_owner, self.artefact_store = database, is_owner, ArtefactTable(database)
        self._listing = PostgresJournal.on(database, OrderedDict[str, Machine](), 0)
        self.is_checked = False  # whether its tables are known to be of this version
        self.mark = make_mark()  # of hints about what this process has written, which it knows already

    def close(self) -> None:
        """Let go; whoever follows comes to an end."""
        super().close()
        if self._is_owner:
            self.database.close()

    def be_told_no_more(self) -> None:
        """The host of this process is closing: whoever still follows listens by himself."""
        self.is_told = False
        if self.tail.followers:
            self._look_on()

    @property
    def shared(self) -> PostgresJournal:
        """The journal on the connections of the pool."""
        return self._listing

    @contextmanager
    def journal(self) -> Iterator[PostgresJournal]:
        """The journal; every question takes a connection for itself."""
        if not self.is_checked:
            check_version(self.database)
            rows = self._listing.rows("select value from meta where name = 'places'", ())
            self._listing.places = int(rows[0][0]) if rows else 0
            self.is_checked = True
        yield self._listing

    def has_runs(self) -> bool:
        """Whether there is a journal here; one that was made may still be empty."""
        with self.journal():
            return True

    def check(self) -> StoreCheck:
        """Whether the database answers, and how much of it the journal takes."""
        with self.journal() as journal:
            problems = journal.check()
            size, swept = 0, 0
            if not problems:
                query = (
                    "select coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint from pg_class c"
                    " join pg_namespace n on n.oid = c.relnamespace where n.nspname = 'detent' and c.relkind = 'r'"
                )
                size = int(journal.rows(query, ())[0][0])
                swept = int(journal.rows("select value from meta where name = 'swept'", ())[0][0])
            return StoreCheck(tuple(problems), VERSION, size, swept)

    def list_unserved(self, run_id: str = "") -> Sequence[Unserved]:
        """Calls that nobody at work can make: of one run, or of all."""
        with self.journal() as journal:
            rows = journal.rows(UNSERVED, (STALLED_S, PATIENCE_S, QUEUE, run_id))
        found = []
        for one, contract_id, queue, source, place, seen_at in rows:
            lack = find_lack(queue)
            effect = self._find_effect(one, contract_id) if lack == "effect" else ""
            found.append(Unserved(one, contract_id, explain_lack(lack, effect, source, place, seen_at), lack))
        return tuple(found)

    def _find_effect(self, run_id: str, contract_id: str) -> str:
        contract = self.standing(run_id).run.contract(contract_id)
        return contract.effect if contract is not None else ""

    async def _poll(self) -> None:
        """Listen while somebody follows; a host listens all the time, with one connection for all that it hears."""
        await self.listen(lambda: bool(self.tail.followers) and not self.is_told)

    async def listen(self, is_wanted: Callable[[], bool], other: OtherChannels | None = None) -> None:
        """Hear what others have moved, and other channels too, however often the connection is lost."""
        failed = 0
        while is_wanted() and not self._is_closed:
            try:
                connection = await psycopg.AsyncConnection.connect(self.database.conninfo, autocommit=True)
                async with connection:
                    failed = 0
                    for channel in (MOVED,) if other is None else (MOVED, *other.hears):
                        await connection.execute(f"listen {channel}")
                    if other is not None:
                        await other.catch_up()  # what was said while nobody listened
                    await self._hear(connection, is_wanted, other)
            except (psycopg.Error, OSError, JournalError):
                self.tail.ring_all()  # whoever looks is told what is wrong
                failed += 1
                if other is not None and failed == LOST_AFTER:
                    other.lose()
                await asyncio.sleep(TROUBLE_S)

    async def _hear(
        self, connection: psycopg.AsyncConnection, is_wanted: Callable[[], bool], other: OtherChannels | None
    ) -> None:
        look_at = 0.0  # at once: something may have come before anybody listened
        tend_at = time.monotonic() + IDLE_S
        while is_wanted() and not self._is_closed:
            now = time.monotonic()
            if now >= look_at:
                self.tail.ring_all()  # a hint may be lost, however many others come
                look_at = now + LOOK_S
            if other is not None and now >= tend_at:
                with suppress(psycopg.errors.InsufficientPrivilege):  # some owners of servers keep that to themselves
                    await connection.execute(END_STANDING, (IDLE_S,))
                tend_at = now + TEND_S
            async for heard in connection.notifies(timeout=look_at - now, stop_after=1):
                if heard.channel == MOVED:
                    for run_id in read_moved(heard.payload, self.mark):
                        self.tail.note_moved(run_id)
                elif other is not None:
                    other.hears[heard.channel](heard.payload)
