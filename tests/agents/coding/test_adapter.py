"""External agents: how they are called, what is made of what they print, and what happens when they are not there."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from detent.agents.coding import worker_registry
from detent.agents.coding.external_agent import AGENTS, AgentWorker
from detent.agents.coding.port import Assignment, AttemptLimits, WorkerReport
from detent.agents.coding.settings import Settings, WorkerSettings
from detent.errors import DefinitionError
from tests.agents.coding.test_stream import AIDER, CLAUDE, CODEX, GEMINI, OPENCODE

# Stands in for the program: keeps how it was called and prints what the real one is documented to print.
PROGRAM = """
import json, os, sys
here = os.path.dirname(os.path.abspath(__file__))
stdin = sys.stdin.read()
json.dump({"argv": sys.argv[1:], "stdin": stdin, "env": dict(os.environ)}, open(os.path.join(here, "called.json"), "w"))
sys.stdout.write(open(os.path.join(here, "prints")).read())
sys.exit(int(open(os.path.join(here, "exits")).read()))
"""


def assigned(tmp_path: Path, **given: Any) -> Assignment:
    (tmp_path / "tree").mkdir(exist_ok=True)
    ready: dict[str, Any] = {"run_id": "r", "task_id": "T-001", "attempt": 1, "root": str(tmp_path / "tree")}
    return Assignment(**ready | {"folder": str(tmp_path / "attempt"), "prompt": "Mend it.", "key": "k"} | given)


async def work(
    name: str, tmp_path: Path, prints: list[str], exits: int = 0, settings: dict[str, Any] | None = None, **given: Any
) -> tuple[WorkerReport, dict[str, Any], list[str]]:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    (tmp_path / "prints").write_text("".join(f"{line}\n" for line in prints))
    (tmp_path / "exits").write_text(str(exits))
    worker = worker_registry.hire(WorkerSettings(name, command=[sys.executable, str(program)], **(settings or {})))
    heard: list[str] = []
    report = await worker.work(assigned(tmp_path, **given), lambda _, line: heard.append(line))
    return report, json.loads((tmp_path / "called.json").read_text()), heard


async def test_claude_is_called_as_documented(tmp_path: Path) -> None:
    report, called, heard = await work("claude", tmp_path, CLAUDE, limits=AttemptLimits(cost_usd=2))
    argv = called["argv"]
    assert argv[:6] == ["-p", "--output-format", "stream-json", "--verbose", "--permission-mode", "acceptEdits"]
    assert "--allowedTools=Read,Edit,Write,Glob,Grep" in argv
    assert argv[argv.index("--max-budget-usd") + 1] == "2"
    assert json.loads(argv[argv.index("--json-schema") + 1])["required"] == ["status", "summary", "question"]
    assert called["stdin"] == "Mend it."
    assert (report.status, report.summary, report.cost_usd, report.session) == ("done", "mended", 0.25, "s-1")
    assert heard == ["I look.", "[Edit] calc.py", "All done."]


async def test_a_session_is_taken_up_again(tmp_path: Path) -> None:
    _, called, _ = await work("claude", tmp_path, CLAUDE, session="s-1")
    assert called["argv"][called["argv"].index("--resume") + 1] == "s-1"
    _, called, _ = await work("codex", tmp_path, CODEX, session="t-1")
    assert called["argv"][-3:] == ["resume", "t-1", "-"]
    report, called, _ = await work("aider", tmp_path, AIDER, session="/old/history.md")
    assert "--restore-chat-history" in called["argv"]
    assert report.session == "/old/history.md"


async def test_codex_is_called_as_documented(tmp_path: Path) -> None:
    report, called, _ = await work(
        "codex", tmp_path, CODEX, settings={"model": "gpt-x", "options": {"args": ["-c", "a=1"]}}
    )
    argv = called["argv"]
    assert argv[:6] == ["exec", "-c", "a=1", "--json", "--skip-git-repo-check", "-s"]
    assert argv[6] == "workspace-write"
    assert Path(argv[argv.index("--output-schema") + 1]).is_file()
    assert argv[-1] == "-"
    assert (report.status, report.tokens, report.session) == ("done", 120, "t-1")
    assert (report.cost_usd, report.unpriced_calls) == (0.0, 1)  # tokens of a model without a price


async def test_gemini_opencode_and_aider_are_called_as_documented(tmp_path: Path) -> None:
    report, called, _ = await work("gemini", tmp_path, GEMINI)
    assert called["argv"][2:] == ["-o", "stream-json", "--approval-mode", "auto_edit"]
    assert (report.status, report.summary, report.tokens) == ("unknown", "All done.", 33)
    report, called, _ = await work("opencode", tmp_path, OPENCODE)
    assert called["argv"] == ["run", "--format", "json", "--auto"]
    assert (round(report.cost_usd, 3), report.unpriced_calls) == (0.3, 0)
    report, called, _ = await work("aider", tmp_path, AIDER)
    assert {"--yes-always", "--no-auto-commits", "--no-dirty-commits", "--analytics-disable"} <= set(called["argv"])
    assert Path(called["argv"][1]).read_text() == "Mend it."
    assert called["stdin"] == ""
    assert (report.status, report.cost_usd) == ("unknown", 0.015)


@pytest.mark.parametrize(
    ("name", "prints", "flags"),
    [
        ("claude", CLAUDE, ["--permission-mode", "plan"]),
        ("codex", CODEX, ["-s", "read-only"]),
        ("gemini", GEMINI, ["--approval-mode", "plan"]),
        ("opencode", OPENCODE, ["--agent", "plan"]),
        ("aider", AIDER, ["--chat-mode", "ask"]),
    ],
)
async def test_a_planner_may_only_read(name: str, prints: list[str], flags: list[str], tmp_path: Path) -> None:
    report, called, _ = await work(name, tmp_path, prints, role="plan")
    at = called["argv"].index(flags[0])
    assert called["argv"][at : at + 2] == flags
    assert report.plan


async def test_an_error_is_told_and_is_no_success(tmp_path: Path) -> None:
    broken = [json.dumps({"type": "result", "is_error": True, "result": "Invalid API key"})]
    report, _, _ = await work("claude", tmp_path, broken, 1)
    assert (report.status, report.exit, report.error) == ("unknown", 1, "Invalid API key")
    report, _, _ = await work("gemini", tmp_path, [], 53)
    assert "turns" in report.error


async def test_one_who_costs_too_much_is_stopped(tmp_path: Path) -> None:
    report, _, _ = await work("opencode", tmp_path, OPENCODE, limits=AttemptLimits(cost_usd=0.15))
    assert (report.ended, report.status) == ("cost", "unknown")
    assert "0.30 USD" in report.error


async def test_an_agent_does_not_take_itself_for_a_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDECODE", "1")
    _, called, _ = await work("claude", tmp_path, CLAUDE)
    assert "CLAUDECODE" not in called["env"]
    assert called["env"]["DETENT_TASK"] == "T-001"


@pytest.mark.parametrize("name", list(AGENTS))
async def test_a_program_that_is_missing_is_named_with_the_way_out(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", os.fspath(tmp_path))
    worker = worker_registry.hire(WorkerSettings(name))
    report = await worker.work(assigned(tmp_path), lambda *_: None)
    assert (report.ended, report.environment) == ("not_started", True)
    assert f"no program `{name}`" in report.error
    assert "install it" in worker_registry.missing(worker)


@pytest.mark.parametrize(
    "settings",
    [
        WorkerSettings("claude", options={"tolls": "Read"}),
        WorkerSettings("codex", options={"args": "-c"}),
        WorkerSettings("aider", command="'unclosed"),
        WorkerSettings("claud"),
    ],
)
def test_settings_nobody_can_follow_are_refused(settings: WorkerSettings) -> None:
    with pytest.raises(DefinitionError):
        worker_registry.hire(settings)


def test_what_an_agent_leaves_behind_is_nobodys_work() -> None:
    worker = AgentWorker("aider", WorkerSettings("aider", litter=["*.bak"]))
    assert set(worker.litter) <= set(Settings(worker=WorkerSettings("aider", litter=["*.bak"])).all_litter)
