"""kill -9 in the middle of a rollback: asked for once more, it arrives, and what it began from is not lost."""

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from detent.effects.git import Repository
from tests.effects.git import world
from tests.effects.git.world import git, init, write

KILLS = int(os.environ.get("DETENT_GIT_KILLS", "5"))
FILES = 300
PROGRAM = """
import asyncio, sys
from detent.effects.git import Repository

async def main():
    repository = await Repository.open(sys.argv[1])
    print("begin", flush=True)
    await (repository.rollback(sys.argv[2]) if sys.argv[2] else repository.checkpoint("r1"))

asyncio.run(main())
"""


def project(root: Path) -> None:
    init(root)
    for number in range(FILES):
        write(root, f"f{number % 7}/{number}", f"{number}\n" * 40)
    write(root, ".gitignore", "*.log\n")
    world.commit(root)
    write(root, "f1/untracked", "u", 0o600)
    write(root, "f2/kept.log", "ignored")
    git(root, "rm", "-q", "--cached", "f3/3")
    (root / "empty").mkdir()


def rage(root: Path, word: str) -> None:
    for number in range(0, FILES, 2):
        write(root, f"f{number % 7}/{number}", word * 50)
    for number in range(1, FILES, 5):
        (root / f"f{number % 7}/{number}").unlink(missing_ok=True)
        write(root, f"w{number % 3}/{number}", word)
    write(root, ".gitignore", "*.log\n*.tmp\n")
    write(root, "hidden.tmp", word)
    (root / "empty").rmdir()
    git(root, "add", "-A")
    git(root, "commit", "-qm", word)
    git(root, "checkout", "-q", "-B", f"w-{word}")


def interrupted(root: Path, name: str, wait_s: float) -> bool:
    """Begin in another process and kill that with its gits; whether it was still at work."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    child = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(root), name], stdout=subprocess.PIPE, env=env, start_new_session=True
    )
    with child:
        assert child.stdout is not None
        child.stdout.readline()
        time.sleep(wait_s)
        is_at_work = child.poll() is None
        gits = [int(pid) for pid in children(child.pid)]
        for pid in (child.pid, *gits):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        child.wait()
    return is_at_work


def children(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []


@pytest.mark.limit(120)
@pytest.mark.skipif(sys.platform != "linux", reason="finds the children of a process in /proc")
async def test_a_killed_rollback_is_simply_asked_for_again(tmp_path: Path) -> None:
    root = tmp_path / "project"
    project(root)
    repository = await Repository.open(root)
    before = world.picture(root), world.standing(root)
    taken = await repository.checkpoint("r1")
    rage(root, "first")
    begin = time.perf_counter()
    await repository.rollback(taken)
    whole_s = time.perf_counter() - begin
    chance, hits = random.Random(os.urandom(4)), 0
    for number in range(KILLS):
        rage(root, f"rage{number}")
        raged = world.picture(root)
        wait_s = whole_s * chance.random()
        hits += await asyncio.to_thread(interrupted, root, taken.id, wait_s)
        await asyncio.to_thread(interrupted, root, "", wait_s / 4)
        await repository.rollback(taken.id)
        assert (world.picture(root), world.standing(root)) == before, f"killed after {wait_s:.3f} s"
        safety = [item for item in await repository.checkpoints() if item.label.startswith("before the rollback")]
        newest = [item for item in safety if holds(root, item.commit, f"rage{number}")]
        assert newest, "the work that was rolled back is in no checkpoint"
        await repository.rollback(newest[0])
        now = world.picture(root)
        assert {path: look for path, look in now.items() if path != b"hidden.tmp"} == {
            path: look for path, look in raged.items() if path != b"hidden.tmp"
        }
        await repository.rollback(taken.id)
    assert hits, "no kill came in time"


def holds(root: Path, commit: str, word: str) -> bool:
    """Whether a checkpoint holds what was there before the first of the killed rollbacks changed it."""
    done = subprocess.run(
        ["git", "cat-file", "blob", f"{commit}:worktree/f0/0"], cwd=root, capture_output=True, check=False
    )
    return done.stdout == (word * 50).encode()
