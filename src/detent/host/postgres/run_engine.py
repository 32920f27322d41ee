"""The engine room: fold in a transaction, and when that is committed, tell whoever waits and stop what is to stop."""

import asyncio
import threading
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import msgspec
import psycopg

from detent.core.effect_type import Effect
from detent.core.machine import Machine
from detent.core.progress import OffLimits
from detent.core.run import Run
from detent.errors import DetentError, JournalError, Refused, Unknown
from detent.host.parts.admission import Admission
from detent.host.parts.call_precaution import Precautions
from detent.host.parts.clock import Clock
from detent.host.parts.journal_query import Batch, genesis
from detent.host.parts.loaded_run import LoadedRun
from detent.host.parts.outbox import Outbox
from detent.host.parts.progress_listener import Onlookers
from detent.host.policy_check import Rulings
from detent.host.port import FindEffects
from detent.host.postgres.connection import GONE, Database, explain, is_gone, join_messages, told_plainly
from detent.host.postgres.database_clock import DatabaseClock
from detent.host.postgres.fold_transaction import CommitCut, Folded, Make, WrongPresumption, fold_run
from detent.host.postgres.job_queue import CHANNEL as JOBS
from detent.host.postgres.job_queue import JobQueue
from detent.host.postgres.journal import (
    NewEvents,
    Overtaken,
    PostgresJournal,
    ask_on,
    gather_new,
    take_claims,
    write_batch,
)
from detent.host.postgres.notification import ABORTED, Hint, HintSender
from detent.host.postgres.postgres_reader import OtherChannels, PostgresReader
from detent.host.postgres.remembered_run import NOTHING, Held, PresumedRun, bring_up, copy_run, is_likely
from detent.host.postgres.statement_batch import Statements
from detent.redaction import ambient_redactor

CACHE_MAX = 2000  # runs kept in memory
PATIENCE_S = 15.0  # how long a verb waits for a database that does not answer
TRIES_MAX = 50  # of a fold that somebody else overtakes
PAUSE_S, PAUSE_S_MAX = 0.05, 1.0
LOCKS_MAX = 10_000

Q = ParamSpec("Q")
R = TypeVar("R")


class PostgresRoom(Precautions):
    """What moves runs in one process; others do the same beside it."""

    admission: Admission
    clock: Clock
    database: Database
    effects: Mapping[str, Effect]
    ground: OffLimits
    home: Path
    is_own_time: bool
    is_working: bool
    on_silence: Callable[[], None]
    lease_s: float
    place: str
    hints: HintSender
    journal: PostgresJournal
    outbox: Outbox
    queue: JobQueue
    reader: PostgresReader
    rulings: Rulings

    def __init__(self, find_effects: FindEffects | None) -> None:
        self._find_effects = find_effects
        self.onlookers = Onlookers(self.report)
        self.problems: dict[str, str] = {}
        self._cache: OrderedDict[str, LoadedRun] = OrderedDict()
        self._cache_lock = threading.Lock()
        self._turns: OrderedDict[str, asyncio.Lock] = OrderedDict()
        self._sources: dict[str, dict[str, Effect]] = {}
        self.is_closing = False
        self._tasks: set[asyncio.Task[None]] = set()

    @abstractmethod
    def stop_effect(self, run_id: str, contract_id: str) -> None:
        """Stop a contract's effect, if it is under way here."""

    @abstractmethod
    async def stop_left(self) -> None:
        """Stop the effects here that nobody wants any more."""

    @abstractmethod
    def act(self, folded: Folded) -> None:
        """A fold is committed: do what only this process can do about it."""

    # runs

    def load(self, run_id: str, connection: psycopg.Connection | None = None) -> LoadedRun:
        """The run as it stands now; on a connection, where one is at hand."""
        journal = self.journal if connection is None else self.journal.inside(connection)
        with self._cache_lock:
            cached = self._cache.get(run_id)
        now = journal.read_on(run_id, 0 if cached is None else cached.run.seq)
        if now is None:
            raise Unknown(f"there is no run {run_id}")
        return self._bring_up(journal, run_id, now, cached)

    def load_all(self, run_ids: Sequence[str], connection: psycopg.Connection) -> list[LoadedRun | None]:
        """Several runs as they stand now, asked for in one message; None for one that is not there."""
        journal = self.journal.inside(connection)
        with self._cache_lock:
            known = [self._cache.get(run_id) for run_id in run_ids]
        with join_messages(connection, len(run_ids)):
            asked = [
                ask_on(connection, run_id, 0 if cached is None else cached.run.seq)
                for run_id, cached in zip(run_ids, known, strict=True)
            ]
        found = [gather_new(cursor.fetchall()) for cursor in asked]
        return [
            None if now is None else self._bring_up(journal, run_id, now, cached)
            for run_id, now, cached in zip(run_ids, found, known, strict=True)
        ]

    def _bring_up(self, journal: PostgresJournal, run_id: str, now: NewEvents, cached: LoadedRun | None) -> LoadedRun:
        live = bring_up(journal, run_id, now.no, now.seq, bytes(now.head), cached, now.found)
        self._keep(copy_run(live))
        return live

    def recall(self, run_id: str) -> PresumedRun | None:
        """A run as this process remembers it, where nobody else should have moved it since."""
        with self._cache_lock:
            cached = self._cache.get(run_id)
        if cached is None or not is_likely(cached, NOTHING):
            return None
        return PresumedRun(cached)

    async def look(self, run_id: str) -> LoadedRun:
        """The run as it stands now."""
        return await self.database.aside(self.load, run_id)

    async def surely(self, ask: Callable[[], Awaitable[R]]) -> R:
        """Ask until the database answers, however long it is away; for what must not be lost and may be asked twice."""
        pause_s = PAUSE_S
        while True:
            try:
                return await ask()
            except (*GONE, JournalError) as error:
                if self.is_closing or not is_gone(error):
                    raise
            await asyncio.sleep(pause_s)
            pause_s = min(PAUSE_S_MAX, 2 * pause_s)

    async def fetch(self, run_id: str) -> LoadedRun:
        """The run as it stands when everybody has had his turn who came before."""
        async with self.take_turn(run_id):
            return await self.look(run_id)

    def _keep(self, live: LoadedRun) -> None:
        with self._cache_lock:
            known = self._cache.get(live.run.id)
            if known is None or known.run.seq <= live.run.seq:
                self._cache[live.run.id] = live
                self._cache.move_to_end(live.run.id)
            while len(self._cache) > CACHE_MAX:
                self._cache.popitem(last=False)

    def drop(self, run_id: str) -> None:
        """Keep nothing of a run."""
        with self._cache_lock:
            self._cache.pop(run_id, None)

    # effects

    def find_effects_of(self, source: str) -> dict[str, Effect] | None:
        """The effects that a definition's source brings; looked for once."""
        if self._find_effects is None:
            return None
        if source not in self._sources:
            self._sources[source] = dict(self._find_effects(source))
        return self._sources[source]

    def forget_source(self, source: str) -> None:
        """Look anew for what a source brings: its file may have come meanwhile."""
        self._sources.pop(source, None)

    def effect(self, live: LoadedRun, name: str) -> Effect | None:
        """The effect of that name: the run's own file first, then the host's."""
        own: Mapping[str, Effect] = {}
        if live.run.source:
            try:
                own = self.find_effects_of(live.run.source) or {}
            except Exception:  # noqa: BLE001  # it is only stopped, or looked at; told when it is called for
                own = {}
        return own.get(name) or self.effects.get(name)

    def check_agent(self, live: LoadedRun) -> None:
        """Refuse to move a run whose agent is not here: it is left as it is."""
        try:
            self.find_effects_of(live.run.source)
        except Refused:
            raise
        except Exception:  # noqa: BLE001  # told when one of these effects is called for
            return

    # the fold

    @asynccontextmanager
    async def take_turn(self, run_id: str, patience_s: float = PATIENCE_S) -> AsyncIterator[None]:
        """Whoever comes first in this process goes first; who has a result to hand in may wait for the database."""
        turn = self._turns.get(run_id)
        if turn is None:
            turn = self._turns[run_id] = asyncio.Lock()
        try:
            async with asyncio.timeout(patience_s if turn.locked() and patience_s < float("inf") else None):
                await turn.acquire()
        except TimeoutError:
            raise JournalError(f"{self.database.name}: the database does not answer") from None
        try:
            yield
        finally:
            turn.release()
        if len(self._turns) > LOCKS_MAX:
            for one, unused in tuple(self._turns.items())[: LOCKS_MAX // 2]:
                if not unused.locked():
                    del self._turns[one]

    async def fold(
        self,
        live: LoadedRun,
        make: Make,
        *,
        machine: Machine | None = None,
        patience_s: float = PATIENCE_S,
        about: Held = NOTHING,
    ) -> Run:
        """Fold what `make` says while the run is locked; `live` is the run as it is then.

        Where it is about a contract, `make` learns in whose hands that is; `about` says in whose it should be. A
        `PresumedRun` is only moved if it is still as it was presumed to be; else it raises `WrongPresumption`.
        """
        async with self.take_turn(live.run.id, patience_s):
            head = live.head if isinstance(live, PresumedRun) else None
            folded = await self._fold(live.run.id, make, None, machine, patience_s, about, head)
        now = folded.live
        live.run, live.head, live.machine, live.no = now.run, now.head, now.machine, now.no
        return now.run

    async def _fold(
        self,
        run_id: str,
        make: Make,
        first: LoadedRun | None = None,
        machine: Machine | None = None,
        patience_s: float = PATIENCE_S,
        about: Held = NOTHING,
        head: bytes | None = None,
    ) -> Folded:
        """Fold until it is committed: anew where somebody was quicker, and when the database is back."""
        if self.is_closing:
            raise JournalError("this host is closing")
        loop = asyncio.get_running_loop()
        until, tries, pause_s = loop.time() + patience_s, 0, PAUSE_S
        while True:
            try:
                folded = await self.database.aside(self._fold_once, run_id, make, first, machine, about, head)
                break
            except (Overtaken, psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure):
                tries += 1
                if tries > TRIES_MAX:
                    raise JournalError(f"run {run_id} is overtaken again and again; try later") from None
            except CommitCut as cut:
                if await self._was_committed(cut, until):
                    folded = cut.folded
                    break
            except (*GONE, JournalError) as error:
                if not is_gone(error):
                    raise
                if loop.time() > until or self.is_closing:
                    raise JournalError(f"{self.database.name}: {explain(error.__cause__ or error)}") from None
            except psycopg.DataError as error:
                raise Refused(f"this cannot be kept: {explain(error)}") from None
            except psycopg.ProgrammingError as error:
                raise JournalError(f"{self.database.name}: {explain(error)}") from error
            await asyncio.sleep(pause_s)
            pause_s = min(PAUSE_S_MAX, 2 * pause_s)
        self._after(folded)
        return folded

    def _fold_once(
        self,
        run_id: str,
        make: Make,
        first: LoadedRun | None,
        machine: Machine | None,
        about: Held,
        head: bytes | None = None,
    ) -> Folded:
        with self._cache_lock:
            cached = self._cache.get(run_id)
        if head is not None and (cached is None or cached.head != head):
            raise WrongPresumption
        if first is not None:
            first = LoadedRun(0, first.machine, Run(id=run_id), genesis(run_id), is_new=True)
        elif cached is not None and is_likely(cached, about):
            with suppress(WrongPresumption, DetentError):  # what is wrong is said of the run as it is, never as it was
                return self._fold_as(run_id, make, first, machine, about, cached, about)
        if head is not None:
            raise WrongPresumption
        return self._fold_as(run_id, make, first, machine, about, cached)

    def _fold_as(  # one transaction needs to know all this
        self,
        run_id: str,
        make: Make,
        first: LoadedRun | None,
        machine: Machine | None,
        about: Held,
        cached: LoadedRun | None,
        presumed: Held | None = None,
    ) -> Folded:
        with self.database.connection() as connection:
            return fold_run(
                self, connection, self.journal, run_id, make, self.queue.put, self._tell_others,
                cached=cached, first=first, machine=machine, about=about[0], presumed=presumed,
            )  # fmt: skip

    def _tell_others(self, connection: psycopg.Connection, folded: Folded) -> bool:
        return self.hints.send_now(connection, _make_hint(folded))

    async def _was_committed(self, cut: CommitCut, until: float) -> bool:
        """Look up the last event of a commit that was cut off, before anything else is done about it."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                return await self.database.aside(self.journal.hash_at, cut.no, cut.seq) == cut.head
            except JournalError as error:
                if loop.time() > until or self.is_closing:
                    raise JournalError(f"nobody knows whether the last word was kept: {error}") from None
                await asyncio.sleep(PAUSE_S_MAX)

    def _after(self, folded: Folded) -> None:
        """A fold is committed: remember it, tell whoever follows, and act."""
        self.set_clock(folded.now)
        live, plan = folded.live, folded.plan
        if not plan.batch.events:
            return
        self._keep(copy_run(live))
        if plan.entries:
            self.reader.tail.wrote(live.run.id, plan.entries)
        else:
            self.reader.tail.note_moved(live.run.id)  # nobody followed when it was folded
        if folded.has_jobs:
            self.queue.wake_up()
        self.act(folded)
        if not folded.is_told and not self.is_closing:
            self.hints.add(_make_hint(folded))

    def set_clock(self, now: float) -> None:
        """What time it is at the database."""
        if isinstance(self.clock, DatabaseClock) and now:
            self.clock.set(now)

    # hints of other processes

    async def hear_others(self) -> None:
        """Hear what others have moved and which effects are to stop, for as long as this host is open."""
        self.reader.is_told = True
        hears: dict[str, Callable[[str], None]] = {ABORTED: self._hear_abort}
        if self.is_working:
            hears[JOBS] = lambda _: self.queue.wake_up()
        await self.reader.listen(lambda: not self.is_closing, OtherChannels(hears, self._catch_up, self._lose))

    def _lose(self) -> None:
        self.on_silence()

    async def _catch_up(self) -> None:
        self.queue.wake_up()
        await self.stop_left()

    def _hear_abort(self, payload: str) -> None:
        with suppress(ValueError):  # whoever may connect can say anything
            for run_id, contract_id in msgspec.json.decode(payload, type=list[tuple[str, str]]):
                self.stop_effect(run_id, contract_id)

    # what parts need

    async def ask(self, do: Callable[Concatenate[psycopg.Connection, Q], R], /, *args: Q.args, **given: Q.kwargs) -> R:
        """Do something on a connection of one's own, in a thread."""

        def with_connection() -> R:
            with told_plainly(self.database.name), self.database.connection() as connection:
                return do(connection, *args, **given)

        return await self.database.aside(with_connection)

    def own(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Give a coroutine an owner."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._disown)
        return task

    def _disown(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None and isinstance(error, Exception):
            self.report("", error)

    def report(self, run_id: str, error: Exception) -> None:
        """Something went wrong with one run while nobody was asking; the others go on."""
        self.problems[run_id] = ambient_redactor().hide_free(str(error))


def _make_hint(folded: Folded) -> Hint:
    run_id = folded.live.run.id
    return Hint((run_id,), [(run_id, contract.id) for contract in folded.plan.aborts], folded.has_jobs)


def write_alone(connection: psycopg.Connection, batch: Batch, places: int) -> None:
    """Write a batch that is about no run's events, in a transaction of its own."""
    with connection.transaction():
        take_claims(connection, batch)
        statements = Statements()
        write_batch(statements, batch, places)
        statements.send(connection)
