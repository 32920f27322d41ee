"""The decisions of the lifecycle, pure: what a person's word means, which task is next, what a verification says.

Nothing here looks at a clock, a file or a process; effects bring those in as values and carry the answers out.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from detent.agents.coding import check_result as evidences
from detent.agents.coding import known_failure, parallel_schedule
from detent.agents.coding.check_result import Evidence, Fault
from detent.agents.coding.job import FINAL, Blocked, Current, Job, LastWord, add_note, update_task
from detent.agents.coding.plan import Task, order
from detent.agents.coding.settings import Budget
from detent.effects.llm.price import unkept

HINTS_MAX = 20


class TreeFindings(msgspec.Struct, frozen=True):
    """What a verification found in the tree, besides the checks' own results."""

    fingerprint: str  # of all changes since the job began, litter left out
    changed: tuple[str, ...]  # since the task's checkpoint, litter left out
    changed_lines: int  # since the job began
    at: float
    theirs: tuple[str, ...] = ()  # of what changed: as it is in the user's own tree, so nobody else changed it


def task_of(job: Job, task_id: str) -> Task:
    """The task; the final verification is one too."""
    if task_id == FINAL or job.plan is None:
        return Task(FINAL, "Final verification")
    return job.plan.body.task(task_id)


def list_to_mend(job: Job, task: Task) -> tuple[str, ...]:
    """What must not fail any more, though it did before the job: what this task mends, and what others have mended."""
    tasks = job.plan.body.tasks if job.plan else ()
    others = (other.mends for other in tasks if job.progress(other.id).status == "DONE")
    return tuple(dict.fromkeys((*task.mends, *(name for names in others for name in names))))


def to_mend(job: Job, task: Task) -> tuple[Fault, ...]:
    """What a worker is shown as failing: what the last verification said, else what the task has to mend."""
    return job.progress(task.id).faults or known_failure.to_mend(job.baseline, task.mends)


def block(job: Job, reason: str, detail: str, task: str = "") -> Job:
    """Open the breaker."""
    if task:
        job = update_task(job, task, status="BLOCKED")
    return replace(job, verdict="BREAKER_OPEN", blocked=Blocked(reason, detail, task), step=Current())


def hear(job: Job, at: float) -> Job:
    """Take in what a person said when the job was blocked; afterwards nothing is asked."""
    asked = job.asked
    if asked is None:
        return job
    job = replace(job, asked=None)
    task = (job.blocked.task if job.blocked else "") or job.step.task
    if asked.name in ("HUMAN_INTERVENTION", "RETRY_TASK", "SKIP_TASK", "BUDGET_EXTENDED", "ANSWER"):
        job = add_note(job, at, f"{asked.name} by {asked.by or 'somebody'}", task)
    if asked.name == "BUDGET_EXTENDED":
        job = _extend_budget(job, asked.data)
    if asked.name == "SKIP_TASK":
        job = _skip_task(job, str(asked.data.get("task") or task), bool(asked.data.get("keep")))
    elif task:
        job = _restart_task(job, task, asked)
    return replace(job, blocked=None)


def _restart_task(job: Job, task: str, asked: LastWord) -> Job:
    """A word about one task: it gets a fresh start, with what was said."""
    progress = job.progress(task)
    said = str(asked.data.get("hint") or asked.data.get("answer") or "").strip()
    hints = (*progress.hints, said)[-HINTS_MAX:] if said else progress.hints
    allow = asked.data.get("allow")
    allowed = (*progress.allow, *(str(path) for path in allow)) if isinstance(allow, list) else progress.allow
    named = asked.data.get("approve")
    approved = (*progress.approved, *(str(name) for name in named)) if isinstance(named, list) else progress.approved
    job = update_task(job, task, status="IN_PROGRESS", question="", hints=hints, allow=allowed, approved=approved)
    if asked.name in ("HUMAN_INTERVENTION", "RETRY_TASK"):
        job = update_task(job, task, repairs=0, interruptions=0, seen=())
    if asked.name == "RETRY_TASK":
        job = replace(update_task(job, task, faults=()), restore=progress.checkpoint)
    is_ours = asked.name in ("HUMAN_INTERVENTION", "BUDGET_EXTENDED") and progress.checkpoint
    # Verify first: the person may have done it already. `choose` turns this into work where nothing has changed.
    return replace(job, step=Current(go="verify" if is_ours else "work", task=task))


def _extend_budget(job: Job, data: dict[str, Any]) -> Job:
    budget = job.settings.budget
    more = {
        name: getattr(budget, name) + type(getattr(budget, name))(data[name])
        for name in ("cost_usd", "minutes", "changed_lines")
        if isinstance(data.get(name), int | float) and getattr(budget, name)
    }
    # Whoever extends the budget knows by now which calls had no price; those to come are counted anew.
    spent = replace(job.spent, unpriced_calls=0)
    return replace(job, settings=replace(job.settings, budget=replace(budget, **more)), spent=spent)


def _skip_task(job: Job, task: str, keep: bool) -> Job:
    if task in ("", FINAL) or job.plan is None:
        return job
    tasks = job.plan.body.tasks
    restore = "" if keep else job.progress(task).checkpoint
    job = replace(update_task(job, task, status="SKIPPED"), restore=restore, step=Current())
    gone = {task}
    for other in order(tasks):
        if gone & set(other.depends) and job.progress(other.id).status not in ("DONE", "SKIPPED"):
            job = update_task(job, other.id, status="SKIPPED", summary=f"depends on {task}, which was skipped")
            gone.add(other.id)
    return job


def over_budget(job: Job, lines: int | None = None) -> str:
    """Which bound of the job is passed; empty: none."""
    budget: Budget = job.settings.budget
    spent = job.spent
    if budget.cost_usd and spent.cost_usd > budget.cost_usd:
        return f"{spent.cost_usd:.2f} USD are spent; the bound is {budget.cost_usd:.2f}"
    if budget.cost_usd and spent.unpriced_calls:
        return unkept(spent.unpriced_calls, budget.cost_usd)
    if budget.minutes and spent.seconds > budget.minutes * 60:
        return f"{spent.seconds / 60:.1f} minutes are used; the bound is {budget.minutes:g}"
    changed = spent.changed_lines if lines is None else lines
    if budget.changed_lines and changed > budget.changed_lines:
        return f"{changed} lines are changed; the bound is {budget.changed_lines}"
    return ""


def wants_tree(job: Job) -> bool:
    """Whether the next step depends on what the tree looks like now; looking costs time."""
    tasks = job.plan.body.tasks if job.plan else ()
    return job.step.go == "verify" or all(job.progress(task.id).status in ("DONE", "SKIPPED") for task in tasks)


def choose(job: Job, tree: str, changed: Sequence[str] = ()) -> Job:
    """The next step: a task, the final verification, the end, or a reason to stop.

    `tree` is the present one and `changed` what differs from the current task's checkpoint.
    """
    if job.plan is None:
        return block(job, "plan", "there is no plan")
    spent = over_budget(job)
    if spent:
        return block(job, "budget", spent, job.step.task)
    step, tasks = job.step, job.plan.body.tasks
    if step.task and step.go and job.progress(step.task).status == "IN_PROGRESS":
        if step.go == "verify" and not changed and not job.restore and step.task != FINAL:
            step = replace(step, go="work")
        return _begin(job, step.task, step.go)
    for task in order(tasks):
        progress = job.progress(task.id)
        done = all(job.progress(other).status in ("DONE", "SKIPPED") for other in task.depends)
        if progress.status in ("PENDING", "IN_PROGRESS") and done:
            beside = parallel_schedule.list_beside(job, task)
            return parallel_schedule.begin_beside(job, beside) if len(beside) > 1 else _begin(job, task.id, "work")
    stuck = [task.id for task in tasks if job.progress(task.id).status not in ("DONE", "SKIPPED")]
    if stuck:
        return block(job, "no_runnable", f"no task can run: {', '.join(stuck)}", stuck[0])
    if not any(job.progress(task.id).status == "DONE" for task in tasks):
        return block(job, "nothing_done", "every task was skipped; roll back, or start again")
    return _finish(job, tree)


def _finish(job: Job, tree: str) -> Job:
    """All tasks are done: the tree must have been verified as it is now, with the final steps too."""
    has_final = any(step.when == "final" for step in job.settings.verify)
    latest = job.final
    if latest is None and not has_final:
        done = [progress for progress in job.tasks.values() if progress.evidence is not None]
        latest = max((p.evidence for p in done if p.evidence), key=lambda found: found.at, default=None)
    if latest is not None and latest.tree == tree and not job.restore:
        return replace(job, verdict="ALL_TASKS_DONE", step=Current(), final=latest)
    return _begin(job, FINAL, "verify")


def _begin(job: Job, task: str, go: str) -> Job:
    progress = job.progress(task)
    attempt = progress.attempts + (0 if go == "verify" else 1)
    serial = job.serial + 1
    step = Current(
        go="work" if go == "work" else "verify",
        task=task,
        mode="final" if task == FINAL else "task",
        attempt=attempt,
        key=f"{serial:04d}-{task}-{attempt}",
    )
    job = update_task(job, task, status="IN_PROGRESS")
    return replace(job, step=step, serial=serial, verdict="", blocked=None)


def repair(job: Job) -> Job:
    """The next repair of the task whose verification was red."""
    spent = over_budget(job)
    if spent:
        return block(job, "budget", spent, job.step.task)
    job = _begin(job, job.step.task, "work")
    return replace(job, step=replace(job.step, is_repair=True))


def find_stop(job: Job) -> tuple[str, str] | None:
    """Why an attempt cannot be judged by the checks at all: reason and detail."""
    report = job.step.report
    if not report or report.get("ended") == "interrupted":
        return None
    if report.get("environment"):
        return "environment", str(report.get("error"))
    if report.get("ended", "exited") != "exited":
        return {"cost": "budget", "disk": "disk"}.get(str(report["ended"]), "timeout"), str(report.get("error"))
    if report.get("status") == "question":
        return "question", str(report.get("question"))
    if report.get("status") == "blocked":
        return "worker", str(report.get("summary") or "the worker says that it cannot go on")
    return None


def judge(job: Job, found: Evidence, seen: TreeFindings) -> Job:
    """What a verification means for the task under way."""
    step = job.step
    task, progress = task_of(job, step.task), job.progress(step.task)
    job = replace(job, spent=replace(job.spent, changed_lines=seen.changed_lines))
    job = update_task(job, step.task, changed=seen.changed[:500])
    protected = evidences.without(
        evidences.matching(seen.changed, job.settings.all_protected), (*task.files, *progress.allow)
    )
    protected = [path for path in protected if path not in seen.theirs]
    if protected:
        return block(job, "protected_path", f"protected files were changed: {', '.join(protected[:10])}", task.id)
    if found.too_large:
        names = ", ".join(found.too_large[:5])
        return block(job, "too_large", f"new files are too large to be kept, landed or rolled back: {names}", task.id)
    if found.environment:
        return block(job, "environment", found.environment, task.id)
    faults = _faults(job, task, found)
    own = _list_own_faults(job, task, found) if found.own_steps else faults
    if found.review and not own and (faults or _is_changed(task, seen)):
        return _ask_review(job, task.id, found)
    faults = faults or own
    is_interrupted = step.report.get("ended") == "interrupted"
    if is_interrupted and (faults or not seen.changed):
        return _redo_interrupted(job)
    if not faults:
        return _green(job, task, found, seen)
    signed = (seen.fingerprint, evidences.signature(faults))
    job = update_task(job, task.id, faults=faults, evidence=found, seen=(*progress.seen, signed))
    hopeless = _hopeless(job, progress.seen, signed)
    if hopeless is not None:
        return block(job, *hopeless, task.id)
    return _red(job, task.id, faults, seen.at)


def reject_review(job: Job, comments: Sequence[str], by: str, at: float) -> Job:
    """A person has looked at the whole and wants some of it done differently: back to the worker with their words."""
    job = _reopen(job, hints=(*job.progress(FINAL).hints, *comments)[-HINTS_MAX:], repairs=0)
    job = add_note(job, at, f"rejected before landing by {by or 'somebody'}: {len(comments)} remarks", FINAL)
    return replace(job, verdict="REVIEW_REJECTED", step=Current(go="work", task=FINAL))


def hear_ci(job: Job, faults: tuple[Fault, ...], at: float) -> Job:
    """CI has found something wrong with what was pushed: a repair, as after a check of our own, as often as those."""
    repairs = job.progress(FINAL).repairs + 1
    detail = f"CI fails: {_brief(faults)}"
    if repairs > job.settings.fix.attempts:
        told = f"{detail}; {job.settings.fix.attempts} repairs did not help"
        return replace(job, verdict="ARCHIVE_FAILED", blocked=Blocked("ci", told, FINAL), reviewed="")
    job = add_note(_reopen(job, repairs=repairs, faults=faults), at, detail, FINAL)
    return replace(job, verdict="CI_FAILED", step=Current(task=FINAL))


def _reopen(job: Job, **facts: Any) -> Job:
    """The whole is not finished after all: its last verification is void, and what comes now is a change of its own."""
    fresh = {"checkpoint": "", "tree": "", "base": "", "commit": "", "evidence": None, "seen": (), "faults": ()}
    job = update_task(job, FINAL, **{"status": "IN_PROGRESS", **fresh, **facts})
    return replace(job, final=None, reviewed="")


def _is_changed(task: Task, seen: TreeFindings) -> bool:
    return bool(seen.changed) or task.no_change or task.id == FINAL


def _list_own_faults(job: Job, task: Task, found: Evidence) -> tuple[Fault, ...]:
    """What is wrong with the tree as it is, with the worker's own tests and settings."""
    return _faults(job, task, replace(found, steps=found.own_steps, moved=()), is_own=True)


def _ask_review(job: Job, task: str, found: Evidence) -> Job:
    """Changes to what judges, or odd ones, are for a person: without them the checks fail, or nobody can tell."""
    shown = "; ".join(f"{item.path} ({item.why})" for item in found.review[:5])
    more = f" and {len(found.review) - 5} more" if len(found.review) > 5 else ""
    job = update_task(job, task, evidence=found, faults=())
    return block(job, "review", f"a person has to look at these changes first: {shown}{more}", task)


def _bad_end(job: Job) -> str:
    """How a worker ended that did not end well: a command that is not there changes nothing either."""
    code = job.step.report.get("exit")
    return f"; the worker's command ended with exit {code}" if code else ""


def _hopeless(job: Job, before: Sequence[tuple[str, str]], signed: tuple[str, str]) -> tuple[str, str] | None:
    """Why another repair makes no sense: reason and detail."""
    has_worked = job.step.go == "work"
    if has_worked and job.step.before == signed[0]:
        return "no_change", f"the worker changed nothing, and the checks still fail{_bad_end(job)}"
    if has_worked and signed in before:
        return "oscillation", "the same tree has failed in the same way before"
    alike = sum(1 for _, signature in (*before, signed) if signature == signed[1])
    if job.settings.fix.same_failure and alike >= job.settings.fix.same_failure:
        return "same_failure", f"the same failure came back {alike} times"
    spent = over_budget(job)
    return ("budget", spent) if spent else None


def _faults(job: Job, task: Task, found: Evidence, *, is_own: bool = False) -> tuple[Fault, ...]:
    """Every reason why the task is not done."""
    names = list_to_mend(job, task)
    faults = list(
        evidences.faults(found, job.baseline, lambda test: known_failure.is_expected(job.baseline, test, names))
    )
    if is_own:
        return tuple(faults)
    faults += _list_unmended(job, task, found)
    shrunk = evidences.shrunk(found, job.baseline, job.settings.allow_fewer_tests + task.fewer_tests)
    if shrunk:
        faults.append(Fault("count", shrunk))
    if found.moved:
        faults.append(Fault("moved", f"the checks themselves changed files: {', '.join(found.moved[:10])}"))
    return tuple(faults)


def _list_unmended(job: Job, task: Task, found: Evidence) -> list[Fault]:
    """What failed before, is to be mended, and has not run and passed: gone, skipped or left out is not mended."""
    names, baseline = list_to_mend(job, task), job.baseline
    unmended = []
    for step in found.steps:
        was = next((one for one in baseline.steps if one.name == step.name), None) if baseline else None
        if was is None or not step.mended or not names:
            continue
        for test in was.failing_ids:
            outcome = step.mended.get(test, "gone")
            if known_failure.is_expected(baseline, test, names) and outcome not in ("passed", "failed"):
                unmended.append(Fault(step.name, f"it is to be mended and was {outcome}", test))
    return unmended


def _green(job: Job, task: Task, found: Evidence, seen: TreeFindings) -> Job:
    if task.id != FINAL and not seen.changed and not task.no_change:
        detail = f"the checks pass, but nothing was changed; a worker's word is no evidence{_bad_end(job)}"
        return block(update_task(job, task.id, evidence=found), "no_change", detail, task.id)
    spent = over_budget(job)
    if spent and job.settings.budget.changed_lines and seen.changed_lines > job.settings.budget.changed_lines:
        return block(update_task(job, task.id, evidence=found), "budget", spent, task.id)
    job = update_task(job, task.id, status="DONE", faults=(), evidence=found, finished_at=seen.at, question="")
    job = add_note(
        job,
        seen.at,
        f"{task.id} {found.word or 'verified'}: {found.counted}tree {found.tree[:12]}",
        task.id,
    )
    for told in found.notes[:5]:
        job = add_note(job, seen.at, f"{task.id}: {told}", task.id)
    if found.mode == "final":
        job = replace(job, final=found)
    is_end = task.id == FINAL and not job.step.is_repair
    verdict = "ALL_TASKS_DONE" if is_end else "FIX_SUCCESS" if job.step.is_repair else "TASK_VERIFIED"
    return replace(job, verdict=verdict, step=Current(), blocked=None)


def _red(job: Job, task: str, faults: tuple[Fault, ...], at: float) -> Job:
    limit = job.settings.fix.attempts
    step = replace(job.step, go="", report={})
    if not job.step.is_repair:
        job = add_note(job, at, f"{task} failed its checks: {_brief(faults)}", task)
        if limit == 0:
            return block(job, "attempts", "the checks fail, and no repairs are allowed", task)
        return replace(job, verdict="ERROR_DETECTED", step=step)
    repairs = job.progress(task).repairs + 1
    job = add_note(
        update_task(job, task, repairs=repairs), at, f"repair {repairs} of {task} failed: {_brief(faults)}", task
    )
    if repairs < limit:
        return replace(job, verdict="FIX_ATTEMPT_FAILED", step=step)
    detail = f"{repairs} repairs failed; the last one: {_brief(faults)}"
    job = update_task(job, task, status="BLOCKED")
    return replace(job, verdict="FIX_FAILED_3X", blocked=Blocked("attempts", detail, task), step=Current())


def _redo_interrupted(job: Job) -> Job:
    """The attempt was cut short and its tree is not good: back to before it, and once more."""
    task = job.step.task
    count = job.progress(task).interruptions + 1
    attempts = max(0, job.progress(task).attempts - 1)  # the same attempt is made again
    job = update_task(job, task, interruptions=count, attempts=attempts)
    if count > job.settings.fix.interruptions:
        return block(job, "interruptions", f"the worker was interrupted {count} times", task)
    # In EXECUTING `choose` takes the task up again because its step still says so.
    step = replace(job.step, report={})
    return replace(job, verdict="ATTEMPT_INTERRUPTED", restore=job.step.checkpoint, step=step)


def _brief(faults: Sequence[Fault]) -> str:
    first = faults[0]
    where = first.test or first.message.partition("\n")[0]
    more = f" and {len(faults) - 1} more" if len(faults) > 1 else ""
    return f"{first.step}: {where}"[:200] + more


def attend(job: Job) -> Job:
    """The job with whether somebody is there who said Go, and who is to look at the work before it lands."""
    asked, ask = job.asked, job.settings.workspace.ask
    is_attended = job.is_attended or bool(asked and asked.name == "USER_CONFIRM" and asked.data.get("attended"))
    needs_review = ask == "always" or (ask == "auto" and is_attended)
    return replace(job, is_attended=is_attended, needs_review=needs_review)


def ask_what_is_missing(job: Job, at: float) -> Job:
    """Tests that pass only in the user's own tree: told, and asked about once where somebody is there."""
    found = job.baseline.only_here if job.baseline else ()
    if not found:
        return job
    tests = ", ".join(one.test for one in found[:3]) + (f" and {len(found) - 3} more" if len(found) > 3 else "")
    files = tuple(dict.fromkeys(name for one in found for name in one.files))
    parts = [f"these pass only in your own tree and are not held against the worker: {tests}"]
    if files:
        parts.append(f"they may need ignored files: {', '.join(files[:5])}")
    if any(one.needs == "services" for one in found):
        parts.append("some need something of this machine: a socket, a folder or a variable")
    job = add_note(job, at, "; ".join(parts))
    if job.is_attended and job.settings.workspace.only_here == "ask":
        return block(job, "only_here", "; ".join(parts))
    return job


def confirm_plan(job: Job) -> Job:
    """A confirmed plan's tasks, ready to be worked on; what was ticked off before stays so."""
    if job.plan is None:
        return job
    for task in job.plan.body.tasks:
        if task.id not in job.tasks:
            done = {"status": "DONE", "summary": "done before this job"} if task.is_done else {}
            job = update_task(job, task.id, **done)
    return job
