"""The host of many machines: the verbs, over transactions in PostgreSQL; any number of processes drive the same runs.

Whoever folds an event does so alone, because the run's row is locked. What follows from it is put into the queue by
the same transaction, and carried out by whichever worker takes it.
"""

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any, Self

import psycopg

from detent.core.effect_type import Effect
from detent.core.events import CANCEL, ContractMoved, Event, Started
from detent.core.identity import By, Identity
from detent.core.machine import Machine
from detent.core.policy import Policy
from detent.core.progress import Hear, Pass
from detent.core.run import Run
from detent.core.status import Status
from detent.errors import DetentError, JournalError, NotWaiting, Refused, Unknown
from detent.host.address import find_place
from detent.host.concurrency_group import reconcile
from detent.host.parts.admission import Admission
from detent.host.parts.call_precaution import describe_ground
from detent.host.parts.child import awaiting, describe_end
from detent.host.parts.claim_check import differences, repair, right_holders
from detent.host.parts.clock import Clock
from detent.host.parts.journal_query import Batch, Nobody
from detent.host.parts.loaded_run import LoadedRun
from detent.host.parts.outbox import Outbox
from detent.host.parts.restore_gap import Gap
from detent.host.parts.secret_box import NoSecrets
from detent.host.parts.verbs import Verbs
from detent.host.people import PeopleSource
from detent.host.policy_check import Rulings
from detent.host.port import FindEffects
from detent.host.postgres.artefact_table import ArtefactTable
from detent.host.postgres.connection import GONE, Database, told_plainly
from detent.host.postgres.contract_executor import Crew
from detent.host.postgres.database_clock import DatabaseClock
from detent.host.postgres.fold_transaction import Folded, Moment, WrongPresumption
from detent.host.postgres.job_queue import USUAL, Handle, JobQueue
from detent.host.postgres.notification import HintSender
from detent.host.postgres.postgres_reader import PATIENCE_S, PostgresReader
from detent.host.postgres.recovery import take_up
from detent.host.postgres.run_engine import PostgresRoom, write_alone
from detent.host.postgres.schema import check_version, find_places
from detent.host.postgres.shared_people import SHARE_S, share_people
from detent.host.postgres.sweep import Sweep
from detent.host.postgres.wake_timer import Wakes
from detent.host.postgres.worker_affinity import LEASE_S, WorkPlaces
from detent.host.reading import Note, Query, Summary

SLOTS = 100  # effects at once in a process that has nothing else to say about it

GROUP_PATIENCE_S = 60.0  # so long a run that has entered its group may take to begin, in another process
TIDY_S = 60.0
UNTRIED_S = 300.0  # whoever has written a message has tried to deliver it by then, or has died


class PostgresHost(PostgresRoom, Verbs):
    """Moves runs in PostgreSQL, and carries out what they lead to unless told not to; an async context manager."""

    is_holder = True  # every process is as good as any other
    outbox_grace_s = 5.0
    secret_box = NoSecrets()

    def __init__(  # noqa: PLR0913  # all but the first two have the right default
        self,
        database: Database,
        home: Path,
        effects: Mapping[str, Effect] | Sequence[Effect] = (),
        *,
        clock: Clock | None = None,
        find_effects: FindEffects | None = None,
        grace_s: float = 5.0,
        policy: Policy | None = None,
        notify: str = "notify",
        people: PeopleSource | None = None,
        guarded: Sequence[Path] = (),
        slots: int = SLOTS,
        queues: Sequence[str] = USUAL,
        is_working: bool = True,
        place: str = "",
        lease_s: float = LEASE_S,
        reader: PostgresReader | None = None,
    ) -> None:
        super().__init__(find_effects)
        self.database, self.home, self.admission = database, home, Admission(people)
        self._people = people
        self.ground = describe_ground(home, guarded)
        self.effects = effects if isinstance(effects, Mapping) else {effect.name: effect for effect in effects}
        self.is_own_time, self.clock = clock is not None, clock or DatabaseClock()
        self.artefacts = ArtefactTable(database)
        self.outbox, self.rulings, self.policy = Outbox(self, notify), Rulings(policy, self.admission.people), policy
        self._grace_s, self.is_working, self._is_at_it = grace_s, is_working, False
        self._is_reader_ours = reader is None
        self.reader = reader or PostgresReader(database, home)
        self.journal, self.hints = self.reader.shared, HintSender(self.reader.mark, self.own, self.ask)
        self.gap: Gap | None = None
        self.closing = AsyncExitStack()  # what was opened for this host, and is closed after it
        self.on_silence: Callable[[], None] = lambda: None
        self.given_up = ""
        self.crew, self.wakes, self.sweep = Crew(self), Wakes(self), Sweep(self)
        self._tidy_at = 0.0
        self.place, self.lease_s = find_place(place), lease_s
        self.places = WorkPlaces(self, self.crew, self.place, lease_s)
        handlers: dict[str, Handle] = {"perform": self.crew.perform, "wake": self.wakes.wake}
        handlers |= {"hand_up": self.hand_up, "end_child": self.end_child, "pass_place_on": self.pass_place_on}
        self.queue = JobQueue(database, handlers, self.crew.head_start.begin, slots, queues, self.place)

    async def __aenter__(self) -> Self:
        """Open the journal; what was left at work is taken up by `recover`, and by any worker that goes on."""
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()
        self._since = self._loop.time()
        self._tidy_at = self._since + TIDY_S
        await self.database.aside(self._open)
        self.own(self.hear_others())
        if self._people is not None:
            self.own(self._keep_people())
        return self

    async def _keep_people(self) -> None:
        """Hear of people that another machine has changed."""
        while not self.is_closing:
            await asyncio.sleep(SHARE_S)
            try:
                await self.ask(share_people, self.journal, self._people)
            except (*GONE, JournalError):
                continue  # the next round finds it

    async def change_people(self, change: Mapping[str, Any], *, by: By = "") -> dict[str, Any]:
        """Change who may do what, on every machine."""
        changed = await super().change_people(change, by=by)
        await self.ask(share_people, self.journal, self._people)
        return changed

    def _open(self) -> None:
        check_version(self.database)
        with told_plainly(self.database.name), self.database.connection() as connection, connection.transaction():
            self.journal.places = find_places(connection)
            self.reader.is_checked = True
            row = connection.execute("select extract(epoch from clock_timestamp())::float8").fetchone()
        self.set_clock(row[0] if row is not None else 0.0)
        with told_plainly(self.database.name), self.database.connection() as connection:
            share_people(connection, self.journal, self._people)
        self.admission.look(self.journal)

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        async with self.closing:
            await self.close()

    async def close(self, grace_s: float | None = None, *, is_hurried: bool = False) -> None:
        """Take no more work, let what is under way finish for a while, and let go."""
        if self.is_closing:
            return
        grace_s = self._grace_s if grace_s is None or is_hurried else grace_s
        self.crew.is_closing = True
        self.wakes.close()
        await self.queue.close(grace_s)
        await self.outbox.close(grace_s if grace_s != float("inf") else self.outbox_grace_s)
        self.is_closing = True
        self.hints.close()
        self.reader.be_told_no_more()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._is_reader_ours:
            self.reader.close()
            await asyncio.to_thread(self.database.close)

    # what the verbs stand on

    async def _find(self, run_id: str) -> LoadedRun | None:
        async with self.take_turn(run_id):
            try:
                return await self.look(run_id)
            except Unknown:
                return None

    async def _begin(self, live: LoadedRun, event: Started) -> Run:
        run_id = live.run.id
        async with self.take_turn(run_id):
            try:
                folded = await self._fold(run_id, lambda _: (event,), live, live.machine)
            except psycopg.errors.UniqueViolation:
                return (await self.look(run_id)).run  # somebody else has begun it in this moment
        return folded.live.run

    async def _tell(self, live: LoadedRun, event: Event, machine: Machine | None = None) -> Run:
        if live.run.source and getattr(event, "name", "") != CANCEL:
            self.check_agent(live)

        def make(moment: Moment) -> Sequence[Event]:
            if event.id and moment.journal.has_event(moment.live.no, event.id):
                return ()
            if machine is not None:
                moment.live.machine = machine
            return (event,)

        return await self.fold(live, make, machine=machine)

    async def _answer(self, run_id: str, contract_id: str, answer: Mapping[str, Any], id: str, who: Identity) -> Run:
        """Answer what this process remembers a run to ask; what it would refuse on that ground is asked of the run."""
        known = self.recall(run_id)
        if known is not None:
            with suppress(WrongPresumption, Refused):
                return await self._answer_to(known, contract_id, answer, id, who)
        return await super()._answer(run_id, contract_id, answer, id, who)

    async def _has(self, live: LoadedRun, event_id: str) -> bool:
        async with self.take_turn(live.run.id):
            return await self.database.aside(self.journal.has_event, live.no, event_id)

    async def _on_disk(self, live: LoadedRun) -> Run:
        return live.run

    async def _ring_first(self, live: LoadedRun) -> bool:
        now = self.clock.now()
        if not any(c.status is Status.WAITING and 0 < c.expires_at <= now for c in live.run.contracts):
            return False
        await self.wakes.ring(live)
        return True

    def is_lingering(self, run_id: str, contract_id: str) -> bool:
        """Whether a call that was given up goes on here."""
        return self.crew.is_lingering(run_id, contract_id)

    async def all_written(self) -> None:
        """A verb returns when its event is committed: nothing is ever on its way."""

    async def write(self, batch: Batch) -> None:
        """Write what is no event of a run."""
        await self.ask(write_alone, batch, self.journal.places)

    def submit(self, batch: Batch) -> None:
        """Write what belongs to no run; if that fails, it is only done again."""
        self.own(self.write(batch))

    async def forget(self, runs: Mapping[str, int]) -> None:
        """Remove ended runs, by id and number, from the journal and from memory."""
        batch = Batch(Nobody())
        batch.pruned = tuple((no,) for no in runs.values())
        await self.write(batch)
        for run_id in runs:
            self.drop(run_id)
        await self.database.aside(self.artefacts.let_go)

    # when a fold is committed

    def act(self, folded: Folded) -> None:
        """A fold is committed: stop what is to stop, set the timer, send messages, and let somebody work."""
        live, plan = folded.live, folded.plan
        for contract in plan.aborts:
            self.crew.abort(live.run.id, contract.id)
            question = contract.question
            if contract.status is Status.WAITING and question is not None and question.hears_no:
                effect = self.effect(live, contract.effect)
                if effect is not None and effect.withdraw is not None:
                    effect.withdraw(contract)
        if folded.wake_at is not None:
            self.wakes.set(live.run.id, folded.wake_at)
        if plan.batch.notes:
            self.outbox.post(plan.batch.notes)
        self.work()

    def work(self) -> None:
        """Take jobs from now on, unless this process leaves them to others."""
        if self.is_working and not self._is_at_it and not self.crew.is_closing:
            self._is_at_it = True
            self.queue.start()
            self.own(self.sweep.run(self._tend, self.crew.take_up_left))

    async def _tend(self) -> None:
        await self.places.tend()
        if self._loop.time() >= self._tidy_at:
            self._tidy_at = self._loop.time() + TIDY_S
            await self.stop_left()  # the word that one is to stop may have been lost
            await self.tidy()

    async def tidy(self, patience_s: float = GROUP_PATIENCE_S) -> None:
        """Do for processes that have died what they would have done next; who lives is given some time for it."""
        now = self.clock.now()
        try:
            await reconcile(self, now, patience_s, self.entering)
            self.outbox.post([note for note in await self.ask_notes() if not note.tries and note.at < now - UNTRIED_S])
        except Refused as error:
            self.report("", error)

    async def ask_notes(self) -> Sequence[Note]:
        """The messages that are not delivered yet."""
        return await self.database.aside(self.journal.notes)

    def stop_effect(self, run_id: str, contract_id: str) -> None:
        """Stop a contract's effect, if it is under way here."""
        self.crew.abort(run_id, contract_id)

    async def stop_left(self) -> None:
        """Stop the effects here that nobody wants any more."""
        for run_id, contract_id in self.crew.list_under_way():
            contract = (await self.look(run_id)).run.contract(contract_id)
            if contract is None or contract.status is not Status.RUNNING or contract.is_adrift:
                self.crew.abort(run_id, contract_id)

    async def pass_place_on(self, run_id: str) -> None:
        """A run of a group has ended: the next one has its place."""
        await self.leave_group((await self.surely(lambda: self.look(run_id))).run)

    async def hand_up(self, run_id: str) -> None:
        """A child run has ended: give its parent what came of it."""
        try:
            child = (await self.surely(lambda: self.look(run_id))).run
            parent_id, _, contract_id = child.parent.partition(" ")
            above = await self.surely(lambda: self.look(parent_id))
        except DetentError:
            return  # the parent is gone or damaged; the child's own record stands
        if child.ended is None:
            return
        result, error = describe_end(child)

        def make(moment: Moment) -> Sequence[Event]:
            contract = awaiting(moment.live.run, run_id, contract_id)
            if contract is None or contract.status is not Status.WAITING:
                return ()
            at = self.clock.now()
            return (ContractMoved(contract.id, "resume", result=result, error=error, actor="child", at=at),)

        try:
            await self.fold(above, make, patience_s=float("inf"))
        except DetentError as problem:
            self.report(parent_id, problem)

    async def end_child(self, run_id: str) -> None:
        """A contract was stopped that had begun this run."""
        try:
            await self.surely(lambda: self.cancel(run_id, by=Identity("parent", "detent")))
        except (Refused, NotWaiting):
            return  # it has ended already, or never began

    # beside the verbs

    async def list(
        self, *, status: Sequence[Status] = (), name: str = "", limit: int = 100, before: int = 0
    ) -> Sequence[Summary]:
        """The runs, newest first."""
        query = Query(status=tuple(status), name=name, limit=limit, before=before)
        return (await self.database.aside(self.reader.list, query)).runs

    async def settled(self, run_id: str) -> Run:
        """Return when the run has ended or can only be moved from outside."""
        self.work()
        with self.reader.following(run_id), self.reader.tail.watch(run_id) as watched:
            while True:
                rung = watched.bell.take()
                run = (await self.look(run_id)).run
                if run.status is not Status.RUNNING or await self._is_stranded(run):
                    return run
                with suppress(TimeoutError):
                    await asyncio.wait_for(rung.wait(), PATIENCE_S)

    async def _is_stranded(self, run: Run) -> bool:
        """Whether nothing of a run goes on until another worker comes."""
        at_work = {one.id for one in run.contracts if one.status is Status.RUNNING}
        is_early = run.at > self.clock.now() - PATIENCE_S or self._loop.time() < self._since + PATIENCE_S
        if not at_work or is_early:
            return False
        found = await self.database.aside(self.reader.list_unserved, run.id)
        return at_work <= {one.contract_id for one in found}

    async def probe(self, run_id: str, contract_id: str) -> bool:
        """Ask the effect itself whether a deed in doubt happened; whether that settled it."""
        return await self.crew.probe(run_id, contract_id)

    async def repair_claims(self) -> tuple[str, ...]:
        """Write the claims anew where they are not what the events say; what was wrong, as sentences."""
        found = await self.database.aside(differences, self.journal)
        if found:
            batch = Batch(Nobody())
            repair(batch, found, await self.database.aside(right_holders, self.journal, found))
            await self.write(batch)
        return tuple(one.problem for one in found)

    async def recover(self, run_id: str = "") -> tuple[str, ...]:
        """Take up what dead workers have left, all of it or one run's family; the runs that had something to do."""
        taken_up = await take_up(self, self.crew, self.wakes, self.hand_up, run_id)
        await reconcile(self, self.clock.now(), GROUP_PATIENCE_S, self.entering)
        self.work()
        self.outbox.load()
        return taken_up

    async def succeed(self) -> None:
        """Every process moves runs: there is nobody to wait for."""

    def has_heard(self, run_id: str, event_id: str) -> bool:
        """Whether the run has an event of that id."""
        return self.journal.has_event(self.load(run_id).no, event_id)

    def overhear(self, run_id: str, hear: Hear) -> Callable[[], None]:
        """Hear what the run's effects say that are at work in this process."""
        return self.onlookers.add(run_id, hear)

    def hear_all(self, ear: Pass) -> None:
        """Hear what the effects of every run say that are at work in this process."""
        self.onlookers.ear = ear

    def overheard(self, run_id: str, contract_id: str, data: Mapping[str, Any]) -> None:
        """An effect said something: pass it on; from another thread it is passed on in the loop."""
        if not self.onlookers:
            return
        if threading.get_ident() != self._thread:
            self._loop.call_soon_threadsafe(self.overheard, run_id, contract_id, data)
            return
        self.onlookers.tell(run_id, contract_id, data, is_last=contract_id not in self.crew.list_at_work(run_id))

    def at_work(self, run_id: str) -> tuple[str, ...]:
        """The contracts of a run whose effects are under way in this process."""
        return self.crew.list_at_work(run_id)
