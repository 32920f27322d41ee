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
from detent.host.parts.replay import verify
from tests.agents.coding.world import BAD, GOOD, configured, git, listing, project, worker

ROOT = Path(__file__).parents[3]
# Counts its calls, and in one of them kills the life it works for, whoever stands between the two. Two that are called
# at once never have the same number: each makes a file of its own, which must be new (`set -C`).
COUNTING = """\
#!/bin/sh
{{ read -r dies < '{folder}/{name}-dies'; }} 2>/dev/null || dies=0
if [ "$dies" -gt 0 ]; then
    number=1
    set -C
    while [ "$number" -le "$dies" ] && ! {{ true > '{folder}/{name}-calls/'"$number"; }} 2>/dev/null; do
        number=$((number + 1))
    done
    set +C
    if [ "$number" -eq "$dies" ]; then {deed} kill -9 "$(cat '{folder}/life')"; {then} fi
fi
"""
HANG = "sleep 30;"  # until the supervisor misses us
MORTAL = """
def mortal(name, deed=None):
    dies = int(Path({folder!r}, name + "-dies").read_text())
    for number in range(1, dies + 1):
        try:
            Path({folder!r}, name + "-calls", str(number)).touch(exist_ok=False)
        except FileExistsError:
            continue
        break
    else:
        return
    if number == dies:
        deed and deed()
        os.kill(int(Path({folder!r}, "life").read_text()), 9)
        time.sleep(30)
"""
MENDING = """
with open({calls!r}, "a") as calls: calls.write(f"{{attempt}}\\n")
mortal("worker", lambda: calc.write_text("half"))
if attempt == 1:
    calc.write_text(BAD + "# tried\\n"); Path("new").mkdir(exist_ok=True); Path("new/é f").write_text("n")
elif {is_mending}:
    calc.write_text(GOOD + "# mended\\n")
else:
    calc.write_text(BAD + f"# {{attempt}}\\n"); Path("gone.txt").unlink(missing_ok=True)
"""


class Case:
    """A random project, a worker, and the deaths of the lives that work on it."""

    def __init__(self, folder: Path, seed: int, is_mending: bool) -> None:
        self.folder, self.random = folder, random.Random(seed)
        self.root = project(folder)
        check = self.root / "check.py"
        head = "import os, time\nfrom pathlib import Path\n" + MORTAL.format(folder=str(folder))
        check.write_text(f'{head}mortal("check")\n{check.read_text()}')
        self._edit()
        self._grow()
        self.calls = folder / "calls"
        body = MORTAL.format(folder=str(folder)) + MENDING.format(calls=str(self.calls), is_mending=is_mending)
        # What kills its life must see it: in a sandbox a process may see none but its own.
        self.settings = configured(worker(folder, body), fix={"interruptions": 20}, sandbox={"level": "off"})
        bin_folder = folder / "bin"
        bin_folder.mkdir()
        wrapper = bin_folder / "git"
        counting = COUNTING.format(folder=folder, name="git", deed="", then="")
        wrapper.write_text(f"{counting}exec '{shutil.which('git')}' \"$@\"\n")  # which then works on without us
        wrapper.chmod(0o755)
        self.before, self.status = listing(self.root), git(self.root, "status", "--porcelain", "-z")

    def _edit(self) -> None:
        """What the user has not committed yet: edits, a new mode, a file gone, one only gone from the index."""
        names = ["kept.txt", "ed it.sh", "dropped.txt", "unknown.txt"]
        for name in names:
            (self.root / name).write_text(f"{name}\r\n" * 3)
        git(self.root, "add", "--", *names)
        git(self.root, "commit", "-qm", "second")
        (self.root / "kept.txt").write_text("edited\n")
        (self.root / "ed it.sh").chmod(0o755)
        (self.root / "dropped.txt").unlink()
        git(self.root, "rm", "-q", "--cached", "unknown.txt")

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
        kind = rng.choice(["fold", "fold", "git", "git", "worker", "check"])
        value = rng.randrange(1, {"fold": 14, "git": 90}.get(kind, 3))
        kinds.append({kind: value, "after": rng.random() < 0.5})
    return kinds


@pytest.mark.parametrize("seed", range(2))
def test_a_job_that_is_killed_again_and_again_ends_as_if_nothing_had_happened(seed: int, tmp_path: Path) -> None:
    case = Case(tmp_path, seed, is_mending=True)
    told = case.run(deaths_of(case.random, 6))
    assert told["lives"] > 2, "it hardly died"
    case.check(told)


@pytest.mark.parametrize("seed", [10])
def test_a_rollback_that_is_killed_still_brings_everything_back(seed: int, tmp_path: Path) -> None:
    case = Case(tmp_path, seed, is_mending=False)
    # Two deaths anywhere, then several inside the rollback, which is all that is left to do by then.
    deaths = [*deaths_of(case.random, 2), {}, *({"git": case.random.randrange(1, 25)} for _ in range(3))]
    told = case.run(deaths[:2])
    assert told["state"] == "BLOCKED"
    assert told["context"]["blocked"]["reason"] == "attempts"
    assert told["context"]["tasks"]["T-001"]["repairs"] == 3  # exactly, however often it died
    told = case.run(deaths[3:], is_rolled_back=True)
    assert told["lives"] > 1, "it did not die"
    case.check(told, is_rolled_back=True)


def test_in_place_what_steers_git_is_put_back_after_a_kill_as_well(tmp_path: Path) -> None:
    case = SmallCase(tmp_path / "case", is_mending=True)
    config, hooks = case.root / ".git" / "config", case.root / ".git" / "hooks"
    git(case.root, "commit", "-qm", "first", "--allow-empty")
    was = config.read_bytes(), sorted(hooks.iterdir())
    deed = "git config core.fsmonitor evil; git tag evil; echo evil > .git/hooks/post-checkout;"
    good = GOOD.replace("\n", "\\n")
    case.make_mortal("worker", deed, SMALL_WORKER.format(folder=case.folder, is_mending=True, good=good))
    workspace = msgspec.structs.replace(case.settings.workspace, use="in_place")
    case.settings = msgspec.structs.replace(case.settings, workspace=workspace)
    told = case.run([{"worker": 1}])
    assert (config.read_bytes(), sorted(hooks.iterdir())) == was
    assert git(case.root, "tag") == ""
    assert any("they were put back" in note["text"] for note in told["context"]["log"])


# A job as cheap as can be: wrong at first, mended by a repair; or never mended, blocked and rolled back.
SMALL_WORKER = """\
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
        good = GOOD.replace("\n", "\\n")
        body = SMALL_WORKER.format(folder=folder, is_mending=is_mending, good=good)
        half = f"echo $DETENT_ATTEMPT >> '{self.calls}'; echo half > calc.py; rm -f link;"
        command = self.make_mortal("worker", half, body)
        step = {"name": "tests", "run": self.make_mortal("check", "", "grep -q 'a + b' calc.py"), "baseline": "strict"}
        fix = {"attempts": 3 if is_mending else 0, "interruptions": 20}
        self.settings = configured(command, verify=[step], fix=fix, sandbox={"level": "off"})
        self.before, self.status = listing(self.root), git(self.root, "status", "--porcelain", "-z")

    def make_mortal(self, name: str, deed: str, body: str) -> list[str]:
        """A script that kills its life at the n-th call."""
        script = self.folder / f"{name}.sh"
        script.write_text(COUNTING.format(folder=self.folder, name=name, deed=deed, then=HANG) + body + "\n")
        script.chmod(0o755)
        return [str(script)]

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


@pytest.mark.parametrize("where", ["worker", "check"])
def test_every_worker_and_every_check_can_be_the_last_of_a_process(where: str, tmp_path: Path) -> None:
    """Each call in turn kills the process it works for, half done: the next life counts it and goes on."""
    calls = range(1, 3 if where == "worker" else 5)  # two attempts; the checks before and after each, and one too many
    cases = [SmallCase(tmp_path / f"{number}", is_mending=True) for number in calls]
    scripts = [case.script([{where: number}]) for case, number in zip(cases, calls, strict=True)]
    lives = []
    for case, told in zip(cases, played(scripts), strict=True):
        case.check(told)
        lives.append(told["lives"])
        if where == "worker":
            assert told["context"]["tasks"]["T-001"]["interruptions"] == 1
    assert lives == [2] * (len(calls) - (where == "check")) + [1] * (where == "check"), lives


class BesideCase(SmallCase):
    """Two tasks that are worked on at once, each of which writes a file."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, is_mending=False)
        (self.root / "calc.py").write_text(GOOD)
        plan = folder / "plan.md"
        plan.write_text("# P\n\n## Tasks\n\n- [ ] T-001 (P0) [P] One\n- [ ] T-002 (P0) [P] Two\n")
        step = {"name": "tests", "run": self.make_mortal("check", "", "grep -q 'a + b' calc.py")}
        command = self.make_mortal("worker", "echo half > half;", 'echo "$DETENT_TASK" > "made-$DETENT_TASK"')
        self.settings = configured(command, plan, verify=[step], fix={"interruptions": 20}, sandbox={"level": "off"})
        self.before = listing(self.root)


def test_tasks_that_are_worked_on_at_once_survive_every_death(tmp_path: Path) -> None:
    deaths = [
        *({"worker": n} for n in (1, 2)),
        *({"check": n} for n in (1, 3)),
        {"fold": 9},
        {"fold": 12, "after": True},
    ]
    cases = [BesideCase(tmp_path / f"{number}") for number in range(len(deaths))]
    scripts = [case.script([death]) for case, death in zip(cases, deaths, strict=True)]
    for case, death, told in zip(cases, deaths, played(scripts), strict=True):
        assert (told["lives"], (told.get("output") or {}).get("outcome")) == (2, "archived"), (death, told)
        made = {f"made-{task}": listing(case.root)[f"made-{task}"] for task in ("T-001", "T-002")}
        assert listing(case.root) == {**case.before, **made}, death
        case.check_journal()
