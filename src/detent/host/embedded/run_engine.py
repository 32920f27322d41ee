"""The engine room: fold, write, and only when the write is on disk, act.

`Drive.fold` is the only place where a run moves, and the only one that writes or acts.
"""

import asyncio
import threading
from abc import abstractmethod
from collections import OrderedDict, deque
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from detent.core.effect_type import Effect
from detent.core.events import CANCEL, Event, Signalled
from detent.core.machine import Machine
from detent.core.policy import Policy
from detent.core.progress import Hear
from detent.core.run import Run
from detent.core.status import Status
from detent.errors import JournalError, Refused
from detent.host.embedded.after_commit import Aftermath, settle_future
from detent.host.embedded.artefact_folder import ArtefactFolder
from detent.host.embedded.contract_executor import Attempts
from detent.host.embedded.journal import Journal
from detent.host.embedded.journal_marker import Marking, find_journal
from detent.host.embedded.journal_reader import JournalReader
from detent.host.embedded.lock import Lock, holder
from detent.host.embedded.timer import Timers
from detent.host.embedded.writer import InlineWriter, Writer, flush
from detent.host.parts.admission import Admission
from detent.host.parts.call_precaution import describe_ground
from detent.host.parts.clock import Clock, SystemClock
from detent.host.parts.fold import FoldRoom
from detent.host.parts.idempotency_claim import Claims
from detent.host.parts.journal_query import Batch, Nobody
from detent.host.parts.loaded_run import LoadedRun, ResidentRun, drop_ended, load, may_trail
from detent.host.parts.outbox import Outbox
from detent.host.parts.progress_listener import Onlookers
from detent.host.parts.projector import ProjectionRow
from detent.host.parts.restore_gap import open_gap
from detent.host.parts.secret_box import SecretFolder
from detent.host.people import PeopleSource
from detent.host.policy_check import Rulings
from detent.host.port import FindEffects
from detent.redaction import ambient_redactor

LIVE_MAX = 2000
SECRETS_GO = (Status.COMPLETED, Status.CANCELLED)  # others can be tried again


class Drive(FoldRoom):
    """Every run of one journal, and what each of them has under way."""

    attempts: Attempts  # set by the host, whose verbs child runs need

    if TYPE_CHECKING:  # one of the host's verbs

        async def take_slots(self, run_id: str) -> None:
            """Tell a run when those of its calls may begin whose rate all runs share."""

    def __init__(  # noqa: PLR0913  # all but the first two have the right default
        self,
        home: Path,
        effects: Mapping[str, Effect] | Sequence[Effect] = (),
        *,
        clock: Clock | None = None,
        find_effects: FindEffects | None = None,
        sync: str = "full",
        is_inline: bool = False,
        live_max: int = LIVE_MAX,
        grace_s: float = 5.0,
        lock: Lock | None = None,
        policy: Policy | None = None,
        notify: str = "notify",
        reader: JournalReader | None = None,
        people: PeopleSource | None = None,
        guarded: Sequence[Path] = (),
    ) -> None:
        self.home, self.admission = home, Admission(people)
        self._guarded, self.ground = guarded, describe_ground(home, guarded)
        self.outbox, self.secret_box, self.artefacts = Outbox(self, notify), SecretFolder(home), ArtefactFolder(home)
        self.rulings = Rulings(policy, self.admission.people)
        self._lock = lock  # one that is held already; without it the host takes its own
        self.clock: Clock = clock or SystemClock()
        self.effects: Mapping[str, Effect] = (
            effects if isinstance(effects, Mapping) else {effect.name: effect for effect in effects}
        )
        self._find_effects, self._sync, self._is_inline = find_effects, sync, is_inline
        self._live_max, self._grace_s = live_max, grace_s
        self._live: OrderedDict[str, LoadedRun] = OrderedDict()
        self._ended: LoadedRun | None = None  # the latest that has ended
        self.onlookers = Onlookers(self.report)
        self.reader = reader or JournalReader(home, is_inline=is_inline)
        self._is_reader_ours, self._tail = reader is None, self.reader.tail
        self.problems: dict[str, str] = {}
        self.stopped: dict[str, str] = {}  # runs whose journal broke off, and why; until they are recovered
        self.is_closing = False

    async def __aenter__(self) -> Self:
        if self._lock is None:
            self._lock = Lock(self.home)
            if not self._lock.take():
                self._lock = None
                raise JournalError(f"process {holder(self.home).pid or '?'} is writing the journal in {self.home}")
        with ExitStack() as undone:
            undone.callback(self._lock.free)
            path = find_journal(self.home)
            self.ground = describe_ground(self.home, self._guarded)
            self._written = Journal(path, is_writer=True, sync=self._sync)
            undone.callback(self._written.close)
            self.journal = Journal(path)
            self._next_no = self.journal.next_no()
            gap = open_gap(self.journal)
            self._marking = Marking(
                self.home, self.journal.connection, self._written.sync, is_durable=self._sync == "full"
            )
            self.admission.look(self.journal)
            undone.pop_all()
        self._writer = InlineWriter(self._written) if self._is_inline else Writer(self._written)
        self.claims = Claims(lambda: self._written if self._writer.is_at_rest else self.journal)
        self.claims.gap = gap
        self.timers = Timers(self)
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()
        self.tasks = asyncio.TaskGroup()
        await self.tasks.__aenter__()
        self.reader.memory, self.reader.tail.is_fed = self, True
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self, grace_s: float | None = None) -> None:
        """Let what is at work finish for a while, write everything, and let go of the journal."""
        if self.is_closing:
            return
        try:
            await self.finish(grace_s)
        finally:
            self.let_go()

    async def finish(self, grace_s: float | None = None) -> None:
        """Let what is at work finish for a while and write everything; the journal stays ours until `let_go`."""
        self.is_closing = True
        self.timers.close()
        if self._is_reader_ours:
            self.reader.close()
        grace_s = self._grace_s if grace_s is None else grace_s
        try:
            await self.attempts.close(grace_s)
            await self.outbox.close(grace_s)
            await self.tasks.__aexit__(None, None, None)
        finally:
            await self._writer.close()

    def let_go(self) -> None:
        """Close the files and let others write."""
        self._written.sync()  # before a marker says how far it has come
        self.reader.memory, self.reader.tail.is_fed = None, False
        for part in (self._marking, self.journal, self._written):
            part.close()
        if self._lock is not None:
            self._lock.free()

    def _knows(self, live: LoadedRun, event_id: str) -> bool:
        return event_id in live.ids or self.journal.has_event(live.no, event_id)

    async def _on_disk(self, live: LoadedRun) -> Run:
        """The run as it stands now, when that is on disk."""
        run = live.run
        if live.unwritten:
            done: asyncio.Future[Run] = asyncio.get_running_loop().create_future()
            self._writer.submit(Batch(live), lambda error: settle_future(done, run, error))
            return await done
        return run

    async def all_written(self) -> None:
        """Return when everything handed to the writer so far is on disk, or has failed to get there."""
        await flush(self._writer)

    async def _tell(self, live: LoadedRun, event: Event, machine: Machine | None = None) -> Run:
        done: asyncio.Future[Run] = asyncio.get_running_loop().create_future()
        self.fold(live, event, done, machine)
        return await done

    def fold(
        self,
        live: LoadedRun,
        event: Event,
        done: "asyncio.Future[Run] | None" = None,
        machine: Machine | None = None,
        follow: Sequence[Event] = (),
    ) -> None:
        """Fold an event and what follows from it at once, hand it to the writer, and act when it is on disk."""
        if self.is_closing and not self.attempts.is_draining:
            raise JournalError("this host is closing")
        if live.is_broken:
            raise JournalError(f"an earlier event of run {live.run.id} could not be written")
        if live.effects is None and live.run.source and getattr(event, "name", "") != CANCEL:
            self.check_agent(live)
        batch = Batch(live, machine=machine)
        deeds = Aftermath(live, batch, host=self, done=done, run=live.run, machine=live.machine)
        try:
            is_followed = self._tail.is_attentive or live.run.id in self._tail.runs
            self._fold_all(deque((event, *follow)), deeds, is_followed)
        except BaseException as error:
            if batch.events:  # what is in memory is ahead of the disk, where it will never be
                self._stop(live, JournalError(f"run {live.run.id} could not go on: {error}"))
            raise
        if live.trails and live.effects:
            batch.is_trailing = may_trail(live, batch) and type(event) is not Signalled
        self._hand_over(live, batch, deeds)

    def set_timer(self, run_id: str, at: float) -> None:
        """Wake that run at that time; 0: no more."""
        self.timers.set(run_id, at)

    def _hand_over(self, live: LoadedRun, batch: Batch, deeds: Aftermath) -> None:
        run, done = live.run, deeds.done
        if batch.events:
            live.dispatched.update(deeds.performs)
            live.seal(batch)
            live.unwritten += 1
            deeds.run = run
            self._writer.submit(batch, deeds, done is None and self.attempts.is_idle)
        elif done is not None and live.unwritten:
            self._writer.submit(
                batch, lambda error: settle_future(done, run, error)
            )  # said before, but not yet on disk
        elif done is not None:
            done.set_result(run)

    def act_on_written(self, deeds: Aftermath, error: JournalError | None) -> None:
        """A batch is on disk, or failed to get there: act, and tell whoever waits for it."""
        live, batch, done = deeds.live, deeds.batch, deeds.done
        live.unwritten -= 1
        self._marking.count()
        if live.ids:
            live.ids.difference_update([row[2] for row in batch.events if row[2]])
        if error is not None:
            self._stop(live, error)
            if done is not None and not done.done():
                done.set_exception(error)
            return
        if batch.claims or batch.freed or batch.fates:
            self.claims.wrote(batch)
        if batch.notes:
            self.outbox.post(batch.notes)
        live.kept = ResidentRun(deeds.run, batch.events[-1][4], deeds.machine)
        if done is not None and not done.done():
            done.set_result(deeds.run)  # first in the queue: whoever asked for it is answered before the onlookers
        if deeds.entries or self._tail.followers:
            self._tail.wrote(live.run.id, deeds.entries, live.kept)
        for contract in deeds.aborts:
            self.attempts.abort(live, contract)
        for contract_id in deeds.performs:
            self.attempts.begin(live, contract_id)
        self._after(live, deeds.run)

    def _after(self, live: LoadedRun, run: Run) -> None:
        """An event is on disk and acted upon: tell whoever is waiting for that."""
        if run.ended is not None:
            self._end(run)
        if live.waiters and not live.unwritten and live.run.status is not Status.RUNNING:
            for waiter in live.waiters:
                if not waiter.done():
                    waiter.set_result(None)
            live.waiters.clear()
        if live.run.ended is not None and not (live.unwritten or live.waiters or live.tasks):
            self._ended = drop_ended(self._live, self._ended, live)
        if len(self._live) > self._live_max:
            self._evict()

    def _end(self, run: Run) -> None:
        """A run has ended: its parent, its secrets and its group have waited for that."""
        if run.parent:
            self.attempts.hand_up(run)
        if run.ended in SECRETS_GO and self.secret_box.held:
            self.secret_box.drop([run.id])
        if run.group and not self.is_closing:
            self.own(self.pass_place_on(run))

    @abstractmethod
    async def pass_place_on(self, run: Run) -> None:
        """A run of a group has ended: let the next one go on."""

    def _stop(self, live: LoadedRun, error: JournalError) -> None:
        """The journal could not take an event of this run: forget what is only in memory; disk is the truth."""
        live.is_broken = True
        self.stopped[live.run.id] = str(error)
        if self._live.get(live.run.id) is live:
            del self._live[live.run.id]
        self.claims.forget(live.run.id)
        self.attempts.drop(live)
        for waiter in live.waiters:
            if not waiter.done():
                waiter.set_exception(error)
        live.waiters.clear()

    def _evict(self) -> None:
        """Waiting runs need not be in memory: drop the ones touched longest ago."""
        for run_id, live in tuple(self._live.items())[: max(1, self._live_max // 4)]:
            if live.tasks or live.unwritten or live.waiters:
                self._live.move_to_end(run_id)  # so that next time others are looked at
            else:
                del self._live[run_id]

    def load(self, run_id: str) -> LoadedRun:
        """The run, read from the journal if it is not in memory."""
        live = self._live.get(run_id)
        if live is None:
            live = load(self.journal, run_id)
            self._live[run_id] = live
        else:
            self._live.move_to_end(run_id)
        return live

    def live(self, run_id: str) -> LoadedRun | None:
        """The run, if it is in memory."""
        return self._live.get(run_id)

    def all_live(self) -> tuple[LoadedRun, ...]:
        """Every run in memory."""
        return tuple(self._live.values())

    async def forget(self, runs: Mapping[str, int]) -> None:
        """Remove ended runs, by id and number, from the journal and from memory."""
        batch = Batch(Nobody())
        batch.pruned = tuple((no,) for no in runs.values())
        await self.write(batch)
        for run_id in runs:
            self._live.pop(run_id, None)
            self._tail.forget(run_id)
        self.secret_box.drop(runs)
        if self._is_inline:
            self._let_go(runs)
        else:
            await asyncio.to_thread(self._let_go, runs)

    def _let_go(self, runs: Iterable[str]) -> None:
        """Remove the artefacts of runs that are gone, also of earlier ones if that was cut off."""
        self.artefacts.drop(runs)
        with self.reader.journal() as journal:
            self.artefacts.sweep(lambda run_id: journal.record(run_id) is not None)

    async def write(self, batch: Batch) -> None:
        """Write what is no event of a run; returns when it is on disk."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._writer.submit(batch, lambda error: settle_future(done, None, error))
        await done

    def overhear(self, run_id: str, hear: Hear) -> Callable[[], None]:
        """Hear what the run's effects say, until the returned function is called; `hear` must not wait."""
        return self.onlookers.add(run_id, hear)

    def find_resident(self, run_id: str) -> ResidentRun | None:
        """A run in memory, as it is on disk."""
        live = self._live.get(run_id)
        return None if live is None else live.kept

    def keep_projection(self, row: ProjectionRow) -> None:
        """Write what a projection has made; only a cache, so nobody waits for it. From any thread."""
        batch = Batch(Nobody())
        batch.projection = row
        if threading.get_ident() == self._thread:
            self.submit(batch)
        elif not self.is_closing:
            self._loop.call_soon_threadsafe(self.submit, batch)

    def overheard(self, run_id: str, contract_id: str, data: Mapping[str, Any]) -> None:
        """An effect said something: pass it on; from another thread it is passed on in the loop."""
        if not self.onlookers:
            return
        if threading.get_ident() != self._thread:
            self._loop.call_soon_threadsafe(self.overheard, run_id, contract_id, data)
            return
        self.onlookers.tell(run_id, contract_id, data, is_last=not self.attempts.is_under_way(run_id, contract_id))

    def report(self, run_id: str, error: Exception) -> None:
        """Something went wrong with one run while nobody was asking; the others go on."""
        self.problems[run_id] = ambient_redactor().hide_free(str(error))

    def spawn(self, live: LoadedRun, contract_id: str, work: Any) -> None:
        """Give a coroutine an owner."""
        live.tasks[contract_id] = self.tasks.create_task(work)

    def own(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Give a coroutine that belongs to no run an owner."""
        return self.tasks.create_task(work)

    def submit(self, batch: Batch) -> None:
        """Write what belongs to no run; if that fails, it is only done again."""
        self._writer.submit(batch, lambda _: None)

    def effect(self, live: LoadedRun, name: str) -> Effect | None:
        """The effect of that name: the run's own file first, then the host's."""
        if live.effects is None and live.run.source:
            with suppress(Refused):  # it is only stopped, or looked at
                self.equip(live)
        return (live.effects and live.effects.get(name)) or self.effects.get(name)

    def find_effects_of(self, source: str) -> dict[str, Effect] | None:
        """The effects that a definition's source brings."""
        return dict(self._find_effects(source)) if self._find_effects else None

    def equip(self, live: LoadedRun) -> None:
        """Find the effects that a run's own file or agent brings."""
        if live.effects is None and live.run.source:
            live.effects = self.find_effects_of(live.run.source)

    def check_agent(self, live: LoadedRun) -> None:
        """Refuse to move a run whose agent is not here: it is left as it is."""
        try:
            self.equip(live)
        except Refused:
            raise
        except Exception:  # noqa: BLE001  # told when one of these effects is called for
            return
