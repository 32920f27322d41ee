"""The lifecycle on a real repository with a scripted worker: done by evidence, repaired, blocked, and put back."""

import asyncio
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from detent.core.status import Status
from detent.errors import EventRefused
from tests.agents.coding.world import BAD, GOOD, PLAN, configured, copy_of, git, listing, office, project, worker


async def test_a_job_goes_from_requirement_to_archive(tmp_path: Path) -> None:
    root = project(tmp_path, BAD)
    plan = tmp_path / "plan.md"
    plan.write_text(PLAN)
    chosen = configured(worker(tmp_path, "calc.write_text(GOOD)\nsay(status='done', summary='mended')"), plan)
    async with office(root) as job:
        run = await job.start(chosen)
        assert (run.state, run.status) == ("CONFIRMING", Status.WAITING)
        run = await job.confirm()
        assert (run.state, run.status, run.output["outcome"]) == ("IDLE", Status.COMPLETED, "archived")
        done = (await job.job()).progress("T-001")
    assert done.status == "DONE"
    assert done.evidence is not None
    assert done.evidence.tests == 2
    assert (root / run.output["archive"] / "summary.md").read_text().startswith("# Mend the calculator")
    assert (root / "calc.py").read_text() == GOOD


TWO = """\
# Two things

## Tasks

- [ ] T-001 (P0) Make add() add
- [ ] T-002 (P1) Write it down
  - Depends: T-001
"""


async def test_a_bug_is_repaired_on_the_second_attempt(tmp_path: Path) -> None:
    root = project(tmp_path, BAD)
    script = """
if attempt == 1:
    calc.write_text(BAD + "# tried\\n")
else:
    failures = json.load(open(os.environ["DETENT_FAILURES_FILE"]))
    assert failures[0]["test"] == "adds" and "```diff" in sys.stdin.read()
    calc.write_text(GOOD)
"""
    async with office(root) as job:
        # `adds` fails before the job; `strict` says that this is the task's business.
        step = {"name": "tests", "run": [sys.executable, "-B", "check.py"], "parse": "tap", "baseline": "strict"}
        run = await job.go(configured(worker(tmp_path, script), verify=[step]))
        done = (await job.job()).progress("T-001")
    assert run.output["outcome"] == "archived"
    assert (done.status, done.attempts, done.repairs) == ("DONE", 2, 0)


async def test_a_worker_that_never_succeeds_is_blocked_after_exactly_three_repairs(tmp_path: Path) -> None:
    root = project(tmp_path)
    (root / "untracked.txt").write_text("mine")
    (root / "kept.log").write_text("ignored")
    before = listing(root)
    calls = tmp_path / "calls"
    script = f"""
open({str(calls)!r}, "a").write("x")
calc.write_text(BAD + f"# {{attempt}}\\n"); Path("untracked.txt").unlink(missing_ok=True)
Path("new").mkdir(exist_ok=True)
Path("new/f").write_text("x"); os.chmod("check.py", 0o755)
"""
    async with office(root) as job:
        run = await job.go(configured(worker(tmp_path, script)))
        assert (run.state, run.status) == ("BLOCKED", Status.WAITING)
        found = await job.job()
        assert calls.read_text() == "xxxx"  # one try and three repairs
        assert found.blocked is not None
        assert found.blocked.reason == "attempts"
        assert found.progress("T-001").repairs == 3
        report = (root / ".detent/code/job/blocked.md").read_text()
        assert "adds" in report
        assert "detent code rollback" in report
        page = (root / ".detent/code/active_context.md").read_text()
        assert "task_status: BLOCKED" in page
        assert "auto_fix_attempts: 3" in page
        run = await job.say("ROLLBACK")
        assert (run.state, run.ended, run.output["outcome"]) == ("IDLE", Status.COMPLETED, "rolled_back")
        assert listing(root) == before
        undo = (await job.job()).undo
    from detent.agents.coding.workspace import Repository

    repository = await Repository.open(root)
    await repository.rollback(undo)
    assert (root / "calc.py").read_text() == BAD + "# 4\n"


@pytest.mark.parametrize(
    ("script", "settings", "reason"),
    [
        ("say(status='done', summary='all good')", {}, "no_change"),
        ("calc.write_text(BAD if attempt != 2 else BAD + '#')", {}, "oscillation"),
        ("calc.write_text(BAD) if attempt == 1 else None", {}, "no_change"),
        ("calc.write_text(BAD + '#' * attempt)", {"fix": {"same_failure": 2}}, "same_failure"),
        ("calc.write_text(BAD + '#' * attempt)", {"fix": {"attempts": 0}}, "attempts"),
        ("calc.write_text(GOOD + '#'); say(status='question', question='Which?')", {}, "question"),
        ("calc.write_text(GOOD + '#'); say(status='blocked', summary='no')", {}, "worker"),
        ("calc.write_text(GOOD + '#'); time.sleep(60)", {"limits": {"wall_s": 0.5}}, "timeout"),
        ("calc.write_text(GOOD + '#'); Path('check.py').write_text('')", {"protect": ["check.py"]}, "protected_path"),
        ("calc.write_text('#' * 9 + '\\n' + '#\\n' * 99 + GOOD)", {"budget": {"changed_lines": 50}}, "budget"),
        ("calc.write_text(GOOD + '#' * attempt); Path('check.py').write_text('print(\"ok 1\")')", {}, "review"),
    ],
)
async def test_the_breaker_opens(script: str, settings: dict[str, Any], reason: str, tmp_path: Path) -> None:
    root = project(tmp_path)
    before = listing(root)
    async with office(root) as job:
        run = await job.go(configured(worker(tmp_path, script), **settings))
        found = await job.job()
        assert run.state == "BLOCKED"
        assert found.blocked is not None
        assert (found.blocked.reason, found.blocked.task) == (reason, "T-001")
        await job.say("ROLLBACK", run=True)
    assert listing(root) == before


async def test_a_missing_tool_is_the_environments_fault_and_no_attempt(tmp_path: Path) -> None:
    root = project(tmp_path)
    chosen = configured(worker(tmp_path, "calc.write_text(GOOD + '#')"), verify=[{"name": "t", "run": "no-such-tool"}])
    async with office(root) as job:
        run = await job.go(chosen)
        found = await job.job()
    assert run.state == "BLOCKED"
    assert found.blocked is not None
    assert found.blocked.reason == "environment"
    assert "no-such-tool" in found.blocked.detail
    assert found.progress("T-001").attempts == 0


async def test_a_worker_that_cannot_be_started_says_why_and_nothing_is_in_doubt(tmp_path: Path) -> None:
    root = project(tmp_path)
    async with office(root) as here:
        await here.start(configured(worker(tmp_path, "raise SystemExit('never')")))
        attempts = root / ".detent" / "code" / "job" / "attempts"
        attempts.write_text("somebody's file, where a folder should be")
        run = await here.confirm()
        blocked = (await here.job()).blocked
        assert blocked is not None
        assert (run.state, blocked.reason) == ("BLOCKED", "error")
        assert "the worker was not started" in blocked.detail
        assert str(attempts) in blocked.detail


@pytest.mark.parametrize("content", [BAD, GOOD])
async def test_a_worker_that_failed_is_told_from_one_that_was_idle(content: str, tmp_path: Path) -> None:
    root = project(tmp_path, content)
    async with office(root) as job:
        await job.go(configured(worker(tmp_path, "sys.exit('no key was given')")))
        blocked = (await job.job()).blocked
    assert blocked is not None
    assert blocked.reason == "no_change"
    assert blocked.detail.endswith("; the worker's command ended with exit 1")


async def test_what_only_evidence_can_say_cannot_be_said_by_anybody(tmp_path: Path) -> None:
    root = project(tmp_path)
    async with office(root) as job:
        run = await job.go(configured(worker(tmp_path, "pass")))
        assert run.state == "BLOCKED"
        for forged in (
            "ALL_TASKS_DONE",
            "FIX_SUCCESS",
            "TASK_VERIFIED",
            "ARCHIVE_COMPLETE",
            "USER_CANCEL",
            "ROLLBACK_FAILED",
        ):
            with pytest.raises(EventRefused):
                await job.say(forged)
        assert (await job.host.show("job")).state == "BLOCKED"


async def test_a_confirmation_is_bound_to_the_plan_that_was_shown(tmp_path: Path) -> None:
    root = project(tmp_path)
    async with office(root) as job:
        await job.start(configured(worker(tmp_path, "pass")))
        first = (await job.job()).plan
        run = await job.say("USER_MODIFY", wish="Also write a test")
        assert run.state == "CONFIRMING"
        assert first is not None
        with pytest.raises(EventRefused):
            await job.say("USER_CONFIRM", plan=first.digest)
        second = (await job.job()).plan
        assert second is not None
        assert "Also write a test" in second.body.tasks[0].about
        run = await job.say("USER_CANCEL")
        assert (run.state, run.output["outcome"]) == ("IDLE", "cancelled")


async def test_a_person_fixes_it_and_that_counts_only_when_the_checks_say_so(tmp_path: Path) -> None:
    root = project(tmp_path)
    script = "calc.write_text(BAD + f'# {time.time()}')"
    async with office(root) as job:
        await job.go(configured(worker(tmp_path, script)))
        (root / "calc.py").write_text(GOOD + "\n# by hand\n")
        run = await job.say("HUMAN_INTERVENTION", hint="I did it")
        found = await job.job()
    assert run.output["outcome"] == "archived"
    assert found.progress("T-001").attempts == 4  # the worker was not called again
    assert (root / "calc.py").read_text().endswith("# by hand\n")


async def test_a_hint_reaches_the_worker_with_a_fresh_counter(tmp_path: Path) -> None:
    root = project(tmp_path)
    script = "calc.write_text(GOOD + '# plus\\n' if 'use plus' in sys.stdin.read() else BAD + f'# {attempt}')"
    async with office(root) as job:
        run = await job.go(configured(worker(tmp_path, script)))
        assert run.state == "BLOCKED"
        run = await job.say("HUMAN_INTERVENTION", hint="use plus")
        found = await job.job()
    assert run.output["outcome"] == "archived"
    assert found.progress("T-001").attempts == 5


async def test_a_question_is_answered_and_the_work_goes_on(tmp_path: Path) -> None:
    root = project(tmp_path)
    script = """
if "the blue one" in sys.stdin.read():
    calc.write_text(GOOD + "# blue\\n")
else:
    say(status="question", question="Which one?")
"""
    async with office(root) as job:
        await job.go(configured(worker(tmp_path, script)))
        assert (await job.job()).progress("T-001").question == "Which one?"
        run = await job.say("ANSWER", answer="the blue one")
    assert run.output["outcome"] == "archived"


async def test_retry_puts_the_tasks_files_back_first(tmp_path: Path) -> None:
    root = project(tmp_path)
    script = f"""
mark = Path({str(tmp_path / "second")!r})
if mark.exists():
    assert not Path("junk").exists()
    calc.write_text(GOOD + "# again\\n")
else:
    Path("junk").write_text("x"); say(status="blocked", summary="stuck")
"""
    async with office(root) as job:
        await job.go(configured(worker(tmp_path, script)))
        assert (copy_of(root) / "junk").exists()
        (tmp_path / "second").touch()
        run = await job.say("RETRY_TASK")
    assert run.output["outcome"] == "archived"
    assert not (root / "junk").exists()


async def test_a_skipped_task_takes_its_changes_and_its_dependents_along(tmp_path: Path) -> None:
    root = project(tmp_path)
    plan = tmp_path / "plan.md"
    plan.write_text(TWO + "- [ ] T-003 (P2) Something else\n")
    script = "Path(task).write_text('x')\nif task == 'T-001': calc.write_text(BAD); say(status='blocked')"
    async with office(root) as job:
        await job.go(configured(worker(tmp_path, script), plan))
        run = await job.say("SKIP_TASK")
        found = await job.job()
    assert run.output["outcome"] == "archived"
    assert [found.progress(t).status for t in ("T-001", "T-002", "T-003")] == ["SKIPPED", "SKIPPED", "DONE"]
    assert not (root / "T-001").exists()
    assert (root / "T-003").exists()
    assert (root / "calc.py").read_text() == GOOD


async def test_a_budget_can_be_extended(tmp_path: Path) -> None:
    root = project(tmp_path)
    script = "calc.write_text(GOOD + '#\\n' * 80)"
    async with office(root) as job:
        run = await job.go(configured(worker(tmp_path, script), budget={"changed_lines": 50}))
        assert run.state == "BLOCKED"
        run = await job.say("BUDGET_EXTENDED", changed_lines=50)
        assert run.output["outcome"] == "archived"


async def test_a_tasks_own_verify_line_is_strict(tmp_path: Path) -> None:
    root = project(tmp_path, BAD)
    plan = tmp_path / "plan.md"
    plan.write_text(PLAN + f"  - Verify: `{shlex.quote(sys.executable)} -B check.py`\n")
    script = "calc.write_text(GOOD if attempt == 3 else BAD + '#' * attempt)"
    async with office(root) as job:
        run = await job.go(configured(worker(tmp_path, script), plan))
        done = (await job.job()).progress("T-001")
    assert run.output["outcome"] == "archived"
    assert (done.attempts, done.repairs) == (3, 1)


async def test_failures_that_were_there_before_are_not_the_workers(tmp_path: Path) -> None:
    root = project(tmp_path, BAD)
    async with office(root) as job:
        run = await job.go(configured(worker(tmp_path, "Path('notes.txt').write_text('x')")))
        found = await job.job()
    assert run.output["outcome"] == "archived"
    assert found.baseline is not None
    assert found.baseline.failing("tests") == {"adds", "doubles"}


async def test_the_final_verification_is_repaired_like_a_task(tmp_path: Path) -> None:
    root = project(tmp_path)
    final = {
        "name": "final",
        "run": [sys.executable, "-c", "import os; assert not os.path.exists('junk')"],
        "when": "final",
    }
    step = {"name": "tests", "run": [sys.executable, "-B", "check.py"], "parse": "tap"}
    script = "Path('junk').write_text('x') if task == 'T-001' else Path('junk').unlink()"
    async with office(root) as job:
        run = await job.go(configured(worker(tmp_path, script), verify=[step, final]))
        found = await job.job()
    assert run.output["outcome"] == "archived"
    assert found.progress("FINAL").attempts == 1
    assert found.final is not None
    assert [step.name for step in found.final.steps] == ["tests", "final"]


async def test_pausing_begins_nothing_new_and_a_forced_stop_ends_the_worker(tmp_path: Path) -> None:
    root = project(tmp_path)
    plan = tmp_path / "plan.md"
    plan.write_text(TWO)
    began, go = tmp_path / "began", tmp_path / "go"
    script = f"""
Path({str(began)!r}).touch()
while task == "T-001" and not Path({str(go)!r}).exists(): time.sleep(0.01)
Path(task).write_text("x")
while task == "T-002": time.sleep(0.01)
"""
    async with office(root) as job:
        await job.start(configured(worker(tmp_path, script), plan))
        planned = (await job.job()).plan
        assert planned is not None
        await job.host.signal("job", "USER_CONFIRM", {"plan": planned.digest})
        await until(began.exists)
        await job.host.hold("job", by="kim")
        go.touch()
        run = await job.host.settled("job")
        assert run.is_held
        assert (run.state, run.status) == ("EXECUTING", Status.WAITING)
        began.unlink()
        await job.host.release("job", by="kim")
        await until((copy_of(root) / "T-002").exists)
        run = await job.say("FORCE_STOP", reason="enough")
        assert run.state == "BLOCKED"
        found = await job.job()
        assert found.blocked is not None
        assert (found.blocked.reason, found.blocked.detail) == ("stopped", "enough")
        run = await job.say("ROLLBACK")
        assert run.output["outcome"] == "rolled_back"
    assert (root / "T-001").exists()
    assert not (root / "T-002").exists()


async def until(what: Callable[[], bool]) -> None:
    while not what():  # noqa: ASYNC110  # another process makes it so
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("policy", ["none", "branch", "in_place"])
async def test_a_verified_task_is_committed_as_the_policy_says(policy: str, tmp_path: Path) -> None:
    root = project(tmp_path, BAD)
    (root / "mine.txt").write_text("mine, not committed")
    step = {"name": "tests", "run": [sys.executable, "-B", "check.py"], "parse": "tap", "baseline": "strict"}
    async with office(root) as job:
        await job.go(configured(worker(tmp_path, "calc.write_text(GOOD)"), commit=policy, verify=[step]))
        assert (await job.job()).outcome == "archived"
    count = {"none": "1", "branch": "1", "in_place": "2"}[policy]
    assert git(root, "rev-list", "--count", "main").strip() == count
    branches = git(root, "for-each-ref", "--format=%(refname:short)", "refs/heads").split()
    assert branches == (["detent/job", "main"] if policy == "branch" else ["main"])
    if policy != "none":
        name = "detent/job" if policy == "branch" else "main"
        assert git(root, "show", f"{name}:calc.py") == GOOD
        assert git(root, "show", "--name-only", "--format=%s", name).split() == ["T-001:", "Mend", "it", "calc.py"]
    assert "?? mine.txt" in git(root, "status", "--porcelain")
