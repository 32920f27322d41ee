"""Unknown outcomes: after an irreversible call has left, silence is not failure. All in virtual time."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from detent.core import Action, Contract, Effect, EffectFailed, Outcome, OutcomeUnknown, Retry, Run, Status, effect
from detent.core.effect_type import Reconcile
from detent.core.events import ContractMoved
from detent.errors import NotWaiting, Refused
from detent.host.embedded import EmbeddedHost
from detent.testing import World, simulate
from detent.testing.conformance import one

SETTLE_S = 30.0


class Bank:
    """A bank with a line that goes dead, and an account somebody can look into."""

    def __init__(self, silence: "BaseException | str" = "hang", *, is_felt: bool = False) -> None:
        self.silence = silence
        self.is_felt = is_felt
        self.calls = 0
        self.begun = asyncio.Event()
        self.asked_at: list[float] = []

    async def perform(self, contract: Contract) -> Outcome:  # noqa: ARG002
        self.calls += 1
        self.begun.set()
        if self.calls > 1:
            return Outcome({"receipt": self.calls})
        if isinstance(self.silence, BaseException):
            raise self.silence
        await asyncio.get_running_loop().create_future()
        raise AssertionError

    async def probe(self, contract: Contract) -> Outcome | None:  # noqa: ARG002
        self.asked_at.append(asyncio.get_running_loop().time())
        if self.is_felt:
            return Outcome({"receipt": 1})
        raise EffectFailed("there is no such payment")

    def effect(self, reconcile: Reconcile | None = None) -> Effect:
        return effect("pay", timeout_s=10.0, settle_s=SETTLE_S, reconcile=reconcile)(self.perform)


PAY = one(Action("pay", "pay", {"to": "bob"}))
PAY_ONCE = one(Action("pay", "pay", {"to": "bob"}, on_repeat="refuse"))
Told = Callable[[EmbeddedHost, Bank], Awaitable[None]]


def tell(bank_of: Callable[[], Bank], story: Told, probe: str = "") -> None:
    """Run a story in virtual time with that bank; `probe` names the method that can look."""

    async def told() -> None:
        bank = bank_of()
        world.effects["pay"] = bank.effect(getattr(bank, probe) if probe else None)
        async with world.host() as host:
            await story(host, bank)

    with World() as world:
        simulate(told())


def now() -> float:
    return asyncio.get_running_loop().time()


async def later(host: EmbeddedHost, run: Run) -> Run:
    """The run when nothing of its call can be in flight any more, and a probe has had its say."""
    await asyncio.sleep(SETTLE_S + 0.001)
    return await host.settled(run.id)


SILENCES = ["hang", OutcomeUnknown("lost"), TimeoutError(), ConnectionAbortedError(), ValueError("no JSON")]


@pytest.mark.parametrize("silence", SILENCES, ids=repr)
def test_without_a_probe_a_person_is_asked_at_once_and_told_until_when_it_may_land(silence: Any) -> None:
    async def story(host: EmbeddedHost, bank: Bank) -> None:
        run = await host.settled((await host.start(PAY)).id)
        (contract,) = run.waiting
        assert contract.question is not None
        assert (contract.question.reason, contract.effect_state) == ("outcome_unknown", "possible")
        given_up_after = 10.0 if silence == "hang" else 0.0
        assert now() == pytest.approx(given_up_after)
        left = contract.question.data["lands_until"] - host.clock.now()
        assert left == pytest.approx(SETTLE_S)
        with pytest.raises(Refused, match="may still land"):
            await host.answer(run.id, contract.id, {"outcome": "not_happened", "by": "ann"})
        await later(host, run)
        await host.answer(run.id, contract.id, {"outcome": "not_happened", "by": "ann"})
        run = await host.settled(run.id)
        assert (run.status, bank.calls, run.results["pay"]["receipt"]) == (Status.COMPLETED, 2, 2)

    tell(lambda: Bank(silence), story)


def test_a_probe_that_finds_the_deed_completes_the_contract() -> None:
    async def story(host: EmbeddedHost, bank: Bank) -> None:
        run = await host.settled((await host.start(PAY)).id)
        assert (run.status, bank.calls, run.results["pay"]["receipt"]) == (Status.COMPLETED, 1, 1)
        assert bank.asked_at == [pytest.approx(10.0)], "that it happened counts at once"

    tell(lambda: Bank(is_felt=True), story, "probe")


def test_a_probe_that_finds_nothing_after_a_timeout_fails_the_contract_as_a_timeout() -> None:
    async def story(host: EmbeddedHost, bank: Bank) -> None:
        run = await host.settled((await host.start(PAY)).id)
        assert run.waiting, "while the call may still land, a no of the probe is none"
        run = await later(host, run)
        assert run.error is not None
        assert (run.status, run.error.type, bank.calls) == (Status.FAILED, "timeout.action", 1)
        assert bank.asked_at == [pytest.approx(10.0), pytest.approx(10.0 + SETTLE_S)]
        again = await host.settled((await host.start(PAY)).id)
        assert again.status is Status.COMPLETED, "with that evidence the key is free"

    tell(Bank, story, "probe")


def test_a_timeout_known_not_to_have_happened_may_be_retried() -> None:
    async def story(host: EmbeddedHost, bank: Bank) -> None:
        machine = one(Action("pay", "pay", {"to": "bob"}, retry=Retry(limit=2, on=("timeout",), delay_s=0)))
        run = await later(host, await host.settled((await host.start(machine)).id))
        assert (run.status, bank.calls) == (Status.COMPLETED, 2)

    tell(Bank, story, "probe")


@pytest.mark.parametrize(
    "problem", [RuntimeError("broken"), ConnectionError(), SystemExit(1), GeneratorExit(), asyncio.CancelledError()]
)
def test_a_probe_that_raises_cannot_tell_and_a_person_is_asked(problem: BaseException) -> None:
    class Broken(Bank):
        async def probe(self, contract: Contract) -> Outcome | None:  # noqa: ARG002
            raise problem

    async def story(host: EmbeddedHost, bank: Bank) -> None:
        run = await host.settled((await host.start(PAY)).id)
        assert run.waiting[0].effect_state == "possible"

    tell(Broken, story, "probe")


def test_a_probe_that_never_answers_is_given_up() -> None:
    class Mute(Bank):
        async def probe(self, contract: Contract) -> Outcome | None:  # noqa: ARG002
            await asyncio.get_running_loop().create_future()
            raise AssertionError

    async def story(host: EmbeddedHost, bank: Bank) -> None:
        run = await host.settled((await host.start(PAY)).id)
        assert run.waiting[0].effect_state == "possible"

    tell(Mute, story, "probe")


def test_a_probe_that_says_none_cannot_tell() -> None:
    class Vague(Bank):
        async def probe(self, contract: Contract) -> Outcome | None:  # noqa: ARG002
            return None

    async def story(host: EmbeddedHost, bank: Bank) -> None:
        assert (await host.settled((await host.start(PAY)).id)).waiting

    tell(Vague, story, "probe")


def test_a_cancelled_run_ends_only_when_the_doubt_is_settled() -> None:
    async def story(host: EmbeddedHost, bank: Bank) -> None:
        run = await host.start(PAY)
        await bank.begun.wait()
        run = await host.cancel(run.id, by="ann")
        assert run.status is Status.RUNNING
        run = await host.settled(run.id)
        assert (run.status, run.waiting[0].is_adrift) == (Status.WAITING, True)
        run = await host.answer(
            run.id, run.waiting[0].id, {"outcome": "happened", "result": {"receipt": 5}, "by": "ann"}
        )
        assert run.status is Status.CANCELLED
        second = await host.settled((await host.start(PAY_ONCE)).id)
        assert second.results["pay"]["result"] == {"receipt": 5}

    tell(Bank, story)


@pytest.mark.parametrize("is_felt", [True, False])
def test_a_probe_settles_a_cancelled_run_by_itself(is_felt: bool) -> None:
    async def story(host: EmbeddedHost, bank: Bank) -> None:
        run = await host.start(PAY)
        await bank.begun.wait()
        await host.cancel(run.id)
        run = await later(host, await host.settled(run.id))
        assert (run.status, bank.calls) == (Status.CANCELLED, 1)
        second = await host.settled((await host.start(PAY_ONCE)).id)
        assert second.status is (Status.REJECTED if is_felt else Status.COMPLETED)

    tell(lambda: Bank(is_felt=is_felt), story, "probe")


def test_cancelling_in_the_middle_of_a_doubt_does_not_stop_its_settling() -> None:
    async def story(host: EmbeddedHost, bank: Bank) -> None:
        run = await host.start(PAY)
        await asyncio.sleep(20.0)  # the call has timed out, and the settle time is running
        run = await host.cancel(run.id)
        assert run.waiting[0].is_adrift
        run = await later(host, run)
        run = await host.answer(run.id, run.waiting[0].id, {"outcome": "not_happened", "by": "ann"})
        assert (run.status, bank.calls) == (Status.CANCELLED, 1)

    tell(Bank, story)


def test_a_late_result_after_a_cancel_is_evidence() -> None:
    """An effect may finish what it began when it is told to stop; then nothing is in doubt."""

    class Tidy(Bank):
        async def perform(self, contract: Contract) -> Outcome:
            try:
                return await super().perform(contract)
            except asyncio.CancelledError:
                return Outcome({"receipt": 9})

    async def story(host: EmbeddedHost, bank: Bank) -> None:
        run = await host.start(PAY)
        await bank.begun.wait()
        await host.cancel(run.id)
        run = await host.settled(run.id)
        assert run.status is Status.CANCELLED
        second = await host.settled((await host.start(PAY_ONCE)).id)
        assert second.results["pay"]["result"] == {"receipt": 9}

    tell(Tidy, story)


def _after_a_crash(
    probe: str, is_felt: bool, check: Callable[[World, Bank, Run, EmbeddedHost], Awaitable[None]]
) -> None:
    async def story() -> None:
        bank = Bank(is_felt=is_felt)
        world.effects["pay"] = bank.effect(bank.probe if probe else None)
        async with world.host() as host:
            await host.start(PAY, run_id="r")
            await bank.begun.wait()
            world.die_at = frozenset({world.points + 1})
            world.may_die("in the middle of the call")
        async with world.host() as host:
            assert await host.recover() == ("r",)
            run = await host.settled("r")
            await check(world, bank, run, host)

    with World() as world:
        simulate(story())


def test_after_a_crash_a_probe_that_finds_nothing_has_it_performed_again() -> None:
    async def check(world: World, bank: Bank, run: Run, host: EmbeddedHost) -> None:
        run = await later(host, run)
        assert (run.status, bank.calls) == (Status.COMPLETED, 2)
        assert bank.asked_at == [pytest.approx(0.0), pytest.approx(SETTLE_S)]

    _after_a_crash("probe", False, check)


def test_after_a_crash_a_probe_that_finds_it_does_not() -> None:
    async def check(world: World, bank: Bank, run: Run, host: EmbeddedHost) -> None:
        assert (run.status, bank.calls, run.results["pay"]["receipt"]) == (Status.COMPLETED, 1, 1)

    _after_a_crash("probe", True, check)


def test_after_a_crash_without_a_probe_a_person_decides() -> None:
    async def check(world: World, bank: Bank, run: Run, host: EmbeddedHost) -> None:
        assert (run.status, bank.calls, now()) == (Status.WAITING, 1, 0.0)
        run = await host.answer("r", run.waiting[0].id, {"outcome": "happened", "result": {"receipt": 3}, "by": "ann"})
        assert (run.status, run.results["pay"]["receipt"]) == (Status.COMPLETED, 3)
        with pytest.raises(NotWaiting):
            await host.answer("r", "work/pay/1", {"outcome": "happened", "by": "eve"})

    _after_a_crash("", False, check)


def test_long_after_a_crash_nothing_can_be_in_flight_and_nobody_waits() -> None:
    async def story() -> None:
        bank = Bank()
        world.effects["pay"] = bank.effect()
        async with world.host() as host:
            await host.start(PAY, run_id="r")
            await bank.begun.wait()
        await asyncio.sleep(3600)
        async with world.host() as host:
            before = now()
            await host.recover()
            run = await host.settled("r")
            assert (run.status, now()) == (Status.WAITING, before)

    with World() as world:
        simulate(story())


def test_a_pure_effect_that_was_cut_off_is_simply_done_again() -> None:
    async def story() -> None:
        calls: list[str] = []
        begun = asyncio.Event()

        async def look(contract: Contract) -> Outcome:
            calls.append(contract.key)
            begun.set()
            if len(calls) == 1:
                await asyncio.get_running_loop().create_future()
            return Outcome({})

        world.effects["look"] = effect("look", kind="idempotent")(look)
        async with world.host() as host:
            await host.start(one(Action("a", "look")), run_id="r")
            await begun.wait()
        async with world.host() as host:
            await host.recover()
            run = await host.settled("r")
            assert run.status is Status.COMPLETED
            assert len(calls) == 2
            assert len(set(calls)) == 1

    with World() as world:
        simulate(story())


def test_a_call_that_answers_after_it_was_done_again_is_an_alarm() -> None:
    """Somebody said that it had not happened, and was wrong: both deeds are in the journal, and nobody may miss it."""

    async def story(host: EmbeddedHost, bank: Bank) -> None:
        run = await host.settled((await host.start(PAY)).id)
        first = run.waiting[0]
        run = await later(host, run)
        await host.answer(run.id, first.id, {"outcome": "not_happened", "by": "ann"})
        run = await host.settled(run.id)
        assert (run.status, bank.calls, run.alarms) == (Status.COMPLETED, 2, ())
        late = ContractMoved(first.id, "succeed", result={"receipt": 1}, at=host.clock.now())
        host.attempts.doubts.give_evidence(run.id, first, late)
        run = await host.show(run.id)
        (alarm,) = run.alarms
        assert "twice" in alarm
        assert (run.status, bank.calls) == (Status.COMPLETED, 2), "it changes nothing else"

    tell(lambda: Bank(OutcomeUnknown("lost")), story)


@pytest.mark.parametrize(("settle_s", "lands_s"), [(-1.0, 300.0), (20.0, 20.0)])
def test_a_request_that_is_allowed_more_time_may_take_longer_to_land(settle_s: float, lands_s: float) -> None:
    async def lose(contract: Contract) -> Outcome:
        raise OutcomeUnknown("no answer")

    async def story() -> None:
        async with world.host() as host:
            run = await host.settled((await host.start(one(Action("pay", "pay", timeout_s=300.0)))).id)
            question = run.waiting[0].question
            assert question is not None
            assert question.data["lands_until"] - host.clock.now() == pytest.approx(lands_s)

    with World() as world:
        world.effects["pay"] = effect("pay", timeout_s=60.0, settle_s=settle_s)(lose)
        simulate(story())
