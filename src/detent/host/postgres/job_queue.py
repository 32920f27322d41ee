"""The queue: jobs that point at work, handed to workers by procrastinate, which also knows who of them is alive.

A job is only a pointer. It is put into the queue by the transaction that makes it needed; what is done when it comes
is decided by what the journal says then. So a job that comes twice, late or for nothing does no harm.
"""

import asyncio
import hashlib
import json
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, NamedTuple

import procrastinate
import psycopg
from procrastinate import exceptions
from procrastinate.job_context import JobContext
from procrastinate.jobs import Job
from procrastinate.worker import Worker
from psycopg.rows import dict_row
from psycopg_pool import PoolTimeout

from detent.host.postgres.connection import Database
from detent.host.postgres.statement_batch import Statements

QUEUE = "detent"  # what every worker can do, as far as whoever puts it there knows
ANYWHERE = "detent local"  # local calls of runs that belong nowhere yet: the worker that takes one is where they stay
NEEDS, PLACE = "needs:", "at:"
RULES_NEEDED = f"{NEEDS}rules "
# What a worker takes: what anybody may do, the local calls of its own place, those of runs that belong nowhere yet.
SHARED, OWN, LOCAL = "shared", "own", "local"
USUAL = (SHARED, OWN)  # for a process that has more to do than to work
NAME_MAX = 40  # bytes of a queue's name: with what the library puts before it, it names a channel of 63
# Taking a job and letting go of it need not wait for the disk: what a failing database loses is the newest, so whoever
# finds a call begun finds its job taken, and a job that comes again finds its call begun.
LAZY = "synchronous_commit=off"
HEARTBEAT_S = 2.0
STALLED_S = 8.0  # without a heartbeat for so long, a worker is taken for dead
POLL_S = 2.0  # how soon a job is found whose time has come, or whose notification was lost
PAUSE_S, PAUSE_S_MAX = 0.2, 5.0
CLOSE_S = 5.0
FETCH_MAX = 16  # jobs taken with one question
FETCH_BUSY, FETCH_GAP_S = 4, 0.004  # with so many jobs under way, the next ones are asked for no sooner

# The library's own functions, without waiting for what they return.
PUT = "(%s, %s, 0, null, null, %s, %s)::procrastinate_job_to_defer_v1"
FETCH = (  # one after the other, until there is none
    "with recursive taken(number, job) as ("
    "select 1, procrastinate_fetch_job_v2(%(queues)s::varchar[], %(worker_id)s) union all"
    " select number + 1, procrastinate_fetch_job_v2(%(queues)s::varchar[], %(worker_id)s) from taken"
    " where (job).id is not null and number < %(most)s)"
    " select (job).*, set_config('synchronous_commit', 'off', true) from taken where (job).id is not null"
)
END = "delete from procrastinate_jobs where id = %s and worker_id = %s"
CHANNEL = "procrastinate_any_queue_v1"
HINT = json.dumps({"type": "job_inserted", "job_id": 0})

# The library tells of every job; what goes wrong with one is told by the run it belongs to.
logging.getLogger("procrastinate").setLevel(logging.CRITICAL)

Handle = Callable[..., Awaitable[None]]
Prepare = Callable[[psycopg.Connection, int, Sequence[Job]], None]  # jobs that a worker has just taken


def name_need(effect: str, source: str) -> str:
    """The queue of calls that wait for a worker with this effect, of the file or agent it comes from."""
    return _shorten(NEEDS, f"{effect} {source}".strip())


def name_place(place: str) -> str:
    """The queue of calls that can only be made in a place."""
    return _shorten(PLACE, place)


def _shorten(kind: str, name: str) -> str:
    if len(f"{kind}{name}".encode(errors="surrogateescape")) <= NAME_MAX:
        return f"{kind}{name}"
    return f"{kind}{hashlib.sha256(name.encode(errors='surrogateescape')).hexdigest()[:24]}"


class QueuedJob(NamedTuple):
    """Something to be done for a run, at once or not before a time."""

    task: str
    args: Mapping[str, Any]
    at: float = 0.0
    queue: str = QUEUE


_taken: ContextVar[int] = ContextVar("taken", default=0)


def find_job() -> int:
    """The job that this task was begun for; 0: none."""
    return _taken.get()


def end_job(statements: Statements, job_id: int, worker_id: int) -> None:
    """A job is done with, as part of the transaction that makes it so."""
    if job_id:
        statements.add(END, (job_id, worker_id))


def hint_jobs(connection: psycopg.Connection) -> None:
    """Tell workers that there may be jobs."""
    connection.execute("select pg_notify(%s, %s)", (CHANNEL, HINT))


class QuietWorker(Worker):
    """The library's worker, without the records of every job that it makes for a log that nobody keeps here."""

    def _log_extra(self, *_: Any, **__: Any) -> dict[str, Any]:
        return {}

    def _log_job_outcome(self, *_: Any, **__: Any) -> None:
        return


class JobQueue:
    """Puts jobs into the queue and takes them out of it."""

    def __init__(
        self,
        database: Database,
        handlers: Mapping[str, Handle],
        prepare: Prepare,
        slots: int,
        queues: Sequence[str],
        place: str,
    ) -> None:
        self._database, self._prepare, self._slots = database, prepare, slots
        taken = {SHARED: QUEUE, OWN: name_place(place), LOCAL: ANYWHERE}
        self.is_own, self.is_shared = OWN in queues, SHARED in queues
        self.names = {taken[one] for one in queues}  # the queues it takes jobs from
        connector = procrastinate.PsycopgConnector(conninfo=database.add_option(LAZY), min_size=1, max_size=3)
        self.app = procrastinate.App(connector=connector)
        for name, handle in handlers.items():
            self.app.task(name=name, pass_context=True)(_make_taker(handle))
        manager = self.app.job_manager
        self._finish, manager.finish_job = manager.finish_job, self._finish_job  # type: ignore[method-assign]
        manager.fetch_job = self._fetch_job  # type: ignore[method-assign]
        self._fetched: deque[Job] = deque()
        self._is_drained = False  # the last question found less than it would have taken, and nothing came since
        self._ended: set[int] = set()
        self._asked_at = 0.0
        self._worker: Worker | None = None
        self._task: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()
        self._is_closing = False
        self.outages = 0

    @property
    def worker_id(self) -> int:
        """The number under which this process takes jobs; 0 while it does not."""
        return (self._worker.worker_id if self._worker is not None else 0) or 0

    def put(self, statements: Statements, jobs: Sequence[QueuedJob]) -> None:
        """Put jobs into the queue, with what else a transaction writes."""
        values: list[Any] = []
        for job in jobs:
            schedule = datetime.fromtimestamp(job.at, UTC) if job.at else None
            values += [job.queue, job.task, json.dumps(job.args), schedule]
        if jobs:
            statements.call(f"select procrastinate_defer_jobs_v1(array[{', '.join([PUT] * len(jobs))}])", values)

    def put_now(self, connection: psycopg.Connection, *jobs: QueuedJob) -> None:
        """Put jobs into the queue, as part of the transaction of a connection, and tell workers of them."""
        statements = Statements()
        self.put(statements, jobs)
        statements.send(connection)
        hint_jobs(connection)

    def note_ended(self, job_id: int) -> None:
        """A job was ended by a transaction of ours: the library need not do it."""
        self._ended.add(job_id)

    def wake_up(self) -> None:
        """Look for jobs now: this process has put one there."""
        if self._worker is not None:
            self._worker._new_job_event.set()

    async def _finish_job(self, job: Job, *args: Any, **given: Any) -> None:
        """A job that was handed to somebody else meanwhile is theirs to finish; to the library that is an error."""
        if job.id in self._ended:
            self._ended.discard(job.id)
            return
        with suppress(exceptions.ConnectorException):
            await self._finish(job, *args, **given)

    async def _fetch_job(self, queues: object, worker_id: int) -> Job | None:  # noqa: ARG002
        """As the library does it, but as many jobs as there are free slots, and none is overlooked.

        The library forgets a notification that comes while it asks: then there would be a job, and nobody to look.
        """
        worker = self._worker
        if worker is not None and worker._new_job_event.is_set():
            self._is_drained = False  # the library clears the event after every job that it is given
        while not self._fetched and worker is not None:
            if self._is_drained:
                self._is_drained = False  # the next time is after a notification, or after a while
                return None
            await self._gather(len(worker._running_jobs))
            worker._new_job_event.clear()
            most = max(1, min(FETCH_MAX, self._slots - len(worker._running_jobs)))
            found = await self._take(worker_id, most)
            self._fetched.extend(found)
            is_last = len(found) < most and not worker._new_job_event.is_set()
            if is_last and not found:
                return None
            self._is_drained = is_last
        return self._fetched.popleft() if self._fetched else None

    async def _take(self, worker_id: int, most: int) -> list[Job]:
        """Take jobs, and begin what can be begun, in one thread on one connection."""
        given = {"queues": sorted(self.names), "worker_id": worker_id, "most": most}

        def take() -> list[Job]:
            with self._database.connection() as connection:
                rows = connection.cursor(row_factory=dict_row).execute(FETCH, given).fetchall()
                jobs = [Job.from_row(row) for row in rows]
                if jobs:
                    self._prepare(connection, worker_id, jobs)
                return jobs

        try:
            return await self._database.aside(take)
        except PoolTimeout:
            return []  # all connections are lent: nothing was asked

    async def _gather(self, busy: int) -> None:
        """Where there is enough to do, let a few jobs come together before they are asked for."""
        clock = asyncio.get_running_loop().time
        if busy >= FETCH_BUSY and (left_s := self._asked_at + FETCH_GAP_S - clock()) > 0:
            await asyncio.sleep(left_s)
        self._asked_at = clock()

    def start(self) -> None:
        """Begin to take jobs, once."""
        if self._task is None and not self._is_closing:
            self._task = asyncio.create_task(self._work(), name="detent worker")

    async def ready(self) -> None:
        """Return when this process takes jobs."""
        self.start()
        await self._ready.wait()

    async def close(self, grace_s: float) -> None:
        """Take no more jobs; what is under way has so long to finish, and is stopped then."""
        self._is_closing = True
        if self._task is None:
            return
        starting = asyncio.create_task(self._ready.wait())
        await asyncio.wait((starting, self._task), timeout=CLOSE_S, return_when=asyncio.FIRST_COMPLETED)
        starting.cancel()
        if self._worker is not None and self._ready.is_set():
            self._worker.shutdown_graceful_timeout = None if grace_s == float("inf") else grace_s
            self._worker.stop()  # type: ignore[no-untyped-call]
        else:
            self._task.cancel()  # the database does not answer
        with suppress(asyncio.CancelledError):
            await self._task

    async def _work(self) -> None:
        """Take jobs for as long as this host is open, whatever becomes of the database meanwhile."""
        pause_s = PAUSE_S
        while not self._is_closing:
            try:
                async with self.app.open_async():
                    worker = QuietWorker(
                        self.app,
                        queues=None,  # it hears of every queue at one place, and takes what is its own (`_fetch_job`)
                        concurrency=self._slots,
                        fetch_job_polling_interval=POLL_S,
                        delete_jobs="always",
                        listen_notify=False,  # `wake_up`: a process listens with one connection for all that it hears
                        install_signal_handlers=False,
                        update_heartbeat_interval=HEARTBEAT_S,
                        stalled_worker_timeout=10 * STALLED_S,
                    )
                    self._worker = worker
                    beginning = asyncio.create_task(self._say_ready(worker))
                    try:
                        await worker.run()  # type: ignore[no-untyped-call]
                    finally:
                        beginning.cancel()
                pause_s = PAUSE_S
            except (exceptions.ConnectorException, psycopg.Error, OSError):
                self.outages += 1
            finally:
                self._worker = None
                self._is_drained = False
                self._fetched.clear()  # what it took and did not begin is put back with all that is its own
                self._ended.clear()
                self._ready.clear()
            if not self._is_closing:
                await asyncio.sleep(pause_s)
                pause_s = min(PAUSE_S_MAX, 2 * pause_s)

    async def _say_ready(self, worker: Worker) -> None:
        while worker.worker_id is None or worker._loop is None:  # noqa: ASYNC110  # the library rings no bell
            await asyncio.sleep(0.001)
        self._ready.set()


def _make_taker(handle: Handle) -> Handle:
    async def take(context: JobContext, **given: Any) -> None:
        _taken.set(context.job.id or 0)
        await handle(**given)

    return take


STALLED = (
    "select job.id from procrastinate_jobs job left join procrastinate_workers worker on worker.id = job.worker_id"
    " where job.status = 'doing' and (worker.id is null or worker.last_heartbeat < now() - make_interval(secs => %s))"
    " for update of job skip locked"
)


def put_back_stalled(connection: psycopg.Connection) -> int:
    """Hand out again the jobs whose workers are dead; how many."""
    with connection.transaction():
        stalled = [row[0] for row in connection.execute(STALLED, (STALLED_S,)).fetchall()]
        for job_id in stalled:
            connection.execute("select procrastinate_retry_job_v2(%s, now(), null, null, null)", (job_id,))
        if stalled:
            hint_jobs(connection)
    return len(stalled)
