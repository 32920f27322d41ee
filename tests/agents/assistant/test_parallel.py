"""Several tool calls in one answer: harmless ones side by side, deeds one after the other, and none lost in silence."""

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

from detent.agents.assistant import ASSISTANT, turn_input
from detent.agents.assistant.conversation import history
from detent.agents.assistant.machine import CALLS_MAX
from detent.agents.assistant.reasoning import decide
from detent.agents.assistant.result_fact import WARNING
from detent.core import Contract, Effect, Outcome, Run, Status, effect
from detent.testing import Story, World, crash_anywhere
from tests.agents.assistant.stage import Post, asking, asking_all, speaking

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


class Library:
    """`book.open`: everybody who reads waits until as many read as there are seats."""

    def __init__(self, seats: int) -> None:
        self._barrier = asyncio.Barrier(seats)
        self.readers, self.are_two = 0, asyncio.Event()

    @property
    def effect(self) -> Effect:
        @effect("book.open", kind="pure", timeout_s=5.0)
        async def read(contract: Contract) -> Outcome:
            self.readers += 1
            if self.readers == 2:
                self.are_two.set()
            async with self._barrier:
                return Outcome(f"book {contract.input['n']}")

        return read


def told(body: dict[str, Any]) -> list[tuple[str, str]]:
    """What the model was told of its calls, by their ids."""
    return [(one["tool_call_id"], one["content"]) for one in body["messages"] if one["role"] == "tool"]


async def test_harmless_calls_are_made_side_by_side_and_told_in_order(tmp_path: Path) -> None:
    asked = asking_all(*(("book.open", {"n": number}) for number in range(3)))
    async with speaking(tmp_path, Library(3).effect, says=[asked, "read"]) as scene:
        run = await scene.say("I prefer tea")
        assert run.output["response"] == "read"
        assert told(scene.heard[1]) == [(f"c{n + 1}", f"[SUCCESS] book.open: book {n}") for n in range(3)]
        calls = scene.heard[1]["messages"][-4]["tool_calls"]
        assert [call["id"] for call in calls] == ["c1", "c2", "c3"], "they are one answer of the model"
        executions = scene.ledger(run).executions.values()
        assert [e.detail["args"]["n"] for e in executions] == [0, 1, 2]


async def test_deeds_are_asked_about_one_after_the_other_in_the_models_order(tmp_path: Path) -> None:
    post = Post()
    asked = asking_all(("email.send", {"to": "ann"}), ("book.open", {"n": 1}), ("email.send", {"to": "bob"}))
    async with speaking(tmp_path, Library(1).effect, post.effect, says=[asked, "done"]) as scene:
        run = await scene.say("I prefer tea")
        assert [contract.input for contract in run.waiting] == [{"to": "ann"}]
        run = await scene.answer(run, approved=True)
        assert (post.sent, [c.input for c in run.waiting]) == ([{"to": "ann"}], [{"to": "bob"}])
        run = await scene.answer(run, approved=False, comment="not him")
        assert run.output["response"] == "done"
        assert [line for _id, line in told(scene.heard[1])] == [
            "[SUCCESS IRREVERSIBLE (human-confirmed)] email.send: 邮件已发送",
            "[SUCCESS] book.open: book 1",
            f"[REJECTED] email.send: kim said no: not him\n{WARNING}",
        ]  # fmt: skip
        statuses = [(e.summary, e.status) for e in scene.ledger(run).executions.values() if e.type == "tool_call"]
        assert statuses == [("email.send", Status.COMPLETED), ("book.open", Status.COMPLETED),
                            ("email.send", Status.REJECTED)]  # fmt: skip


async def test_a_call_that_cannot_be_made_is_told_and_the_others_are_made(tmp_path: Path) -> None:
    asked = asking_all(
        ("book.open", '{"n": 1'), ("book.open", {"n": 2}), ("shell", {"run": "ls"}), ("book.open", "[3]")
    )
    async with speaking(tmp_path, Library(1).effect, says=[asked, "mended"]) as scene:
        run = await scene.say("I prefer tea")
        lines = dict(told(scene.heard[1]))
        assert lines["c1"].startswith("[FAILED] book.open: its arguments are not one JSON object")
        assert '{"n": 1' in lines["c1"], "the model sees what it wrote"
        assert lines["c2"] == "[SUCCESS] book.open: book 2"
        assert lines["c3"].startswith("[FAILED] shell.shell: there is no such tool")
        assert lines["c4"].startswith("[FAILED] book.open: its arguments are not one JSON object")
        assert list(lines) == ["c1", "c2", "c3", "c4"]
        assert run.output["response"] == "mended"
        assert len(scene.heard) == 2, "the model was not asked again for what it can mend itself"


async def test_more_calls_than_are_made_for_one_answer_are_told(tmp_path: Path) -> None:
    asked = asking_all(*(("book.open", {"n": number}) for number in range(CALLS_MAX + 1)))
    async with speaking(tmp_path, Library(1).effect, says=[asked, "ok"]) as scene:
        await scene.say("I prefer tea")
        lines = [line for _id, line in told(scene.heard[1])]
        assert (len(lines), lines[-1]) == (
            CALLS_MAX + 1, f"[FAILED] book.open: at most {CALLS_MAX} calls are made for one answer; ask for it again",
        )  # fmt: skip


async def test_the_same_deed_twice_in_one_answer_is_done_once(tmp_path: Path) -> None:
    post = Post()
    asked = asking_all(("email.send", {"to": "ann"}), ("email.send", {"to": "ann"}))
    async with speaking(tmp_path, post.effect, says=[asked, "done"]) as scene:
        run = await scene.say("I prefer tea")
        while run.waiting:
            run = await scene.answer(run, approved=True)
        assert post.sent == [{"to": "ann"}]
        second = told(scene.heard[1])[1][1]
        assert second.startswith("[REJECTED ALREADY_DONE] email.send:")
        assert "it gave: 邮件已发送" in second


async def test_calls_under_way_when_a_turn_is_cancelled_are_known_to_the_next(tmp_path: Path) -> None:
    library, asked = Library(3), asking_all(("book.open", {"n": 1}), ("book.open", {"n": 2}))
    async with speaking(tmp_path, library.effect, says=[asked, "as you like"]) as scene:
        run = await scene.begin("I prefer tea")
        await library.are_two.wait()
        await scene.host.cancel(run.id, by="kim")
        news = [one["content"] for one in history(scene.host.reader, "talk").news]
        assert [line for line in news if "book.open" in line] == ["[CANCELLED] book.open: cancelled"] * 2


async def test_images_that_tools_give_reach_the_model_as_images(tmp_path: Path) -> None:
    data = base64.b64encode(PNG).decode()

    @effect("camera.look", kind="pure")
    async def look(contract: Contract) -> Outcome:
        return Outcome({"text": "a picture", "content": [{"type": "image", "data": data, "mimeType": "image/png"}]})

    async with speaking(tmp_path, look, says=[asking("camera.look"), "nice"]) as scene:
        await scene.say("I prefer tea")
        line, seen = scene.heard[1]["messages"][-2:]
        assert line["role"] == "tool"
        assert data not in json.dumps(line)
        assert seen["role"] == "user"
        assert seen["content"][1] == {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}


TOOLS = [{"name": "bank.pay", "kind": "irreversible"}, {"name": "book.open", "kind": "pure"}]
WANTED = [
    {"id": "a", "name": "book.open", "arguments": {"n": 1}},
    {"id": "b", "name": "bank.pay", "arguments": {"to": "ann"}},
    {"id": "c", "name": "bank.pay", "arguments": {"to": "bob"}},
]


def test_a_death_anywhere_between_several_deeds_repeats_none() -> None:
    given = {"steps": [], "tools": TOOLS, "message": "pay both"}
    event, patch = decide(given, {"tool_calls": WANTED}, [])

    def world() -> World:
        made = World(is_steady=True)
        for node in ("intent", "emotion", "recall", "store"):
            made.effect(f"assistant.{node}", kind="idempotent")
        wants = Outcome({}, raises=event, patch=patch)
        made.effect("assistant.think", kind="idempotent", answers=(wants, Outcome({}, raises="END")))
        made.effect("bank.pay", answers=({"id": 1},))
        made.effect("book.open", kind="pure", answers=({"text": "a book"},))
        return made

    def check(world: World, run: Run) -> None:
        assert run.status is Status.COMPLETED
        assert [deed.input for deed in world.deeds if deed.effect == "bank.pay"] == [{"to": "ann"}, {"to": "bob"}]
        came = [one["value"]["outcome"] for step in run.results["steps"]["items"] for one in step["items"]]
        assert [one["success"] for one in came] == [True] * 3

    story = Story(ASSISTANT, turn_input("pay both", tools=TOOLS))
    assert crash_anywhere(story, world, check).points > 20


def test_a_turn_of_an_older_version_makes_one_call_and_tells_of_the_others() -> None:
    event, patch = decide({"tools": TOOLS, "message": "pay both"}, {"tool_calls": WANTED[1:]}, [])
    assert (event, patch["call"]["arguments"], "steps" in patch) == ("TOOL", {"to": "ann"}, False)
    (other,) = patch["executions"]
    assert (other["id"], other["line"]) == (
        "c", "[FAILED] bank.pay: not made: this turn makes one call at a time; ask for it again",
    )  # fmt: skip
