"""Hostile programs in every place that starts some: shell steps, coding workers, notebook kernels; and Landlock."""

import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from detent.effects import landlock, sandbox
from tests.agents.coding.world import GOOD, configured, office, project, worker
from tests.agents.notebook.studio import code, script, studio
from tests.effects import burglar
from tests.effects.attempt import call

CANNOT = sandbox.find_problem("home")
needs_bubblewrap = pytest.mark.skipif(bool(CANNOT), reason=CANNOT)
SOURCE = Path(burglar.__file__).read_text()


def burglary(home: Path, report: Path) -> str:
    """A program that tries everything, and reports."""
    return (
        "import json\nfrom pathlib import Path\nthings = {}\n"
        f"exec({SOURCE!r}, things)\n"
        f"found = things['burgle'](Path({str(home)!r}), {os.getpid()})\n"
        f"Path({str(report)!r}).write_text(json.dumps(found))\n"
    )


@contextlib.contextmanager
def furnish(home: Path) -> Iterator[None]:
    """A people file and a socket in a home, for a while."""
    people = home / "detent.people.yaml"
    people.write_text("people: {}\n")
    there = os.getcwd()
    os.chdir(home)
    with socket.socket(socket.AF_UNIX) as door:
        with contextlib.suppress(OSError):  # the host may have one there
            door.bind("door")
            door.listen()
        os.chdir(there)
        yield
    people.unlink(missing_ok=True)


def test_without_a_sandbox_the_burglar_gets_at_all_that_is_there(tmp_path: Path) -> None:
    home, report = tmp_path / "home", tmp_path / "report"
    home.mkdir()
    (home / "journal.db").touch()
    with furnish(home):
        subprocess.run([sys.executable, "-c", burglary(home, report)], cwd=tmp_path, check=True)
    found = json.loads(report.read_text())
    assert {"read the journal", "write the journal", "rename the journal", "rename the home"} <= set(found)


@needs_bubblewrap
@pytest.mark.parametrize("level", ["home", "folder"])
async def test_a_shell_step_gets_at_nothing(tmp_path: Path, level: str) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    argv = [sys.executable, "-c", burglary(folder / ".detent", folder / "report")]
    done = await call(folder, "shell", {"argv": argv, "sandbox": level, "cwd": str(folder), "paths": []})
    assert (done.sandbox, done.error) == (level, "")
    assert json.loads((folder / "report").read_text()) == []


@needs_bubblewrap
async def test_a_coding_worker_gets_at_nothing(tmp_path: Path) -> None:
    root, report = project(tmp_path), tmp_path / "report"
    async with office(root) as job:
        with furnish(root / ".detent"):
            script = burglary(root / ".detent", report) + "calc.write_text(GOOD + '# changed\\n')\n"
            await job.go(configured(worker(tmp_path, script)))
    assert json.loads(report.read_text()) == []
    assert (root / "calc.py").read_text() != GOOD


@needs_bubblewrap
async def test_a_worker_that_plans_has_the_sandbox_of_the_settings(tmp_path: Path) -> None:
    root, report = project(tmp_path), tmp_path / "report"
    plan = "say(status='done', plan='# Mend\\n\\n## Tasks\\n\\n- [ ] T-001 (P0) Mend it\\n')\n"
    tell = f"Path({str(report)!r}).write_text(os.environ.get('DETENT_SANDBOX', ''))\n"
    given: dict[str, Any] = {"planner": {"use": "worker"}, "sandbox": {"level": "folder", "write": [str(tmp_path)]}}
    async with office(root) as job:
        await job.start(configured(worker(tmp_path, tell + plan), **given))
    assert report.read_text() == "folder"


@needs_bubblewrap
async def test_a_notebooks_kernel_gets_at_nothing(tmp_path: Path) -> None:
    home, report = tmp_path / ".detent", tmp_path / "report"
    async with studio(tmp_path) as here:
        with furnish(home):
            await here.begin(script(*code(burglary(home, report))))
    assert json.loads(report.read_text()) == []


@pytest.mark.skipif(not landlock.is_able(), reason="this kernel has no Landlock, or one before its third version")
def test_landlocks_launcher_lets_a_program_write_into_its_folders_only(tmp_path: Path) -> None:
    mine, other = tmp_path / "mine", tmp_path / "other"
    mine.mkdir()
    other.mkdir()
    (other / "kept").write_text("kept")
    tries = f"echo x > made; echo x > /dev/null; cd {other}; cat kept; echo x > kept; rm kept; mv kept new; mkdir d"
    argv = [sys.executable, "-I", "-S", landlock.__file__, str(mine), "--", "sh", "-c", f"{tries}; ln {mine}/made l"]
    done = subprocess.run(argv, cwd=mine, capture_output=True, text=True, check=False)
    assert done.stdout == "kept", done.stderr
    assert [path.name for path in other.iterdir()] == ["kept"]
    assert ((other / "kept").read_text(), (mine / "made").read_text()) == ("kept", "x\n")
    sure = subprocess.run([*argv[:4], str(tmp_path / "nowhere"), "--", "true"], capture_output=True, check=False)
    assert sure.returncode  # a folder that is not there: nothing is started
