"""The made-up world around a real host: virtual time, scripted effects, and the moment of death."""

import asyncio
import os
import random
import selectors
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from detent.core.contract import Contract
from detent.core.effect_type import (
    Effect,
    EffectFailed,
    Kind,
    Outcome,
    OutcomeUnknown,
    PartialFailure,
    StillRunning,
    effect,
)
from detent.core.policy import Policy
from detent.core.run import Run
from detent.core.status import Status
from detent.host.embedded.host import EmbeddedHost
from detent.host.embedded.journal import Journal
from detent.host.embedded.writer import Done, InlineWriter
from detent.host.parts.clock import Alarm
from detent.host.parts.journal_query import Batch
from detent.host.parts.loaded_run import LoadedRun
from detent.host.parts.secret_box import SecretFolder
from detent.kit.people_file import PeopleFile

T = TypeVar("T")
EPOCH = 1_700_000_000.0
ROUNDS = 100_000_000  # of the loop, after which a simulation counts as endless
MEMORY = "/dev/shm"  # noqa: S108 - folders in it are made by mkdtemp
MEMORY_FREE = 1 << 28
TURNS = 10  # of the loop, for whatever is ready to go on


# How a call may end after its deed is done; none of them says that it was not.
FAILURES: dict[str, Callable[[], BaseException]] = {
    "RuntimeError": lambda: RuntimeError("the answer cannot be read"),
    "KeyError": lambda: KeyError("id"),
    "TimeoutError": TimeoutError,
    "ConnectionResetError": ConnectionResetError,
    "ConnectionRefusedError": ConnectionRefusedError,
    "OSError": lambda: OSError(28, "no space left on device"),
    "SystemExit": lambda: SystemExit(1),
    "GeneratorExit": GeneratorExit,
    "CancelledError": asyncio.CancelledError,
    "OutcomeUnknown": lambda: OutcomeUnknown("no answer"),
    "PartialFailure": lambda: PartialFailure("it ended with an error"),
}
WAYS_TO_FAIL = (*FAILURES, "hang", "late")
"""The ways in which a scripted effect can fail: every kind of exception, `hang` (it never answers) and `late` (it
answers long after the host gave up on it)."""
LATE_S = 1.0


async def _late(answer: Any) -> Any:
    await asyncio.sleep(LATE_S)
    return answer


class Stuck(AssertionError):
    """Raised when nothing can ever happen again and the test is not over: a run waits and nobody answers."""


class _JumpingSelector(selectors.DefaultSelector):
    """Instead of waiting for the next alarm, moves the clock there."""

    def __init__(self, rounds: int) -> None:
        super().__init__()
        self.now = 0.0
        self.quiet: asyncio.Future[None] | None = None  # whoever waits for the moment before the next jump
        self._left = rounds

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self._left -= 1
        if self._left == 0:  # once: what is tidied up afterwards needs rounds too
            raise Stuck("this goes on and on; does a loop have an end?")
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if self.quiet is not None:
            quiet, self.quiet = self.quiet, None
            if not quiet.done():
                quiet.set_result(None)
            return ready
        if timeout is None:
            raise Stuck("nothing is scheduled and nobody can act any more")
        self.now += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """An asyncio event loop in which waiting takes no time: the clock jumps to the next timer."""

    def __init__(self, rounds: int = ROUNDS) -> None:
        self._jumping = _JumpingSelector(rounds)
        super().__init__(self._jumping)
        self.slow_callback_duration = 1e9

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._jumping.now

    async def quiet(self) -> None:
        """Return when nothing more can happen unless time moves on."""
        self._jumping.quiet = self.create_future()
        await self._jumping.quiet


class VirtualClock:
    """The clock of a `VirtualLoop`, for a host: `EmbeddedHost(home, effects, clock=VirtualClock())`."""

    def __init__(self, epoch: float = EPOCH) -> None:
        self._epoch = epoch

    def now(self) -> float:
        """Seconds since the epoch, in virtual time."""
        return self._epoch + asyncio.get_running_loop().time()

    def call_at(self, at: float, callback: Callable[[], object]) -> Alarm:
        """Call back at that virtual time."""
        return asyncio.get_running_loop().call_later(max(0.0, at - self.now()), callback)

    async def sleep_until(self, at: float) -> None:
        """Return at that virtual time."""
        if at > self.now():
            await asyncio.sleep(at - self.now())


def simulate(story: Coroutine[Any, Any, T], rounds: int = ROUNDS) -> T:
    """Run a coroutine in virtual time, as `asyncio.run` does in real time; `Stuck` where it would wait for ever."""
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(rounds)) as runner:
        return runner.run(story)


class ScriptedDeed(NamedTuple):
    """One call that a scripted effect carried out: its name, key, input and result."""

    effect: str
    key: str
    input: dict[str, Any]
    result: Any


class _MortalWriter(InlineWriter):
    """A writer that can die before or after a write, as a process can."""

    def __init__(self, journal: Journal, world: "World") -> None:
        super().__init__(journal)
        self._world = world

    def submit(self, batch: Batch, done: Done, is_alone: bool = False) -> None:
        world = self._world
        if world.is_dead or world.may_die("before a write"):
            return
        super().submit(batch, _unless_dead(world, done), is_alone)
        world.may_die("after a write")


def _memory() -> str | None:
    """Where a folder is kept in memory: a made-up world ends with its process, so it needs no disk."""
    try:
        return MEMORY if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free >= MEMORY_FREE else None
    except OSError:
        return None


def _unless_dead(world: "World", done: Done) -> Done:
    return lambda error: None if world.is_dead else done(error)


class World:
    """The made-up outside: what effects did, what they will answer, and when the process dies.

    `points` counts the moments at which death was possible; `die_at` is the set of those at which it comes.
    """

    def __init__(
        self,
        home: Path | None = None,
        *,
        seed: int = 0,
        die_at: Sequence[int] = (),
        is_clumsy: bool = False,
        policy: Policy | None = None,
        is_steady: bool = False,
    ) -> None:
        self.policy = policy
        self.is_clumsy = is_clumsy
        self.is_steady = is_steady  # a call that a death cut off is answered as before when it is made again
        self._is_own = home is None
        self.home = home or Path(tempfile.mkdtemp(prefix="detent-world-", dir=_memory()))
        self.random = random.Random(seed)
        self.effects: dict[str, Effect] = {}
        self.deeds: list[ScriptedDeed] = []
        self.calls: list[Contract] = []
        self.answers: list[tuple[str, dict[str, Any]]] = []
        self.acknowledged: dict[str, int] = {}
        self.points = 0
        self.moments: list[str] = []
        self.die_at = frozenset(die_at)
        self.is_dead = False
        self.fail_after: dict[int, str] = {}  # by number of the call: how it fails although the deed is done
        self.hanging = 0  # calls that will never answer
        self.stirred = asyncio.Event()  # something was written, or a call has begun to hang
        self._given: dict[tuple[str, str], Any] = {}  # by call: the answer it got in this life
        self._owed: dict[tuple[str, str], Any] = {}  # answers of calls that a death may have cut off
        self._death: asyncio.Future[None] | None = None

    def close(self) -> None:
        """Remove the files."""
        if self._is_own:
            shutil.rmtree(self.home, ignore_errors=True)

    def __enter__(self) -> "World":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def effect(
        self,
        name: str,
        *,
        kind: Kind = "irreversible",
        answers: Sequence[Any] = ({},),
        delay_s: float = 0.0,
        timeout_s: float = 60.0,
        settle_s: float = 0.0,
        probe: bool = False,
    ) -> Effect:
        """Make an effect that answers from a list (the last repeats): a result, an exception, or "hang".

        `EffectFailed` means that nothing happened. Before any other exception the deed is done: the harder world.
        """
        count = 0

        async def perform(contract: Contract) -> Outcome:
            nonlocal count
            call = contract.id, contract.key
            if call in self._owed:
                answer = self._owed.pop(call)
            else:
                self.calls.append(contract)
                answer = answers[min(count, len(answers) - 1)]
                count += 1
            self._given[call] = answer
            await self._alive(f"{name} begins")
            if delay_s:
                await asyncio.sleep(self.random.uniform(0, delay_s))
            if answer == "hang":
                await self._hang()
            if isinstance(answer, BaseException):
                if not isinstance(answer, EffectFailed):  # the one word that says nothing happened
                    self._do(name, contract, None)
                raise answer
            self._do(name, contract, answer)
            await self._fail_after(contract, answer)
            await self._alive(f"{name} is done")
            return answer if isinstance(answer, Outcome) else Outcome(answer)

        async def reconcile(contract: Contract) -> Outcome | None:
            done = self.done(contract.key)
            if not done:
                raise EffectFailed("the world has not felt it")
            return Outcome(done[-1].result)

        declare = effect(
            name, kind=kind, timeout_s=timeout_s, settle_s=settle_s, reconcile=reconcile if probe else None
        )
        self.effects[name] = declare(perform)
        return self.effects[name]

    async def _fail_after(self, contract: Contract, answer: Any) -> None:
        """Fail after the deed, if that is what this call is to do."""
        how = self.fail_after.get(len(self.calls))
        if how is None or contract is not self.calls[-1]:
            return
        if how == "hang":
            await self._hang()
        if how == "late":
            raise StillRunning("it goes on by itself", _late(answer))
        raise FAILURES[how]()

    def owed(self, contract: Contract) -> Any:
        """The answer of a call that a death may have cut off, if it had one."""
        return self._owed.get((contract.id, contract.key))

    def forgive(self) -> None:
        """Let the next life be a world of its own: a call made again gets the next answer."""
        self._owed, self._given = {}, {}

    async def _hang(self) -> None:
        self.hanging += 1
        self.stirred.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self.hanging -= 1

    def done(self, key: str) -> list[ScriptedDeed]:
        """What was done under a key."""
        return [deed for deed in self.deeds if deed.key == key]

    def _do(self, name: str, contract: Contract, result: Any) -> None:
        plain = result.result if isinstance(result, Outcome) else result
        self.deeds.append(ScriptedDeed(name, contract.key, contract.input, plain))

    async def _alive(self, moment: str) -> None:
        """A moment at which the process may die; the dead go no further."""
        if self.is_dead or self.may_die(moment):
            await asyncio.get_running_loop().create_future()

    def may_die(self, moment: str) -> bool:
        """Count a moment; whether the process dies at it."""
        self.points += 1
        self.moments.append(moment)
        if self.points in self.die_at and not self.is_dead:
            self.is_dead = True
            if self._death is not None and not self._death.done():
                self._death.set_result(None)
        return self.is_dead

    @asynccontextmanager
    async def host(self) -> AsyncIterator["MortalHost"]:
        """The real embedded host in this world; leaving the block closes it unless it died."""
        self.is_dead = False
        self._owed, self._given = {**self._owed, **self._given} if self.is_steady else {}, {}
        self._death = asyncio.get_running_loop().create_future()
        host = MortalHost(self)
        await host.__aenter__()
        try:
            yield host
        finally:
            if self.is_dead:
                await host.vanish()
            else:
                await host.close(0.0)

    async def unless_dead(self, work: Awaitable[T]) -> T | None:
        """What the work gives, or None if the process died over it."""
        task: asyncio.Future[T] = asyncio.ensure_future(work)
        either: list[asyncio.Future[Any]] = [task, *([self._death] if self._death is not None else [])]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if self.is_dead:
            task.cancel()
            await asyncio.wait([task])
            return None
        return task.result()


class MadeUpSecrets(SecretFolder):
    """Gives a run every secret that its input asks for: what is called here is made up as well."""

    def keep(self, run_id: str, given: Mapping[str, str], wanted: Iterable[str]) -> None:
        """Keep what was given, and something for the rest."""
        super().keep(run_id, {**{name: f"secret-{name}" for name in wanted}, **given}, ())


class MortalHost(EmbeddedHost):
    """The embedded host, which dies at the write or call that its `World` names; `World.host()` makes one."""

    def __init__(self, world: World) -> None:
        super().__init__(
            world.home,
            world.effects,
            clock=VirtualClock(),
            sync="off",
            is_inline=True,
            policy=world.policy,
            people=PeopleFile(world.home),
        )
        self._world = world
        self._owned: set[asyncio.Task[None]] = set()
        self.secret_box = MadeUpSecrets(world.home)

    def own(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Give a coroutine that belongs to no run an owner; it vanishes with the host."""
        task = super().own(work)
        self._owned.add(task)
        task.add_done_callback(self._owned.discard)
        return task

    async def __aenter__(self) -> "MortalHost":
        await super().__aenter__()
        self._writer = _MortalWriter(self._written, self._world)
        return self

    def effect(self, live: LoadedRun, name: str) -> Effect | None:
        """The effect of that name; one called `*` stands for every other."""
        return super().effect(live, name) or self.effects.get("*")

    def _after(self, live: LoadedRun, run: Run) -> None:
        super()._after(live, run)
        self._world.stirred.set()

    async def rest(self, *, is_patient: bool = True) -> None:
        """Return when only somebody outside can move any run; the impatient do not wait for calls that hang."""
        seen: list[tuple[str, int]] = []
        while True:
            self._world.stirred.clear()
            now = [(live.run.id, live.run.seq) for live in self.all_live()]
            if not self._is_resting(is_patient):
                await self._world.stirred.wait()
            elif now == seen:
                return
            else:  # what is ready to go on has its turn before it counts as rest
                seen = now
                for _ in range(TURNS):
                    await asyncio.sleep(0)

    def _is_resting(self, is_patient: bool) -> bool:
        lives = self.all_live()
        if any(live.unwritten for live in lives):
            return False
        busy = [live.run for live in lives if live.run.status is Status.RUNNING]
        at_work = [c for run in busy for c in run.contracts if c.status is not Status.WAITING]
        is_stuck = all(c.status is Status.RUNNING for c in at_work) and len(at_work) == self._world.hanging
        return not busy or (is_stuck and not is_patient)

    async def vanish(self) -> None:
        """Go as SIGKILL goes: nothing more is written, nothing is tidied up but the simulation's own tasks."""
        self.is_closing = True
        self.timers.close()
        self.outbox.stop()
        tasks = [*self._owned, *(task for live in self.all_live() for task in live.tasks.values())]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self.tasks.__aexit__(None, None, None)
        self.let_go()
