"""The effect `llm` with the real SDKs against scripted servers: answers, tools, schemas, and whatever goes wrong."""

import asyncio
import json
from typing import Any

import pytest

from detent.core import progress
from detent.core.contract import Contract
from detent.core.effect_type import EffectFailed, Outcome
from detent.effects.llm import llm, price_of
from tests.effects.llm.scripted import (
    DONE,
    Script,
    chunk,
    event,
    message,
    refusing,
    said,
    serving,
    streaming,
    text,
    tool_use,
    usage,
)

HELLO = [{"role": "user", "content": "Hello"}]
TOOLS = [{"name": "email.send", "description": "Send a mail.", "schema": {"type": "object", "properties": {}}}]
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
KEY = "sk-never-to-be-seen-123456"


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DETENT_MODEL", "DETENT_BASE_URL", "OPENAI_BASE_URL", "DETENT_PRICES", "DETENT_RULES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)


def at(monkeypatch: pytest.MonkeyPatch, provider: str, url: str, name: str = "tiny") -> None:
    """Let the environment point to a server."""
    monkeypatch.setenv("DETENT_MODEL", f"{provider}:{name}")
    if provider == "openai":
        monkeypatch.setenv("DETENT_BASE_URL", f"{url}/v1")
    else:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", url)


async def ask(heard: list[Any] | None = None, **given: Any) -> Outcome:
    contract = Contract("s/a/1", "a", "llm", input={"messages": HELLO, **given})
    told = [] if heard is None else heard

    def hear(_run: str, contract_id: str, data: Any) -> None:
        told.append((contract_id, data))

    token = progress.attempt.set(progress.Attempt(contract, "r1", hear))
    try:
        found = await llm.perform(contract)
    finally:
        progress.attempt.reset(token)
    assert isinstance(found, Outcome)
    return found


async def test_text_comes_in_pieces_and_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[Any] = []
    async with serving(said("Good ", "day")) as server:
        at(monkeypatch, "openai", server.url)
        outcome = await ask(heard, max_tokens=20, temperature=0.5)
    assert outcome.result["text"] == "Good day"
    assert outcome.result["success"] is True
    assert outcome.result["model"] == "openai:tiny"
    assert outcome.result["usage"] == {"input_tokens": 10, "output_tokens": 5}
    assert outcome.usage == {"tokens": 15.0, "unpriced_calls": 1.0}
    assert heard == [("s/a/1", {"text": "Good "}), ("s/a/1", {"text": "day"})]
    assert server.asked[0].path == "/v1/chat/completions"
    body = server.asked[0].body
    assert (body["model"], body["max_tokens"], body["temperature"], body["stream"]) == ("tiny", 20, 0.5, True)


async def test_a_message_of_anthropic_comes_in_pieces_and_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(message(text("Good ", "day"))) as server:
        at(monkeypatch, "anthropic", server.url)
        outcome = await ask(messages=[{"role": "system", "content": "Be kind."}, *HELLO], max_tokens=20)
    assert outcome.result["text"] == "Good day"
    assert outcome.result["usage"] == {"input_tokens": 10, "output_tokens": 5}
    asked = server.asked[0]
    assert (asked.path, asked.headers["authorization"]) == ("/v1/messages", f"Bearer {KEY}")
    assert asked.body["system"] == "Be kind."
    assert asked.body["messages"] == [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}]


CALL_OPENAI = streaming(
    chunk({"tool_calls": [{"index": 0, "id": "t1", "function": {"name": "email_send", "arguments": ""}}]}),
    chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"to": "b'}}]}),
    chunk({"tool_calls": [{"index": 0, "function": {"arguments": 'ob"}'}}]}),
    chunk({}, "tool_calls"),
    usage(10, 5),
    DONE,
)
CALL_ANTHROPIC = message(text("One moment."), tool_use("t1", "email_send", '{"to": "b', 'ob"}'), stop="tool_use")


@pytest.mark.parametrize(("provider", "script"), [("openai", CALL_OPENAI), ("anthropic", CALL_ANTHROPIC)])
async def test_a_tool_call_has_the_tools_own_name(
    provider: str, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(script) as server:
        at(monkeypatch, provider, server.url)
        outcome = await ask(tools=TOOLS)
    assert outcome.result["tool_calls"] == [{"id": "t1", "name": "email.send", "arguments": {"to": "bob"}}]
    assert outcome.result["finish"] == "tool_calls"
    tool = server.asked[0].body["tools"][0]
    assert (tool.get("name") or tool["function"]["name"]) == "email_send"


@pytest.mark.parametrize(("provider", "script"), [("openai", said("ok")), ("anthropic", message(text("ok")))])
async def test_results_of_tools_go_back_with_their_calls(
    provider: str, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = [
        *HELLO,
        {"role": "assistant", "content": "", "tool_calls": [{"id": "t1", "name": "email.send", "arguments": {"a": 1}}]},
        {"role": "tool", "tool_call_id": "t1", "content": "sent"},
        {"role": "user", "content": [{"type": "text", "text": "And?"}, {"type": "image", "data": "AAAA"}]},
    ]
    async with serving(script) as server:
        at(monkeypatch, provider, server.url)
        await ask(messages=turns, tools=TOOLS)
    sent = server.asked[0].body["messages"]
    if provider == "openai":
        assert sent[1]["tool_calls"][0]["function"] == {"name": "email_send", "arguments": '{"a": 1}'}
        assert sent[2] == {"role": "tool", "tool_call_id": "t1", "content": "sent"}
        assert sent[3]["content"][1]["image_url"]["url"] == "data:image/png;base64,AAAA"
    else:
        assert sent[1]["content"] == [{"type": "tool_use", "id": "t1", "name": "email_send", "input": {"a": 1}}]
        assert [block["type"] for block in sent[2]["content"]] == ["tool_result", "text", "image"]


@pytest.mark.parametrize("fence", ["{}", "```json\n{}\n```"])
async def test_an_answer_with_a_schema_is_data(fence: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(said(fence.replace("{}", '{"n": 3}'))) as server:
        at(monkeypatch, "openai", server.url)
        outcome = await ask(schema=SCHEMA)
    assert outcome.result["json"] == {"n": 3}
    wanted = server.asked[0].body["response_format"]["json_schema"]
    assert (wanted["schema"], wanted["strict"]) == (SCHEMA, True)


@pytest.mark.parametrize("answer", ['{"n": "three"}', '{"n": 3', "three"])
async def test_an_answer_that_does_not_fit_the_schema_may_be_tried_again(
    answer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(said(answer)) as server:
        at(monkeypatch, "openai", server.url)
        with pytest.raises(EffectFailed, match="does not fit the schema") as caught:
            await ask(schema=SCHEMA)
    assert caught.value.type == "tool_failure.bad_answer"
    assert caught.value.result == {"text": answer}


WRONG_KEY = {"error": {"message": f"Incorrect key provided: {KEY}", "type": "invalid_request_error", "code": "bad_key"}}
QUOTA = {"error": {"message": "You have used it up", "type": "insufficient_quota", "code": "insufficient_quota"}}
FAILURES = [
    (refusing(429, {"error": {"message": "slow down"}}, "retry-after: 7"), "tool_failure.rate_limited", "slow down"),
    (refusing(500, {"error": {"message": "oops"}}), "tool_failure.unavailable", "oops"),
    (refusing(529, b"<html>overloaded"), "tool_failure.unavailable", "529"),
    (refusing(400, {"error": {"message": "no such field"}}), "validation_error", "no such field"),
    (refusing(404, {"error": {"message": "no such model"}}), "validation_error", "no such model"),
]


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
@pytest.mark.parametrize(("script", "type", "words"), FAILURES, ids=lambda one: str(one)[:30])
async def test_what_a_server_refuses_has_a_type(
    provider: str, script: Script, type: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(script) as server:
        at(monkeypatch, provider, server.url)
        with pytest.raises(EffectFailed, match=words) as caught:
            await ask()
    assert caught.value.type == type
    assert len(server.asked) == 1, "the SDK must not retry: the engine does"
    if type.endswith("rate_limited"):
        assert caught.value.result == {"status": 429, "retry_after_s": 7.0}


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
async def test_a_key_that_a_server_repeats_is_not_repeated(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(refusing(401, WRONG_KEY)) as server:
        at(monkeypatch, provider, server.url)
        with pytest.raises(EffectFailed) as caught:
            await ask()
    assert caught.value.type == "validation_error"
    assert "check the key" in str(caught.value)
    assert KEY not in f"{caught.value} {caught.value.result} {caught.value.__cause__!r}"


async def test_a_key_in_an_answer_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(said(f"your key is {KEY}")) as server:
        at(monkeypatch, "openai", server.url)
        outcome = await ask()
    assert outcome.result["text"] == "your key is •••"


async def test_a_used_up_account_is_no_reason_to_try_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(refusing(429, QUOTA)) as server:
        at(monkeypatch, "openai", server.url)
        with pytest.raises(EffectFailed, match="used it up") as caught:
            await ask()
    assert caught.value.type == "validation_error"


OVERLOADED = event("error", error={"type": "overloaded_error", "message": "too many"})
BROKEN = [
    ("openai", streaming(chunk({"content": "Good "}))),
    ("openai", streaming()),
    ("openai", streaming("data: {not json\n\n")),
    ("openai", streaming(chunk({"content": "a"}), 'data: {"error": {"message": "lost"}}\n\n')),
    ("anthropic", message(text("Good "), is_cut=True)),
    ("anthropic", streaming(OVERLOADED)),
    ("anthropic", streaming("event: message_start\ndata: {not json\n\n")),
]


@pytest.mark.parametrize(("provider", "script"), BROKEN, ids=range(len(BROKEN)))
async def test_a_stream_that_breaks_is_not_an_answer(
    provider: str, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(script) as server:
        at(monkeypatch, provider, server.url)
        with pytest.raises(EffectFailed) as caught:
            await ask()
    assert caught.value.type == "tool_failure.unavailable"


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
async def test_a_server_that_is_not_there_is_told(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(said("")) as server:
        at(monkeypatch, provider, server.url)
    with pytest.raises(EffectFailed, match="cannot be reached") as caught:
        await ask()
    assert caught.value.type == "tool_failure.unavailable"


@pytest.mark.parametrize("arguments", ['{"to": ', "[1]", '"bob"'])
async def test_arguments_that_are_no_object_are_the_models_mistake(
    arguments: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = {"tool_calls": [{"index": 0, "id": "t1", "function": {"name": "email_send", "arguments": arguments}}]}
    async with serving(streaming(chunk(call), chunk({}, "tool_calls"), DONE)) as server:
        at(monkeypatch, "openai", server.url)
        with pytest.raises(EffectFailed, match="no JSON object") as caught:
            await ask(tools=TOOLS)
    assert caught.value.type == "tool_failure.bad_answer"


async def test_a_refusal_is_an_answer_without_success(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(message(text("I cannot."), stop="refusal")) as server:
        at(monkeypatch, "anthropic", server.url)
        outcome = await ask()
    assert (outcome.result["success"], outcome.result["finish"]) == (False, "refusal")


async def test_a_cancelled_question_lets_go_of_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    gone, never = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        try:
            await never.wait()
        finally:
            gone.set()

    async with serving(streaming(chunk({"content": "Good "}), then=wait)) as server:
        at(monkeypatch, "openai", server.url)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await ask()
        never.set()
        await gone.wait()


async def test_known_prices_give_a_cost(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    script = streaming(chunk({"content": "x"}, "stop"), usage(1_000_000, 100_000, cached=500_000), DONE)
    async with serving(script) as server:
        at(monkeypatch, "openai", server.url, "gpt-4o-2024-08-06")
        unknown = await ask()  # another server than the one whose prices are known
        assert unknown.result["cost_usd"] is None
        assert "DETENT_PRICES" in unknown.result["note"]
        assert unknown.usage == {"tokens": 1_100_000.0, "unpriced_calls": 1.0}
        monkeypatch.delenv("DETENT_BASE_URL")
        table = tmp_path / "prices.json"
        table.write_text(json.dumps({"gpt-4o": {"input": 1.0, "output": 2.0, "cached_input": 0.5}}))
        monkeypatch.setenv("DETENT_PRICES", str(table))
        at(monkeypatch, "openai", server.url, "gpt-4o-2024-08-06")
        known = await ask()
    assert known.result["cost_usd"] == pytest.approx(0.5 + 0.25 + 0.2)
    assert known.usage["cost_usd"] == known.result["cost_usd"]


def test_only_a_dated_version_of_a_model_has_its_price() -> None:
    for name in ("gpt-4o", "gpt-4o-2024-08-06", "gpt-4o-20240806", "gpt-4o-latest"):
        found = price_of(name)
        assert found is not None, name
        assert (found[0].input, found[1]) == (2.5, "2026-03")
    for name in ("gpt-4o-5", "gpt-4o-audio", "gpt-9", "", "gpt-4o-mini-5"):
        assert price_of(name) is None, name
    assert price_of("gpt-4o", is_elsewhere=True) is None


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"messages": []}, "at least one"),
        ({"messages": [{"role": "boss", "content": ""}]}, "boss"),
        ({"massages": []}, "massages"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "tool_call_id"),
        ({"max_tokens": 0}, "at least 1"),
        ({"model": "tiny"}, "`tiny` cannot be used: it is written openai:NAME"),
        ({"model": "builtin:magic"}, "builtin:rules"),
        ({"tools": [*TOOLS, *TOOLS], "model": "openai:x"}, "twice"),
    ],
)
async def test_a_question_that_cannot_be_meant_is_refused(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(EffectFailed, match=problem) as caught:
        await ask(**given)
    assert caught.value.type == "validation_error"


async def test_a_provider_without_a_key_says_which_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    with pytest.raises(EffectFailed, match="ANTHROPIC_API_KEY is not set"):
        await ask(model="anthropic:claude")
