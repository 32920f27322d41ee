"""The sweep: finds what should not be, and puts it right: work without a job, and timers that nobody has rung.

Jobs of dead workers are handed out again here too; that is no fault. What is counted is only what no crash explains,
and the count should stay at 0.
"""

import asyncio
from collections.abc import Awaitable, Callable

import psycopg

from detent.errors import JournalError
from detent.host.postgres.connection import GONE
from detent.host.postgres.host_protocol import PostgresMover
from detent.host.postgres.job_queue import STALLED_S, JobQueue, QueuedJob, put_back_stalled

SWEEP_S = 2.0
OVERDUE_S = 30.0
LOCK = 0x64657473
LOST = (
    "select runs.run_id, work.contract_id, work.turn, work.worker is null from work join runs on runs.no = work.run"
    " where runs.updated_at < extract(epoch from clock_timestamp()) - %(overdue_s)s and not exists (select 1 from"
    " procrastinate_workers where id = work.worker and last_heartbeat > now() - make_interval(secs => %(stalled_s)s))"
    " and not exists (select 1 from procrastinate_jobs where task_name = 'perform' and status in ('todo', 'doing')"
    " and args = jsonb_build_object('run_id', runs.run_id, 'contract_id', work.contract_id, 'turn', work.turn))"
    " limit 1000"
)
OVERDUE = (
    "select run_id from runs where wake_at < extract(epoch from clock_timestamp()) - %(overdue_s)s"
    " and not exists (select 1 from procrastinate_jobs where task_name = 'wake' and status in ('todo', 'doing')"
    " and args = jsonb_build_object('run_id', runs.run_id)) limit 1000"
)

COUNT = "update meta set value = (value::bigint + %s)::text where name = 'swept'"


def sweep(connection: psycopg.Connection, queue: JobQueue, *, is_own_time: bool) -> int:
    """One round; how much was found that no crash explains."""
    put_back_stalled(connection)
    given = {"overdue_s": OVERDUE_S, "stalled_s": STALLED_S}
    swept = 0
    with connection.transaction():
        row = connection.execute("select pg_try_advisory_xact_lock(%s)", (LOCK,)).fetchone()
        if row is None or not row[0]:
            return 0  # another process is at it
        for run_id, contract_id, turn, is_fresh in connection.execute(LOST, given).fetchall():
            queue.put_now(
                connection, QueuedJob("perform", {"run_id": run_id, "contract_id": contract_id, "turn": turn})
            )
            swept += is_fresh  # one that was begun belonged to a worker that was stopped
        for (run_id,) in () if is_own_time else connection.execute(OVERDUE, given).fetchall():
            queue.put_now(connection, QueuedJob("wake", {"run_id": run_id}))
            swept += 1
        if swept:
            count_swept(connection, swept)
    return swept


def count_swept(connection: psycopg.Connection, count: int) -> None:
    """Keep for all to see how often something had to be put right."""
    connection.execute(COUNT, (count,))


class Sweep:
    """The sweep of one worker, round by round."""

    def __init__(self, host: PostgresMover) -> None:
        self._host = host
        self.swept = 0  # by this process

    async def run(self, tend: Callable[[], Awaitable[None]], take_up_left: Callable[[], Awaitable[int]]) -> None:
        """Sweep for as long as the host is open, tend this worker's place, and take up what it has left itself."""
        await self._host.queue.ready()
        while not self._host.is_closing:
            try:
                await tend()
                await asyncio.sleep(SWEEP_S)
                self.swept += await self._host.ask(sweep, self._host.queue, is_own_time=self._host.is_own_time)
                if left := await take_up_left():
                    self.swept += left
                    await self._host.ask(count_swept, left)
            except (*GONE, JournalError):
                await asyncio.sleep(SWEEP_S)  # the database is away; the next round finds it
