"""Rates that all runs share, and probes that a definition names."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from detent.core import Action, Contract, Outcome, Run, Status, effect
from detent.core.machine import Probe
from detent.testing.conformance.fixtures import HandClock, HostOpener, Outside, one, until

PACED = one(Action("deed", "do", {}, "pure", rate=2, per_s=60.0, pace="tool do", is_shared=True), name="paced")
PROBED = one(
    Action(
        "deed", "hang", {"n": "{{ context.n }}"}, probe=Probe("ask_bank", {"n": "{{ context.n }}"}), on_repeat="allow"
    ),
    name="probed",
)


async def _pump(clock: HandClock, awaited: Coroutine[Any, Any, Run]) -> Run:
    """Wait for something while what is due now rings: a host may set an alarm a moment after its verb has returned."""
    task = asyncio.ensure_future(awaited)
    while not task.done():
        clock.move(0)
        await asyncio.sleep(0.005)  # others have threads of their own
    return task.result()


async def check_a_rate_of_all_runs_holds_through_a_restart(open_host: HostOpener, home: Path) -> None:
    outside, clock = Outside(), HandClock()
    began = clock.now()
    async with open_host(home, [outside.effect(kind="pure")], clock) as host:
        runs = [f"paced-{number}" for number in range(5)]
        for run_id in runs:  # one after the other: who asks first has the first slot
            await host.start(PACED, run_id=run_id)
            await _pump(clock, until(host, run_id, lambda run: not any(c.pace for c in run.contracts)))
        for run_id in runs[:2]:
            await _pump(clock, host.settled(run_id))
        left = [await host.show(run_id) for run_id in runs[2:]]
        assert all(contract.due_at > began for run in left for contract in run.contracts)
        assert len(outside.deeds) == 2
    async with open_host(home, [outside.effect(kind="pure")], clock) as host:
        await host.recover()
        clock.move(59)
        assert len(outside.deeds) == 2
        clock.move(2.1)
        for run_id in runs[2:4]:
            assert (await _pump(clock, host.settled(run_id))).ended is Status.COMPLETED
        assert len(outside.deeds) == 4
        clock.move(61.1)
        assert (await _pump(clock, host.settled(runs[4]))).ended is Status.COMPLETED
        assert len(outside.deeds) == 5


async def check_a_rate_holds_after_an_absence(open_host: HostOpener, home: Path) -> None:
    outside, clock = Outside(), HandClock()
    effects = [outside.effect(kind="pure"), outside.hanging(kind="pure")]
    again = one(Action("deed", "hang", {}, "pure", rate=2, per_s=60.0, pace="tool do", is_shared=True), name="again")
    runs = [f"paced-{number}" for number in range(7)]
    async with open_host(home, effects, clock) as host:
        for number, run_id in enumerate(runs):
            await host.start(PACED if number else again, run_id=run_id)
            await _pump(clock, until(host, run_id, lambda run: not any(c.pace for c in run.contracts)))
        await _pump(clock, host.settled(runs[1]))
        await outside.begun.acquire()
    clock.move(1_000)
    async with open_host(home, effects, clock) as host:
        await host.recover()  # five are late, and one had begun and is begun again
        for count in (4, 6, 8):
            while len(outside.deeds) < count:
                clock.move(0)
                await asyncio.sleep(0.005)  # others have threads of their own
            for _ in range(20):
                clock.move(0)
                await asyncio.sleep(0.01)
            assert len(outside.deeds) == count
            clock.move(61.1)
        for run_id in runs[1:]:
            assert (await _pump(clock, host.settled(run_id))).ended is Status.COMPLETED


async def check_a_probe_of_the_definition_says_what_came_of_a_call(open_host: HostOpener, home: Path) -> None:
    outside, clock = Outside(), HandClock()
    said: dict[int, dict[str, object]] = {1: {"happened": True, "receipt": 7}, 2: {"happened": None}}

    @effect("ask_bank", kind="pure")
    async def ask_bank(contract: Contract) -> Outcome:
        return Outcome(said[int(contract.input["n"])])

    effects = [outside.hanging(settle_s=0.0), ask_bank]
    async with open_host(home, effects, clock) as host:
        runs = [(await host.start(PROBED, {"n": number})).id for number in said]
        for _ in runs:
            await outside.begun.acquire()
    async with open_host(home, effects, clock) as host:
        await host.recover()
        first = await host.settled(runs[0])
        assert (first.ended, first.results["deed"]["receipt"]) == (Status.COMPLETED, 7)
        second = await host.settled(runs[1])
        assert second.waiting[0].question is not None
        assert second.waiting[0].question.reason == "outcome_unknown", "it could not tell, so a person is asked"
        assert len(outside.deeds) == 2
