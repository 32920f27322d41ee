"""Groups: runs that must not go on at the same time take turns, fairly, through crashes and doubts."""

import asyncio
import random
from pathlib import Path

from msgspec.structs import replace

from detent.core import Action, Contract, EffectFailed, Machine, Outcome, Run, Status, effect
from detent.core.machine import Group, Transition
from detent.errors import GroupFull, Refused
from detent.host.concurrency_group import find_place
from detent.host.port import Host
from detent.testing.conformance.fixtures import HandClock, HostOpener, Outside, one, refusal, until


def make_grouped(limit: int = 1, when_full: str = "queue", *actions: Action, **fields: object) -> Machine:
    """A machine whose run waits for GO and is done."""
    return Machine(
        "turn",
        "working",
        transitions=[Transition("working", "waiting"), Transition("waiting", "done", on="GO")],
        work={"working": actions or (Action("deed", "do", {"who": "{{ run.id }}"}),)},
        ends={"done": Status.COMPLETED},
        group=Group("{{ context.repo }}", limit, when_full),  # type: ignore[arg-type]
        **fields,  # type: ignore[arg-type]
    )


async def start(host: Host, name: str, machine: Machine | None = None, repo: str = "a") -> Run:
    """Begin a run of a group."""
    return await host.start(machine or make_grouped(), {"repo": repo}, run_id=name)


async def finish(host: Host, name: str) -> None:
    """Let a run end."""
    await until(host, name, lambda run: run.state == "waiting")
    await host.signal(name, "GO")
    await until(host, name, lambda run: run.ended is not None)


async def check_runs_of_a_group_take_turns_in_order(open_host: HostOpener, home: Path) -> None:
    outside = Outside()
    async with open_host(home, [outside.effect()]) as host:
        assert not (await start(host, "r1")).is_held
        for name in ("r2", "r3"):
            assert (await start(host, name)).is_held
        assert not (await start(host, "other", repo="b")).is_held
        place = find_place(host.reader, await host.show("r3"))
        assert place is not None
        assert (place.key, place.number, place.behind) == ("a", 2, "r1")
        assert "place" in await refusal(Refused, host.release("r3"))
        for name in ("r1", "r2", "r3", "other"):
            await finish(host, name)
        done = [contract.input["who"] for contract in outside.deeds if contract.input["who"] != "other"]
        assert done == ["r1", "r2", "r3"]


async def check_a_group_lets_as_many_go_on_as_its_limit(open_host: HostOpener, home: Path) -> None:
    async with open_host(home, [Outside().effect()]) as host:
        held = [(await start(host, f"r{number}", make_grouped(2))).is_held for number in range(4)]
        assert held == [False, False, True, True]
        await finish(host, "r1")
        await until(host, "r2", lambda run: not run.is_held)
        assert (await host.show("r3")).is_held


async def check_who_waits_for_a_place_can_be_cancelled(open_host: HostOpener, home: Path) -> None:
    async with open_host(home, [Outside().effect()]) as host:
        for name in ("r1", "r2", "r3"):
            await start(host, name)
        await host.cancel("r2")
        await finish(host, "r1")
        await finish(host, "r3")


async def check_a_place_is_kept_and_passed_on_through_a_crash(open_host: HostOpener, home: Path) -> None:
    outside = Outside()
    async with open_host(home, [outside.effect()]) as host:
        for name in ("r1", "r2", "r3"):
            await start(host, name)
        await until(host, "r1", lambda run: run.state == "waiting")
    async with open_host(home, [outside.effect()]) as host:
        await host.recover()
        assert (await host.show("r2")).is_held
        await host.signal("r1", "GO")  # and dies, perhaps before the place is passed on
    async with open_host(home, [outside.effect()]) as host:
        await host.recover()
        await finish(host, "r2")
        await finish(host, "r3")
        assert [contract.input["who"] for contract in outside.deeds] == ["r1", "r2", "r3"]


async def check_a_new_run_can_take_the_place_of_the_previous(open_host: HostOpener, home: Path) -> None:
    machine = make_grouped(1, "cancel_previous")
    async with open_host(home, [Outside().effect()]) as host:
        for name in ("r1", "r2", "r3"):
            await start(host, name, machine)
            await until(host, name, lambda run: run.state == "waiting")  # else its deed may be under way, and it asks
        for name in ("r1", "r2"):
            run = await until(host, name, lambda run: run.ended is not None)
            assert run.ended is Status.CANCELLED
        await finish(host, "r3")


async def check_a_place_that_is_freed_while_the_next_begins_is_taken(open_host: HostOpener, home: Path) -> None:
    async with open_host(home, [Outside().effect()]) as host:
        await start(host, "r0")

        async def start_soon(name: str) -> None:
            await asyncio.sleep(random.random() * 0.02)  # at any moment of the other's end
            await start(host, name)

        for number in range(30):
            await until(host, f"r{number}", lambda run: run.state == "waiting")
            await asyncio.gather(host.signal(f"r{number}", "GO"), start_soon(f"r{number + 1}"))
        await finish(host, "r30")


async def check_a_run_in_doubt_keeps_its_place(open_host: HostOpener, home: Path) -> None:
    outside = Outside()
    machine = make_grouped(1, "cancel_previous", Action("deed", "hang", {"who": "{{ run.id }}"}))
    async with open_host(home, [outside.hanging(settle_s=0.0)]) as host:
        await start(host, "r1", machine)
        await outside.begun.acquire()
        await start(host, "r2", machine)
        run = await until(host, "r1", lambda run: bool(run.waiting))
        assert run.ended is None, "the deed may have been done"
        assert (await host.show("r2")).is_held
        await host.answer("r1", run.waiting[0].id, {"outcome": "happened"})
        await until(host, "r2", lambda run: not run.is_held)


async def check_a_run_that_does_not_wait_is_refused(open_host: HostOpener, home: Path) -> None:
    machine = make_grouped(1, "drop")
    async with open_host(home, [Outside().effect()]) as host:
        await start(host, "r1", machine)
        for _ in range(2):  # who was refused may try again under the same name
            assert "r1" in await refusal(GroupFull, start(host, "r2", machine))
        await finish(host, "r1")
        async for _ in host.reader.follow_all(0):
            if host.reader.list().runs and await _is_free(host, machine):
                break
        assert host.reader.summary("r2") is None
        await finish(host, "r3")
        async for _ in host.reader.follow_all(0):
            if await _is_free(host, machine, "r2"):
                break


async def _is_free(host: Host, machine: Machine, name: str = "r3") -> bool:
    try:
        return not (await start(host, name, machine)).is_held
    except GroupFull:
        return False  # the place is about to be given back


async def check_a_failed_run_needs_a_place_to_be_tried_again(open_host: HostOpener, home: Path) -> None:
    is_broken = [True]

    @effect("try", kind="pure")
    async def attempt(contract: Contract) -> Outcome:
        if is_broken[0]:
            raise EffectFailed("not yet")
        return Outcome({"who": contract.input})

    machine = one(Action("try", "try"), name="trying", group=Group("{{ context.repo }}"))
    async with open_host(home, [Outside().effect(), attempt]) as host:
        await start(host, "f1", machine)
        await until(host, "f1", lambda run: run.ended is Status.FAILED)
        await start(host, "r1")
        await until(host, "r1", lambda run: run.state == "waiting")
        is_broken[0] = False
        assert "r1" in await refusal(GroupFull, host.retry("f1"))
        await host.cancel("r1")
        async for _ in host.reader.follow_all(0):
            try:
                await host.retry("f1")
                break
            except GroupFull:
                continue  # the place is about to be given back
        await until(host, "f1", lambda run: run.ended is Status.COMPLETED)


async def check_its_time_begins_when_a_run_has_its_place(open_host: HostOpener, home: Path) -> None:
    clock = HandClock()
    machine = make_grouped(timeouts_s={"working": 60.0, "waiting": 600.0})
    async with open_host(home, [Outside().effect()], clock) as host:
        for name in ("r1", "r2"):
            await start(host, name, machine)
        await until(host, "r1", lambda run: run.state == "waiting")
        clock.move(500.0)
        await finish(host, "r1")
        await finish(host, "r2")
        assert (await host.show("r2")).ended is Status.COMPLETED


async def take_turns(open_host: HostOpener, home: Path, count: int, kills: int, seed: int = 0) -> None:
    """Let many runs of one group go on in several lives: in the order they came, and never two at once."""
    draw, outside = random.Random(seed), Outside()
    deaths, done = set(draw.sample(range(1, count), kills)), 0
    names = [f"r{number:04}" for number in range(count)]
    async with open_host(home, [outside.effect()]) as host:
        for name in names:
            await start(host, name)
    while done < count:
        async with open_host(home, [outside.effect()]) as host:
            await host.recover()
            while done < count:
                name = names[done]
                await until(host, name, lambda run: run.state == "waiting" and not run.is_held)
                under_way = [one for one in names[done : done + 3] if not (await host.show(one)).is_held]
                assert under_way == [name]
                await host.signal(name, "GO")
                done += 1
                if done in deaths:
                    break
    assert [contract.input["who"] for contract in outside.deeds] == names


async def check_many_runs_take_turns_through_kills(open_host: HostOpener, home: Path) -> None:
    await take_turns(open_host, home, 12, 4)


async def check_a_run_may_ask_to_go_on_beside_the_others(open_host: HostOpener, home: Path) -> None:
    machine = make_grouped(1, "ask")
    async with open_host(home, [Outside().effect()]) as host:
        for name in ("r1", "r2", "r3", "r4"):
            run = await start(host, name, machine)
        (question,) = run.waiting
        assert question.question is not None
        assert "run r1 has the place" in question.question.text
        await host.answer("r2", question.id, {"approved": True, "by": "ann"})
        await until(host, "r2", lambda run: run.state == "waiting" and not run.is_held)
        assert (await host.answer("r3", question.id, {"approved": False, "by": "ann"})).ended is Status.CANCELLED
    async with open_host(home, [Outside().effect()]) as host:
        await host.recover()
        assert (await host.show("r4")).is_held
        await finish(host, "r2")
        assert (await host.show("r4")).is_held  # r1 has the place
        await finish(host, "r1")
        run = await until(host, "r4", lambda run: run.state == "waiting" and not run.is_held)
        assert run.waiting == ()  # nobody need answer any more
        await finish(host, "r4")


async def check_a_run_that_asks_for_a_place_can_be_cancelled(open_host: HostOpener, home: Path) -> None:
    async with open_host(home, [Outside().effect()]) as host:
        for name in ("r1", "r2"):
            await start(host, name, make_grouped(1, "ask"))
        assert (await host.cancel("r2")).ended is Status.CANCELLED


def make_rated(rate: int, per_s: float, when_full: str = "queue") -> Machine:
    """Such a machine with a rate instead of a limit."""
    group = Group("{{ context.repo }}", 1, when_full, rate, per_s)  # type: ignore[arg-type]
    return replace(make_grouped(), group=group)


async def check_runs_begin_at_the_rate_of_their_group(open_host: HostOpener, home: Path) -> None:
    outside, clock, machine = Outside(), HandClock(), make_rated(2, 60.0)
    async with open_host(home, [outside.effect()], clock) as host:
        for number in range(5):
            await start(host, f"r{number}", machine)
        for name in ("r0", "r1"):
            await finish(host, name)
        assert (await host.show("r2")).is_held
        await refusal(Refused, host.release("r2"))
    async with open_host(home, [outside.effect()], clock) as host:
        await host.recover()
        for beginning, waiting in ((("r2", "r3"), ("r4",)), (("r4",), ())):
            clock.move(61.1)
            for name in beginning:
                await finish(host, name)
            for name in waiting:
                assert (await host.show(name)).is_held
        assert sorted(contract.input["who"] for contract in outside.deeds) == [f"r{number}" for number in range(5)]


async def check_runs_of_a_group_do_not_begin_together_after_an_absence(open_host: HostOpener, home: Path) -> None:
    outside, clock, machine = Outside(), HandClock(), make_rated(1, 60.0)
    names = [f"r{number}" for number in range(4)]
    async with open_host(home, [outside.effect()], clock) as host:
        for name in names:
            await start(host, name, machine)
        await finish(host, "r0")
    clock.move(1_000.0)
    async with open_host(home, [outside.effect()], clock) as host:
        await host.recover()
        for count in (1, 2, 3):
            while len(outside.deeds) < count + 1:
                clock.move(0)
                await asyncio.sleep(0.005)
            for _ in range(20):
                clock.move(0)
                await asyncio.sleep(0.01)
            assert [contract.input["who"] for contract in outside.deeds] == names[: count + 1]
            clock.move(61.1)
        for name in names[1:]:
            await finish(host, name)


async def check_a_run_that_comes_too_early_can_be_dropped(open_host: HostOpener, home: Path) -> None:
    clock, machine = HandClock(), make_rated(1, 60.0, "drop")
    async with open_host(home, [Outside().effect()], clock) as host:
        await start(host, "r1", machine)
        assert "full" in await refusal(GroupFull, start(host, "r2", machine))
        await finish(host, "r1")
        assert "too early" in await refusal(GroupFull, start(host, "r3", machine))
