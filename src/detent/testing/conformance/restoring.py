"""What every host must do with a journal that was restored from a backup: nothing is repeated silently."""

import asyncio
from pathlib import Path
from typing import Any

from detent.core import (
    Action,
    Contract,
    Effect,
    EffectFailed,
    Machine,
    Outcome,
    Question,
    Run,
    Status,
    Transition,
    Wait,
    effect,
)
from detent.errors import Refused
from detent.testing.conformance.fixtures import HandClock, HostOpener, Outside, one, refusal

PAY = one(Action("pay", "do", {"to": "bob"}))
ASKED = one(Action("pay", "do", {"to": "bob"}, ask=Question("Pay?")), name="asked")
YES = {"approved": True, "by": "ann"}
HOUR_S = 3600.0


def gap_of(run: Run) -> dict[str, Any]:
    """What the one question of a run says of the gap."""
    (contract,) = run.waiting
    assert contract.question is not None
    assert "may have been done between" in contract.question.text
    return contract.question.earlier


def make_probed(outside: Outside, has_happened: bool) -> Effect:
    """An effect with a probe that knows what happened."""

    async def perform(contract: Contract) -> Outcome:
        outside.deeds.append(contract)
        return Outcome({"count": len(outside.deeds)})

    async def reconcile(contract: Contract) -> Outcome | None:  # noqa: ARG001
        if not has_happened:
            raise EffectFailed("the bank knows nothing of it")
        return Outcome({"count": 7})

    return effect("do", timeout_s=1.0, settle_s=0.0, reconcile=reconcile)(perform)


async def check_a_restored_journal_asks_before_a_call_it_does_not_know(open_host: HostOpener, home: Path) -> None:
    outside, clock = Outside(), HandClock()
    async with open_host(home, [outside.effect()], clock) as host:
        assert await host.mark_restored(clock.now() - HOUR_S, by="kim") == 2
        run = await host.settled((await host.start(PAY)).id)
        assert gap_of(run)["at"] == clock.now() - HOUR_S
        assert outside.deeds == []
    async with open_host(home, [outside.effect()], clock) as host:
        await host.recover()
        await host.answer(run.id, "work/pay/1", YES)
        assert (await host.settled(run.id)).status is Status.COMPLETED
    assert len(outside.deeds) == 1


async def check_what_was_done_in_the_gap_can_be_said(open_host: HostOpener, home: Path) -> None:
    outside = Outside()
    async with open_host(home, [outside.effect()], HandClock()) as host:
        await host.mark_restored(0.0)
        run = await host.settled((await host.start(PAY)).id)
        await host.answer(run.id, "work/pay/1", {"outcome": "use", "result": {"count": 3}, "by": "ann"})
        assert (await host.settled(run.id)).status is Status.COMPLETED
        again = await host.settled((await host.start(PAY)).id)
        assert again.waiting[0].question is not None
        assert again.waiting[0].question.earlier["run_id"] == run.id, "from now on the key is held by a known deed"
    assert outside.deeds == []


async def check_a_no_to_a_call_in_the_gap_leaves_its_key_free(open_host: HostOpener, home: Path) -> None:
    outside = Outside()
    async with open_host(home, [outside.effect()], HandClock()) as host:
        await host.mark_restored(0.0)
        first = await host.settled((await host.start(PAY)).id)
        await host.answer(first.id, "work/pay/1", {"approved": False, "by": "ann"})
        assert (await host.settled(first.id)).status is Status.REJECTED
        second = await host.settled((await host.start(PAY)).id)
        assert gap_of(second), "nobody holds the key, and nobody knows"
    assert outside.deeds == []


async def check_an_approval_says_what_may_have_been_done(open_host: HostOpener, home: Path) -> None:
    outside, clock = Outside(), HandClock()
    async with open_host(home, [outside.effect()], clock) as host:
        before = await host.start(ASKED)
        await host.mark_restored(clock.now() - HOUR_S)
        after = await host.start(one(Action("pay", "do", {"to": "eve"}, ask=Question("Pay?")), name="other"))
        for run_id in (before.id, after.id):
            gap_of(await host.show(run_id))
            await host.answer(run_id, "work/pay/1", YES)
            assert (await host.settled(run_id)).status is Status.COMPLETED, "one question, one answer"
    assert len(outside.deeds) == 2


async def check_a_call_that_was_under_way_in_a_backup_is_in_doubt(open_host: HostOpener, home: Path) -> None:
    outside, clock = Outside(), HandClock()
    async with open_host(home, [outside.hanging("do", settle_s=0.0)], clock) as host:
        run = await host.start(PAY)
        await outside.begun.acquire()
    clock.move(HOUR_S)
    async with open_host(home, [outside.effect(settle_s=0.0)], clock) as host:
        await host.mark_restored(clock.now() - HOUR_S)
        await host.recover()
        run = await host.settled(run.id)
        assert run.waiting[0].question is not None
        assert run.waiting[0].question.reason == "outcome_unknown"
        assert any("restored" in alarm for alarm in run.alarms)
        await host.answer(run.id, "work/pay/1", {"outcome": "not_happened", "by": "ann"})
        assert (await host.settled(run.id)).status is Status.COMPLETED, "a person has looked: that is not asked twice"
    assert len(outside.deeds) == 2


async def check_a_probe_looks_into_the_gap(open_host: HostOpener, home: Path) -> None:
    for has_happened in (False, True):
        outside, clock = Outside(), HandClock()
        place = home.with_name(f"{home.name}-{has_happened}")
        async with open_host(place, [make_probed(outside, has_happened)], clock) as host:
            await host.mark_restored(clock.now() - HOUR_S)
            clock.move(HOUR_S)
            run = await host.settled((await host.start(PAY)).id)
            assert run.status is Status.COMPLETED
            assert len(outside.deeds) == (0 if has_happened else 1)


async def check_a_probe_may_not_deny_what_can_still_land(open_host: HostOpener, home: Path) -> None:
    outside, clock = Outside(), HandClock()
    slow = make_probed(outside, False)
    slow = effect("do", timeout_s=HOUR_S, reconcile=slow.reconcile)(slow.perform)
    async with open_host(home, [slow], clock) as host:
        await host.mark_restored(clock.now() - HOUR_S)
        run = await host.settled((await host.start(PAY)).id)
        assert gap_of(run)
    assert outside.deeds == []


async def check_what_was_planned_for_later_is_not_asked_about(open_host: HostOpener, home: Path) -> None:
    machine = Machine(
        "later",
        "work",
        transitions=(Transition("work", "done"),),
        work={"work": (Action("rest", "wait", wait=Wait(duration_s=2 * HOUR_S)), Action("pay", "do", {"to": "bob"}))},
        ends={"done": Status.COMPLETED},
    )
    outside, clock = Outside(), HandClock()
    async with open_host(home, [outside.effect()], clock) as host:
        run = await host.start(machine)
    clock.move(HOUR_S)
    async with open_host(home, [outside.effect()], clock) as host:
        await host.mark_restored(clock.now() - HOUR_S)
        await host.recover()
        clock.move(2 * HOUR_S)
        async for entry in host.watch(run.id):
            if entry.run.ended is not None:
                break
        assert entry.run.status is Status.COMPLETED
    assert len(outside.deeds) == 1


async def check_a_closed_gap_asks_nothing(open_host: HostOpener, home: Path) -> None:
    outside, clock = Outside(), HandClock()
    async with open_host(home, [outside.effect()], clock) as host:
        await host.mark_restored(clock.now() - HOUR_S, by="kim")
        (record,) = await host.list(name="restored")
        for verb in (host.cancel(record.run_id), host.signal(record.run_id, "CLOSE")):
            assert "--close-gap" in await refusal(Refused, verb)
        assert await host.close_gap(by="kim", comment="looked at the bank") == (record.run_id,)
        run = await host.settled((await host.start(PAY)).id)
        assert run.status is Status.COMPLETED
    async with open_host(home, [outside.effect()], clock) as host:
        again = await host.settled((await host.start(one(Action("pay", "do", {"to": "eve"})))).id)
        assert again.status is Status.COMPLETED
    assert len(outside.deeds) == 2


async def check_forgetting_frees_no_key(open_host: HostOpener, home: Path) -> None:
    """Neither `prune` nor time gives back the key of a deed that was done, or may have been."""

    async def lose(contract: Contract) -> Outcome:
        outside.deeds.append(contract)
        raise TimeoutError

    outside, clock = Outside(), HandClock()
    lost, pure = effect("lose", settle_s=0.0)(lose), outside.effect("look", "pure")
    doubted = one(Action("pay", "lose", {"to": "eve"}), name="doubted")
    async with open_host(home, [outside.effect(), lost, pure], clock) as host:
        done = await host.settled((await host.start(PAY)).id)
        left = await host.settled((await host.start(doubted)).id)
        await host.answer(left.id, "work/pay/1", {"outcome": "give_up", "by": "ann"})
        await host.settled(left.id)
        looked = await host.settled((await host.start(one(Action("look", "look")))).id)
        clock.move(1000 * HOUR_S)
        pruned = await host.prune(clock.now(), by="kim")
        assert [one["run_id"] for one in pruned["pruned"]] == [looked.id]
    async with open_host(home, [outside.effect(), lost, pure], clock) as host:
        for machine, first in ((PAY, done), (doubted, left)):
            again = await host.settled((await host.start(machine)).id)
            assert again.waiting[0].question is not None
            assert again.waiting[0].question.earlier["run_id"] == first.id
    assert len(outside.deeds) == 3
    await asyncio.sleep(0)
