"""Which tasks may be worked on at once, and what becomes of those that did not come to anything that way; pure."""

from collections.abc import Sequence

from msgspec.structs import replace

from detent.agents.coding.check_result import matching
from detent.agents.coding.job import Current, Job, add_note, update_task
from detent.agents.coding.plan import Task, order

HINTS_MAX = 20


def list_beside(job: Job, first: Task) -> tuple[str, ...]:
    """The tasks that can be worked on at once with this one: marked [P], ready, untried, without a file in common."""
    chosen: list[Task] = []
    for task in order(job.plan.body.tasks) if job.plan and job.workspace else ():
        progress = job.progress(task.id)
        is_fresh = progress.status == "PENDING" and not progress.is_alone and not progress.attempts
        is_ready = all(job.progress(other).status in ("DONE", "SKIPPED") for other in task.depends)
        if not (task.is_parallel and is_fresh and is_ready) or any(_overlap(task, other) for other in chosen):
            continue
        chosen.append(task)
    names = tuple(task.id for task in chosen[: max(1, job.settings.parallel)])
    return names if first.id in names else ()


def _overlap(one: Task, two: Task) -> bool:
    """Whether two tasks say that they are about the same file."""
    return bool(matching(one.files, two.files) or matching(two.files, one.files))


def begin_beside(job: Job, tasks: Sequence[str]) -> Job:
    serial = job.serial + 1
    step = Current(go="beside", task=tasks[0], attempt=1, key=f"{serial:04d}-beside-1", beside=tuple(tasks))
    for task in tasks:
        job = update_task(job, task, status="IN_PROGRESS")
    return replace(job, step=step, serial=serial, verdict="", blocked=None)


def leave_alone(job: Job, task: str, why: str, at: float, hint: str = "") -> Job:
    """A task that did not come to anything beside others is done by itself, after them."""
    progress = job.progress(task)
    hints = (*progress.hints, hint)[-HINTS_MAX:] if hint else progress.hints
    cleared = {"checkpoint": "", "tree": "", "base": "", "attempts": 0, "session": "", "evidence": None, "faults": ()}
    job = update_task(job, task, status="PENDING", is_alone=True, hints=hints, question="", changed=(), **cleared)
    return add_note(job, at, f"{task} will be done by itself: {why}", task)
