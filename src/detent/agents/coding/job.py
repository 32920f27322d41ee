"""A job: the context of a coding run as a typed value. Effects take one and give back what changed of it."""

from typing import Any, Literal

import msgspec

from detent.agents.coding.check_result import Evidence, Fault
from detent.agents.coding.plan import TaskPlan
from detent.agents.coding.settings import Settings

FINAL = "FINAL"  # stands for the verification before archiving; repaired like a task, never skipped
TaskStatus = Literal["PENDING", "IN_PROGRESS", "DONE", "BLOCKED", "SKIPPED"]
Go = Literal["", "work", "verify", "beside"]
LOG_MAX = 100


class Progress(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far one task has come."""

    status: TaskStatus = "PENDING"
    attempts: int = 0  # begun by a worker; an interrupted one that is made again counts once
    repairs: int = 0  # failed ones, since a person last had a hand in it
    interruptions: int = 0
    checkpoint: str = ""  # of the tree before the task
    tree: str = ""  # its id
    seen: tuple[tuple[str, str], ...] = ()  # fingerprint and signature of every red verification
    faults: tuple[Fault, ...] = ()
    evidence: Evidence | None = None
    summary: str = ""
    question: str = ""
    hints: tuple[str, ...] = ()  # what people said about it
    allow: tuple[str, ...] = ()  # protected paths a person let it change
    session: str = ""
    changed: tuple[str, ...] = ()
    cost_usd: float = 0.0
    seconds: float = 0.0
    finished_at: float = 0.0
    commit: str = ""  # what the commit policy made of it: a commit, or why there is none
    base: str = ""  # the user's tree that the checkpoint stands on
    approved: tuple[str, ...] = ()  # changes that a person has looked at, each as path@blob
    is_alone: bool = False  # beside others it did not come to anything: it is done by itself


class Current(msgspec.Struct, frozen=True, omit_defaults=True):
    """The step under way: what is to be done, on which task, and what came of the worker's part."""

    go: Go = ""
    task: str = ""
    mode: Literal["task", "final"] = "task"
    attempt: int = 0
    key: str = ""
    checkpoint: str = ""  # before this attempt
    before: str = ""  # fingerprint before this attempt
    report: dict[str, Any] = {}
    is_repair: bool = False
    beside: tuple[str, ...] = ()  # the tasks that are worked on at once; the first of them is `task`


class Planned(msgspec.Struct, frozen=True, omit_defaults=True):
    """The plan in force."""

    body: TaskPlan
    digest: str
    revision: int = 1
    file: str = ""
    judges: tuple[str, ...] = ()  # tests, and what decides how they run: shown with the plan


class Blocked(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a person is needed."""

    reason: str = ""
    detail: str = ""
    task: str = ""
    type: str = ""


class Spent(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the job has used so far."""

    cost_usd: float = 0.0
    tokens: int = 0
    unpriced_calls: int = 0  # to models whose price nobody knows: `cost_usd` is without them
    seconds: float = 0.0
    changed_lines: int = 0


class LastWord(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a person last said to the machine."""

    name: str = ""
    data: dict[str, Any] = {}
    by: str = ""


class HistoryNote(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of the job's history."""

    at: float
    text: str
    task: str = ""


class Landed(msgspec.Struct, frozen=True, omit_defaults=True):
    """What of a job has come into the user's tree: the trees around it, and the files that it wrote."""

    before: str = ""
    after: str = ""
    undo: str = ""
    written: tuple[str, ...] = ()
    theirs: tuple[str, ...] = ()  # what the user had changed meanwhile
    staged: tuple[str, ...] = ()  # of what it wrote: put into the index, too


class Published(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a job came from and goes to: an issue, a branch on a server, a pull request, and what CI has checked."""

    repo: str
    branch: str
    remote: str = "origin"
    issue: int = 0
    pushed: str = ""  # the verified tree that was pushed
    commit: str = ""  # as this commit
    pull: int = 0
    url: str = ""
    checked: str = ""  # the tree that CI had nothing against


class Job(msgspec.Struct, frozen=True, omit_defaults=True):
    """All that a coding run knows."""

    root: str = ""
    requirement: str = ""
    settings: Settings = Settings()
    plan: Planned | None = None
    is_confirmed: bool = False
    tasks: dict[str, Progress] = {}
    step: Current = Current()
    baseline: Evidence | None = None
    final: Evidence | None = None
    blocked: Blocked | None = None
    spent: Spent = Spent()
    asked: LastWord | None = None
    restore: str = ""
    verdict: str = ""
    outcome: str = ""
    archive: str = ""
    first_checkpoint: str = ""
    first_tree: str = ""
    last_checkpoint: str = ""
    undo: str = ""  # the checkpoint that takes the last rollback back
    serial: int = 0
    log: tuple[HistoryNote, ...] = ()
    scratchpad: str = ""
    messages: list[dict[str, Any]] = []  # for the model that plans
    answers: list[dict[str, str]] = []  # to the planner's questions
    wish: str = ""  # how the plan is to be changed
    started_at: float = 0.0
    by: str = ""
    workspace: str = ""  # the folder with the copy that the worker works in; empty: in the user's own tree
    base: str = ""  # the user's tree that the copy stands on
    landed: Landed | None = None
    is_kept: bool = False  # it was abandoned, and what was done is in the user's files
    read_worker: str = ""  # digest of the worker in the settings file when the job began
    is_attended: bool = False  # somebody said Go who is there to answer
    needs_review: bool = False  # a person looks at the whole difference before it lands
    reviewed: str = ""  # the tree that a person has accepted
    publish: Published | None = None

    @property
    def ending(self) -> str:
        """How it ended, in a word."""
        return "abandoned, kept" if self.is_kept and self.outcome == "rolled_back" else self.outcome

    def progress(self, task_id: str) -> Progress:
        """How far a task has come."""
        return self.tasks.get(task_id) or Progress()

    def title(self, task_id: str) -> str:
        """What a task is called."""
        if task_id == FINAL or self.plan is None:
            return "Final verification"
        return next((task.title for task in self.plan.body.tasks if task.id == task_id), task_id)


def job_of(context: dict[str, Any]) -> Job:
    """The job in a run's context."""
    return msgspec.convert({k: v for k, v in context.items() if v is not None}, Job, strict=False)


def patch(before: Job, after: Job) -> dict[str, Any]:
    """What changed, as values for the context."""
    changed = {}
    for name in Job.__struct_fields__:
        now = getattr(after, name)
        if now != getattr(before, name):
            changed[name] = msgspec.to_builtins(now)
    return changed


def update_task(job: Job, task_id: str, **facts: Any) -> Job:
    """The job with some facts of a task changed."""
    progress = msgspec.structs.replace(job.progress(task_id), **facts)
    return msgspec.structs.replace(job, tasks={**job.tasks, task_id: progress})


def add_note(job: Job, at: float, text: str, task: str = "") -> Job:
    """The job with one more line of history; old lines are in the journal."""
    return msgspec.structs.replace(job, log=(*job.log, HistoryNote(at, text[:500], task))[-LOG_MAX:])
