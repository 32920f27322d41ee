"""Many runs in one process: waiting ones need no memory, active ones do not disturb each other."""

import asyncio
from pathlib import Path

from detent.core import Action, Contract, Outcome, Question, Status, effect
from detent.core.machine import Wait
from detent.host.embedded import EmbeddedHost
from detent.testing.conformance import ASKING, HandClock, Outside, one, parent_of, until


async def test_a_thousand_waiting_and_two_hundred_active_runs(tmp_path: Path) -> None:
    outside, gate = Outside(), asyncio.Event()
    at_work = 0
    all_at_work = asyncio.Event()

    async def perform(contract: Contract) -> Outcome:
        nonlocal at_work
        at_work += 1
        if at_work == 200:
            all_at_work.set()
        await gate.wait()
        return Outcome({"n": contract.input["n"]})

    slow = effect("slow", kind="irreversible")(perform)
    active = one(Action("a", "slow", {"n": "{{ context.n }}"}), name="active")
    async with EmbeddedHost(tmp_path, [outside.effect(), slow], sync="off", live_max=100) as host:
        waiting = await asyncio.gather(*(host.start(ASKING, {"amount": n}) for n in range(1000)))
        working = await asyncio.gather(*(host.start(active, {"n": n}) for n in range(200)))
        await all_at_work.wait()
        assert len(host.all_live()) < 500
        assert len(await host.list(status=[Status.WAITING], limit=2000)) == 1000
        assert len(await host.list(status=[Status.RUNNING], limit=2000)) == 200
        for run in waiting[::10]:
            await host.answer(run.id, run.waiting[0].id, {"approved": True, "by": "ann"})
        gate.set()
        ended = [await host.settled(run.id) for run in working]
        assert all(run.status is Status.COMPLETED for run in ended)
        assert [run.results["a"]["n"] for run in ended] == list(range(200))
        assert all([(await host.settled(run.id)).status is Status.COMPLETED for run in waiting[::10]])
        assert len(outside.deeds) == 100
        for number in range(20):  # what has become idle goes as others come
            await host.start(ASKING, {"amount": 5000 + number})
        assert len(host.all_live()) <= 125


async def test_runs_that_were_dropped_from_memory_come_back(tmp_path: Path) -> None:
    outside, clock = Outside(), HandClock()
    machine = one(
        Action("first", "do", {"n": "{{ context.n }}"}, ask=Question("go?")),
        Action("nap", "wait", wait=Wait(duration_s=100)),
        Action("second", "do", {"n": "{{ context.n + 1000 }}"}),
    )
    async with EmbeddedHost(tmp_path, [outside.effect()], clock=clock, sync="off", live_max=4) as host:
        runs = [await host.start(machine, {"n": n}) for n in range(50)]
        assert len(host.all_live()) <= 5
        for run in runs:
            await host.answer(run.id, run.waiting[0].id, {"approved": True, "by": "ann"})
        for run in runs:
            await until(host, run.id, lambda run: run.wake_at > 0)
        assert len(host.all_live()) <= 5
        clock.move(101)
        for run in runs:
            ended = await until(host, run.id, lambda run: run.ended is not None)
            assert ended.status is Status.COMPLETED
        assert len(outside.deeds) == 100


async def test_children_and_parents_that_were_dropped_find_each_other(tmp_path: Path) -> None:
    outside = Outside()
    async with EmbeddedHost(tmp_path, [outside.effect()], sync="off", live_max=2) as host:
        parents = [await host.start(parent_of(ASKING), {"amount": n}, run_id=f"p{n}") for n in range(20)]
        children = []
        for run in parents:
            run = await until(host, run.id, lambda run: any(c.status is Status.WAITING for c in run.contracts))  # noqa: PLW2901
            question = run.contracts[0].question
            assert question is not None
            children.append(question.data["run_id"])
        for child in children:
            run = await host.show(child)
            await host.answer(child, run.waiting[0].id, {"approved": True, "by": "ann"})
        for run in parents:
            ended = await until(host, run.id, lambda run: run.ended is not None)
            assert ended.status is Status.COMPLETED


async def test_the_busy_ones_stay_and_the_idle_ones_go(tmp_path: Path) -> None:
    outside = Outside()
    async with EmbeddedHost(
        tmp_path, [outside.effect(), outside.hanging()], sync="off", live_max=8, grace_s=0.0
    ) as host:
        busy = [await host.start(one(Action("a", "hang", {"n": n}))) for n in range(8)]
        for _ in busy:
            await outside.begun.acquire()
        for n in range(40):
            await host.start(ASKING, {"amount": n})
        live = {one.run.id for one in host.all_live()}
        assert {run.id for run in busy} <= live
        assert len(live) <= 8 + 8


async def test_timers_that_are_taken_back_do_not_pile_up(tmp_path: Path) -> None:
    outside, clock = Outside(), HandClock()
    machine = one(Action("a", "do", ask=Question("go?", expires_s=1e6)))
    async with EmbeddedHost(tmp_path, [outside.effect(scope="run")], clock=clock, sync="off") as host:
        for number in range(2000):
            run = await host.start(machine, run_id=f"r{number}")
            await host.answer(run.id, run.waiting[0].id, {"approved": False, "by": "ann"})
        assert len(host.timers._heap) < 1100
