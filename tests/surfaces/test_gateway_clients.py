"""The gateway with clients that others have made: a second detent, the inspector from npm, a real coding agent."""

import asyncio
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from detent.core.contract import Contract
from detent.core.effect_type import EffectFailed, PartialFailure
from detent.effects.mcp import Servers, parse_config
from tests.agents.coding.test_external import agent, results
from tests.effects.llm.scripted import Asked, Script, Write, head, message, serving, text, tool_use
from tests.surfaces import command
from tests.surfaces.test_coding_hook import run
from tests.surfaces.test_gateway import notes, write_servers
from tests.surfaces.test_mcp import inspector

claude = agent("claude")
external = pytest.mark.skipif(not os.environ.get("DETENT_EXTERNAL"), reason="it starts node; DETENT_EXTERNAL=1 does")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_servers(tmp_path)
    return tmp_path


def approve(folder: Path, run_id: str) -> None:
    done = subprocess.run([command.SCRIPT, "approve", run_id], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 3, done.stderr


async def test_a_second_detent_calls_through_it(folder: Path) -> None:
    server = {"command": command.SCRIPT, "args": ["gateway"], "cwd": str(folder), "trusted": True}
    configs, troubles = parse_config({"servers": {"gate": server}})
    assert not troubles
    other = folder / "other" / ".detent"
    async with Servers(other, configs) as servers:
        effects = await servers.effects()
        assert effects["gate.up__look"].declared.kind == "pure"
        assert effects["gate.up__pay"].declared.kind == "irreversible"

        async def call(name: str, **given: Any) -> Any:
            return await effects[name].perform(Contract("a/b/1", "b", name, input=given, kind="irreversible"))

        assert (await call("gate.up__look", word="sea")).result["text"] == "seen sea"
        (drawn,) = (await call("gate.up__draw_much")).result["content"]
        assert len(drawn["data"]) > 3_000_000
        with pytest.raises((EffectFailed, PartialFailure), match="detent approve") as asked:
            await call("gate.up__pay", amount=3)
        approve(folder, str(asked.value).partition("detent approve ")[2].split()[0])
        assert (await call("gate.up__pay", amount=3)).result["text"] == "paid 3"
        assert "made before" in (await call("gate.up__pay", amount=3)).result["text"]
    assert notes(folder) == ["paid 3"]


@external
@pytest.mark.limit(900)
def test_the_inspector_drives_it(folder: Path) -> None:
    program = [*inspector()[:-1], "gateway"]

    def asked(*words: str) -> Any:
        done = subprocess.run([*program, *words], cwd=folder, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    names = {tool["name"] for tool in asked("--method", "tools/list")["tools"]}
    assert {"up__look", "up__pay"} <= names
    seen = asked("--method", "tools/call", "--tool-name", "up__look", "--tool-arg", "word=sea")
    assert seen["content"][0]["text"] == "seen sea"
    pay = ["--method", "tools/call", "--tool-name", "up__pay", "--tool-arg", "amount=3"]
    waiting = asked(*pay)
    assert waiting["isError"]
    approve(folder, waiting["_meta"]["detent"]["run_id"])
    assert asked(*pay)["content"][0]["text"] == "paid 3"
    assert "made before" in asked(*pay)["content"][0]["text"]
    assert asked("--method", "resources/list")["resources"][0]["uri"] == "note://one"
    assert asked("--method", "prompts/list")["prompts"][0]["name"] == "up__greet"
    assert notes(folder) == ["paid 3"]


CALLS = (("up__look", {"word": "sea"}), ("up__pay", {"amount": 3}), ("up__pay", {"amount": 3}))


def as_claude(folder: Path) -> Script:
    """Looks, wants to pay, and pays again after somebody has approved it."""

    async def script(asked: Asked, write: Write) -> None:
        tools = {str(tool.get("name")) for tool in asked.body.get("tools") or ()}
        done = results(asked)
        if not asked.path.startswith("/v1/messages"):
            await write(head(404, "application/json", length=2) + b"{}")
        elif "count_tokens" in asked.path:
            body = b'{"input_tokens": 10}'
            await write(head(200, "application/json", length=len(body)) + body)
        elif "mcp__detent__up__look" in tools and done < len(CALLS):
            if done == 2:
                said = json.dumps(asked.body["messages"])
                approve(folder, said.rpartition("detent approve ")[2].split("\\n")[0].split()[0])
            name, given = CALLS[done]
            await message(tool_use(f"t{done}", f"mcp__detent__{name}", json.dumps(given)), stop="tool_use")(
                asked, write
            )
        else:
            await message(text("All done."))(asked, write)

    return script


@external
@pytest.mark.limit(300)
async def test_claude_code_pays_once_through_it(claude: str, folder: Path) -> None:
    install = [command.SCRIPT, "gateway", "install", "claude-code"]
    await asyncio.to_thread(subprocess.run, install, cwd=folder, check=True, capture_output=True)
    home = folder / "home"
    home.mkdir()
    async with serving(as_claude(folder)) as server:
        said = await run(
            folder, claude, "-p", "Pay", "--mcp-config", ".mcp.json", "--strict-mcp-config", "--allowedTools",
            "mcp__detent", HOME=str(home), ANTHROPIC_BASE_URL=server.url, ENABLE_TOOL_SEARCH="false",
            ANTHROPIC_API_KEY="sk-ant-scripted-and-worthless", CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
            MCP_CONNECTION_NONBLOCKING="0", MCP_CONNECT_TIMEOUT_MS="60000",  # the tools are there at the first word
        )  # fmt: skip
    assert notes(folder) == ["paid 3"], said
    told = json.dumps(server.asked[-1].body)
    assert "seen sea" in told
    assert "waits for a person" in told
    assert "paid 3" in told
