"""Random histories: whatever a worker does between a checkpoint and a rollback, the way back and forth is exact.

The seed of a failing history is in the test's name and its deeds are printed. `DETENT_GIT_FUZZ=300` runs 300 of them,
`DETENT_GIT_FUZZ_FROM=1000` begins at another seed.
"""

import os
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from detent.agents.coding.workspace import Checkpoint, Repository
from tests.agents.coding.workspace import world
from tests.agents.coding.workspace.world import Picture, git

HISTORIES = int(os.environ.get("DETENT_GIT_FUZZ", "12"))
FIRST = int(os.environ.get("DETENT_GIT_FUZZ_FROM", "0"))
CAP_BYTES = 3000

NAMES = [
    b"a",
    b"b.txt",
    b"c.o",
    b"d.log",
    b"new\nline",
    b"\xff\xfe",
    b"sp ace",
    b"-dash",
    b"\xc3\xa9",
    b"x.tmp",
    b"deep",
]
FOLDERS = [b"", b"", b"", b"d", b"d/e", b"deep", b"deep/er", b"log", b"sub", b"sub/in"]
PATTERNS = [
    "*.o",
    "*.log",
    "*.tmp",
    "log/",
    "deep/*",
    "!c.o",
    "/a",
    "d/",
    "*",
    "!*/",
    "sub/",
    ".gitignore",
    "e/",
    "!.gitignore",
]


@dataclass
class Moment:
    """What was true when a checkpoint was taken."""

    checkpoint: Checkpoint
    seen: Picture
    standing: tuple[bytes, bytes, bytes]
    folders: set[bytes]  # empty ones
    every: set[bytes]  # and all others, ignored ones too
    inner: dict[bytes, tuple[bytes, bytes, bytes]]


@dataclass
class History:
    """A repository and chance."""

    root: Path
    chance: random.Random
    deeds: list[str] = field(default_factory=list)

    def path(self) -> bytes:
        """Some place for a file."""
        return os.path.join(self.chance.choice(FOLDERS), self.chance.choice(NAMES))

    def full(self, path: bytes) -> bytes:
        """The same place from the top of the machine."""
        return os.path.join(os.fsencode(self.root), path)

    def some_file(self) -> bytes | None:
        """One of the files or links that are there."""
        found = sorted(path for path, look in world.picture(self.root).items() if look[0] != "folder")
        return self.chance.choice(found) if found else None

    def say(self, *words: object) -> None:
        """Note a deed, for whoever has to repeat it."""
        self.deeds.append(" ".join(str(word) for word in words))


def make_room(history: History, path: bytes) -> bool:
    """Let a file come to this place, whatever is there; not through a link, and not over a git dir."""
    parts = path.split(b"/")
    for length in range(1, len(parts) + 1):
        full = history.full(b"/".join(parts[:length]))
        if os.path.islink(full) or (length < len(parts) and os.path.isfile(full)):
            os.unlink(full)
        elif length == len(parts) and os.path.isdir(full):
            if any(b".git" in folders + files for _, folders, files in os.walk(full)):
                return False
            shutil.rmtree(full)
    return True


def edit(history: History) -> None:
    path = history.path()
    if make_room(history, path):
        ends = history.chance.choice(["\n", "\r\n", ""])
        body = ends.join(str(history.chance.randrange(4)) for _ in range(history.chance.randrange(1, 5)))
        history.say("edit", path, repr(body))
        world.write(history.root, path, body)


def grow(history: History) -> None:
    path = history.path()
    if make_room(history, path):
        history.say("grow", path)
        world.write(history.root, path, str(history.chance.randrange(4)) * (CAP_BYTES + 1))


def delete(history: History) -> None:
    path = history.some_file()
    if path is not None:
        history.say("delete", path)
        os.unlink(history.full(path))


def clear(history: History) -> None:
    path = history.chance.choice(FOLDERS)
    if path and os.path.isdir(history.full(path)) and not os.path.islink(history.full(path)):
        history.say("clear", path)
        shutil.rmtree(history.full(path))


def move(history: History) -> None:
    path, to = history.some_file(), history.path()
    if path is not None and not to.startswith(path) and not path.startswith(to) and make_room(history, to):
        if not os.path.lexists(history.full(path)):
            return
        history.say("move", path, to)
        os.makedirs(os.path.dirname(history.full(to)), exist_ok=True)
        os.rename(history.full(path), history.full(to))


def chmod(history: History) -> None:
    found = sorted(path for path, look in world.picture(history.root).items() if look[0] != "link")
    if found:
        path = history.chance.choice(found)
        is_folder = os.path.isdir(history.full(path))
        mode = history.chance.choice([0o700, 0o755, 0o750] if is_folder else [0o600, 0o644, 0o755, 0o711, 0o444])
        history.say("chmod", path, oct(mode))
        os.chmod(history.full(path), mode)


def link(history: History) -> None:
    path = history.path()
    if make_room(history, path):
        to = history.chance.choice(["a", "d", "/etc/hostname", "../outside", "nowhere", "deep"])
        history.say("link", path, to)
        os.makedirs(os.path.dirname(history.full(path)), exist_ok=True)
        if os.path.lexists(history.full(path)):
            os.unlink(history.full(path))
        os.symlink(to, history.full(path))


def folder(history: History) -> None:
    path = os.path.join(history.chance.choice(FOLDERS), history.chance.choice([b"empty", b"e", b"log", b"deep"]))
    if not any(os.path.islink(history.full(parent)) for parent in world.parents({path})):
        try:
            os.makedirs(history.full(path))
            history.say("folder", path)
        except OSError:
            pass


def ignore(history: History) -> None:
    path = os.path.join(history.chance.choice(FOLDERS), b".gitignore")
    if history.chance.random() < 0.2:
        path = b".git/info/exclude"
    if history.chance.random() < 0.2 and path != b".git/info/exclude" and os.path.lexists(history.full(path)):
        history.say("forget", path)
        os.unlink(history.full(path))
    elif path == b".git/info/exclude" or make_room(history, path):
        rules = history.chance.sample(PATTERNS, history.chance.randrange(1, 4))
        history.say("ignore", path, rules)
        world.write(history.root, path, "".join(f"{rule}\n" for rule in rules))


def stage(history: History) -> None:
    how = history.chance.choice([["add", "-A"], ["add", "-u"], ["add", "-f"], ["rm", "-q", "--cached"], ["add", "-N"]])
    path = history.some_file()
    if path is None or how[1] in ("-A", "-u"):
        history.say(*how)
        git(history.root, *how, check=False)
    else:
        history.say(*how, path)
        git(history.root, *how, "--", os.fsdecode(path), check=False)


def commit(history: History) -> None:
    how = history.chance.choice([["-a"], [], ["--amend"]])
    history.say("commit", *how)
    git(history.root, "commit", "-q", "--allow-empty", "-m", str(len(history.deeds)), *how, check=False)


def branch(history: History) -> None:
    name = history.chance.choice(["one", "two", "main"])
    how = history.chance.choice(
        [["checkout", "-q", name], ["checkout", "-q", "-B", name], ["checkout", "-q", "--detach"]]
    )
    history.say(*how)
    git(history.root, *how, check=False)


def stash(history: History) -> None:
    how = history.chance.choice([["push", "-q", "-u"], ["push", "-q"], ["pop", "-q"]])
    history.say("stash", *how)
    git(history.root, "stash", *how, check=False)


def reset(history: History) -> None:
    how = history.chance.choice(
        [["reset", "-q", "--hard"], ["reset", "-q"], ["clean", "-q", "-f", "-d"], ["clean", "-qfdX"]]
    )
    history.say(*how)
    git(history.root, *how, check=False)


def merge(history: History) -> None:
    how = history.chance.choice([["merge", "-q", "one"], ["merge", "-q", "two"], ["merge", "--abort"]])
    history.say(*how)
    git(history.root, *how, check=False)


def inner(history: History) -> None:
    path = history.chance.choice([b"sub", b"sub/in", b"d", b"fresh"])
    full = history.full(path)
    if any(os.path.islink(history.full(parent)) for parent in (*world.parents({path}), path)):
        return
    try:
        os.makedirs(full, exist_ok=True)
    except OSError:
        return
    if not os.path.exists(os.path.join(full, b".git")):
        history.say("git init", path)
        git(full, "init", "-q")
    elif history.chance.random() < 0.6:
        history.say("commit in", path)
        git(full, "add", "-A", check=False)
        git(full, "commit", "-q", "--allow-empty", "-m", "inner", check=False)
    else:
        history.say("exclude in", path)
        world.write(history.root, path + b"/.git/info/exclude", history.chance.choice(PATTERNS) + "\n")


DEEDS: list[Callable[[History], None]] = [
    *(edit, edit, edit, grow, delete, clear, move, chmod, link, folder, ignore, ignore),
    *(stage, commit, branch, stash, reset, merge, inner),
]


def moment(root: Path, checkpoint: Checkpoint) -> Moment:
    """What the user's git says right after a checkpoint."""
    seen = world.visible(root, CAP_BYTES)
    every = {path for path, look in world.picture(root).items() if look[0] == "folder"}
    return Moment(checkpoint, seen, world.standing(root), empty_folders(root), every, inner_standing(root, seen))


def inner_standing(root: Path, seen: Picture) -> dict[bytes, tuple[bytes, bytes, bytes]]:
    """HEAD and index of each repository inside that holds a visible file."""
    top = os.fsencode(root)
    inside = [name for name in world.parents(set(seen)) if os.path.exists(os.path.join(top, name, b".git"))]
    own = set(inside) - world.ignored(root, set(inside))
    return {name: world.standing(Path(os.fsdecode(os.path.join(top, name)))) for name in own}


def empty_folders(root: Path) -> set[bytes]:
    """The folders that hold nothing and that git would not ignore, outside of repositories inside."""
    top = os.fsencode(root)
    empty = {
        path
        for path, seen in world.picture(root).items()
        if seen[0] == "folder" and not os.listdir(os.path.join(top, path))
    }
    own = [
        path
        for path in empty
        if not any(os.path.exists(os.path.join(top, up, b".git")) for up in world.parents({path}))
    ]
    return set(own) - world.ignored(root, set(own))


async def check(repository: Repository, goal: Moment, root: Path) -> Moment:
    """Roll back, and compare with what was noted; the moment to come back to."""
    before, seen_before = world.picture(root), world.visible(root, CAP_BYTES)
    blobs = {
        path: world.blob(os.path.join(os.fsencode(root), path)) for path, look in before.items() if look[0] != "folder"
    }
    present = world.standing(root)
    folders, inside = empty_folders(root), inner_standing(root, seen_before)
    done = await repository.rollback(goal.checkpoint.id)
    after, seen = world.picture(root), world.visible(root, CAP_BYTES)
    is_files_only = any("this repository: " in note for note in done.notes)
    left = {os.fsencode(item.path) for item in goal.checkpoint.uncaptured}
    for path, look in goal.seen.items():
        assert after.get(path) == look, ("not put back", path, look, after.get(path), done.notes)
    extra = {path for path in set(seen) - set(goal.seen) if path not in left and not world.parents({path}) & left}
    if not is_files_only:
        assert not extra - {os.fsencode(path) for path in done.left}, ("too much", extra, done.notes)
        assert world.standing(root) == goal.standing, ("HEAD or index", done.notes)
        for path in goal.folders:
            assert after.get(path, ("", 0, ""))[0] == "folder", ("folder missing", path)
        spare = empty_folders(root) - goal.every - {os.fsencode(path) for path in done.left}
        assert not {path for path in spare if path in folders}, ("folder too much", spare)
    for name, stood in goal.inner.items():
        if not any(f"`{os.fsdecode(name)}`" in note for note in done.notes):
            assert world.standing(root / os.fsdecode(name)) == stood, ("HEAD or index inside", name, done.notes)
    assert_nothing_lost(root, before, after, blobs)
    every = {path for path, look in before.items() if look[0] == "folder"}
    return Moment(done.undo, seen_before, present, folders, every, inside)


def assert_nothing_lost(root: Path, before: Picture, after: Picture, blobs: dict[bytes, str]) -> None:
    """Whatever is no longer on disk as it was is held by a ref."""
    changed = {path: name for path, name in blobs.items() if after.get(path, ("", 0, ""))[::2] != before[path][::2]}
    missing = set(changed.values()) - world.kept_blobs(root) if changed else set()
    assert not missing, ("lost", [path for path, name in changed.items() if name in missing])


@pytest.mark.parametrize("seed", range(FIRST, FIRST + HISTORIES))
async def test_any_history_can_be_rolled_back_and_forth(seed: int, tmp_path: Path) -> None:
    history = History(world.init(tmp_path / "repo"), random.Random(seed))
    root, chance = history.root, history.chance
    repository = await Repository.open(root, cap_bytes=CAP_BYTES)
    if chance.random() < 0.8:
        world.write(root, "a", "begin\n")
        world.commit(root)
    try:
        moments: list[Moment] = []
        for number in range(chance.randrange(2, 4)):
            for _ in range(chance.randrange(3, 14)):
                chance.choice(DEEDS)(history)
            history.say("checkpoint", number)
            before = world.picture(root), world.standing(root)
            moments.append(moment(root, await repository.checkpoint("fuzz", f"number {number}")))
            assert (world.picture(root), world.standing(root)) == before, "a checkpoint changed something"
        for _ in range(chance.randrange(1, 14)):
            chance.choice(DEEDS)(history)
        for _ in range(2):
            goal = chance.choice(moments)
            history.say("rollback", goal.checkpoint.id)
            undo = await check(repository, goal, root)
            if chance.random() < 0.7:
                history.say("undo", undo.checkpoint.id)
                await check(repository, undo, root)
            for _ in range(chance.randrange(0, 6)):
                chance.choice(DEEDS)(history)
    except BaseException:
        print(f"seed {seed} in {root}:", *history.deeds, sep="\n  ")  # noqa: T201
        raise
