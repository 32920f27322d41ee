"""The effects of EXECUTING and AUTO_FIX: baseline, the next step, checkpoint, restore, worker, verification.

The worker's is the only irreversible one. After a crash its probe ends what it left running and says `interrupted`; the
verification that follows decides whether the tree is good as it is. All others are simply done again.
"""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from detent.agents.coding import (
    active_context,
    check,
    known_failure,
    lifecycle,
    plan,
    planning,
    prompt,
    verification,
    worker_process,
    worker_registry,
)
from detent.agents.coding import settings as configuration
from detent.agents.coding.check_result import Evidence
from detent.agents.coding.clean_checkout import list_outside
from detent.agents.coding.delivery import discard_copies
from detent.agents.coding.effect_context import Stage, folder_of, now, open_copy, open_repository, set_stage
from detent.agents.coding.git_backup import Guard, describe_games, read_steering
from detent.agents.coding.job import FINAL, Job, add_note, job_of, update_task
from detent.agents.coding.job_sandbox import arrange, find_shared, include
from detent.agents.coding.knowledge import describe_knowledge
from detent.agents.coding.lifecycle import TreeFindings
from detent.agents.coding.planning import digest_of, write_plan
from detent.agents.coding.port import Assignment, WorkerReport, limits_of, usage_of
from detent.agents.coding.settings import CheckStep
from detent.agents.coding.workspace import checkout, checkpoint_record
from detent.agents.coding.workspace.landing import MadeTree
from detent.core.contract import Contract
from detent.core.effect_type import EffectFailed, Outcome, effect
from detent.errors import Refused

SUMMARY_MAX = 4000


@effect("code.baseline", kind="idempotent", timeout_s=0.0)
async def baseline(contract: Contract) -> Outcome:
    """Keep the tree as it was before the job, and find out what was already wrong with it."""
    async with set_stage(contract) as stage:
        before = stage.job
        job = lifecycle.attend(lifecycle.confirm_plan(before))
        if not job.first_checkpoint:
            job = await _begin_work(stage, job)
        found = await verification.measure(stage.renew(job), contract.key, job.base or job.first_tree)
        if found.environment:
            return stage.conclude(lifecycle.block(job, "environment", found.environment), since=before)
        wrong = sum(step.failed for step in found.steps)
        told = f"baseline: {found.counted}{_were_wrong(job, found)}"
        after = replace(add_note(job, now(), told), baseline=found)
        judges = await asyncio.to_thread(planning.find_judges, job)
        if job.plan is not None and job.plan.judges and judges != job.plan.judges:
            after = add_note(after, now(), f"what judges is not as the plan showed it: {', '.join(judges)}")
        after = lifecycle.ask_what_is_missing(after, now())
        if after.verdict == "BREAKER_OPEN":
            return stage.conclude(after, since=before)
        return stage.outcome(after, {"tests": found.tests, "failures": wrong}, since=before)


async def _begin_work(stage: Stage, job: Job) -> Job:
    """Keep the user's tree as it is, and make the copy of it that the worker works in."""
    first = await stage.users.checkpoint(stage.run_id, "before the job")
    job = replace(job, first_checkpoint=first.id, first_tree=first.tree, last_checkpoint=first.id, base=first.tree)
    if job.settings.workspace.use == "in_place":
        return job
    await asyncio.to_thread(discard_copies, job.root, stage.run_id)
    copy = open_copy(stage.users, stage.folder)
    site = arrange(job.root, copy.root, job.settings)
    facts = await checkpoint_record.facts(stage.users.place, first)
    await checkout.make_copy(stage.users.place, copy.place, facts, is_linked=site.is_mounted)
    await asyncio.to_thread(include, job.root, copy.root, job.settings.workspace.include)
    if site.why_open:
        job = add_note(job, now(), f"the worker runs without a sandbox, in {copy.root}: {site.why_open}")
    shared = find_shared(job.root, copy.root, job.settings)
    if shared:
        job = add_note(job, now(), f"shown to the worker and the checks, read-only: {', '.join(shared[:5])}")
    return replace(job, workspace=str(Path(copy.root).relative_to(job.root)))


def _were_wrong(job: Job, found: Evidence) -> str:
    """What failed before the job, and whether somebody is to mend it."""
    if not found.steps:
        return "there are no checks"
    failing = [test for step in found.steps for test in step.failing_ids]
    if not failing and all(step.is_green for step in found.steps):
        return "all green"
    tasks = job.plan.body.tasks if job.plan else ()
    strict = {test for step in found.steps if step.is_strict for test in step.failing_ids}
    meant = [t for t in failing if t in strict or any(known_failure.is_meant(t, task.mends) for task in tasks)]
    other = [test for test in failing if test not in meant]
    parts = [f"to be mended: {_some(meant)}"] if meant else []
    parts += [f"failing already and not held against the job: {_some(other)}"] if other else []
    return "; ".join(parts) or "red already, without saying where"


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


@effect("code.next", kind="idempotent", timeout_s=0.0)
async def choose(contract: Contract) -> Outcome:
    """Take in what people said and edited, and choose the next step."""
    async with set_stage(contract) as stage:
        before, asked = stage.job, stage.job.asked
        job = lifecycle.hear(stage.job, now())
        if asked is not None and asked.name in ("HUMAN_INTERVENTION", "RETRY_TASK"):
            job = await _read_settings_again(stage, job, contract.key)
        if asked is not None and asked.name == "HUMAN_INTERVENTION" and job.workspace:
            job = await _include_more(stage, job, asked.data, contract.key)
            job = await _take_in_edits(stage, job, contract.key)
        hand = active_context.project(stage.job, stage.run_id, stage.state)
        job = replace(job, scratchpad=hand.scratchpad)
        edits = active_context.take_edits(stage.folder)
        if edits and asked is not None and asked.name == "USER_CONFIRM":
            told = "edits of the task queue from before your Go are not part of the plan that you confirmed"
            job, edits = add_note(job, now(), told), ()
        job = _apply_edits(stage, job, edits)
        job = await commit_verified(stage, job)
        tree, changed = "", list[str]()
        if lifecycle.wants_tree(job):
            tree = await stage.repository.tree_id()
            since = job.progress(job.step.task).tree if job.step.task else ""
            changed = await stage.list_changed(since, tree) if since else []
        return stage.conclude(lifecycle.choose(job, tree, changed), since=before)


async def _read_settings_again(stage: Stage, job: Job, key: str) -> Job:
    """A person who was asked for help may have helped in the settings; what is checked otherwise has a new baseline."""
    found, names = configuration.read_again(Path(job.root), job.settings, job.read_worker)
    if not names:
        return job
    job = add_note(replace(job, settings=found), now(), f"settings read again: {', '.join(names)}")
    if "verify" in names and job.baseline is not None:
        base = job.base or job.first_tree
        job = replace(job, baseline=await verification.measure(stage.renew(job), key, base))
    return job


async def _include_more(stage: Stage, job: Job, said: dict[str, Any], key: str) -> Job:
    """A person has named what tests need of their own tree: the copy gets it, and the baseline is measured again."""
    chosen = job.settings.workspace
    more = {name: [str(one) for one in said.get(name) or () if one] for name in ("include", "services")}
    if not any(more.values()):
        return job
    chosen = replace(
        chosen, include=[*chosen.include, *more["include"]], services=[*chosen.services, *more["services"]]
    )
    job = replace(job, settings=replace(job.settings, workspace=chosen))
    await asyncio.to_thread(include, job.root, stage.repository.root, chosen.include)
    job = add_note(job, now(), f"given to the checks as well: {_some([*more['include'], *more['services']])}")
    return replace(job, baseline=await verification.measure(stage.renew(job), key, job.base or job.first_tree))


async def _take_in_edits(stage: Stage, job: Job, key: str) -> Job:
    """A person had a hand in it, in their own tree: what they changed comes into the copy, and wins where both did."""
    theirs = await stage.users.checkpoint(stage.run_id, "what a person changed")
    if theirs.tree == job.base:
        return job
    done = await stage.repository.land(stage.run_id, job.base, MadeTree(theirs.tree), wins=True)
    paths = await stage.list_changed(job.base, theirs.tree)
    job = replace(job, base=theirs.tree)
    told = f"taken in from your tree: {_some(paths)}"
    if done.conflicts:
        told += f"; yours instead of the worker's: {_some(list(done.conflicts))}"
    job = add_note(job, now(), told)
    return replace(job, baseline=await verification.measure(stage.renew(job), key, theirs.tree))


async def commit_verified(stage: Stage, job: Job) -> Job:
    """Commit what verified tasks have changed, if the settings want that: the trees that the evidence is about."""
    policy = "branch" if job.workspace and job.settings.workspace.land == "branch" else job.settings.commit
    for task_id, progress in job.tasks.items():
        is_open = progress.status != "DONE" or progress.commit or not progress.tree or progress.evidence is None
        if policy == "none" or is_open or progress.evidence is None:
            continue
        if policy == "in_place" and job.workspace:
            continue  # when it has landed
        after, message = progress.evidence.tree, f"{task_id}: {job.title(task_id)}\n\n{progress.summary}"
        paths = await stage.list_changed(progress.tree, after)
        try:
            if policy == "branch":
                done = await stage.users.commit_on_branch(stage.run_id, progress.tree, after, message, paths)
            else:
                done = await stage.repository.commit_in_place(progress.checkpoint, after, message, paths)
            word = f"{done.id[:12] or 'nothing new'} on {done.ref.removeprefix('refs/heads/')}"
            left = f"; not committed: {', '.join(done.skipped[:10])}" if done.skipped else ""
            job = add_note(
                update_task(job, task_id, commit=done.id or word), now(), f"{task_id} committed: {word}{left}", task_id
            )
        except Refused as error:
            job = add_note(update_task(job, task_id, commit=str(error)), now(), str(error), task_id)
    return job


def _apply_edits(stage: Stage, job: Job, edits: tuple[active_context.TaskEdit, ...]) -> Job:
    """Apply what people did to open tasks in the page; what cannot be is left, and said in the history."""
    if job.plan is None or not edits:
        return job
    tasks = {task.id: task for task in job.plan.body.tasks}
    for edit in edits:
        is_open = job.progress(edit.id).status == "PENDING"
        if edit.what == "added" and edit.id not in tasks:
            tasks[edit.id] = plan.Task(edit.id, edit.title, edit.priority)
        elif edit.what == "changed" and edit.id in tasks and is_open:
            tasks[edit.id] = replace(tasks[edit.id], title=edit.title, priority=edit.priority)
        elif edit.what == "removed" and is_open:
            tasks.pop(edit.id, None)
    try:
        body = plan.check_plan(replace(job.plan.body, tasks=tuple(tasks.values())))
    except Refused as error:
        return add_note(job, now(), f"edits of the task queue were not taken: {error}")
    if body == job.plan.body:
        return job
    planned = replace(job.plan, body=body, digest=digest_of(job, body), revision=job.plan.revision + 1)
    job = lifecycle.confirm_plan(replace(job, plan=planned))
    write_plan(job, stage.run_id)
    return add_note(job, now(), f"{len(edits)} edits of the task queue were taken")


@effect("code.repair", kind="idempotent", timeout_s=60.0)
async def repair(contract: Contract) -> Outcome:
    """Begin the next repair."""
    async with set_stage(contract) as stage:
        return stage.conclude(lifecycle.repair(stage.job))


@effect("code.checkpoint", kind="idempotent", timeout_s=0.0)
async def checkpoint(contract: Contract) -> Outcome:
    """Keep the tree before an attempt."""
    async with set_stage(contract) as stage:
        job, step = stage.job, stage.job.step
        taken = await stage.checkpoint(f"before attempt {step.attempt} at {step.task}")
        word = await stage.fingerprint(job.first_tree, taken.tree)
        for task in step.beside or (step.task,):
            if not job.progress(task).checkpoint:
                job = update_task(job, task, checkpoint=taken.id, tree=taken.tree, base=job.base)
        job = replace(job, step=replace(step, checkpoint=taken.id, before=word), last_checkpoint=taken.id)
        return stage.outcome(job, {"checkpoint": taken.id})


@effect("code.rollback", kind="idempotent", timeout_s=0.0)
async def restore(contract: Contract) -> Outcome:
    """Put the tree back to where the job wants it."""
    async with set_stage(contract) as stage:
        job = stage.job
        target = await stage.repository.resolve(job.restore, stage.run_id)
        done = await stage.repository.rollback(target)
        job = add_note(job, now(), f"restored {target.id}; undo: {done.undo.id}", job.step.task)
        base = next((one.base for one in job.tasks.values() if one.checkpoint == job.restore and one.base), job.base)
        job = replace(job, base=base)
        return stage.outcome(replace(job, restore="", undo=done.undo.id), {"restored": target.id, "undo": done.undo.id})


def _attempt_folder(contract: Contract, job: Job) -> Path:
    return folder_of(job.root, str(contract.input.get("run", ""))) / "attempts" / job.step.key


async def probe(contract: Contract) -> Outcome:
    """After a crash: end what the worker left running; the checks will say what its tree is worth."""
    job = job_of(contract.input["job"])
    folder = _attempt_folder(contract, job)
    await asyncio.to_thread(worker_process.sweep, folder, contract.key)
    if not worker_process.has_begun(folder):
        raise EffectFailed("the worker had not been started")
    active_context.put_back(job.root, str(contract.input.get("run", "")))
    report = {"ended": "interrupted", "error": "it was interrupted"}
    after = update_task(job, job.step.task, attempts=job.step.attempt)
    names = ["step", "tasks"]
    if not job.workspace:
        guard = Guard((await open_repository(job.root)).place)
        await asyncio.to_thread(guard.repair)
        after = await _put_git_back(after, guard, folder)
        names += ["log"] if after.log != job.log else []
    patched = msgspec.to_builtins(replace(after, step=replace(job.step, report=report)))
    return Outcome(report, patch={name: patched[name] for name in names})


@effect("code.work", kind="irreversible", timeout_s=0.0, settle_s=0.0, scope="run", reconcile=probe)
async def work(contract: Contract) -> Outcome:
    """Let the worker make one attempt, within its limits; when this is done no process of it is left."""
    try:
        return await _run_worker(contract)
    except Exception as error:
        if _has_begun(contract):
            raise  # its tree may be anything; the probe looks
        raise EffectFailed(f"the worker was not started: {error}") from error


def _has_begun(contract: Contract) -> bool:
    """Whether a worker of this attempt was ever started: that is written down before it exists."""
    try:
        return worker_process.has_begun(_attempt_folder(contract, job_of(contract.input["job"])))
    except msgspec.ValidationError:
        return False


async def _run_worker(contract: Contract) -> Outcome:
    async with set_stage(contract, is_projected=False) as stage:
        guard = Guard(stage.users.place)
        await asyncio.to_thread(guard.keep)
        own = Path(stage.repository.root) / ".git"
        steering = await asyncio.to_thread(read_steering, own) if stage.job.workspace else {}
        begun = now()
        report = await attempt(stage, _attempt_folder(contract, stage.job), contract.key)
        damage = await asyncio.to_thread(guard.repair)
        active_context.put_back(stage.job.root, stage.run_id)
        job = add_report(stage.job, report, round(now() - begun, 3), damage)
        if damage:
            job = add_note(job, now(), job.step.report["summary"], job.step.task)
        if not job.workspace:
            job = await _put_git_back(job, guard, _attempt_folder(contract, job))
        elif games := await asyncio.to_thread(describe_games, own, steering):
            job = add_note(job, now(), games, job.step.task)
        return stage.outcome(job, job.step.report, usage_of(report))


async def _put_git_back(job: Job, guard: Guard, folder: Path) -> Job:
    """After an attempt in the user's own tree: what steers their git is as it was before it."""
    aside = folder / "git"
    changed = await asyncio.to_thread(guard.put_back, aside)
    told = f"the worker changed these in `.git`; they were put back, its own are in {aside}: {_some(changed)}"
    return add_note(job, now(), told, job.step.task) if changed else job


async def attempt(stage: Stage, folder: Path, key: str) -> WorkerReport:
    """Let the worker do the task under way, in the tree of this stage."""
    job, step = stage.job, stage.job.step
    since = job.progress(step.task).checkpoint
    diff = await stage.repository.diff(since) if since and step.attempt > 1 else ""
    left = 0.0
    if job.settings.budget.cost_usd:
        left = max(0.01, job.settings.budget.cost_usd - job.spent.cost_usd)
    progress, task = job.progress(step.task), lifecycle.task_of(job, step.task)
    site = arrange(job.root, stage.repository.root, job.settings, list_outside(stage.users.place))
    assignment = Assignment(
        run_id=stage.run_id,
        task_id=step.task,
        attempt=step.attempt,
        root=site.seen,
        tree=site.folder,
        project=job.root,
        folder=str(folder),
        prompt=prompt.for_worker(job, diff, await asyncio.to_thread(describe_knowledge, job.root)),
        failures=tuple(msgspec.to_builtins(fault) for fault in lifecycle.to_mend(job, task)),
        limits=limits_of(job.settings.limits, left),
        session=progress.session,
        key=key,
        checks=tuple(list_checks(job)),
        protected=tuple(job.settings.all_protected),
        changeable=(*task.files, *progress.allow),
        sandbox=site.wish,
    )
    return await worker_registry.hire(job.settings.worker).work(assignment, stage.hear)


def add_report(job: Job, report: WorkerReport, seconds: float, damage: str = "") -> Job:
    """The job with what the worker said and used, as far as the lifecycle needs it."""
    step = job.step
    said: dict[str, Any] = {
        "status": report.status,
        "ended": report.ended,
        "exit": report.exit,
        "error": report.error[:SUMMARY_MAX],
        "question": report.question[:SUMMARY_MAX],
        "summary": report.summary[:SUMMARY_MAX],
        "environment": report.environment,
        "seconds": seconds,
        "swept": report.swept,
        "output": report.output_file,
    }
    if damage:
        said.update(status="blocked", summary=f"the worker damaged the repository itself: {damage}")
    before = job.progress(step.task)
    job = update_task(
        job,
        step.task,
        attempts=step.attempt,
        summary=said["summary"] or before.summary,
        question=said["question"],
        session=report.session,
        cost_usd=before.cost_usd + report.cost_usd,
        seconds=round(before.seconds + seconds, 3),
    )
    spent = replace(
        job.spent,
        cost_usd=job.spent.cost_usd + report.cost_usd,
        tokens=job.spent.tokens + report.tokens,
        unpriced_calls=job.spent.unpriced_calls + report.unpriced_calls,
        seconds=round(job.spent.seconds + seconds, 3),
    )
    return replace(job, step=replace(step, report=said), spent=spent)


def list_checks(job: Job) -> list[CheckStep]:
    """The checks that decide about the task under way."""
    if job.step.task == FINAL:
        return list(job.settings.verify)
    steps = [item for item in job.settings.verify if item.when == "task"]
    own = lifecycle.task_of(job, job.step.task).verify
    return [*steps, CheckStep(check.OWN_STEP, own, baseline="strict")] if own else steps


@effect("code.verify", kind="idempotent", timeout_s=0.0)
async def verify(contract: Contract) -> Outcome:
    """Run the checks on the tree as it is and say what that means: the only way to be done."""
    async with set_stage(contract) as stage:
        job, step = stage.job, stage.job.step
        hopeless = lifecycle.find_stop(job)
        if hopeless is not None:
            return stage.conclude(lifecycle.block(job, *hopeless, step.task))
        found, after = await judge(stage, contract.key)
        if after.verdict in ("FIX_SUCCESS", "TASK_VERIFIED"):
            active_context.json_file(stage.folder / "evidence" / f"{step.task}.json", msgspec.to_builtins(found))
        return stage.conclude(after, {"verdict": after.verdict, "tree": found.tree, "tests": found.tests})


async def judge(stage: Stage, key: str) -> tuple[Evidence, Job]:
    """Check the tree of this stage as it is: the evidence, and what it means for the task under way."""
    job, step = stage.job, stage.job.step
    approved = tuple({name for progress in job.tasks.values() for name in progress.approved})
    found = await verification.verify(stage, list_checks(job), step.mode, key, approved)
    spent = replace(job.spent, seconds=round(job.spent.seconds + found.seconds, 3))
    since = job.progress(step.task).tree
    word, lines, changed, differing = await asyncio.gather(
        stage.fingerprint(job.first_tree, found.tree),
        stage.lines(job.first_tree, found.tree),
        stage.list_changed(since or found.tree, found.tree),
        stage.list_changed(job.base or job.first_tree, found.tree),
    )
    theirs = tuple(set(changed).difference(differing)) if job.workspace else ()
    seen = TreeFindings(word, tuple(changed), lines, now(), theirs)
    return found, lifecycle.judge(replace(job, spent=spent), found, seen)
