"""Work: retries, branches side by side, cancelling, pausing, and going on after a restart."""

import asyncio
from pathlib import Path

from detent.core import (
    Action,
    Branch,
    Contract,
    EffectFailed,
    Machine,
    Outcome,
    Question,
    Retry,
    Status,
    effect,
    table,
)
from detent.errors import EventRefused, Refused, Unknown
from detent.testing.conformance.fixtures import (
    DOING,
    HandClock,
    HostOpener,
    Outside,
    one,
    refusal,
    until,
)


async def check_retries_with_backoff_across_a_restart(open_host: HostOpener, home: Path) -> None:
    clock = HandClock()
    calls: list[Contract] = []

    async def perform(contract: Contract) -> Outcome:
        calls.append(contract)
        if len(calls) < 3:
            raise EffectFailed("not yet")
        return Outcome({"ok": True})

    flaky = effect("flaky", kind="irreversible")(perform)
    machine = one(Action("try_it", "flaky", {"n": 1}, retry=Retry(limit=5, delay_s=100.0, delay_s_max=1000.0)))
    async with open_host(home, [flaky], clock) as host:
        run = await host.start(machine)
        run = await until(host, run.id, lambda run: run.wake_at > 0)
        assert run.contracts[0].attempt == 2
    async with open_host(home, [flaky], clock) as host:
        await host.recover()
        assert len(calls) == 1
        clock.move(run.wake_at - clock.now())
        run = await until(host, run.id, lambda run: run.wake_at > 0 and run.contracts[0].attempt == 3)
        clock.move(run.wake_at - clock.now())
        run = await until(host, run.id, lambda run: run.ended is not None)
        assert run.status is Status.COMPLETED
        assert [c.attempt for c in calls] == [1, 2, 3]
        assert len({c.key for c in calls}) == 1


async def check_contracts_go_on_side_by_side(open_host: HostOpener, home: Path) -> None:
    meeting = asyncio.Barrier(5)

    async def perform(contract: Contract) -> Outcome:
        await meeting.wait()  # only passes if all five are at work at once
        return Outcome({"n": contract.input["n"]})

    inner = Action("part", "meet", {"n": "{{ item }}"})
    machine = one(
        Action("all", "branches", branches=(Branch("one", (inner,)),), each="{{ [1, 2, 3, 4, 5] }}"),
        name="parallel",
    )
    async with open_host(home, [effect("meet", kind="idempotent")(perform)]) as host:
        run = await host.settled((await host.start(machine)).id)
        assert run.status is Status.COMPLETED, run.error
        assert [item["n"] for item in run.results["all"]["items"]] == [1, 2, 3, 4, 5]


async def check_a_fork_does_only_the_failed_items_again(open_host: HostOpener, home: Path) -> None:
    done: list[Contract] = []

    async def perform(contract: Contract) -> Outcome:
        done.append(contract)
        if contract.input["n"] == 2 and len(done) < 4:
            raise EffectFailed("not yet")
        return Outcome({"n": contract.input["n"]})

    pay = effect("pay", kind="irreversible")(perform)
    inner = Action("pay", "pay", {"n": "{{ item }}"}, ask=Question("Pay?"))
    loop = Action(
        "all", "branches", branches=(Branch("one", (inner,)),), each="{{ [1, 2, 3, 4] }}", tolerate=2, at_once=1
    )
    counted = Action("counted", "set", {"name": "n", "value": "{{ result.all.failed | length }}"})
    async with open_host(home, [pay]) as host:
        run = await host.start(one(loop, counted), by="ann")
        await refusal(Refused, host.fork(run.id, loop="*"))
        for is_yes in (True, True, True, False):
            (asked,) = run.waiting
            await host.answer(run.id, asked.id, {"approved": is_yes, "by": "bob"})
            run = await host.settled(run.id)
        assert (run.status, [c.input["n"] for c in done]) == (Status.COMPLETED, [1, 2, 3])
        assert [one["index"] for one in run.results["all"]["failed"]] == [1, 3]
        await refusal(Refused, host.fork(run.id, loop="other"))
    async with open_host(home, [pay]) as host:
        again = await host.settled((await host.fork(run.id, loop="*", by="kim")).id)
        # What had a yes has it still, and is done with its key; what had a no is asked again.
        assert [(c.input["n"], c.key == done[1].key) for c in done[3:]] == [(2, True)]
        (asked,) = again.waiting
        assert asked.input == {"n": 4}
    async with open_host(home, [pay]) as host:
        await host.recover()
        await host.answer(again.id, asked.id, {"approved": True, "by": "bob"})
        again = await host.settled(again.id)
        assert (again.status, [c.input["n"] for c in done]) == (Status.COMPLETED, [1, 2, 3, 2, 4])
        assert [item["n"] for item in again.results["all"]["items"]] == [1, 2, 3, 4]
        assert (again.context["n"], again.results["all"]["failed"]) == (0, [])
        assert await host.show(run.id) == run
        await refusal(Refused, host.fork(again.id, loop="*"))


async def check_cancel_stops_effects(open_host: HostOpener, home: Path) -> None:
    stopped = asyncio.Event()
    begun = asyncio.Event()

    async def perform(_: Contract) -> Outcome:
        begun.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            stopped.set()
        raise AssertionError

    async with open_host(home, [effect("slow", kind="idempotent")(perform)]) as host:
        run = await host.start(one(Action("a", "slow")))
        await begun.wait()
        run = await host.cancel(run.id, by="ann", reason="changed my mind")
        assert run.status is Status.CANCELLED
        await stopped.wait()
        assert run.error is not None
        assert run.error.message == "changed my mind"


async def check_cancel_in_the_moment_of_starting(open_host: HostOpener, home: Path) -> None:
    """An irreversible call that has not left yet must not leave any more, and leaves no doubt behind."""
    outside = Outside()
    async with open_host(home, [outside.effect()]) as host:
        starting = asyncio.ensure_future(host.start(DOING, {"amount": 1}, run_id="r"))
        await asyncio.sleep(0)  # let the start be folded, not more
        cancelled = None
        while cancelled is None:  # on some hosts a run is there only when its start is on disk
            try:
                cancelled = await host.cancel("r")
            except Unknown:
                await asyncio.sleep(0)
            except EventRefused:
                break  # it was quicker, and has ended
        await starting
        run = await host.settled("r")
        if outside.deeds:  # it had left
            assert len(outside.deeds) == 1
            assert run.status is Status.COMPLETED or run.waiting, "a deed that was done is known, or asked about"
            return
        assert run.status is Status.CANCELLED
        run = await host.settled((await host.start(DOING, {"amount": 1})).id)
        assert run.status is Status.COMPLETED, "the key of what was never done must be free"


async def check_hold_and_release_across_a_restart(open_host: HostOpener, home: Path) -> None:
    outside = Outside()
    machine = Machine(
        "held",
        "idle",
        transitions=table("""
            idle GO work
            work - done
        """),
        work={"work": (Action("deed", "do", {"n": 1}),)},
        ends={"done": Status.COMPLETED},
    )
    async with open_host(home, [outside.effect()]) as host:
        run = await host.start(machine)
        assert (await host.hold(run.id, by="ann")).is_held
        run = await host.signal(run.id, "GO")
        assert (run.status, outside.deeds) == (Status.WAITING, [])
    async with open_host(home, [outside.effect()]) as host:
        await host.recover()
        assert (await host.settled(run.id)).is_held
        assert not outside.deeds
        await host.release(run.id, by="ann")
        assert (await host.settled(run.id)).status is Status.COMPLETED
        assert len(outside.deeds) == 1


async def check_a_restart_goes_on_where_it_stopped(open_host: HostOpener, home: Path) -> None:
    """A host that closes in the middle of a long story leaves it so that the next one goes on by itself."""
    release = asyncio.Event()
    begun = asyncio.Event()
    done: list[int] = []

    async def perform(contract: Contract) -> Outcome:
        begun.set()
        await release.wait()
        done.append(contract.input["n"])
        return Outcome({})

    steps = [Action(f"s{n}", "step", {"n": n}) for n in range(3)]
    step = effect("step", kind="irreversible", settle_s=0.0)(perform)
    async with open_host(home, [step]) as host:
        run = await host.start(one(*steps))
        await begun.wait()
        closing = asyncio.ensure_future(getattr(host, "close")(30.0))  # noqa: B009  # beside the verbs
        await asyncio.sleep(0)
        release.set()
        await closing
    assert done == [0], "what was at work may finish, nothing new may begin"
    async with open_host(home, [step]) as host:
        assert await host.recover() == (run.id,)
        run = await host.settled(run.id)
        assert (run.status, done) == (Status.COMPLETED, [0, 1, 2])


async def check_what_is_not_taken_back_raises_an_alarm(open_host: HostOpener, home: Path) -> None:
    """A deed that may have happened is never left without a word, nor taken back with values that nobody has."""
    taken_back: list[Contract] = []

    async def lose(_: Contract) -> Outcome:
        raise TimeoutError

    async def take_back(contract: Contract) -> Outcome:
        taken_back.append(contract)
        raise EffectFailed("the desk is closed")

    undo = Action("undo_book", "take_back", {"id": "{{ result.book.id }}"}, when="result.book.success", tolerate=1)
    machine = Machine(
        "saga",
        "work",
        transitions=table("work - waiting\nwaiting GO done"),
        work={"work": (Action("book", "lose", {"run": "{{ run.id }}"}),), "undoing": (undo,)},
        ends={"done": Status.COMPLETED},
        on_failure="undoing",
    )
    effects = [effect("lose", settle_s=0.0)(lose), effect("take_back", kind="idempotent")(take_back)]
    async with open_host(home, effects) as host:
        for name in ("given", "known"):
            await host.settled((await host.start(machine, run_id=name)).id)
        await host.answer("given", "work/book/1", {"outcome": "give_up", "by": "ann"})
        happened = {"outcome": "happened", "by": "ann"}
        assert "`id`" in await refusal(Refused, host.answer("known", "work/book/1", happened))
        await host.answer("known", "work/book/1", {**happened, "result": {"id": 7}})
    async with open_host(home, effects) as host:
        await host.recover()
        await host.cancel("known")
        given, known = await host.settled("given"), await host.settled("known")
        assert [(run.status, len(run.alarms)) for run in (given, known)] == [(Status.FAILED, 1), (Status.CANCELLED, 1)]
        assert "neither finished nor taken back" in given.alarms[0]
        assert "the desk is closed" in known.alarms[0]
        assert [contract.input for contract in taken_back] == [{"id": 7}]
        assert {one.run_id: list(one.alarms) for one in host.reader.list().runs} == {
            "given": list(given.alarms),
            "known": list(known.alarms),
        }


async def check_what_was_done_is_taken_back_in_reverse_order(open_host: HostOpener, home: Path) -> None:
    def undo(name: str) -> Action:
        return Action(
            f"undo_{name}",
            "take_back",
            {"what": name, "run": "{{ run.id }}"},
            when=f"result.{name}.success",
            tolerate=1,
        )

    machine = Machine(
        "saga",
        "work",
        transitions=table("work - waiting\nwaiting GO done"),
        work={
            "work": (
                Action("one", "do", {"what": "one", "run": "{{ run.id }}"}),
                Action("two", "do", {"what": "two", "run": "{{ run.id }}"}),
            ),
            "undoing": (undo("two"), undo("one")),
            "finishing": (Action("last", "do", {"what": "last", "run": "{{ run.id }}"}),),
        },
        ends={"done": Status.COMPLETED},
        on_failure="undoing",
        at_end="finishing",
    )
    outside = Outside()
    effects = [outside.effect(), outside.effect("take_back")]
    async with open_host(home, effects) as host:
        for name, verb in (("good", "GO"), ("bad", "")):
            await host.start(machine, run_id=name)
            await until(host, name, lambda run: run.state == "waiting")
            await (host.signal(name, verb) if verb else host.cancel(name))
            run = await until(host, name, lambda run: run.ended is not None)
            assert run.status is (Status.COMPLETED if verb else Status.CANCELLED)
            assert run.state == ("done" if verb else "waiting")
        did = [(contract.effect, contract.input["what"]) for contract in outside.deeds]
        first = [("do", "one"), ("do", "two"), ("do", "last")]
        assert did == [*first, *first[:2], ("take_back", "two"), ("take_back", "one"), first[2]]
        for name in ("good", "bad"):
            assert not host.reader.verify(name).problem
