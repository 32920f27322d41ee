"""A contract that a job points at: begun once, taken over from the dead, or handed on to those who can do it."""

from collections.abc import Sequence
from typing import NamedTuple

import psycopg

from detent.core.contract import Contract
from detent.host.postgres.job_queue import STALLED_S, JobQueue, QueuedJob

BEGIN = (
    "update work set worker = %(worker)s, begun_at = extract(epoch from clock_timestamp()) from runs"
    " where runs.run_id = %(run_id)s and work.run = runs.no and work.contract_id = %(contract_id)s"
    " and work.turn = %(turn)s and work.worker is null and"
    " set_config('synchronous_commit', coalesce(%(commit)s::text, current_setting('synchronous_commit')), true) <> ''"
    " returning 1"
)
FIND = (
    "select work.worker, exists (select 1 from procrastinate_workers where id = work.worker"
    " and last_heartbeat > now() - make_interval(secs => %(stalled_s)s)) from work join runs on runs.no = work.run"
    " where runs.run_id = %(run_id)s and work.contract_id = %(contract_id)s and work.turn = %(turn)s"
)
TAKE_OVER = (
    "update work set worker = %s where run = %s and contract_id = %s and turn = %s and worker in (%s, %s) returning 1"
)
LEFT_S = 30.0
LEFT = (
    "select runs.run_id, work.contract_id, work.turn from work join runs on runs.no = work.run where work.worker = %s"
    " and work.begun_at < extract(epoch from clock_timestamp()) - %s"
    " and not exists (select 1 from procrastinate_jobs where task_name = 'perform' and status in ('todo', 'doing')"
    " and args = jsonb_build_object('run_id', runs.run_id, 'contract_id', work.contract_id, 'turn', work.turn))"
)
PIN = (
    "insert into pins (run_id, place) values (%s, %s) on conflict (run_id) do update set place = pins.place"
    " returning place"
)


class Delivery(NamedTuple):
    """A contract that a job points at: which of its turns, and in whose hands."""

    run_id: str
    contract_id: str
    turn: int
    worker: int
    job: int = 0

    @property
    def mark(self) -> tuple[str, str]:
        """The contract across all runs."""
        return self.run_id, self.contract_id


class Beginning(NamedTuple):
    """Whether a turn is ours to begin; if not, the dead worker that had begun it, or the place it belongs to."""

    is_ours: bool
    dead: int = 0
    place: str = ""


def begin(connection: psycopg.Connection, wanted: Delivery, place: str, is_lazy: bool) -> Beginning:
    """Begin a turn of a contract; a local one pins its run to this place, or belongs to another.

    What may be called twice need not wait until the disk has that it was begun.
    """
    if not place:
        return _begin(connection, wanted, is_lazy)
    with connection.transaction():
        row = connection.execute(PIN, (wanted.run_id, place)).fetchone()
        if row is not None and row[0] != place:
            return Beginning(False, place=row[0])
        return _begin(connection, wanted, is_lazy)


def _begin(connection: psycopg.Connection, wanted: Delivery, is_lazy: bool) -> Beginning:
    if ask_to_begin(connection, wanted, is_lazy).fetchone() is not None:
        return Beginning(True)
    given = {**wanted._asdict(), "stalled_s": STALLED_S}
    row = connection.execute(FIND, given).fetchone()
    if row is None:
        return Beginning(False)  # it is over, or has another turn
    holder, is_alive = row
    return Beginning(False, 0 if is_alive and holder != wanted.worker else int(holder or 0))


def ask_to_begin(connection: psycopg.Connection, wanted: Delivery, is_lazy: bool) -> psycopg.Cursor:
    """Begin a turn that nobody has begun; the cursor has a row if that was done, in a pipeline later."""
    return connection.execute(BEGIN, {**wanted._asdict(), "commit": "off" if is_lazy else None})


def list_left(connection: psycopg.Connection, worker: int) -> Sequence[tuple[str, str, int]]:
    """What a worker has begun a while ago without a job for it: run, contract and turn."""
    return connection.execute(LEFT, (worker, LEFT_S)).fetchall()


def take_over(connection: psycopg.Connection, wanted: Delivery, no: int, dead: int) -> bool:
    """Take a contract out of a dead worker's hands; whether nobody was quicker."""
    given = (wanted.worker, no, wanted.contract_id, wanted.turn, dead, wanted.worker)
    return connection.execute(TAKE_OVER, given).fetchone() is not None


def hand_on(connection: psycopg.Connection, queue: JobQueue, wanted: Delivery, name: str) -> None:
    """Leave to the workers of another queue what this one has not begun."""
    given = {"run_id": wanted.run_id, "contract_id": wanted.contract_id, "turn": wanted.turn}
    with connection.transaction():
        queue.put_now(connection, QueuedJob("perform", given, queue=name))


def is_possible(contract: Contract) -> bool:
    """Whether nobody knows that a call which was begun did not happen."""
    return contract.is_irreversible and contract.effect_state == "possible"
