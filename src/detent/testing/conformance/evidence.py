"""What every host must believe, and what not: doubts, repeats and late evidence, for any way to open a host."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from detent.core import (
    Action,
    Contract,
    Effect,
    EffectFailed,
    Outcome,
    PartialFailure,
    Question,
    Retry,
    Run,
    Status,
    StillRunning,
    Transition,
    effect,
)
from detent.errors import NotWaiting, Refused
from detent.testing.conformance.fixtures import HandClock, HostOpener, Outside, one, until

PAY = one(Action("pay", "do", {"to": "bob"}))
AGAIN = {"approved": True, "by": "ann"}
USE = {"outcome": "use", "by": "ann"}
STOP = {"approved": False, "by": "ann"}
NOT = {"outcome": "not_happened", "by": "ann"}


def failing(outside: Outside, *errors: BaseException, **declared: Any) -> Effect:
    """An effect that does what it is asked and then fails, once with each of these; afterwards it says so."""
    left = list(errors)

    async def perform(contract: Contract) -> Outcome:
        outside.deeds.append(contract)
        if left:
            raise left.pop(0)
        return Outcome({"count": len(outside.deeds)})

    return effect("do", settle_s=0.0, **declared)(perform)


def earlier_of(run: Run) -> dict[str, Any]:
    (contract,) = run.waiting
    assert contract.question is not None
    return contract.question.earlier


def reason_of(run: Run) -> str:
    (contract,) = run.waiting
    return contract.question.reason if contract.question is not None else ""


EXCEPTIONS: list[Callable[[], BaseException]] = [
    RuntimeError, ConnectionRefusedError, TimeoutError, KeyError, MemoryError, asyncio.CancelledError, SystemExit,
]  # fmt: skip


async def check_no_exception_after_a_deed_leads_to_a_second_one(open_host: HostOpener, home: Path) -> None:
    outside = Outside()
    retried = Action("pay", "do", {"to": "{{ context.to }}"}, retry=Retry(limit=3, delay_s=0))
    async with open_host(home, [failing(outside, *(make() for make in EXCEPTIONS))]) as host:
        for number, _ in enumerate(EXCEPTIONS, 1):
            first = await host.settled((await host.start(one(retried), {"to": number})).id)
            assert reason_of(first) == "outcome_unknown"
            second = await host.settled((await host.start(one(retried), {"to": number})).id)
            assert second.error is not None
            assert (second.error.type, len(outside.deeds)) == ("key_held", number)


async def check_an_effects_own_word_frees_the_key_and_may_be_retried(open_host: HostOpener, home: Path) -> None:
    calls: list[str] = []

    async def perform(contract: Contract) -> Outcome:
        calls.append(contract.id)
        if len(calls) < 3:
            raise EffectFailed("the line is busy; nothing was sent")
        return Outcome({})

    machine = one(Action("pay", "do", {"to": "bob"}, retry=Retry(limit=3, delay_s=0)))
    async with open_host(home, [effect("do")(perform)]) as host:
        run = await host.settled((await host.start(machine)).id)
        assert (run.status, len(calls)) == (Status.COMPLETED, 3)


async def check_a_partial_failure_goes_on_and_its_key_stays(open_host: HostOpener, home: Path) -> None:
    outside = Outside()
    broken = PartialFailure("exit code 7", "tool_failure.exit", {"exit": 7})
    machine = one(Action("pay", "do", {"to": "bob"}, retry=Retry(limit=3, delay_s=0)))
    async with open_host(home, [failing(outside, broken)]) as host:
        first = await host.settled((await host.start(PAY)).id)
        assert first.error is not None
        assert (first.status, first.error.type) == (Status.FAILED, "tool_failure.exit")
    async with open_host(home, [failing(outside, broken)]) as host:
        second = await host.settled((await host.start(machine)).id)
        told = earlier_of(second)
        assert (told["run_id"], told["status"], told["result"]["exit"]) == (first.id, "possible", 7)
        assert len(outside.deeds) == 1
        await host.answer(second.id, "work/pay/1", AGAIN)
        second = await host.settled(second.id)  # it fails as well, and its retry does not begin by itself
        told = earlier_of(second)
        assert (told["run_id"], told["contract_id"], len(outside.deeds)) == (second.id, "work/pay/1", 2)
        await host.answer(second.id, "work/pay/2", AGAIN)
        assert (await host.settled(second.id)).status is Status.COMPLETED
        assert len(outside.deeds) == 3


async def check_a_state_entered_again_asks_about_a_possible_deed(open_host: HostOpener, home: Path) -> None:
    outside = Outside()
    again = Transition("work", "work", error="tool_failure", is_retry=True)
    machine = one(Action("pay", "do", {"to": "bob"}))
    machine = type(machine)(machine.name, "work", (*machine.transitions, again), machine.work, machine.ends)
    async with open_host(home, [failing(outside, PartialFailure("cut off"))]) as host:
        run = await host.settled((await host.start(machine)).id)
        assert (earlier_of(run)["status"], len(outside.deeds)) == ("possible", 1)
        await host.answer(run.id, run.waiting[0].id, {**USE, "result": {"found": 1}})
        run = await host.settled(run.id)
        assert (run.status, run.results["pay"]["found"], len(outside.deeds)) == (Status.COMPLETED, 1, 1)


async def check_a_deed_of_another_run_is_a_question(open_host: HostOpener, home: Path) -> None:
    outside = Outside()
    async with open_host(home, [outside.effect()]) as host:
        first = await host.settled((await host.start(PAY)).id)
        runs = [await host.settled((await host.start(PAY)).id) for _ in range(3)]
        assert all(earlier_of(run)["run_id"] == first.id for run in runs)
        assert earlier_of(runs[0])["result"] == {"did": {"to": "bob"}, "count": 1}
    async with open_host(home, [outside.effect()]) as host:  # the question survives a restart
        again, use, stop = (run.id for run in runs)
        await host.answer(use, "work/pay/1", USE)
        used = await host.settled(use)
        assert (used.status, used.results["pay"]["count"], len(outside.deeds)) == (Status.COMPLETED, 1, 1)
        await host.answer(stop, "work/pay/1", STOP)
        assert (await host.settled(stop)).status is Status.REJECTED
        await host.answer(again, "work/pay/1", AGAIN)
        assert (await host.settled(again)).status is Status.COMPLETED
        assert len(outside.deeds) == 2
        last = await host.settled((await host.start(PAY)).id)
        assert earlier_of(last)["run_id"] == again, "the claim has gone over to whoever did it last"


async def check_of_two_who_want_it_again_each_is_asked_about_the_other(open_host: HostOpener, home: Path) -> None:
    outside = Outside()
    async with open_host(home, [outside.effect()]) as host:
        await host.settled((await host.start(PAY)).id)
        one_, other = [await host.settled((await host.start(PAY)).id) for _ in range(2)]
        await host.answer(one_.id, "work/pay/1", AGAIN)
        await host.settled(one_.id)
        await host.answer(other.id, "work/pay/1", AGAIN)
        asked = await host.settled(other.id)
        assert earlier_of(asked)["run_id"] == one_.id, "the yes was given before somebody else did it"
        assert len(outside.deeds) == 2


async def check_an_approval_and_a_repeat_are_one_question(open_host: HostOpener, home: Path) -> None:
    outside, clock = Outside(), HandClock()
    asking = one(Action("pay", "do", {"to": "bob"}, ask=Question("Pay bob?", approvers=("ann",), expires_s=60)))
    async with open_host(home, [outside.effect()], clock) as host:
        await host.settled((await host.start(PAY)).id)
        run = await host.start(asking)
        (contract,) = run.waiting
        assert contract.question is not None
        assert "Pay bob?" in contract.question.text
        assert contract.question.earlier["status"] == "completed"
        with pytest.raises(Refused):
            await host.answer(run.id, contract.id, {"approved": True, "by": "eve"})
        await host.answer(run.id, contract.id, AGAIN)
        assert (await host.settled(run.id)).status is Status.COMPLETED
        assert len(outside.deeds) == 2
        late = await host.start(asking)
        clock.move(61)
        late = await until(host, late.id, lambda run: run.ended is not None)
        assert late.error is not None
        assert (late.error.type, len(outside.deeds)) == ("already_done", 2)


async def check_on_repeat_decides_beforehand(open_host: HostOpener, home: Path) -> None:
    outside = Outside()
    async with open_host(home, [outside.effect()]) as host:
        await host.settled((await host.start(PAY)).id)
        wanted: dict[Any, tuple[Status, int]] = {
            "refuse": (Status.REJECTED, 1),
            "reuse": (Status.COMPLETED, 1),
            "allow": (Status.COMPLETED, 2),
            "ask": (Status.WAITING, 2),
        }
        for wish, expected in wanted.items():
            machine = one(Action("pay", "do", {"to": "bob"}, on_repeat=wish))
            run = await host.settled((await host.start(machine)).id)
            assert (run.status, len(outside.deeds)) == expected, wish


async def check_nothing_allows_a_possible_deed_beforehand(open_host: HostOpener, home: Path) -> None:
    outside = Outside()
    async with open_host(home, [failing(outside, PartialFailure("cut off"))]) as host:
        await host.settled((await host.start(PAY)).id)
        for wish in ("allow", "reuse"):
            machine = one(Action("pay", "do", {"to": "bob"}, on_repeat=wish))
            run = await host.settled((await host.start(machine)).id)
            assert (earlier_of(run)["status"], len(outside.deeds)) == ("possible", 1)


async def check_a_run_does_not_repeat_its_own_deed(open_host: HostOpener, home: Path) -> None:
    outside = Outside()
    machine = one(Action("pay", "do", {"to": "bob"}), Action("again", "do", {"to": "bob"}))
    async with open_host(home, [outside.effect()]) as host:
        run = await host.settled((await host.start(machine)).id)
        assert run.error is not None
        assert (run.status, run.error.type, len(outside.deeds)) == (Status.REJECTED, "already_done", 1)


async def check_a_no_counts_only_when_nothing_can_land_any_more(open_host: HostOpener, home: Path) -> None:
    outside, clock = Outside(), HandClock()

    async def perform(contract: Contract) -> Outcome:
        outside.deeds.append(contract)
        if len(outside.deeds) == 1:
            raise ConnectionResetError
        return Outcome({})

    lost = effect("do", timeout_s=500.0)(perform)
    async with open_host(home, [lost], clock) as host:
        run = await host.settled((await host.start(PAY)).id)
        (contract,) = run.waiting
        assert contract.question is not None
        assert contract.question.data["lands_until"] == clock.now() + 500
        with pytest.raises(Refused, match="may still land"):
            await host.answer(run.id, contract.id, NOT)
    async with open_host(home, [lost], clock) as host:
        clock.move(501)
        await host.answer(run.id, contract.id, NOT)
        assert (await host.settled(run.id)).status is Status.COMPLETED
        assert len(outside.deeds) == 2


def lingering(outside: Outside, finish: "asyncio.Future[Any]") -> Effect:
    """An effect that is given up, goes on, and says later what came of it."""

    async def late() -> Any:
        return await finish

    async def perform(contract: Contract) -> Outcome:
        outside.deeds.append(contract)
        if len(outside.deeds) == 1:
            raise StillRunning("it cannot be stopped", late())
        return Outcome({"count": len(outside.deeds)})

    return effect("do", settle_s=0.0)(perform)


async def check_late_evidence_settles_a_doubt(open_host: HostOpener, home: Path) -> None:
    outside = Outside()
    finish: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    async with open_host(home, [lingering(outside, finish)]) as host:
        run = await host.settled((await host.start(PAY)).id)
        assert reason_of(run) == "outcome_unknown"
        with pytest.raises(Refused, match="still goes on"):
            await host.answer(run.id, run.waiting[0].id, NOT)
        finish.set_result({"receipt": 9})
        run = await until(host, run.id, lambda run: run.ended is not None)
        assert (run.status, run.results["pay"]["receipt"]) == (Status.COMPLETED, 9)
        with pytest.raises(NotWaiting):
            await host.answer(run.id, "work/pay/1", NOT)
        assert (len(outside.deeds), run.alarms) == (1, ())


async def check_late_evidence_that_nothing_happened_fails_the_contract(open_host: HostOpener, home: Path) -> None:
    outside = Outside()
    finish: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    async with open_host(home, [lingering(outside, finish)]) as host:
        run = await host.settled((await host.start(PAY)).id)
        finish.set_exception(EffectFailed("no such account"))
        run = await until(host, run.id, lambda run: run.ended is not None)
        assert run.error is not None
        assert (run.status, run.error.message) == (Status.FAILED, "no such account")
        assert (await host.settled((await host.start(PAY)).id)).status is Status.COMPLETED, "its key is free"


async def check_late_evidence_after_somebody_gave_up_is_kept(open_host: HostOpener, home: Path) -> None:
    outside = Outside()
    finish: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    async with open_host(home, [lingering(outside, finish)]) as host:
        run = await host.settled((await host.start(PAY)).id)
        run = await host.answer(run.id, run.waiting[0].id, {"outcome": "give_up", "by": "ann"})
        seq = run.seq
        second = await host.settled((await host.start(PAY)).id)
        with pytest.raises(Refused, match="still goes on"):
            await host.answer(second.id, "work/pay/1", AGAIN)
        finish.set_result({"receipt": 9})
        for _ in range(1000):  # nobody watches an ended run
            run = await host.show(run.id)
            if run.seq > seq:
                break
            await asyncio.sleep(0)
        (alarm,) = run.alarms
        assert (run.status, "gave up" in alarm) == (Status.FAILED, True), "nobody did it twice, and nobody found out"
        third = await host.settled((await host.start(PAY)).id)
        assert earlier_of(third)["result"] == {"receipt": 9}, "what was found out late is told"
