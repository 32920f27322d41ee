"""The built-in rule model, and the one-JSON-object codec."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detent.core.contract import Contract
from detent.core.effect_type import EffectFailed, Outcome
from detent.core.schema import problems
from detent.effects.llm import decode_json, llm, read_answer

NAMES = ["email.send", "filesystem.read_text_file", "filesystem.write_file", "filesystem.list_directory"]
NAMES += ["git.git_status", "git.git_commit", "git.git_log", "git.git_add"]
TOOLS = [{"name": name} for name in NAMES]


@pytest.fixture(autouse=True)
def _nothing_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DETENT_MODEL", "DETENT_BASE_URL", "DETENT_RULES"):
        monkeypatch.delenv(name, raising=False)


async def ask(*turns: str | dict[str, Any], **more: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": one} if isinstance(one, str) else one for one in turns]
    outcome = await llm.perform(Contract("s/a/1", "a", "llm", input={"messages": messages, **more}))
    assert isinstance(outcome, Outcome)
    assert outcome.usage == {"tokens": 0.0, "cost_usd": 0.0}
    return dict(outcome.result)


STORIES = [
    ("帮我给 bob@example.com 发一封会议邀请邮件", "email.send", {"to": "bob@example.com", "subject": "会议邀请"}),
    (
        "Send a mail to bob@example.com saying hello there",
        "email.send",
        {"to": "bob@example.com", "body": "hello there"},
    ),
    ("read the file notes.txt", "filesystem.read_text_file", {"path": "notes.txt"}),
    ('write "hello" to the file notes.txt', "filesystem.write_file", {"path": "notes.txt", "content": "hello"}),
    ("list the files in ./docs", "filesystem.list_directory", {"path": "./docs"}),
    ("What is the git status of ./repo", "git.git_status", {"repo_path": "./repo"}),
    ('commit with message "first" in ./repo', "git.git_commit", {"repo_path": "./repo", "message": "first"}),
    ("stage a.txt in ./repo", "git.git_add", {"repo_path": "./repo", "files": ["a.txt"]}),
    ("show the git log of ./repo", "git.git_log", {"repo_path": "./repo"}),
]


@pytest.mark.parametrize(("words", "tool", "arguments"), STORIES, ids=[story[0] for story in STORIES])
async def test_the_examples_sentences_call_their_tools(words: str, tool: str, arguments: dict[str, Any]) -> None:
    result = await ask(words, tools=TOOLS)
    (call,) = result["tool_calls"]
    assert call["name"] == tool
    assert call["arguments"].items() >= arguments.items()
    assert result == await ask(words, tools=TOOLS), "the same words get the same answer"


async def test_a_tool_that_is_not_offered_is_not_called() -> None:
    result = await ask("Send a mail to bob@example.com")
    assert not result["tool_calls"]


async def test_what_nobody_knows_is_answered_with_how_to_configure_a_model() -> None:
    result = await ask("What is the meaning of life?")
    assert "DETENT_MODEL" in result["text"]
    assert "DETENT_MODEL" in (await ask("生命的意义是什么？"))["text"]


SENDING = {
    "role": "assistant",
    "tool_calls": [{"id": "c1", "name": "email.send", "arguments": {"to": "bob@example.com"}}],
}


@pytest.mark.parametrize(
    ("came", "words"),
    [
        ("[SUCCESS IRREVERSIBLE (human-confirmed)] email.send: 邮件已发送", "已完成：email.send: 邮件已发送"),
        ("[FAILED] email.send: SMTP connection refused", "没有成功，原因：email.send: SMTP connection refused"),
        ("[REJECTED] email.send: somebody said no", "没有执行"),
        ("sent", "已完成：sent"),
    ],
)
async def test_after_a_tool_it_says_what_came_of_it(came: str, words: str) -> None:
    result = await ask(
        "给 bob@example.com 发一封邮件", SENDING, {"role": "tool", "tool_call_id": "c1", "content": came}, tools=TOOLS
    )
    assert result["text"].startswith(words)
    assert not result["tool_calls"]


async def test_retry_does_the_same_again() -> None:
    failed = {"role": "tool", "tool_call_id": "c1", "content": "[FAILED] email.send: SMTP connection refused"}
    told = {"role": "assistant", "content": "没有成功"}
    first = await ask("给 bob@example.com 发一封会议邀请邮件", tools=TOOLS)
    again = await ask("给 bob@example.com 发一封会议邀请邮件", SENDING, failed, told, "重试", tools=TOOLS)
    assert again["tool_calls"][0]["arguments"] == first["tool_calls"][0]["arguments"]


async def test_a_schema_gets_the_plainest_value_that_fits() -> None:
    schema = {
        "type": "object",
        "properties": {"kind": {"enum": ["normal", "mcp"]}, "sure": {"type": "number", "minimum": 0.1}, "x": {}},
        "required": ["kind", "sure"],
    }
    result = await ask("hello", schema=schema)
    assert result["json"] == {"kind": "normal", "sure": 0.1}
    assert not problems(schema, result["json"])


async def test_rules_of_ones_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    book = tmp_path / "rules.json"
    monkeypatch.setenv("DETENT_RULES", str(book))
    book.write_text(json.dumps({"rules": [{"when": "sum of (?P<a>\\d+)", "text": "It is {a}{b|0}."}]}))
    assert (await ask("the sum of 4?"))["text"] == "It is 40."
    for broken in ('{"rules": [{"when": "("}]}', '{"rulez": []}', "x"):
        book.write_text(broken)
        with pytest.raises(EffectFailed, match=r"DETENT_RULES=.*JSON file like"):
            await ask("hello")


WHOLE = {
    "response": "好的",
    "emotion": {"primary": "joy", "category": "positive", "confidence": 1.7, "indicators": ["好", 3]},
    "memory_update": {
        "should_store": True,
        "entries": [{"category": "fact", "key": "name", "value": "Bo"}, {"category": "fact"}, 7],
    },
    "tool_call": {"name": "email", "arguments": {"to": "bob"}},
}


@pytest.mark.parametrize("form", ["%s", "```json\n%s\n```", "\n ```\n%s```  \n"])
def test_the_object_is_read_with_and_without_a_fence(form: str) -> None:
    found = read_answer(form % json.dumps(WHOLE))
    assert found.is_object
    assert found.response == "好的"
    assert found.emotion == {"primary": "joy", "category": "positive", "confidence": 1.0, "indicators": ["好"]}
    assert found.memories == ({"category": "fact", "key": "name", "value": "Bo"},)
    assert found.tool_call == {"name": "email", "method": "email", "arguments": {"to": "bob"}}
    assert found.ecs_request is None


@pytest.mark.parametrize(
    "words", ["plain words", "[1, 2]", '{"other": 1}', '{"response": ', "```json\nnot json\n```", ""]
)
def test_anything_else_is_the_response_text(words: str) -> None:
    found = read_answer(words)
    assert (found.response, found.is_object, found.tool_call) == (words, False, None)


def test_misshapen_parts_are_left_out() -> None:
    found = read_answer(
        '{"response": 7, "emotion": "sad", "memory_update": [], "tool_call": {"name": ""}, "ecs_request": 1}'
    )
    assert (found.response, found.emotion, found.memories, found.tool_call, found.ecs_request) == (
        "",
        None,
        (),
        None,
        None,
    )
    assert read_answer('{"response": "x", "memory_update": {"should_store": false, "entries": [{}]}}').memories == ()


@given(st.text() | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps))
def test_no_words_of_a_model_are_an_error(words: str) -> None:
    assert isinstance(read_answer(words).response, str)
    decode_json(words)
