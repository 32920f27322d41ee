"""The desk: ten thousand questions in pages that stand still, one message for a new one, and many approved at once."""

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from detent import Action, Machine, Question, Status, table
from detent.surfaces.server import question_index as desk_module
from detent.surfaces.server.question_index import DeskFilter, QuestionDesk
from tests.surfaces.server.stage import Stage, stage


async def plea(at: Stage, to: str) -> tuple[str, dict[str, Any]]:
    run_id = await at.start("plea", to=to)
    item = (await at.get(f"/api/inbox/{run_id}/working/send/1"))["item"]
    return run_id, item


def shown(item: dict[str, Any]) -> dict[str, Any]:
    asked = item["question"]
    named = {"run_id": item["run_id"], "contract_id": asked["contract_id"]}
    return {**named, "call_hash": asked["call_hash"], "shown": item["shown"]}


async def test_an_answer_to_another_question_than_the_one_shown_is_refused(tmp_path: Path) -> None:
    async with stage(tmp_path) as at:
        (one, first), (two, second) = await plea(at, "kim"), await plea(at, "lee")
        for said in ({"shown": first["shown"]}, {"call_hash": first["question"]["call_hash"]}):
            path = f"/api/runs/{two}/contracts/working/send/1/answer"
            refused = await at.post(path, {"approved": True, **said}, 409)
            assert "another" in refused["error"]["message"]
        assert (await at.get(f"/api/runs/{two}"))["status"] == "waiting"
        mine = shown(second)
        await at.post(path, {"approved": True, "call_hash": mine["call_hash"], "shown": mine["shown"]})
        assert (await at.until(two, "completed"))["status"] == "completed"
        assert (tmp_path / "sent").read_text() == "lee\n"
        assert (await at.get(f"/api/runs/{one}"))["status"] == "waiting"


async def test_a_question_says_what_it_asks_and_then_who_decided_it(tmp_path: Path) -> None:
    async with stage(tmp_path) as at:
        run_id, item = await plea(at, "kim")
        assert (item["similar"], item["policy"], item["question"]["may"]) == (1, None, {"answer": True})
        said = {"approved": False, "comment": "not today", "by": "ann"}
        await at.post(f"/api/runs/{run_id}/contracts/working/send/1/answer", said)
        decided = (await at.get(f"/api/inbox/{run_id}/working/send/1"))["decided"]
        assert (decided["by"], decided["approved"], decided["comment"]) == ("ann", False, "not today")
        assert (await at.get(f"/api/inbox/{run_id}/working/none/1", 404))["error"]["type"] == "unknown"


async def test_a_list_stands_still_while_others_decide_and_ask(tmp_path: Path) -> None:
    async with stage(tmp_path) as at:
        runs = [(await plea(at, f"p{n}"))[0] for n in range(5)]
        page = await at.get("/api/inbox/lines", params={"limit": 2})
        assert [line["run_id"] for line in page["lines"]] == runs[:2]
        assert (page["matching"], page["open"], page["total"]) == (5, 5, 5)
        await at.post(f"/api/runs/{runs[1]}/contracts/working/send/1/answer", {"approved": False})
        late = (await plea(at, "late"))[0]
        rest = [
            (await at.get("/api/inbox/lines", params={"at": page["at"], "offset": n, "limit": 2})) for n in (0, 2, 4)
        ]
        assert [line["run_id"] for part in rest for line in part["lines"]] == runs
        assert [line["run_id"] for part in rest for line in part["lines"] if line.get("decided")] == [runs[1]]
        assert {(part["matching"], part["open"], part["total"]) for part in rest} == {(5, 4, 5)}
        now = await at.get("/api/inbox/lines")
        assert [line["run_id"] for line in now["lines"]] == [runs[0], *runs[2:], late]
        assert (await at.get("/api/inbox"))["total"] == 5


async def test_questions_are_grouped_counted_and_filtered(tmp_path: Path) -> None:
    async with stage(tmp_path) as at:
        for name in ("kim", "lee"):
            await plea(at, name)
        form = await at.start("form")
        groups = (await at.get("/api/inbox/lines", params={"group": "effect", "limit": 0}))["groups"]
        assert [(one["name"], one["count"]) for one in groups] == [("mail.send", 2), ("ask", 1)]
        for group in ("machine", "by", "age"):
            found = await at.get("/api/inbox/lines", params={"group": group, "limit": 0})
            assert sum(one["count"] for one in found["groups"]) == 3
        for wish in ({"machine": "form"}, {"effect": "ask"}, {"text": "how MANY"}, {"text": form}):
            page = await at.get("/api/inbox/lines", params={**wish, "age": "hour"})
            assert [line["run_id"] for line in page["lines"]] == [form]
            assert (page["open"], page["total"]) == (1, 3)
        assert (await at.get("/api/inbox/lines", params={"age": "older"}))["lines"] == []
        assert (await at.get("/api/inbox/lines", params={"age": "minute"}, status=422))["error"]


async def test_a_new_question_costs_one_message(tmp_path: Path) -> None:
    async with stage(tmp_path) as at:
        await plea(at, "first")
        cursor = (await at.get("/api/inbox/lines", params={"limit": 0}))["cursor"]
        run_id = await at.start("plea", to="second")
        async for event in at.events(f"/api/events?after={cursor}"):
            asking = [line for line in event.data.get("runs", ()) if line["run_id"] == run_id and line["waiting"]]
            if asking:
                assert event.data["waiting"] == 2
                assert event.data["titles"] == {asking[0]["digest"]: ""}
                assert asking[0]["waiting"][0]["question"] == "Please?"
                break


async def test_many_are_approved_with_an_answer_and_an_entry_each(tmp_path: Path) -> None:
    async with stage(tmp_path) as at:
        asked = [(await plea(at, f"p{n}")) for n in range(4)]
        await at.post(f"/api/runs/{asked[1][0]}/contracts/working/send/1/answer", {"approved": False, "by": "lee"})
        body = {"items": [shown(item) for _, item in asked[:3]], "comment": "the usual ones", "by": "ann"}
        report = await at.post("/api/inbox/approve", body)
        assert [one["is_taken"] for one in report["answers"]] == [True, False, True]
        assert report["answers"][1]["problem"]
        for run_id, item in (asked[0], asked[2]):
            await at.until(run_id, "completed")
            answers = [
                entry["event"]["result"]
                for entry in (await at.get(f"/api/runs/{run_id}/log"))["entries"]
                if entry["event"].get("trigger") == "resume"
            ]
            assert [(one["by"], one["comment"], one["shown"]) for one in answers] == [
                ("ann", "the usual ones", item["shown"])
            ]
        assert (await at.get(f"/api/runs/{asked[3][0]}"))["status"] == "waiting"
        assert sorted((tmp_path / "sent").read_text().split()) == ["p0", "p2"]


async def test_a_batch_takes_nothing_but_plain_approvals_of_one_action(tmp_path: Path) -> None:
    async with stage(tmp_path) as at:
        mail = await at.start("mail", to="kim")
        await at.post(f"/api/runs/{mail}/signals", {"name": "SEND"})
        form = await at.start("form")
        (_, one) = await plea(at, "lee")
        other = (await at.get(f"/api/inbox/{mail}/sending/send/1"))["item"]
        filled = (await at.get(f"/api/inbox/{form}/working/ask/1"))["item"]
        assert filled["similar"] == 0
        for items, problem in (
            ([one, other], "one action of one version"),
            ([one, filled], "not a plain approval"),
            ([one, one], "every question once"),
        ):
            answer = await at.client.post("/api/inbox/approve", json={"items": [shown(item) for item in items]})
            assert answer.status_code in (409, 422)
            assert problem in answer.json()["error"]["message"]
        too_many = {"items": [shown(one)] * 51}
        assert (await at.client.post("/api/inbox/approve", json=too_many)).status_code == 422
        assert not (tmp_path / "sent").exists()  # nothing of a batch is done that is not whole


async def test_the_index_says_what_the_journal_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever comes in whatever order, and however seldom somebody looks."""
    monkeypatch.setattr(desk_module, "CATCH_UP_MAX", 12)  # so that both ways of reading are taken
    chance = random.Random(7)
    asks = Machine(
        "asks", "on", table("on - done"), {"on": (Action("ask", "ask", ask=Question("May I?")),)},
        ends={"done": Status.COMPLETED},
    )  # fmt: skip
    async with stage(tmp_path) as at:
        host, desk = at.room.host, QuestionDesk(at.room.reader)
        known: list[str] = []
        for _ in range(40):
            for _ in range(chance.choice((1, 1, 8))):
                if known and chance.random() < 0.5:
                    await host.answer(known.pop(chance.randrange(len(known))), "on/ask/1", {"approved": True})
                else:
                    known.append((await host.start(asks)).id)
            page = await asyncio.to_thread(desk.read, DeskFilter(), 0, 0, 500)
            assert {line.run_id for line in page.lines} == set(known)
            assert page.open == page.total == len(known) == desk.count_alike(asks.digest, "ask")
