"""File work and git work of the assistant through MCP servers that others wrote, with `detent chat`."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import yaml

from tests.effects.mcp.test_foreign import BIN, npm

EXAMPLES = Path(__file__).parents[2] / "examples"


def detent(folder: Path, *words: str) -> tuple[int, Any]:
    env = os.environ | {"DETENT_MODEL": "builtin:rules"}
    done = subprocess.run(
        [BIN / "detent", *words, "--json"], cwd=folder, env=env, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def configured(folder: Path, example: str, server: str, command: str, *args: str) -> None:
    """The example's own file, with the program where this machine has it."""
    given = yaml.safe_load((EXAMPLES / example / "detent.mcp.yaml").read_text(encoding="utf-8"))
    given["servers"][server] |= {"command": command, "args": list(args)}
    (folder / "detent.mcp.yaml").write_text(yaml.safe_dump(given), encoding="utf-8")


def test_files_are_written_and_read_without_a_question(tmp_path: Path) -> None:
    node, entry = npm("filesystem")
    configured(tmp_path, "files", "filesystem", node, entry, str(tmp_path))
    path = tmp_path / "hello.txt"
    code, turn = detent(tmp_path, "chat", f'write "good day" to file {path}')
    assert code == 0, turn
    assert path.read_text() == "good day"
    code, turn = detent(tmp_path, "chat", f"read file {path}")
    assert (code, turn["executions"][0]["action_summary"]) == (0, "filesystem.read_text_file")
    assert "good day" in turn["response"]


def test_a_commit_is_asked_about_and_made_once(tmp_path: Path) -> None:
    for words in (["init", "-q"], ["config", "user.name", "Kim"], ["config", "user.email", "kim@example.com"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    (tmp_path / ".gitignore").write_text(".detent\ndetent.mcp.yaml\n")
    configured(tmp_path, "repository", "git", str(BIN / "mcp-server-git"))
    code, turn = detent(tmp_path, "chat", f"git status of {tmp_path}")
    assert (code, turn["executions"][0]["current_status"]) == (0, "completed"), turn
    subprocess.run(["git", "add", ".gitignore"], cwd=tmp_path, check=True)
    code, turn = detent(tmp_path, "chat", f'commit as "first" in {tmp_path}')
    assert code == 3, turn
    assert turn["waiting"][0]["call"]["input"]["message"] == "first"
    assert detent(tmp_path, "approve", turn["run_id"])[0] == 0
    code, turn = detent(tmp_path, "chat", f'commit as "first" in {tmp_path}')
    assert "already done" in turn["response"]
    log = subprocess.run(["git", "log", "--oneline"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert len(log.stdout.splitlines()) == 1
