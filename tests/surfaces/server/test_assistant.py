"""The assistant over HTTP: the order of events, forms of every kind, restarts, and who may ask."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from detent.agents.assistant.image import IMAGE_MAX
from detent.define.document import read_document
from detent.define.policy import compile_policy
from detent.surfaces.server.setting import ServerLimits, ServerSettings
from tests.agents.assistant.stage import asking_all
from tests.effects.llm.scripted import DONE, Script, chunk, message, said, serving, streaming, text
from tests.surfaces.server.stage import Stage, stage

TOOLS = """
import asyncio
from pathlib import Path
from detent import Outcome, Question, effect

HERE = Path(__file__).parent
TO = {"type": "object", "required": ["to"], "properties": {"to": {"type": "string"}}}

@effect("email.send", settle_s=0.0, schema=TO)
async def send(contract):
    '''Send an e-mail.'''
    with (HERE / "sent").open("a") as sent:
        sent.write(contract.input["to"] + "\\n")
    return "sent"

@effect("notes.read", kind="pure", schema={"type": "object", "properties": {}})
async def read(contract):
    '''Read the notes.'''
    return "a note"

@effect("bank.pay", settle_s=0.0, timeout_s=0.05, schema={"type": "object", "properties": {}})
async def pay(contract):
    '''Pay, and never hear of it again.'''
    with (HERE / "sent").open("a") as sent:
        sent.write("paid\\n")
    await asyncio.Event().wait()

WHO = {"type": "object", "required": ["who"], "properties": {
    "who": {"type": "object", "required": ["name", "seat"], "properties": {
        "name": {"type": "string", "title": "Your name"},
        "seat": {"oneOf": [{"const": "w", "title": "Window"}, {"const": "a", "title": "Aisle"}]},
        "age": {"type": "integer", "minimum": 0},
        "meals": {"type": "array", "items": {"type": "string", "enum": ["veal", "veggie"]}},
        "day": {"type": "string", "format": "date"}}}}}

@effect("trip.book", kind="idempotent", schema={"type": "object", "properties": {}})
async def book(contract):
    '''Book a trip, after asking for whom.'''
    if not contract.answers:
        return Outcome(question=Question("Who travels?", "form", WHO))
    return contract.answers[-1].data["who"]
"""
STATES = "execution_state"


def calling(name: str, text: str = "", **arguments: Any) -> Script:
    asked = {"index": 0, "id": "c1", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
    return streaming(chunk({"content": text}), chunk({"tool_calls": [asked]}), chunk({}, "tool_calls"), DONE)


@asynccontextmanager
async def talking(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    *scripts: Script,
    policy: str = "",
    limits: ServerLimits | None = None,
) -> AsyncIterator[Stage]:
    """A server whose model says what the scripts say."""
    (folder / "tools.py").write_text(TOOLS)
    async with serving(*scripts) as model:
        monkeypatch.setenv("DETENT_BASE_URL", model.url)
        monkeypatch.setenv("DETENT_MODEL", "openai:test")
        monkeypatch.setenv("DETENT_TOOLS", str(folder / "tools.py"))
        law, settings = (
            compile_policy(read_document(policy, "p")) if policy else None,
            ServerSettings(limits=limits or ServerLimits()),
        )
        async with stage(folder, settings, policy=law) as scene:
            scene.model = model
            yield scene


async def events(scene: Stage, path: str, body: dict[str, Any]) -> list[tuple[str, Any]]:
    """The events of a stream, to its end."""
    answer = await scene.client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/event-stream")
    found = []
    for block in answer.text.split("\n\n"):
        fields = dict(line.partition(": ")[::2] for line in block.splitlines() if not line.startswith(":"))
        if "data" in fields:
            found.append((fields["event"], json.loads(fields["data"])))
    return found


def names(told: list[tuple[str, Any]]) -> list[str]:
    return [name for name, _ in told]


async def test_a_tool_turn_in_the_order_clients_expect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with talking(tmp_path, monkeypatch, calling("notes_read", "Let me look."), said("Here it is.")) as scene:
        told = await events(scene, "/chat", {"message": "I prefer tea", "session_id": "s"})
        assert names(told) == ["status", "emotion", "text", "tool_result", STATES, STATES, "text", "emotion", "done"]
        assert told[0][1] == {"status": "starting", "session_id": "s"}
        assert told[2][1] == {"type": "text", "payload": {"content": "Let me look."}}
        assert told[3][1] == {"type": "tool_result", "payload": {"result": "a note"}}
        assert [move["trigger"] for name, move in told if name == STATES] == ["start", "succeed"]
        assert set(told[4][1]) == {
            "execution_id", "action_summary", "from_status", "to_status", "trigger", "actor_category", "is_terminal",
            "is_resumable", "has_side_effects", "timestamp", "human",
        }  # fmt: skip
        assert set(told[4][1]["human"]) == {"行动", "原状态", "新状态", "是否已结束", "是否需要关注", "是否不可逆"}
        id = told[4][1]["execution_id"]
        seen = await scene.get(f"/api/execution/{id}/snapshot")
        assert (seen["current_status"], seen["action_summary"]) == ("completed", "notes.read")
        assert (await scene.get(f"/api/execution/{id}/snapshot?human=true"))["状态"] == "已完成"
        line = await scene.get("/api/execution/s/timeline")
        assert [row["trigger"] for row in line["transitions"]] == ["start", "succeed"]
        people = await scene.get("/api/execution/s/timeline?human=true")
        assert set(people) == {"行动列表", "总数", "已结束", "进行中", "含等待", "含不可逆操作"}
        law = await scene.get("/api/execution/topology")
        assert (len(law["nodes"]), len(law["edges"])) == (7, 9)
        nobody = await scene.get("/api/execution/nobody/timeline")
        assert (nobody["total_contracts"], nobody["contracts"], nobody["started_at"]) == (0, [], None)
        await scene.get("/api/execution/nobody:001/snapshot", 404)


async def test_an_irreversible_deed_waits_through_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = calling("email_send", "I will send it.", to="bob")
    async with talking(tmp_path, monkeypatch, asked) as scene:
        told = await events(scene, "/chat", {"message": "I prefer tea", "session_id": "s"})
        assert names(told) == ["status", "emotion", "text", "ecs", STATES, STATES, "done"]
        form = dict(told)["ecs"]["payload"]
        assert form["context"]["extra"]["call"] == {"service": "email", "method": "send", "args": {"to": "bob"}}
        assert not (tmp_path / "sent").exists()
    async with talking(tmp_path, monkeypatch, said("It is sent.")) as scene:
        status = await scene.get(f"/ecs/status/{form['id']}")
        assert (status["exists"], status["expired"], status["session_id"]) == (True, False, "s")
        answer = {"request_id": form["id"], "session_id": "s", "action": "approve"}
        reply = await scene.post("/ecs/respond", answer)
        assert (reply["success"], reply["next_action"]) == (True, "continue")
        told = await events(scene, "/ecs/continue",
                            {"session_id": "s", "continuation_data": reply["continuation_data"]})  # fmt: skip
        assert names(told) == ["status", STATES, STATES, "tool_result", STATES, STATES, "text", "emotion", "done"]
        assert told[0][1] == {"status": "resuming", "session_id": "s"}
        assert [move["trigger"] for name, move in told if name == STATES] == ["resume", "succeed", "start", "succeed"]
        assert (tmp_path / "sent").read_text() == "bob\n"
        again = await scene.post("/ecs/respond", answer)
        assert (again["success"], again["error"]) == (False, "this request is completed already")
        assert (tmp_path / "sent").read_text() == "bob\n"
    async with talking(tmp_path, monkeypatch, asked, said("It was sent before.")) as scene:
        told = await events(scene, "/chat", {"message": "I prefer tea", "session_id": "other"})
        assert dict(told)["tool_result"]["payload"]["result"].endswith("; it gave: sent")
        assert (tmp_path / "sent").read_text() == "bob\n"


FIELDS: list[dict[str, Any]] = [
    {"name": "a", "type": "text", "label": "A", "required": True},
    {"name": "b", "type": "textarea"},
    {"name": "c", "type": "select", "options": [{"value": "x", "label": "X"}, {"value": "y", "label": "Y"}]},
    {"name": "d", "type": "multiselect", "options": ["x", "y"]},
    {"name": "e", "type": "radio", "options": ["x", "y"]},
    {"name": "f", "type": "checkbox"},
    {"name": "g", "type": "number"},
    {"name": "h", "type": "slider", "min": 0, "max": 10, "step": 1},
    {"name": "i", "type": "date"},
    {"name": "j", "type": "datetime"},
    {"name": "k", "type": "boolean"},
]
GOOD = {"a": "one", "b": "two", "c": "x", "d": ["x", "y"], "e": "y", "f": True, "g": 1.5, "h": 3, "i": "2026-01-31",
        "j": "2026-01-31T10:00", "k": False}  # fmt: skip
BAD: list[tuple[str, Any]] = [
    ("a", ""), ("a", "  "), ("c", "z"), ("d", ["z"]), ("e", 1), ("g", "many"), ("h", 11), ("h", 2.5), ("i", "soon"),
    ("i", "2026-02-30"), ("j", "tomorrow, or later"), ("k", "yes"),
]  # fmt: skip


def form(**more: Any) -> Script:
    return said(json.dumps({"response": "Tell me.", "ecs_request": {"title": "Facts", "fields": FIELDS, **more}}))


async def test_a_form_with_every_kind_of_field(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with talking(tmp_path, monkeypatch, form(), said("Thank you.")) as scene:
        told = await events(scene, "/chat", {"message": "I prefer tea", "session_id": "s"})
        assert names(told) == ["status", "emotion", "text", "ecs", STATES, STATES, "done"]
        request = dict(told)["ecs"]["payload"]
        assert [field["type"] for field in request["fields"]] == [field["type"] for field in FIELDS]
        answer = {"request_id": request["id"], "session_id": "s", "action": "approve"}
        missing = await scene.post("/ecs/respond", {**answer, "data": {"b": "two"}})
        assert (missing["success"], missing["next_action"]) == (False, "continue")
        assert "data.a is missing" in missing["error"]
        for name, value in BAD:
            wrong = await scene.post("/ecs/respond", {**answer, "data": {**GOOD, name: value}})
            assert (wrong["success"], f"data.{name}" in wrong["error"]) == (False, True), (name, wrong)
        await scene.post("/ecs/respond", {**answer, "action": "maybe"}, 400)
        other = await scene.post("/ecs/respond", {**answer, "session_id": "t"})
        assert other["success"] is False
        reply = await scene.post("/ecs/respond", {**answer, "action": "edit", "data": GOOD})
        assert reply["continuation_data"]["field_labels"]["a"] == "A"
        told = await events(
            scene, "/ecs/continue", {"session_id": "s", "continuation_data": reply["continuation_data"]}
        )
        assert names(told) == ["status", STATES, STATES, "text", "emotion", "done"]
        assert [move["trigger"] for name, move in told if name == STATES] == ["resume", "succeed"]


async def answered(scene: Stage, told: list[tuple[str, Any]], action: str, **data: Any) -> Any:
    """Respond to the form or the question that a stream has told of."""
    answer = {"request_id": dict(told)["ecs"]["payload"]["id"], "session_id": "s", "action": action, "data": data}
    return await scene.post("/ecs/respond", answer)


async def test_a_call_nobody_heard_from_again_is_asked_about_with_a_form(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with talking(tmp_path, monkeypatch, calling("bank_pay"), said("It is paid.")) as scene:
        told = await events(scene, "/chat", {"message": "I prefer tea", "session_id": "s"})
        await answered(scene, told, "approve")
        told = await events(scene, "/ecs/continue", {"session_id": "s"})
        assert names(told) == ["status", STATES, STATES, "ecs", STATES, STATES, "done"]
        doubt = dict(told)["ecs"]["payload"]
        assert doubt["title"] == "`bank.pay` may already have happened. Did it?"
        about = doubt["context"]["extra"]
        assert (doubt["context"]["intent"], about["execution_id"]) == ("outcome_unknown", doubt["id"])
        assert about["call"] == {"service": "bank", "method": "pay", "args": {}}
        assert about["cause"]["type"] == "timeout.action"
        assert [option["value"] for option in doubt["fields"][0]["options"]] == ["happened", "not_happened", "give_up"]
        assert (await scene.get(f"/ecs/status/{doubt['id']}"))["exists"] is True
        unsure = await answered(scene, told, "approve", outcome="perhaps")
        assert (unsure["success"], unsure["next_action"]) == (False, "continue")
        assert "happened, not_happened, give_up" in unsure["error"]
        assert (await answered(scene, told, "approve", outcome="happened", result="receipt 7"))["success"] is True
        told = await events(scene, "/ecs/continue", {"session_id": "s"})
        assert names(told) == ["status", "tool_result", STATES, STATES, "text", "emotion", "done"]
        assert dict(told)["tool_result"]["payload"] == {"result": "receipt 7"}
        assert (tmp_path / "sent").read_text() == "paid\n"


AGAIN_ASKS = "rules: [{name: repeats, decision: ask, on_repeat: ask, tool: email.send}]"


@pytest.mark.parametrize("word", ["use", "again"])
async def test_where_the_policy_has_repeats_asked_about_the_form_tells_what_was_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    asked = calling("email_send", to="bob")
    async with talking(tmp_path, monkeypatch, asked, said("Sent."), asked, said("Done."), policy=AGAIN_ASKS) as scene:
        told = await events(scene, "/chat", {"message": "I prefer tea", "session_id": "s"})
        await answered(scene, told, "approve")
        await events(scene, "/ecs/continue", {"session_id": "s"})
        told = await events(scene, "/chat", {"message": "I prefer tea again", "session_id": "s"})
        form = dict(told)["ecs"]["payload"]
        assert form["context"]["intent"] == "repeat"
        assert form["context"]["extra"]["earlier"]["result"] == "sent"
        assert [option["value"] for option in form["fields"][0]["options"]] == ["again", "use"]
        assert "again or use" in (await answered(scene, told, "approve"))["error"]
        assert (await answered(scene, told, "approve", repeat=word))["success"] is True
        told = await events(scene, "/ecs/continue", {"session_id": "s"})
        assert dict(told)["tool_result"]["payload"] == {"result": "sent"}
        assert (tmp_path / "sent").read_text() == "bob\n" * (1 if word == "use" else 2)


async def test_whoever_cannot_say_what_happened_gives_up_and_the_key_stays_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripts = calling("bank_pay"), said("We do not know."), calling("bank_pay"), said("I may not.")
    async with talking(tmp_path, monkeypatch, *scripts) as scene:
        told = await events(scene, "/chat", {"message": "I prefer tea", "session_id": "s"})
        await answered(scene, told, "approve")
        told = await events(scene, "/ecs/continue", {"session_id": "s"})
        assert (await answered(scene, told, "reject"))["success"] is True
        told = await events(scene, "/ecs/continue", {"session_id": "s"})
        assert [move["to_status"] for name, move in told if name == STATES] == ["cancelled"]
        told = await events(scene, "/chat", {"message": "I prefer tea", "session_id": "t"})
        assert "in doubt" in dict(told)["tool_result"]["payload"]["result"]
        assert (tmp_path / "sent").read_text() == "paid\n"


async def test_what_a_tool_asks_in_the_middle_of_its_work_is_a_form_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with talking(tmp_path, monkeypatch, calling("trip_book"), said("Booked.")) as scene:
        told = await events(scene, "/chat", {"message": "I prefer tea", "session_id": "s"})
        form = dict(told)["ecs"]["payload"]
        assert (form["title"], form["context"]["intent"]) == ("Who travels?", "tool_question")
        assert {field["name"]: field["type"] for field in form["fields"]} == {
            "who.name": "text", "who.seat": "select", "who.age": "number", "who.meals": "multiselect",
            "who.day": "date",
        }  # fmt: skip
        first = next(field for field in form["fields"] if field["name"] == "who.name")
        assert first == {"type": "text", "name": "who.name", "label": "Your name", "required": True}
        missing = await answered(scene, told, "approve", **{"who.name": "Ann"})
        assert missing["error"] == "data.who.seat is missing"
        filled = {"who.name": "Ann", "who.seat": "w", "who.meals": ["veggie"]}
        assert (await answered(scene, told, "approve", **filled))["success"] is True
        told = await events(scene, "/ecs/continue", {"session_id": "s"})
        assert dict(told)["tool_result"]["payload"]["result"] == {"name": "Ann", "seat": "w", "meals": ["veggie"]}


RULES = """
rules:
  - {name: bob, decision: allow, tool: email.send, when: "{{ args.to == 'bob' }}"}
  - {name: eve, decision: deny, tool: email.send, when: "{{ args.to == 'eve' }}"}
  - {name: others, decision: ask, tool: email.send, quorum: 2}
"""


@pytest.mark.parametrize(("to", "line"), [("bob", "[SUCCESS IRREVERSIBLE (allowed by policy)]"), ("eve", "[REJECTED]")])
async def test_what_a_rule_answers_is_put_to_nobody_and_nobody_is_said_to_have_confirmed_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, to: str, line: str
) -> None:
    scripts = calling("email_send", to=to), said("Well.")
    async with talking(tmp_path, monkeypatch, *scripts, policy=RULES) as scene:
        told = await events(scene, "/chat", {"message": "I prefer tea", "session_id": "s"})
        assert "ecs" not in names(told)
        assert scene.model.asked[-1].body["messages"][-1]["content"].startswith(f"{line} email.send: ")
        kept = await scene.get("/api/memories?category=execution")
        assert kept["memories"][0]["value"].startswith(f"{line} email.send: ")


async def test_one_yes_of_two_is_noted_and_the_call_still_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripts = calling("email_send", to="all"), said("Sent.")
    async with talking(tmp_path, monkeypatch, *scripts, policy=RULES) as scene:
        told = await events(scene, "/chat", {"message": "I prefer tea", "session_id": "s"})
        reply = await answered(scene, told, "approve")
        assert (reply["success"], reply["next_action"], reply["continuation_data"]) == (True, "complete", None)
        assert reply["message"] == "noted; 1 more must say yes"
        assert not (tmp_path / "sent").exists()


async def test_a_rejected_form_is_rejected_and_unknown_ones_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with talking(tmp_path, monkeypatch, form(), said("As you like.")) as scene:
        told = await events(scene, "/chat", {"message": "I prefer tea", "session_id": "s"})
        request = dict(told)["ecs"]["payload"]
        answer = {"request_id": request["id"], "session_id": "s", "action": "reject"}
        assert (await scene.post("/ecs/respond", answer))["success"] is True
        told = await events(scene, "/ecs/continue", {"session_id": "s", "continuation_data": {}})
        assert [move["to_status"] for name, move in told if name == STATES] == ["running", "rejected"]
        seen = await scene.get(f"/api/execution/{request['id']}/snapshot")
        assert seen["current_status"] == "rejected"
        unknown = await scene.post("/ecs/respond", {**answer, "request_id": "none:001"})
        assert (unknown["success"], unknown["error"]) == (False, "there is no such request")
        assert (await scene.get("/ecs/status/none:001")) == {
            "exists": False, "expired": False, "session_id": None, "title": None, "expires_at": None,
        }  # fmt: skip


async def test_a_form_that_expires_is_cancelled_with_its_contract(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with talking(tmp_path, monkeypatch, form(ttl_seconds=0.2), said("Too late.")) as scene:
        told = await events(scene, "/chat", {"message": "I prefer tea", "session_id": "s"})
        request = dict(told)["ecs"]["payload"]
        run_id = request["id"].rpartition(":")[0]
        await scene.until(run_id, "completed")
        status = await scene.get(f"/ecs/status/{request['id']}")
        assert (status["exists"], status["expired"]) == (False, True)
        answer = {"request_id": request["id"], "session_id": "s", "action": "approve", "data": GOOD}
        assert (await scene.post("/ecs/respond", answer))["success"] is False


async def test_a_model_that_takes_long_does_not_silence_the_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_go_on = asyncio.Event()

    async def wait() -> None:
        await may_go_on.wait()

    slow = streaming(chunk({"content": "At last."}), then=wait)
    async with talking(tmp_path, monkeypatch, slow, limits=ServerLimits(heartbeat_seconds=0.1)) as scene:
        body = {"message": "I prefer tea", "session_id": "s"}
        async with scene.client.stream("POST", "/chat", json=body) as answer:
            lines = answer.aiter_lines()
            async for line in lines:
                if line == ": beat":
                    break
            may_go_on.set()
            assert "event: done" in [line async for line in lines]


async def test_a_display_needs_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = {"type": "table", "data": {"headers": ["a"], "rows": [["1"]], "alignment": [], "caption": ""}}
    shown = json.dumps({"response": "Look.", "ecs_request": {"type": "visual_display", "displays": [table]}})
    async with talking(tmp_path, monkeypatch, said(shown)) as scene:
        told = await events(scene, "/chat", {"message": "I prefer tea", "session_id": "s"})
        assert dict(told)["ecs"]["payload"]["displays"] == [table]
        assert names(told)[-1] == "done"


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("none.py", "", "there is no such file"),
        ("tools.py", "import nothing_of_that_name", "nothing_of_that_name"),
        ("tools.py", "x = 1", "no effects"),
    ],
)
async def test_tools_that_cannot_be_used_are_told_and_no_turn_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str, told: str
) -> None:
    (tmp_path / "tools.py").write_text(text)
    monkeypatch.setenv("DETENT_TOOLS", str(tmp_path / name))
    async with stage(tmp_path) as scene:
        for path, body in (("/chat", {"message": "hello", "session_id": "s"}),):
            answer = await scene.client.post(path, json=body)
            assert answer.status_code == 409, answer.text
            assert "DETENT_TOOLS" in answer.text
            assert told in answer.text
        assert not (await scene.get("/api/runs"))["runs"]


async def test_the_token_guards_the_conversation_too(tmp_path: Path) -> None:
    async with stage(tmp_path, token="a-token-of-enough-letters") as scene:  # noqa: S106
        for path in ("/chat", "/ecs/respond", "/ecs/continue"):
            assert (await scene.client.post(path, json={})).status_code == 401
        assert (await scene.client.get("/ecs/status/x")).status_code == 401


PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4).decode()


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
@pytest.mark.parametrize("given", [PNG, f"data:image/png;base64,{PNG}"], ids=["base64", "data-url"])
async def test_an_image_reaches_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, provider: str, given: str
) -> None:
    script = said("A grey square.") if provider == "openai" else message(text("A grey square."))
    async with serving(script) as model:
        for name, value in (("MODEL", f"{provider}:tiny"), ("BASE_URL", model.url if provider == "openai" else "")):
            monkeypatch.setenv(f"DETENT_{name}", value)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", model.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "a-key-for-the-loopback")
        async with stage(tmp_path) as scene:
            body = {"image": given, "session_id": "s", "action": "compare it with my favourite"}
            told = await events(scene, "/chat/image", body)
            assert dict(told)["text"]["payload"]["content"] == "A grey square."
            assert names(told)[-1] == "done"
            (turn,) = (await scene.get("/api/runs"))["runs"]
            assert turn["status"] == "completed"
    (asked,) = model.asked
    words, image = asked.body["messages"][-1]["content"]
    assert words == {"type": "text", "text": "compare it with my favourite"}
    if provider == "openai":
        assert image == {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
    else:
        assert image == {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}


async def test_the_largest_image_that_is_taken_works_and_a_larger_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with talking(tmp_path, monkeypatch, said("Large.")) as scene:
        largest = b"\xff\xd8\xff" + b"\0" * (IMAGE_MAX - 3)
        body = {"image": base64.b64encode(largest).decode(), "session_id": "s", "action": "compare it"}
        assert dict(await events(scene, "/chat/image", body))["text"]["payload"]["content"] == "Large."
        body["image"] = base64.b64encode(largest + b"\0").decode()
        refused = await scene.post("/chat/image", body, 400)
        assert f"{IMAGE_MAX:,} bytes" in refused["error"]["message"]
        body["image"] = base64.b64encode(b"RIFF0000WAVE").decode()
        assert "WebP" in (await scene.post("/chat/image", body, 400))["error"]["message"]


async def test_what_is_not_a_request_is_refused(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        await scene.post("/chat", {"message": ""}, 422)
        await scene.post("/chat", {"message": "x", "session_id": "../x"}, 409)
        await scene.post("/chat/image", {"image": "no image"}, 400)
        await scene.post("/ecs/continue", {"session_id": "nobody"}, 409)


async def test_calls_side_by_side_are_told_each_with_its_states(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = asking_all(("notes.read", {}), ("notes.read", {"n": 2}))
    async with talking(tmp_path, monkeypatch, asked, said("Here they are.")) as scene:
        told = await events(scene, "/chat", {"message": "I prefer tea", "session_id": "s"})
        tool = ["tool_result", STATES, STATES]
        assert [name for name in names(told) if name != "emotion"] == ["status", *tool, *tool, "text", "done"]
        moves = [(move["execution_id"][-3:], move["trigger"]) for name, move in told if name == STATES]
        assert moves == [("001", "start"), ("001", "succeed"), ("002", "start"), ("002", "succeed")]
