"""A Python function that cannot be stopped: given up, it goes on, and what comes of it is evidence. Real threads."""

import asyncio
import contextlib
import importlib
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from detent.core import Action, ContractMoved, Machine, Retry, Run, Status
from detent.effects import builtin
from detent.errors import Refused
from detent.host.embedded import EmbeddedHost
from detent.host.parts.replay import entries
from detent.testing.conformance import HandClock, one, until

LIMIT_S, LANDS_S = 30.0, 600.0
CALL = {"function": "late_functions:pay", "args": {"to": "bob"}}
PAY = one(Action("pay", "python", CALL, kind="irreversible", timeout_s=LIMIT_S))
NOT = {"outcome": "not_happened", "by": "ann"}
SOURCE = """
import threading
from detent import EffectFailed, PartialFailure

begun, go = threading.Semaphore(0), threading.Semaphore(0)
deeds, ends = [], []

def pay(to):
    begun.release()
    go.acquire()
    end = ends.pop(0) if ends else "paid"
    if end == "refused":
        raise EffectFailed("no such account")
    deeds.append(to)
    if end == "half":
        raise PartialFailure("booked, but not sent", "tool_failure.half", {"booked": True})
    if end == "broken":
        raise KeyError("receipt")
    return {"receipt": len(deeds)}
"""


class Bank:
    """The functions, and the host that calls them: a call is begun, goes on when it is let, and ends as it is told."""

    def __init__(self, host: EmbeddedHost, clock: HandClock, functions: Any) -> None:
        self.host, self.clock, self.functions = host, clock, functions

    @property
    def deeds(self) -> int:
        return len(self.functions.deeds)

    async def begin(self, machine: Machine = PAY) -> Run:
        """A run whose function is at work."""
        run = await self.host.start(machine)
        assert await asyncio.to_thread(self.functions.begun.acquire, timeout=60)
        return run

    async def give_up(self, run: Run) -> Run:
        """Let its time be over; the question whether it happened is put."""
        self.clock.move(LIMIT_S + 1)
        run = await until(self.host, run.id, lambda run: bool(run.waiting))
        (contract,) = run.waiting
        assert contract.question is not None
        assert contract.question.reason == "outcome_unknown"
        assert contract.question.data["lands_until"] == pytest.approx(self.clock.now() + LANDS_S, abs=1)
        return run

    def let_go(self, end: str = "paid") -> None:
        """Let one call go on to this end."""
        self.functions.ends.append(end)
        self.functions.go.release()

    async def answer(self, run: Run, said: dict[str, Any]) -> Run:
        await self.host.answer(run.id, "work/pay/1", said)
        return await self.host.settled(run.id)

    def says(self, run: Run) -> list[tuple[str, str]]:
        """Who moved the contract, and how, as the journal has it."""
        moved = [entry.event for entry in entries(self.host.journal, run.id)]
        return [(event.actor, event.trigger) for event in moved if isinstance(event, ContractMoved)]


@pytest.fixture
def functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    (tmp_path / "late_functions.py").write_text(SOURCE, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    functions: Any = importlib.import_module("late_functions")
    yield functions
    for _ in range(10):
        functions.go.release()  # nobody stays behind
    sys.modules.pop("late_functions", None)


Open = Callable[[], contextlib.AbstractAsyncContextManager[Bank]]


@pytest.fixture
def bank(tmp_path: Path, functions: Any) -> Open:
    clock = HandClock()

    @contextlib.asynccontextmanager
    async def opened() -> AsyncIterator[Bank]:
        async with EmbeddedHost(tmp_path / "home", builtin(), sync="off", clock=clock, grace_s=0.0) as host:
            yield Bank(host, clock, functions)

    return opened


async def test_a_call_that_ends_after_its_time_answers_the_question_itself(bank: Open) -> None:
    async with bank() as at:
        run = await at.give_up(await at.begin())
        at.let_go()
        run = await until(at.host, run.id, lambda run: run.ended is not None)
        assert (run.status, run.results["pay"]["receipt"]) == (Status.COMPLETED, 1)
        assert at.says(run)[-1] == ("evidence", "resume")
        assert (at.deeds, run.alarms) == (1, ())
        again = await at.host.settled((await at.host.start(PAY)).id)
        assert again.waiting[0].question.earlier["result"] == {"receipt": 1}  # type: ignore[union-attr]


async def test_a_call_that_says_late_that_nothing_happened_fails_and_frees_its_key(bank: Open) -> None:
    async with bank() as at:
        run = await at.give_up(await at.begin())
        at.let_go("refused")
        run = await until(at.host, run.id, lambda run: run.ended is not None)
        assert run.error is not None
        assert (run.status, run.error.message, at.deeds) == (Status.FAILED, "no such account", 0)
        assert at.says(run)[-1] == ("evidence", "resume")
        second = await at.begin()
        at.let_go()
        second = await at.host.settled(second.id)
        assert (second.status, at.deeds) == (Status.COMPLETED, 1)


async def test_a_call_that_fails_late_on_its_way_ends_the_doubt_and_keeps_its_key(bank: Open) -> None:
    async with bank() as at:
        run = await at.give_up(await at.begin())
        at.let_go("half")
        run = await until(at.host, run.id, lambda run: run.ended is not None)
        assert run.error is not None
        assert (run.status, run.error.type) == (Status.FAILED, "tool_failure.half")
        second = await at.host.settled((await at.host.start(PAY)).id)
        assert second.waiting[0].question.earlier["status"] == "possible"  # type: ignore[union-attr]
        assert at.deeds == 1


async def test_a_call_that_raises_late_leaves_the_question_to_a_person(bank: Open) -> None:
    async with bank() as at:
        run = await at.give_up(await at.begin())
        at.let_go("broken")
        while at.host.attempts.doubts.is_lingering(run.id, "work/pay/1"):  # noqa: ASYNC110  # nobody tells us
            await asyncio.sleep(0)
        run = await at.host.show(run.id)
        assert run.waiting
        with pytest.raises(Refused, match="may still land"):
            await at.answer(run, NOT)
        at.clock.move(LANDS_S)
        await at.host.answer(run.id, "work/pay/1", NOT)
        assert await asyncio.to_thread(at.functions.begun.acquire, timeout=60)
        at.let_go()
        run = await at.host.settled(run.id)
        assert (run.status, at.deeds) == (Status.COMPLETED, 2), "a person wanted the second one"


async def test_nobody_can_say_that_it_did_not_happen_while_it_goes_on(bank: Open) -> None:
    async with bank() as at:
        run = await at.give_up(await at.begin())
        at.clock.move(10 * LANDS_S)
        with pytest.raises(Refused, match="still goes on"):
            await at.answer(run, NOT)
        assert at.deeds == 0
        at.let_go()
        run = await until(at.host, run.id, lambda run: run.ended is not None)
        assert (run.status, at.deeds) == (Status.COMPLETED, 1)


async def test_a_person_may_say_that_it_happened_while_it_goes_on(bank: Open) -> None:
    async with bank() as at:
        run = await at.give_up(await at.begin())
        run = await at.answer(run, {"outcome": "happened", "result": {"receipt": "seen"}, "by": "ann"})
        assert (run.status, run.results["pay"]["receipt"]) == (Status.COMPLETED, "seen")
        seq = run.seq
        at.let_go()
        while (run := await at.host.show(run.id)).seq == seq:  # noqa: ASYNC110  # nobody watches an ended run
            await asyncio.sleep(0)
        assert (run.status, at.deeds, run.alarms) == (Status.COMPLETED, 1, ()), "kept in the journal, and no alarm"


async def test_a_cancelled_run_ends_when_the_call_that_goes_on_has_ended(bank: Open) -> None:
    async with bank() as at:
        run = await at.begin()
        await at.host.cancel(run.id, by="ann")
        run = await until(at.host, run.id, lambda run: bool(run.waiting))
        assert run.waiting[0].is_adrift
        with pytest.raises(Refused, match="still goes on"):
            await at.answer(run, NOT)
        at.let_go()
        run = await until(at.host, run.id, lambda run: run.ended is not None)
        assert (run.status, at.deeds) == (Status.CANCELLED, 1)


async def test_what_a_harmless_call_gives_after_its_time_is_nobodys_concern(bank: Open) -> None:
    async with bank() as at:
        again = Action("pay", "python", CALL, kind="idempotent", timeout_s=LIMIT_S, retry=Retry(limit=1, delay_s=0))
        run = await at.begin(one(again))
        at.clock.move(LIMIT_S + 1)
        assert await asyncio.to_thread(at.functions.begun.acquire, timeout=60), "it is simply called again"
        at.let_go()
        at.let_go()
        run = await until(at.host, run.id, lambda run: run.ended is not None)
        while at.host.attempts.doubts.is_lingering(run.id, "work/pay/1") or at.deeds < 2:  # noqa: ASYNC110  # nobody tells us
            await asyncio.sleep(0)
        later = await at.host.show(run.id)
        assert (later.status, later.seq, at.deeds) == (Status.COMPLETED, run.seq, 2)


async def test_a_host_that_closes_does_not_wait_for_a_call_that_goes_on(bank: Open) -> None:
    async with bank() as at:
        given_up = await at.give_up(await at.begin())
        at_work = await at.begin(one(Action("pay", "python", CALL)))
    async with bank() as at:
        await at.host.recover()
        for run in (given_up, at_work):
            found = await at.host.settled(run.id)
            assert found.waiting[0].question.reason == "outcome_unknown"  # type: ignore[union-attr]
        assert at.deeds == 0
