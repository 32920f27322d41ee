"""A second hold on the repository while a worker is loose: should it delete `.git`, everything in it comes back.

Objects never change once written, so they are held by hard links, which cost no space; the few files that do change are
copied. It guards against deletion, not against a worker that overwrites pack files byte by byte.
"""

import contextlib
import os
import shutil
from pathlib import Path

from detent.agents.coding.workspace.place import Worktree

FOLDER = "guard"
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
