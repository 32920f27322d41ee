"""Where calls can be made: which worker has what a call needs, and which place a run's files and processes are in.

A place is a set of workers that see the same files: one folder of one machine, or whatever was given the same name. The
first local call of a run pins the run to a place; its other local calls go to the queue of that place. What no worker
at hand can do waits in a queue that is named after what it needs, and nobody spins.
"""

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import psycopg
from msgspec.structs import replace

from detent.core.contract import Contract
from detent.core.events import RULES, ContractMoved, Event
from detent.core.question import Question
from detent.core.status import Status
from detent.errors import DetentError, NotWaiting
from detent.host.parts.outcome import run_again
from detent.host.postgres.contract_executor import Crew
from detent.host.postgres.fold_transaction import Moment
from detent.host.postgres.host_protocol import PostgresPerformer
from detent.host.postgres.job_delivery import is_possible
from detent.host.postgres.job_queue import NEEDS, RULES_NEEDED, STALLED_S, name_need, name_place

LEASE_S = 60.0  # so long a place may be away before its runs ask
JUDGE_S = 30.0  # so often a worker looks whether it has by now what it lacked
MACHINE = "machine"  # who speaks when a place has come back

ALIVE = (
    "exists (select 1 from procrastinate_workers where id = stations.worker"
    " and last_heartbeat > now() - make_interval(secs => %(stalled_s)s))"
)
# A process that was stopped for long is forgotten by the library, and its heartbeat then says nothing.
RETURN = "insert into procrastinate_workers (id) overriding system value values (%(worker)s) on conflict do nothing"
STAY = (
    "insert into stations (worker, place, lease_s, queues) values (%(worker)s, %(place)s, %(lease_s)s, %(queues)s)"
    " on conflict (worker) do update set queues = excluded.queues"
)
SEE = (
    "insert into places (place, seen_at, lease_s) select place, extract(epoch from clock_timestamp()), max(lease_s)"  # noqa: S608
    f" from stations where {ALIVE} group by place"
    " on conflict (place) do update set seen_at = excluded.seen_at, lease_s = excluded.lease_s"
    " where places.seen_at < excluded.seen_at - least(5, excluded.lease_s / 4)"
)
LEAVE = "delete from stations where not exists (select 1 from procrastinate_workers where id = stations.worker)"
PARKED = (
    "select distinct on (queue_name) queue_name, args->>'run_id', args->>'contract_id' from procrastinate_jobs"
    " where status = 'todo' and task_name = 'perform' and queue_name like %(needs)s and not queue_name = any(%(known)s)"
)
AWAY = (
    "select runs.run_id, work.contract_id, work.turn, pins.place, places.seen_at from work"  # noqa: S608
    " join runs on runs.no = work.run join pins on pins.run_id = runs.run_id join places on places.place = pins.place"
    " where places.seen_at < extract(epoch from clock_timestamp()) - places.lease_s"
    f" and not exists (select 1 from stations where stations.place = pins.place and {ALIVE})"
    " and exists (select 1 from procrastinate_jobs where task_name = 'perform' and status = 'todo'"
    " and queue_name like %(at)s and args = jsonb_build_object('run_id', runs.run_id, 'contract_id',"
    " work.contract_id, 'turn', work.turn)) limit 1000"
)
HELD = "select worker, turn from work where run = %s and contract_id = %s for update"
IS_BACK = f"select exists (select 1 from stations where place = %(place)s and {ALIVE})"  # noqa: S608
ASKING = (
    "select run_id from runs where waiting <> '[]' and strpos(waiting, ?) > 0"
    " and exists (select 1 from pins where pins.run_id = runs.run_id and place = ?)"
)
PIN_OF = "select place from pins where run_id = %s"


class LostPlace(NamedTuple):
    """A call that waits for a place which is away."""

    run_id: str
    contract_id: str
    turn: int
    place: str
    seen_at: float


def ask_about_place(contract: Contract, lost: LostPlace, is_begun: bool) -> ContractMoved:
    """The question what to do about a call whose place is away; whoever waits for it needs not answer."""
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(lost.seen_at))
    is_doubt = is_begun and is_possible(contract)
    state = "It had been begun there and may have happened." if is_doubt else "It has not been done."
    text = (
        f"`{contract.effect}` belongs to `{lost.place}`, where the files of this run are, and no worker has been there"
        f" since {since} UTC. {state} Wait for it (then nothing needs to be answered), do it elsewhere"
        " (`not_happened`), or stop (`give_up`)?"
    )
    choices = ["happened", "not_happened", "give_up"] if is_doubt else ["not_happened", "give_up"]
    data: dict[str, Any] = {"choices": choices, "key": contract.key, "machine": lost.place, "away_since": lost.seen_at}
    data["cause"] = {"type": "machine_away", "message": f"no worker has been at {lost.place} since {since} UTC"}
    question = Question(text, "outcome_unknown", data=data)
    deed = "possible" if is_doubt else "none"
    return ContractMoved(contract.id, "suspend", question=question, deed=deed, actor=MACHINE)


class WorkPlaces:
    """What one worker says of its own place and does about those of others."""

    def __init__(self, host: PostgresPerformer, crew: Crew, place: str, lease_s: float) -> None:
        self._host, self._crew, self.place, self._lease_s = host, crew, place, lease_s
        self._said: tuple[int, frozenset[str]] = (0, frozenset())
        self._is_back = False  # whether this worker has looked for runs that have asked about its place
        self._lacks: dict[str, float] = {}  # queues that are not for us, and when we looked

    async def tend(self) -> None:
        """One round: say where this worker is, take on what it can do, and ask about places that are away."""
        queue = self._host.queue
        if not queue.worker_id:
            return
        await self._judge_parked()
        await self._say_where()
        is_known, away = await self._host.ask(list_away, queue.worker_id)
        for lost in away:
            await self._ask_about(lost)
        if not is_known:
            self._said = (0, frozenset())  # this process was away for so long that it was forgotten
        elif queue.is_own and not self._is_back:
            await self._come_back()
            self._is_back = True

    def leave(self, queue_name: str) -> None:
        """This worker turned out not to have what a queue needs."""
        self._host.queue.names.discard(queue_name)
        self._lacks[queue_name] = time.monotonic()

    async def _say_where(self) -> None:
        queue = self._host.queue
        now = queue.worker_id, frozenset(queue.names)
        if now != self._said:
            await self._host.ask(stay, queue.worker_id, self.place, self._lease_s, sorted(queue.names))
            self._is_back = self._is_back and self._said[0] == now[0]
            self._said = now

    async def _judge_parked(self) -> None:
        """Look at what waits for a worker that has what it needs: this one may."""
        queue, now = self._host.queue, time.monotonic()
        if not queue.is_shared:
            return
        self._lacks = {name: at for name, at in self._lacks.items() if now - at < JUDGE_S}
        known = [*queue.names, *self._lacks]
        for name, run_id, contract_id in await self._host.ask(list_parked, known):
            if await self._has(name, run_id, contract_id):
                queue.names.add(name)
                queue.wake_up()
            else:
                self._lacks[name] = now

    async def _has(self, name: str, run_id: str, contract_id: str) -> bool:
        if name.startswith(RULES_NEEDED):
            return int(name.removeprefix(RULES_NEEDED)) <= RULES
        try:
            live = await self._host.look(run_id)
        except DetentError:
            return False
        contract = live.run.contract(contract_id)
        if contract is None:
            return False
        self._host.forget_source(live.run.source)
        is_same = name_need(contract.effect, live.run.source) == name
        return is_same and self._host.effect(live, contract.effect) is not None

    async def _ask_about(self, lost: LostPlace) -> None:
        """The place of a call is away for longer than its lease: the run says so, and asks."""

        def make(moment: Moment) -> Sequence[Event]:
            contract = moment.live.run.contract(lost.contract_id)
            row = moment.connection.execute(HELD, (moment.live.no, lost.contract_id)).fetchone()
            given = {"place": lost.place, "stalled_s": STALLED_S}
            is_back = moment.connection.execute(IS_BACK, given).fetchone()
            if contract is None or contract.status is not Status.RUNNING or row is None or row[1] != lost.turn:
                return ()
            if is_back is None or is_back[0] or contract.is_adrift:
                return ()
            asked = ask_about_place(contract, lost, is_begun=row[0] is not None)
            return (replace(asked, at=self._host.clock.now()),)

        try:
            await self._host.fold(await self._host.look(lost.run_id), make)
        except DetentError as error:
            self._host.report(lost.run_id, error)

    async def _come_back(self) -> None:
        """This place was away, and runs have asked about it: what was not begun elsewhere is done here."""
        mark = '"machine":'
        rows = await self._host.database.aside(self._host.journal.rows, ASKING, (mark, self.place))
        for (run_id,) in rows:
            live = await self._host.look(run_id)
            for contract in live.run.contracts:
                asked = contract.question
                if asked is not None and asked.data.get("machine") == self.place:
                    try:
                        await self._answer(run_id, contract)
                    except NotWaiting:
                        continue  # somebody was quicker

    async def _answer(self, run_id: str, contract: Contract) -> None:
        if contract.is_irreversible and contract.effect_state == "possible":
            await self._crew.probe(run_id, contract.id)  # what it says is evidence; if it cannot tell, people know
            return

        def make(moment: Moment) -> Sequence[Event]:
            now = moment.live.run.contract(contract.id)
            pin = moment.connection.execute(PIN_OF, (run_id,)).fetchone()
            if now is None or now.question != contract.question or pin != (self.place,):
                return ()
            return [replace(run_again(now, MACHINE)[1], at=self._host.clock.now())]

        await self._host.fold(await self._host.look(run_id), make)


def stay(connection: psycopg.Connection, worker: int, place: str, lease_s: float, queues: Sequence[str]) -> None:
    """Say where a worker is and what it takes."""
    given = {"worker": worker, "place": place, "lease_s": lease_s, "queues": list(queues), "stalled_s": STALLED_S}
    with connection.transaction():
        connection.execute(RETURN, given)
        connection.execute(STAY, given)
        connection.execute(SEE, given)


def list_parked(connection: psycopg.Connection, known: Sequence[str]) -> list[Any]:
    """A call of each queue that waits for what somebody may have; those that are known are left out."""
    return connection.execute(PARKED, {"needs": f"{NEEDS}%", "known": list(known)}).fetchall()


def list_away(connection: psycopg.Connection, worker: int) -> tuple[bool, list[LostPlace]]:
    """Whether a worker is known, and the calls that wait for a place which is away for longer than its lease."""
    given = {"stalled_s": STALLED_S, "at": f"{name_place('')}%"}
    with connection.transaction():
        connection.execute(LEAVE)
        connection.execute(SEE, given)
        known = connection.execute("select 1 from stations where worker = %s", (worker,)).fetchone()
        return known is not None, [LostPlace(*row) for row in connection.execute(AWAY, given).fetchall()]
