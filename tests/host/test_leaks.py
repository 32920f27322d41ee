"""No secret of the environment or of a definition is kept or told, whatever an effect does with it."""

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detent.core import Action, Contract, EffectFailed, Outcome, OutcomeUnknown, PartialFailure, Question, effect
from detent.core.events import ContractMoved
from detent.core.progress import say
from detent.host.embedded import EmbeddedHost
from detent.host.embedded.journal import Journal
from detent.host.parts.replay import entries
from detent.host.parts.transcript import transcript
from detent.redaction import HIDDEN
from detent.testing import World, simulate
from detent.testing.conformance import one
from tests.effort import examples
from tests.redaction.encodings import ENCODINGS, is_leaked

DECLARED = {"token": {"secret": "LEAK_DECLARED"}}
PLACES = ("result", "key", "patch", "failure", "partial", "exception", "doubt", "question", "form", "progress", "usage")


def leaking(place: str, text: str) -> Any:
    """An effect that puts a text into one place."""

    async def perform(contract: Contract) -> Any:
        match place:
            case "result":
                return {"deep": [{"text": text}]}
            case "key":
                return {text: 1}
            case "patch":
                return Outcome({}, patch={"seen": text})
            case "usage":
                return Outcome({}, usage={text: 1.0})
            case "failure":
                raise EffectFailed(text, result={"said": text})
            case "partial":
                raise PartialFailure(text)
            case "exception":
                raise RuntimeError(text, {"inner": text})
            case "doubt":
                raise OutcomeUnknown(text)
            case "question":
                return Outcome(question=Question(text, data={"shown": text}))
            case "form":
                return Outcome(question=Question("?", "form", schema={"title": text, "type": "object"}))
            case _:
                for piece in range(0, len(text), 5):
                    say(contract, {"text": text[piece : piece + 5]})
                return {"ok": True}

    return perform


def assert_clean(home: Path, value: str, run: Any, heard: list[Any]) -> None:
    kept = "".join(file.read_bytes().decode("utf-8", "replace") for file in home.iterdir() if file.is_file())
    journal = Journal(home / "journal.db")
    exported = "".join(transcript(journal, list(journal.runs())))
    journal.close()
    for told in (kept, exported, repr(run), "".join(data.get("text", "") for data in heard), repr(heard)):
        assert not is_leaked(value, told)


printed = st.text(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_+/=\\'\"<& ", min_size=16, max_size=60
)


@pytest.mark.parametrize("is_declared", [True, False])
@settings(max_examples=examples(40))
@given(
    value=printed.filter(lambda one: len(set(one)) > 8 and one.strip() == one),
    form=st.sampled_from(sorted(ENCODINGS)),
    place=st.sampled_from(PLACES),
)
def test_no_secret_gets_out(is_declared: bool, value: str, form: str, place: str) -> None:
    with World() as world, pytest.MonkeyPatch.context() as patch:
        patch.setenv("LEAK_DECLARED" if is_declared else "LEAK_TOKEN", value)
        heard: list[Any] = []

        async def story() -> Any:
            world.effects["tell"] = effect("tell", settle_s=0.0)(leaking(place, f"it is {ENCODINGS[form](value)}."))
            async with world.host() as host:
                host.overhear("r", lambda _, data: heard.append(dict(data)))
                await host.start(one(Action("a", "tell", DECLARED if is_declared else {})), run_id="r")
                return await host.settled("r")

        run = simulate(story())
        assert_clean(world.home, value, run, heard)
        if place == "progress" and not is_declared:
            assert HIDDEN in "".join(data["text"] for data in heard)


FREE = "gpT4-first-half/second-half-0815"


async def test_what_user_code_reads_and_raises_is_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAYMENT_SECRET", FREE)

    @effect("pay", kind="idempotent")
    async def pay(contract: Contract) -> None:
        raise ConnectionError(f"401 from https://api.example.com/?key={os.environ['PAYMENT_SECRET']}")

    async with EmbeddedHost(tmp_path, [pay], sync="off") as host:
        run = await host.settled((await host.start(one(Action("a", "pay")))).id)
        assert run.error is not None
        assert run.error.message == f"ConnectionError: 401 from https://api.example.com/?key={HIDDEN}"


async def test_data_for_later_steps_stays_and_text_for_people_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part of a secret, or a token that nobody declared, may be what the next step needs."""
    monkeypatch.setenv("LEAK_DECLARED", FREE)
    token = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"

    @effect("tell", kind="idempotent")
    async def tell(contract: Contract) -> dict[str, Any]:
        return {"part": FREE[:12], "token": token, "stdout": f"{FREE[:12]} {token}", "stderr": [FREE[5:20]]}

    async with EmbeddedHost(tmp_path, [tell], sync="off") as host:
        run = await host.settled((await host.start(one(Action("a", "tell", DECLARED)))).id)
        (moved,) = (e.event for e in entries(host.journal, run.id) if isinstance(e.event, ContractMoved))
        assert moved.result == {
            "part": FREE[:12],
            "token": token,
            "stdout": f"{HIDDEN} {HIDDEN}",
            "stderr": [HIDDEN],
        }


async def test_the_message_of_an_error_and_the_text_of_a_question_are_for_people(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEAK_DECLARED", FREE)
    text = f"{FREE[4:16]} and AKIAIOSFODNN7EXAMPLE"

    @effect("fail", kind="idempotent")
    async def fail(contract: Contract) -> None:
        raise EffectFailed(text)

    @effect("ask.first", kind="idempotent")
    async def ask_first(contract: Contract) -> Outcome:
        return Outcome(question=Question(text))

    @effect("lose", settle_s=0.0)
    async def lose(contract: Contract) -> None:
        raise OutcomeUnknown(text)

    shown = f"{HIDDEN} and {HIDDEN}"
    async with EmbeddedHost(tmp_path, [fail, ask_first, lose], sync="off", grace_s=0.0) as host:
        run = await host.settled((await host.start(one(Action("a", "fail", DECLARED)))).id)
        assert run.error is not None
        assert run.error.message == shown
        for name in ("ask.first", "lose"):
            run = await host.settled((await host.start(one(Action("a", name, DECLARED)))).id)
            question = run.waiting[0].question
            assert question is not None
            told = question.text if name == "ask.first" else question.data["cause"]["message"]
            assert told.removeprefix("OutcomeUnknown: ") == shown


async def test_words_in_pieces_reach_onlookers_whole_and_in_order(tmp_path: Path) -> None:
    text = "The risk is sk-all, the key is sk-proj-0123456789abcdefghij and 漢字 follow. eyJ"

    @effect("talk", kind="idempotent")
    async def talk(contract: Contract) -> dict[str, Any]:
        for letter in text:
            say(contract, {"text": letter})
        for line in ("one", "-----BEGIN PRIVATE KEY-----", "MIIabc", "-----END PRIVATE KEY-----", "two"):
            say(contract, {"stream": "stdout", "text": line})
        await asyncio.to_thread(say, contract, {"output": {"output_type": "stream", "name": "stdout", "text": "end s"}})
        return {}

    heard: list[Mapping[str, Any]] = []
    async with EmbeddedHost(tmp_path, [talk], sync="off") as host:
        host.overhear("r", lambda _, data: heard.append(dict(data)))
        await host.start(one(Action("a", "talk")), run_id="r")
        await host.settled("r")
    said = "".join(data["text"] for data in heard if set(data) == {"text"})
    assert said == text.replace("sk-proj-0123456789abcdefghij", HIDDEN)
    assert [data["text"] for data in heard if "stream" in data] == ["one", HIDDEN, "", "two"]
    assert "".join(data["output"]["text"] for data in heard if "output" in data) == "end s"
