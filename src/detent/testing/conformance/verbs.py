"""Verbs: what they answer, that a refusal changes nothing, and that an event counts once."""

import asyncio
import itertools
from collections.abc import Awaitable
from pathlib import Path

from detent.core import (
    Action,
    Machine,
    Run,
    Status,
    table,
)
from detent.core.machine import Await, Wait
from detent.errors import EventRefused, NotWaiting, Refused, Unknown
from detent.testing.conformance.fixtures import (
    ASKING,
    DOOR,
    HostOpener,
    Outside,
    one,
    refusal,
)


async def check_the_seven_verbs(open_host: HostOpener, home: Path) -> None:
    outside = Outside()
    async with open_host(home, [outside.effect()]) as host:
        run = await host.start(ASKING, {"amount": 5}, by="ann", session="s1")
        assert (run.status, run.by, run.session) == (Status.WAITING, "ann", "s1")
        assert await host.show(run.id) == run
        (summary,) = await host.list()
        assert (summary.run_id, summary.status, summary.waiting[0].call.input) == (
            run.id,
            "waiting",
            {"amount": 5},
        )
        await host.answer(run.id, run.waiting[0].id, {"approved": True, "by": "bob"})
        run = await host.settled(run.id)
        assert (run.status, len(outside.deeds)) == (Status.COMPLETED, 1)
        seen = [entry.seq async for entry in host.watch(run.id)]
        assert seen == list(range(1, run.seq + 1))
        door = await host.start(DOOR)
        assert (await host.signal(door.id, "OPEN", by="ann")).state == "open"
        assert (await host.cancel(door.id, reason="enough")).status is Status.CANCELLED


async def check_starting_twice_with_one_id_gives_one_run(open_host: HostOpener, home: Path) -> None:
    outside = Outside()
    async with open_host(home, [outside.effect()]) as host:
        runs = await asyncio.gather(*(host.start(ASKING, {"amount": n}, run_id="once") for n in range(10)))
        assert {run.context["amount"] for run in runs} == {0}
    async with open_host(home, [outside.effect()]) as host:
        again = await host.start(ASKING, {"amount": 99}, run_id="once")
        assert again == runs[0]
        assert len(await host.list()) == 1


async def check_a_refusal_changes_nothing(open_host: HostOpener, home: Path) -> None:
    outside = Outside()
    async with open_host(home, [outside.effect()]) as host:
        run = await host.start(ASKING, {"amount": 1})
        door = await host.start(DOOR)
        refused: list[tuple[type[Refused], Awaitable[Run]]] = [
            (EventRefused, host.signal(door.id, "CLOSE")),
            (EventRefused, host.signal(run.id, "OPEN")),
            (Refused, host.signal(door.id, "@wake")),
            (Refused, host.signal(door.id, "OPEN", {"x": float("nan")})),
            (NotWaiting, host.answer(run.id, "work/deed/7", {"approved": True})),
            (Refused, host.answer(run.id, run.waiting[0].id, {"approved": "perhaps"})),
            (Refused, host.answer(run.id, run.waiting[0].id, {"nonsense": 1})),
            (Refused, host.answer(run.id, run.waiting[0].id, {"approved": True, "call_hash": "0" * 64})),
            (Unknown, host.show("nobody")),
            (Unknown, host.signal("nobody", "OPEN")),
            (Refused, host.start(DOOR, run_id="../../etc/passwd")),
            (Refused, host.start(DOOR, {"x": object()})),
            (Unknown, host.start(one(Action("a", "no.such.effect")))),
        ]
        for kind, verb in refused:
            assert await refusal(kind, verb)
        assert await host.show(run.id) == run
        assert await host.show(door.id) == door
        assert len(await host.list()) == 2
    async with open_host(home, [outside.effect()]) as host:
        assert await host.show(run.id) == run
        assert (await host.signal(door.id, "OPEN")).seq == 2


async def check_an_event_id_counts_once(open_host: HostOpener, home: Path) -> None:
    async with open_host(home) as host:
        run = await host.start(DOOR)
        await asyncio.gather(*(host.signal(run.id, "OPEN", id="first") for _ in range(5)))
        for number in range(1000):
            await host.signal(run.id, "CLOSE", id=f"c{number}")
            await host.signal(run.id, "OPEN", id=f"o{number}")
        seq = (await host.show(run.id)).seq
        assert seq == 2002
        assert (await host.signal(run.id, "OPEN", id="first")).seq == seq
    async with open_host(home) as host:
        for known in ("first", "c0", "o500", "c999"):
            assert (await host.signal(run.id, "CLOSE", id=known)).seq == seq


async def check_an_event_id_counts_once_in_a_flood(open_host: HostOpener, home: Path) -> None:
    """More events between the two than the run itself remembers, and none of them on disk yet."""
    async with open_host(home) as host:
        run = await host.start(DOOR)
        flood = [host.signal(run.id, "OPEN", id="x")]
        for number in range(50):
            flood += [host.signal(run.id, "CLOSE", id=f"c{number}"), host.signal(run.id, "OPEN", id=f"o{number}")]
        runs = await asyncio.gather(*flood, host.signal(run.id, "OPEN", id="x"))
        assert runs[-1].seq == 102


async def check_a_duplicate_is_acknowledged_when_the_first_is_on_disk(open_host: HostOpener, home: Path) -> None:
    async with open_host(home) as host:
        run = await host.start(DOOR)
        order: list[str] = []

        async def say(name: str) -> None:
            await host.signal(run.id, "OPEN", id="same")
            order.append(name)

        async with asyncio.TaskGroup() as both:
            both.create_task(say("first"))
            both.create_task(say("second"))
        assert order == ["first", "second"]


async def check_what_comes_to_a_run_at_once_is_written_in_its_order(open_host: HostOpener, home: Path) -> None:
    """Events that share a commit: some change what the run is listed by, others only its place in the journal."""
    orders = list(itertools.permutations(("hold", "OPEN", "CLOSE", "release")))
    async with open_host(home) as host:
        for number, verbs in enumerate(orders):
            run = await host.start(DOOR, run_id=f"door-{number}")
            others = {"hold": host.hold, "release": host.release}
            said = [others[v](run.id, by="ann") if v in others else host.signal(run.id, v, by="ann") for v in verbs]
            await asyncio.gather(*said, return_exceptions=True)
    async with open_host(home) as host:
        for summary in await host.list(limit=len(orders)):
            run = await host.show(summary.run_id)
            assert (summary.seq, summary.state, bool(summary.held_by)) == (run.seq, run.state, run.is_held)


async def check_an_early_signal_is_kept(open_host: HostOpener, home: Path) -> None:
    machine = Machine(
        "early",
        "idle",
        transitions=table("""
            idle GO work
            work - done
        """),
        work={"work": (Action("paid", "wait", wait=Wait(events=(Await("PAID"),))),)},
        ends={"done": Status.COMPLETED},
        keeps=("PAID",),
    )
    async with open_host(home) as host:
        run = await host.start(machine)
        run = await host.signal(run.id, "PAID", {"by": "card"}, id="p1")
        assert run.state == "idle"
    async with open_host(home) as host:
        await host.recover()
        run = await host.signal(run.id, "GO")
        assert (run.status, run.results["paid"]["data"]) == (Status.COMPLETED, {"by": "card"})


async def check_a_fork_begins_as_its_run_was(open_host: HostOpener, home: Path) -> None:
    async with open_host(home) as host:
        run = await host.start(DOOR, {"colour": "red"}, by="ann")
        run = await host.signal(run.id, "OPEN")
        now, before = await host.fork(run.id, by="kim"), await host.fork(run.id, "1")
        assert [(one.state, one.context, one.ended) for one in (now, before)] == [
            ("open", {"colour": "red"}, None),
            ("closed", {"colour": "red"}, None),
        ]
        assert len({run.id, now.id, before.id}) == 3
        assert (await host.signal(now.id, "CLOSE")).state == "closed"
        assert await host.show(run.id) == run
        await refusal(Refused, host.fork(run.id, "999"))
    async with open_host(home) as host:
        assert (await host.signal(before.id, "OPEN")).state == "open"
        assert len(await host.list()) == 3
