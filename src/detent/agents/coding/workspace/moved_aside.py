"""Things in the way of a rollback: moved aside, never deleted unless a ref holds them.

The git dir of a repository that the checkpoint did not have is moved aside whole, and comes back when that rollback is
undone. A file that the safety checkpoint could not see is also written to a rescue ref first.
"""

import contextlib
import json
import os
import shutil
import stat
from dataclasses import dataclass, field
from pathlib import Path

from detent.agents.coding.workspace import loose_object
from detent.agents.coding.workspace.checkpoint_record import RESCUES, Checkpoint, wrap
from detent.agents.coding.workspace.file_listing import parents
from detent.agents.coding.workspace.git_command import join
from detent.agents.coding.workspace.ref import write as write_ref
from detent.agents.coding.workspace.work_tree import Worktree


@dataclass
class Aside:
    """The folder where one rollback puts what is in its way."""

    place: Worktree
    undo: Checkpoint
    moved: list[tuple[str, Path, bool]] = field(default_factory=list)  # path, where it is now, a ref holds it

    @property
    def folder(self) -> Path:
        """Where this rollback's things are."""
        return self.place.home / "aside" / self.undo.id

    def move(self, path: str, *, is_kept: bool = False) -> Path:
        """Take something out of the work tree; a note beside it says where it was."""
        self.folder.mkdir(parents=True, exist_ok=True)
        number = sum(1 for _ in self.folder.glob("*.json"))
        where = self.folder / str(number)
        where.with_suffix(".json").write_text(json.dumps({"path": path}), encoding="ascii")
        shutil.move(os.path.join(self.place.root, path), where)
        self.moved.append((path, where, is_kept))
        return where

    def put_back(self) -> None:
        """Undo every move: the rollback did not happen."""
        for path, where, _ in reversed(self.moved):
            full = os.path.join(self.place.root, path)
            if not os.path.lexists(full):
                os.makedirs(os.path.dirname(full), exist_ok=True)
                shutil.move(where, full)
            where.with_suffix(".json").unlink(missing_ok=True)
        self.moved.clear()
        self.tidy()

    def settle(self) -> list[str]:
        """The rollback happened: drop what a ref holds; where the rest is now, as sentences."""
        notes = []
        for path, where, is_kept in self.moved:
            if is_kept:
                where.unlink(missing_ok=True)
                where.with_suffix(".json").unlink(missing_ok=True)
            else:
                notes.append(f"`{path}` was in the way and is now {where}")
        self.moved.clear()
        self.tidy()
        return notes

    def tidy(self) -> None:
        """Remove the folder if nothing is in it."""
        with contextlib.suppress(OSError):
            self.folder.rmdir()


def bring_back(place: Worktree, path: str, target: Checkpoint) -> bool:
    """Put something that an earlier rollback moved aside back into its place; whether there was such a thing."""
    notes = sorted((place.home / "aside").glob("*/*.json"), key=lambda note: note.stat().st_mtime_ns)
    notes.sort(key=lambda note: note.parent.name == target.id)
    full = os.path.join(place.root, path)
    for note in reversed(notes):
        where = note.with_suffix("")
        if os.path.lexists(where) and json.loads(note.read_text(encoding="ascii"))["path"] == path:
            if os.path.lexists(full):
                return False
            os.makedirs(os.path.dirname(full), exist_ok=True)
            shutil.move(where, full)
            note.unlink()
            with contextlib.suppress(OSError):
                note.parent.rmdir()
            return True
    return False


def unseen_in_the_way(root: str, needed: set[str], known: set[str], folders: set[str]) -> tuple[set[str], set[str]]:
    """What stands where files (`needed`) and folders must come and is not `known` to the safety checkpoint.

    Two sets: files and links; and whole folders that hold a git dir and therefore go as one.
    """
    files: set[str] = set()
    whole: set[str] = set()
    for path in needed | folders:
        for spot in (*reversed([*parents(path)]), path):
            mode = _mode(root, spot)
            if mode is None:
                break
            if not stat.S_ISDIR(mode):
                if spot not in known:
                    files.add(spot)
                break
            if spot == path and path in needed:
                _search(root, path, known, files, whole)
    return files, whole


def _search(root: str, folder: str, known: set[str], files: set[str], whole: set[str]) -> None:
    """Everything in a folder that must become a file."""
    with os.scandir(os.path.join(root, folder)) as entries:
        found = [(f"{folder}/{entry.name}", entry.is_dir(follow_symlinks=False)) for entry in entries]
    if any(name.endswith("/.git") for name, _ in found):
        whole.add(folder)
        return
    for name, is_folder in found:
        if is_folder:
            _search(root, name, known, files, whole)
        elif name not in known:
            files.add(name)


def _mode(root: str, path: str) -> int | None:
    try:
        return os.lstat(os.path.join(root, path)).st_mode
    except OSError:
        return None


async def rescue(place: Worktree, undo: Checkpoint, paths: list[str], number: int) -> str:
    """Write files to a ref of their own; its name."""
    index = place.home / "rescue.index"
    index.unlink(missing_ok=True)
    env = {"GIT_INDEX_FILE": str(index)}
    await place.view("update-index", "--add", "-z", "--stdin", stdin=join(paths), env=env)
    tree = await place.view.line("write-tree", env=env)
    index.unlink(missing_ok=True)
    return await pin(place, undo, tree, number)


async def pin(place: Worktree, undo: Checkpoint, tree: str, number: int) -> str:
    """Keep a tree under a rescue ref; its name."""
    about = json.dumps({"undo": undo.id}).encode()
    commit = wrap(place, [(loose_object.FOLDER, tree, "worktree")], about, f"rescue of {undo.id}", None)
    ref = f"{RESCUES}/{undo.run}/{undo.seq}-{number}"
    await write_ref(place, "update-ref", ref, commit, ref=ref)
    return ref
