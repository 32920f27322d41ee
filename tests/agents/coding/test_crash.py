"""kill -9 at journal writes and inside worker, checks, checkpoint and rollback: the job goes on and nothing is lost."""

import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from detent.host.embedded.journal import Journal
from detent.host.embedded.reader import verify
from tests.agents.coding.world import GOOD, configured, listing, project, worker

ROOT = Path(__file__).parents[3]
WRAPPER = """\
#!/bin/sh
left=$(cat '{folder}/git-left' 2>/dev/null || echo 0)
if [ "$left" -gt 0 ]; then
    left=$((left - 1))
    echo "$left" > '{folder}/git-left'
    [ "$left" -eq 0 ] && kill -9 "$PPID"
fi
exec '{git}' "$@"
"""
MENDING = """
with open({calls!r}, "a") as calls: calls.write(f"{{attempt}}\\n")
if Path({folder!r}, "kill-worker").exists():
    Path({folder!r}, "kill-worker").unlink(); calc.write_text("half"); os.kill(os.getppid(), 9); time.sleep(30)
if attempt == 1:
    calc.write_text(BAD + "# tried\\n"); Path("new").mkdir(exist_ok=True); Path("new/é f").write_text("n")
elif {is_mending}:
    calc.write_text(GOOD + "# mended\\n")
else:
    calc.write_text(BAD + f"# {{attempt}}\\n"); Path("gone.txt").unlink(missing_ok=True)
"""
CHECKING = """
import os
if os.path.exists({mark!r}):
    os.unlink({mark!r}); os.kill(os.getppid(), 9); import time; time.sleep(30)
"""


class Case:
    """A random project, a worker, and the deaths of the lives that work on it."""

    def __init__(self, folder: Path, seed: int, is_mending: bool) -> None:
        self.folder, self.random = folder, random.Random(seed)
        self.root = project(folder)
        check = self.root / "check.py"
        check.write_text(CHECKING.format(mark=str(folder / "kill-check")) + check.read_text())
        self._grow()
        self.calls = folder / "calls"
        body = MENDING.format(calls=str(self.calls), folder=str(folder), is_mending=is_mending)
        self.settings = configured(worker(folder, body), fix={"interruptions": 20})
        bin_folder = folder / "bin"
        bin_folder.mkdir()
        wrapper = bin_folder / "git"
        wrapper.write_text(WRAPPER.format(folder=folder, git=shutil.which("git")))
        wrapper.chmod(0o755)
        self.before = listing(self.root)

    def _grow(self) -> None:
        """The user's own files: tracked and edited, untracked, ignored, executable, linked."""
        (self.root / "gone.txt").write_text("still here")
        for number in range(self.random.randrange(1, 6)):
            path = self.root / self.random.choice(["", "a/", "a/b/"]) / f"f {number}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self.random.randbytes(self.random.randrange(200)))
            path.chmod(self.random.choice([0o644, 0o755]))
        (self.root / "x.log").write_text("ignored")
        (self.root / "link").symlink_to(self.random.choice(["calc.py", "nowhere"]))

    def run(self, deaths: list[dict[str, Any]], *, is_rolled_back: bool = False) -> dict[str, Any]:
        script = self.folder / "script.json"
        body = {"root": str(self.root), "folder": str(self.folder), "settings": msgspec.to_builtins(self.settings)}
        script.write_text(json.dumps({**body, "deaths": deaths, "rollback": is_rolled_back}))
        env = {**os.environ, "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}"}
        argv = [sys.executable, "-m", "tests.agents.coding.crash", str(script)]
        done = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        told: dict[str, Any] = json.loads(done.stdout)
        assert "error" not in told, (told, deaths, done.stderr)
        journal = Journal(self.root / ".detent" / "journal.db")
        try:
            assert not verify(journal, "job").problem
        finally:
            journal.close()
        return told

    def check(self, told: dict[str, Any], is_rolled_back: bool = False) -> None:
        """What must hold however often it died."""
        now, progress = listing(self.root), told["context"]["tasks"]["T-001"]
        if is_rolled_back:
            assert told["output"]["outcome"] == "rolled_back", told
            assert now == self.before
        else:
            assert told["output"]["outcome"] == "archived", told["context"].get("blocked")
            assert (self.root / "calc.py").read_text() == GOOD + "# mended\n"
            changed = {"calc.py", "new", "new/é f"}
            assert {k: v for k, v in now.items() if k not in changed} == {
                k: v for k, v in self.before.items() if k not in changed
            }
        # No attempt was made again without being counted: each call beyond the attempts is an interruption.
        calls = self.calls.read_text().split()
        assert len(calls) == progress["attempts"] + progress.get("interruptions", 0)


def deaths_of(rng: random.Random, count: int) -> list[dict[str, Any]]:
    kinds: list[dict[str, Any]] = []
    for _ in range(count):
        kind = rng.choice(["fold", "fold", "git", "git", "kill-worker", "kill-check"])
        value: Any = rng.randrange(1, 14) if kind == "fold" else rng.randrange(1, 90) if kind == "git" else True
        kinds.append({kind: value, "after": rng.random() < 0.5})
    return kinds


@pytest.mark.parametrize("seed", range(4))
def test_a_job_that_is_killed_again_and_again_ends_as_if_nothing_had_happened(seed: int, tmp_path: Path) -> None:
    case = Case(tmp_path, seed, is_mending=True)
    case.check(case.run(deaths_of(case.random, 6)))


@pytest.mark.parametrize("seed", range(10, 13))
def test_a_rollback_that_is_killed_still_brings_everything_back(seed: int, tmp_path: Path) -> None:
    case = Case(tmp_path, seed, is_mending=False)
    # Two deaths anywhere, then several inside the rollback, which is all that is left to do by then.
    deaths = [*deaths_of(case.random, 2), {}, *({"git": case.random.randrange(1, 60)} for _ in range(3))]
    told = case.run(deaths[:2])
    assert told["state"] == "BLOCKED"
    assert told["context"]["blocked"]["reason"] == "attempts"
    assert told["context"]["tasks"]["T-001"]["repairs"] == 3  # exactly, however often it died
    case.check(case.run(deaths[3:], is_rolled_back=True), is_rolled_back=True)


def test_every_journal_write_of_a_short_job_can_be_the_last(tmp_path: Path) -> None:
    """One life per journal write: the n-th life dies at its second write, so the job crawls on write by write."""
    case = Case(tmp_path, 99, is_mending=True)
    deaths = [{"fold": 2 if number % 3 else 3, "after": bool(number % 2)} for number in range(40)]
    told = case.run(deaths)
    assert told["lives"] > 8
    case.check(told)
