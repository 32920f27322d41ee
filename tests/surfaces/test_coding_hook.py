"""Hooks of coding agents: the policy or a person decides before a command is run; tried with the real programs."""

import asyncio
import json
import os
import subprocess
from pathlib import Path
from typing import Any

from tests.agents.coding.test_external import agent, results
from tests.effects.llm.scripted import Asked, Script, Write, head, message, serving, text, tool_use
from tests.effort import PATIENCE_S
from tests.surfaces import command

claude, codex = map(agent, ("claude", "codex"))
LAW = """version: 1
rules:
  - {name: fine, tool: "*", when: "'allowed' in args.command", decision: allow}
  - {name: never, tool: "*", when: "'denied' in args.command", decision: deny}
"""
COMMANDS = ("echo allowed >> ledger", "echo denied >> ledger", "echo asked >> ledger")


def decide(folder: Path, name: str, called: Any) -> "subprocess.CompletedProcess[str]":
    words = [command.SCRIPT, "hook", name, "--decide", "--wait", "0"]
    given = called if isinstance(called, str) else json.dumps(called)
    return subprocess.run(words, cwd=folder, input=given, capture_output=True, text=True, check=False)


def test_the_policy_a_person_and_nobody_decide(tmp_path: Path) -> None:
    tmp_path.joinpath("detent.policy.yaml").write_text(LAW)

    def called(command: str) -> dict[str, Any]:
        return {"session_id": "s", "tool_name": "Bash", "tool_input": {"command": command}}

    fine = decide(tmp_path, "claude", called(COMMANDS[0]))
    assert fine.returncode == 0
    assert json.loads(fine.stdout)["hookSpecificOutput"]["permissionDecision"] == "allow"
    never = decide(tmp_path, "gemini", called(COMMANDS[1]))
    assert (never.returncode, never.stdout) == (2, "")
    assert "never" in never.stderr
    asked = decide(tmp_path, "codex", called(COMMANDS[2]))
    assert asked.returncode == 2
    assert "detent approve codex.Bash-" in asked.stderr
    approved = subprocess.run(
        [command.SCRIPT, "approve", "last"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert approved.returncode == 3, approved.stderr
    again = decide(tmp_path, "codex", called(COMMANDS[2]))
    assert (again.returncode, again.stdout) == (0, "{}\n")
    assert decide(tmp_path, "codex", called(COMMANDS[2])).returncode == 2, "a yes is for one call"
    assert decide(tmp_path, "claude", "no JSON").returncode == 2


def as_claude() -> Script:
    async def script(asked: Asked, write: Write) -> None:
        tools = {tool.get("name") for tool in asked.body.get("tools") or ()}
        done = results(asked)
        if not asked.path.startswith("/v1/messages"):
            await write(head(404, "application/json", length=2) + b"{}")
        elif "count_tokens" in asked.path:
            body = b'{"input_tokens": 10}'
            await write(head(200, "application/json", length=len(body)) + body)
        elif "Bash" in tools and done < len(COMMANDS):
            given = json.dumps({"command": COMMANDS[done], "description": "Write"})
            await message(tool_use(f"t{done}", "Bash", given), stop="tool_use")(asked, write)
        else:
            await message(text("All done."))(asked, write)

    return script


def write_hook(folder: Path, name: str, file: Path) -> None:
    words = [command.SCRIPT, "hook", name]
    shown = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True).stdout
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(shown.replace("--decide", "--decide --wait 0"))


async def run(folder: Path, *words: str, **environment: str) -> str:
    child = await asyncio.create_subprocess_exec(
        *words,
        cwd=folder,
        env={**os.environ, **environment},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(PATIENCE_S):
        return (await child.communicate())[0].decode()


async def test_claude_does_what_it_is_allowed_to(claude: str, tmp_path: Path) -> None:
    tmp_path.joinpath("detent.policy.yaml").write_text(LAW)
    write_hook(tmp_path, "claude", tmp_path / ".claude" / "settings.json")
    home = tmp_path / "home"
    home.mkdir()
    async with serving(as_claude()) as server:
        said = await run(
            tmp_path, claude, "-p", "Write", HOME=str(home), ANTHROPIC_BASE_URL=server.url,
            ANTHROPIC_API_KEY="sk-ant-scripted-and-worthless", CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
        )  # fmt: skip
    assert (tmp_path / "ledger").read_text() == "allowed\n", said
    told = json.dumps(server.asked[-1].body)
    assert "denies" in told
    assert "detent approve claude.Bash-" in told
