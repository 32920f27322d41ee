"""What each node of the graph sees in a message: intent, emotion, memory, and the state of a turn."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from detent.agents.assistant import old_key
from detent.agents.assistant.emotion import context, detect_emotion, emotions, trust_emotion
from detent.agents.assistant.intent import by_model, by_rules
from detent.agents.assistant.memory_store import CANDIDATES, WORKING_MAX, Memory, Store
from detent.agents.assistant.recall import LIMIT, choose_memories, score
from detent.agents.assistant.view import graph_state
from detent.core import Contract, Outcome, Status
from tests.agents.assistant.stage import Post, speaking, stage
from tests.effects.llm.scripted import said

TOOLS = [{"name": "weather.today"}]


@pytest.mark.parametrize(
    ("text", "category", "kind", "rule"),
    [
        ("please use the calendar tool", "mcp", "mcp_tool_call", "explicit_tool"),
        ("调用天气服务看看", "mcp", "mcp_tool_call", "explicit_tool"),
        ("remind me to call home", "ecs", "plan_reminder", "plan_reminder"),
        ("提醒我明天开会", "ecs", "plan_reminder", "plan_reminder"),
        ("帮我给 bob@example.com 发一封会议邀请邮件", "mcp", "mcp_tool_call", "mail"),
        ("what does weather say for today?", "mcp", "mcp_tool_call", "service:weather"),
        ("画一个流程图", "ecs", "visual_display", "table_or_diagram"),
        ("你好！", "ecs", "proactive_inquiry", "greeting"),
        ("compare tea and coffee, I like both", "ecs", "visual_display", "compare"),
        ("I prefer tea", "memory", "preference", "preference"),
        ("我叫小明", "memory", "fact", "fact"),
        ("I usually run in the morning", "memory", "pattern", "pattern"),
        ("我认为这个方案不错", "memory", "opinion", "opinion"),
        ("any suggestions?", "ecs", "memory_gap", "recommendation"),
        ("tell me more", "ecs", "topic_deepening", "interest"),
        ("帮我选一台电脑", "ecs", "question_to_form", "structured_question"),
    ],
)
def test_rules_decide_by_priority(text: str, category: str, kind: str, rule: str) -> None:
    found = by_rules(text, TOOLS)
    assert found is not None
    assert (found["category"], found["intent_type"], found["matched_rule"]) == (category, kind, rule)
    assert (found["confidence"], found["source"]) == (1.0, "layer1")
    fields = {"category", "intent_type", "confidence", "source", "matched_rule", "mcp_service_name"}
    assert set(found) == fields


def test_what_the_rules_leave_open_a_sure_model_decides() -> None:
    assert by_rules("the sky above the port") is None
    assert by_rules("  ") == by_model(None)
    sure = by_model({"intent_type": "opinion", "confidence": 0.7})
    assert (sure["category"], sure["source"], sure["confidence"]) == ("memory", "layer2", 0.7)
    for unsure in ({"intent_type": "opinion", "confidence": 0.69}, {"intent_type": "root", "confidence": 1}, "yes"):
        assert by_model(unsure) == {"category": "normal", "intent_type": "normal", "confidence": 0.0,
                                    "source": "fallback", "matched_rule": None, "mcp_service_name": None}  # fmt: skip


async def test_the_model_is_asked_for_an_intent_only_where_rules_do_not_decide(tmp_path: Path) -> None:
    sure = json.dumps({"intent_type": "opinion", "confidence": 0.9})
    async with speaking(tmp_path, says=["fine", said(sure, prompt=2, completion=1), "fine"]) as scene:
        run = await scene.say("I prefer tea")
        assert [("response_format" in request) for request in scene.heard] == [False]
        run = await scene.say("the sky above the port")
        asked = scene.heard[1]
        assert (asked["response_format"]["type"], asked["temperature"]) == ("json_schema", 0.1)
        assert asked.get("max_completion_tokens", asked.get("max_tokens")) == 100
        assert run.context["intent"]["source"] == "layer2"
        assert run.usage["tokens"] == 18.0
        run = await scene.say("the sky above the port", settings={"intent": "off"})
        assert run.context["intent"] == {}


async def test_any_node_and_the_model_behind_them_can_be_replaced(tmp_path: Path) -> None:
    async def calm(contract: Contract) -> Outcome:
        return Outcome({}, patch={"felt": {}, "emotion": {"current_emotion": "calm"}, "detected": {"primary": "calm"}})

    async def model(contract: Contract) -> Outcome:
        return Outcome({"text": f"asked as {contract.effect}", "tool_calls": []})

    async with stage(tmp_path, emotion=calm, model=model) as scene:
        run = await scene.say("I prefer tea")
        assert run.context["emotion"] == {"current_emotion": "calm"}
        assert run.output["response"] == "asked as llm"
    with pytest.raises(TypeError, match="there is no node `mood`"):
        async with stage(tmp_path, mood=calm):
            pass


def test_nine_lexicons_of_twelve_emotions_in_four_categories() -> None:
    known = emotions()
    assert len(known) == 12
    assert sum(bool(lexicon.english and lexicon.chinese) for lexicon in known.values()) == 9
    assert {lexicon.category for lexicon in known.values()} == {"neutral", "positive", "negative", "seeking"}


@pytest.mark.parametrize(
    ("text", "primary", "confidence", "valence"),
    [
        ("the sky", "neutral", 0.5, 0.0),
        ("I am sad", "sad", 0.3, -0.5),
        ("sad and lonely", "sad", 0.5, -0.5),
        ("我很难过，很伤心，想哭", "sad", 0.7, -0.5),
        ("谢谢，非常感谢", "grateful", 0.5, 0.5),
        ("请帮我看看", "help_seeking", 0.5, 0.0),
    ],
)
def test_emotions_are_counted(text: str, primary: str, confidence: float, valence: float) -> None:
    felt = detect_emotion(text)
    assert (felt["primary"], felt["confidence"]) == (primary, confidence)
    seen = context(felt)
    assert (seen["valence"], seen["arousal"]) == (valence, confidence)


def test_an_emotion_the_model_is_not_sure_of_is_degraded() -> None:
    neutral = detect_emotion("")
    felt = trust_emotion({"primary": "sad", "confidence": 0.4, "indicators": ["sigh"]}, neutral)
    assert (felt["primary"], felt["indicators"]) == ("neutral", ["sigh", "degraded_from_sad"])
    assert trust_emotion({"primary": "sad", "confidence": 0.5}, neutral)["primary"] == "sad"
    assert trust_emotion({"primary": "furious", "confidence": 1.0}, neutral) == neutral


def memory(**given: Any) -> Memory:
    return Memory(**{"id": 1, "category": "fact", "key": "city", "value": "Berlin", "confidence": 1.0, "session": "",
                     "created_at": 0.0, "accessed_at": 0.0, "access_count": 0, **given})  # fmt: skip


def test_the_score_is_the_one_that_is_written_down() -> None:
    week = 7 * 86_400.0
    assert score(memory(), ["berlin", "tea"], 0.0) == pytest.approx(0.4 * 0.5 + 0.2 * 1.2 + 0.15 + 0.0 + 0.15)
    assert score(memory(), ["tea"], week) == pytest.approx(0.2 * 1.2 + 0.15 * 0.5 + 0.15)
    assert score(memory(category="preference"), ["tea"], 0.0) == pytest.approx(0.2 * 1.5 + 0.15 + 0.15)
    assert score(memory(access_count=100), ["tea"], 0.0) == pytest.approx(0.2 * 1.2 + 0.15 + 0.1 + 0.15)
    assert score(memory(), ["city"], 0.0) == pytest.approx(1.3 * (0.4 + 0.2 * 1.2 + 0.15 + 0.15))
    assert score(memory(category="pattern"), [], 0.0, "pattern") == pytest.approx(1.3 * (0.2 * 1.0 + 0.15 + 0.15))


def test_five_of_fifty_are_recalled_in_any_script(tmp_path: Path) -> None:
    store = Store(tmp_path / "memory.db")
    store.keep({"category": "fact", "key": f"note {n}", "value": "tea time"} for n in range(60))
    store.keep([{"category": "preference", "key": "饮料", "value": "喜欢喝乌龙茶"},
                {"category": "fact", "key": "Straße", "value": "ＡＢＣ Hauptstraße"}])  # fmt: skip
    assert len(store.candidates("tea")) == CANDIDATES
    assert len(choose_memories(store.candidates("tea"), "tea", store.now())) == LIMIT
    assert [m.key for m in store.candidates("你推荐什么乌龙茶？")] == ["饮料"]
    assert [m.key for m in store.candidates("abc")] == ["Straße"]
    assert [m.key for m in store.candidates("auptstr")] == ["Straße"], "not a word of the index: LIKE finds it"
    assert [m.key for m in store.candidates("STRASSE")] == ["Straße"]
    assert store.candidates("龙") != []
    assert store.candidates('"; drop table memories; -- *') == []
    store.close()


def test_the_same_key_is_replaced_and_working_memory_is_bounded(tmp_path: Path) -> None:
    store = Store(tmp_path / "memory.db")
    for value in ("tea", "coffee"):
        store.keep([{"category": "preference", "key": "drink", "value": value}])
    assert [(m.key, m.value) for m in store.memories()] == [("drink", "coffee")]
    assert store.candidates("tea") == []
    for number in range(5):
        store.note("s", f"ecs_{number}", "x" * (WORKING_MAX // 3))
    assert list(store.working("s")) == ["ecs_2", "ecs_3", "ecs_4"]
    assert store.working("other") == {}
    store.close()


def test_the_old_form_of_the_key() -> None:
    digits = hashlib.md5(b"[('a', 1), ('b', {'y': 2, 'x': 1})]", usedforsecurity=False).hexdigest()[:8]
    assert old_key("email", "send", {"b": {"y": 2, "x": 1}, "a": 1}) == f"email:send:{digits}"
    assert old_key("email", "send", [1]) == f"email:send:{hashlib.md5(b'[1]', usedforsecurity=False).hexdigest()[:8]}"
    assert old_key("", "send", {}) is None
    assert old_key("email", None, {}) is None
    assert len({old_key("e", "s", {"n": n}) for n in (1, 1.0, True)}) == 3


async def test_the_state_of_a_turn_has_every_field_clients_read(tmp_path: Path) -> None:
    post = Post()
    async with stage(tmp_path, post.effect) as scene:
        run = await scene.say("帮我给 bob@example.com 发一封会议邀请邮件")
        state = graph_state(run, scene.ledger(run))
        assert state["status"] == "suspended"
        assert state["pending_tool_calls"][0]["method"] == "send"
        assert len(state["pending_executions"]) == 2
        run = await scene.answer(run, approved=True)
        state = graph_state(run, scene.ledger(run))
        assert run.status is Status.COMPLETED
        assert state["status"] == "idle"
        assert len(state["execution_trace"]) == 8
        assert state["tool_call_history"] == [{"service": "email", "method": "send"}]
        assert [said["role"] for said in state["dialogue_history"]] == ["user", "system", "assistant"]
        assert set(state) == {
            "conversation_id", "status", "semantic_input", "emotional_context", "working_memory", "dialogue_history",
            "execution_trace", "ecs_request", "ecs_full_request", "last_human_input", "observation",
            "pending_tool_calls", "response", "detected_emotion", "memories_to_store", "tool_call_history",
            "pending_executions", "completed_executions", "intent_result",
        }  # fmt: skip
        kept = Store(tmp_path / "memory.db").memories(category="execution")
        assert [m.value for m in kept] == ["[SUCCESS IRREVERSIBLE (human-confirmed)] email.send: 邮件已发送"]
