"""Long conversations: summarised by the model, kept word for word, and looked up again."""

from pathlib import Path
from typing import Any

from detent.agents.assistant.compaction import measure, split_history
from detent.agents.assistant.memory_store import Store
from detent.core import Status
from tests.agents.assistant.stage import Stage, speaking
from tests.effects.llm.scripted import refusing

LONG = {"compact_at": 1000, "intent": "rules"}


def contents(body: dict[str, Any]) -> list[str]:
    return [str(one["content"]) for one in body["messages"]]


async def talk_long(scene: Stage, count: int = 6) -> None:
    for number in range(count):
        await scene.say(f"remark {number}: " + "the harbour is foggy. " * 8, settings={"intent": "rules"})


async def test_the_model_summarises_and_nothing_is_lost(tmp_path: Path) -> None:
    says = [*(f"noted {n}" for n in range(6)), "They spoke about fog in the harbour.", "It was foggy."]
    async with speaking(tmp_path, says=says) as scene:
        await talk_long(scene)
        run = await scene.say("what about remark 0?", settings=LONG)
        assert run.output["response"] == "It was foggy."
        asked, told = scene.heard[-2:]
        assert "Summarise the conversation" in contents(asked)[0]
        assert "remark 0" in contents(asked)[1]
        assert any("[SUMMARY]" in one and "fog in the harbour" in one for one in contents(told))
        assert not any(one.startswith("remark 0") for one in contents(told)[1:]), "it is told as a summary"
        assert "(user) remark 0" in contents(told)[0], "what matters now is looked up and told again"
        assert measure(run.context["history"]) < 1000
        assert run.context["history"][-1]["content"] == "noted 5", "the latest stays word for word"
        kept = Store(tmp_path / "memory.db").passages("talk", "harbour remark 0")
        assert kept[0].content.startswith("remark 0")
        before = len(scene.heard)
        await scene.say("and now?", settings=LONG)
        assert len(scene.heard) == before + 1, "what was summarised is not summarised again"


async def test_a_conversation_goes_on_where_the_model_gives_no_summary(tmp_path: Path) -> None:
    refused = refusing(400, {"error": {"message": "too long"}})
    async with speaking(tmp_path, says=[*(f"noted {n}" for n in range(6)), refused, "Still here."]) as scene:
        await talk_long(scene)
        run = await scene.say("go on", settings=LONG)
        assert run.output["response"] == "Still here."
        assert any(one.startswith("remark 0") for one in contents(scene.heard[-1])), "all of it is told, as before"


async def test_a_turn_without_a_message_only_summarises(tmp_path: Path) -> None:
    async with speaking(tmp_path, says=["noted", "A remark was made.", "yes"]) as scene:
        await scene.say("a remark", settings={"intent": "rules"})
        run = await scene.say("")
        assert run.status is Status.COMPLETED
        assert [one["role"] for one in run.context["history"]] == ["system"]
        await scene.say("do you remember?", settings={"intent": "rules"})
        said = contents(scene.heard[-1])
        assert "A remark was made." in said[1]
        assert len(said) == 3


def test_a_question_stays_with_its_answer() -> None:
    history = [{"role": role, "content": "x" * 30} for role in ("user", "assistant") * 5]
    old, kept = split_history(history, 250)
    assert (len(old) + len(kept), kept[0]["role"]) == (10, "user")
    assert split_history(history, 0) == (history, [])


async def test_memories_are_corrected_and_forgotten(tmp_path: Path) -> None:
    store = Store(tmp_path / "memory.db")
    (kept,) = store.keep([{"category": "fact", "key": "city", "value": "Rome"}])
    assert store.correct(kept["id"], "Oslo")
    assert [one.value for one in store.candidates("Oslo")] == ["Oslo"]
    assert store.candidates("Rome") == []
    assert store.forget(kept["id"])
    assert not store.correct(kept["id"], "Rome")
    assert store.candidates("Oslo") == []
