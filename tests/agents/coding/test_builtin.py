"""The built-in worker: a scripted model on loopback, a real work tree, and a model that means harm."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from detent.agents.coding import model_worker, worker_registry
from detent.agents.coding.port import Assignment, AttemptLimits, WorkerReport
from detent.agents.coding.settings import CheckStep, WorkerSettings, settings
from detent.agents.coding.toolbox import NotAllowed, Toolbox, Tree
from detent.errors import DefinitionError
from tests.agents.coding.world import BAD, office, project
from tests.effects.llm.scripted import (
    DONE,
    Asked,
    Script,
    Server,
    Write,
    chunk,
    refusing,
    said,
    serving,
    streaming,
    usage,
)

CHECK = {
    "name": "tests",
    "run": [sys.executable, "-B", "check.py"],
    "parse": "tap",
    "timeout": 30,
    "baseline": "strict",
}


def calling(*calls: tuple[str, dict[str, Any]], prompt: int = 10) -> Script:
    """An answer that asks for tools."""
    wanted = [
        {
            "index": at,
            "id": f"c{at}-{name}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(given)},
        }
        for at, (name, given) in enumerate(calls)
    ]
    return streaming(chunk({"tool_calls": wanted}), chunk({}, "tool_calls"), usage(prompt, 5), DONE)


def assigned(tmp_path: Path, root: Path, **given: Any) -> Assignment:
    ready: dict[str, Any] = {"run_id": "r", "task_id": "T-001", "attempt": 1, "root": str(root), "prompt": "Mend add()"}
    return Assignment(**ready | {"folder": str(tmp_path / "attempt"), "key": f"k{tmp_path}"} | given)


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DETENT_MODEL", "DETENT_BASE_URL", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "DETENT_PRICES"):
        monkeypatch.delenv(name, raising=False)


def point(server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DETENT_BASE_URL", f"{server.url}/v1")
    prices = tmp_path / "prices.json"
    prices.write_text('{"default": {"input": 1000, "output": 0}}')  # ten tokens are a cent
    monkeypatch.setenv("DETENT_PRICES", str(prices))


async def work(assignment: Assignment, **options: Any) -> tuple[WorkerReport, list[tuple[str, str]]]:
    heard: list[tuple[str, str]] = []
    worker = worker_registry.hire(WorkerSettings("builtin", options=options))
    return await worker.work(assignment, lambda stream, line: heard.append((stream, line))), heard


async def test_a_bug_is_mended_and_verified_end_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = project(tmp_path, BAD)
    script = (
        calling(("list_files", {}), ("search", {"text": "a - b"})),
        calling(("read_file", {"path": "calc.py"})),
        calling(("edit_file", {"path": "calc.py", "old": "a - b", "new": "a + b"}), ("run_check", {"name": "tests"})),
        calling(("finish", {"status": "done", "summary": "add() adds"})),
    )
    async with serving(*script) as server:
        point(server, monkeypatch, tmp_path)
        async with office(root) as job:
            run = await job.go(settings({"worker": {"use": "builtin"}, "verify": [CHECK]}, "test"))
            found = await job.job()
            assert run.output["outcome"] == "archived", found.blocked
    assert "a + b" in (root / "calc.py").read_text()
    answers = [m["content"] for asked in server.asked[-1:] for m in asked.body["messages"] if m["role"] == "tool"]
    assert answers[0].splitlines()[-2:] == ["calc.py", "check.py"]
    assert answers[1] == "calc.py:2:     return a - b"
    assert answers[4].startswith("passed; 2 tests passed")
    progress = found.progress("T-001")
    assert (progress.summary, progress.status) == ("add() adds", "DONE")
    assert round(found.spent.cost_usd, 4) == 0.04
    assert found.spent.tokens == 60


async def test_the_next_attempt_goes_on_with_the_conversation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = project(tmp_path, BAD)
    async with serving(calling(("finish", {"status": "done"}))) as server:
        point(server, monkeypatch, tmp_path)
        first, _ = await work(assigned(tmp_path, root))
        again = assigned(tmp_path, root, prompt="Still red", session=first.session, folder=str(tmp_path / "second"))
        await work(again)
    words = [message["content"] for message in server.asked[1].body["messages"] if message["role"] == "user"]
    assert words == ["Mend add()", "Still red"]


async def test_turns_cost_and_time_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = project(tmp_path)
    async with serving(calling(("list_files", {}))) as server:
        point(server, monkeypatch, tmp_path)
        report, _ = await work(assigned(tmp_path, root), turns=3)
        assert (report.status, len(server.asked)) == ("unknown", 3)
        assert "3 turns" in report.error
        report, _ = await work(assigned(tmp_path, root, limits=AttemptLimits(cost_usd=0.015)))
        assert (report.ended, report.cost_usd) == ("cost", 0.02)

    async def never(_asked: Asked, _write: Write) -> None:
        await asyncio.sleep(30)

    async with serving(never) as server:
        point(server, monkeypatch, tmp_path)
        report, _ = await work(assigned(tmp_path, root, limits=AttemptLimits(wall_s=0.3)))
        assert report.ended == "wall"


async def test_a_bound_in_dollars_blocks_where_the_price_is_not_known_and_goes_on_when_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = project(tmp_path, BAD)
    look = calling(("list_files", {}))
    mend = calling(("edit_file", {"path": "calc.py", "old": "a - b", "new": "a + b"}))
    async with serving(look, mend, calling(("finish", {"status": "done", "summary": "it adds"}))) as server:
        monkeypatch.setenv("DETENT_BASE_URL", f"{server.url}/v1")
        async with office(root) as job:
            chosen = {"worker": {"use": "builtin"}, "verify": [CHECK], "budget": {"cost_usd": 2}}
            run = await job.go(settings(chosen, "test"))
            found = await job.job()
            assert (run.state, found.blocked and found.blocked.reason) == ("BLOCKED", "budget")
            assert found.blocked is not None
            assert "the cost of 1 call to a model is not known, so 2 USD cannot be kept" in found.blocked.detail
            assert (len(server.asked), found.spent.unpriced_calls, run.usage["unpriced_calls"]) == (1, 1, 1.0)
            point(server, monkeypatch, tmp_path)
            run = await job.say("BUDGET_EXTENDED", cost_usd=1)
            found = await job.job()
            assert run.output["outcome"] == "archived", found.blocked
            assert round(found.spent.cost_usd, 4) == 0.02


async def test_a_model_that_cannot_be_asked_is_the_machines_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = project(tmp_path)
    busy = refusing(503, {"error": {"message": "busy"}}, "retry-after: 0")
    async with serving(busy, calling(("finish", {"status": "blocked", "summary": "no"}))) as server:
        point(server, monkeypatch, tmp_path)
        report, _ = await work(assigned(tmp_path, root))
        assert (report.status, len(server.asked)) == ("blocked", 2)
    async with serving(refusing(401, {"error": {"message": "who are you"}})) as server:
        point(server, monkeypatch, tmp_path)
        report, _ = await work(assigned(tmp_path, root))
        assert report.environment
        assert "401" in report.error


async def test_without_a_model_it_says_how_to_get_one(tmp_path: Path) -> None:
    report, _ = await work(assigned(tmp_path, tmp_path))
    assert (report.ended, report.environment) == ("not_started", True)
    assert "DETENT_MODEL" in report.error


async def test_a_planner_reads_and_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = project(tmp_path)
    tries = calling(("write_file", {"path": "calc.py", "content": ""}), ("finish", {"status": "done"}))
    async with serving(tries, said("# The plan")) as server:
        point(server, monkeypatch, tmp_path)
        report, _ = await work(assigned(tmp_path, root, role="plan"))
    assert report.plan == "# The plan"
    assert {tool["function"]["name"] for tool in server.asked[0].body["tools"]} == {"list_files", "read_file", "search"}
    assert [m["content"] for m in server.asked[1].body["messages"] if m["role"] == "tool"] == [
        "there is no tool `write_file` here",
        "there is no tool `finish` here",
    ]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = project(tmp_path)
    (tmp_path / "secret").write_text("secret")
    (root / "out").symlink_to(tmp_path)
    (root / "link").symlink_to(tmp_path / "secret")
    (root / "inner").symlink_to(root / "calc.py")
    os.mkfifo(root / "pipe")
    return root


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd", "../secret", "a/../../secret", "out/secret", "link", "inner", "pipe", ".git/config",
        ".GIT/config", ".detent/journal.db", "sub/.git/hooks/x", "", ".", "a\0b", "~/../../x/..", "calc.py/x",
    ],
)  # fmt: skip
async def test_no_path_leads_out(path: str, tree: Path, tmp_path: Path) -> None:
    box = Toolbox(assigned(tmp_path, tree), lambda *_: None)
    for name, more in (("read_file", {}), ("write_file", {"content": "x"}), ("delete_file", {})):
        answer = await box.use(name, {"path": path, **more})
        assert answer.startswith("refused:"), (name, answer)
    assert (tmp_path / "secret").read_text() == "secret"
    assert (tree / "inner").is_symlink()
    assert "secret" not in await box.use("search", {"text": "secret"})


async def test_protected_files_are_left_alone_unless_the_task_names_them(tree: Path, tmp_path: Path) -> None:
    box = Toolbox(assigned(tmp_path, tree, protected=("*.yaml", "check.py"), changeable=("a.yaml",)), lambda *_: None)
    assert "protected" in await box.use("write_file", {"path": "b.yaml", "content": ""})
    assert "protected" in await box.use("edit_file", {"path": "check.py", "old": "import runpy", "new": ""})
    assert await box.use("write_file", {"path": "a.yaml", "content": "x"}) == "done"


async def test_only_the_projects_own_checks_are_run(tree: Path, tmp_path: Path) -> None:
    step = CheckStep("tests", [sys.executable, "-B", "check.py"], parse="tap")
    box = Toolbox(assigned(tmp_path, tree, checks=(step,)), lambda *_: None)
    assert (await box.use("run_check", {"name": "tests; rm -rf /"})).startswith("refused:")
    assert (await box.use("run_check", {"name": "tests"})).startswith("passed")
    assert await box.use("shell", {"command": "id"}) == "there is no tool `shell` here"


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("edit_file", {"path": "calc.py", "old": "return", "new": ""}),
        ("edit_file", {"path": "calc.py", "old": "nowhere", "new": ""}),
        ("edit_file", {"path": "calc.py", "old": "", "new": "x"}),
        ("edit_file", {"path": 3, "old": "a", "new": "b"}),
        ("read_file", {"path": "calc.py", "start": "one"}),
        ("write_file", {"path": "big", "content": "x" * 2_000_000}),
        ("search", {"text": ""}),
    ],
)
async def test_a_call_that_makes_no_sense_changes_nothing(
    name: str, given: dict[str, Any], tree: Path, tmp_path: Path
) -> None:
    before = (tree / "calc.py").read_bytes()
    assert (await Toolbox(assigned(tmp_path, tree), lambda *_: None).use(name, given)).startswith("refused:")
    assert (tree / "calc.py").read_bytes() == before
    assert not (tree / "big").exists()


def test_writing_keeps_modes_and_lets_go_of_hard_links(tree: Path, tmp_path: Path) -> None:
    os.link(tmp_path / "secret", tree / "hard")
    (tree / "calc.py").chmod(0o755)
    files = Tree(str(tree))
    files.write("hard", b"mine")
    files.write("calc.py", b"x = 1\n")
    files.write("new/deep/file.txt", b"new")
    assert (tmp_path / "secret").read_text() == "secret"
    assert (tree / "calc.py").stat().st_mode & 0o777 == 0o755
    with pytest.raises(NotAllowed):
        files.write("x/../../y", b"")


def test_settings_it_cannot_follow_are_refused() -> None:
    for bad in (WorkerSettings("builtin", command="x"), WorkerSettings("builtin", options={"turns": 0})):
        with pytest.raises(DefinitionError):
            model_worker.hire(bad)
