"""The effects of BLOCKED and ARCHIVING: a report that a person can act on, the way back, and the record of a job."""

import contextlib
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from detent.agents.coding import active_context, delivery, prompt
from detent.agents.coding import archive as archives
from detent.agents.coding.effect_context import Stage, now, set_stage
from detent.agents.coding.job import FINAL, Blocked, Job, add_note
from detent.agents.coding.workspace import GitFailed
from detent.core.contract import Contract
from detent.core.effect_type import Outcome, effect
from detent.errors import DetentError

REPORT = "blocked.md"
MENU = (
    ("detent code fix \"what to do\"", "I have fixed it, or here is a hint: verify first, then let the worker go on"),
    ("detent code retry", "put the task's files back and let the worker begin again"),
    ("detent code answer \"…\"", "answer the worker's question"),
    ("detent code skip", "leave this task and what depends on it out (--keep keeps its changes)"),
    ("detent code extend --cost 5 --minutes 30 --lines 500", "let the job use more"),
    ("detent code approve", "accept the changes to tests and check settings that `detent code approve --show` shows"),
    ("detent code include PATH", "give the checks files, sockets or variables that they need (--none: nothing)"),
    ("detent code abandon --keep", "end the job and keep what was done so far, unverified"),
    ("detent code rollback", "put everything back to before the task and end the job (--run: before the job)"),
)  # fmt: skip


@effect("code.report", kind="idempotent", timeout_s=120.0)
async def report(contract: Contract) -> Outcome:
    """Write down why a person is needed and what they can do; never fails."""
    async with set_stage(contract) as stage:
        job = replace(stage.job, asked=None)
        with contextlib.suppress(OSError, DetentError, GitFailed):
            active_context.write(stage.folder / REPORT, describe_end(job).encode())
        if job.blocked is not None:
            job = add_note(job, now(), f"blocked: {job.blocked.reason}: {job.blocked.detail}", job.blocked.task)
        return stage.outcome(job)


def describe_end(job: Job) -> str:
    """The report: reason, failing checks, what was changed, and the ways on."""
    blocked = job.blocked or Blocked("unknown")
    task = blocked.task or job.step.task
    lines = [f"# Blocked: {blocked.reason}", "", blocked.detail or "(no further word)", ""]
    if task:
        progress = job.progress(task)
        lines += [f"Task {task}: {job.title(task)}", ""]
        lines += [
            f"{progress.attempts} attempts, {progress.repairs} failed repairs, checkpoint {progress.checkpoint}",
            "",
        ]
        if progress.question:
            lines += ["## The worker asks", "", progress.question, ""]
        if progress.faults:
            lines += ["## Failing checks", "", prompt.failures(progress.faults), ""]
        if progress.summary:
            lines += ["## The worker said", "", progress.summary, ""]
        if progress.changed:
            lines += ["## Changed files", "", *(f"- {path}" for path in progress.changed[:50]), ""]
    lines += ["## What you can do", "", *(f"- `{command}`: {meaning}" for command, meaning in MENU), ""]
    return "\n".join(lines)


@effect("code.undo", kind="idempotent", timeout_s=0.0)
async def undo(contract: Contract) -> Outcome:
    """Roll back: to before the task, before the job, or to a checkpoint; what was there stays as a checkpoint."""
    async with set_stage(contract) as stage:
        job, asked = stage.job, stage.job.asked
        data = asked.data if asked else {}
        task = (job.blocked.task if job.blocked else "") or job.step.task
        target = str(data.get("to") or "")
        if not target:
            target = job.first_checkpoint if data.get("run") or task in ("", FINAL) else job.progress(task).checkpoint
        job = replace(job, asked=None)
        if job.workspace:
            return await _undo_copy(stage, job, target, data, contract.created_at)
        if not target and not job.first_checkpoint:
            return stage.conclude(replace(add_note(job, now(), "nothing was changed yet"), verdict="ROLLBACK"))
        try:
            goal = await stage.repository.resolve(
                target or job.first_checkpoint, None if data.get("to") else stage.run_id
            )
            label = f"before the rollback to {goal.id}"
            known = [item for item in await stage.repository.checkpoints(stage.run_id) if item.label == label]
            # One that a crash cut short has left the first safety copy; that one leads back.
            known = [item for item in known if item.at >= int(contract.created_at)]
            done = await stage.repository.rollback(goal)
        except (DetentError, GitFailed, OSError) as error:
            failed = Blocked("rollback", str(error), task)
            return stage.conclude(replace(job, verdict="ROLLBACK_FAILED", blocked=failed))
        back = known[0].id if known else done.undo.id
        job = add_note(job, now(), f"rolled back to {goal.id}; undo: {back}", task)
        job = replace(job, verdict="ROLLBACK", undo=back, last_checkpoint=goal.id)
        active_context.project(job, stage.run_id, "IDLE")
        await archives.write_ended(stage, job, "rolled_back", now())
        result = {
            "target": goal.id,
            "undo": back,
            "changed": len(done.changed),
            "left": list(done.left)[:50],
            "rescued": list(done.rescued)[:50],
            "notes": list(done.notes)[:20],
        }
        return stage.conclude(job, result)


async def _undo_copy(stage: Stage, job: Job, target: str, data: dict[str, Any], since: float) -> Outcome:
    """Undo a job that works in a copy: what has landed is taken back, what has not is left in its checkpoints.

    Tasks that were verified before the one under way land, unless the whole job is to be undone.
    """
    try:
        kept = await stage.checkpoint("before the rollback")
        result: dict[str, Any] = {"undo": kept.id, "changed": 0, "left": []}
        job = replace(job, undo=kept.id)
        if data.get("keep"):
            job = await delivery.deliver(stage, replace(job, settings=replace(job.settings, commit="none")), since)
            if job.landed is None:
                return stage.conclude(replace(job, verdict="ROLLBACK_FAILED"))
            job = replace(job, is_kept=True)
        elif job.landed is not None:
            job, told = await delivery.take_back(stage, job)
            result |= told
        elif target and target != job.first_checkpoint and not data.get("run"):
            goal = await stage.users.resolve(target, None if data.get("to") else stage.run_id)
            done = await stage.repository.rollback(goal)
            base = next((one.base for one in job.tasks.values() if one.checkpoint == goal.id and one.base), job.base)
            job = await delivery.deliver(stage, replace(job, base=base), since)
            if job.landed is None:
                return stage.conclude(replace(job, verdict="ROLLBACK_FAILED"))
            result |= {"target": goal.id, "changed": len(done.changed), "left": list(done.left)[:50]}
            job = replace(job, last_checkpoint=goal.id)
    except (DetentError, GitFailed, OSError) as error:
        return stage.conclude(replace(job, verdict="ROLLBACK_FAILED", blocked=Blocked("rollback", str(error))))
    ended = "kept what was done, although nothing vouches for it" if job.is_kept else "rolled back"
    job = add_note(job, now(), f"{ended}; what there was is checkpoint {kept.id}")
    job = replace(job, verdict="ROLLBACK")
    active_context.project(job, stage.run_id, "IDLE")
    await archives.write_ended(stage, job, replace(job, outcome="rolled_back").ending, now())
    return stage.conclude(job, result)


@effect("code.archive", kind="idempotent", timeout_s=0.0)
async def archive(contract: Contract) -> Outcome:
    """Keep the record of a finished job; without evidence for the tree as it is there is nothing to archive."""
    async with set_stage(contract) as stage:
        job = replace(stage.job, asked=None)
        plan = job.plan
        problem = ""
        if plan is None or any(job.progress(t.id).status not in ("DONE", "SKIPPED") for t in plan.body.tasks):
            problem = "there are tasks that are neither done nor skipped"
        elif job.final is None:
            problem = "there is no verification of the whole"
        try:
            if not problem:
                job = await delivery.deliver(stage, job, contract.created_at, job.final.tree if job.final else "")
                if job.workspace and job.landed is None:
                    return stage.conclude(replace(job, verdict="ARCHIVE_FAILED"))
                folder = await archives.write(stage, job)
                await stage.users.retain(spare={stage.run_id})
                shown = str(Path(folder).relative_to(job.root))
                job = add_note(replace(job, archive=shown, verdict="ARCHIVE_COMPLETE"), now(), f"archived in {shown}")
                active_context.project(job, stage.run_id, "IDLE")
                return stage.conclude(job, {"folder": shown})
        except (DetentError, GitFailed, OSError) as error:
            problem = str(error)
        return stage.conclude(replace(job, verdict="ARCHIVE_FAILED", blocked=Blocked("archive", problem)))
