"""Stories: a run told to its end by a scripted world, again and again, with a death at every moment."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from detent.core.contract import Contract
from detent.core.machine import Machine
from detent.core.question import Question
from detent.core.retry import obstacle
from detent.core.run import Run
from detent.core.status import Status
from detent.errors import Refused
from detent.host.embedded.host import EmbeddedHost
from detent.host.embedded.journal import Journal
from detent.host.parts.replay import verify
from detent.testing.world import WAYS_TO_FAIL, Stuck, VirtualClock, World, simulate

ROUNDS_MAX = 200
NEVER: Mapping[int, str] = {}

Operator = Callable[[World, Run, Contract], Mapping[str, Any] | None]
"""Whoever answers questions in a story: takes the world, the run and the waiting contract, and gives an answer, or None
to leave the question open for now."""


def honest(world: World, _run: Run, contract: Contract) -> Mapping[str, Any] | None:
    """The default operator: approves what is asked, takes the earlier result of a repeated call, and answers a doubt by
    looking at what the world really did.
    """
    question, done = contract.question or Question(), world.done(contract.key)
    if question.reason != "outcome_unknown":
        is_repeat = bool(question.earlier) and bool(done)
        return {"outcome": "use", "by": "operator"} if is_repeat else {"approved": True, "by": "operator"}
    if done:
        return {"outcome": "happened", "result": done[-1].result, "by": "operator"}
    if question.data.get("lands_until", 0.0) > VirtualClock().now():
        return None  # too early to say that it did not
    return {"outcome": "not_happened", "by": "operator"}


def lands_until(run: Run) -> float:
    """Until when a call that is in doubt may still land; 0: none is."""
    return min((c.question.data.get("lands_until", 0.0) for c in run.waiting if c.question is not None), default=0.0)


class Story(NamedTuple):
    """A run to play again and again: a machine, its input, the signals it gets and the operator who answers it."""

    machine: Machine
    input: Mapping[str, Any] = {}
    operator: Operator = honest
    signals: Sequence[tuple[str, Mapping[str, Any]]] = ()
    run_id: str = "story"
    retries: int = 0  # how often the run is tried again when it has failed


async def tell(world: World, story: Story) -> Run:
    """Play a story to its end, with a new host after every crash; returns the ended run."""
    return (await tell_all(world, [story]))[0]


async def tell_all(world: World, stories: Sequence[Story]) -> list[Run]:
    """Play several stories at the same time on one journal, to see what they do to each other."""
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
        if run.ended is not None and not await _try_again(world, host, story, run):
            return run
        if run.ended is None and not await _answer_one(world, host, story, run):
            until = run.wake_at or lands_until(run)
            if not until:
                raise Stuck(f"run {run.id} waits in `{run.state}` and nobody answers")
            await asyncio.sleep(max(0.0, until - host.clock.now()) + 0.001)
    raise Stuck(f"run {story.run_id} did not end")


async def _try_again(world: World, host: EmbeddedHost, story: Story, run: Run) -> bool:
    """Let a failed run go on, as often as the story says, however often the process has died meanwhile."""
    marks = [mark for number in range(story.retries) if not host.has_heard(run.id, mark := f"retry-{number}")]
    if not marks or obstacle(run):
        return False
    _acknowledge(world, await host.retry(run.id, by="operator", id=marks[0]))
    return True


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
    failures: int  # tellings in which a call failed after its deed was done


def _truthful(operator: Operator) -> Operator:
    """The same operator, who looks where a deed may have been done: stories are written for calls that work."""

    def answer(world: World, run: Run, contract: Contract) -> Mapping[str, Any] | None:
        question = contract.question
        is_doubt = question is not None and (question.reason == "outcome_unknown" or bool(question.earlier))
        return honest(world, run, contract) if is_doubt else operator(world, run, contract)

    return answer


def crash_anywhere(
    story: Story, make_world: Callable[[], World], check: Callable[[World, Run], None] | None = None
) -> Report:
    """Tell a story, then again with a death at every write and inside every effect, asserting the laws each time.

    And once more for every call and every way to fail after its deed is done: no exception, time-out or late answer may
    lead to a second deed. There the run may end otherwise, so only the laws are asserted, not `check`.
    """

    def once(story: Story, die_at: Sequence[int] = (), fail_after: Mapping[int, str] = NEVER) -> tuple[World, Run]:
        world = make_world()
        world.die_at = frozenset(die_at)
        world.fail_after = dict(fail_after)
        try:
            run = simulate(tell(world, story))
            assert_laws(world, run)
            if check is not None and not fail_after:
                check(world, run)
        except BaseException as error:
            moments = [world.moments[i - 1] for i in sorted(die_at) if i <= world.points]
            error.add_note(f"died at {sorted(die_at)}: {moments}; calls that failed after the deed: {fail_after}")
            raise
        finally:
            world.close()
        return world, run

    world, undisturbed = once(story)
    for point in range(1, world.points + 1):
        once(story, (point,))
    ways = [(number, how) for number in range(1, len(world.calls) + 1) for how in WAYS_TO_FAIL]
    for number, how in ways:
        once(story._replace(operator=_truthful(story.operator)), fail_after={number: how})
    return Report(world.points, world.points + 1, undisturbed, len(ways))


def is_settled(run: Run) -> bool:
    """Whether only somebody outside can move the run."""
    return run.status is not Status.RUNNING
