"""Hooks of coding agents: the policy or a person decides before a command is run; tried with the real programs."""

import asyncio
import json
import os
import subprocess
from pathlib import Path
from typing import Any

from tests.agents.coding.test_external import agent, results
from tests.effects.llm.scripted import Asked, Script, Write, event, head, message, serving, streaming, text, tool_use
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


def as_codex() -> Script:
    forms: dict[str, Any] = {
        "exec_command": lambda command: {"cmd": command},
        "shell_command": lambda command: {"command": command},
        "shell": lambda command: {"command": ["sh", "-c", command]},
    }

    def item(**fields: Any) -> str:
        return event("response.output_item.done", output_index=0, item=fields)

    async def script(asked: Asked, write: Write) -> None:
        if not asked.path.endswith("/responses"):
            await write(head(404, "application/json", length=2) + b"{}")
            return
        tools = {str(tool.get("name")) for tool in asked.body.get("tools") or ()}
        name = next((name for name in forms if name in tools), "")
        done = sum(str(one.get("type", "")).endswith("call_output") for one in asked.body.get("input", []))
        if name and done < len(COMMANDS):
            given = json.dumps(forms[name](COMMANDS[done]))
            made = item(type="function_call", id=f"f{done}", call_id=f"c{done}", name=name, arguments=given)
        else:
            said = [{"type": "output_text", "text": "done", "annotations": []}]
            made = item(type="message", id="m1", role="assistant", content=said)
        counted = {"input_tokens": 1, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 1}
        counted |= {"output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 2}
        ready = {"id": "r1", "usage": counted, "output": []}
        begun = event("response.created", response={"id": "r1"})
        await streaming(begun, made, event("response.completed", response=ready))(asked, write)

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


async def test_codex_does_what_it_is_allowed_to(codex: str, tmp_path: Path) -> None:
    tmp_path.joinpath("detent.policy.yaml").write_text(LAW)
    home = tmp_path / "home"
    write_hook(tmp_path, "codex", home / ".codex" / "hooks.json")
    async with serving(as_codex()) as server:
        provider = f'{{name="scripted", base_url="{server.url}/v1", wire_api="responses", env_key="OPENAI_API_KEY"}}'
        said = await run(
            tmp_path, codex, "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox",
            "--dangerously-bypass-hook-trust", "-m", "tiny", "-c", "model_provider=scripted",
            "-c", f"model_providers.scripted={provider}", "Write",
            HOME=str(home), OPENAI_API_KEY="sk-scripted-and-worthless",
        )  # fmt: skip
    assert (tmp_path / "ledger").read_text() == "allowed\n", said
    told = json.dumps(server.asked[-1].body)
    assert "denies" in told
    assert "detent approve codex.Bash-" in told
