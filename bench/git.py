"""The figures of checkpoints: a generated repository of 20,000 files with 50,000 ignored ones, against `git status`."""

import asyncio
import os
import random
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.figure import Figure, best
from detent.agents.coding.workspace import Checkpoint, Repository, checkout, checkpoint_record
from detent.agents.coding.workspace.work_tree import Worktree

FILES = 20_000
IGNORED = 50_000
FILES_EACH = 20  # in one folder
BYTES = 13_000  # of one file, on average


def generated(root: Path) -> None:
    """A repository as large as a big project, all of it committed, beside a large ignored folder."""
    chance = random.Random(1)
    lines = [" ".join(chance.randbytes(4).hex() for _ in range(5)) + "\n" for _ in range(8192)]
    git(root, "init", "-q", "-b", "main")
    (root / ".gitignore").write_text("node_modules/\n*.pyc\n")
    for number in range(FILES):
        place = place_of(root, number)
        place.parent.mkdir(parents=True, exist_ok=True)
        begin = chance.randrange(len(lines) // 2)
        text = f"{number}\n" + "".join(lines[begin : begin + chance.randrange(1, 2 * BYTES // 45)])
        place.write_text(text)
    for number in range(IGNORED):
        place = root / "node_modules" / f"package{number // 50}"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{number}.js").write_text("x")
    git(root, "add", "-A")
    git(root, "-c", "user.name=bench", "-c", "user.email=bench@localhost", "commit", "-q", "-m", "begin")
    git(root, "repack", "-a", "-d", "-q", "--window=0")


def place_of(root: Path, number: int) -> Path:
    """Where a file of that number is."""
    return root / f"part{number // FILES_EACH // FILES_EACH}" / f"unit{number // FILES_EACH}" / f"file{number}.txt"


def git(root: Path, *argv: str) -> None:
    """Run git as a user would."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    env |= {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", "-c", "gc.auto=0", *argv], cwd=root, env=env, check=True, capture_output=True)


def touch(root: Path, count: int, word: str) -> None:
    """Edit that many files."""
    for number in range(0, FILES, FILES // count):
        with place_of(root, number).open("a") as file:
            file.write(f"{word}\n")


def checkpoints() -> Iterator[Figure]:
    """No change, the first, 100 edits and the way back, each as a multiple of `git status` in the same run."""
    with tempfile.TemporaryDirectory(prefix=".bench-", dir=".") as home:  # on the disk this checkout is on
        root = Path(home).resolve() / "project"
        root.mkdir()
        generated(root)
        time.sleep(2)  # let the files be older than any index, as they are in a project that was not just made
        git(root, "status")
        status = best(lambda: git(root, "status"))
        repository = asyncio.run(Repository.open(root))

        def timed(label: str) -> tuple[float, Checkpoint]:
            begin = time.perf_counter()
            taken = asyncio.run(repository.checkpoint("bench", label))
            return time.perf_counter() - begin, taken

        firsts = []
        for _ in range(5):
            taken, base = timed("first")
            firsts.append(taken)
            forget(root, repository)
        _, base = timed("base")
        time.sleep(2)
        timed("settled")
        calm = min(timed("no change")[0] for _ in range(5))
        edits, backs = [], []
        for number in range(8):
            touch(root, 100, f"edit {number}")
            edits.append(timed("100 edits")[0])
            begin = time.perf_counter()
            asyncio.run(repository.rollback(base))
            backs.append(time.perf_counter() - begin)
        status = min(status, best(lambda: git(root, "status")))
    yield row("no change", calm, status, 4)
    yield row("first", min(firsts), status, 20)
    yield row("100 edits", min(edits), status, 8)
    yield row("rollback of 100 edits", min(backs), status, 16)


def copies() -> Iterator[Figure]:
    """Making a worker's copy against `git worktree add`, and laying out a tree a second time."""
    with tempfile.TemporaryDirectory(prefix=".bench-", dir=".") as home:
        root = Path(home).resolve() / "project"
        root.mkdir()
        generated(root)
        repository = asyncio.run(Repository.open(root))
        taken = asyncio.run(repository.checkpoint("bench", "first"))
        made, added, again = [], [], []
        for number in range(3):
            folder = root / ".detent" / str(number)
            added.append(timed_s(lambda: git(root, "worktree", "add", "-q", "--detach", str(folder / "linked"))))  # noqa: B023
            git(root, "worktree", "remove", "--force", str(folder / "linked"))
            place = checkout.copy_of(repository.place, folder / "tree", folder / "view")
            made.append(timed_s(lambda: asyncio.run(_copy(repository, place, taken))))  # noqa: B023
            again.append(timed_s(lambda: asyncio.run(checkout.put(place, taken.tree))))  # noqa: B023
            shutil.rmtree(folder)
    ratio = min(made) / min(added)
    yield Figure("copies", "a worker's copy", round(min(made) * 1000), "ms", round(min(added) * 1000), round(ratio, 2),
                 "<= 3x git worktree add", ratio <= 3)  # fmt: skip
    yield Figure(
        "copies", "the same checkout again", round(min(again) * 1000), "ms", 0, 0, "<= 2000 ms", min(again) <= 2
    )


async def _copy(repository: Repository, place: Worktree, taken: Checkpoint) -> None:
    """As it is made for a worker in a sandbox, which cannot write the packs."""
    await checkout.make_copy(
        repository.place, place, await checkpoint_record.facts(repository.place, taken), is_linked=True
    )


def timed_s(deed: Callable[[], object]) -> float:
    """How long it takes."""
    begin = time.perf_counter()
    deed()
    return time.perf_counter() - begin


def forget(root: Path, repository: Repository) -> None:
    """Leave nothing of a checkpoint, so that the next one is a first one again."""
    asyncio.run(repository.prune("bench"))
    shutil.rmtree(root / ".git" / "detent")
    git(root, "prune", "--expire=now")


def row(name: str, taken: float, status: float, bar: float) -> Figure:
    """One figure against `git status`."""
    ratio = taken / status
    floor, bound = round(status * 1e3, 1), f"≤ {bar}× git status"
    return Figure("checkpoints", name, round(taken * 1e3, 1), "ms", floor, round(ratio, 2), bound, ratio <= bar)


GROUPS = {"checkpoints": checkpoints, "copies": copies}
