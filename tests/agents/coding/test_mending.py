"""A job that is about a failing test: understood from how people say it, shown, and held to it."""

import json
from pathlib import Path

import pytest

from detent.agents.coding import known_failure, plan_parser
from detent.agents.coding.check_result import Checked, Evidence, Failing, OnlyHere
from detent.agents.coding.commands.current_job import facts
from detent.agents.coding.plan import write_plan
from tests.agents.coding.world import BAD, GOOD, configured, office, project, worker

IDLE = "calc.write_text(BAD + f'# {attempt}\\n')"
MENDING = "calc.write_text(GOOD if attempt == 2 else BAD + '# not yet\\n')"


@pytest.mark.parametrize(
    ("title", "names"),
    [
        ("Fix the failing test test_add", ("test_add",)),
        ("fix tests/test_calc.py::test_add[1-2]", ("tests/test_calc.py::test_add[1-2]",)),
        ("Make TestCalc.test_add pass", ("TestCalc.test_add",)),
        ("Repair the broken check `adds`", ("adds",)),
        ("Fix the failing tests", ("all",)),
        ("Make all tests pass again", ("all",)),
        ("Get the build green", ("all",)),
        ("修复失败的测试", ("all",)),
        ("修复失败的测试 test_add", ("test_add",)),
        ("Make add() add", ()),
        ("Add a test for the parser", ()),
        ("Add tests/test_new.py", ()),
        ("Fix the typo in the README", ()),
        ("Make the page red", ()),
    ],
)
def test_what_a_title_wants_to_be_mended(title: str, names: tuple[str, ...]) -> None:
    assert known_failure.find_tests_named(title) == names


def test_what_only_the_requirement_wants_mended_is_for_the_last_task() -> None:
    plan = plan_parser.read("# Plan\n\n## Tasks\n\n- [ ] T-001 Read\n- [ ] T-002 Write\n", title="x")
    assert [task.mends for task in known_failure.find_mends(plan, "Fix the failing tests").tasks] == [(), ("all",)]
    assert [task.mends for task in known_failure.find_mends(plan, "Add a page").tasks] == [(), ()]
    named = plan_parser.read("# Plan\n\n## Tasks\n\n- [ ] T-001 Fix the test test_a\n- [ ] T-002 Write\n", title="x")
    assert [task.mends for task in known_failure.find_mends(named, "Fix the failing tests").tasks] == [("test_a",), ()]


@pytest.mark.parametrize(
    ("test", "name", "is_meant"),
    [
        ("tests.test_calc::test_add", "test_add", True),
        ("tests.test_calc::test_add", "tests/test_calc.py::test_add", True),
        ("tests.test_calc::test_add", "tests/test_calc.py", True),
        ("tests.test_calc.TestCalc::test_add[1-2]", "TestCalc.test_add", True),
        ("tests.test_calc.TestCalc::test_add[1-2]", "test_add[1-2]", True),
        ("tests.test_calc.TestCalc::test_add[1-2]", "test_add[3-4]", False),
        ("tests.test_calc::test_add_more", "test_add", False),
        ("example.com/pkg::TestAdd/sub", "TestAdd", True),
        ("adds", "all", True),
        ("adds", "none", False),
        ("adds", "", False),
    ],
)
def test_which_failing_check_a_name_means(test: str, name: str, is_meant: bool) -> None:
    assert known_failure.is_meant(test, [name]) is is_meant


def test_the_line_of_a_plan_is_read_and_written_and_wins_over_the_title() -> None:
    text = "# P\n\n- [ ] T-001 (P0) Fix the failing tests\n  - Mends: `none`\n"
    text += "- [ ] T-002 (P1) x\n  - 修复: adds, doubles\n"
    plan = known_failure.find_mends(plan_parser.read(text))
    assert [task.mends for task in plan.tasks] == [("none",), ("adds", "doubles")]
    assert plan_parser.read(write_plan(plan, {})) == plan


@pytest.mark.parametrize(("body", "outcome", "repairs"), [(IDLE, "", 3), (MENDING, "archived", 0)])
async def test_a_failing_check_that_a_job_is_about_decides(
    body: str, outcome: str, repairs: int, tmp_path: Path
) -> None:
    root = project(tmp_path, BAD)
    seen = tmp_path / "seen"
    look = (
        f"Path({str(seen)!r}).write_text(Path(os.environ['DETENT_FAILURES_FILE']).read_text()) if attempt == 1 else 0"
    )
    async with office(root) as job:
        await job.start(configured(worker(tmp_path, f"{look}\n{body}")), "Fix the failing check `adds`")
        plan = (await job.job()).plan
        assert plan is not None
        assert plan.body.tasks[0].mends == ("adds",)
        await job.confirm()
        found = await job.job()
    assert found.outcome == outcome
    assert found.progress("T-001").repairs == repairs
    assert [fault["test"] for fault in json.loads(seen.read_text())] == ["adds"]  # shown from the beginning
    assert any("to be mended: adds" in note.text for note in found.log)
    if outcome:
        assert (root / "calc.py").read_text() == GOOD
    else:
        assert found.blocked is not None
        assert found.blocked.reason == "attempts"


async def test_a_failing_check_that_nobody_speaks_of_is_told_and_not_held_against_the_job(tmp_path: Path) -> None:
    root = project(tmp_path, BAD)
    async with office(root) as job:
        run = await job.go(configured(worker(tmp_path, IDLE)))
        found = await job.job()
    assert found.outcome == "archived"
    assert facts(found, run)["still_failing"] == ["adds", "doubles"]
    assert any("failing already and not held against the job: adds, doubles" in note.text for note in found.log)
    assert "- fails as before the job: adds" in (root / found.archive / "summary.md").read_text()


async def test_what_one_task_has_mended_must_stay_so(tmp_path: Path) -> None:
    root = project(tmp_path, BAD)
    plan = tmp_path / "plan.md"
    plan.write_text("# P\n\n- [ ] T-001 (P0) One\n  - Mends: `adds`\n- [ ] T-002 (P1) Two\n")
    body = "calc.write_text(GOOD if task == 'T-001' else BAD + f'# {attempt}\\n')"
    async with office(root) as job:
        await job.go(configured(worker(tmp_path, body), plan))
        found = await job.job()
    assert found.progress("T-001").status == "DONE"
    assert found.blocked is not None
    assert found.blocked.task == "T-002"
    assert {fault.test for fault in found.progress("T-002").faults} == {"adds"}


def test_what_passes_only_in_the_users_own_tree_is_not_to_be_mended() -> None:
    failing = tuple(Failing(name, "no") for name in ("t.py::test_a", "t.py::test_local"))
    step = Checked("t", "t", exit=1, failures=failing, failing_ids=tuple(one.test for one in failing))
    baseline = Evidence("tree", "baseline", (step,), only_here=(OnlyHere("t.py::test_local", "files"),))
    assert [fault.test for fault in known_failure.to_mend(baseline, ("all",))] == ["t.py::test_a"]
    assert not known_failure.is_expected(baseline, "t.py::test_local", ("all",))
