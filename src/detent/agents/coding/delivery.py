"""What a job has made comes to the user: landed in their tree, committed as the settings say, or taken back."""

import contextlib
from pathlib import Path

from msgspec.structs import replace

from detent.agents.coding.check_result import matching
from detent.agents.coding.effect_context import Stage, now
from detent.agents.coding.job import Blocked, Job, Landed, add_note, update_task
from detent.agents.coding.workspace import checkout, difference
from detent.agents.coding.workspace.landing import LABEL, MadeTree
from detent.agents.coding.workspace.snapshot import Snapshot
from detent.errors import Refused


async def deliver(stage: Stage, job: Job, since: float = 0.0, verified: str = "") -> Job:
    """Bring the copy's tree into the user's; what cannot be merged blocks the job, and then nothing was written.

    With `verified` it must still be this tree.
    """
    if not job.workspace or job.landed is not None:
        return job
    if job.settings.workspace.land == "branch":
        return add_note(
            replace(job, landed=Landed()), now(), f"on the branch detent/{stage.run_id}; your tree is as it was"
        )
    found = await stage.repository.look()
    if verified and found.tree != verified:
        told = (
            f"the files in {Path(job.root) / job.workspace} changed after they were verified; have them checked again"
        )
        return replace(job, blocked=Blocked("changed", told))
    made = await read_made(stage, job, found)
    users = stage.users
    is_staged = job.settings.workspace.land == "staged" and users.has_git
    dirty = await users.list_dirty() if is_staged else set[str]()
    done = await users.land(stage.run_id, job.base, made)
    if done.conflicts:
        shown = ", ".join(done.conflicts[:10])
        told = (
            f"you and the worker changed the same lines, so nothing was written into your tree: {shown}; "
            f"the worker's files are in {Path(job.root) / job.workspace}"
        )
        return replace(job, blocked=Blocked("conflict", told))
    known = [item for item in await users.checkpoints(stage.run_id) if item.label == LABEL and item.at >= int(since)]
    first = known[0] if known else done.undo  # a crash may have left an earlier one, from before anything was written
    steps = await difference.steps(users.place, job.base, made.tree)
    before = first.tree if first is not None else done.before
    landed = Landed(before, done.after, first.id if first else "", tuple(sorted(steps)), done.theirs)
    job = add_note(replace(job, landed=landed), now(), f"landed: {len(steps)} files")
    if found.uncaptured:
        names = ", ".join(f"{item.path} ({item.why})" for item in found.uncaptured[:5])
        job = add_note(job, now(), f"left in the copy: {names}")
    if done.theirs:
        names = ", ".join(done.theirs[:5]) + (f" and {len(done.theirs) - 5} more" if len(done.theirs) > 5 else "")
        job = add_note(job, now(), f"you changed these meanwhile, and what was verified is without them: {names}")
    if is_staged:
        job = await _stage_landed(stage, job, landed, dirty)
    return await _commit_landed(stage, job)


async def _stage_landed(stage: Stage, job: Job, landed: Landed, dirty: set[str]) -> Job:
    """Put what has landed into the index, except files that held edits of the user's which are not in it."""
    paths = tuple(path for path in landed.written if path not in dirty)
    await stage.users.stage(paths)
    told = f"staged: {len(paths)} files"
    left = [path for path in landed.written if path in dirty]
    if left:
        told += f"; not staged, because you have edits in them: {', '.join(left[:5])}"
    return add_note(replace(job, landed=replace(landed, staged=paths)), now(), told)


async def read_made(stage: Stage, job: Job, found: Snapshot) -> MadeTree:
    """The copy's tree, without what tools left in it."""
    steps = await difference.steps(stage.users.place, job.base, found.tree)
    litter = {
        path: None if step.status == "A" else (step.old_mode, step.old)
        for path, step in steps.items()
        if matching([path], job.settings.all_litter)
    }
    tree = await checkout.adjust(stage.users.place, found.tree, litter)
    return MadeTree(tree, found.permissions)


async def _commit_landed(stage: Stage, job: Job) -> Job:
    """One commit for each verified task, on the current branch, if the settings want that."""
    if job.settings.commit != "in_place":
        return job
    for task_id, progress in job.tasks.items():
        if progress.status != "DONE" or progress.commit or not progress.tree or progress.evidence is None:
            continue
        trees = progress.tree, progress.evidence.tree
        paths = await stage.list_changed(*trees)
        message = f"{task_id}: {job.title(task_id)}\n\n{progress.summary}"
        try:
            done = await stage.users.commit_landed(stage.run_id, trees, message, paths)
            word = f"{done.id[:12] or 'nothing new'} on {done.ref.removeprefix('refs/heads/')}"
            left = f"; not committed: {', '.join(done.skipped[:10])}" if done.skipped else ""
            told = f"{task_id} committed: {word}{left}"
            job = add_note(update_task(job, task_id, commit=done.id or word), now(), told, task_id)
        except Refused as error:
            job = add_note(update_task(job, task_id, commit=str(error)), now(), str(error), task_id)
    return job


async def take_back(stage: Stage, job: Job) -> tuple[Job, dict[str, object]]:
    """Undo what landing wrote, where it still is as written."""
    landed = job.landed
    if landed is None or not landed.written:
        return job, {}
    done = await stage.users.take_back(stage.run_id, (landed.before, landed.after), landed.written, landed.undo)
    await stage.users.stage([path for path in landed.staged if path not in done.left])
    back = done.undo.id if done.undo else ""
    told = f"taken back: {len(done.written)} files; undo: {back}"
    if done.left:
        told += f"; left, because you changed them since: {', '.join(done.left[:5])}"
    job = add_note(replace(job, landed=None, undo=back), now(), told)
    return job, {"undo": back, "changed": len(done.written), "left": list(done.left)[:50]}


def discard_copies(root: str, spare: str = "") -> None:
    """Delete the copies of jobs that are over; their checkpoints stay, as refs.

    Not an effect of the job itself: whoever does it again after a crash would find no copy.
    """
    for folder in (Path(root) / ".detent" / "code").glob("*/"):
        for name in ("tree", "tree.view", "checkout", "checkout.view", "rules"):
            with contextlib.suppress(OSError):
                if folder.name != spare and (folder / name).is_dir():
                    checkout.remove_tree(folder / name)
