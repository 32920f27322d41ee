"""Once only: an irreversible deed happens at most once across all runs of a journal, unless a person wants it again."""

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from detent.core import (
    Action,
    Branch,
    Contract,
    EffectFailed,
    Machine,
    Outcome,
    OutcomeUnknown,
    Question,
    Run,
    Status,
    effect,
)
from detent.host.embedded import EmbeddedHost
from detent.host.embedded.journal_marker import forget
from detent.host.embedded.schema import SCHEMA
from detent.testing import Story, World, crash_anywhere, simulate
from detent.testing.conformance import Outside, one

PAY = one(Action("pay", "pay", {"to": "{{ context.to }}"}), name="pay")
PAY_ONCE = one(Action("pay", "pay", {"to": "{{ context.to }}"}, on_repeat="refuse"), name="pay_once")
PAY_ASKING = one(Action("pay", "pay", {"to": "{{ context.to }}"}, ask=Question("Pay?")), name="pay_asking")


def host_at(home: Path, *effects: Any) -> EmbeddedHost:
    return EmbeddedHost(home, effects, sync="off", grace_s=0.0)


def error_of(run: Run) -> tuple[str, dict[str, Any]]:
    assert run.error is not None, f"{run.id} has no error"
    return run.error.type, run.error.data.get("holder", {})


def earlier_of(run: Run) -> dict[str, Any]:
    (contract,) = run.waiting
    assert contract.question is not None
    return contract.question.earlier


async def test_where_it_is_refused_the_same_deed_in_a_second_run_is_already_done(tmp_path: Path) -> None:
    outside = Outside()
    async with host_at(tmp_path, outside.effect("pay")) as host:
        first = await host.settled((await host.start(PAY, {"to": "bob"})).id)
    async with host_at(tmp_path, outside.effect("pay")) as host:
        second = await host.settled((await host.start(PAY_ONCE, {"to": "bob"})).id)
        assert second.status is Status.REJECTED
        assert error_of(second) == ("already_done", {"run_id": first.id, "contract_id": "work/pay/1"})
        assert second.results["pay"]["result"] == {"did": {"to": "bob"}, "count": 1}
        assert len(outside.deeds) == 1
        other = await host.settled((await host.start(PAY, {"to": "eve"})).id)
        assert other.status is Status.COMPLETED


async def test_a_journal_whose_claims_kept_their_results_says_the_same(tmp_path: Path) -> None:
    """Up to schema 3 a claim had its deed's status and result; since then they are read from the holder's events."""
    outside = Outside()
    async with host_at(tmp_path, outside.effect("pay")) as host:
        first = await host.settled((await host.start(PAY, {"to": "bob"})).id)
    with sqlite3.connect(tmp_path / "journal.db") as db:
        kept = db.execute("select * from claims").fetchall()
        db.execute("drop table claims")
        claims = SCHEMA[SCHEMA.index("create table claims") :]
        db.execute(claims.strip().rstrip(";"))
        db.executemany("insert into claims values (?, ?, ?, ?, ?, 'completed', '{}', ?)", kept)
        db.execute("alter table runs drop column error")
        db.execute("alter table runs drop column alarms")
        db.execute("drop table projections")
        db.execute("drop table meta")
        db.execute("drop index runs_restored")
        db.execute("pragma user_version = 3")
    db.close()
    forget(tmp_path)  # such a journal had no marker
    async with host_at(tmp_path, outside.effect("pay")) as host:
        second = await host.settled((await host.start(PAY_ONCE, {"to": "bob"})).id)
        assert error_of(second) == ("already_done", {"run_id": first.id, "contract_id": "work/pay/1"})
        assert second.results["pay"]["result"] == {"did": {"to": "bob"}, "count": 1}
        assert len(outside.deeds) == 1


async def test_a_key_of_a_deed_that_has_just_ended_is_known_before_its_event_is_on_disk(tmp_path: Path) -> None:
    """Two runs in one round of the loop: the second is told what the first has done, not that it is still at it."""
    outside = Outside()
    async with host_at(tmp_path, outside.effect("pay")) as host:
        runs = [await host.start(PAY_ASKING, {"to": name}) for name in ("bob", "eve")]
        await asyncio.gather(*(host.answer(run.id, run.waiting[0].id, {"approved": True}) for run in runs))
        ended = [await host.settled(run.id) for run in runs]
        again = await asyncio.gather(*(host.start(PAY_ONCE, {"to": name}) for name in ("bob", "eve", "bob")))
        told = [await host.settled(run.id) for run in again]
    assert [run.status for run in ended] == [Status.COMPLETED] * 2
    assert [error_of(run)[0] for run in told] == ["already_done"] * 3
    assert len(outside.deeds) == 2


async def test_while_the_first_asks_the_second_is_told_who_holds_the_key(tmp_path: Path) -> None:
    outside = Outside()
    async with host_at(tmp_path, outside.effect("pay")) as host:
        first = await host.start(PAY_ASKING, {"to": "bob"})
        for machine in (PAY, PAY_ASKING):
            second = await host.settled((await host.start(machine, {"to": "bob"})).id)
            assert second.status is Status.REJECTED
            assert error_of(second) == ("key_held", {"run_id": first.id, "contract_id": "work/pay/1"})
        await host.answer(first.id, "work/pay/1", {"approved": False, "by": "ann"})
        third = await host.settled((await host.start(PAY, {"to": "bob"})).id)
        assert third.status is Status.COMPLETED, "a rejected question frees the key"


async def test_while_the_first_is_at_work_the_second_is_refused(tmp_path: Path) -> None:
    outside = Outside()
    async with host_at(tmp_path, outside.hanging("pay")) as host:
        first = await host.start(PAY, {"to": "bob"})
        await outside.begun.acquire()
        second = await host.settled((await host.start(PAY, {"to": "bob"})).id)
        assert error_of(second) == ("key_held", {"run_id": first.id, "contract_id": "work/pay/1"})


async def test_of_many_starts_at_once_exactly_one_pays(tmp_path: Path) -> None:
    outside = Outside()
    async with host_at(tmp_path, outside.effect("pay")) as host:
        runs = await asyncio.gather(*(host.start(PAY_ONCE, {"to": "bob"}) for _ in range(20)))
        ended = [await host.settled(run.id) for run in runs]
        assert [run.status for run in ended].count(Status.COMPLETED) == 1
        assert [run.status for run in ended].count(Status.REJECTED) == 19
        assert len(outside.deeds) == 1


async def test_a_failure_the_tool_reported_frees_the_key(tmp_path: Path) -> None:
    answers: list[Exception | None] = [EffectFailed("no such account"), None]

    async def perform(contract: Contract) -> Outcome:
        answer = answers.pop(0)
        if answer is not None:
            raise answer
        return Outcome({})

    async with host_at(tmp_path, effect("pay")(perform)) as host:
        first = await host.settled((await host.start(PAY, {"to": "bob"})).id)
        assert first.status is Status.FAILED
        second = await host.settled((await host.start(PAY, {"to": "bob"})).id)
        assert second.status is Status.COMPLETED


@pytest.mark.parametrize(
    "silence",
    [
        OutcomeUnknown("?"),
        TimeoutError(),
        ConnectionResetError(),
        EOFError(),
        ConnectionRefusedError(),  # it may be the second connection that was refused
        ValueError("the answer cannot be parsed"),
        KeyError("id"),
        SystemExit(1),
        GeneratorExit(),
    ],
    ids=repr,
)
async def test_an_unknown_outcome_keeps_the_key(silence: Exception, tmp_path: Path) -> None:
    async def perform(contract: Contract) -> Outcome:
        raise silence

    async with host_at(tmp_path, effect("pay", settle_s=0.0)(perform)) as host:
        first = await host.settled((await host.start(PAY, {"to": "bob"})).id)
        (doubt,) = first.waiting
        assert doubt.question is not None
        assert doubt.question.reason == "outcome_unknown"
        second = await host.settled((await host.start(PAY, {"to": "bob"})).id)
        assert error_of(second)[0] == "key_held"
        # Giving up on finding out is no evidence either.
        first = await host.answer(first.id, doubt.id, {"outcome": "give_up", "by": "ann"})
        assert (first.status, error_of(first)[0]) == (Status.FAILED, "tool_failure.unknown_outcome")
    async with host_at(tmp_path, effect("pay", settle_s=0.0)(perform)) as host:
        third = await host.settled((await host.start(PAY_ONCE, {"to": "bob"})).id)
        assert error_of(third) == ("key_held", {"run_id": first.id, "contract_id": "work/pay/1"})
        fourth = await host.settled((await host.start(PAY, {"to": "bob"})).id)
        assert earlier_of(fourth)["status"] == "possible"


async def test_a_person_who_says_it_happened_seals_the_key(tmp_path: Path) -> None:
    async def perform(contract: Contract) -> Outcome:
        raise OutcomeUnknown("?")

    async with host_at(tmp_path, effect("pay", settle_s=0.0)(perform)) as host:
        first = await host.settled((await host.start(PAY, {"to": "bob"})).id)
        said = {"outcome": "happened", "result": {"receipt": 7}, "by": "ann"}
        first = await host.answer(first.id, first.waiting[0].id, said)
        assert (first.status, first.results["pay"]["receipt"]) == (Status.COMPLETED, 7)
        second = await host.settled((await host.start(PAY_ONCE, {"to": "bob"})).id)
        assert error_of(second)[0] == "already_done"
        assert second.results["pay"]["result"] == {"receipt": 7}


async def test_repeat_asks_and_then_does_it_again(tmp_path: Path) -> None:
    outside = Outside()
    again = one(Action("pay", "pay", {"to": "bob"}, repeat="second month"))
    async with host_at(tmp_path, outside.effect("pay")) as host:
        await host.settled((await host.start(PAY, {"to": "bob"})).id)
        run = await host.settled((await host.start(again)).id)
        (contract,) = run.waiting
        assert contract.question is not None
        assert "second month" in contract.question.text
        assert len(outside.deeds) == 1
        await host.answer(run.id, contract.id, {"approved": True, "by": "ann"})
        assert (await host.settled(run.id)).status is Status.COMPLETED
        assert len(outside.deeds) == 2


async def test_an_authors_key_with_other_arguments_is_an_error(tmp_path: Path) -> None:
    outside = Outside()
    order = one(Action("pay", "pay", {"to": "{{ context.to }}"}, key="order-7", on_repeat="refuse"))
    async with host_at(tmp_path, outside.effect("pay")) as host:
        await host.settled((await host.start(order, {"to": "bob"})).id)
        same = await host.settled((await host.start(order, {"to": "bob"})).id)
        assert error_of(same)[0] == "already_done"
        other = await host.settled((await host.start(order, {"to": "eve"})).id)
        assert (other.status, error_of(other)[0]) == (Status.FAILED, "validation_error")
        assert len(outside.deeds) == 1


@pytest.mark.parametrize(("scope", "times"), [("run", 3), ("session", 2), ("global", 1)])
async def test_the_scope_says_how_far_once_reaches(scope: Any, times: int, tmp_path: Path) -> None:
    outside = Outside()
    machine = one(Action("pay", "pay", {"to": "bob"}, scope=scope))
    async with host_at(tmp_path, outside.effect("pay")) as host:
        for session in ("monday", "monday", "tuesday"):
            await host.settled((await host.start(machine, session=session)).id)
        assert len(outside.deeds) == times


async def test_two_branches_that_want_the_same_deed_end_in_one(tmp_path: Path) -> None:
    """The second refusal meets a contract that the first has closed already; the run must not be lost over it."""
    outside = Outside()
    step = Action("pay", "pay", {"to": "bob"}, on_repeat="refuse")
    machine = one(
        Action("all", "branches", branches=(Branch("b", (step,)),), each="{{ [1, 2, 3, 4] }}", fail_fast=True)
    )
    async with host_at(tmp_path, outside.effect("pay")) as host:
        await host.settled((await host.start(PAY, {"to": "bob"})).id)
        run = await host.settled((await host.start(machine)).id)
        assert run.ended is not None
        assert len(outside.deeds) == 1
    async with host_at(tmp_path, outside.effect("pay")) as host:
        assert await host.show(run.id) == run


async def test_a_branch_that_was_stopped_before_it_began_leaves_no_doubt(tmp_path: Path) -> None:
    outside = Outside()
    branches = (
        Branch("new", (Action("a", "pay", {"to": "new"}),)),
        Branch("old", (Action("b", "pay", {"to": "bob"}, on_repeat="refuse"),)),
    )
    machine = one(Action("both", "branches", branches=branches, fail_fast=True))
    async with host_at(tmp_path, outside.effect("pay")) as host:
        await host.settled((await host.start(PAY, {"to": "bob"})).id)
        run = await host.settled((await host.start(machine)).id)
        assert run.ended is not None, f"{run.waiting}"
        # Whether `a` was done or not, the journal must say the same as the world.
        later = await host.settled((await host.start(PAY, {"to": "new"})).id)
        assert [deed.input["to"] for deed in outside.deeds].count("new") == 1
        assert later.ended is not None


def test_a_death_at_any_moment_around_a_claim_pays_once() -> None:
    def world() -> World:
        made = World(seed=3)
        made.effect("pay", kind="irreversible", answers=({"ok": 1},))
        return made

    def check(world: World, run: Run) -> None:
        assert run.status is Status.COMPLETED
        assert len(world.deeds) == 1

    crash_anywhere(Story(PAY_ASKING, {"to": "bob"}), world, check)


def test_a_second_run_after_a_death_right_after_the_claim_is_refused() -> None:
    async def story(world: World) -> None:
        async with world.host() as host:
            await world.unless_dead(host.start(PAY, {"to": "bob"}, run_id="first"))
            assert world.is_dead
        async with world.host() as host:
            second = await host.settled((await host.start(PAY, {"to": "bob"})).id)
            assert error_of(second) == ("key_held", {"run_id": "first", "contract_id": "work/pay/1"})
            await host.recover()
            first = await host.settled("first")
            await host.answer("first", first.waiting[0].id, {"outcome": "not_happened", "by": "ann"})
            first = await host.settled("first")
            assert first.status is Status.COMPLETED
        assert len(world.deeds) == 1

    with World(die_at=(2,)) as world:  # after the first write
        world.effect("pay", kind="irreversible")
        simulate(story(world))


async def test_an_edit_to_a_taken_key_asks_about_that_and_frees_its_own(tmp_path: Path) -> None:
    outside = Outside()
    async with host_at(tmp_path, outside.effect("pay")) as host:
        await host.settled((await host.start(PAY, {"to": "bob"})).id)
        run = await host.start(PAY_ASKING, {"to": "eve"})
        await host.answer(run.id, run.waiting[0].id, {"approved": True, "by": "ann", "args": {"to": "bob"}})
        run = await host.settled(run.id)
        assert earlier_of(run)["status"] == "completed"
        run = await host.settled((await host.start(PAY, {"to": "eve"})).id)
        assert run.status is Status.COMPLETED
        assert [deed.input["to"] for deed in outside.deeds] == ["bob", "eve"]


def test_machines_of_this_file_are_sound() -> None:
    assert Machine.from_json(PAY.to_json()) == PAY
