"""What every host must do, as checks that take a way to open one.

A check gets `open_host(home, effects, clock)`: an async context manager that gives a host on the journal of `home`.
Leaving the block and opening again is a restart; what was at work then is cut off in the middle, as by a crash.
"""

import asyncio
import heapq
import itertools
import json
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Protocol

from detent.core import (
    Action,
    Branch,
    Contract,
    Effect,
    EffectFailed,
    Machine,
    Outcome,
    Question,
    Retry,
    Run,
    Status,
    effect,
    table,
)
from detent.core.deed import Kind
from detent.core.machine import Await, Wait
from detent.errors import EventRefused, NotWaiting, Refused, Unknown
from detent.host.port import Host


class FullHost(Host, Protocol):
    """The seven verbs and the four that stand beside them."""

    async def settled(self, run_id: str) -> Run: ...
    async def hold(self, run_id: str, *, by: str = "") -> Run: ...
    async def release(self, run_id: str, *, by: str = "") -> Run: ...
    async def recover(self, run_id: str = "") -> tuple[str, ...]: ...


class HandClock:
    """A clock that goes only when it is moved."""

    def __init__(self, at: float = 1_700_000_000.0) -> None:
        self._at = at
        self._alarms: list[tuple[float, int, _Alarm]] = []
        self._count = itertools.count()

    def now(self) -> float:
        return self._at

    def call_at(self, at: float, callback: Callable[[], object]) -> "_Alarm":
        alarm = _Alarm(callback)
        heapq.heappush(self._alarms, (at, next(self._count), alarm))
        return alarm

    async def sleep_until(self, at: float) -> None:
        if at > self._at:
            rung: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.call_at(at, lambda: None if rung.done() else rung.set_result(None))
            await rung

    def move(self, seconds: float) -> None:
        """Let that much time pass, and ring what is due on the way."""
        until = self._at + seconds
        while self._alarms and self._alarms[0][0] <= until:
            at, _, alarm = heapq.heappop(self._alarms)
            self._at = max(self._at, at)
            alarm.ring()
        self._at = until


class _Alarm:
    def __init__(self, callback: Callable[[], object]) -> None:
        self._callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        self._callback = None

    def ring(self) -> None:
        if self._callback is not None:
            self._callback()


class OpenHost(Protocol):
    def __call__(
        self, home: Path, effects: Sequence[Effect] = (), clock: HandClock | None = None
    ) -> AbstractAsyncContextManager[FullHost]: ...


Check = Callable[[OpenHost, Path], Awaitable[None]]


class Outside:
    """The world effects touch: what was done, and what goes on when somebody lets it."""

    def __init__(self) -> None:
        self.deeds: list[Contract] = []
        self.begun = asyncio.Semaphore(0)

    def effect(self, name: str = "do", kind: Kind = "irreversible", **declared: Any) -> Effect:
        """An effect that does what it is asked and says so."""

        async def perform(contract: Contract) -> Outcome:
            self.deeds.append(contract)
            return Outcome({"did": contract.input, "count": len(self.deeds)})

        return effect(name, kind=kind, **declared)(perform)

    def hanging(self, name: str = "hang", kind: Kind = "irreversible", **declared: Any) -> Effect:
        """An effect that begins and never comes back."""

        async def perform(contract: Contract) -> Outcome:
            self.deeds.append(contract)
            self.begun.release()
            await asyncio.get_running_loop().create_future()
            raise AssertionError

        return effect(name, kind=kind, **declared)(perform)


def one(*actions: Action, name: str = "story", **fields: Any) -> Machine:
    """A machine that does these actions and is done."""
    return Machine(
        name,
        "work",
        transitions=table("work - done"),
        work={"work": actions},
        ends={"done": Status.COMPLETED},
        **fields,
    )


DOOR = Machine(
    "door",
    "closed",
    transitions=table("""
        closed OPEN open
        open CLOSE closed
        closed BURN gone
    """),
    ends={"gone": Status.COMPLETED},
)
ASKING = one(Action("deed", "do", {"amount": "{{ context.amount }}"}, ask=Question("Do it?")))


async def until(host: Host, run_id: str, holds: Callable[[Run], bool]) -> Run:
    """The run as it was when this first held."""
    async for entry in host.watch(run_id):
        if holds(entry.run):
            return entry.run
    raise AssertionError(f"{run_id} ended before that")


async def refusal(kind: type[Refused], verb: Awaitable[Run]) -> str:
    """What a verb says when it is refused, as it must be."""
    try:
        await verb
    except kind as error:
        return str(error)
    raise AssertionError(f"{kind.__name__} was expected")


async def check_the_seven_verbs(open_host: OpenHost, home: Path) -> None:
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


async def check_starting_twice_with_one_id_gives_one_run(open_host: OpenHost, home: Path) -> None:
    outside = Outside()
    async with open_host(home, [outside.effect()]) as host:
        runs = await asyncio.gather(*(host.start(ASKING, {"amount": n}, run_id="once") for n in range(10)))
        assert {run.context["amount"] for run in runs} == {0}
    async with open_host(home, [outside.effect()]) as host:
        again = await host.start(ASKING, {"amount": 99}, run_id="once")
        assert again == runs[0]
        assert len(await host.list()) == 1


async def check_a_refusal_changes_nothing(open_host: OpenHost, home: Path) -> None:
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


async def check_an_event_id_counts_once(open_host: OpenHost, home: Path) -> None:
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


async def check_an_event_id_counts_once_in_a_flood(open_host: OpenHost, home: Path) -> None:
    """More events between the two than the run itself remembers, and none of them on disk yet."""
    async with open_host(home) as host:
        run = await host.start(DOOR)
        flood = [host.signal(run.id, "OPEN", id="x")]
        for number in range(50):
            flood += [host.signal(run.id, "CLOSE", id=f"c{number}"), host.signal(run.id, "OPEN", id=f"o{number}")]
        runs = await asyncio.gather(*flood, host.signal(run.id, "OPEN", id="x"))
        assert runs[-1].seq == 102


async def check_a_duplicate_is_acknowledged_when_the_first_is_on_disk(open_host: OpenHost, home: Path) -> None:
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


async def check_an_early_signal_is_kept(open_host: OpenHost, home: Path) -> None:
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


async def check_an_answer_is_bound_to_the_call(open_host: OpenHost, home: Path) -> None:
    outside = Outside()
    async with open_host(home, [outside.effect()]) as host:
        run = await host.start(ASKING, {"amount": 7})
        (contract,) = run.waiting
        other = host.answer(run.id, contract.id, {"approved": True, "call_hash": "f" * 64})
        assert contract.call_hash[:12] in await refusal(Refused, other)
        await host.answer(run.id, contract.id, {"approved": True, "call_hash": contract.call_hash})
        assert (await host.settled(run.id)).status is Status.COMPLETED
        assert [deed.input for deed in outside.deeds] == [{"amount": 7}]


async def check_the_first_answer_wins(open_host: OpenHost, home: Path) -> None:
    outside = Outside()
    async with open_host(home, [outside.effect()]) as host:
        run = await host.start(ASKING, {"amount": 7})
        (contract,) = run.waiting
        said = [host.answer(run.id, contract.id, {"approved": n % 2 == 0, "by": f"p{n}"}) for n in range(20)]
        results = await asyncio.gather(*said, return_exceptions=True)
        accepted = [r for r in results if isinstance(r, Run)]
        assert len(accepted) == 1
        assert all(isinstance(r, NotWaiting) for r in results if not isinstance(r, Run))
        run = await host.settled(run.id)
        assert run.answers["deed"]["by"] == "p0"
        assert len(outside.deeds) == 1


async def check_a_quorum_of_different_people(open_host: OpenHost, home: Path) -> None:
    outside = Outside()
    asking = one(Action("deed", "do", ask=Question("All?", quorum=3, approvers=("a", "b", "c", "d"))))
    async with open_host(home, [outside.effect()]) as host:
        run = await host.start(asking)
        (contract,) = run.waiting
        assert (await host.answer(run.id, contract.id, {"approved": True, "by": "a"})).status is Status.WAITING
        for wrong in ("a", "z", ""):
            await refusal(Refused, host.answer(run.id, contract.id, {"approved": True, "by": wrong}))
    async with open_host(home, [outside.effect()]) as host:
        await host.answer(run.id, contract.id, {"approved": True, "by": "b"})
        assert not outside.deeds
        await host.answer(run.id, contract.id, {"approved": True, "by": "c"})
        assert (await host.settled(run.id)).status is Status.COMPLETED
        assert len(outside.deeds) == 1


async def check_a_rejection_does_nothing(open_host: OpenHost, home: Path) -> None:
    outside = Outside()
    async with open_host(home, [outside.effect()]) as host:
        run = await host.start(ASKING, {"amount": 1})
        run = await host.answer(run.id, run.waiting[0].id, {"approved": False, "by": "eve", "comment": "too much"})
        assert run.status is Status.REJECTED
        assert run.error is not None
        assert "too much" in run.error.message
        assert not outside.deeds


async def check_edited_arguments_are_what_is_done(open_host: OpenHost, home: Path) -> None:
    outside = Outside()
    async with open_host(home, [outside.effect()]) as host:
        run = await host.start(ASKING, {"amount": 1000})
        first = run.waiting[0]
        await host.answer(run.id, first.id, {"approved": True, "by": "ann", "args": {"amount": 10}})
        run = await host.settled(run.id)
        assert run.status is Status.COMPLETED
        (deed,) = outside.deeds
        assert (deed.input, deed.supersedes) == ({"amount": 10}, first.id)
        # The key of what was not done is free, the key of what was done is taken.
        other = await host.start(ASKING, {"amount": 1000})
        assert other.status is Status.WAITING
        third = await host.start(ASKING, {"amount": 10})
        assert third.waiting[0].question is not None
        assert third.waiting[0].question.earlier["run_id"] == run.id


async def check_a_question_expires_across_a_restart(open_host: OpenHost, home: Path) -> None:
    outside, clock = Outside(), HandClock()
    asking = one(Action("deed", "do", ask=Question("Quick?", expires_s=3600)))
    async with open_host(home, [outside.effect()], clock) as host:
        run = await host.start(asking)
        clock.move(3599)
        assert (await host.show(run.id)).status is Status.WAITING
    clock.move(10_000)
    async with open_host(home, [outside.effect()], clock) as host:
        assert (await host.show(run.id)).status is Status.WAITING
        await host.recover()
        clock.move(0.001)
        run = await until(host, run.id, lambda run: run.ended is not None)
        assert run.error is not None
        assert (run.status, run.error.type) == (Status.FAILED, "timeout.approval")
        assert not outside.deeds


async def check_an_answer_after_its_time_is_too_late(open_host: OpenHost, home: Path) -> None:
    """Nobody drove the run when the question expired, and whoever comes first now brings an answer."""
    outside, clock = Outside(), HandClock()
    asking = one(Action("deed", "do", ask=Question("Quick?", expires_s=3600)))
    async with open_host(home, [outside.effect()], clock) as host:
        run = await host.start(asking)
        contract_id = run.waiting[0].id
    clock.move(3600)
    async with open_host(home, [outside.effect()], clock) as host:
        said = await refusal(NotWaiting, host.answer(run.id, contract_id, {"approved": True, "by": "ann"}))
        assert said == f"the time for an answer to `{contract_id}` is over"
        run = await until(host, run.id, lambda run: run.ended is not None)
        assert run.error is not None
        assert (run.status, run.error.type, outside.deeds) == (Status.FAILED, "timeout.approval", [])


async def check_a_signal_after_the_time_for_it_is_too_late(open_host: OpenHost, home: Path) -> None:
    clock = HandClock()
    waiting = one(Action("nap", "wait", wait=Wait(events=(Await("PAID"),), timeout_s=60)))
    async with open_host(home, (), clock) as host:
        run = await host.start(waiting)
    clock.move(61)
    async with open_host(home, (), clock) as host:
        await refusal(EventRefused, host.signal(run.id, "PAID"))
        run = await until(host, run.id, lambda run: run.ended is not None)
        assert run.error is not None
        assert (run.status, run.error.type) == (Status.FAILED, "timeout.event")


async def check_an_answer_beats_its_timer(open_host: OpenHost, home: Path) -> None:
    outside, clock = Outside(), HandClock()
    asking = one(
        Action("deed", "do", ask=Question("Quick?", expires_s=60)), Action("nap", "wait", wait=Wait(duration_s=600))
    )
    async with open_host(home, [outside.effect()], clock) as host:
        run = await host.start(asking)
        await host.answer(run.id, run.waiting[0].id, {"approved": True, "by": "ann"})
        run = await until(host, run.id, lambda run: bool(run.contracts) and run.contracts[0].action == "nap")
        clock.move(61)
        assert (await host.show(run.id)).seq == run.seq
        clock.move(600)
        run = await until(host, run.id, lambda run: run.ended is not None)
        assert run.status is Status.COMPLETED


async def check_retries_with_backoff_across_a_restart(open_host: OpenHost, home: Path) -> None:
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


async def check_contracts_go_on_side_by_side(open_host: OpenHost, home: Path) -> None:
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


def parent_of(child: Machine, **fields: Any) -> Machine:
    """A machine whose one action is a run of another."""
    given = {"machine": as_data(child), "input": {"amount": "{{ context.amount }}"}}
    return one(Action("sub", "child", given), name="parent", **fields)


def as_data(machine: Machine) -> dict[str, Any]:
    """A machine as it stands in another's definition."""
    return dict(json.loads(machine.to_json()))


DOING = one(
    Action("deed", "do", {"amount": "{{ context.amount }}"}), name="doing", output={"got": "{{ result.deed.did }}"}
)


async def check_a_child_run_gives_its_output(open_host: OpenHost, home: Path) -> None:
    outside = Outside()
    async with open_host(home, [outside.effect()]) as host:
        run = await host.start(parent_of(DOING), {"amount": 3})
        run = await until(host, run.id, lambda run: run.ended is not None)
        assert run.status is Status.COMPLETED, run.error
        assert run.results["sub"]["output"] == {"got": {"amount": 3}}
        assert len(await host.list()) == 2


async def check_two_parents_may_have_equal_children(open_host: OpenHost, home: Path) -> None:
    """A child run is no irreversible deed: only what happens inside it may be."""
    outside = Outside()
    async with open_host(home, [outside.effect(kind="idempotent")]) as host:
        for _ in range(2):
            run = await host.start(parent_of(DOING), {"amount": 3})
            run = await until(host, run.id, lambda run: run.ended is not None)
            assert run.status is Status.COMPLETED, run.error


async def check_a_child_that_fails_fails_its_parent(open_host: OpenHost, home: Path) -> None:
    async def perform(contract: Contract) -> Outcome:
        raise EffectFailed("no luck")

    async with open_host(home, [effect("do")(perform)]) as host:
        run = await host.start(parent_of(DOING), {"amount": 3})
        run = await until(host, run.id, lambda run: run.ended is not None)
        assert run.error is not None
        assert (run.status, run.error.type) == (Status.FAILED, "tool_failure")
        assert "no luck" in run.error.message


async def check_a_child_that_is_rejected_rejects_its_parent(open_host: OpenHost, home: Path) -> None:
    outside = Outside()
    async with open_host(home, [outside.effect()]) as host:
        run = await host.start(parent_of(ASKING), {"amount": 3})
        child = await child_of(host, run)
        assert child.id in await refusal(Refused, host.answer(run.id, "work/sub/1", {"approved": True}))
        await host.answer(child.id, child.waiting[0].id, {"approved": False, "by": "ann"})
        run = await until(host, run.id, lambda run: run.ended is not None)
        assert run.status is Status.REJECTED


async def child_of(host: FullHost, run: Run) -> Run:
    """The child of a run, once it waits or has ended."""
    run = await until(host, run.id, lambda run: any(c.status is Status.WAITING for c in run.contracts))
    question = run.contracts[0].question
    assert question is not None
    return await host.settled(question.data["run_id"])


async def check_cancelling_a_parent_cancels_its_children(open_host: OpenHost, home: Path) -> None:
    outside = Outside()
    async with open_host(home, [outside.effect()]) as host:
        run = await host.start(parent_of(parent_of(ASKING)), {"amount": 3})
        child = await child_of(host, run)
        grandchild = await child_of(host, child)
        assert grandchild.status is Status.WAITING
        await host.cancel(run.id)
        for one_id in (run.id, child.id, grandchild.id):
            ended = await until(host, one_id, lambda run: run.ended is not None)
            assert ended.status is Status.CANCELLED
        assert not outside.deeds


async def check_cancelling_a_parent_at_once_leaves_no_orphan(open_host: OpenHost, home: Path) -> None:
    outside = Outside()
    async with open_host(home, [outside.effect()]) as host:
        for number in range(20):
            run_id = f"p{number}"
            starting = asyncio.ensure_future(host.start(parent_of(ASKING), {"amount": number}, run_id=run_id))
            for _ in range(number):  # a few turns of the loop later each time
                await asyncio.sleep(0)
            if number % 2:
                await starting
            try:
                await host.cancel(run_id)
            except Unknown:
                await starting
                await host.cancel(run_id)
            await starting
        await host.settled(run_id)
    async with open_host(home, [outside.effect()]) as host:
        await host.recover()
        for summary in await host.list():
            ended = await until(host, summary.run_id, lambda run: run.ended is not None)
            assert ended.status is Status.CANCELLED, summary
        assert not outside.deeds


async def check_grandchildren_with_long_names(open_host: OpenHost, home: Path) -> None:
    """Ids of child runs are cut; two that begin alike must still be two."""
    outside = Outside()
    long = "a" * 60
    inner = one(Action(long, "do", {"n": "{{ context.n }}"}), name="inner")
    step = {"machine": as_data(inner), "input": {"n": "{{ item }}"}}
    middle = one(
        Action("every", "branches", branches=(Branch("b", (Action(long, "child", step),)),), each="{{ [1, 2, 3] }}")
    )
    outer = one(Action(long, "child", {"machine": as_data(middle), "input": {}}))
    async with open_host(home, [outside.effect(kind="idempotent")]) as host:
        run = await host.start(outer, run_id="r" * 40)
        run = await until(host, run.id, lambda run: run.ended is not None)
        assert run.status is Status.COMPLETED, run.error
        assert sorted(deed.input["n"] for deed in outside.deeds) == [1, 2, 3]


async def check_a_child_that_ends_while_nobody_looks(open_host: OpenHost, home: Path) -> None:
    outside = Outside()
    async with open_host(home, [outside.effect()]) as host:
        run = await host.start(parent_of(ASKING), {"amount": 3})
        child = await child_of(host, run)
    async with open_host(home, [outside.effect()]) as host:
        await host.answer(child.id, child.waiting[0].id, {"approved": True, "by": "ann"})
        run = await until(host, run.id, lambda run: run.ended is not None)
        assert run.status is Status.COMPLETED


async def check_cancel_stops_effects(open_host: OpenHost, home: Path) -> None:
    stopped = asyncio.Event()
    begun = asyncio.Event()

    async def perform(contract: Contract) -> Outcome:
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


async def check_cancel_in_the_moment_of_starting(open_host: OpenHost, home: Path) -> None:
    """An irreversible call that has not left yet must not leave any more, and leaves no doubt behind."""
    outside = Outside()
    async with open_host(home, [outside.effect()]) as host:
        starting = asyncio.ensure_future(host.start(DOING, {"amount": 1}, run_id="r"))
        await asyncio.sleep(0)  # let the start be folded, not more
        run = await host.cancel("r")
        await starting
        run = await host.settled("r")
        assert run.status is Status.CANCELLED
        assert not outside.deeds
        run = await host.settled((await host.start(DOING, {"amount": 1})).id)
        assert run.status is Status.COMPLETED, "the key of what was never done must be free"


async def check_hold_and_release_across_a_restart(open_host: OpenHost, home: Path) -> None:
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


async def check_a_restart_goes_on_where_it_stopped(open_host: OpenHost, home: Path) -> None:
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


async def check_watch_tells_every_event_once(open_host: OpenHost, home: Path) -> None:
    async with open_host(home) as host:
        run = await host.start(DOOR)

        async def follow() -> list[int]:
            return [entry.seq async for entry in host.watch(run.id)]

        watchers = [asyncio.ensure_future(follow()) for _ in range(3)]
        for _ in range(150):
            await host.signal(run.id, "OPEN")
            await host.signal(run.id, "CLOSE")
        last = await host.signal(run.id, "BURN")
        for watcher in watchers:
            assert await watcher == list(range(1, last.seq + 1))
        assert [entry.seq async for entry in host.watch(run.id, after=298)] == [299, 300, 301, 302]
        assert [entry.seq async for entry in host.watch(run.id, after=302)] == []


async def check_a_watcher_that_stands_still_hides_nothing(open_host: OpenHost, home: Path) -> None:
    """Half-read events must not show the rest of the host an old journal: its once-only would be gone."""
    outside = Outside()
    async with open_host(home, [outside.effect()]) as host:
        door = await host.start(DOOR)
        for _ in range(10):
            await host.signal(door.id, "OPEN")
            await host.signal(door.id, "CLOSE")
        watching = host.watch(door.id)
        assert (await anext(watching)).seq == 1
        first = await host.settled((await host.start(DOING, {"amount": 1})).id)
        second = await host.settled((await host.start(DOING, {"amount": 1})).id)
        assert (first.status, second.status, len(outside.deeds)) == (Status.COMPLETED, Status.WAITING, 1)
        assert len(await host.list()) == 3
        assert (await anext(watching)).seq == 2
        await watching.aclose()  # type: ignore[attr-defined]


async def check_watchers_end_with_their_host(open_host: OpenHost, home: Path) -> None:
    async with open_host(home) as host:
        run = await host.start(DOOR)

        async def follow() -> int:
            return len([entry async for entry in host.watch(run.id)])

        watcher = asyncio.ensure_future(follow())
        while not watcher.done() and (await host.show(run.id)).seq < 3:
            await host.signal(run.id, "OPEN")
            await host.signal(run.id, "CLOSE")
    assert await watcher >= 1


async def check_the_list_has_filters_and_pages(open_host: OpenHost, home: Path) -> None:
    async with open_host(home) as host:
        ids = [(await host.start(DOOR, run_id=f"r{n}")).id for n in range(25)]
        for run_id in ids[:5]:
            await host.signal(run_id, "BURN")
        await host.start(one(Action("note", "log", {"message": "hi"}), name="other"))
        assert [s.run_id for s in await host.list(status=[Status.COMPLETED], name="door")] == ids[4::-1]
        assert len(await host.list(status=[Status.COMPLETED, Status.WAITING])) == 26
        assert len(await host.list(name="other")) == 1
        seen: list[str] = []
        before = 0
        while page := await host.list(name="door", limit=10, before=before):
            seen += [s.run_id for s in page]
            before = page[-1].no
        assert seen == ids[::-1]


CHECKS: dict[str, Check] = {
    name.removeprefix("check_"): check for name, check in sorted(globals().items()) if name.startswith("check_")
}
