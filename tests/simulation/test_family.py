"""A parent, a child and a grandchild cut at every moment: taking up any one of them takes up the whole family, once."""

import asyncio
import json

import pytest

from detent import Action, Machine, Status, Wait, table
from detent.core.run import Run
from detent.testing import MortalHost, World, assert_laws, honest, simulate

MEMBERS = ("root", "root.work.sub.1", "root.work.sub.1.work.sub.1")


def generation(name: str, child: Machine | None) -> Machine:
    """One generation: it looks, sleeps or has a child, and then does something that must be done once."""
    inner = Action("nap", "wait", wait=Wait(duration_s=60))
    if child is not None:
        inner = Action("sub", "child", {"machine": json.loads(child.to_json())})
    return Machine(
        name,
        "work",
        table("work - after\nafter - done"),
        work={"work": (Action("look", "look"), inner), "after": (Action("deed", "do", {"by": name}),)},
        ends={"done": Status.COMPLETED},
    )


FAMILY = generation("first", generation("second", generation("third", None)))


def a_world(die_at: int) -> World:
    world = World(die_at=(die_at,))
    world.effect("look", kind="idempotent")
    world.effect("do", kind="irreversible", settle_s=5.0)
    return world


async def tell(world: World, member: int, is_cancelled: bool) -> list[Run]:
    """Begin, die, and in the next life take up one member; nothing else is ever taken up."""
    async with world.host() as host:
        ended = await world.unless_dead(begin(world, host, is_cancelled))
        if ended is not None:
            return ended
    async with world.host() as host:
        known = sorted(one.run_id for one in await host.list())
        if not known:
            return await begin(world, host, is_cancelled)
        await host.recover(known[min(member, len(known) - 1)])
        return await stay(world, host)


async def begin(world: World, host: MortalHost, is_cancelled: bool) -> list[Run]:
    await host.start(FAMILY, run_id="root")
    if is_cancelled:
        await host.rest()
        await host.cancel("root")
    return await stay(world, host)


async def stay(world: World, host: MortalHost) -> list[Run]:
    """Answer whatever the family asks until all of it has ended."""
    for _ in range(200):
        runs = [await host.settled(one.run_id) for one in await host.list()]
        if all(run.ended is not None for run in runs):
            return runs
        for run in runs:
            for contract in run.waiting:
                await host.answer(run.id, contract.id, honest(world, run, contract) or {})
        await asyncio.sleep(1)
    raise AssertionError(f"still open: {[(run.id, run.state) for run in runs if run.ended is None]}")


@pytest.mark.parametrize("is_cancelled", [False, True], ids=["to its end", "cancelled"])
@pytest.mark.parametrize("member", range(3), ids=["parent", "child", "grandchild"])
def test_after_a_death_anywhere_one_member_brings_back_its_family(member: int, is_cancelled: bool) -> None:
    def once(die_at: int) -> int:
        with a_world(die_at) as world:
            try:
                runs = simulate(tell(world, member, is_cancelled))
                for run in runs:
                    assert_laws(world, run)
                assert {run.id for run in runs} <= set(MEMBERS)
                if is_cancelled:
                    assert {run.ended for run in runs} <= {Status.CANCELLED, Status.COMPLETED}
                else:
                    assert {run.ended for run in runs} == {Status.COMPLETED}
                    assert sorted(deed.input["by"] for deed in world.deeds if deed.effect == "do") == [
                        "first", "second", "third"
                    ]  # fmt: skip
            except BaseException as error:
                error.add_note(f"died at {die_at} of {world.points}: {world.moments[die_at - 1 : die_at]}")
                raise
            return world.points

    points = once(0)
    assert points > (8 if is_cancelled else 20)
    for point in range(1, points + 1):
        once(point)
