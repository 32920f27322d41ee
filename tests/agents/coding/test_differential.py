"""Would the tests notice? New tests on the old source, tests that need the user's own tree, two results of one tree."""

import sys
from pathlib import Path

import msgspec
import pytest

from detent.agents.coding.check_result import Evidence
from detent.agents.coding.settings import CheckStep
from detent.agents.coding.test_sensitivity import TestDoubts
from detent.effects.sandbox import find_problem
from tests.agents.coding.test_dishonest import RIGHT, choose, make_project
from tests.agents.coding.world import configured, git, office, project, worker

needs_sandbox = pytest.mark.skipif(bool(find_problem("folder")), reason=find_problem("folder"))
FEATURE = "calc.write_text(RIGHT + '\\n\\ndef triple(a):\\n    return a * 3\\n')\n"
TEST = "Path('tests/test_triple.py').write_text('import calc\\n\\n\\ndef test_triple():\\n    assert calc{}\\n')\n"
REAL, EMPTY = TEST.format(".triple(2) == 6"), TEST.format("")


@pytest.mark.parametrize(
    ("empty", "vouching", "mutants", "alive", "is_weak"),
    [
        ((), (), 0, (), False),  # nothing was to be tried
        (("t",), (), 0, (), True),  # the only new test passes without the change
        (("t",), ("u",), 0, (), False),
        (("t",), (), 3, ("m",), False),  # others notice wrong changes
        ((), ("u",), 3, ("m", "n"), True),
    ],
)
def test_what_other_source_says_about_tests(
    empty: tuple[str, ...], vouching: tuple[str, ...], mutants: int, alive: tuple[str, ...], is_weak: bool
) -> None:
    assert TestDoubts(empty, vouching, mutants, alive).is_weak is is_weak


def test_a_change_of_which_nothing_could_be_tried_is_not_vouched_for() -> None:
    assert TestDoubts(vouching=("u",), is_silent=True).is_weak
    assert not TestDoubts(vouching=("u",), mutants=1, is_silent=True).is_weak
    assert TestDoubts(vouching=("u",), mutants=3, aside=("a.py:3",)).is_weak


async def verify_feature(folder: Path, script: str) -> Evidence:
    root = make_project(folder)
    (root / "calc.py").write_text(RIGHT)
    git(root, "commit", "-qam", "good")
    chosen = choose(folder, FEATURE + script)
    (folder / "plan.md").write_text("# F\n\n## Tasks\n\n- [ ] T-001 (P0) Add triple()\n")
    async with office(root) as here:
        await here.go(chosen)
        found = (await here.job()).final
    assert found is not None
    return found


@needs_sandbox
async def test_a_new_test_counts_if_it_fails_with_the_old_source(tmp_path: Path) -> None:
    found = await verify_feature(tmp_path, REAL)
    assert found.word == "verified"
    assert not any("old source" in note for note in found.notes)


@needs_sandbox
async def test_a_new_test_that_passes_with_the_old_source_is_named_and_vouches_for_nothing(tmp_path: Path) -> None:
    found = await verify_feature(tmp_path, EMPTY)
    assert found.word == "checked"
    assert any(note.endswith("count for nothing: tests/test_triple.py::test_triple") for note in found.notes)


ONLY_HERE = """\
import json, os, pathlib


def test_with_a_file():
    assert json.loads(pathlib.Path("local.json").read_text()) == {}


def test_with_a_variable():
    assert os.environ["SERVICE_TOKEN"] == "here"
"""


@needs_sandbox
async def test_what_passes_only_in_the_users_tree_is_named_asked_about_and_not_held_against_the_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVICE_TOKEN", "here")
    root = make_project(tmp_path)
    (root / "tests" / "test_local.py").write_text(ONLY_HERE)
    (root / ".gitignore").write_text("local.json\n__pycache__/\n")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "needs more")
    (root / "local.json").write_text("{}")
    async with office(root) as here:
        await here.start(choose(tmp_path, "calc.write_text(RIGHT)"))
        plan = (await here.job()).plan
        assert plan is not None
        run = await here.say("USER_CONFIRM", plan=plan.digest, attended=True)
        job = await here.job()
        assert (run.state, job.blocked and job.blocked.reason) == ("BLOCKED", "only_here")
        assert job.baseline is not None
        needs = {one.test.rpartition("::")[2]: (one.needs, one.files) for one in job.baseline.only_here}
        assert needs == {"test_with_a_file": ("files", ("local.json",)), "test_with_a_variable": ("services", ())}
        assert job.tasks["T-001"].attempts == 0
        run = await here.say("HUMAN_INTERVENTION", include=["local.json"], services=["SERVICE_TOKEN"])
        job = await here.job()
        assert job.baseline is not None
        assert [test for step in job.baseline.steps for test in step.failing_ids] == ["tests/test_calc.py::test_add"]
        assert run.state == "ARCHIVING"  # somebody is there, so the change is shown before it lands
        assert job.final is not None
        assert job.final.word == "verified"


async def test_two_results_of_the_same_tree_are_told(tmp_path: Path) -> None:
    root = project(tmp_path)
    count = tmp_path / "count"
    code = f"import sys; p={str(count)!r}; n=int(open(p).read() or 0); open(p,'w').write(str(n+1)); sys.exit(n % 2)"
    count.write_text("0")
    step = {"name": "sometimes", "run": [sys.executable, "-c", code]}
    given = configured(
        worker(tmp_path, "calc.write_text(GOOD + '#')"), verify=[step], rerun_flaky=True, sandbox={"level": "off"}
    )
    async with office(root) as here:
        await here.go(given)
        job = await here.job()
    assert job.final is not None, job.blocked
    assert job.final.word == "checked"
    assert "flaky (same tree, two results): sometimes: sometimes" in job.final.notes


@needs_sandbox
@pytest.mark.parametrize(("code", "word"), [("import sys; sys.exit('a.py:1: old')", "verified"), ("1 / 0", "checked")])
async def test_what_a_linter_said_before_takes_the_word_only_if_it_does_not_name_it(
    tmp_path: Path, code: str, word: str
) -> None:
    chosen = choose(tmp_path, "calc.write_text(RIGHT)")
    (tmp_path / "plan.md").write_text("# M\n\n## Tasks\n\n- [ ] T-001 (P0) Make add() add\n  - Mends: `test_add`\n")
    lint = CheckStep("lint", [sys.executable, "-c", code])
    async with office(make_project(tmp_path)) as here:
        await here.go(msgspec.structs.replace(chosen, verify=[lint, *chosen.verify], mutants=0))
        job = await here.job()
    assert job.final is not None, job.blocked
    assert job.final.word == word


@needs_sandbox
async def test_a_test_whose_change_was_approved_is_listed_if_it_fails_as_it_was(tmp_path: Path) -> None:
    script = """
calc.write_text(RIGHT.replace('def sub(a, b):\\n    return a - b', 'def sub(a, b):\\n    return b - a'))
tests.write_text(tests.read_text().replace('== 3', '== -3'))
"""
    async with office(make_project(tmp_path)) as here:
        await here.go(choose(tmp_path, script))
        job = await here.job()
        found = job.progress("T-001").evidence
        assert found is not None, job.blocked
        assert [item.path for item in found.review] == ["tests/test_calc.py"], (job.blocked, found)
        assert found.review[0].why == "changed: a test (1 of 2 assertions gone or changed, 1 new)"
        await here.say("HUMAN_INTERVENTION", approve=[found.review[0].name])
        final = (await here.job()).final
    assert final is not None
    assert final.word == "verified"
    told = "as they were, these tests fail; their change was approved: tests/test_calc.py::test_sub"
    assert told in final.notes


@needs_sandbox
async def test_a_project_that_is_not_installed_is_told_so_before_a_worker_is_paid(tmp_path: Path) -> None:
    files = {"src/own/__init__.py": "", "tests/test_calc.py": "import own\n\n\ndef test_own():\n    assert own\n"}
    root = make_project(tmp_path, {**files, "pyproject.toml": ""})
    async with office(root) as here:
        await here.go(choose(tmp_path, "calc.write_text(RIGHT)"))
        job = await here.job()
    assert job.blocked is not None
    assert job.blocked.reason == "environment"
    assert "`own` is not installed for this Python" in job.blocked.detail
    assert not job.tasks or job.tasks["T-001"].attempts == 0


@needs_sandbox
async def test_another_release_that_is_installed_is_not_taken_for_the_project(tmp_path: Path) -> None:
    tests = "import iniconfig\n\n\ndef test_it():\n    assert iniconfig.IniConfig\n"  # pytest's Python has one
    root = make_project(tmp_path, {"src/iniconfig/__init__.py": "IniConfig = 1\n", "tests/test_calc.py": tests})
    async with office(root) as here:
        run = await here.go(choose(tmp_path, "Path('src/iniconfig/more.py').write_text('x = 1')"))
        job = await here.job()
    assert run.state == "BLOCKED"
    assert job.blocked is not None
    assert job.blocked.reason == "environment"
    assert "not the project's own" in job.blocked.detail
    assert not any(one.attempts for one in job.tasks.values())
