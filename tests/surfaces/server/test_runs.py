"""Every address that is about runs, through a real server: the seven verbs and what stands beside them."""

import asyncio
import json
from pathlib import Path

from tests.surfaces.server.stage import stage


async def test_a_run_is_started_by_file_by_name_and_once_by_key(tmp_path: Path) -> None:
    async with stage(tmp_path) as at:
        begun = await at.post("/api/runs", {"definition": "approval.yaml", "input": {"what": "x", "amount": 5}}, 201)
        assert (begun["machine"], begun["status"], begun["state"], begun["by"]) == (
            "approval", "completed", "booked", "kim")  # fmt: skip
        once = {"definition": "approval", "input": {"what": "y", "amount": 500}, "key": "order 7"}
        first, second = await asyncio.gather(at.post("/api/runs", once, 201), at.post("/api/runs", once, 201))
        assert first["run_id"] == second["run_id"]
        other = {**once, "input": {"what": "y", "amount": 501}}
        refused = await at.post("/api/runs", other, 409)
        assert "order 7" in refused["error"]["message"]
        wrong = await at.post("/api/runs", {"definition": "approval", "input": {"what": 1}}, 422)
        assert "input.what must be string" in wrong["error"]["message"]
        unknown = await at.post("/api/runs", {"definition": "../../etc/passwd"}, 404)
        assert "approval.yaml" in unknown["error"]["message"]
        assert len((await at.get("/api/runs"))["runs"]) == 2


async def test_the_list_is_filtered_and_paged_without_gaps(tmp_path: Path) -> None:
    async with stage(tmp_path) as at:
        made = [await at.start("mail", to=f"p{n}") for n in range(7)]
        asked = await at.start("plea", to="kim")
        page = await at.get("/api/runs?limit=3")
        assert page["waiting"] == 1
        seen, following = [run["run_id"] for run in page["runs"]], page["next"]
        while following:
            page = await at.get(f"/api/runs?limit=3&before={following}")
            seen += [run["run_id"] for run in page["runs"]]
            following = page["next"]
        assert seen == [asked, *reversed(made)]
        one = (await at.get("/api/runs?machine=plea"))["runs"]
        assert [run["run_id"] for run in one] == [asked]
        assert one[0]["waiting"][0]["question"] == "Please?"
        assert len((await at.get("/api/runs?status=waiting&status=completed"))["runs"]) == 8
        assert (await at.get("/api/runs?status=completed"))["runs"] == []
        assert [r["run_id"] for r in (await at.get("/api/runs?text=PLEASE"))["runs"]] == [asked]
        began = one[0]["started_at"]
        assert (await at.get(f"/api/runs?since={began + 1}"))["runs"] == []
        assert len((await at.get(f"/api/runs?until={began + 1}&top=true"))["runs"]) == 8
        assert await at.get("/api/machines") == ["mail", "plea"]


async def test_signals_are_taken_refused_and_counted_once(tmp_path: Path) -> None:
    async with stage(tmp_path) as at:
        run_id = await at.start("count")
        told = await at.post(f"/api/runs/{run_id}/signals", {"name": "TICK", "id": "a", "data": {"n": 1}})
        assert told["seq"] == 2
        assert told["can"]["signal"] == ["TICK", "STOP"]
        assert (await at.post(f"/api/runs/{run_id}/signals", {"name": "TICK", "id": "a"}))["seq"] == 2
        refused = await at.post(f"/api/runs/{run_id}/signals", {"name": "SEND"}, 409)
        assert refused["error"]["type"] == "event_refused"
        assert refused["error"]["accepts"] == ["TICK", "STOP"]
        assert (await at.post(f"/api/runs/{run_id}/signals", {"name": "@cancel"}, 409))["error"]["type"] == "refused"
        assert (await at.post("/api/runs/nobody/signals", {"name": "TICK"}, 404))["error"]["type"] == "unknown"


async def test_a_question_is_approved_with_the_call_that_was_seen(tmp_path: Path) -> None:
    async with stage(tmp_path) as at:
        run_id = await at.start("plea", to="lee")
        (item,) = (await at.get("/api/inbox"))["items"]
        question = item["question"]
        assert question["call"] == {"effect": "mail.send", "input": {"to": "lee"}}
        assert item["on_yes"]["does"] == [question["call"]]
        assert item["on_yes"]["ways"] == [{"target": "done"}]
        assert (item["on_no"]["is_certain"], item["on_no"]["ends"]) == (True, "rejected")
        assert (item["asked_by"], item["kind"]) == ("kim", "irreversible")
        path = f"/api/runs/{run_id}/contracts/{question['contract_id']}/answer"
        stale = await at.post(path, {"approved": True, "call_hash": "0" * 64}, 409)
        assert "another call" in stale["error"]["message"]
        await at.post(path, {"approved": True, "call_hash": question["call_hash"], "by": "ann", "comment": "fine"})
        await at.until(run_id, "completed")
        assert (tmp_path / "sent").read_text() == "lee\n"
        second = await at.post(path, {"approved": False, "by": "bob"}, 409)
        assert second["error"]["type"] == "already_decided"
        decided = second["error"]["decided"]
        assert (decided["by"], decided["approved"], decided["comment"]) == ("ann", True, "fine")
        assert (await at.get("/api/inbox"))["items"] == []


async def test_of_two_who_decide_at_once_one_wins(tmp_path: Path) -> None:
    async with stage(tmp_path) as at:
        for round_ in range(5):
            run_id = await at.start("plea", to=f"p{round_}")
            path = f"/api/runs/{run_id}/contracts/working%2Fsend%2F1/answer"
            said = [{"approved": True, "by": "ann"}, {"approved": False, "by": "bob"}]
            answers = await asyncio.gather(*(at.client.post(path, json=one) for one in said))
            assert sorted(answer.status_code for answer in answers) == [200, 409]
            (lost,) = [answer.json()["error"] for answer in answers if answer.status_code == 409]
            assert lost["decided"]["by"] in ("ann", "bob")


async def test_no_with_a_reason_and_yes_with_other_arguments(tmp_path: Path) -> None:
    async with stage(tmp_path) as at:
        run_id = await at.start("mail", to="lee")
        await at.post(f"/api/runs/{run_id}/signals", {"name": "SEND"})
        path = f"/api/runs/{run_id}/contracts/sending/send"
        back = await at.post(f"{path}/1/answer", {"approved": False, "comment": "too early", "by": "ann"})
        assert (back["state"], back["status"]) == ("writing", "waiting")
        log = (await at.get(f"/api/runs/{run_id}/log"))["entries"]
        assert log[-1]["event"]["result"] == {
            "approved": False, "comment": "too early", "by": "ann", "channel": "http"}  # fmt: skip
        await at.post(f"/api/runs/{run_id}/signals", {"name": "SEND"})
        wrong = await at.post(f"{path}/2/answer", {"approved": True, "args": {"to": 7}}, 409)
        assert "args.to must be string" in wrong["error"]["message"]
        await at.post(f"{path}/2/answer", {"approved": True, "args": {"to": "ann"}})
        await at.until(run_id, "completed")
        assert (tmp_path / "sent").read_text() == "ann\n"


async def test_a_form_is_checked_against_its_schema(tmp_path: Path) -> None:
    async with stage(tmp_path) as at:
        run_id = await at.start("form")
        path = f"/api/runs/{run_id}/contracts/working/ask/1/answer"
        (item,) = (await at.get("/api/inbox"))["items"]
        assert item["question"]["schema"]["required"] == ["count"]
        wrong = await at.post(path, {"data": {"count": "many"}}, 409)
        assert "data.count must be integer" in wrong["error"]["message"]
        assert "outcome" not in (await at.post(path, {"outcome": "happened"}, 409))["error"]["message"]
        done = await at.post(path, {"data": {"count": 3}})
        assert (done["status"], done["output"]) == ("completed", {"count": 3})


async def test_pause_resume_and_cancel(tmp_path: Path) -> None:
    async with stage(tmp_path) as at:
        run_id = await at.start("plea", to="lee")
        paused = await at.post(f"/api/runs/{run_id}/pause", {"by": "ann"})
        assert (paused["paused"], paused["can"]["pause"]) == (True, False)
        assert "paused already" in (await at.post(f"/api/runs/{run_id}/pause", {}, 409))["error"]["message"]
        assert (await at.post(f"/api/runs/{run_id}/resume"))["paused"] is False
        over = await at.post(f"/api/runs/{run_id}/cancel", {"reason": "not needed"})
        assert (over["status"], over["can"]["retry"]) == ("cancelled", False)
        assert "has ended" in (await at.post(f"/api/runs/{run_id}/resume", {}, 409))["error"]["message"]
        assert (await at.post(f"/api/runs/{run_id}/cancel", {}, 409))["error"]["type"] == "event_refused"


async def test_a_run_that_has_ended_is_resumed_while_its_family_is_open(tmp_path: Path) -> None:
    async with stage(tmp_path) as at:
        run_id = await at.start("both")
        await at.until(run_id, "waiting")
        child = f"{run_id}.working.kid.1"
        assert (await at.post(f"/api/runs/{child}/resume"))["status"] == "completed"
        await at.post(f"/api/runs/{run_id}/cancel")
        assert "has ended (completed)" in (await at.post(f"/api/runs/{child}/resume", {}, 409))["error"]["message"]


async def test_a_retry_goes_on_from_what_failed(tmp_path: Path) -> None:
    async with stage(tmp_path) as at:
        run_id = await at.start("pair", to="lee")
        failed = await at.until(run_id, "failed")
        assert (failed["error"]["message"], failed["can"]["retry"]) == ("not yet", True)
        (line,) = (await at.get("/api/runs"))["runs"]
        assert line["error"] == {"type": failed["error"]["type"], "message": "not yet"}
        (tmp_path / "go").touch()
        seen = await at.get(f"/api/runs/{run_id}/retry")
        assert [(one["effect"], one["is_asked"]) for one in seen["calls"]] == [("maybe", False)], "not what is done"
        assert (await at.get(f"/api/runs/{run_id}"))["seq"] == failed["seq"], "nothing was changed"
        again = await at.post(f"/api/runs/{run_id}/retry", {"key": "x"})
        assert (again["run_id"], again["error"]) == (run_id, None)
        done = await at.until(run_id, "completed")
        assert (tmp_path / "sent").read_text() == "lee\n"
        assert (await at.post(f"/api/runs/{run_id}/retry", {"key": "x"}))["seq"] == done["seq"], "once"
        assert "only one that failed" in (await at.get(f"/api/runs/{run_id}/retry", 409))["error"]["message"]
        assert "only one that failed" in (await at.post(f"/api/runs/{run_id}/retry", {}, 409))["error"]["message"]


async def test_a_fork_begins_where_the_run_was_and_lists_later_deeds(tmp_path: Path) -> None:
    async with stage(tmp_path) as at:
        run_id = await at.start("plea", to="lee")
        await at.post(f"/api/runs/{run_id}/contracts/working/send/1/answer", {"approved": True})
        done = await at.until(run_id, "completed")
        forked = await at.post(f"/api/runs/{run_id}/fork", {"at": "1", "by": "ann"}, 201)
        (asked,) = forked["run"]["waiting"]  # a fork does not do an irreversible deed again without a word
        assert (asked["earlier"]["run_id"], asked["earlier"]["approved_by"]) == (run_id, "kim")
        assert [deed["effect"] for deed in forked["deeds"]["after"]] == ["mail.send"]
        assert forked["deeds"]["before"] == []
        by_checkpoint = await at.post(f"/api/runs/{run_id}/fork", {"at": done["checkpoint"][:12]}, 201)
        assert by_checkpoint["deeds"]["at"] == done["seq"]
        assert (await at.post(f"/api/runs/{run_id}/fork", {"at": "99"}, 404))["error"]["type"] == "unknown"
        refused = await at.post(f"/api/runs/{run_id}/fork", {"loop": "*"}, 409)
        assert "no failed items" in refused["error"]["message"]
        deeds = await at.get(f"/api/runs/{run_id}/deeds")
        assert [(d["effect"], d["deed"], d["input"]) for d in deeds["before"]] == [("mail.send", "done", {"to": "lee"})]


async def test_the_past_of_a_run_can_be_read_proved_and_taken_away(tmp_path: Path) -> None:
    async with stage(tmp_path) as at:
        run_id = await at.start("mail", to="lee")
        await at.post(f"/api/runs/{run_id}/signals", {"name": "SEND"})
        await at.post(f"/api/runs/{run_id}/contracts/sending/send/1/answer", {"approved": True})
        done = await at.until(run_id, "completed")
        first = await at.get(f"/api/runs/{run_id}/log?limit=2")
        rest = await at.get(f"/api/runs/{run_id}/log?after={first['next']}")
        entries = [*first["entries"], *rest["entries"]]
        assert [entry["seq"] for entry in entries] == list(range(1, done["seq"] + 1))
        assert entries[1]["delta"]["state"] == "sending"
        assert entries[1]["delta"]["contracts"][0]["status"] == "waiting"
        assert "context" not in entries[1]["delta"]
        assert entries[-1]["delta"]["closed"] == ["sending/send/1"]
        was = await at.get(f"/api/runs/{run_id}/at/2")
        assert (was["state"], was["status"], was["last"], was["can"]["answer"]) == (
            "sending", "waiting", done["seq"], False)  # fmt: skip
        assert was["waiting"][0]["question"] == "May I send it?"
        assert (await at.get(f"/api/runs/{run_id}/at/{done['seq'] + 1}", 404))["error"]["type"] == "unknown"
        proof = await at.get(f"/api/runs/{run_id}/verify")
        assert (proof["ok"], proof["events"], proof["checkpoint"]) == (True, done["seq"], done["checkpoint"])
        export = await at.client.get(f"/api/runs/{run_id}/log/export")
        lines = [json.loads(line) for line in export.text.splitlines()]
        assert [line["seq"] for line in lines if line["line"] == "event"] == list(range(1, done["seq"] + 1))
        assert (lines[-2]["head"], lines[-1]["line"]) == (done["checkpoint"], "end")
        (life,) = (await at.get(f"/api/runs/{run_id}/contracts"))["contracts"]
        assert [move["status"] for move in life["moves"]] == ["running", "waiting", "running", "completed"]
        assert (life["contract"]["result"], life["contract"]["deed"]) == ({"id": 7}, "done")


async def test_the_picture_shows_the_way_and_any_moment_of_it(tmp_path: Path) -> None:
    async with stage(tmp_path) as at:
        run_id = await at.start("mail", to="lee")
        await at.post(f"/api/runs/{run_id}/signals", {"name": "SEND"})
        now = await at.get(f"/api/runs/{run_id}/graph")
        assert now["current"] == "sending"
        assert [(e["source"], e["target"]) for e in now["edges"] if e["visits"]] == [("writing", "sending")]
        assert all(node["box"]["width"] > 0 for node in now["nodes"])
        assert (await at.get(f"/api/runs/{run_id}/graph?at=1"))["current"] == "writing"
        await at.get(f"/api/runs/{run_id}/graph?at=9", 404)
        picture = await at.client.get(f"/api/runs/{run_id}/graph.svg?theme=dark")
        assert picture.headers["content-type"].startswith("image/svg+xml")
        assert picture.text.startswith("<svg")


async def test_what_is_large_is_folded_and_whole_at_its_own_address(tmp_path: Path) -> None:
    async with stage(tmp_path) as at:
        run_id = await at.start("count")
        await at.post(f"/api/runs/{run_id}/signals", {"name": "TICK", "data": {"text": "x" * 100_000}})
        entry = (await at.get(f"/api/runs/{run_id}/log"))["entries"][1]
        assert entry["folded"] == ["event.data"]
        assert "data" not in entry["event"]
        whole = await at.get(f"/api/runs/{run_id}/log/2")
        assert len(whole["event"]["data"]["text"]) == 100_000


async def test_definitions_are_listed_with_their_problems_and_compared(tmp_path: Path) -> None:
    (tmp_path / "broken.yaml").write_text(
        "name: broken\nstates:\n  a: {type: initial}\ntransitions:\n  - {from: a, to: b}\n"
    )
    (tmp_path / "compose.yaml").write_text("services: {a: {image: b}}\n")
    (tmp_path / "approval.test.yaml").write_text("states: {}\n")
    async with stage(tmp_path) as at:
        listed = {line["name"]: line for line in await at.get("/api/definitions")}
        assert set(listed) == {"approval.yaml", "broken.yaml", *(n for n in listed if n.startswith("flows.py:"))}
        (problem,) = listed["broken.yaml"]["problems"]
        assert (problem["file"], problem["line"], problem["severity"]) == ("broken.yaml", 5, "error")
        refused = await at.post("/api/runs", {"definition": "broken.yaml"}, 422)
        assert refused["error"]["problems"][0]["line"] == 5
        seen = await at.get("/api/definitions/view?name=approval")
        assert seen["input"]["properties"]["amount"] == {"type": "number"}
        assert "{type: initial}" in seen["source"]
        assert {node["id"] for node in seen["graph"]["nodes"]} == {"check", "large", "booked", "refused"}
        assert (await at.get("/api/definitions/view?name=broken.yaml"))["graph"] is None
        run_id = await at.start("approval", what="x", amount=5)
        changed = (tmp_path / "approval.yaml").read_text().replace("> 100", "> 200")
        (tmp_path / "approval.yaml").write_text(changed)
        compared = await at.get(f"/api/definitions/compare?left=run:{run_id}&right=approval.yaml")
        assert compared["is_same"] is False
        assert [(c["what"], c["kind"]) for c in compared["changes"]] == [
            ("transition", "removed"), ("transition", "added")]  # fmt: skip
        same = await at.get("/api/definitions/compare?left=mail&right=flows.py:MAIL")
        assert same["is_same"] is True
        svg = await at.client.get("/api/definitions/graph.svg?name=mail")
        assert svg.text.startswith("<svg")


async def test_a_prefix_and_last_name_a_run_and_health_is_open(tmp_path: Path) -> None:
    async with stage(tmp_path) as at:
        run_id = await at.start("count")
        assert (await at.get(f"/api/runs/{run_id[:6]}"))["run_id"] == run_id
        assert (await at.get("/api/runs/last"))["run_id"] == run_id
        health = await at.get("/healthz")
        assert (health["ok"], health["is_holder"], health["cursor"]) == (True, True, 1)
        assert (await at.client.get("/runs/anything")).status_code == 404
        page = await at.client.get("/")
        assert page.status_code == 200
        assert page.headers["content-type"].startswith("text/html")


async def test_a_run_can_be_read_while_it_is_written(tmp_path: Path) -> None:
    async with stage(tmp_path) as at:
        run_id = await at.start("count")

        async def tick() -> None:
            for _ in range(300):
                await at.room.host.signal(run_id, "TICK")

        async with asyncio.TaskGroup() as tasks:
            writing = tasks.create_task(tick())
            seen = 0
            while not writing.done():
                now = await at.get(f"/api/runs/{run_id}")
                assert now["seq"] >= seen
                seen = now["seq"]
                assert (await at.get(f"/api/runs/{run_id}/verify"))["ok"]
