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
from tests.agents.coding.world import BAD, GOOD, configured, git, listing, project, worker

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
        self.before, self.status = listing(self.root), git(self.root, "status", "--porcelain", "-z")

    def _grow(self) -> None:
        """The user's own files: tracked and edited, staged, untracked, ignored, executable, private, oddly named."""
        (self.root / "gone.txt").write_text("still here")
        for number in range(self.random.randrange(1, 6)):
            odd = self.random.choice(["f ", "-", "é", "new\nline", "'\"`$", "*?[", ":(top)"])
            path = self.root / self.random.choice(["", "a/", "a/b/"]) / f"{odd}{number}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self.random.randbytes(self.random.randrange(200)))
            path.chmod(self.random.choice([0o644, 0o755, 0o600]))
            if self.random.random() < 0.3:
                git(self.root, "--literal-pathspecs", "add", "--", str(path.relative_to(self.root)))
        (self.root / "a" / "empty" / "deep").mkdir(parents=True)
        (self.root / "x.log").write_text("ignored")
        (self.root / "link").symlink_to(self.random.choice(["calc.py", "nowhere"]))

    def script(self, deaths: list[dict[str, Any]], is_rolled_back: bool = False) -> Path:
        script = self.folder / "script.json"
        body = {"root": str(self.root), "folder": str(self.folder), "settings": msgspec.to_builtins(self.settings)}
        script.write_text(json.dumps({**body, "deaths": deaths, "rollback": is_rolled_back}))
        return script

    def run(self, deaths: list[dict[str, Any]], *, is_rolled_back: bool = False) -> dict[str, Any]:
        env = {**os.environ, "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}"}
        (told,) = played([self.script(deaths, is_rolled_back)], env)
        assert "error" not in told, (told, deaths)
        self.check_journal()
        return told

    def check_journal(self) -> None:
        journal = Journal(self.root / ".detent" / "journal.db")
        try:
            assert not verify(journal, "job").problem
        finally:
            journal.close()

    def check(self, told: dict[str, Any], is_rolled_back: bool = False) -> None:
        """What must hold however often it died."""
        now, progress = listing(self.root), told["context"]["tasks"]["T-001"]
        if is_rolled_back:
            assert told["output"]["outcome"] == "rolled_back", told
            assert now == self.before
            assert git(self.root, "status", "--porcelain", "-z") == self.status
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


def played(scripts: list[Path], env: dict[str, str] | None = None) -> list[dict[str, Any]]:
    """What became of each of the jobs."""
    argv = [sys.executable, "-m", "tests.agents.coding.crash", *map(str, scripts)]
    done = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stderr
    told: list[dict[str, Any]] = json.loads(done.stdout)
    return told


def deaths_of(rng: random.Random, count: int) -> list[dict[str, Any]]:
    kinds: list[dict[str, Any]] = []
    for _ in range(count):
        kind = rng.choice(["fold", "fold", "git", "git", "kill-worker", "kill-check"])
        value: Any = rng.randrange(1, 14) if kind == "fold" else rng.randrange(1, 90) if kind == "git" else True
        kinds.append({kind: value, "after": rng.random() < 0.5})
    return kinds


@pytest.mark.parametrize("seed", range(3))
def test_a_job_that_is_killed_again_and_again_ends_as_if_nothing_had_happened(seed: int, tmp_path: Path) -> None:
    case = Case(tmp_path, seed, is_mending=True)
    case.check(case.run(deaths_of(case.random, 6)))


@pytest.mark.parametrize("seed", range(10, 12))
def test_a_rollback_that_is_killed_still_brings_everything_back(seed: int, tmp_path: Path) -> None:
    case = Case(tmp_path, seed, is_mending=False)
    # Two deaths anywhere, then several inside the rollback, which is all that is left to do by then.
    deaths = [*deaths_of(case.random, 2), {}, *({"git": case.random.randrange(1, 60)} for _ in range(3))]
    told = case.run(deaths[:2])
    assert told["state"] == "BLOCKED"
    assert told["context"]["blocked"]["reason"] == "attempts"
    assert told["context"]["tasks"]["T-001"]["repairs"] == 3  # exactly, however often it died
    case.check(case.run(deaths[3:], is_rolled_back=True), is_rolled_back=True)


# A job as cheap as can be: wrong at first, mended by a repair; or never mended, blocked and rolled back.
SMALL_WORKER = """\
#!/bin/sh
echo "$DETENT_ATTEMPT" >> '{folder}/calls'
if [ "$DETENT_ATTEMPT" = 2 ] && [ {is_mending} = True ]; then printf '{good}# mended\\n' > calc.py
else echo "# $DETENT_ATTEMPT" >> calc.py; rm -f gone.txt; fi
"""


class SmallCase(Case):
    """The same laws for a project of a few files whose worker and check are no Python."""

    def __init__(self, folder: Path, is_mending: bool) -> None:
        folder.mkdir()
        self.folder, self.random, self.root = folder, random.Random(1), folder / "project"
        self.root.mkdir()
        (self.root / "calc.py").write_text(BAD)
        (self.root / ".gitignore").write_text("*.log\n")
        git(self.root, "init", "-q", "-b", "main")
        self._grow()
        self.calls = folder / "calls"
        script = folder / "worker.sh"
        good = GOOD.replace("\n", "\\n")
        script.write_text(SMALL_WORKER.format(folder=folder, is_mending=is_mending, good=good))
        script.chmod(0o755)
        step = {"name": "tests", "run": ["grep", "-q", "a + b", "calc.py"], "baseline": "strict"}
        fix = {"attempts": 3 if is_mending else 0, "interruptions": 20}
        self.settings = configured([str(script)], verify=[step], fix=fix)
        self.before, self.status = listing(self.root), git(self.root, "status", "--porcelain", "-z")

    def check(self, told: dict[str, Any], is_rolled_back: bool = False) -> None:
        self.check_journal()
        if not is_rolled_back:  # the repair works on what the first attempt has left
            self.before.pop("gone.txt", None)
        super().check(told, is_rolled_back)


@pytest.mark.limit(500)
@pytest.mark.parametrize("is_mending", [True, False])
def test_every_journal_write_can_be_the_last_one_of_a_process(is_mending: bool, tmp_path: Path) -> None:
    """One job for each write: killed before it is on disk, and the next life killed when its first write just is."""
    whole, part = SmallCase(tmp_path / "whole", is_mending), SmallCase(tmp_path / "part", is_mending)
    told, blocked = played([whole.script([], not is_mending), part.script([])])
    whole.check(told, not is_mending)
    first = 1 if is_mending else blocked["writes"]  # the way to the block is that of the other story
    points = range(first, told["writes"] + 1)
    cases = [SmallCase(tmp_path / f"{number}", is_mending) for number in points]
    scripts = [
        case.script([{"fold": number, "after": False}, {"fold": 1, "after": True}], not is_mending)
        for case, number in zip(cases, points, strict=True)
    ]
    for case, number, told in zip(cases, points, played(scripts), strict=True):
        assert "error" not in told, (told, number)
        assert told["lives"] == 3 or (told["lives"] == 2 and number == points[-1]), (number, told["lives"])
        case.check(told, not is_mending)
