"""Attempts share tasks and do not notice: no context leaks, nobody waits for a slow one, the loop has its turns."""

import asyncio
import contextvars
from pathlib import Path

import pytest

from detent import Action, Contract, Machine, Outcome, Status, Transition, effect
from detent.host.embedded import EmbeddedHost

NAME: contextvars.ContextVar[str] = contextvars.ContextVar("NAME", default="")


def steps(count: int, name: str) -> Machine:
    """That many states, each of which calls the effect of that name."""
    rows = tuple(Transition(f"s{i}", f"s{i + 1}") for i in range(count))
    work: dict[str, tuple[Action, ...]] = {f"s{i}": (Action("step", name),) for i in range(count)}
    return Machine(name="steps", initial="s0", transitions=rows, work=work, ends={f"s{count}": Status.COMPLETED})


async def test_what_an_effect_does_to_its_context_no_other_attempt_sees(tmp_path: Path) -> None:
    seen: list[str] = []

    @effect("mark", kind="pure")
    async def mark(contract: Contract) -> Outcome:
        seen.append(NAME.get())
        NAME.set(contract.id)
        return Outcome()

    async with EmbeddedHost(tmp_path, [mark]) as host:
        runs = [await host.start(steps(5, "mark")) for _ in range(3)]
        for run in runs:
            assert (await host.settled(run.id)).status is Status.COMPLETED
    assert seen == [""] * 15


async def test_an_attempt_that_takes_its_time_holds_up_nobody(tmp_path: Path) -> None:
    gate = asyncio.Event()

    @effect("slow", kind="pure")
    async def slow(contract: Contract) -> Outcome:
        await gate.wait()
        return Outcome()

    @effect("quick", kind="pure")
    async def quick(contract: Contract) -> Outcome:
        return Outcome()

    async with EmbeddedHost(tmp_path, [slow, quick]) as host:
        started = await asyncio.gather(
            *(host.start(steps(3, name)) for name in ("quick", "slow", "quick", "slow", "slow", "quick"))
        )
        for run in [*started[::5], started[2]]:
            assert (await host.settled(run.id)).status is Status.COMPLETED
        assert [(await host.show(started[n].id)).status for n in (1, 3, 4)] == [Status.RUNNING] * 3
        gate.set()
        for run in started:
            assert (await host.settled(run.id)).status is Status.COMPLETED


async def test_a_long_row_of_instant_steps_leaves_the_loop_its_turns(tmp_path: Path) -> None:
    turns = most = since = 0

    @effect("noop", kind="pure")
    async def noop(contract: Contract) -> Outcome:
        nonlocal most, since
        since += 1
        most = max(most, since)
        return Outcome()

    async def other() -> None:
        nonlocal turns, since
        while True:
            turns += 1
            since = 0
            await asyncio.sleep(0)

    async with EmbeddedHost(tmp_path, [noop]) as host:
        ticking = asyncio.create_task(other())
        run = await host.settled((await host.start(steps(400, "noop"))).id)
        ticking.cancel()
    assert run.status is Status.COMPLETED
    assert turns > 5
    assert most < 100, "however quick the steps are, the loop comes round"


@pytest.mark.parametrize("is_cancelled", [True, False])
async def test_a_task_that_was_cancelled_is_not_used_again(is_cancelled: bool, tmp_path: Path) -> None:
    at_work = asyncio.Event()

    @effect("endless", kind="pure", timeout_s=0.01)
    async def endless(contract: Contract) -> Outcome:
        at_work.set()
        await asyncio.Event().wait()
        return Outcome()

    @effect("quick", kind="pure")
    async def quick(contract: Contract) -> Outcome:
        task = asyncio.current_task()
        assert task is not None
        return Outcome({"cancelling": task.cancelling()})

    machine = Machine(
        name="after",
        initial="a",
        transitions=(Transition("a", "b", error="timeout"), Transition("a", "b"), Transition("b", "c")),
        work={"a": (Action("first", "endless"),), "b": (Action("second", "quick"),)},
        ends={"c": Status.COMPLETED},
    )
    async with EmbeddedHost(tmp_path, [endless, quick]) as host:
        run = await host.start(machine)
        if is_cancelled:
            other = await host.start(steps(1, "endless"))
            await at_work.wait()
            await host.cancel(other.id)
            assert (await host.settled(other.id)).status is Status.CANCELLED
        done = await host.settled(run.id)
    assert done.status is Status.COMPLETED
    assert done.results["second"] == {"cancelling": 0, "success": True}
