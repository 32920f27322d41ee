"""Tasks marked [P], worked on at once: each in a copy of its own, checked alone, merged in order, checked together.

It saves time and may fail without harm: a task that is red, asks something, or does not fit the ones merged before it
is named, its files are kept as a checkpoint, and it is done by itself afterwards, with repairs like every other. So is
each of them after a crash.
"""

import asyncio
import shutil
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from detent.agents.coding import active_context, execution, lifecycle, parallel_schedule, worker_process
from detent.agents.coding.check_result import Evidence
from detent.agents.coding.clean_checkout import NAMES
from detent.agents.coding.effect_context import Stage, folder_of, now, open_copy, set_stage
from detent.agents.coding.git_backup import Guard
from detent.agents.coding.job import Current, Job, add_note, job_of, update_task
from detent.agents.coding.job_sandbox import arrange, include
from detent.agents.coding.port import WorkerReport, usage_of
from detent.agents.coding.workspace import GitFailed, checkout, checkpoint_record
from detent.agents.coding.workspace.landing import MadeTree
from detent.agents.coding.workspace.snapshot import Snapshot
from detent.core.contract import Contract
from detent.core.effect_type import EffectFailed, Outcome, effect
from detent.errors import DetentError

FOLDER = "beside"


class SideResult(NamedTuple):
    """What came of one task in its own copy; `problem`: why it cannot be merged."""

    task: str
    stage: Stage
    report: WorkerReport
    found: Snapshot | None = None
    evidence: Evidence | None = None
    problem: str = ""
    changed: tuple[str, ...] = ()


def _folder(root: str, run_id: str, key: str, task: str) -> Path:
    return folder_of(root, run_id) / FOLDER / key / task


def _key(contract: Contract, task: str) -> str:
    return f"{contract.key}/{task}"


async def probe(contract: Contract) -> Outcome:
    """After a crash: end what the workers left running; each task is then done by itself."""
    job, run_id = job_of(contract.input["job"]), str(contract.input.get("run", ""))
    folders = {task: _folder(job.root, run_id, job.step.key, task) for task in job.step.beside}
    for task, folder in folders.items():
        await asyncio.to_thread(worker_process.sweep, folder, _key(contract, task))
    if not any(worker_process.has_begun(folder) for folder in folders.values()):
        raise EffectFailed("the worker had not been started")
    after = replace(job, restore=job.step.checkpoint, step=Current(), verdict="ATTEMPT_INTERRUPTED")
    for task in folders:
        after = parallel_schedule.leave_alone(after, task, "it was interrupted", now())
    names = ("restore", "step", "verdict", "tasks", "log")
    patched = {name: msgspec.to_builtins(getattr(after, name)) for name in names}
    return Outcome({"ended": "interrupted"}, raises=after.verdict, patch=patched)


@effect("code.beside", kind="irreversible", timeout_s=0.0, settle_s=0.0, scope="run", reconcile=probe)
async def work_beside(contract: Contract) -> Outcome:
    """Work on several tasks at once, and merge what is good in the order of the plan."""
    async with set_stage(contract, is_projected=False) as stage:
        job = stage.job
        guard = Guard(stage.users.place)
        await asyncio.to_thread(guard.keep)
        start = await stage.users.resolve(job.step.checkpoint, stage.run_id)
        facts = await checkpoint_record.facts(stage.users.place, start)
        stages = [await _lay_out(stage, task, facts) for task in job.step.beside]
        async with asyncio.TaskGroup() as group:
            working = [group.create_task(_make(one, _key(contract, one.job.step.task))) for one in stages]
        made = [one.result() for one in working]
        await asyncio.to_thread(guard.repair)
        active_context.put_back(job.root, stage.run_id)
        after, usage = job, dict[str, float]()
        for one in made:
            after = _add_costs(after, one)
            for name, value in usage_of(one.report).items():
                usage[name] = usage.get(name, 0.0) + value
        for one in made:
            after = await _merge(stage, after, one, start.tree, contract.key)
        await asyncio.to_thread(shutil.rmtree, stage.folder / FOLDER / job.step.key, ignore_errors=True)
        merged = [one.task for one in made if after.progress(one.task).status == "DONE"]
        after = replace(after, step=Current(), verdict="TASK_VERIFIED", blocked=None)
        return stage.conclude(after, {"merged": merged}, usage)


async def _lay_out(stage: Stage, task: str, facts: checkpoint_record.CheckpointFacts) -> Stage:
    """A copy of its own for a task, and a place of its own to be judged in."""
    job = replace(stage.job, step=Current(go="work", task=task, attempt=1, key=stage.job.step.key))
    own = stage.renew(job)
    own.folder = _folder(job.root, stage.run_id, stage.job.step.key, task)
    own.repository = open_copy(stage.users, own.folder)
    own.folder.mkdir(parents=True, exist_ok=True)
    site = arrange(job.root, own.repository.root, job.settings)
    await checkout.make_copy(stage.users.place, own.repository.place, facts, is_linked=site.is_mounted)
    await asyncio.to_thread(include, job.root, own.repository.root, job.settings.workspace.include)
    names = stage.folder / NAMES
    if names.exists():
        await asyncio.to_thread(shutil.copyfile, names, own.folder / NAMES)
    return own


async def _make(stage: Stage, key: str) -> SideResult:
    """One task in its own copy: the worker, then the checks."""
    task, report, begun = stage.job.step.task, WorkerReport(), now()
    try:
        report = await execution.attempt(stage, stage.folder, key)
        job = execution.add_report(stage.job, report, round(now() - begun, 3))
        hopeless = lifecycle.find_stop(job)
        if hopeless is not None:
            return SideResult(task, stage, report, problem=f"{hopeless[0]}: {hopeless[1]}")
        found = await stage.repository.look()
        judged = stage.renew(job)
        judged.folder, judged.repository = stage.folder, stage.repository
        evidence, after = await execution.judge(judged, key)
        problem = "" if after.verdict == "TASK_VERIFIED" else _explain(after, task)
        return SideResult(task, judged, report, found, evidence, problem, after.progress(task).changed)
    except (DetentError, GitFailed, OSError) as error:
        return SideResult(task, stage, report, problem=str(error))


def _explain(job: Job, task: str) -> str:
    faults = job.progress(task).faults
    if job.blocked is not None:
        return f"{job.blocked.reason}: {job.blocked.detail}"
    return (
        f"its checks fail: {faults[0].test or faults[0].message.partition(chr(10))[0]}" if faults else "it is not done"
    )


def _add_costs(job: Job, made: SideResult) -> Job:
    """The job with what one task has used and said."""
    own = replace(job, step=replace(job.step, task=made.task, attempt=1))
    seconds = float(made.stage.job.step.report.get("seconds") or 0.0)
    spent = execution.add_report(own, made.report, seconds)
    return replace(spent, step=job.step)


async def _merge(stage: Stage, job: Job, made: SideResult, base: str, key: str) -> Job:
    """Bring one task's work into the job's copy and check it there; what does not fit is kept, told, and done again."""
    if made.problem or made.found is None:
        return parallel_schedule.leave_alone(job, made.task, made.problem or "nothing came of it", now())
    before = await stage.checkpoint(f"before {made.task} was merged")
    done = await stage.repository.land(stage.run_id, base, MadeTree(made.found.tree, made.found.permissions))
    if done.conflicts:
        kept = await made.stage.repository.checkpoint(stage.run_id, f"{made.task}, which did not fit")
        shown = ", ".join(done.conflicts[:5])
        why = f"it does not fit what was merged before it: {shown}; its files are kept as {kept.id}"
        hint = f"Another task has changed {shown} meanwhile. Build on what is there now."
        return parallel_schedule.leave_alone(job, made.task, why, now(), hint)
    own = replace(job, step=Current(go="work", task=made.task, attempt=1, key=job.step.key, report={"ended": "exited"}))
    own = update_task(own, made.task, tree=before.tree, checkpoint=before.id)
    if done.after == made.found.tree and made.evidence is not None:  # it is the first: what was checked alone is this
        return _accept(job, own, made, made.evidence, "alone")
    together = stage.renew(own)
    evidence, after = await execution.judge(together, key)
    if after.verdict == "TASK_VERIFIED":
        return _accept(job, own, made, evidence, "alone and together")
    await stage.repository.rollback(before)
    kept = await made.stage.repository.checkpoint(stage.run_id, f"{made.task}, which did not fit")
    why = f"good alone, but not together with the others: {_explain(after, made.task)}; its files are kept as {kept.id}"
    return parallel_schedule.leave_alone(job, made.task, why, now())


def _accept(job: Job, own: Job, made: SideResult, found: Evidence, how: str) -> Job:
    progress = replace(
        own.progress(made.task), status="DONE", evidence=found, faults=(), finished_at=now(), question=""
    )
    progress = replace(progress, changed=made.changed)
    told = f"{made.task} {found.word or 'verified'} {how}, beside others: {found.counted}tree {found.tree[:12]}"
    return add_note(replace(job, tasks={**job.tasks, made.task: progress}), now(), told, made.task)
