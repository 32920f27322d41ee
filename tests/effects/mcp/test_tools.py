"""Tools of real MCP servers as effects: what they are, what they give, and what silence means."""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from detent.core.contract import Contract
from detent.core.deed import Effect, EffectFailed, Outcome, OutcomeUnknown
from detent.core.question import Answer
from detent.effects.mcp import ServerConfig, Servers, ToolConfig

ROOT = Path(__file__).parents[3]
PEER = str(Path(__file__).with_name("peer.py"))


def peer(tmp_path: Path, **more: Any) -> ServerConfig:
    env = {"PEER_NOTES": str(tmp_path / "notes"), "PEER_SECRET": "${PEER_SECRET:-none}"}
    return ServerConfig(**{"name": "peer", "command": sys.executable, "args": (PEER,), "env": env, **more})


@contextlib.asynccontextmanager
async def serving(home: Path, *configs: ServerConfig) -> AsyncIterator[tuple[Servers, dict[str, Effect]]]:
    async with Servers(home, {config.name: config for config in configs}) as servers:
        yield servers, await servers.effects()


async def call(effect: Effect, contract: Contract | None = None, **given: Any) -> Outcome:
    made = Contract("s/a/1", "a", effect.name, input=given, key="k1", kind=effect.declared.kind)
    outcome = await effect.perform(contract or made)
    assert isinstance(outcome, Outcome)
    return outcome


def answered(effect: Effect, outcome: Outcome, data: Any) -> Contract:
    """The same contract, resumed with an answer to its question."""
    assert outcome.question is not None
    return Contract(
        "s/a/1", "a", effect.name, key="k1", kind=effect.declared.kind, asked=outcome.question.data,
        answers=(Answer(data=data, by="me"),),
    )  # fmt: skip


def kinds(effects: dict[str, Effect]) -> dict[str, str]:
    return {name.partition(".")[2]: effect.declared.kind for name, effect in effects.items()}


async def test_silence_means_irreversible_and_configuration_decides(tmp_path: Path) -> None:
    async with serving(tmp_path, peer(tmp_path)) as (_, effects):
        assert set(kinds(effects).values()) == {"irreversible"}, "hints of a stranger make nothing laxer"
    async with serving(tmp_path, peer(tmp_path, trusted=True)) as (_, effects):
        found = kinds(effects)
        assert (found["look"], found["put"], found["pay"]) == ("pure", "idempotent", "irreversible")
    tools = {"pay": ToolConfig(effect="idempotent", timeout_s=7.0, scope="run", key=("amount",))}
    async with serving(tmp_path, peer(tmp_path, effect="pure", tools=tools)) as (_, effects):
        found = kinds(effects)
        assert (found["look"], found["put"], found["refuse"]) == ("pure", "idempotent", "pure")
        declared = effects["peer.pay"].declared
        assert (declared.kind, declared.timeout_s, declared.scope, declared.key) == (
            "idempotent", 7.0, "run", ("amount",),
        )  # fmt: skip


async def test_a_call_carries_the_key_and_a_servers_words_are_kept_apart(tmp_path: Path) -> None:
    async with serving(tmp_path, peer(tmp_path)) as (_, effects):
        assert (await call(effects["peer.look"], word="tree")).result["text"] == "seen tree"
        outcome = await call(effects["peer.pay"], amount=5)
    assert outcome.result["success"] is True
    assert (tmp_path / "notes").read_text() == "pay 5 k1\n"
    assert "paid on stderr" in (tmp_path / "mcp" / "peer.log").read_text()


@pytest.mark.parametrize(("tool", "given", "words"), [("refuse", {"why": "rain"}, "refuse"), ("pay", {}, "amount")])
async def test_what_a_tool_reports_is_evidence(tmp_path: Path, tool: str, given: dict[str, Any], words: str) -> None:
    async with serving(tmp_path, peer(tmp_path)) as (_, effects):
        with pytest.raises(EffectFailed, match=words):
            await call(effects[f"peer.{tool}"], **given)
    assert not (tmp_path / "notes").exists()


async def test_a_server_that_dies_leaves_a_doubt_and_is_started_again(tmp_path: Path) -> None:
    async with serving(tmp_path, peer(tmp_path)) as (_, effects):
        with pytest.raises(OutcomeUnknown, match="-32000"):
            await call(effects["peer.die"], amount=5)
        assert (await call(effects["peer.look"], word="sun")).result["text"] == "seen sun"
    assert (tmp_path / "notes").read_text() == "die 5\n"


async def test_a_cancelled_call_lets_the_next_one_through(tmp_path: Path) -> None:
    async with serving(tmp_path, peer(tmp_path, protocol="legacy")) as (_, effects):
        await call(effects["peer.look"], word="x")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await call(effects["peer.sleep"], seconds=1.0)
        assert (await call(effects["peer.look"], word="y")).result["text"] == "seen y"


async def test_a_secret_that_a_server_tells_is_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEER_SECRET", "hunter2-hunter2")
    async with serving(tmp_path, peer(tmp_path)) as (_, effects):
        assert (await call(effects["peer.secret"])).result["text"] == "it is •••"


async def test_a_reference_to_nothing_is_told_and_nothing_is_started(tmp_path: Path) -> None:
    config = peer(tmp_path, env={"A": "${NOT_THERE_AT_ALL}"})
    async with serving(tmp_path, config) as (servers, effects):
        assert not effects
        assert "${NOT_THERE_AT_ALL}" in servers.problems["peer"]


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
async def test_a_tool_that_asks_makes_a_question(tmp_path: Path, protocol: str) -> None:
    async with serving(tmp_path, peer(tmp_path, protocol=protocol)) as (_, effects):
        greet = effects["peer.greet"]
        asking = await call(greet)
        assert asking.question is not None
        assert asking.question.reason == "form"
        assert "Who are you?" in asking.question.text
        assert set(asking.question.schema["properties"]) == {"name", "age"}
        assert (await call(effects["peer.look"], word="z")).result["text"] == "seen z", "others are not held up"
        outcome = await call(greet, answered(greet, asking, {"name": "Ada", "age": 36}))
    assert outcome.result["text"] == "hello Ada, 36"
    assert (tmp_path / "notes").read_text() == "greet\n"


async def test_a_sealed_question_outlives_host_and_server(tmp_path: Path) -> None:
    async with serving(tmp_path, peer(tmp_path)) as (_, effects):
        asking = await call(effects["peer.greet"])
    async with serving(tmp_path, peer(tmp_path)) as (_, effects):
        outcome = await call(effects["peer.greet"], answered(effects["peer.greet"], asking, {"name": "Ada", "age": 1}))
    assert outcome.result["text"] == "hello Ada, 1"


async def test_an_open_question_whose_line_is_gone_is_a_doubt(tmp_path: Path) -> None:
    async with serving(tmp_path, peer(tmp_path, protocol="legacy")) as (_, effects):
        asking = await call(effects["peer.greet"])
    async with serving(tmp_path, peer(tmp_path, protocol="legacy")) as (_, effects):
        with pytest.raises(OutcomeUnknown, match="line to it is gone"):
            await call(effects["peer.greet"], answered(effects["peer.greet"], asking, {"name": "Ada"}))


async def test_a_harmless_open_question_is_answered_again_from_memory(tmp_path: Path) -> None:
    config = peer(tmp_path, protocol="legacy", tools={"greet": ToolConfig(effect="idempotent")})
    async with serving(tmp_path, config) as (_, effects):
        asking = await call(effects["peer.greet"])
    async with serving(tmp_path, config) as (_, effects):
        outcome = await call(effects["peer.greet"], answered(effects["peer.greet"], asking, {"name": "Ada"}))
    assert outcome.result["text"] == "hello Ada, 3"


async def test_the_list_of_tools_is_known_without_starting_anything(tmp_path: Path) -> None:
    async with serving(tmp_path, peer(tmp_path)) as (_, first):
        pass
    (tmp_path / "mcp" / "peer.log").unlink()
    async with serving(tmp_path, peer(tmp_path)) as (_, again):
        assert kinds(first) == kinds(again)
    assert not (tmp_path / "mcp" / "peer.log").exists()


async def test_a_tool_that_became_more_dangerous_is_not_called(tmp_path: Path) -> None:
    async with serving(tmp_path, peer(tmp_path, trusted=True)) as (_, effects):
        laxer = Contract("s/a/1", "a", "peer.pay", input={"amount": 1}, kind="pure")
        with pytest.raises(EffectFailed, match="says now that it is irreversible"):
            await effects["peer.pay"].perform(laxer)
    assert not (tmp_path / "notes").exists()


async def test_servers_end_with_their_host(tmp_path: Path) -> None:
    async with serving(tmp_path, peer(tmp_path)) as (_, effects):
        await call(effects["peer.look"], word="x")
        (pid,) = alive(tmp_path)
    assert not alive(tmp_path), pid


async def test_what_a_killed_host_left_is_ended_by_the_next(tmp_path: Path) -> None:
    from detent.effects.kernel.orphan import HOST
    from detent.effects.mcp.connection import MARK

    mark = {MARK: str((tmp_path / "mcp").absolute()), MARK + HOST: "999999999-1"}
    process = await asyncio.create_subprocess_exec("sleep", "60", env={**os.environ, **mark})
    async with serving(tmp_path):
        assert await process.wait() < 0


def alive(tmp_path: Path) -> list[int]:
    mark = f"DETENT_MCP={tmp_path / 'mcp'}".encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found


async def test_a_server_over_streamable_http(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "*")
    env = {**os.environ, "PEER_NOTES": str(tmp_path / "notes")}
    process = await asyncio.create_subprocess_exec(sys.executable, PEER, "0", env=env, stderr=asyncio.subprocess.PIPE)
    try:
        assert process.stderr is not None
        while b"running on" not in (line := await process.stderr.readline()):
            assert line, "the server ended"
        port = int(line.split(b"127.0.0.1:")[1].split()[0])
        for protocol in ("auto", "legacy"):
            config = ServerConfig("web", url=f"http://127.0.0.1:{port}/mcp", protocol=protocol)
            async with serving(tmp_path / protocol, config) as (_, effects):
                assert (await call(effects["web.look"], word="net")).result["text"] == "seen net"
                asking = await call(effects["web.greet"])
                outcome = await call(effects["web.greet"], answered(effects["web.greet"], asking, {"name": "Bo"}))
                assert outcome.result["text"] == "hello Bo, 3"
    finally:
        process.terminate()
        await process.communicate()
    config = ServerConfig("web", url=f"http://127.0.0.1:{port}/mcp")
    async with serving(tmp_path / "none", config) as (servers, _):
        assert "cannot be reached" in servers.problems["web"]
