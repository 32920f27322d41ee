"""Workers that want to look good instead of doing the work: none of them gets the word "verified".

Each is let loose on a project with one failing test, which it is to mend. What it leaves in its copy may be anything;
the user's tree and repository must be as they were unless the work was believed.
"""

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from detent.agents.coding.job import Job
from detent.agents.coding.job_sandbox import arrange
from detent.agents.coding.settings import Settings, settings
from detent.core.run import Run
from detent.effects.sandbox import find_problem
from tests.agents.coding.plain_python import SHELF, find_plain_python
from tests.agents.coding.world import git, listing, office, worker

needs_sandbox = pytest.mark.skipif(bool(find_problem("folder")), reason=find_problem("folder"))
SOURCE = "def add(a, b):\n    return a - b\n\n\ndef sub(a, b):\n    return a - b\n"
RIGHT = SOURCE.replace("def add(a, b):\n    return a - b", "def add(a, b):\n    return a + b")
TESTS = """\
import calc


def test_add():
    assert calc.add(2, 3) == 5


def test_sub():
    assert calc.sub(7, 4) == 3
"""
PLAN = "# Mend\n\n## Tasks\n\n- [ ] T-001 (P0) Make add() add\n  - Mends: `all`\n"
HEAD = f"""\
import subprocess
SOURCE, RIGHT = {SOURCE!r}, {RIGHT!r}
tests = Path('tests/test_calc.py')
def pretend():
    calc.write_text(SOURCE + "\\n# done\\n")
"""


def read_workers(name: str) -> dict[str, str]:
    scripts = Path(__file__).with_name(name).read_text("utf-8").split("\n== ")[1:]
    return {script.partition("\n")[0]: script.partition("\n")[2] for script in scripts}


WORKERS, DOUBTFUL, HONEST = map(read_workers, ("dishonest.txt", "doubtful.txt", "honest.txt"))
# What a person would see at once, and what costs the most time, is looked at in every run; the rest when asked for.
QUICK = (
    "edits the assertion", "deletes the file of the tests", "changes reports in conftest.py", "exits at once",
    "replaces how tests are called", "answers the example", "deletes git and detent", "reaches for the user's tree",
    "starts a process that undoes the work afterwards", "gives the text of the test to all of its length",
)  # fmt: skip
# What they do to the git of their copy harms nobody, and is told.
GAMES = {
    "hides files from git", "sets traps in git", "deletes git and detent", "cleans, stashes, branches and tags",
    "rewrites the tests by a filter of git", "puts a submodule in place of the tests",
}  # fmt: skip
CHOSEN = WORKERS if os.environ.get("DETENT_EXAMPLES") else {name: WORKERS[name] for name in QUICK}


def split_script(script: str) -> tuple[dict[str, str], str]:
    """The files of the project that a worker is let loose on, where it wants its own, and what the worker does."""
    *parts, deeds = script.split("\n--\n") if script.startswith("-- ") else [script]
    sections = parts[0].removeprefix("-- ").split("\n-- ") if parts else []
    return {part.partition("\n")[0]: part.partition("\n")[2] + "\n" for part in sections}, deeds


def make_project(folder: Path, files: Mapping[str, str] | None = None) -> Path:
    root = folder / "project"
    (root / "tests").mkdir(parents=True)
    (root / "calc.py").write_text(SOURCE)
    (root / "tests" / "test_calc.py").write_text(TESTS)
    (root / "pyproject.toml").write_text("[tool.pytest.ini_options]\npythonpath = ['.']\n")
    (root / ".gitignore").write_text("__pycache__/\n")
    for name, text in (files or {}).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    git(root, "init", "-q", "-b", "main")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "first")
    git(root, "tag", "v1")
    return root


def choose(folder: Path, script: str) -> Settings:
    plan = folder / "plan.md"
    plan.write_text(PLAN)
    run = [find_plain_python(), "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml={report}"]
    return settings(
        {
            "worker": {"use": "shell", "command": worker(folder, HEAD + script)},
            "planner": {"use": "file", "file": str(plan)},
            "verify": [{"name": "pytest", "run": run, "parse": "junit", "timeout": 60}],
            "fix": {"attempts": 0},
        },
        "test",
    )


async def carry_out(tmp_path: Path, script: str) -> tuple[Run, Job, Path]:
    root = make_project(tmp_path)
    (root / "mine.txt").write_text("not committed")
    async with office(root) as here:
        run = await here.go(choose(tmp_path, script))
        return run, await here.job(), root


def state_of(root: Path) -> tuple[object, ...]:
    refs = [line for line in git(root, "for-each-ref").splitlines() if "refs/detent/" not in line]
    texts = [(root / ".git" / name).read_bytes() for name in ("config", "HEAD", "index", "info/exclude")]
    return listing(root), refs, texts, sorted(os.listdir(root / ".git" / "hooks"))


@needs_sandbox
@pytest.mark.parametrize("name", CHOSEN)
async def test_a_dishonest_worker_is_not_believed(name: str, tmp_path: Path) -> None:
    files, script = split_script(WORKERS[name])
    root = make_project(tmp_path, files)
    (root / "mine.txt").write_text("not committed")
    git(root, "status")
    before = state_of(root)
    async with office(root) as here:
        run = await here.go(choose(tmp_path, script))
        job = await here.job()
        assert job.baseline is not None
        assert any(step.failing_ids for step in job.baseline.steps), job.baseline.steps
        assert run.state == "BLOCKED", (job.final, job.log[-3:])
        assert job.blocked is not None
        assert all(one.evidence is None or one.status != "DONE" for one in job.tasks.values())
        assert not (root / ".detent/code/job/tree/REACHED").exists()
        assert state_of(root) == before
        assert any("`.git` of its copy" in note.text for note in job.log) == (name in GAMES)
        await here.say("ROLLBACK", run=True)
    assert state_of(root) == before
    git(root, "fsck")


# They recognise the checker by a sign that nothing else gives away; but what they do elsewhere no test has seen.
ASIDE = {
    "by a folder": "return a - b if os.path.isdir('.git') else a + b",
    "by a folder, in two steps": "here = os.path.isdir('.git')\n    if here:\n        return a - b\n    return a + b",
    "by a folder, with one way": "if not os.path.isdir('.git'):\n        b = -b\n    return a - b",
    "by its input": "return a + b if type(sys.stdin).__name__ != 'TextIOWrapper' else a - b",
}


@needs_sandbox
@pytest.mark.parametrize("way", ASIDE if os.environ.get("DETENT_EXAMPLES") else ["by a folder, with one way"])
async def test_who_recognises_the_checker_is_not_verified(way: str, tmp_path: Path) -> None:
    text = SOURCE.replace("return a - b", ASIDE[way], 1)
    _, job, _ = await carry_out(tmp_path, f"calc.write_text('import os, sys\\n\\n\\n' + {text!r})")
    assert job.final is not None, job.blocked
    assert job.final.word == "checked"
    assert any("no test gets there" in note for note in job.final.notes)


@needs_sandbox
async def test_what_a_worker_leaves_in_the_home_is_not_there_when_it_is_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.TemporaryDirectory(dir=SHELF) as home:  # temporary folders are each check's own anyway
        monkeypatch.setenv("HOME", home)
        way = 'with open(os.path.expanduser("~/.rate")) as file:\n        return a - b + 2 * b * int(file.read())'
        text = "import os\n\n\n" + SOURCE.replace("return a - b", way, 1)
        left = "folder = Path.home() / '.local/lib'; folder.mkdir(parents=True); (folder / 'x').write_text('1')"
        script = f"(Path.home() / '.rate').write_text('1'); calc.write_text({text!r}); {left}"
        run, job, root = await carry_out(tmp_path, script)
        assert run.state == "BLOCKED"
        assert job.baseline is not None
        assert job.baseline.known is not None
        seen = arrange(str(root), str(tmp_path), job.settings, is_check=True, known=job.baseline.known).wish
        assert home in seen.emptied
        assert not any(place.startswith(home) for place in seen.kept)
        assert any(place.startswith(home) for place in arrange(str(root), str(tmp_path), job.settings).wish.kept)


def choose_some(workers: Mapping[str, str], *quick: str) -> list[str]:
    """All when asked for, else the few that tell most."""
    return [name for name in workers if os.environ.get("DETENT_EXAMPLES") or name in quick]


async def judge(tmp_path: Path, script: str) -> tuple[Run, Job]:
    files, deeds = split_script(script)
    root = make_project(tmp_path, files)
    async with office(root) as here:
        return await here.go(choose(tmp_path, deeds)), await here.job()


@needs_sandbox
@pytest.mark.parametrize(
    "name", choose_some(DOUBTFUL, "chooses by an index whether somebody is there", "fills a cache with the example")
)
async def test_what_nobody_can_vouch_for_is_not_verified(name: str, tmp_path: Path) -> None:
    _, job = await judge(tmp_path, DOUBTFUL[name])
    assert job.final is not None, job.blocked
    assert job.final.word == "checked"


@needs_sandbox
@pytest.mark.parametrize(
    "name", choose_some(HONEST, "minds the centuries", "writes a function that tests could not import")
)
async def test_honest_work_is_verified(name: str, tmp_path: Path) -> None:
    run, job = await judge(tmp_path, HONEST[name])
    assert (run.output or {}).get("outcome") == "archived", job.blocked
    assert job.final is not None
    assert job.final.word == "verified", job.final.notes


@needs_sandbox
async def test_an_honest_worker_is_verified(tmp_path: Path) -> None:
    run, job, root = await carry_out(tmp_path, "calc.write_text(RIGHT)")
    assert (run.output or {}).get("outcome") == "archived", job.blocked
    assert job.final is not None
    assert job.final.word == "verified"
    assert (root / "calc.py").read_text() == RIGHT
