"""Death at every write and inside every effect, for the stories in which a crash could do the most harm."""

import asyncio

import pytest

from detent.core import Action, Branch, Machine, Question, Retry, Run, Status
from detent.core.machine import Wait
from detent.host.embedded import EmbeddedHost
from detent.testing import Story, World, assert_laws, crash_anywhere, honest, simulate
from detent.testing.conformance import ASKING, DOING, one, parent_of


def world() -> World:
    made = World(seed=1)
    made.effect("do", kind="irreversible", answers=({"ok": 1},), settle_s=5.0)
    made.effect("probed", kind="irreversible", answers=({"ok": 2},), settle_s=5.0, probe=True)
    made.effect("look", kind="idempotent", answers=({"seen": 3},))
    return made


def each(*actions: Action) -> Machine:
    """Three branches side by side."""
    return one(Action("all", "branches", branches=(Branch("b", actions),), each="{{ [1, 2, 3] }}"))


STORIES = {
    "pure work": Story(one(Action("a", "look"), Action("b", "look"), Action("c", "do", {"n": 1}))),
    "a probe": Story(one(Action("a", "probed", {"n": 1}), Action("b", "probed", {"n": 2}))),
    "a nap between": Story(
        one(Action("a", "do", {"n": 1}), Action("n", "wait", wait=Wait(duration_s=60)), Action("b", "do", {"n": 2}))
    ),
    "branches": Story(each(Action("x", "do", {"n": "{{ item }}"}))),
    "an expiry": Story(one(Action("a", "look", ask=Question("?", expires_s=10))), operator=lambda *_: None),
    "retries": Story(one(Action("a", "look", retry=Retry(limit=3)))),
}
HARMLESS = ("look", "probed")  # nobody is ever asked whether these have happened


@pytest.mark.parametrize("name", STORIES)
def test_a_death_anywhere_changes_nothing_in_the_end(name: str) -> None:
    statuses: set[Status | None] = set()

    def check(world: World, run: Run) -> None:
        statuses.add(run.ended)
        effects = {contract.id: contract.effect for contract in world.calls}
        asked = [effects.get(contract_id) for contract_id, answer in world.answers if "outcome" in answer]
        assert not set(asked) & set(HARMLESS)

    report = crash_anywhere(STORIES[name], world, check)
    assert statuses == {report.undisturbed.ended}
    assert report.points > 3


FAMILIES = {
    "a child": parent_of(DOING),
    "a child that asks": parent_of(ASKING),
    "a grandchild": parent_of(parent_of(DOING)),
}


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("is_cancelled", [False, True], ids=["to its end", "cancelled"])
def test_a_death_anywhere_in_a_family_changes_nothing_in_the_end(name: str, is_cancelled: bool) -> None:
    def once(die_at: int) -> int:
        made = world()
        made.die_at = frozenset({die_at})
        try:
            ended = simulate(_tell_family(made, FAMILIES[name], is_cancelled))
            for run in ended:
                assert_laws(made, run)
            if is_cancelled:
                assert {run.ended for run in ended} <= {Status.CANCELLED, Status.COMPLETED}
            else:
                assert {run.ended for run in ended} == {Status.COMPLETED}
                assert len(made.deeds) == 1
        except BaseException as error:
            error.add_note(f"died at {die_at} of {made.points}: {made.moments[die_at - 1 : die_at]}")
            raise
        finally:
            made.close()
        return made.points

    for point in range(1, once(0) + 1):
        once(point)


async def _tell_family(world: World, machine: Machine, is_cancelled: bool) -> list[Run]:
    """Start a parent, answer whatever its descendants ask, and rise after every death until all have ended."""
    for _ in range(10):
        async with world.host() as host:
            ended = await world.unless_dead(_live(world, host, machine, is_cancelled))
            if ended is not None:
                return ended
    raise AssertionError("ten lives were not enough")


async def _live(world: World, host: EmbeddedHost, machine: Machine, is_cancelled: bool) -> list[Run]:
    await host.start(machine, {"amount": 1}, run_id="root")
    await host.recover()
    for _ in range(200):
        runs = [await host.settled(summary.run_id) for summary in await host.list()]
        if all(run.ended is not None for run in runs):
            return runs
        root = runs[-1]
        if is_cancelled and len(runs) > 1 and root.ended is None and root.ending is None:
            await host.cancel("root")
        for run in runs:
            for contract in run.waiting:
                if not is_cancelled or (contract.question and contract.question.reason == "outcome_unknown"):
                    await host.answer(run.id, contract.id, honest(world, run, contract) or {})
                    break
        await asyncio.sleep(1)
    raise AssertionError(f"still open: {[(run.id, run.status) for run in runs if run.ended is None]}")


def test_a_pure_step_cut_off_twice_never_asks_a_person() -> None:
    def check(world: World, run: Run) -> None:
        assert not world.answers

    crash_anywhere(Story(one(Action("a", "look"), Action("b", "look"))), world, check)
