"""Races: what one side tells is heard by the other, at whatever moment that one begins to listen."""

import asyncio
import random
from pathlib import Path

from detent.core import Action, Run, Status
from detent.core.machine import Group
from detent.errors import Unknown
from detent.testing.conformance.fixtures import DOING, DOOR, HostOpener, Outside, one, parent_of, refusal, until

TRIES = 8
MOMENT_S = 0.015  # in which a host does most of what it does at once
HANGING = one(Action("deed", "hang", {"number": "{{ context.number }}"}), name="hanging")
WAITING = one(Action("deed", "hang", {}), name="hanging_child")


async def sleep_a_moment() -> None:
    """At any moment of what goes on beside it."""
    await asyncio.sleep(random.random() * MOMENT_S)


def is_stopped(run: Run) -> bool:
    """Whether nothing of a run that was cancelled goes on: its call never began, or was stopped and is in doubt."""
    return run.ended is Status.CANCELLED or bool(run.waiting)


async def check_a_call_that_is_cancelled_while_it_begins_is_stopped(open_host: HostOpener, home: Path) -> None:
    async with open_host(home, [Outside().hanging(settle_s=0.0)]) as host:
        for number in range(TRIES):
            run = await host.start(HANGING, {"number": number})
            await sleep_a_moment()
            await host.cancel(run.id)
            await until(host, run.id, is_stopped)


async def check_a_child_that_begins_while_its_parent_is_cancelled_ends_too(open_host: HostOpener, home: Path) -> None:
    async with open_host(home, [Outside().hanging(kind="pure")]) as host:
        for _ in range(TRIES):
            run = await host.start(parent_of(WAITING), {"amount": 1})
            await sleep_a_moment()
            await host.cancel(run.id)
            assert (await until(host, run.id, lambda run: run.ended is not None)).ended is Status.CANCELLED
        for one_of in await host.list(name=WAITING.name):
            await until(host, one_of.run_id, lambda run: run.ended is not None)


async def check_a_child_may_end_while_its_parent_begins_to_wait(open_host: HostOpener, home: Path) -> None:
    async with open_host(home, [Outside().effect(kind="pure")]) as host:
        runs = [await host.start(parent_of(DOING), {"amount": number}) for number in range(TRIES)]
        for run in runs:
            assert (await until(host, run.id, lambda run: run.ended is not None)).ended is Status.COMPLETED


async def check_who_follows_from_any_moment_misses_nothing(open_host: HostOpener, home: Path) -> None:
    async with open_host(home) as host:
        for _ in range(TRIES):
            run = await host.start(DOOR)

            async def follow(run_id: str = run.id) -> list[int]:
                await sleep_a_moment()
                return [entry.seq async for entry in host.watch(run_id)]

            following = [asyncio.create_task(follow()) for _ in range(3)]
            for name in ("OPEN", "CLOSE", "BURN"):
                await sleep_a_moment()
                await host.signal(run.id, name)
            assert await asyncio.gather(*following) == [[1, 2, 3, 4]] * 3


async def check_a_run_that_cannot_begin_gives_its_place_back(open_host: HostOpener, home: Path) -> None:
    group = Group("{{ context.repo }}", 1, "queue")
    async with open_host(home, [Outside().effect(kind="pure")]) as host:
        unable = one(Action("deed", "nobodys", {}), name="unable", group=group)
        assert "no effect" in await refusal(Unknown, host.start(unable, {"repo": "a"}, run_id="r1"))
        run = await host.start(one(Action("deed", "do", {}), name="able", group=group), {"repo": "a"}, run_id="r2")
        assert not run.is_held
        assert (await until(host, run.id, lambda run: run.ended is not None)).ended is Status.COMPLETED
