"""A failed run is tried again on a real journal: from what failed, through deaths, with keys, yeses and children."""

from pathlib import Path
from typing import Any

import pytest

from detent.core import Action, Branch, EffectFailed, Machine, PartialFailure, Question, Run, Status, effect, table
from detent.core.contract import Contract
from detent.errors import Refused
from detent.host.embedded import EmbeddedHost
from detent.host.parts.replay import verify
from detent.testing import Story, World, crash_anywhere
from detent.testing.conformance import Outside
from tests.host.test_once import host_at

ENDS = {"done": Status.COMPLETED}
PAY = Action("pay", "pay", {"to": "bob"})


def machine(*actions: Action, **fields: Any) -> Machine:
    return Machine("m", "a", table("a - done"), {"a": actions}, ENDS, **fields)


def flaky(failures: int, kind: Any = "idempotent", **said: Any) -> tuple[Any, list[str]]:
    """An effect that fails so many times, and the calls it was given."""
    calls: list[str] = []

    @effect("shaky", kind=kind)
    async def shaky(contract: Contract) -> dict[str, Any]:
        calls.append(contract.id)
        if len(calls) <= failures:
            raise said.get("error") or EffectFailed("no route")
        return {"n": len(calls)}

    return shaky, calls


async def test_a_failed_run_goes_on_from_what_failed_also_in_another_process(tmp_path: Path) -> None:
    outside, (shaky, calls) = Outside(), flaky(1)
    async with host_at(tmp_path, outside.effect("pay"), shaky) as host:
        run = await host.settled((await host.start(machine(PAY, Action("s", "shaky")))).id)
        assert run.status is Status.FAILED
        assert [summary.error for summary in await host.list()] == [{"type": "tool_failure", "message": "no route"}]
    async with host_at(tmp_path, outside.effect("pay"), shaky) as host:
        await host.retry(run.id, by="ann")
        run = await host.settled(run.id)
        assert (run.status, calls, len(outside.deeds)) == (Status.COMPLETED, ["a/s/1", "a/s/2"], 1)
        assert [summary.error for summary in await host.list()] == [None]
        assert not verify(host.journal, run.id).problem
        with pytest.raises(Refused, match="has ended as completed"):
            await host.retry(run.id)


async def test_the_same_retry_twice_is_one(tmp_path: Path) -> None:
    shaky, calls = flaky(9)
    async with host_at(tmp_path, shaky) as host:
        run = await host.settled((await host.start(machine(Action("s", "shaky")))).id)
        for _ in range(2):
            await host.retry(run.id, id="once")
            await host.settled(run.id)
        assert len(calls) == 2


async def test_a_deed_that_may_have_happened_asks_and_one_that_did_not_is_done(tmp_path: Path) -> None:
    shaky, calls = flaky(1, "irreversible", error=PartialFailure("exit 3", "tool_failure.exit", {"exit": 3}))
    async with host_at(tmp_path, shaky) as host:
        run = await host.settled((await host.start(machine(Action("s", "shaky")))).id)
        assert run.status is Status.FAILED
        await host.retry(run.id)
        run = await host.settled(run.id)
        assert (run.status, len(calls)) == (Status.WAITING, 1)
        question = run.waiting[0].question
        assert question is not None
        assert "may already have been done" in question.text
        assert question.earlier["result"] == {"exit": 3}
        await host.answer(run.id, run.waiting[0].id, {"approved": True, "by": "ann"})
        assert (await host.settled(run.id)).status is Status.COMPLETED


async def ended(host: EmbeddedHost, run: Run) -> Run:
    """A run when it has ended, however often it waits for its children before."""
    async for entry in host.reader.follow(run.id, run.seq):
        run = entry.run
    return run


async def test_a_child_goes_on_from_what_failed_in_it(tmp_path: Path) -> None:
    outside, (shaky, calls) = Outside(), flaky(2)
    inner = Machine(
        "inner", "x", table("x - y\ny - z"), {"x": (PAY,), "y": (Action("s", "shaky"),)}, {"z": Status.COMPLETED}
    )
    parent = machine(Action("kid", "child", {"machine": "inner"}), children={"inner": inner})
    async with host_at(tmp_path, outside.effect("pay"), shaky) as host:
        run = await ended(host, await host.start(parent, run_id="top"))
        assert run.status is Status.FAILED
        (child,) = [summary.run_id for summary in await host.list() if summary.parent]
        with pytest.raises(Refused, match="was started by run top"):
            await host.retry(child)
        for status in (Status.FAILED, Status.COMPLETED):
            run = await ended(host, await host.retry("top"))
            assert run.status is status
        assert len([one for one in await host.list() if one.parent]) == 1, "no second child"
        assert (len(outside.deeds), len(calls)) == (1, 3)


def story(*actions: Action, **fields: Any) -> Story:
    return Story(machine(*actions, **fields), retries=2)


def test_a_death_anywhere_does_not_repeat_what_is_done() -> None:
    left, right = Branch("l", (PAY, Action("more", "look"))), Branch("r", (Action("s", "shaky"), Action("end", "look")))
    both = Action("both", "branches", branches=(left, right))

    def world() -> World:
        made = World(is_steady=True)
        made.effect("pay", answers=({"id": 1},))
        made.effect("look", kind="pure")
        made.effect("shaky", kind="idempotent", answers=(EffectFailed("one"), EffectFailed("two"), {}))
        return made

    def check(world: World, run: Run) -> None:
        assert run.status is Status.COMPLETED
        assert len([deed for deed in world.deeds if deed.effect == "pay"]) == 1
        assert run.results["pay"] == {"id": 1, "success": True}

    assert crash_anywhere(story(both), world, check).points > 20


def test_a_death_anywhere_asks_nobody_twice_for_the_same_yes() -> None:
    asked = Action("pay", "pay", {"to": "bob"}, ask=Question("Pay?"))

    def world() -> World:
        made = World(is_steady=True)
        made.effect("pay", answers=(EffectFailed("no route"), EffectFailed("no route"), {"id": 1}))
        return made

    def check(world: World, run: Run) -> None:
        assert run.status is Status.COMPLETED
        assert {contract_id for contract_id, said in world.answers if said.get("approved")} == {"a/pay/1"}

    assert crash_anywhere(story(asked), world, check).points > 10
