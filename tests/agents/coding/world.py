"""A small project in a real git repository, a scripted worker, and a host that drives a coding job on them."""

import hashlib
import json
import os
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from detent.agents.coding.effects import effects
from detent.agents.coding.job import Job, job_of
from detent.agents.coding.machine import CODING
from detent.agents.coding.settings import Settings, settings
from detent.core.run import Run
from detent.effects import builtin
from detent.host.embedded.host import EmbeddedHost

# Two tests as TAP, without the price of a test framework.
CHECK = """\
import runpy, sys
ns = runpy.run_path("calc.py")
cases = {"adds": lambda: ns["add"](2, 3) == 5, "doubles": lambda: ns["double"](4) == 8}
bad = 0
for number, (name, case) in enumerate(cases.items(), 1):
    try:
        ok = case()
    except Exception as error:
        ok = False
        print("#", error)
    bad += not ok
    print(("ok" if ok else "not ok"), number, "-", name)
sys.exit(1 if bad else 0)
"""
GOOD = "def add(a, b):\n    return a + b\n\n\ndef double(a):\n    return add(a, a)\n"
BAD = GOOD.replace("a + b", "a - b")
PLAN = """\
# Mend the calculator

## Goal

add() adds.

## Tasks

- [ ] T-001 (P0) Make add() add
  - Files: `calc.py`
  - Accept: 2 + 3 is 5
"""


def git(root: Path, *argv: str) -> str:
    env = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.invalid", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", *identity, *argv], cwd=root, env=env, capture_output=True, text=True, check=True)
    return done.stdout


def project(folder: Path, source: str = GOOD, *, is_git: bool = True) -> Path:
    """A project with one module and one check."""
    root = folder / "project"
    root.mkdir()
    (root / "calc.py").write_text(source)
    (root / "check.py").write_text(CHECK)
    (root / ".gitignore").write_text("*.log\n__pycache__/\n")
    if is_git:
        git(root, "init", "-q", "-b", "main")
        git(root, "add", "-A")
        git(root, "commit", "-qm", "first")
    return root


def worker(folder: Path, body: str) -> list[str]:
    """A worker that is a Python script outside of the project; `attempt` and `task` are known in it."""
    script = folder / "worker.py"
    head = (
        "import json, os, sys, time\nfrom pathlib import Path\n"
        "attempt, task = int(os.environ['DETENT_ATTEMPT']), os.environ['DETENT_TASK']\n"
        "def say(**result):\n    Path(os.environ['DETENT_RESULT_FILE']).write_text(json.dumps(result))\n"
        f"GOOD, BAD = {GOOD!r}, {BAD!r}\ncalc = Path('calc.py')\n"
    )
    script.write_text(head + body)
    return [sys.executable, str(script)]


def configured(command: list[str], plan: Path | None = None, **given: Any) -> Settings:
    """Settings with that worker and the one check."""
    step = {"name": "tests", "run": [sys.executable, "-B", "check.py"], "parse": "tap", "timeout": 30}
    planner = {"use": "file", "file": str(plan)} if plan else {"use": "single"}
    value = {"worker": {"use": "shell", "command": command}, "verify": [step], "planner": planner, **given}
    return settings(value, "test")


def copy_of(root: Path, run_id: str = "job") -> Path:
    """Where the worker of a job works."""
    return root / ".detent" / "code" / run_id / "tree"


def listing(root: Path) -> dict[str, str]:
    """Every file, mode and link of a work tree, git's and our own folders left out."""
    found = {}
    for path in sorted(root.rglob("*")):
        inner = path.relative_to(root)
        if inner.parts[0] in (".git", ".detent"):
            continue
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            found[str(inner)] = f"link {os.readlink(path)}"
        elif stat.S_ISREG(mode):
            found[str(inner)] = f"{stat.S_IMODE(mode):o} {hashlib.sha256(path.read_bytes()).hexdigest()}"
        else:
            found[str(inner)] = "folder"
    return found


class Office:
    """A host and one job on it."""

    def __init__(self, host: EmbeddedHost, root: Path, run_id: str = "job") -> None:
        self.host, self.root, self.run_id = host, root, run_id

    async def start(self, chosen: Settings, requirement: str = "Mend it") -> Run:
        given = {"root": str(self.root), "settings": json.loads(json.dumps(_plain(chosen)))}
        await self.host.start(CODING, given, run_id=self.run_id, by="kim")
        return await self.say("USER_INPUT_REQUIREMENT", requirement=requirement)

    async def say(self, name: str, **data: Any) -> Run:
        await self.host.signal(self.run_id, name, data, by="kim")
        return await self.host.settled(self.run_id)

    async def confirm(self) -> Run:
        plan = (await self.job()).plan
        assert plan is not None
        return await self.say("USER_CONFIRM", plan=plan.digest)

    async def job(self) -> Job:
        return job_of((await self.host.show(self.run_id)).context)

    async def go(self, chosen: Settings) -> Run:
        await self.start(chosen)
        return await self.confirm()


def _plain(chosen: Settings) -> Any:
    import msgspec

    return msgspec.to_builtins(chosen)


@asynccontextmanager
async def office(root: Path, run_id: str = "job") -> AsyncIterator[Office]:
    """A host in the project's own folder."""
    async with EmbeddedHost(root / ".detent", {**effects(), **builtin()}) as host:
        yield Office(host, root, run_id)
