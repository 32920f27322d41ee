"""Doubts, repeats and alarms over HTTP: what a question shows, which answers fit, and settling many at once."""

import time
from pathlib import Path
from typing import Any

from detent.core.events import EVIDENCE, Signalled
from detent.host.embedded import EmbeddedHost
from tests.surfaces.server.stage import APPROVAL, FLOWS, Stage, stage

BANK = """
from detent import Outcome, OutcomeUnknown


async def look(contract):
    if (HERE / "ledger").exists() and contract.input["to"] in (HERE / "ledger").read_text().split():
        return Outcome({"receipt": contract.input["to"]})
    raise EffectFailed("there is no such payment")


async def pay(contract):
    if (HERE / "dead").exists():
        raise OutcomeUnknown("the bank did not answer", {"status": 502})
    with (HERE / "paid").open("a") as paid:
        paid.write(contract.input["to"] + "\\n")
    return {"receipt": contract.input["to"]}


plain = effect("bank.pay", settle_s=0.0)(pay)
late = effect("bank.order", settle_s=3600.0)(pay)
probed = effect("bank.wire", settle_s=3600.0, reconcile=look)(pay)


def one(name, effect):
    return simple(name, Action("pay", effect, {"to": "{{ context.to }}"}), output={"got": "{{ result.pay.receipt }}"})


PAY, ORDER, WIRE = one("pay", "bank.pay"), one("order", "bank.order"), one("wire", "bank.wire")
TWICE = Machine("twice", "first", table("first - second\\nsecond - done"), ends={"done": Status.COMPLETED}, work={
    name: (Action("pay", "bank.pay", {"to": f"{name} {{{{ context.to }}}}"}),) for name in ("first", "second")})
"""
MADE = ("PAY", "ORDER", "WIRE", "TWICE")


def prepare(folder: Path) -> None:
    (folder / "flows.py").write_text(FLOWS + BANK)
    (folder / "approval.yaml").write_text(APPROVAL)


async def lost(at: Stage, machine: str, *names: str) -> list[str]:
    """Runs of which nobody knows whether they have paid."""
    (at.folder / "dead").touch()
    runs = [await at.start(machine, to=name) for name in names]
    for run_id in runs:
        await at.until(run_id, "waiting")
    (at.folder / "dead").unlink()
    return runs


def answer_of(run: str) -> str:
    return f"/api/runs/{run}/contracts/working/pay/1/answer"


async def test_a_doubt_shows_its_cause_and_until_when_it_may_land(tmp_path: Path) -> None:
    prepare(tmp_path)
    async with stage(tmp_path, definitions=MADE) as at:
        (run_id,) = await lost(at, "order", "ann")
        (item,) = (await at.get("/api/inbox"))["items"]
        data = item["question"]["data"]
        assert data["cause"]["message"].endswith("the bank did not answer")
        assert data["result"] == {"status": 502}
        assert data["lands_until"] > time.time()
        refused = await at.post(answer_of(run_id), {"outcome": "not_happened"}, 409)
        assert "may still land" in refused["error"]["message"]
        assert "happened" in (await at.post(answer_of(run_id), {"outcome": "use"}, 409))["error"]["message"]
        done = await at.post(answer_of(run_id), {"outcome": "happened", "result": {"receipt": "o-1"}})
        assert (done["status"], done["output"]) == ("completed", {"got": "o-1"})


async def test_a_repeat_shows_what_was_done_and_takes_its_result_or_does_it_again(tmp_path: Path) -> None:
    prepare(tmp_path)
    async with stage(tmp_path, definitions=MADE) as at:
        first = await at.start("pay", to="bob")
        await at.until(first, "completed")
        runs = [await at.start("pay", to="bob") for _ in range(2)]
        asked = (await at.until(runs[0], "waiting"))["waiting"][0]
        assert asked["earlier"] | {"at": 0} == {
            "run_id": first, "contract_id": "working/pay/1", "status": "completed", "at": 0, "by": "kim",
            "result": {"receipt": "bob"}}  # fmt: skip
        (item, _) = (await at.get("/api/inbox"))["items"]
        assert item["question"]["earlier"] == asked["earlier"]
        assert "use" in (await at.post(answer_of(runs[0]), {"outcome": "happened"}, 409))["error"]["message"]
        used = await at.post(answer_of(runs[0]), {"outcome": "use"})
        assert (used["status"], used["output"]) == ("completed", {"got": "bob"})
        assert (tmp_path / "paid").read_text() == "bob\n"
        await at.until(runs[1], "waiting")
        await at.post(answer_of(runs[1]), {"approved": True})
        await at.until(runs[1], "completed")
        assert (tmp_path / "paid").read_text() == "bob\nbob\n"


async def test_there_is_no_result_to_use_of_what_was_not_done_before(tmp_path: Path) -> None:
    async with stage(tmp_path) as at:
        run_id = await at.start("plea", to="lee")
        refused = await at.post(f"/api/runs/{run_id}/contracts/working/send/1/answer", {"outcome": "use"}, 409)
        assert "no result to use" in refused["error"]["message"]


async def test_many_doubts_are_settled_at_once_and_what_is_refused_is_told(tmp_path: Path) -> None:
    prepare(tmp_path)
    async with stage(tmp_path, definitions=MADE) as at:
        sure = await lost(at, "pay", *(f"p{n}" for n in range(20)))
        (early,) = await lost(at, "order", "ann")
        found = await at.get("/api/doubts")
        assert found["effects"] == {"bank.pay": 20, "bank.order": 1}
        assert {one["run_id"] for one in found["doubts"]} == {*sure, early}
        said = {"all": True, "outcome": "not_happened", "comment": "looked", "by": "ann"}
        done = await at.post("/api/settle", said)
        assert (done["settled"], done["left"]) == (20, 1)
        (left,) = [one for one in done["doubts"] if not one["is_settled"]]
        assert (left["run_id"], left["status"]) == (early, "waiting")
        assert "may still land" in left["problem"]
        for run_id in sure:
            await at.until(run_id, "completed")
        assert len((tmp_path / "paid").read_text().split()) == 20
        log = await at.get(f"/api/runs/{sure[7]}/log")
        (answer,) = [e["event"]["result"] for e in log["entries"] if "outcome" in (e["event"].get("result") or {})]
        assert [answer[name] for name in ("outcome", "by", "channel", "comment")] == [
            "not_happened", "ann", "http", "looked"]  # fmt: skip
        given = {"runs": [early, sure[0]], "outcome": "happened", "result": {"receipt": "o-1"}}
        rest = await at.post("/api/settle", given)
        assert (rest["settled"], rest["left"]) == (1, 1)
        assert (await at.get(f"/api/runs/{early}"))["output"] == {"got": "o-1"}
        assert await at.get("/api/doubts") == {"doubts": [], "effects": {}}


async def test_probes_settle_what_they_know(tmp_path: Path) -> None:
    prepare(tmp_path)
    async with stage(tmp_path, definitions=MADE) as at:
        yes, no = await lost(at, "wire", "ann", "bob")
        (tmp_path / "ledger").write_text("ann\n")
        done = await at.post("/api/settle", {"effect": "bank.wire", "probe": True})
        assert {one["run_id"]: one["is_settled"] for one in done["doubts"]} == {yes: True, no: False}
        assert (await at.get(f"/api/runs/{yes}"))["output"] == {"got": "ann"}


async def test_a_settling_that_cannot_be_meant_is_refused(tmp_path: Path) -> None:
    async with stage(tmp_path) as at:
        wrong: list[dict[str, Any]] = [
            {},
            {"all": True},
            {"outcome": "happened"},
            {"all": True, "outcome": "happened", "probe": True},
            {"all": True, "effect": "x", "probe": True},
            {"all": True, "outcome": "give_up", "result": 1},
        ]
        for body in wrong:
            assert (await at.post("/api/settle", body, 400))["error"]["message"]
        assert (await at.post("/api/settle", {"runs": ["nobody"], "probe": True}, 404))["error"]["type"] == "unknown"
        assert (await at.post("/api/settle", {"all": True, "probe": True}))["doubts"] == []


async def test_an_alarm_is_in_the_run_in_its_log_and_in_the_list(tmp_path: Path) -> None:
    prepare(tmp_path)
    async with stage(tmp_path, definitions=MADE) as at:
        run_id = await at.start("pay", to="bob")
        quiet = await at.until(run_id, "completed")
        assert quiet["alarms"] == []
    async with EmbeddedHost(tmp_path / ".detent") as host:
        data = {"contract_id": "working/pay/1", "said": "it was done all the same", "is_second": True}
        host.fold(host.load(run_id), Signalled(EVIDENCE, data, "evidence", time.time()))
    async with stage(tmp_path, definitions=MADE) as at:
        told = ["`working/pay/1` may have been done twice: it was done all the same"]
        assert (await at.get(f"/api/runs/{run_id}"))["alarms"] == told
        assert [line["alarms"] for line in (await at.get("/api/runs"))["runs"]] == [told]
        entries = (await at.get(f"/api/runs/{run_id}/log"))["entries"]
        assert [entry["delta"].get("alarms") for entry in entries][-1] == told


async def test_a_doubt_that_came_after_the_look_is_not_settled_with_those_that_were_seen(tmp_path: Path) -> None:
    prepare(tmp_path)
    async with stage(tmp_path, definitions=MADE) as at:
        ann, bob = await lost(at, "twice", "ann", "bob")
        body = {"verb": "settle", "machine": "twice", "outcome": "happened", "by": "opal"}
        seen = (await at.post("/api/bulk", {**body, "preview": True}))["runs"]
        assert {line["run_id"]: [call["input"]["to"] for call in line["calls"]] for line in seen} == {
            ann: ["first ann"], bob: ["first bob"],
        }  # fmt: skip
        (tmp_path / "dead").touch()
        first = f"/api/runs/{ann}/contracts/first/pay/1/answer"
        await at.post(first, {"outcome": "happened", "by": "kim"})
        while not (await at.get(f"/api/runs/{ann}"))["waiting"]:
            await at.until(ann, "waiting")
        done = await at.post("/api/bulk", {**body, "seen": {line["run_id"]: line["mark"] for line in seen}})
        assert {line["run_id"]: line.get("problem", "") for line in done["runs"]} == {
            ann: "it has moved on since it was looked at", bob: "",
        }  # fmt: skip
        assert [one["contract_id"] for one in (await at.get(f"/api/runs/{ann}"))["waiting"]] == ["second/pay/1"]
