"""Memories, plans, conversations, settings, MCP servers and logs over HTTP."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.effects.llm.scripted import calling, said, serving
from tests.surfaces.server.stage import Stage, stage
from tests.surfaces.server.test_assistant import events, names, talking


async def test_what_is_remembered_can_be_read_found_and_forgotten(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        assert await scene.get("/api/memories") == {"memories": []}
        tea = await scene.post("/api/memories", {"category": "preference", "key": "drink", "value": "green tea"})
        city = await scene.post("/api/memories", {"category": "fact", "key": "city", "value": "杭州"})
        again = await scene.post("/api/memories", {"category": "preference", "key": "drink", "value": "white tea"})
        assert again["id"] == tea["id"], "the same thing is remembered once"
        assert [one["id"] for one in (await scene.get("/api/memories"))["memories"]] == [city["id"], tea["id"]]
        (only,) = (await scene.get("/api/memories?category=fact"))["memories"]
        assert (only["value"], only["score"]) == ("杭州", None)
        (found,) = (await scene.get("/api/memories?text=which%20tea%3F"))["memories"]
        assert (found["value"], found["score"] > 0) == ("white tea", True)
        assert await scene.post(f"/api/memories/{tea['id']}/forget") == {"forgotten": tea["id"]}
        await scene.post(f"/api/memories/{tea['id']}/forget", status=404)
        await scene.post("/api/memories/first/forget", status=404)
        assert (await scene.get("/api/memories?text=tea"))["memories"] == []
        await scene.post("/api/memories", {"category": "No such!", "key": "k", "value": "v"}, 422)


async def test_a_memory_made_here_is_told_to_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(said("Tea it is.")) as model:
        monkeypatch.setenv("DETENT_BASE_URL", model.url)
        monkeypatch.setenv("DETENT_MODEL", "openai:test")
        async with stage(tmp_path) as scene:
            await scene.post("/api/memories", {"category": "preference", "key": "drink", "value": "white tea"})
            await events(scene, "/chat", {"message": "I prefer a drink", "session_id": "s"})
    assert "- (preference) drink: white tea" in model.asked[0].body["messages"][0]["content"]


async def test_a_plan_is_made_done_and_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    form = {
        "title": "A plan", "fields": [{"name": "when", "type": "date", "label": "When", "required": True}],
        "context": {"intent": "collect_plan"},
    }  # fmt: skip
    asked = said(json.dumps({"response": "When?", "ecs_request": form}))
    async with talking(tmp_path, monkeypatch, asked, said("Noted.")) as scene:
        told = await events(scene, "/chat", {"message": "I prefer tea", "session_id": "s"})
        request = {"request_id": dict(told)["ecs"]["payload"]["id"], "session_id": "s", "action": "approve"}
        await scene.post("/ecs/respond", request | {"data": {"when": "2027-01-31"}})
        assert names(await events(scene, "/ecs/continue", {"session_id": "s"}))[-1] == "done"
        (made,) = (await scene.get("/api/plans"))["plans"]
        assert (made["title"], made["text"], made["status"], made["session"]) == ("When", "2027-01-31", "open", "s")
        own = await scene.post("/api/plans", {"title": "paint the door", "text": "green"})
        assert (await scene.post(f"/api/plans/{own['id']}", {"status": "done"}))["status"] == "done"
        assert (await scene.post(f"/api/plans/{made['id']}", {"status": "dropped"}))["status"] == "dropped"
        assert [one["title"] for one in (await scene.get("/api/plans?status=done"))["plans"]] == ["paint the door"]
        assert (await scene.get("/api/plans?status=open"))["plans"] == []
        assert (await scene.post("/api/plans", {"title": "paint the door"}))["status"] == "open"
        tea = await scene.post("/api/memories", {"category": "fact", "key": "k", "value": "v"})
        await scene.post(f"/api/plans/{tea['id']}", {"status": "done"}, 404)


async def state(scene: Stage, session: str = "s") -> str:
    return str((await scene.get(f"/api/co/{session}"))["status"])


async def test_a_conversation_is_a_cognitive_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = calling("email_send", to="bob")
    async with talking(tmp_path, monkeypatch, said("Yes."), asked, said("Sent."), said("Hm.")) as scene:
        law = await scene.get("/api/co/topology")
        assert [node["id"] for node in law["nodes"]] == [
            "emerging", "active", "waiting", "blocked", "stable", "archived",
        ]  # fmt: skip
        await scene.get("/api/co/s", 404)
        await events(scene, "/chat", {"message": "I prefer tea", "session_id": "s"})
        assert await state(scene) == "stable"
        told = await events(scene, "/chat", {"message": "I prefer mail", "session_id": "s"})
        (seen,) = (await scene.get("/api/co?status=waiting"))["objects"]
        assert (seen["co_id"], seen["title"], seen["turns"]) == ("s", "I prefer tea", 2)
        assert set(seen) == {
            "co_id", "title", "description", "semantic_type", "domain_tag", "intent_category", "status", "transitions",
            "linked_execution_ids", "linked_memory_ids", "external_references", "related_co_ids", "created_at",
            "updated_at", "turns", "waiting",
        }  # fmt: skip
        assert [move["trigger"] for move in seen["transitions"]] == ["clarify", "achieve", "reactivate", "wait"]
        assert set(seen["transitions"][0]) == {"from", "to", "trigger", "timestamp", "actor", "reason"}
        assert len(seen["linked_execution_ids"]) == 2
        refused = await scene.post("/api/co/s/transition", {"trigger": "unblock"}, status=409)
        assert "resume, block, achieve, archive" in refused["error"]["message"]
        moved = await scene.post("/api/co/s/transition", {"trigger": "block", "reason": "no answer yet"})
        assert moved["status"] == "blocked"
        assert moved["transitions"][-1]["reason"] == "no answer yet"
        assert len(moved["transitions"]) == 5, "what was refused leaves no record"
        form = dict(told)["ecs"]["payload"]
        await scene.post("/ecs/respond", {"request_id": form["id"], "session_id": "s", "action": "reject"})
        await events(scene, "/ecs/continue", {"session_id": "s"})
        assert await state(scene) == "stable"
        assert (await scene.post("/api/co/s/archive"))["status"] == "archived"
        assert (await scene.get("/api/co?status=stable"))["objects"] == []
        assert (await scene.get("/api/co?active=true"))["objects"] == []
        await events(scene, "/chat", {"message": "I prefer tea again", "session_id": "s"})
        assert await state(scene) == "stable", "somebody spoke again"


async def test_a_turn_at_work_is_active_and_a_failed_one_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = asyncio.Event()
    begun = asyncio.Event()

    async def slow(asked: Any, write: Any) -> None:
        begun.set()
        await go_on.wait()
        await said("Done.")(asked, write)

    async with talking(tmp_path, monkeypatch, slow) as scene:
        turn = asyncio.create_task(events(scene, "/chat", {"message": "I prefer tea", "session_id": "s"}))
        await begun.wait()
        assert await state(scene) == "active"
        go_on.set()
        await turn
        monkeypatch.delenv("DETENT_BASE_URL")
        monkeypatch.setenv("DETENT_MODEL", "openai:test")
        monkeypatch.setenv("OPENAI_API_KEY", "")
        await events(scene, "/chat", {"message": "I prefer tea", "session_id": "t"})
        assert await state(scene, "t") == "blocked"


async def test_settings_hold_for_the_turns_that_follow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    form = {"title": "A form", "fields": [{"name": "a", "type": "text"}]}
    asked = said(json.dumps({"response": "?", "ecs_request": form}))
    async with serving(asked) as model:
        monkeypatch.setenv("DETENT_BASE_URL", model.url)
        monkeypatch.setenv("DETENT_MODEL", "openai:test")
        async with stage(tmp_path) as scene:
            first = await scene.get("/api/settings")
            assert (first["intent"], first["model_in_use"], first["model_problem"]) == ("model", "openai:test", None)
            change = {"intent": "off", "instructions": "Be brief.", "form_ttl_seconds": 300, "model": "openai:other"}
            assert (await scene.post("/api/settings", change))["model_in_use"] == "openai:other"
            assert (await scene.get("/api/settings"))["emotion_threshold"] == 0.5, "what is left out stays"
            told = await events(scene, "/chat", {"message": "what is this", "session_id": "s"})
            form_id = dict(told)["ecs"]["payload"]["id"]
            assert (await scene.get(f"/ecs/status/{form_id}"))["expires_at"] is not None
            (only,) = model.asked
            assert only.body["model"] == "other"
            assert only.body["messages"][0]["content"].endswith("Be brief.")
            assert "nonsense" in (await scene.post("/api/settings", {"model": "nonsense"}, 409))["error"]["message"]
            await scene.post("/api/settings", {"intent": "guess"}, 422)
            (tmp_path / ".detent" / "assistant.json").write_text('{"intent": 7}')
            assert "assistant.json" in (await scene.get("/api/settings", 503))["error"]["message"]


async def test_servers_and_their_logs_are_shown_without_starting_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PEER_SECRET", "hunter2-hunter2")
    peer = str(Path(__file__).parents[2] / "effects" / "mcp" / "peer.py")
    config = {"command": sys.executable, "args": [peer], "trusted": True, "env": {"PEER_SECRET": "${PEER_SECRET}"}}
    (tmp_path / "detent.mcp.json").write_text(json.dumps({"mcpServers": {"peer": config}}))
    async with stage(tmp_path) as scene:
        (never,) = (await scene.get("/api/mcp/servers"))["servers"]
        assert (never["name"], never["trusted"], never["tools"]) == ("peer", True, None)
        assert await scene.get("/api/logs") == {"logs": []}
        from detent.kit.available_effects import servers_here

        async with servers_here(tmp_path / ".detent") as servers:
            assert servers is not None
            await servers.effects()
        (seen,) = (await scene.get("/api/mcp/servers"))["servers"]
        tools = {tool["name"]: tool["effect"] for tool in seen["tools"]}
        assert (tools["peer.look"], tools["peer.pay"]) == ("pure", "irreversible")
        log = tmp_path / ".detent" / "mcp" / "peer.log"
        log.write_text("one\ntwo hunter2-hunter2\nthree\n")
        assert [one["name"] for one in (await scene.get("/api/logs"))["logs"]] == ["peer"]
        tail = await scene.get("/api/logs/peer?lines=2")
        assert tail == {"name": "peer", "lines": ["two •••", "three"], "is_cut": True}
        await scene.get("/api/logs/nobody", 404)
        await scene.get("/api/logs/..%2F..%2Fjournal", 404)


async def test_what_a_form_gave_is_told_as_saved_and_can_be_corrected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    form = {
        "title": "Your drink", "fields": [{"name": "drink", "type": "text", "label": "Drink", "required": True}],
        "context": {"intent": "collect_preference"},
    }  # fmt: skip
    asked = said(json.dumps({"response": "Which?", "ecs_request": form}))
    intent = said("no JSON")  # of the filled-in form, which no rule knows
    scripts = (asked, intent, said("Noted."), said("They spoke about drinks."), said("Tea."))
    async with talking(tmp_path, monkeypatch, *scripts) as scene:
        told = await events(scene, "/chat", {"message": "I prefer something", "session_id": "s"})
        request = dict(told)["ecs"]["payload"]
        answer = {"request_id": request["id"], "session_id": "s", "action": "approve", "data": {"drink": "tea"}}
        await scene.post("/ecs/respond", answer)
        told = await events(scene, "/ecs/continue", {"session_id": "s"})
        saved = dict(told)["memory_saved"]["payload"]
        assert (saved["count"], saved["entries"][0]["category"], saved["entries"][0]["key"]) == (
            1,
            "preference",
            "Drink",
        )
        number = saved["entries"][0]["id"]
        assert (await scene.post(f"/api/memories/{number}", {"value": "white tea"}))["value"] == "white tea"
        await scene.post("/api/memories/999", {"value": "nothing"}, 404)
        await events(scene, "/api/conversations/s/compact", {})
        (first, *_) = (await scene.get("/api/conversations/s/passages?text=something"))["passages"]
        assert (first["role"], first["content"]) == ("user", "I prefer something")
        await scene.post("/api/conversations/nobody/compact", {}, 404)
        await events(scene, "/chat", {"message": "I prefer what?", "session_id": "s"})
        said_before = [str(one["content"]) for one in scene.model.asked[-1].body["messages"]]
        assert "They spoke about drinks." in said_before[1]
        assert "I prefer something" not in said_before
