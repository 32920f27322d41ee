"""The way back to a checkpoint: undoable, and never at the cost of a file that somebody could not see.

First a safety checkpoint, then one switch of all differing files by git itself (which refuses as a whole if one changed
meanwhile), then what git cannot hold, HEAD and index, and at last a fresh look that must show the checkpoint. Killed at
any moment, it is simply asked for again.
"""

import contextlib
import os
from dataclasses import dataclass, field

from detent.agents.coding.workspace import checkpoint_record, difference, head, rollback_plan, snapshot
from detent.agents.coding.workspace.checkpoint_record import HEADS, Checkpoint, CheckpointFacts
from detent.agents.coding.workspace.difference import Change
from detent.agents.coding.workspace.file_listing import Ground, parents
from detent.agents.coding.workspace.git_command import GitFailed
from detent.agents.coding.workspace.moved_aside import Aside, bring_back, pin, rescue, unseen_in_the_way
from detent.agents.coding.workspace.rollback_plan import RollbackPlan
from detent.agents.coding.workspace.snapshot import Snapshot
from detent.agents.coding.workspace.work_tree import Worktree, find_nested, git_dir_of
from detent.errors import DetentError, Refused

ROUNDS_MAX = 12


class RollbackFailed(DetentError):
    """The operator's move: the work tree is not what the checkpoint says; the undo id leads back."""

    def __init__(self, problem: str, undo: Checkpoint) -> None:
        self.undo = undo
        super().__init__(f"{problem}; what was there before is checkpoint {undo.id}")


@dataclass(frozen=True)
class Rollback:
    """A work tree put back: how to undo that, what changed, what was saved from being lost, what was left."""

    target: Checkpoint
    undo: Checkpoint
    changed: tuple[Change, ...]
    rescued: tuple[str, ...]  # refs
    left: tuple[str, ...]  # what stays, because the checkpoint could not see whether it was there
    notes: tuple[str, ...]


@dataclass
class _Way:
    place: Worktree
    target: CheckpointFacts
    undo: Checkpoint
    aside: Aside
    rescued: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


async def roll_back(place: Worktree, target: CheckpointFacts, cap_bytes: int) -> Rollback:
    """Bring the work tree to a checkpoint; the caller holds the lock."""
    if target.home != place.name:
        raise Refused(f"{target.checkpoint.id} is a checkpoint of {target.worktree}, not of {place.root}")
    head.check_index_lock(place)
    found = await snapshot.take(place, cap_bytes)
    for inner in found.nested.values():
        head.check_index_lock(inner)
    undo = await checkpoint_record.write(
        place, target.checkpoint.run, f"before the rollback to {target.checkpoint.id}", found
    )
    way = _Way(place, target, undo, Aside(place, undo))
    before = found
    for number in range(ROUNDS_MAX):
        todo = await rollback_plan.make(place, found, target)
        if number and any(step.status in "MT" for step in todo.steps.values()):
            raise RollbackFailed(f"files changed during the rollback: {_some(todo.needed)}", undo)
        has_moved = await _apply(way, found, todo, number)
        if number and not has_moved:
            break
        found = await snapshot.take(place, cap_bytes)
    else:
        raise RollbackFailed("the work tree did not come to rest", undo)
    if todo.steps:
        raise RollbackFailed(f"these files are not what the checkpoint says: {_some(set(todo.steps))}", undo)
    _report(way, before, todo)
    changed = await difference.changes(place, undo.tree, found.tree)
    left, notes = tuple(sorted(todo.kept | todo.kept_folders)), tuple(dict.fromkeys(way.notes))
    return Rollback(target.checkpoint, undo, tuple(changed), tuple(way.rescued), left, notes)


async def _apply(way: _Way, found: Snapshot, todo: RollbackPlan, number: int) -> bool:
    """Do what the plan says; whether there was anything to do."""
    if number and todo.steps:  # files that came to light only now: no checkpoint holds them yet
        way.rescued.append(await pin(way.place, way.undo, found.tree, number))
    has_moved = await _clear(way, todo, number)
    if todo.steps:
        _open_folders(way.place, found, todo)
        await _switch(way, found, todo, number)
        has_moved = True
    way.notes += way.aside.settle()
    if number == 0:
        await _restore_heads(way)
    has_moved |= _make_folders(way, todo)
    return await _set_permissions(way, found, todo) or has_moved


async def _clear(way: _Way, todo: RollbackPlan, number: int) -> bool:
    """Move aside what is in the way, after a ref holds it."""
    place = way.place
    for path in sorted(todo.new_repositories):
        if os.path.lexists(os.path.join(place.root, path, ".git")):
            way.aside.move(f"{path}/.git")
    files, whole = unseen_in_the_way(place.root, todo.needed, todo.known, todo.missing_folders)
    storable = sorted(path for path in files if _is_storable(place, path))
    if storable:
        ref = await rescue(place, way.undo, storable, ROUNDS_MAX + number)
        way.rescued.append(ref)
        way.notes.append(f"ignored or uncaptured files were in the way and are kept in {ref}: {_some(set(storable))}")
    for path in sorted(files):
        way.aside.move(path, is_kept=path in storable)
    for path in sorted(whole):
        if os.path.lexists(os.path.join(place.root, path)):
            way.aside.move(path)
    return bool(files or whole or todo.new_repositories)


def _is_storable(place: Worktree, path: str) -> bool:
    full = os.path.join(place.root, path)
    is_name = all(part.lower() != ".git" for part in path.split("/")) and not path.endswith(".gitmodules")
    return is_name and (os.path.islink(full) or (os.path.isfile(full) and os.access(full, os.R_OK)))


async def _switch(way: _Way, found: Snapshot, todo: RollbackPlan, number: int) -> None:
    """Let git switch the files: all or, if one changed since the snapshot, none."""
    try:
        await way.place.view("read-tree", "-m", "-u", found.tree, todo.tree)
    except GitFailed as error:
        refusals = ("not uptodate", "would be overwritten", "would be removed", "would lose untracked")
        if not any(words in error.stderr for words in refusals):
            raise RollbackFailed(f"git could not switch the files ({error.stderr})", way.undo) from error
        if number:
            raise RollbackFailed(f"files changed during the rollback ({error.stderr})", way.undo) from error
        way.aside.put_back()
        raise Refused(f"a file changed at this very moment, so nothing was rolled back ({error.stderr})") from error


def _open_folders(place: Worktree, found: Snapshot, todo: RollbackPlan) -> None:
    """Let git write into folders that are closed to their owner; their permissions are set afterwards."""
    closed = {path for path, mode in found.permissions.items() if mode & 0o700 != 0o700}
    if closed:
        for path in {parent for step in todo.steps for parent in parents(step)} & closed:
            with contextlib.suppress(OSError):
                os.chmod(os.path.join(place.root, path), found.permissions[path] | 0o700)


async def _restore_heads(way: _Way) -> None:
    """HEAD, branch and index of the work tree and of each repository inside."""
    place, target = way.place, way.target
    if place.has_git and (target.head.ref or target.head.commit):  # else it is of a copy, which has none of its own
        await _restore_one(way, place, target.head, target.raw_index, "this repository")
    for path, inner in target.nested.items():
        full, ground = os.path.join(place.root, path), Ground(place.root)
        is_free = all(ground.is_folder(up) or ground.stat(up) is None for up in (path, *parents(path)))
        if is_free and git_dir_of(full) is None:
            bring_back(place, f"{path}/.git", target.checkpoint)
        found = await find_nested(place, full) if Ground(place.root).is_folder(path) else None
        if found is None:
            way.notes.append(f"`{path}` was a repository and its git dir is gone: only files were put back")
            continue
        if inner.is_pinned and not await head.commit_of(found, checkpoint_record.pin_of(target.checkpoint)):
            way.notes.append(f"`{path}` is another repository now: only files were put back")
            continue
        await _restore_one(way, found, inner.head, inner.raw_index, f"`{path}`")


async def _restore_one(way: _Way, place: Worktree, wanted: head.Head, raw: str, who: str) -> None:
    if head.operations(place) != wanted.operations:
        way.notes.append(
            f"{who}: a merge, rebase or the like began or ended since the checkpoint, so only files were put back; "
            "HEAD, branch and index are as they were"
        )
        return
    keep = f"{HEADS}/{way.undo.run}/{way.undo.seq}"
    notes = await head.restore_head(place, wanted, keep, who)
    if not notes:
        body = await way.place.view("cat-file", "blob", raw) if raw else None
        notes = await head.restore_index(place, body, who)
    way.notes += notes


def _make_folders(way: _Way, todo: RollbackPlan) -> bool:
    """Folders without files: those missing made, those to spare removed as far as they are empty."""
    has_moved = False
    ground = Ground(way.place.root)  # a fresh one each time: nothing may be done through a link that came just now
    for folder in sorted(todo.missing_folders):
        is_free = all(ground.is_folder(up) or ground.stat(up) is None for up in parents(folder))
        if is_free and ground.stat(folder) is None:
            with contextlib.suppress(OSError):
                os.makedirs(os.path.join(way.place.root, folder))
                has_moved = True
    for folder in sorted(todo.spare_folders, reverse=True):
        if ground.is_folder(folder):
            with contextlib.suppress(OSError):
                os.rmdir(os.path.join(way.place.root, folder))
                has_moved = True
    return has_moved


async def _set_permissions(way: _Way, found: Snapshot, todo: RollbackPlan) -> bool:
    touched = {path for path, step in todo.steps.items() if step.status != "D"} | todo.settled
    wanted = await rollback_plan.permissions(way.place, found, way.target, touched)
    has_moved = False
    for path in sorted(wanted, reverse=True):
        try:
            os.chmod(os.path.join(way.place.root, path), wanted[path])
            has_moved = True
        except OSError as error:
            way.notes.append(f"the permissions of `{path}` could not be set to {wanted[path]:o} ({error.strerror})")
    return has_moved


def _report(way: _Way, before: Snapshot, todo: RollbackPlan) -> None:
    """Say what a checkpoint does not hold and therefore did not come back."""
    if todo.kept:
        way.notes.append(f"left alone, because the checkpoint could not see them: {_some(todo.kept)}")
    now = {item.path: item for item in before.uncaptured}
    for item in way.target.checkpoint.uncaptured:
        present = now.get(item.path)
        if present is None or (present.size, present.mtime_ns) != (item.size, item.mtime_ns):
            way.notes.append(f"`{item.path}` changed since and could not be put back: it was {item.why}")


def _some(paths: set[str]) -> str:
    names = sorted(paths)
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
