"""Real projects from the package index: a bug is put in, and their own tests decide what became of it."""

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.agents.coding.world import configured, git, listing, office, worker
from tests.effort import TIMES

WHEEL = "wheel==0.43.0"  # setup.py projects need it to say what they are called


class Project(NamedTuple):
    """A project, a line of it, the bug that takes its place, and the tests that notice."""

    pin: str
    file: str
    line: str
    bug: str
    tests: str


PROJECTS = [  # a package with its tests in it, and a single module; another package where more examples are wanted
    Project("toolz==0.12.0", "toolz/itertoolz.py", "    next(seq)\n    return next(seq)", "    return next(seq)",
            "toolz/tests/test_itertoolz.py"),
    Project("parse==1.19.0", "parse.py", "sign = -1", "sign = 1", "test_parse.py"),
    Project("wcwidth==0.2.6", "wcwidth/wcwidth.py", "width += wcw", "width = wcw", "tests/test_core.py"),
]  # fmt: skip


@pytest.fixture(scope="module")
def shelf() -> Path:
    """The source archives, fetched once for all test runs on this machine."""
    found = Path(tempfile.gettempdir()) / f"detent-sdists-{os.getuid()}"
    wanted = [p.pin for p in PROJECTS if not list(found.glob(f"{p.pin.replace('==', '-')}.tar.gz"))]
    if wanted:
        pip = [
            sys.executable,
            "-m",
            "pip",
            "--disable-pip-version-check",
            "--quiet",
            "--retries",
            "1",
            "--timeout",
            "20",
        ]
        argv = ["download", "--no-deps", "--no-build-isolation", "--no-binary", ":all:", "--dest", str(found), *wanted]
        env = os.environ | {"PYTHONPATH": str(found / "builder")}
        for command in (["install", "--target", str(found / "builder"), WHEEL], argv):
            try:
                done = subprocess.run(
                    [*pip, *command], env=env, capture_output=True, text=True, timeout=90, check=False
                )
            except subprocess.TimeoutExpired:
                pytest.skip("the package index did not answer in time")
            if done.returncode:
                pytest.skip(f"the package index cannot be reached: {done.stderr.strip().splitlines()[-1:]}")
    return found


def unpacked(project: Project, shelf: Path, folder: Path) -> Path:
    with tarfile.open(shelf / f"{project.pin.replace('==', '-')}.tar.gz") as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", lambda member, _: member)  # there since 3.11.4
        for member in archive.getmembers():  # without it, what root unpacks would belong to whoever packed it
            member.uid, member.gid, member.uname, member.gname = os.getuid(), os.getgid(), "", ""
        archive.extractall(folder)  # noqa: S202  # what is on our own shelf
    root = folder / "project"
    shutil.move(folder / project.pin.replace("==", "-"), root)
    git(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "as published")
    path = root / project.file
    text = path.read_text()
    assert project.line in text
    path.write_text(text.replace(project.line, project.bug))
    return root


@pytest.mark.parametrize("project", PROJECTS if TIMES > 1 else PROJECTS[:2], ids=lambda project: project.pin)
async def test_a_bug_in_a_real_project(project: Project, shelf: Path, tmp_path: Path) -> None:
    root = unpacked(project, shelf, tmp_path)
    before = listing(root)
    # Our own environment's plugins would cost more than these projects' tests.
    run = [
        "env",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD=1",
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-o",
        "addopts=",
        "--junitxml={report}",
    ]
    step = {"name": "pytest", "run": [*run, project.tests], "parse": "junit", "baseline": "strict"}
    repairs = f"""
path = Path({project.file!r})
text = path.read_text()
if attempt == 1:
    path.write_text(text + "\\n# looked at it\\n")
else:
    path.write_text(text.replace({project.bug!r}, {project.line!r}, 1).replace("\\n# looked at it\\n", ""))
"""
    async with office(root, "never") as job:
        fails = worker(
            tmp_path, f"path = Path({project.file!r}); path.write_text(path.read_text() + f'\\n# {{attempt}}')"
        )
        ended = await job.go(configured(fails, verify=[step]))
        found = await job.job()
        assert (ended.state, found.progress("T-001").repairs) == ("BLOCKED", 3)
        assert found.progress("T-001").faults[0].test
        ended = await job.say("ROLLBACK")
        assert ended.output["outcome"] == "rolled_back"
        assert listing(root) == before
    async with office(root, "mended") as job:
        ended = await job.go(configured(worker(tmp_path, repairs), verify=[step]))
        found = await job.job()
        assert ended.output["outcome"] == "archived", found.blocked
        done = found.progress("T-001")
        assert (done.attempts, done.changed) == (2, (project.file,))
        assert done.evidence is not None
        assert done.evidence.tests > 5
    assert project.line in (root / project.file).read_text()
