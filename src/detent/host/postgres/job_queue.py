"""The queue: jobs that point at work, handed to workers by procrastinate, which also knows who of them is alive.

A job is only a pointer. It is put into the queue by the transaction that makes it needed; what is done when it comes
is decided by what the journal says then. So a job that comes twice, late or for nothing does no harm.
"""

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, NamedTuple

import procrastinate
import psycopg
from procrastinate import exceptions
from procrastinate.worker import Worker

from detent.host.postgres.connection import Database

QUEUE = "detent"  # what every worker can do, as far as whoever puts it there knows
ANYWHERE = "detent local"  # local calls of runs that belong nowhere yet: the worker that takes one is where they stay
NEEDS, PLACE = "needs:", "at:"
RULES_NEEDED = f"{NEEDS}rules "
# What a worker takes: what anybody may do, the local calls of its own place, those of runs that belong nowhere yet.
SHARED, OWN, LOCAL = "shared", "own", "local"
USUAL = (SHARED, OWN)  # for a process that has more to do than to work
NAME_MAX = 40  # bytes of a queue's name: with what the library puts before it, it names a channel of 63
HEARTBEAT_S = 2.0
STALLED_S = 8.0  # without a heartbeat for so long, a worker is taken for dead
POLL_S = 2.0  # how soon a job is found whose time has come, or whose notification was lost
PAUSE_S, PAUSE_S_MAX = 0.2, 5.0
CLOSE_S = 5.0

# The library tells of every job; what goes wrong with one is told by the run it belongs to.
logging.getLogger("procrastinate").setLevel(logging.CRITICAL)

Handle = Callable[..., Awaitable[None]]


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


class JobQueue:
    """Puts jobs into the queue and takes them out of it."""

    def __init__(
        self, database: Database, handlers: Mapping[str, Handle], slots: int, queues: Sequence[str], place: str
    ) -> None:
        self._database, self._slots = database, slots
        taken = {SHARED: QUEUE, OWN: name_place(place), LOCAL: ANYWHERE}
        self.is_own, self.is_shared = OWN in queues, SHARED in queues
        self.names = {taken[one] for one in queues}  # the queues it takes jobs from
        self.app = procrastinate.App(
            connector=procrastinate.PsycopgConnector(conninfo=database.conninfo, min_size=1, max_size=4)
        )
        # Calls of the library that use a connection of ours never ask the connector for one.
        self._writing = procrastinate.App(connector=procrastinate.SyncPsycopgConnector(conninfo=database.conninfo))
        for name, handle in handlers.items():
            self.app.task(name=name)(handle)
            self._writing.task(name=name)(handle)
        self._finish, self.app.job_manager.finish_job = self.app.job_manager.finish_job, self._finish_job  # type: ignore[method-assign]
        self._fetch, self.app.job_manager.fetch_job = self.app.job_manager.fetch_job, self._fetch_job  # type: ignore[method-assign]
        self._worker: Worker | None = None
        self._task: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()
        self._is_closing = False
        self.outages = 0

    @property
    def worker_id(self) -> int:
        """The number under which this process takes jobs; 0 while it does not."""
        return (self._worker.worker_id if self._worker is not None else 0) or 0

    def put(self, connection: psycopg.Connection, jobs: Sequence[QueuedJob]) -> None:
        """Put jobs into the queue, as part of the transaction of a connection."""
        for job in jobs:
            schedule = datetime.fromtimestamp(job.at, UTC) if job.at else None
            waiting = self._writing.configure_task(
                job.task, queue=job.queue, schedule_at=schedule, connection=connection
            )
            try:
                waiting.defer(**job.args)
            except exceptions.ConnectorException as error:
                # In a pipeline this may be what came of an earlier statement: a deadlock, a connection that was cut.
                raise error.__cause__ or error from None

    async def _finish_job(self, *args: Any, **given: Any) -> None:
        """A job that was handed to somebody else meanwhile is theirs to finish; to the library that is an error."""
        with suppress(exceptions.ConnectorException):
            await self._finish(*args, **given)

    async def _fetch_job(self, queues: object, worker_id: int) -> Any:  # noqa: ARG002  # the library keeps a fixed list
        """Take a job of the queues that this worker serves now."""
        return await self._fetch(queues=sorted(self.names), worker_id=worker_id)

    def wake_up(self) -> None:
        """Look for jobs now: there is another queue to look into."""
        if self._worker is not None:
            self._worker._new_job_event.set()

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
                    worker = Worker(
                        self.app,
                        queues=None,  # it hears of every job, and takes those of its own queues (`_fetch_job`)
                        concurrency=self._slots,
                        fetch_job_polling_interval=POLL_S,
                        delete_jobs="always",
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
                self._ready.clear()
            if not self._is_closing:
                await asyncio.sleep(pause_s)
                pause_s = min(PAUSE_S_MAX, 2 * pause_s)

    async def _say_ready(self, worker: Worker) -> None:
        while worker.worker_id is None or worker._loop is None:  # noqa: ASYNC110  # the library rings no bell
            await asyncio.sleep(0.001)
        self._ready.set()


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
    return len(stalled)
