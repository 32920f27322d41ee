"""Children: runs that runs start, and what becomes of one when the other ends."""

import asyncio
from pathlib import Path

from detent.core import (
    Action,
    Branch,
    Contract,
    EffectFailed,
    Outcome,
    Run,
    Status,
    effect,
)
from detent.errors import Refused, Unknown
from detent.host.port import Host
from detent.testing.conformance.fixtures import (
    ASKING,
    DOING,
    HostOpener,
    Outside,
    as_data,
    one,
    parent_of,
    refusal,
    until,
)


async def check_a_child_run_gives_its_output(open_host: HostOpener, home: Path) -> None:
    outside = Outside()
    async with open_host(home, [outside.effect()]) as host:
        run = await host.start(parent_of(DOING), {"amount": 3})
        run = await until(host, run.id, lambda run: run.ended is not None)
        assert run.status is Status.COMPLETED, run.error
        assert run.results["sub"]["output"] == {"got": {"amount": 3}}
        assert len(await host.list()) == 2


async def check_two_parents_may_have_equal_children(open_host: HostOpener, home: Path) -> None:
    """A child run is no irreversible deed: only what happens inside it may be."""
    outside = Outside()
    async with open_host(home, [outside.effect(kind="idempotent")]) as host:
        for _ in range(2):
            run = await host.start(parent_of(DOING), {"amount": 3})
            run = await until(host, run.id, lambda run: run.ended is not None)
            assert run.status is Status.COMPLETED, run.error


async def check_a_child_that_fails_fails_its_parent(open_host: HostOpener, home: Path) -> None:
    async def perform(_: Contract) -> Outcome:
        raise EffectFailed("no luck")

    async with open_host(home, [effect("do")(perform)]) as host:
        run = await host.start(parent_of(DOING), {"amount": 3})
        run = await until(host, run.id, lambda run: run.ended is not None)
        assert run.error is not None
        assert (run.status, run.error.type) == (Status.FAILED, "tool_failure")
        assert "no luck" in run.error.message


async def check_a_child_that_is_rejected_rejects_its_parent(open_host: HostOpener, home: Path) -> None:
    outside = Outside()
    async with open_host(home, [outside.effect()]) as host:
        run = await host.start(parent_of(ASKING), {"amount": 3})
        child = await child_of(host, run)
        assert child.id in await refusal(Refused, host.answer(run.id, "work/sub/1", {"approved": True}))
        await host.answer(child.id, child.waiting[0].id, {"approved": False, "by": "ann"})
        run = await until(host, run.id, lambda run: run.ended is not None)
        assert run.status is Status.REJECTED


async def child_of(host: Host, run: Run) -> Run:
    """The child of a run, once it waits or has ended."""
    run = await until(host, run.id, lambda run: any(c.status is Status.WAITING for c in run.contracts))
    question = run.contracts[0].question
    assert question is not None
    return await host.settled(question.data["run_id"])


async def check_cancelling_a_parent_cancels_its_children(open_host: HostOpener, home: Path) -> None:
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


async def check_cancelling_a_parent_at_once_leaves_no_orphan(open_host: HostOpener, home: Path) -> None:
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


async def check_grandchildren_with_long_names(open_host: HostOpener, home: Path) -> None:
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


async def check_a_child_that_ends_while_nobody_looks(open_host: HostOpener, home: Path) -> None:
    outside = Outside()
    async with open_host(home, [outside.effect()]) as host:
        run = await host.start(parent_of(ASKING), {"amount": 3})
        child = await child_of(host, run)
    async with open_host(home, [outside.effect()]) as host:
        await host.answer(child.id, child.waiting[0].id, {"approved": True, "by": "ann"})
        run = await until(host, run.id, lambda run: run.ended is not None)
        assert run.status is Status.COMPLETED
