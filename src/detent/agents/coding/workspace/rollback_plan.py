"""What a rollback has to do, worked out before anything is touched."""

import hashlib
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path

from detent.agents.coding.workspace import difference
from detent.agents.coding.workspace.checkpoint_record import CheckpointFacts
from detent.agents.coding.workspace.difference import PathStep
from detent.agents.coding.workspace.file_listing import Ground, folders_of, is_below, parents
from detent.agents.coding.workspace.git_command import join
from detent.agents.coding.workspace.ignore import find_hidden
from detent.agents.coding.workspace.snapshot import Snapshot, usual
from detent.agents.coding.workspace.work_tree import Worktree


@dataclass
class RollbackPlan:
    """The way from a snapshot to a checkpoint."""

    steps: dict[str, PathStep]  # what git has to change
    tree: str  # the tree git has to reach: the checkpoint's, with what must stay as it is
    kept: set[str] = field(default_factory=set)  # not in the checkpoint, and not its business to delete
    settled: set[str] = field(default_factory=set)  # in the checkpoint, unseen now, and the same on disk
    new_repositories: set[str] = field(default_factory=set)
    spare_folders: set[str] = field(default_factory=set)
    kept_folders: set[str] = field(default_factory=set)
    missing_folders: set[str] = field(default_factory=set)

    @property
    def needed(self) -> set[str]:
        """The paths where a file must come."""
        return {path for path, step in self.steps.items() if step.status != "D"}

    @property
    def known(self) -> set[str]:
        """The paths whose present contents the snapshot holds."""
        return {path for path, step in self.steps.items() if step.status != "A"}


async def make(place: Worktree, found: Snapshot, target: CheckpointFacts) -> RollbackPlan:
    """Compare what is there with what shall be."""
    steps = await difference.steps(place, found.tree, target.checkpoint.tree)
    ground = Ground(place.root)
    settled = {p for p, s in steps.items() if s.status == "A" and is_on_disk(place, ground, s)}
    deleted = {path for path, step in steps.items() if step.status == "D"}
    folders = set(found.bare) - set(target.bare)
    repositories = set(found.nested) - set(target.nested)
    hidden = await find_hidden(place, target, deleted, folders | repositories)
    unseen = {item.path for item in target.checkpoint.uncaptured}
    kept = {path for path in deleted if path in hidden or is_below(path, unseen)}
    needed = {path for path, step in steps.items() if step.status != "D"}
    wanted = folders_of(needed) | set(target.bare) | folders_of(target.bare)
    kept = {path for path in kept if path not in wanted and not any(parent in needed for parent in parents(path))}
    tree = target.checkpoint.tree
    if kept or settled:
        tree = await _adjust(place, tree, {path: steps[path] for path in kept}, settled)
        steps = {path: step for path, step in steps.items() if path not in kept and path not in settled}
    missing = {folder for folder in target.bare if not ground.is_folder(folder)}
    return RollbackPlan(steps, tree, kept, settled, repositories - hidden, folders - hidden, folders & hidden, missing)


def is_on_disk(place: Worktree, ground: Ground, step: PathStep) -> bool:
    """Whether the file at a path already is what the step would write."""
    found = ground.stat(step.path)
    if found is None:
        return False
    full = os.path.join(place.root, step.path)
    try:
        if stat.S_ISLNK(found.st_mode):
            return step.new_mode == "120000" and blob_id(place, os.fsencode(os.readlink(full))) == step.new
        if not stat.S_ISREG(found.st_mode):
            return False
        mode = "100755" if found.st_mode & 0o100 else "100644"
        return step.new_mode == mode and blob_id(place, Path(full).read_bytes()) == step.new
    except OSError:
        return False


def blob_id(place: Worktree, body: bytes) -> str:
    """The name git gives to a blob."""
    return hashlib.new(place.hash_name, b"blob %d\0" % len(body) + body).hexdigest()


async def _adjust(place: Worktree, tree: str, kept: dict[str, PathStep], settled: set[str]) -> str:
    """A tree with some files put in and some taken out."""
    index = place.home / "plan.index"
    index.unlink(missing_ok=True)
    env = {"GIT_INDEX_FILE": str(index)}
    await place.view("read-tree", tree, env=env)
    lines = [f"{step.old_mode} {step.old}\t{path}" for path, step in kept.items()]
    lines += [f"0 {'0' * len(tree)}\t{path}" for path in settled]
    await place.view("update-index", "-z", "--add", "--index-info", stdin=join(lines), env=env)
    adjusted = await place.view.line("write-tree", env=env)
    index.unlink(missing_ok=True)
    return adjusted


async def permissions(place: Worktree, found: Snapshot, target: CheckpointFacts, touched: set[str]) -> dict[str, int]:
    """The permissions that must be set: those of the checkpoint where they may differ from what is on disk."""
    ground = Ground(place.root)
    paths = {*found.permissions, *target.permissions} | touched
    names = None
    if found.umask != target.umask or any(ground.is_folder(path) for path in paths):
        names = set(await place.view.names("ls-tree", "-r", "-z", "--name-only", target.checkpoint.tree))
        names |= folders_of(names) | set(target.bare)
    if found.umask != target.umask and names is not None:
        paths |= names
    wanted = {}
    for path in paths:
        there = ground.stat(path)
        if there is None or stat.S_ISLNK(there.st_mode) or (names is not None and path not in names):
            continue
        if path not in target.permissions and path in found.permissions and path not in touched and names is None:
            names = set(await place.view.names("ls-tree", "-r", "-z", "--name-only", target.checkpoint.tree))
            if path not in names:
                continue
        mode = target.permissions.get(path, usual(there.st_mode, target.umask))
        if mode != stat.S_IMODE(there.st_mode):
            wanted[path] = mode
    return wanted
