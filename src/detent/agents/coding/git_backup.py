"""A second hold on the repository while a worker is loose: should it delete `.git`, everything in it comes back.

Objects never change once written, so they are held by hard links, which cost no space; the few files that do change are
copied. It guards against deletion, not against a worker that overwrites pack files byte by byte.
"""

import contextlib
import os
import shutil
from pathlib import Path

from detent.agents.coding.workspace.work_tree import Worktree

FOLDER = "guard"
WATCHED = ("config", "config.worktree", "packed-refs", "hooks", "info", "refs", "logs/refs/stash")
OURS = "refs/detent"
NAMES_MAX = 5
COPIED_MAX = 64 * 1024 * 1024  # a mutable file larger than this is not git's usual bookkeeping


class Guard:
    """The held copy of one git dir."""

    def __init__(self, place: Worktree) -> None:
        self._git_dir = Path(place.git_dir)
        self._held = Path(place.root) / ".detent" / FOLDER
        # A linked work tree's or submodule's git dir lies outside of the worker's folder.
        self._is_wanted = place.has_git and self._git_dir == Path(place.root) / ".git"

    def keep(self) -> None:
        """Hold everything that is there now; what cannot be held is left out."""
        if not self._is_wanted:
            return
        self._held.mkdir(parents=True, exist_ok=True)
        for name in set(_list_watched(self._held)).difference(_list_watched(self._git_dir)):
            (self._held / name).unlink()  # gone since the last time, by the user's own hand
        for folder, folders, files in os.walk(self._git_dir):
            inner = os.path.relpath(folder, self._git_dir)
            into = self._held / inner
            is_objects = inner == "objects" or inner.startswith("objects" + os.sep)
            if is_objects and into.is_dir() and _is_same(into, files):
                continue
            into.mkdir(parents=True, exist_ok=True)
            folders[:] = [name for name in folders if not os.path.islink(os.path.join(folder, name))]
            for name in files:
                with contextlib.suppress(OSError):
                    _hold(Path(folder, name), into / name, is_objects)

    def put_back(self, aside: Path) -> list[str]:
        """Put back what was changed in refs, stash, config, hooks and info since `keep`; the names of that.

        For a worker in the user's own tree. What it had made of them is kept in `aside`. Commits on the current branch
        stay: a rollback undoes them.
        """
        if not self._is_wanted or not self._held.is_dir():
            return []
        branch, commit = self._read_branch()
        found = []
        for name in sorted({*_list_watched(self._git_dir), *_list_watched(self._held)} - {branch}):
            now, was = self._git_dir / name, self._held / name
            if _bytes(now) == _bytes(was):
                continue
            found.append(name)
            if now.exists():
                (aside / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(now, aside / name)
            if was.exists():
                now.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(was, now)
            else:
                now.unlink()
        if found and branch and commit:  # it may have been packed meanwhile, and the old packs do not know it
            (self._git_dir / branch).parent.mkdir(parents=True, exist_ok=True)
            (self._git_dir / branch).write_text(f"{commit}\n", "ascii")
        return found

    def _read_branch(self) -> tuple[str, str]:
        """The current branch and its commit, as they are now."""
        name = (_bytes(self._git_dir / "HEAD") or b"").decode("utf-8", "replace").strip()
        ref = name.removeprefix("ref: ") if name.startswith("ref: refs/heads/") else ""
        loose = (_bytes(self._git_dir / ref) or b"").decode("ascii", "replace").strip() if ref else ""
        packed = (_bytes(self._git_dir / "packed-refs") or b"").decode("utf-8", "replace").splitlines()
        found = next((line.split(" ")[0] for line in packed if line.endswith(f" {ref}")), "") if ref else ""
        return ref, loose or found

    def repair(self) -> str:
        """Bring back what is gone; says what that was, empty when nothing is missing."""
        if not self._is_wanted or not self._held.is_dir():
            return ""
        vital = [name for name in ("HEAD", "objects", "refs", "config") if not (self._git_dir / name).exists()]
        lost = 0
        if vital or not self._git_dir.is_dir():
            if self._git_dir.is_symlink() or self._git_dir.is_file():
                self._git_dir.unlink()
            for folder, _, files in os.walk(self._held):
                into = self._git_dir / os.path.relpath(folder, self._held)
                into.mkdir(parents=True, exist_ok=True)
                for name in files:
                    if not (into / name).exists():
                        shutil.copy2(Path(folder, name), into / name)
                        lost += 1
        return f"`.git` was deleted or broken; {lost} files of it were brought back" if lost else ""


def read_steering(git_dir: Path) -> dict[str, tuple[int, int]]:
    """What steers git in a copy, by size and time: enough to tell whether somebody was at it."""
    head = (_bytes(git_dir / "HEAD") or b"").decode("utf-8", "replace").strip().removeprefix("ref: ")
    found = {}
    for name in _list_watched(git_dir):
        with contextlib.suppress(OSError):
            about = (git_dir / name).lstat()
            found[name] = (about.st_size, about.st_mtime_ns)
    found.pop(head, None)  # a commit on the branch is what a worker is there for
    return found


def describe_games(git_dir: Path, before: dict[str, tuple[int, int]]) -> str:
    """What a worker did to the git of its copy, which harms nobody but is told; empty: nothing."""
    if before and not (git_dir / "HEAD").exists():
        return "the worker deleted the `.git` of its copy; yours is as it was"
    now = read_steering(git_dir)
    changed = sorted(name for name in {*before, *now} if before.get(name) != now.get(name))
    more = f" and {len(changed) - NAMES_MAX} more" if len(changed) > NAMES_MAX else ""
    names = ", ".join(changed[:NAMES_MAX]) + more
    return f"the worker changed these in the `.git` of its copy; yours is as it was: {names}" if changed else ""


def _list_watched(git_dir: Path) -> list[str]:
    """What in a git dir steers the user's git, without our own refs."""
    found = []
    for name in WATCHED:
        place = git_dir / name
        if place.is_dir() and not place.is_symlink():
            for folder, _, files in os.walk(place):
                found += [os.path.relpath(os.path.join(folder, file), git_dir) for file in files]
        elif place.is_file():
            found.append(name)
    return [name for name in found if not name.startswith(OURS) and not name.endswith(".lock")]


def _bytes(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def _is_same(held: Path, files: list[str]) -> bool:
    """Whether a folder of objects is held already: objects only come, they do not change."""
    try:
        return set(files) <= set(os.listdir(held)) and bool(files)
    except OSError:
        return False


def _hold(source: Path, target: Path, is_object: bool) -> None:
    if is_object:
        if not target.exists():
            os.link(source, target)
    elif source.is_file() and not source.is_symlink() and source.stat().st_size <= COPIED_MAX:
        was = target.stat() if target.exists() else None
        now = source.stat()
        if was is None or (was.st_size, was.st_mtime_ns) != (now.st_size, now.st_mtime_ns):
            shutil.copy2(source, target)
