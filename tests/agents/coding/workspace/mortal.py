"""Checkpoints and rollbacks that die: kill -9 before the n-th thing they do to the world, or while git is at it.

The interpreter itself says what is about to happen (audit events), so every command of git and every change that our
own code makes to a file is a place to die, and nothing has to be put in its way. Imports are paid once: a life is a
fork. `python -m tests.agents.coding.workspace.mortal FOLDER SEED SHARES` plays one random tree and prints what it saw:
it dies at one of so many shares of the places that matter most, the seed says which; with one share, before everything
it does.
"""

import asyncio
import contextlib
import json
import os
import random
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from detent.agents.coding.workspace import Repository
from tests.agents.coding.workspace import test_fuzz as fuzz
from tests.agents.coding.workspace import world

CHANGES = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.symlink", "os.link", "os.chmod", "os.truncate"}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
# What may be left half done. The others only look, or add objects that nothing names yet.
HALVES = {"git update-index", "git read-tree", "git update-ref", "git symbolic-ref"}
OTHERS = 2
OWN = f"{os.sep}.git{os.sep}detent{os.sep}"
DEEDS = 14
RUN = "mortal"
Deed = Callable[[Path], Coroutine[Any, Any, Any]]


class Death:
    """Comes before the n-th change, or while the git that is the n-th is running; until then it takes notes."""

    def __init__(self, number: int, notes: Path, is_torn: bool) -> None:
        self.left, self.is_torn = number, is_torn
        self.notes = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)

    def __call__(self, event: str, args: tuple[Any, ...]) -> None:
        if what := what_changes(event, args):
            os.write(self.notes, f"{what}\n".encode())
            self.left -= 1
            if self.left == 0 and self.is_torn:
                follow(os.getpid())
            elif self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


def what_changes(event: str, args: tuple[Any, ...]) -> str:
    """The change that is about to be made, or nothing."""
    if event == "subprocess.Popen":
        return "git " + next(str(word) for word in args[1][1:] if "=" not in word and word != "-c")
    is_change = event in CHANGES or (event == "open" and (args[2] or 0) & WRITING and args[0] != os.devnull)
    is_own = any(OWN in os.fsdecode(word) for word in args[:2] if isinstance(word, str | bytes | os.PathLike))
    return (f"own {event}" if is_own else event) if is_change else ""


def follow(pid: int) -> None:
    """A process that waits for the next git of this one and kills both."""
    before = children(pid)
    if os.fork():
        return
    os.closerange(3, 4096)  # the ends of git's pipes, among others: whoever reads them waits for the last holder
    while os.getppid() == pid:
        if gits := children(pid) - before - {os.getpid()}:
            time.sleep(random.random() * 0.003)
            for victim in (*gits, pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(victim, signal.SIGKILL)
            break
    os._exit(0)


def children(pid: int) -> set[int]:
    """The processes that a process has started."""
    with contextlib.suppress(OSError):
        return {
            int(word)
            for path in Path(f"/proc/{pid}/task").iterdir()
            for word in (path / "children").read_text().split()
        }
    return set()


class Stage:
    """A random tree, a checkpoint of it, and what a worker did to it afterwards; every life gets a copy of its own."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.seed, self.chance = seed, random.Random(seed)
        self.first, self.root, self.notes = folder / "first", folder / "copy", folder / "notes"
        history = fuzz.History(world.init(self.first), self.chance)
        for word in ("begin", "more"):
            world.write(self.first, "a", word)
            world.write(self.first, f"deep/{word}", word, 0o755)
            world.commit(self.first)
        self.deeds(history)
        self.goal = asyncio.run(self.checkpoint(self.first))
        self.deeds(history)
        self.then = world.picture(self.first)
        self.blobs = {path: world.blob(history.full(path)) for path, look in self.then.items() if look[0] != "folder"}
        self.stood = world.standing(self.first)
        self.told = history.deeds

    def deeds(self, history: fuzz.History) -> None:
        """What people and workers do, in any order."""
        for _ in range(DEEDS):
            self.chance.choice(fuzz.DEEDS)(history)

    def copied(self) -> Path:
        """The whole of it anew, git dir and all."""
        shutil.rmtree(self.root, ignore_errors=True)
        shutil.copytree(self.first, self.root, symlinks=True)
        return self.root

    async def checkpoint(self, root: Path) -> str:
        repository = await Repository.open(root, cap_bytes=fuzz.CAP_BYTES)
        return (await repository.checkpoint(RUN)).id

    async def rollback(self, root: Path) -> None:
        repository = await Repository.open(root, cap_bytes=fuzz.CAP_BYTES)
        await repository.rollback(self.goal)

    def life(self, deed: Deed, number: int, is_torn: bool = False) -> bool:
        """One process; whether it was killed. What it did or was about to do is in the notes."""
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                sys.addaudithook(Death(number, self.notes, is_torn))
                asyncio.run(deed(self.root))
                code = 0
            except Exception:  # noqa: BLE001 the test shows whatever it was
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(code)
        _, status = os.waitpid(pid, 0)
        assert status in (0, signal.SIGKILL), f"it ended with {status}"
        return status != 0

    def every(self, deed: Deed) -> list[str]:
        """All that it does when nothing kills it."""
        self.copied()
        assert not self.life(deed, 0)
        return self.notes.read_text().splitlines()

    def check_checkpoint(self) -> None:
        """Nobody's files have changed, what is listed can be read, and the next checkpoint is as good as any."""
        assert (world.picture(self.root), world.standing(self.root)) == (self.then, self.stood)
        taken = asyncio.run(self.checkpoint(self.root))

        async def look() -> tuple[list[str], str, str]:
            repository = await Repository.open(self.root, cap_bytes=fuzz.CAP_BYTES)
            listed = [await repository.diff(item) for item in await repository.checkpoints()]
            return listed, (await repository.resolve(taken)).tree, await repository.tree_id()

        listed, tree, present = asyncio.run(look())
        assert len(listed) >= 2
        assert tree == present
        assert (world.picture(self.root), world.standing(self.root)) == (self.then, self.stood)

    def check_rollback(self, wanted: tuple[Any, Any]) -> None:
        """Asked for once more it arrives, and whatever was there before is on the disk or held by a ref."""
        half = world.picture(self.root)
        fuzz.assert_nothing_lost(self.root, self.then, half, self.blobs)
        asyncio.run(self.rollback(self.root))
        now = world.picture(self.root), world.standing(self.root)
        assert now == wanted, {
            path: (now[0].get(path), wanted[0].get(path))
            for path in now[0].keys() | wanted[0].keys()
            if now[0].get(path) != wanted[0].get(path)
        }
        fuzz.assert_nothing_lost(self.root, self.then, now[0], self.blobs)

    def places(self, deed: Deed, shares: int) -> list[tuple[int, str, bool]]:
        """Where to die: before a thing that is done and, where git may leave it half done, inside it."""
        every = list(enumerate(self.every(deed), 1))
        if shares == 1:
            return [
                (*place, is_torn) for place in every for is_torn in (False, True) if place[1] in HALVES or not is_torn
            ]
        halves = [(*place, is_torn) for place in every for is_torn in (False, True) if place[1] in HALVES]
        others = [(*place, False) for place in every if not place[1].startswith(("git ", "own "))]
        return halves[self.seed % shares :: shares] + self.chance.sample(others, min(OTHERS, len(others)))

    def play(self, deed: Deed, check: Callable[[], None], shares: int) -> dict[str, int]:
        """Die at each of the places, and look what is left; how often at what."""
        deaths: dict[str, int] = {}
        places = self.places(deed, shares)
        survived = 0
        for number, what, is_torn in places:
            self.copied()
            is_dead = self.life(deed, number, is_torn)
            survived += not (is_dead or is_torn)  # files that were changed a moment ago take git a step more
            deaths[what] = deaths.get(what, 0) + is_dead
            try:
                check()
            except BaseException:
                sys.stderr.write(f"killed at place {number}, {what}, torn: {is_torn}; deeds: {self.told}\n")
                raise
        assert survived <= max(1, len(places) // 10), f"{survived} of {len(places)} places were never reached"
        return deaths


def main(folder: Path, seed: int, shares: int) -> None:
    stage = Stage(folder, seed)
    taken = stage.play(stage.checkpoint, stage.check_checkpoint, shares)
    stage.every(stage.rollback)
    wanted = world.picture(stage.root), world.standing(stage.root)
    undone = stage.play(stage.rollback, lambda: stage.check_rollback(wanted), shares)
    sys.stdout.write(json.dumps({"checkpoint": taken, "rollback": undone}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
