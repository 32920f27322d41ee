"""For your own tests: scripted effects, virtual time, a simulated host, and crash-anywhere.

The host under test is the real one on a real SQLite file; only time, the outside world and the moment of death are
made up. Time jumps to the next alarm as soon as nothing else can happen, so a week of waiting takes no time at all.

    world = World(seed=7)
    pay = world.effect("bank.pay", kind="irreversible")
    report = crash_anywhere(Story(MACHINE, input={...}), world_factory)
"""

import asyncio
import random
import selectors
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from detent.core.contract import Contract
from detent.core.deed import Effect, EffectFailed, Kind, Outcome, OutcomeUnknown, effect
from detent.core.machine import Machine
from detent.core.run import Run
from detent.core.status import Status
from detent.errors import Refused
from detent.host.embedded.clock import Alarm
from detent.host.embedded.host import EmbeddedHost
from detent.host.embedded.journal import Batch, Journal
from detent.host.embedded.reader import verify
from detent.host.embedded.writer import Done, InlineWriter

T = TypeVar("T")
EPOCH = 1_700_000_000.0
ROUNDS_MAX = 200


class Stuck(AssertionError):
    """Nothing can ever happen again, and the story is not over."""


class _JumpingSelector(selectors.DefaultSelector):
    """Instead of waiting for the next alarm, moves the clock there."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None:
            raise Stuck("nothing is scheduled and nobody can act any more")
        self.now += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop in which waiting takes no time."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)
        self.slow_callback_duration = 1e9

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._jumping.now


class VirtualClock:
    """The clock of a virtual loop, as hosts want it."""

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


def simulate(story: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in virtual time; raises Stuck where real time would wait for ever."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(story)


class Deed(NamedTuple):
    """Something an effect did to the outside world."""

    effect: str
    key: str
    input: dict[str, Any]
    result: Any


class _MortalWriter(InlineWriter):
    """A writer that can die before or after a write, as a process can."""

    def __init__(self, journal: Journal, world: "World") -> None:
        super().__init__(journal)
        self._world = world

    def submit(self, batch: Batch, done: Done) -> None:
        world = self._world
        if world.is_dead or world.may_die("before a write"):
            return
        super().submit(batch, _unless_dead(world, done))
        world.may_die("after a write")


def _unless_dead(world: "World", done: Done) -> Done:
    return lambda error: None if world.is_dead else done(error)


class World:
    """The made-up outside: what effects did, what they will answer, and when the process dies.

    `points` counts the moments at which death was possible; `die_at` is the set of those at which it comes.
    """

    def __init__(
        self, home: Path | None = None, *, seed: int = 0, die_at: Sequence[int] = (), is_clumsy: bool = False
    ) -> None:
        self.is_clumsy = is_clumsy
        self._is_own = home is None
        self.home = home or Path(tempfile.mkdtemp(prefix="detent-world-"))
        self.random = random.Random(seed)
        self.effects: dict[str, Effect] = {}
        self.deeds: list[Deed] = []
        self.calls: list[Contract] = []
        self.answers: list[tuple[str, dict[str, Any]]] = []
        self.acknowledged: dict[str, int] = {}
        self.points = 0
        self.moments: list[str] = []
        self.die_at = frozenset(die_at)
        self.is_dead = False
        self._death: asyncio.Future[None] | None = None
        self._epoch = EPOCH

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
        """Make an effect that answers from a list (the last repeats): a result, an exception, or "hang"."""
        count = 0

        async def perform(contract: Contract) -> Outcome:
            nonlocal count
            self.calls.append(contract)
            answer = answers[min(count, len(answers) - 1)]
            count += 1
            await self._alive(f"{name} begins")
            if delay_s:
                await asyncio.sleep(self.random.uniform(0, delay_s))
            if answer == "hang":
                await asyncio.get_running_loop().create_future()
            if isinstance(answer, Exception):
                if isinstance(answer, OutcomeUnknown):
                    self._do(name, contract, None)
                raise answer
            self._do(name, contract, answer)
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

    def done(self, key: str) -> list[Deed]:
        """What was done under a key."""
        return [deed for deed in self.deeds if deed.key == key]

    def _do(self, name: str, contract: Contract, result: Any) -> None:
        plain = result.result if isinstance(result, Outcome) else result
        self.deeds.append(Deed(name, contract.key, contract.input, plain))

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
    async def host(self) -> Any:
        """The real embedded host in this world; leaving the block closes it unless it died."""
        self.is_dead = False
        self._death = asyncio.get_running_loop().create_future()
        host = _MortalHost(self)
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


class _MortalHost(EmbeddedHost):
    """The embedded host with a writer that can die."""

    def __init__(self, world: World) -> None:
        super().__init__(world.home, world.effects, clock=VirtualClock(), sync="off", is_inline=True)
        self._world = world

    async def __aenter__(self) -> "_MortalHost":
        await super().__aenter__()
        self._writer = _MortalWriter(self._written, self._world)
        return self

    async def vanish(self) -> None:
        """Go as SIGKILL goes: nothing more is written, nothing is tidied up but the simulation's own tasks."""
        self.is_closing = True
        self.timers.close()
        tasks = [task for live in self.all_live() for task in live.tasks.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._tasks.__aexit__(None, None, None)
        self.let_go()


Operator = Callable[[World, Run, Contract], Mapping[str, Any] | None]


def honest(world: World, _run: Run, contract: Contract) -> Mapping[str, Any]:
    """An operator who approves, and who looks before saying whether something happened."""
    if contract.question is None or contract.question.reason != "outcome_unknown":
        return {"approved": True, "by": "operator"}
    done = world.done(contract.key)
    if done:
        return {"outcome": "happened", "result": done[-1].result, "by": "operator"}
    return {"outcome": "not_happened", "by": "operator"}


class Story(NamedTuple):
    """A run to tell again and again: a machine, what it is given, and who answers it."""

    machine: Machine
    input: Mapping[str, Any] = {}
    operator: Operator = honest
    signals: Sequence[tuple[str, Mapping[str, Any]]] = ()
    run_id: str = "story"


async def tell(world: World, story: Story) -> Run:
    """Tell a story to its end, rising again after every death."""
    return (await tell_all(world, [story]))[0]


async def tell_all(world: World, stories: Sequence[Story]) -> list[Run]:
    """Tell several stories at the same time on one journal."""
    for _ in range(ROUNDS_MAX):
        async with world.host() as host:
            runs = await world.unless_dead(_live(world, host, stories))
            if runs is not None:
                return runs
    raise Stuck(f"the stories did not end in {ROUNDS_MAX} lives")


async def _live(world: World, host: EmbeddedHost, stories: Sequence[Story]) -> list[Run]:
    for story in stories:
        _acknowledge(world, await host.start(story.machine, story.input, run_id=story.run_id))
    await host.recover()
    return list(await asyncio.gather(*(_tell_on(world, host, story) for story in stories)))


async def _tell_on(world: World, host: EmbeddedHost, story: Story) -> Run:
    for number, (name, data) in enumerate(story.signals):
        run = await host.settled(story.run_id)
        if run.ended is None and (name in story.machine.accepts(run.state) or name in story.machine.keeps):
            _acknowledge(world, await host.signal(run.id, name, data, id=f"signal-{number}"))
    for _ in range(ROUNDS_MAX):
        run = await host.settled(story.run_id)
        if run.ended is not None:
            return run
        if not await _answer_one(world, host, story, run):
            if not run.wake_at:
                raise Stuck(f"run {run.id} waits in `{run.state}` and nobody answers")
            await asyncio.sleep(max(0.0, run.wake_at - host.clock.now()) + 0.001)
    raise Stuck(f"run {story.run_id} did not end")


async def _answer_one(world: World, host: EmbeddedHost, story: Story, run: Run) -> bool:
    """Answer one open question; a clumsy operator says everything twice at once, and only one may count."""
    for contract in run.waiting:
        said = story.operator(world, run, contract)
        if said is None:
            continue
        world.answers.append((contract.id, dict(said)))
        times = 2 if world.is_clumsy else 1
        heard = await asyncio.gather(
            *(host.answer(run.id, contract.id, said) for _ in range(times)), return_exceptions=True
        )
        accepted = [run for run in heard if isinstance(run, Run)]
        late = all(isinstance(one, Refused) for one in heard)  # it expired or was withdrawn in the same moment
        if len(accepted) != 1 and not late and contract.question is not None and contract.question.quorum == 1:
            raise AssertionError(f"{contract.id} took {len(accepted)} of {times} answers: {heard}")
        for after in accepted:
            _acknowledge(world, after)
        return True
    return False


def _acknowledge(world: World, run: Run) -> None:
    world.acknowledged[run.id] = max(run.seq, world.acknowledged.get(run.id, 0))


def assert_laws(world: World, run: Run) -> None:
    """What must hold of any ended run, however often the process died."""
    assert run.ended is not None, f"{run.id} has not ended"
    assert not run.contracts, f"{run.id} has ended with {run.contracts[0].id} open"
    assert not run.wake_at, f"{run.id} has ended and still wants to be woken"
    journal = Journal(world.home / "journal.db")
    try:
        proof = verify(journal, run.id)
        assert not proof.problem, proof.problem
        assert proof.events >= world.acknowledged.get(run.id, 0), "an acknowledged event was lost"
    finally:
        journal.close()
    wanted = {contract.key for contract in world.calls if contract.is_irreversible}
    said_no = sum(1 for _, answer in world.answers if answer.get("outcome") == "not_happened")
    for key in wanted:
        times = len(world.done(key))
        assert times <= 1, f"{key} was done {times} times (operator said {said_no} times that it had not happened)"


class Report(NamedTuple):
    """What crash-anywhere did."""

    points: int
    lives: int
    undisturbed: Run


def crash_anywhere(
    story: Story, make_world: Callable[[], World], check: Callable[[World, Run], None] | None = None
) -> Report:
    """Tell a story, then again with a death at every write and inside every effect, asserting the laws each time."""

    def once(die_at: Sequence[int]) -> tuple[World, Run]:
        world = make_world()
        world.die_at = frozenset(die_at)
        try:
            run = simulate(tell(world, story))
            assert_laws(world, run)
            if check is not None:
                check(world, run)
        except BaseException as error:
            error.add_note(
                f"died at {sorted(die_at)}: {[world.moments[i - 1] for i in sorted(die_at) if i <= world.points]}"
            )
            raise
        finally:
            world.close()
        return world, run

    world, undisturbed = once(())
    for point in range(1, world.points + 1):
        once((point,))
    return Report(world.points, world.points + 1, undisturbed)


def is_settled(run: Run) -> bool:
    """Whether only somebody outside can move the run."""
    return run.status is not Status.RUNNING
