"""The plain worker: what it is given, what it may say, and what ends it."""

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from detent.agents.coding import worker_process
from detent.agents.coding.command_worker import CommandWorker
from detent.agents.coding.port import Assignment, AttemptLimits, WorkerReport
from detent.errors import DefinitionError


def assigned(tmp_path: Path, **given: Any) -> Assignment:
    root = tmp_path / "tree"
    root.mkdir(exist_ok=True)
    ready: dict[str, Any] = {
        "run_id": "r1",
        "task_id": "T-001",
        "attempt": 2,
        "root": str(root),
        "key": f"k-{tmp_path}",
    }
    return Assignment(**{**ready, "folder": str(tmp_path / "attempt"), "prompt": "Do it – now.", **given})


async def work(script: str, tmp_path: Path, **given: Any) -> tuple[WorkerReport, list[tuple[str, str]]]:
    heard: list[tuple[str, str]] = []
    worker = CommandWorker([sys.executable, "-c", script])
    report = await worker.work(assigned(tmp_path, **given), lambda stream, line: heard.append((stream, line)))
    return report, heard


async def test_a_worker_is_told_everything_and_can_answer(tmp_path: Path) -> None:
    script = """
import json, os, sys
given = {name: os.environ[name] for name in os.environ if name.startswith("DETENT_")}
given["stdin"] = sys.stdin.read()
given["prompt"] = open(given["DETENT_PROMPT_FILE"], encoding="utf-8").read()
given["failures"] = json.load(open(given["DETENT_FAILURES_FILE"]))
given["cwd"] = os.getcwd()
given["PWD"] = os.environ["PWD"]
json.dump({"status": "question", "question": "Which?", "summary": json.dumps(given)},
          open(given["DETENT_RESULT_FILE"], "w"))
print("one"); print("two", file=sys.stderr)
"""
    report, heard = await work(script, tmp_path, failures=({"step": "tests", "test": "test_a"},))
    given = json.loads(report.summary)
    assert (report.status, report.question, report.exit, report.ended) == ("question", "Which?", 0, "exited")
    assert (given["DETENT_RUN"], given["DETENT_TASK"], given["DETENT_ATTEMPT"]) == ("r1", "T-001", "2")
    assert given["stdin"] == given["prompt"] == "Do it – now."
    assert given["failures"] == [{"step": "tests", "test": "test_a"}]
    assert given["cwd"] == given["PWD"] == str(tmp_path / "tree")
    assert sorted(heard) == [("stderr", "two"), ("stdout", "one")]
    assert Path(report.output_file).read_text().split() == ["one", "two"] or "two" in report.output_tail


@pytest.mark.parametrize("body", ["", "not json", '{"status": "splendid"}', "[1]", '{"status": "done", "summary": 4}'])
async def test_a_result_nobody_can_read_is_no_success(body: str, tmp_path: Path) -> None:
    script = f"import os; open(os.environ['DETENT_RESULT_FILE'], 'w').write({body!r})"
    report, _ = await work(script, tmp_path)
    assert report.status == "unknown"
    assert report.exit == 0
    assert "result file" in report.error


async def test_an_exit_code_says_nothing(tmp_path: Path) -> None:
    report, _ = await work("raise SystemExit(3)", tmp_path)
    assert (report.status, report.exit, report.error) == ("unknown", 3, "")


@pytest.mark.parametrize(
    ("script", "limits", "ended"),
    [
        ("import time; time.sleep(60)", AttemptLimits(wall_s=0.3), "wall"),
        (
            "import time\nwhile True: print('x', flush=True); time.sleep(0.02)",
            AttemptLimits(wall_s=0.4, silence_s=5),
            "wall",
        ),
        ("import time; print('a', flush=True); time.sleep(60)", AttemptLimits(silence_s=0.3), "silence"),
        ("while True: print('x' * 10000)", AttemptLimits(output_bytes=1_000_000), "output"),
    ],
)
async def test_a_limit_ends_an_attempt(script: str, limits: AttemptLimits, ended: str, tmp_path: Path) -> None:
    report, _ = await work(script, tmp_path, limits=limits)
    assert report.ended == ended
    assert report.error
    assert not report.environment
    assert Path(report.output_file).stat().st_size <= 1_000_000
    assert len(report.output_tail) <= worker_process.TAIL_CHARS


async def test_a_program_that_is_not_there_is_the_machines_fault(tmp_path: Path) -> None:
    report = await CommandWorker("no-such-program-here").work(assigned(tmp_path), lambda *_: None)
    assert (report.ended, report.environment) == ("not_started", True)
    assert "no-such-program-here" in report.error


DAEMON = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        while True:
            open("beat", "a").write("x"); time.sleep(0.01)
    os._exit(0)
while not os.path.exists("beat"): time.sleep(0.01)
"""


async def test_no_daemon_outlives_an_attempt(tmp_path: Path) -> None:
    report, _ = await work(DAEMON, tmp_path)
    size = (tmp_path / "tree/beat").stat().st_size
    await asyncio.sleep(0.1)
    assert report.swept >= 1
    assert (tmp_path / "tree/beat").stat().st_size == size


async def test_a_cancelled_attempt_leaves_nobody(tmp_path: Path) -> None:
    going = asyncio.create_task(work(DAEMON + "\ntime.sleep(60)", tmp_path))
    while not (tmp_path / "tree/beat").exists():  # noqa: ASYNC110  # another process makes it
        await asyncio.sleep(0.01)
    going.cancel()
    with pytest.raises(asyncio.CancelledError):
        await going
    size = (tmp_path / "tree/beat").stat().st_size
    await asyncio.sleep(0.1)
    assert (tmp_path / "tree/beat").stat().st_size == size


def test_after_a_crash_the_recorded_process_is_ended_and_nobody_else(tmp_path: Path) -> None:
    assignment = assigned(tmp_path)
    driver = f"""
import asyncio
from detent.agents.coding.command_worker import CommandWorker
from detent.agents.coding.port import Assignment
given = Assignment(run_id="r", task_id="T", attempt=1, root={assignment.root!r}, folder={assignment.folder!r},
                   prompt="", key={assignment.key!r})
script = "import time, os\\nwhile True: open('beat', 'a').write('x'); time.sleep(0.01)"
asyncio.run(CommandWorker([{sys.executable!r}, "-c", script]).work(given, lambda *_: None))
"""
    crashing = subprocess.Popen([sys.executable, "-c", driver])
    beat = Path(assignment.root) / "beat"
    deadline = time.monotonic() + 30
    while not beat.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    crashing.kill()
    crashing.wait()
    folder = Path(assignment.folder)
    assert worker_process.has_begun(folder)
    assert worker_process.sweep(folder, assignment.key) >= 1
    size = beat.stat().st_size
    time.sleep(0.1)
    assert beat.stat().st_size == size
    record = json.loads((folder / worker_process.PROCESS).read_text())
    (folder / worker_process.PROCESS).write_text(
        json.dumps({**record, "pid": os.getpid(), "process": f"{os.getpid()}-1"})
    )
    assert worker_process.sweep(folder, assignment.key) == 0  # the number is ours now, the start time is not


def test_a_command_line_that_is_none_is_refused() -> None:
    commands: list[str | list[str]] = ["", "'unclosed", []]
    for bad in commands:
        with pytest.raises(DefinitionError):
            CommandWorker(bad)
