"""Forgetting old runs: what protects a key stays, families go together, and the rest can be verified as before."""

import json
import time
from pathlib import Path

import pytest

from detent.core import Action, Contract, Machine, Outcome, Question, Run, Status, effect
from detent.errors import Unknown
from detent.host.embedded import EmbeddedHost
from detent.host.parts.replay import verify
from detent.testing.conformance import one


@effect("look", kind="pure")
async def look(contract: Contract) -> Outcome:
    return Outcome({})


@effect("pay", settle_s=0.0)
async def pay(contract: Contract) -> Outcome:
    return Outcome({"paid": contract.input["n"]})


LOOK = one(Action("look", "look"), name="look")
PAY = one(Action("pay", "pay", {"n": "{{ context.n }}"}), name="pay")
ASKS = one(Action("pay", "pay", {"n": "{{ context.n }}"}, ask=Question("Pay?")), name="asks")
FAMILY = one(Action("kid", "child", {"machine": json.loads(LOOK.to_json())}), name="family")


async def ended(host: EmbeddedHost, machine: Machine, **given: object) -> Run:
    run = await host.start(machine, given)
    return await host.settled(run.id)


async def test_old_runs_go_and_holders_of_keys_stay(tmp_path: Path) -> None:
    async with EmbeddedHost(tmp_path, [look, pay]) as host:
        looked = [await ended(host, LOOK) for _ in range(3)]
        paid = await ended(host, PAY, n=1)
        waits = await ended(host, ASKS, n=2)
        cut = time.time() + 1
        assert (await host.prune(0.0, by="kim"))["pruned"] == []
        done = await host.prune(cut, by="kim")
        assert sorted(p["run_id"] for p in done["pruned"]) == sorted(run.id for run in looked)
        assert done["kept_for_keys"] == 1
        for run in looked:
            with pytest.raises(Unknown):
                await host.show(run.id)
        (record,) = done["records"]
        named = (await host.show(record)).context["runs"]
        assert {p["run_id"]: p["events"] for p in named} == {run.id: run.seq for run in looked}
        left = {summary.run_id for summary in await host.list()}
        assert left == {paid.id, waits.id, record}
        assert [verify(host.journal, run_id).problem for run_id in left] == ["", "", ""]
        again = await ended(host, PAY, n=1)
        assert again.status is Status.WAITING, "the key is still protected"
        assert again.waiting[0].question is not None
        assert again.waiting[0].question.earlier["run_id"] == paid.id
        await host.answer(again.id, "work/pay/1", {"approved": False, "by": "kim"})
        assert [p["name"] for p in (await host.prune(time.time() + 1))["pruned"]] == ["pay"], (
            "the refused one holds none"
        )
    async with EmbeddedHost(tmp_path, [look, pay]) as host:
        assert await host.recover() == ()
        run = await host.answer(waits.id, "work/pay/1", {"approved": True, "by": "kim"})
        assert (await host.settled(run.id)).status is Status.COMPLETED


async def test_a_family_goes_together(tmp_path: Path) -> None:
    async with EmbeddedHost(tmp_path, [look, pay]) as host:
        parent = await ended(host, FAMILY)
        assert parent.status is Status.COMPLETED
        done = await host.prune(time.time() + 1)
        assert len(done["pruned"]) == 2
        payer = one(Action("kid", "child", {"machine": json.loads(PAY.to_json()), "input": {"n": 5}}), name="payer")
        await ended(host, payer)
        done = await host.prune(time.time() + 1)
        assert done["pruned"] == [], "the child holds a key, so its parent stays too"
