"""Taking up what dead workers have left, by the same rules as after a crash on one machine."""

from collections.abc import Awaitable, Callable, Sequence

import psycopg

from detent.core.events import CANCEL, Event, Signalled
from detent.core.status import Status
from detent.errors import DetentError
from detent.host.parts.child import awaiting
from detent.host.parts.family import children, family
from detent.host.postgres.contract_executor import Crew
from detent.host.postgres.fold_transaction import Moment
from detent.host.postgres.host_protocol import PostgresMover
from detent.host.postgres.job_queue import STALLED_S, JobQueue, QueuedJob, put_back_stalled
from detent.host.postgres.wake_timer import Wakes

HandUp = Callable[[str], Awaitable[None]]

# Work that nobody alive has in hand.
LEFT = (
    "select runs.run_id, work.contract_id, work.turn from work join runs on runs.no = work.run"
    " where not exists (select 1 from procrastinate_workers where id = work.worker"
    " and last_heartbeat > now() - make_interval(secs => %(stalled_s)s)) order by runs.no"
)
# Of that, what no job points at: the process that had it was stopped, and the queue has let go of the job.
ORPHANED = (
    "select 1 from procrastinate_jobs where task_name = 'perform' and status in ('todo', 'doing')"
    " and args = jsonb_build_object('run_id', %(run_id)s::text, 'contract_id', %(contract_id)s::text,"
    " 'turn', %(turn)s::bigint)"
)


def put_back_left(connection: psycopg.Connection, queue: JobQueue, known: frozenset[str] | None) -> tuple[str, ...]:
    """Hand out again what nobody alive has in hand, of all runs or of those that are known; the runs of it."""
    put_back_stalled(connection)
    found: dict[str, None] = {}
    with connection.transaction():
        connection.execute("select pg_advisory_xact_lock(%s)", (0x64657477,))
        for run_id, contract_id, turn in connection.execute(LEFT, {"stalled_s": STALLED_S}).fetchall():
            if known is not None and run_id not in known:
                continue
            found[run_id] = None
            given = {"run_id": run_id, "contract_id": contract_id, "turn": turn}
            if connection.execute(ORPHANED, given).fetchone() is None:
                queue.put_now(connection, QueuedJob("perform", given))
    return tuple(found)


async def take_up(host: PostgresMover, crew: Crew, wakes: Wakes, hand_up: HandUp, run_id: str) -> tuple[str, ...]:
    """Recover one run with its whole family, or everything; the runs that had something to do."""
    known = None
    if run_id:
        await host.look(run_id)  # what is named must be sound
        kin = await host.database.aside(family, host.journal, run_id)
        known = frozenset(one.run_id for one in kin)
        apart = [(one.run_id, one.parent, one.has_ended) for one in kin if one.parent]
    else:
        apart = await host.database.aside(children, host.journal)
    taken_up = await host.ask(put_back_left, host.queue, known)
    for child, parent, has_ended in apart:
        try:
            await _recover_child(host, hand_up, child, parent, has_ended)
        except DetentError as error:
            host.report(child, error)
    for at, sleeping in await host.database.aside(host.journal.timers):
        if known is None or sleeping in known:
            wakes.set(sleeping, at)
    await _look_again(host, crew, known)
    return taken_up


async def _recover_child(host: PostgresMover, hand_up: HandUp, run_id: str, parent: str, has_ended: bool) -> None:
    """Bring a child run and its parent together again: hand up what came of it, or end what nobody waits for."""
    parent_id, _, contract_id = parent.partition(" ")
    try:
        above = (await host.look(parent_id)).run
    except DetentError:
        return  # the parent is damaged: its child is left as it is until somebody has looked
    contract = awaiting(above, run_id, contract_id)
    if has_ended:
        if contract is not None and contract.status is Status.WAITING:
            await hand_up(run_id)
    elif contract is None:
        live = await host.look(run_id)

        def make(moment: Moment) -> Sequence[Event]:
            run = moment.live.run
            if run.ended is not None or run.ending is not None:
                return ()
            return (Signalled(CANCEL, {"reason": "nobody waits for it"}, "parent", host.clock.now()),)

        await host.fold(live, make)


async def _look_again(host: PostgresMover, crew: Crew, known: frozenset[str] | None) -> None:
    """Ask the probes of open doubts again, once nothing of their calls can be in flight."""
    rows = await host.database.aside(
        host.journal.rows, "select run_id from runs where waiting <> '[]' and strpos(waiting, ?) > 0", ("lands_until",)
    )
    for (run_id,) in rows:
        if known is None or run_id in known:
            live = await host.look(run_id)
            for contract in live.run.contracts:
                if contract.question is not None and "lands_until" in contract.question.data:
                    crew.look_again(live, contract)
