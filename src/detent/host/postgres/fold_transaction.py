"""One transaction: lock the run, fold, and write what it led to: events, claims, work and the jobs that point at it."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import psycopg
from msgspec.structs import replace

from detent.core.contract import Contract, Failure
from detent.core.effect_type import Effect
from detent.core.events import ContractMoved, Event, Started
from detent.core.machine import Machine
from detent.core.run import Run
from detent.core.status import Status
from detent.errors import Unknown
from detent.host.parts.child import child_id
from detent.host.parts.clock import Clock
from detent.host.parts.fold import FoldPlan, FoldRoom
from detent.host.parts.idempotency_claim import Claims
from detent.host.parts.journal_query import Batch
from detent.host.parts.loaded_run import LoadedRun
from detent.host.parts.outbox import Outbox
from detent.host.parts.restore_gap import open_gap
from detent.host.policy_check import Rulings
from detent.host.postgres.connection import GONE
from detent.host.postgres.job_queue import ANYWHERE, QUEUE, JobQueue, QueuedJob, name_need, name_place
from detent.host.postgres.journal import Overtaken, PostgresJournal, take_claims, write_batch
from detent.host.postgres.postgres_reader import PostgresReader
from detent.host.postgres.remembered_run import Held, bring_up, copy_run
from detent.host.postgres.statement_batch import Statements

LOCK = (
    "select no, seq, head, extract(epoch from clock_timestamp())::float8,"
    " exists (select 1 from runs where name = 'restored' and state <> 'closed'),"
    " (select place from pins where pins.run_id = runs.run_id)"
    " from runs where run_id = %s for update"
)
# A run that nobody else should have moved is not read again: what is presumed of it is checked where it is written, in
# the same message. Where it is wrong, a division by zero ends the transaction, and the run is read.
PRESUME = "select 1 / count(*) from (select 1 from runs where no = %s and seq = %s and head = %s for update) as found"
PRESUME_HELD = (
    "select extract(epoch from clock_timestamp())::float8,"
    " 1 / (not exists (select 1 from runs where name = 'restored' and state <> 'closed') and (%s = '' or exists"
    " (select 1 from work where run = %s and contract_id = %s and worker = %s and turn = %s)))::int"
)
WRONG = (psycopg.errors.DivisionByZero, psycopg.errors.PipelineAborted)
HELD = "select worker, turn from work where run = (select no from runs where run_id = %s) and contract_id = %s"
FIRST = (
    "select nextval(pg_get_serial_sequence('runs', 'no')), extract(epoch from clock_timestamp())::float8,"
    " exists (select 1 from runs where name = 'restored' and state <> 'closed')"
)
PIN_OF = "select place from pins where run_id = %s"
PIN = "insert into pins (run_id, place) values (%s, %s) on conflict do nothing"
KNOW_PLACE = (
    "insert into places (place, seen_at, lease_s) values (%s, extract(epoch from clock_timestamp()), %s)"
    " on conflict do nothing"
)
UNPIN = "delete from pins where run_id = %s and place = %s"
PUT_WORK = (
    "insert into work (run, contract_id, turn) values (%s, %s, %s)"
    " on conflict (run, contract_id) do update set turn = excluded.turn, worker = null, begun_at = 0"
)
END_WORK = "delete from work where run = %s and contract_id = any(%s)"
WITHDRAW_WORK = "delete from work where run = %s and contract_id = %s and worker is null returning 1"
ENDED = tuple(status.value for status in (Status.COMPLETED, Status.FAILED, Status.REJECTED, Status.CANCELLED))


class CommitCut(Exception):
    """The connection was lost in the moment of the commit: whether it was made, only the journal can say."""

    def __init__(self, folded: "Folded") -> None:
        super().__init__("the commit was cut off")
        self.folded = folded
        self.no, self.seq, _id, _body, self.head = folded.plan.batch.events[-1]


class WrongPresumption(Exception):
    """A run was not as it was presumed to be, or what follows from that must not be said before it was read."""


class Moment(NamedTuple):
    """A run as it stands while its row is locked."""

    live: LoadedRun
    connection: psycopg.Connection
    journal: PostgresJournal
    claims: Claims
    statements: Statements  # what is written with what is folded
    held: tuple[int, int] | None = None  # whose hands the contract is in that the fold is about, and its turn


Make = Callable[[Moment], Sequence[Event]]  # what is to be folded, decided while the run is locked
Put = Callable[[Statements, Sequence[QueuedJob]], None]


class Folded(NamedTuple):
    """A run after a fold that is committed, and what is to be done now."""

    live: LoadedRun
    plan: FoldPlan
    now: float
    wake_at: float | None = None
    has_jobs: bool = False
    is_told: bool = False  # whether other processes were told of it


Tell = Callable[[psycopg.Connection, Folded], bool]  # other processes, of what is committed; whether that was done


class FoldingHost(Protocol):
    """What a transaction needs of its host."""

    clock: Clock
    outbox: Outbox
    rulings: Rulings
    is_working: bool
    lease_s: float
    place: str  # where it makes local calls
    queue: JobQueue
    reader: PostgresReader
    is_own_time: bool  # whether a test moves the clock: then nothing can be due by the database's

    def effect(self, live: LoadedRun, name: str) -> Effect | None:
        """The effect of that name."""


class FoldTransaction(FoldRoom):
    """The fold of one run; made anew for every transaction."""

    def __init__(self, host: FoldingHost, connection: psycopg.Connection, journal: PostgresJournal) -> None:
        self._host, self._connection, self._journal = host, connection, journal
        self.claims, self.clock = Claims(lambda: journal), host.clock
        self.outbox, self.rulings = host.outbox, host.rulings
        self._wake_at: float | None = None
        self._place: str | None = ""  # the run is pinned to; None: not read yet
        self._presumed: psycopg.Cursor | None = None
        self._is_followed = False
        self.held: tuple[int, int] | None = None
        self.statements = Statements()
        self.now = 0.0

    def effect(self, live: LoadedRun, name: str) -> Effect | None:
        """The effect of that name."""
        return self._host.effect(live, name)

    def set_timer(self, run_id: str, at: float) -> None:  # noqa: ARG002  # there is only one run here
        """Wake the run at that time; 0: no more."""
        self._wake_at = at

    def lock(self, run_id: str, cached: LoadedRun | None, about: str) -> LoadedRun:
        """The run as it stands, which nobody else moves until this transaction ends."""
        locked = self._connection.execute(LOCK, (run_id,))
        held = self._connection.execute(HELD, (run_id, about)) if about else None  # when the lock is ours
        row = locked.fetchone()
        self.held = held.fetchone() if held is not None else None
        if row is None:
            raise Unknown(f"there is no run {run_id}")
        no, seq, head, self.now, is_restored, place = row
        self._place = place or ""
        if is_restored:
            self.claims.gap = open_gap(self._journal)
        return bring_up(self._journal, run_id, no, seq, bytes(head), cached)

    def presume(self, cached: LoadedRun, held: Held) -> LoadedRun:
        """The run as this process knows it, and as it has to be when the transaction comes to the database."""
        self._connection.execute(PRESUME, (cached.no, cached.run.seq, cached.head))
        contract_id, worker, turn = held
        given = (contract_id, cached.no, contract_id, worker, turn)
        self._presumed = self._connection.execute(PRESUME_HELD, given)
        self.held, self._place = (worker, turn) if contract_id else None, None
        return copy_run(cached)

    def find_now(self) -> float:
        """What time it is at the database."""
        if self._presumed is not None:
            row = self._presumed.fetchone()
            self.now = 0.0 if row is None else row[0]
        return self.now

    def lock_new(self, live: LoadedRun) -> None:
        """Give a new run its number."""
        row = self._connection.execute(FIRST).fetchone()
        if row is None:
            raise AssertionError
        live.no, self.now, is_restored = row
        if is_restored:
            self.claims.gap = open_gap(self._journal)

    def fold(self, live: LoadedRun, make: Make, put: Put, machine: Machine | None) -> Folded:
        """Fold what is to be folded and write it; the caller commits."""
        before = live.run
        events = make(Moment(live, self._connection, self._journal, self.claims, self.statements, self.held))
        batch = Batch(live)
        batch.machine = machine
        plan = FoldPlan(live, batch)
        if not events:
            return Folded(live, plan, self.now)
        self._find_place(live, before, events)
        self._is_followed = live.run.id in self._host.reader.tail.runs
        self._fold_all(deque(events), plan, self._is_followed)
        self._withdraw(live, plan)
        if batch.events:
            live.seal(batch)
            take_claims(self._connection, batch)
            write_batch(self.statements, batch, self._journal.places)
            self._keep_work(before, plan)
            jobs = self._list_jobs(before, plan)
            put(self.statements, jobs)
            self.statements.send(self._connection)
            return Folded(live, plan, self.now, self._wake_at, bool(jobs))
        return Folded(live, plan, self.now, self._wake_at)

    def _withdraw(self, live: LoadedRun, plan: FoldPlan) -> None:
        """A contract that is stopped before any worker has begun it never left: that is known, nothing is in doubt."""
        done = 0
        while done < len(plan.aborts):
            contract = plan.aborts[done]
            done += 1
            now = live.run.contract(contract.id)
            if now is None or now.status is not Status.RUNNING:
                continue
            is_fresh = contract.id in plan.performs
            if is_fresh or self._connection.execute(WITHDRAW_WORK, (live.no, contract.id)).fetchone() is not None:
                plan.performs = tuple(one for one in plan.performs if one != contract.id)
                error = Failure("cancelled", "stopped before it began")
                moved = ContractMoved(contract.id, "cancel", error=error, deed="none", at=self.clock.now())
                self._fold_all(deque([moved]), plan, self._is_followed)

    def _keep_work(self, before: Run, plan: FoldPlan) -> None:
        run, no = plan.live.run, plan.live.no
        at_work = {contract.id for contract in run.contracts if contract.status is Status.RUNNING}
        plan.performs = tuple(one for one in dict.fromkeys(plan.performs) if one in at_work)
        over = [c.id for c in before.contracts if c.status is Status.RUNNING and c.id not in at_work]
        if over:
            self.statements.add(END_WORK, (no, over))
        for contract_id in plan.performs:
            self.statements.add(PUT_WORK, (no, contract_id, run.seq))

    def _list_jobs(self, before: Run, plan: FoldPlan) -> list[QueuedJob]:
        """The jobs that point at what this fold has led to."""
        run = plan.live.run
        jobs = [
            QueuedJob(
                "perform",
                {"run_id": run.id, "contract_id": contract_id, "turn": run.seq},
                queue=self._choose_queue(plan.live, contract_id),
            )
            for contract_id in plan.performs
        ]
        if self._wake_at and not self._host.is_own_time:
            jobs.append(QueuedJob("wake", {"run_id": run.id}, self._wake_at))
        if run.ended is not None and before.ended is None and run.parent:
            jobs.append(QueuedJob("hand_up", {"run_id": run.id}))
        if run.ended is not None and before.ended is None and run.group:
            jobs.append(QueuedJob("pass_place_on", {"run_id": run.id}))
        for contract in plan.aborts:
            if contract.effect == "child":
                children = filter(None, (child_id(run.id, contract.id), contract.reopens))
                jobs += [QueuedJob("end_child", {"run_id": child}) for child in children]
        return [*jobs, *(QueuedJob("hand_up", {"run_id": child}) for child in self._find_early(before, run))]

    def _choose_queue(self, live: LoadedRun, contract_id: str) -> str:
        """Who can make a call, as far as this process knows; a worker that cannot hands it on."""
        contract = live.run.contract(contract_id)
        if contract is None or contract.effect == "child":
            return QUEUE
        effect = self.effect(live, contract.effect)
        if effect is None:
            return name_need(contract.effect, live.run.source)
        if not effect.is_local:
            return QUEUE
        place = self._find_pin(live.run.id)
        return name_place(place) if place else ANYWHERE

    def _find_pin(self, run_id: str) -> str:
        """The place that a run is pinned to."""
        if self._place is None:
            row = self._connection.execute(PIN_OF, (run_id,)).fetchone()
            self._place = "" if row is None else row[0]
        return self._place

    def _find_place(self, live: LoadedRun, before: Run, events: Sequence[Event]) -> None:
        """A new run belongs where its parent does, else where it was begun if calls are made there."""
        for event in events:
            if type(event) is ContractMoved:
                self._let_go(before, event)
            elif type(event) is Started:
                row = None
                if event.parent:
                    row = self._connection.execute(PIN_OF, (event.parent.partition(" ")[0],)).fetchone()
                if row is not None:
                    self._pin(live.run.id, row[0])
                elif self._host.is_working and self._host.queue.is_own and self._is_local(live, event.source):
                    self._pin(live.run.id, self._host.place)

    def _is_local(self, live: LoadedRun, source: str) -> bool:
        """Whether any work of a machine can only be done in one place."""
        named = {action.effect for work in live.machine.work.values() for action in work}
        begun = LoadedRun(0, live.machine, replace(live.run, source=source), live.head)
        return any((found := self.effect(begun, name)) is not None and found.is_local for name in named)

    def _pin(self, run_id: str, place: str) -> None:
        """All local calls of a run are made in one place from now on."""
        self._place = place
        self.statements.add(PIN, (run_id, place))
        self.statements.add(KNOW_PLACE, (place, self._host.lease_s))

    def _let_go(self, before: Run, event: ContractMoved) -> None:
        """Somebody wants a call made elsewhere whose place is away: the run belongs nowhere until a worker takes it."""
        if event.trigger != "resume" or event.actor in ("machine", "probe"):
            return
        contract = before.contract(event.contract_id)
        place = contract.question.data.get("machine") if contract is not None and contract.question else None
        said = event.result if isinstance(event.result, dict) else {}
        if place and place == self._find_pin(before.id) and said.get("outcome") == "not_happened":
            self.statements.add(UNPIN, (before.id, place))
            self._place = ""

    def _find_early(self, before: Run, run: Run) -> list[str]:
        """Children that ended before their parent began to wait: they have called in vain.

        One that ends just now waits for the lock on this run, and finds it waiting.
        """
        waiting = [c for c in run.contracts if _find_awaited(c) and not _find_awaited(before.contract(c.id))]
        found = []
        for contract in waiting:
            child = _find_awaited(contract)
            row = self._connection.execute("select status from runs where run_id = %s", (child,)).fetchone()
            if row is not None and row[0] in ENDED:
                found.append(child)
        return found


def _find_awaited(contract: Contract | None) -> str:
    """The run that a contract waits for."""
    if contract is None or contract.question is None or contract.question.reason != "callback":
        return ""
    return str(contract.question.data.get("run_id", ""))


def fold_run(  # noqa: PLR0913  # one transaction needs to know all this
    host: FoldingHost,
    connection: psycopg.Connection,
    journal: PostgresJournal,
    run_id: str,
    make: Make,
    put: Put,
    tell: Tell,
    *,
    cached: LoadedRun | None,
    first: LoadedRun | None = None,
    machine: Machine | None = None,
    about: str = "",
    presumed: Held | None = None,
) -> Folded:
    """Fold a run in one transaction and commit it; raises `CommitCut` where nobody knows whether that was done.

    With `presumed` the run is taken as it was cached, and raises `WrongPresumption` where it is not."""
    room = FoldTransaction(host, connection, journal.inside(connection))
    folded: Folded | None = None
    commit: psycopg.Cursor | None = None
    try:
        with connection.pipeline():  # what is written goes to the database in one message, with the commit
            connection.execute("begin")
            if first is not None:
                room.lock_new(first)
                live = first
            elif presumed is not None and cached is not None:
                live = room.presume(cached, presumed)
            else:
                live = room.lock(run_id, cached, about)
            found = room.fold(live, make, put, machine)
            if found.plan.batch.events:
                folded = found
                commit = connection.execute("commit")
                folded = found._replace(is_told=tell(connection, found))  # it is in a transaction of its own
        if folded is None:
            _roll_back(connection)  # by itself: the driver forgets what it has prepared then, at the end of a message
    except Exception as error:
        if folded is not None and commit is not None and commit.statusmessage == "COMMIT":
            connection.close()  # only others were not told
            return folded._replace(is_told=False)
        _roll_back(connection)
        if presumed is not None and isinstance(error, WRONG):
            raise WrongPresumption from None
        if folded is not None and isinstance(error, GONE) and connection.closed:
            raise CommitCut(folded) from error
        raise
    except BaseException:
        _roll_back(connection)
        raise
    if folded is None and presumed is not None:
        raise WrongPresumption
    if commit is not None and commit.statusmessage != "COMMIT":  # a failed transaction ends so, without an error
        raise Overtaken
    return (folded or found)._replace(now=room.find_now())


def _roll_back(connection: psycopg.Connection) -> None:
    try:
        if not connection.closed:
            connection.execute("rollback")
    except psycopg.Error:
        connection.close()  # the pool makes another
