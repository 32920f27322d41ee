"""Tools of real MCP servers as effects: what they are, what they give, and what silence means."""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from detent.core.contract import Contract
from detent.core.effect_type import Effect, EffectFailed, Outcome, OutcomeUnknown, PartialFailure
from detent.core.question import Answer
from detent.effects.mcp import ServerConfig, Servers, ToolConfig
from tests.effects.test_http import Request
from tests.effects.test_http import serving as scripted

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


def notes(tmp_path: Path) -> str:
    """What the peer's tools have done."""
    place = tmp_path / "notes"
    return place.read_text() if place.exists() else ""


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


@pytest.mark.parametrize(
    ("tool", "given", "words"),
    [("refuse", {"why": "rain"}, "refuse"), ("pay", {}, "amount"), ("half", {"amount": 5}, "half")],
)
async def test_an_error_that_a_tool_reports_is_no_evidence(
    tmp_path: Path, tool: str, given: dict[str, Any], words: str
) -> None:
    async with serving(tmp_path, peer(tmp_path)) as (_, effects):
        with pytest.raises(PartialFailure, match=words) as caught:
            await call(effects[f"peer.{tool}"], **given)
    assert (caught.value.type, caught.value.result["success"]) == ("tool_failure", False)
    assert notes(tmp_path) == ("half 5\n" if tool == "half" else ""), "the three cannot be told apart"


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
@pytest.mark.parametrize(
    ("number", "error"),
    [
        (-32600, EffectFailed),
        (-32601, EffectFailed),
        (-32602, EffectFailed),
        (-32700, EffectFailed),
        (-32603, PartialFailure),
        (-32042, PartialFailure),
        (-1, PartialFailure),
        (-32000, OutcomeUnknown),
        (-32001, OutcomeUnknown),
    ],
)
async def test_only_a_server_that_refuses_the_request_itself_says_that_nothing_happened(
    tmp_path: Path, protocol: str, number: int, error: type[Exception]
) -> None:
    async with serving(tmp_path, peer(tmp_path, protocol=protocol)) as (_, effects):
        with pytest.raises(error, match=f"number {number}"):
            await call(effects["peer.code"], number=number)


async def test_a_tool_that_wants_what_is_not_offered_may_have_done_something(tmp_path: Path) -> None:
    async with serving(tmp_path, peer(tmp_path)) as (_, effects):
        with pytest.raises(PartialFailure, match="wants a model"):
            await call(effects["peer.think"], amount=5)
    assert notes(tmp_path) == "think 5\n"


async def test_a_server_that_dies_while_others_wait_for_their_turn_was_sent_nothing_of_theirs(tmp_path: Path) -> None:
    async with serving(tmp_path, peer(tmp_path, protocol="legacy")) as (_, effects):
        await call(effects["peer.look"], word="x")
        dying = asyncio.create_task(call(effects["peer.die"], amount=5))
        waiting = asyncio.create_task(call(effects["peer.pay"], amount=7))
        with pytest.raises(OutcomeUnknown):
            await dying
        with pytest.raises(EffectFailed, match="nothing was sent"):
            await waiting
    assert notes(tmp_path) == "die 5\n"


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


def shifting(tmp_path: Path, says: str, **more: Any) -> ServerConfig:
    """The peer, whose tool `shifty` says this of itself."""
    config = peer(tmp_path, **{"trusted": True, **more})
    return replace(config, env={**config.env, "PEER_SHIFTY": says})


@pytest.mark.parametrize("now", ["", "same"])
async def test_a_tool_that_became_more_dangerous_is_not_called_by_runs_that_believed_it(
    tmp_path: Path, now: str
) -> None:
    async with serving(tmp_path, shifting(tmp_path, "read")) as (_, effects):
        assert effects["peer.shifty"].declared.kind == "pure"
    believing = Contract("s/a/1", "a", "peer.shifty", input={"word": "x"}, kind="pure")
    for _ in range(2):  # also when the new list is the known one
        async with serving(tmp_path, shifting(tmp_path, now)) as (_, effects):
            with pytest.raises(EffectFailed, match="was pure once, as this run has it"):
                await effects["peer.shifty"].perform(believing)
            await call(effects["peer.shifty"], word="new")
    declared = {"shifty": ToolConfig(effect="pure")}
    async with serving(tmp_path, shifting(tmp_path, now, tools=declared)) as (_, effects):
        await effects["peer.shifty"].perform(believing)
    assert notes(tmp_path) == "shifty new\nshifty new\nshifty x\n"


@pytest.mark.parametrize("trusted", [True, False])
async def test_an_action_may_say_itself_what_its_call_does(tmp_path: Path, trusted: bool) -> None:
    async with serving(tmp_path, peer(tmp_path, trusted=trusted)) as (_, effects):
        assert effects["peer.pay"].declared.kind == "irreversible"
        said = Contract("s/a/1", "a", "peer.pay", input={"amount": 1}, kind="idempotent", key="k")
        await effects["peer.pay"].perform(said)
    assert notes(tmp_path) == "pay 1 k\n"


async def test_the_advice_for_a_tool_says_how_to_declare_it(tmp_path: Path) -> None:
    async with serving(tmp_path, peer(tmp_path)) as (_, effects):
        told = {name.partition(".")[2]: effect.advice for name, effect in effects.items()}
    assert told["look"] == (
        "The server `peer` says that `look` only reads, but it is not trusted. If that is so, "
        "write `look: {effect: pure}` under `tools` of `peer` in detent.mcp.yaml."
    )
    assert "may be called again" in told["put"]
    assert "`put: {effect: idempotent}`" in told["put"]
    assert told["pay"] == (
        "Nobody says what `pay` of the server `peer` does. If it only reads, "
        "write `pay: {effect: pure}` under `tools` of `peer` in detent.mcp.yaml."
    )
    async with serving(tmp_path, peer(tmp_path, trusted=True, tools={"pay": ToolConfig("irreversible")})) as (
        _,
        effects,
    ):
        assert {effects[f"peer.{name}"].advice for name in ("look", "put", "pay")} == {""}
        assert effects["peer.die"].advice, "also of a trusted server that says nothing"


async def test_servers_end_with_their_host(tmp_path: Path) -> None:
    async with serving(tmp_path, peer(tmp_path, env={"DETENT_COLD": "1"})) as (_, effects):
        await call(effects["peer.look"], word="x")
        (pid,) = alive(tmp_path)
    assert not alive(tmp_path), pid


async def test_what_a_killed_host_left_is_ended_by_the_next(tmp_path: Path) -> None:
    from detent.effects.mcp.connection import MARK
    from detent.effects.orphan_process import HOST

    mark = {MARK: str((tmp_path / "mcp").absolute()), MARK + HOST: "999999999-1"}
    process = await asyncio.create_subprocess_exec("sleep", "60", env={**os.environ, **mark})
    async with serving(tmp_path):
        assert await process.wait() < 0


def alive(tmp_path: Path) -> list[int]:
    from detent.effects.mcp.connection import MARK

    mark = f"{MARK}={tmp_path / 'mcp'}".encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found


@contextlib.asynccontextmanager
async def listening(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[int]:
    """The peer over streamable HTTP, at a port of this machine."""
    monkeypatch.setenv("NO_PROXY", "*")
    env = {**os.environ, "PEER_NOTES": str(tmp_path / "notes")}
    process = await asyncio.create_subprocess_exec(sys.executable, PEER, "0", env=env, stderr=asyncio.subprocess.PIPE)
    try:
        assert process.stderr is not None
        while b"running on" not in (line := await process.stderr.readline()):
            assert line, "the server ended"
        yield int(line.split(b"127.0.0.1:")[1].split()[0])
    finally:
        process.terminate()
        await process.communicate()


async def test_a_server_over_streamable_http(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with listening(tmp_path, monkeypatch) as port:
        for protocol in ("auto", "legacy"):
            config = ServerConfig("web", url=f"http://127.0.0.1:{port}/mcp", protocol=protocol)
            async with serving(tmp_path / protocol, config) as (_, effects):
                assert (await call(effects["web.look"], word="net")).result["text"] == "seen net"
                asking = await call(effects["web.greet"])
                outcome = await call(effects["web.greet"], answered(effects["web.greet"], asking, {"name": "Bo"}))
                assert outcome.result["text"] == "hello Bo, 3"
                with pytest.raises(EffectFailed):
                    await call(effects["web.code"], number=-32602)
    config = ServerConfig("web", url=f"http://127.0.0.1:{port}/mcp")
    async with serving(tmp_path / "none", config) as (servers, _):
        assert "cannot be reached" in servers.problems["web"]


GARBLED = {
    "not json": (200, "application/json", b"<html>busy</html>"),
    "no event": (200, "text/event-stream", b"data: nonsense\n\n"),
    "a page": (200, "text/html", b"<html>hello</html>"),
    "accepted": (202, "text/plain", b""),
}


@contextlib.asynccontextmanager
async def between(port: int, answer: tuple[int, str, bytes]) -> AsyncIterator[int]:
    """A proxy before a server; a call is handed on, and its answer becomes another one."""
    import httpx2

    async def exchange(request: Request, writer: asyncio.StreamWriter) -> None:
        headers = {name: value for name, value in request.headers.items() if name not in ("host", "content-length")}
        url = f"http://127.0.0.1:{port}{request.path}"
        if request.method == "GET":  # an open line on which nothing would come
            status, kind, body, session = 405, "text/plain", b"", ""
        else:
            async with httpx2.AsyncClient(timeout=60) as client:
                came = await client.request(request.method, url, headers=headers, content=request.body)
            status, kind, body = came.status_code, came.headers.get("content-type", ""), came.content
            session = came.headers.get("mcp-session-id", "")
        if b'"tools/call"' in request.body:
            status, kind, body = answer
        lines = [f"HTTP/1.1 {status} So", f"content-type: {kind}", f"content-length: {len(body)}", "connection: close"]
        lines += [f"mcp-session-id: {session}"] if session else []
        writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        await writer.drain()

    async with scripted(exchange) as server:
        yield int(server.url.rpartition(":")[2])


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
@pytest.mark.parametrize("answer", GARBLED.values(), ids=GARBLED)
async def test_an_answer_over_http_that_cannot_be_read_is_a_doubt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: str, answer: tuple[int, str, bytes]
) -> None:
    async with listening(tmp_path, monkeypatch) as port, between(port, answer) as proxy:
        config = ServerConfig("web", url=f"http://127.0.0.1:{proxy}/mcp", protocol=protocol)  # type: ignore[arg-type]
        async with serving(tmp_path / "home", config) as (_, effects):
            with pytest.raises(OutcomeUnknown):
                await call(effects["web.pay"], amount=5)
    assert notes(tmp_path) == "pay 5 k1\n"
