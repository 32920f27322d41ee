"""Tasks marked [P] are worked on at once, each in its own copy, and merged in order; what does not fit is told."""

import os
from pathlib import Path

import pytest

from detent.agents.coding import parallel_schedule, plan, plan_parser
from detent.agents.coding.job import Job, Planned, update_task
from detent.agents.coding.plan import Task, TaskPlan
from tests.agents.coding.world import GOOD, configured, git, office, project, worker

PLAN = """\
# Three

## Tasks

- [ ] T-001 (P0) [P] One
- [ ] T-002 (P0) [P] Two
- [ ] T-003 (P1) Three
  - Depends: T-001, T-002
"""
# Each waits until the other has begun: a pipe can only be opened by both ends at once.
MEET = """
def meet():
    import signal
    signal.alarm(30)
    open({pipe!r}, "w" if task == "T-001" else "r").close()
    signal.alarm(0)
"""


def prepare(tmp_path: Path, script: str) -> tuple[Path, list[str], Path]:
    root, pipe, file = project(tmp_path), tmp_path / "pipe", tmp_path / "plan.md"
    os.mkfifo(pipe)
    file.write_text(PLAN)
    return root, worker(tmp_path, MEET.format(pipe=str(pipe)) + script), file


async def test_they_run_at_once_and_are_merged_checked_alone_and_together(tmp_path: Path) -> None:
    script = """
if task == "T-001": meet(); calc.write_text("'''first'''\\n" + GOOD)
elif task == "T-002": meet(); calc.write_text(GOOD + "# second\\n"); Path("two").write_text("2")
else: assert "first" in calc.read_text() and "# second" in calc.read_text(); Path("three").write_text("3")
"""
    root, command, file = prepare(tmp_path, script)
    async with office(root) as here:
        run = await here.go(configured(command, file, commit="branch"))
        job = await here.job()
    assert run.output["outcome"] == "archived", job.blocked
    assert [(one.status, one.attempts) for one in job.tasks.values()][:3] == [("DONE", 1)] * 3
    assert (root / "calc.py").read_text() == "'''first'''\n" + GOOD + "# second\n"
    told = [note.text for note in job.log]
    assert any(text.startswith("T-001 checked alone, beside others") for text in told)
    assert any(text.startswith("T-002 checked alone and together, beside others") for text in told)
    subjects = git(root, "log", "--format=%s", "main..detent/job").split("\n")[:3]
    assert subjects == ["T-003: Three", "T-002: Two", "T-001: One"]
    assert git(root, "diff", "--name-only", "detent/job~1", "detent/job").split() == ["three"]


@pytest.mark.parametrize(
    ("second", "told"),
    [
        (
            "calc.write_text('# two\\n' + GOOD)",
            "does not fit what was merged before it: calc.py; its files are kept as",
        ),
        ("calc.write_text(BAD)", "its checks fail: adds"),
        ("say(status='question', question='which?')", "question: which?"),
    ],
)
async def test_what_cannot_be_merged_is_told_kept_and_done_by_itself(second: str, told: str, tmp_path: Path) -> None:
    script = f"""
if task == "T-001": meet(); calc.write_text("# one\\n" + GOOD)
elif task == "T-002":
    if Path("calc.py").read_text() == GOOD: meet(); {second}
    else: calc.write_text(calc.read_text() + "# two\\n")
else: Path("three").write_text("3")
"""
    root, command, file = prepare(tmp_path, script)
    async with office(root) as here:
        run = await here.go(configured(command, file))
        job = await here.job()
    assert run.output["outcome"] == "archived", job.blocked
    assert any(told in note.text for note in job.log), [note.text for note in job.log]
    assert (root / "calc.py").read_text() == "# one\n" + GOOD + "# two\n"


def test_only_ready_untried_tasks_without_a_common_file_go_together() -> None:
    tasks = (
        Task("T-1", "a", is_parallel=True, files=("src/a.py",)),
        Task("T-2", "b", is_parallel=True, files=("src/*",)),
        Task("T-3", "c"),
        Task("T-4", "d", is_parallel=True, depends=("T-1",)),
        Task("T-5", "e", is_parallel=True, files=("doc",)),
    )
    job = Job(plan=Planned(TaskPlan("p", tasks=tasks), "d"), workspace="tree")
    assert parallel_schedule.list_beside(job, tasks[0]) == ("T-1", "T-5")
    assert parallel_schedule.list_beside(job, tasks[2]) == ()
    done = update_task(update_task(job, "T-1", status="DONE"), "T-5", is_alone=True)
    assert parallel_schedule.list_beside(done, tasks[1]) == ("T-2", "T-4")


def test_the_mark_is_read_and_written() -> None:
    found = plan_parser.read(PLAN)
    assert [task.is_parallel for task in found.tasks] == [True, True, False]
    assert plan_parser.read(plan.write_plan(found, {})).tasks == found.tasks
