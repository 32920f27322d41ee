"""What a job has made comes into the user's work tree: by a three-way merge, as one change, or not at all.

The base is the tree that the job began with, one side what it made of it, the other what the user's tree is now. What
both changed in different ways is a conflict, and then nothing is written. Files are switched by the same verbs as in a
rollback: all of them or, if one changed at that moment, none; before that a checkpoint is taken. HEAD, branch and
index stay the user's. To take a landing back is to put back each file that still is what the landing wrote.
"""

import contextlib
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from detent.agents.coding.workspace import checkout, checkpoint_record, difference, head, loose_object, snapshot
from detent.agents.coding.workspace.checkpoint_record import Checkpoint
from detent.agents.coding.workspace.difference import PathStep
from detent.agents.coding.workspace.file_listing import Ground
from detent.agents.coding.workspace.git_command import GitFailed
from detent.agents.coding.workspace.moved_aside import unseen_in_the_way
from detent.agents.coding.workspace.rollback_plan import is_on_disk
from detent.agents.coding.workspace.snapshot import Snapshot
from detent.agents.coding.workspace.work_tree import Worktree
from detent.errors import Refused

CONFLICTS_MAX = 50
LABEL, MERGE = "before landing", "before a merge"  # into the user's tree, into a copy


@dataclass(frozen=True)
class MadeTree:
    """What a job has made: its tree, and the permissions that are not the usual ones."""

    tree: str
    permissions: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Landing:
    """How a landing came out: the trees before and after, what was written, and what stood against it."""

    before: str
    after: str
    undo: Checkpoint | None = None
    written: tuple[str, ...] = ()
    theirs: tuple[str, ...] = ()  # what the user had changed meanwhile, and keeps
    conflicts: tuple[str, ...] = ()
    left: tuple[str, ...] = ()  # of a landing taken back: what was changed since and therefore stays


async def land(
    place: Worktree, run: str, base: str, made: MadeTree, cap_bytes: int, *, wins: bool = False, label: str = LABEL
) -> Landing:
    """Bring what somebody made of a tree into this one; the caller holds the lock.

    Conflicts let nothing be written, or it `wins`: then each of these files is as they made it. `label` is what the
    checkpoint before it is called.
    """
    head.check_index_lock(place)
    found = await snapshot.take(place, cap_bytes)
    theirs = tuple(sorted(await difference.steps(place, base, found.tree)))
    goal, conflicts = await merge(place, base, found.tree, made.tree)
    if conflicts and wins:
        blobs = await checkout.list_blobs(place, made.tree)
        kept = await checkout.list_blobs(place, goal)
        names = {path for path in {*conflicts, *kept} if any(path == c or path.startswith(f"{c}~") for c in conflicts)}
        goal = await checkout.adjust(place, goal, {path: blobs.get(path) for path in names})
    steps = await difference.steps(place, found.tree, goal)
    blocked = _find_in_the_way(place, steps) if wins else conflicts or _find_in_the_way(place, steps)
    if blocked:
        conflicts = blocked
        return Landing(found.tree, found.tree, theirs=theirs, conflicts=conflicts)
    safe = await checkpoint_record.write(place, run, label, found)
    opened = {path: mode for path, mode in made.permissions.items() if mode & 0o600 == 0o600}  # no file is locked away
    await _switch(place, found, goal, steps, {**found.permissions, **opened}, cap_bytes)
    return Landing(found.tree, goal, safe, tuple(sorted(steps)), theirs, conflicts)


async def take_back(
    place: Worktree, run: str, was: MadeTree, after: str, paths: Collection[str], cap_bytes: int
) -> Landing:
    """Put back what a landing made of a tree, where the file still is what it wrote."""
    head.check_index_lock(place)
    found = await snapshot.take(place, cap_bytes)
    now = await checkout.list_blobs(place, found.tree)
    changes: dict[str, checkout.Blob | None] = {}
    left = []
    for path, step in (await difference.steps(place, was.tree, after)).items():
        landed = None if step.status == "D" else (step.new_mode, step.new)
        before = None if step.status == "A" else (step.old_mode, step.old)
        if path not in paths or now.get(path) == before:
            continue
        if now.get(path) == landed:
            changes[path] = before
        else:
            left.append(path)
    goal = await checkout.adjust(place, found.tree, changes)
    steps = await difference.steps(place, found.tree, goal)
    left += [path for path in _find_in_the_way(place, steps) if path not in left]
    if set(left) & set(steps):
        goal = await checkout.adjust(place, found.tree, {p: b for p, b in changes.items() if p not in left})
        steps = await difference.steps(place, found.tree, goal)
    safe = await checkpoint_record.write(place, run, "before the landing was taken back", found)
    await _switch(place, found, goal, steps, was.permissions, cap_bytes)
    return Landing(found.tree, goal, safe, tuple(sorted(steps)), left=tuple(sorted(left)))


def _find_in_the_way(place: Worktree, steps: Mapping[str, PathStep]) -> tuple[str, ...]:
    """Files where one has to come that no checkpoint holds: ignored ones, or too large."""
    needed = {path for path, step in steps.items() if step.status != "D"}
    known = {path for path, step in steps.items() if step.status != "A"}
    files, whole = unseen_in_the_way(place.root, needed, known, set())
    ground = Ground(place.root)
    return tuple(sorted(p for p in {*files, *whole} if p not in steps or not is_on_disk(place, ground, steps[p])))


async def _switch(
    place: Worktree, found: Snapshot, goal: str, steps: Mapping[str, PathStep], permissions: Mapping[str, int], cap: int
) -> None:
    """Let git switch the files: all or, if one changed since we looked, none."""
    if not steps:
        return
    try:
        await place.view("read-tree", "-m", "-u", found.tree, goal)
    except GitFailed as error:
        raise Refused(f"a file changed at this very moment, so nothing was written ({error.stderr})") from error
    for path, step in steps.items():
        mode = permissions.get(path)
        is_program = step.new_mode == "100755"
        if step.status != "D" and mode is not None and step.new_mode != "120000" and bool(mode & 0o100) == is_program:
            with contextlib.suppress(OSError):
                os.chmod(os.path.join(place.root, path), mode)
    now = await checkout.list_blobs(place, (await snapshot.take(place, cap)).tree)
    wrong = [
        path
        for path, step in steps.items()
        if step.status != "D" and now.get(path, (step.new_mode, step.new)) != (step.new_mode, step.new)
    ]
    if wrong:
        raise Refused(f"these files changed while they were written: {', '.join(sorted(wrong)[:5])}")


async def merge(place: Worktree, base: str, ours: str, theirs: str) -> tuple[str, tuple[str, ...]]:
    """Two trees that come from a third, as one; or the paths in which they do not agree."""
    if ours in (base, theirs):
        return theirs, ()
    if base == theirs:
        return ours, ()
    root = loose_object.write_commit(place, base, [], b"base\n")
    sides = [loose_object.write_commit(place, tree, [root], b"side\n") for tree in (ours, theirs)]
    flags = ("-c", "merge.renames=false", "-c", "merge.conflictStyle=merge")
    argv = ("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages")
    exit_code, answer, stderr = await place.view.run(*flags, *argv, *sides)
    if exit_code > 1:
        raise GitFailed(argv, exit_code, stderr)
    tree, *names = answer.decode("utf-8", "surrogateescape").split("\0")
    if exit_code == 0:
        return tree, ()
    return tree, tuple(dict.fromkeys(name for name in names if name))[:CONFLICTS_MAX]
