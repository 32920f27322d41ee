"""What effects say while they are at work reaches onlookers, and nothing else."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from detent.core import Action, Contract, Effect, Machine, Status, effect, table
from detent.core.progress import say, voice
from detent.host.embedded.host import EmbeddedHost


@effect("talk", kind="idempotent")
async def talk(contract: Contract) -> dict[str, Any]:
    for word in ("one", "two"):
        say(contract, {"text": word})
    await asyncio.to_thread(say, contract, {"text": "three"})
    return {"said": 3}


def talker(**given: Any) -> Machine:
    return Machine(
        name="talker",
        initial="talking",
        transitions=table("talking  -  done"),
        work={"talking": (Action("talk", "talk", given),)},
        ends={"done": Status.COMPLETED},
    )


async def heard(home: Path, one: Effect, machine: Machine) -> list[Any]:
    said: list[Any] = []
    async with EmbeddedHost(home, [one], sync="off") as host:
        stop = host.overhear("r", lambda contract_id, data: said.append((contract_id, dict(data))))
        await host.start(machine, run_id="r")
        run = await host.settled("r")
        stop()
        await host.start(machine, run_id="other")
        await host.settled("other")
        assert run.status is Status.COMPLETED
        assert "three" not in str(run)
    return said


async def test_an_onlooker_hears_what_an_effect_says_also_from_a_thread(tmp_path: Path) -> None:
    said = await heard(tmp_path, talk, talker())
    assert [data["text"] for _, data in said] == ["one", "two", "three"]
    assert len({contract_id for contract_id, _ in said}) == 1


async def test_a_task_that_serves_many_calls_speaks_by_their_voices_and_never_for_another(tmp_path: Path) -> None:
    calls: asyncio.Queue[tuple[Contract, Any, asyncio.Event]] = asyncio.Queue()
    lines: list[asyncio.Task[None]] = []

    async def serve() -> None:
        while True:
            contract, speak, done = await calls.get()
            say(contract, {"text": "said"})
            speak({"text": "voiced"})
            done.set()

    @effect("talk", kind="idempotent")
    async def shared_line(contract: Contract) -> None:
        if not lines:
            lines.append(asyncio.create_task(serve()))
        done = asyncio.Event()
        calls.put_nowait((contract, voice(contract), done))
        await done.wait()

    said: list[Any] = []
    async with EmbeddedHost(tmp_path, [shared_line], sync="off") as host:
        host.onlookers.ear = lambda run_id, _, data: said.append((run_id, data["text"]))
        for run_id in ("first", "second"):
            await host.start(talker(), run_id=run_id)
            await host.settled(run_id)
        for line in lines:
            line.cancel()
    assert said == [("first", "said"), ("first", "voiced"), ("second", "voiced")]


async def test_a_call_with_a_secret_is_not_heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TALK_KEY", "very-secret")
    assert await heard(tmp_path, talk, talker(key={"secret": "TALK_KEY"})) == []


async def test_an_onlooker_that_fails_does_not_fail_the_run(tmp_path: Path) -> None:
    def broken(contract_id: str, data: Mapping[str, Any]) -> None:
        raise RuntimeError("no ears")

    async with EmbeddedHost(tmp_path, [talk], sync="off") as host:
        host.overhear("r", broken)
        await host.start(talker(), run_id="r")
        assert (await host.settled("r")).status is Status.COMPLETED
