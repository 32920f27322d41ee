"""Answers: bound to the call, from the right people, in time."""

import asyncio
from pathlib import Path

from detent.core import (
    Action,
    Question,
    Run,
    Status,
)
from detent.core.machine import Await, Wait
from detent.core.signed_answer import shown_hash
from detent.errors import EventRefused, NotWaiting, Refused
from detent.testing.conformance.fixtures import (
    ASKING,
    HandClock,
    HostOpener,
    Outside,
    one,
    refusal,
    until,
)


async def check_an_answer_is_bound_to_the_call(open_host: HostOpener, home: Path) -> None:
    outside = Outside()
    async with open_host(home, [outside.effect()]) as host:
        run = await host.start(ASKING, {"amount": 7})
        (contract,) = run.waiting
        other = host.answer(run.id, contract.id, {"approved": True, "call_hash": "f" * 64})
        assert contract.call_hash[:12] in await refusal(Refused, other)
        await host.answer(run.id, contract.id, {"approved": True, "call_hash": contract.call_hash})
        assert (await host.settled(run.id)).status is Status.COMPLETED
        assert [deed.input for deed in outside.deeds] == [{"amount": 7}]


async def check_an_answer_is_bound_to_the_question_that_was_shown(open_host: HostOpener, home: Path) -> None:
    """Two runs that ask the same, word for word, about the same call: what was shown of one answers only that one."""
    outside = Outside()
    asking = one(Action("deed", "do", {"amount": 7}, ask=Question("Pay?")))
    async with open_host(home, [outside.effect(kind="idempotent")]) as host:
        aimed, other = await host.start(asking), await host.start(asking)
        (mine,), (theirs,) = aimed.waiting, other.waiting
        assert (mine.id, mine.call_hash) == (theirs.id, theirs.call_hash)
        said = {"approved": True, "by": "ann", "call_hash": mine.call_hash, "shown": shown_hash(aimed.id, mine)}
        assert "another question" in await refusal(Refused, host.answer(other.id, theirs.id, said))
        assert not outside.deeds
        await host.answer(aimed.id, mine.id, said)
        assert (await host.settled(aimed.id)).status is Status.COMPLETED
        assert (await host.show(other.id)).status is Status.WAITING
        assert len(outside.deeds) == 1


async def check_the_first_answer_wins(open_host: HostOpener, home: Path) -> None:
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


async def check_a_quorum_of_different_people(open_host: HostOpener, home: Path) -> None:
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


async def check_a_rejection_does_nothing(open_host: HostOpener, home: Path) -> None:
    outside = Outside()
    async with open_host(home, [outside.effect()]) as host:
        run = await host.start(ASKING, {"amount": 1})
        run = await host.answer(run.id, run.waiting[0].id, {"approved": False, "by": "eve", "comment": "too much"})
        assert run.status is Status.REJECTED
        assert run.error is not None
        assert "too much" in run.error.message
        assert not outside.deeds


async def check_edited_arguments_are_what_is_done(open_host: HostOpener, home: Path) -> None:
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


async def check_a_question_expires_across_a_restart(open_host: HostOpener, home: Path) -> None:
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


async def check_an_answer_after_its_time_is_too_late(open_host: HostOpener, home: Path) -> None:
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


async def check_a_signal_after_the_time_for_it_is_too_late(open_host: HostOpener, home: Path) -> None:
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


async def check_an_answer_beats_its_timer(open_host: HostOpener, home: Path) -> None:
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
