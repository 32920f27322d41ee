"""The claims are part of the proof: what the events say of every key is worked out anew and compared."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from detent.core import (
    Action,
    Contract,
    EffectFailed,
    Outcome,
    OutcomeUnknown,
    PartialFailure,
    Question,
    Status,
    effect,
)
from detent.errors import JournalError
from detent.host.embedded import EmbeddedHost
from detent.host.embedded.journal import open_journal
from detent.host.opening import forget_claims
from detent.host.parts.claim_check import differences
from detent.host.parts.replay import verify
from detent.testing import World, simulate
from detent.testing.conformance import Outside, one
from tests.simulation import history

PAY = one(Action("pay", "pay", {"to": "{{ context.to }}"}), name="pay")


def host_at(home: Path, *effects: Any) -> EmbeddedHost:
    return EmbeddedHost(home, effects, sync="off", grace_s=0.0)


def problems(home: Path) -> list[str]:
    journal = open_journal(home)
    try:
        return [one.problem for one in differences(journal)]
    finally:
        journal.close()


async def _lived(home: Path) -> tuple[str, str, str]:
    """A run that has paid, one that waits in doubt, and one that failed on its way."""

    async def lose(contract: Contract) -> Outcome:
        raise OutcomeUnknown("no answer") if contract.input["to"] == "eve" else PartialFailure("cut off")

    outside = Outside()
    lost = effect("lose", settle_s=0.0)(lose)
    machine = one(Action("lose", "lose", {"to": "{{ context.to }}"}), name="lose")
    async with host_at(home, outside.effect("pay"), lost) as host:
        paid = await host.settled((await host.start(PAY, {"to": "bob"})).id)
        doubts = await host.settled((await host.start(machine, {"to": "eve"})).id)
        broken = await host.settled((await host.start(machine, {"to": "kim"})).id)
        assert [run.status for run in (paid, doubts, broken)] == [Status.COMPLETED, Status.WAITING, Status.FAILED]
    return paid.id, doubts.id, broken.id


async def test_claims_that_were_deleted_are_reported_and_rebuilt(tmp_path: Path) -> None:
    ids = await _lived(tmp_path)
    assert problems(tmp_path) == []
    with sqlite3.connect(tmp_path / "journal.db") as db:
        db.execute("delete from claims")
    db.close()
    assert sorted(problem.split(" of run ")[1][:12] for problem in problems(tmp_path)) == sorted(ids)
    journal = open_journal(tmp_path)
    assert all("claim is gone" in verify(journal, run_id).problem for run_id in ids)
    journal.close()
    outside = Outside()
    with pytest.raises(JournalError, match="doctor --repair"):
        await host_at(tmp_path, outside.effect("pay")).__aenter__()
    forget_claims(tmp_path)
    async with host_at(tmp_path, outside.effect("pay")) as host:
        assert len(await host.repair_claims()) == 3
        assert await host.repair_claims() == ()
        again = await host.settled((await host.start(PAY, {"to": "bob"})).id)
        assert again.waiting, "what was done before is asked about again"
        assert outside.deeds == []
    assert problems(tmp_path) == []


async def test_a_claim_nobody_holds_is_reported_and_goes(tmp_path: Path) -> None:
    async def refuse(contract: Contract) -> Outcome:
        raise EffectFailed("no such account")

    async with host_at(tmp_path, effect("pay")(refuse)) as host:
        run = await host.settled((await host.start(PAY, {"to": "bob"})).id)
    with sqlite3.connect(tmp_path / "journal.db") as db:
        db.execute("insert into claims values ('global', 'pay:made-up', ?, 'work/pay/1', '', 0)", (run.id,))
    db.close()
    (problem,) = problems(tmp_path)
    assert "pay:made-up" in problem
    forget_claims(tmp_path)
    async with host_at(tmp_path) as host:
        await host.repair_claims()
    assert problems(tmp_path) == []


@pytest.mark.parametrize("seed", range(40))
def test_after_any_history_the_claims_are_what_the_events_say(seed: int) -> None:
    history.check(seed, _assert_whole)


def _assert_whole(world: World) -> None:
    assert problems(world.home) == []


def test_a_repeat_that_was_refused_leaves_the_claim_with_the_first(tmp_path: Path) -> None:
    async def story() -> None:
        with World(tmp_path) as world:
            world.effect("pay", answers=[{"n": 1}, EffectFailed("no money")])
            asking = one(Action("pay", "pay", {"to": "bob"}, ask=Question("Pay?")))
            async with world.host() as host:
                first = await host.start(asking)
                await host.answer(first.id, "work/pay/1", {"approved": True, "by": "ann"})
                await host.settled(first.id)
                second = await host.start(asking)
                await host.answer(second.id, "work/pay/1", {"approved": True, "by": "ann"})
                second = await host.settled(second.id)
                assert second.status is Status.FAILED
                third = await host.start(asking)
                assert third.waiting[0].question is not None
                assert third.waiting[0].question.earlier["run_id"] == first.id

    simulate(story())
    assert problems(tmp_path) == []
