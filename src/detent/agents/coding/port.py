"""The ports of the coding lifecycle: who does the work, and who writes the plan.

A worker changes files; whether that was any good is decided by our own checks, never by its exit code or its word. A
worker that fails, hangs or lies returns a Report all the same; it raises only on a defect of its own.
"""

from collections.abc import Callable
from typing import Any, Literal, Protocol

import msgspec

from detent.agents.coding.job_sandbox import Workplace
from detent.agents.coding.settings import Bounds, CheckStep
from detent.effects.containment import Space
from detent.effects.sandbox import SandboxWish

Hear = Callable[[str, str], None]  # stream ("stdout", "stderr" or an adapter's own word) and one line of output

Ended = Literal["exited", "wall", "silence", "output", "disk", "cost", "not_started", "interrupted"]
Word = Literal["done", "question", "blocked", "unknown"]


class AttemptLimits(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one attempt may use; 0 means no limit."""

    wall_s: float = 1200.0
    silence_s: float = 900.0  # without a single line of output
    output_bytes: int = 64 * 1024 * 1024  # written by the worker; more ends the attempt
    cost_usd: float = 0.0  # handed to workers that can keep to it; counted by us in any case
    disk_bytes: int = 0  # how much the disk may lose; also the largest file
    free_bytes: int = 0  # what must be left on it

    @property
    def space(self) -> Space:
        """What of this concerns the disk."""
        return Space(self.disk_bytes, self.free_bytes)


def limits_of(bounds: Bounds, cost_usd: float = 0.0) -> AttemptLimits:
    """The limits of one attempt in a project with these bounds."""
    return AttemptLimits(
        bounds.wall_s, bounds.silence_s, bounds.output_bytes, cost_usd, bounds.disk_bytes, bounds.free_bytes
    )


class Assignment(msgspec.Struct, frozen=True, omit_defaults=True):
    """One attempt at one task (role `work`), or at a plan (role `plan`: nothing in the work tree may change)."""

    run_id: str
    task_id: str
    attempt: int  # 1 is the first try, 2 the first repair
    root: str  # the work tree, as the worker sees it
    folder: str  # the attempt's own folder outside the work tree: prompt, failures, result, output, process
    prompt: str
    role: Literal["work", "plan"] = "work"
    failures: tuple[dict[str, Any], ...] = ()  # of the checks before this attempt: {step, test, file, line, message}
    limits: AttemptLimits = AttemptLimits()
    session: str = ""  # of an earlier attempt at the same task, for workers that can go on with one
    key: str = ""  # the mark every process of this attempt carries in its environment
    checks: tuple[CheckStep, ...] = ()  # those that will decide; a worker may run them, too
    protected: tuple[str, ...] = ()  # globs of files that a task must leave alone
    changeable: tuple[str, ...] = ()  # globs of files that this task may change all the same
    sandbox: SandboxWish = SandboxWish()  # what the worker runs in
    tree: str = ""  # where the work tree is, if the sandbox shows it in another place
    project: str = ""  # the user's project, which the work tree may be a copy of

    @property
    def place(self) -> Workplace:
        """Where its programs run."""
        return Workplace(self.tree or self.root, self.root, self.sandbox, root=self.project)


class WorkerReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a worker said and used. `unknown` is the word of one that said nothing; it is not success."""

    status: Word = "unknown"
    summary: str = ""
    question: str = ""
    plan: str = ""  # role `plan`: the plan document, or what can be read as one
    ended: Ended = "exited"
    exit: int | None = None
    error: str = ""  # one sentence, when the attempt did not end by itself or could not begin
    environment: bool = False  # the machine's fault (no such program, disk full), so no attempt is counted
    cost_usd: float = 0.0
    tokens: int = 0
    unpriced_calls: int = 0  # those whose price nobody knows
    session: str = ""
    output_file: str = ""
    output_tail: str = ""
    swept: int = 0  # processes that were still there and had to be killed


class Worker(Protocol):
    """Somebody who changes files on request."""

    @property
    def name(self) -> str:
        """How `detent.code.yaml` calls it."""

    @property
    def litter(self) -> tuple[str, ...]:
        """Globs of files it leaves behind that are no part of its work."""

    async def work(self, assignment: Assignment, hear: Hear) -> WorkerReport:
        """Do one attempt; when this returns, or is cancelled, no process of it is left."""


class PlanBrief(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a planner is asked."""

    run_id: str
    requirement: str
    root: str
    folder: str  # for the planner's own files
    revision: int = 1
    previous: str = ""  # the plan that is to be changed
    wish: str = ""  # how
    answers: tuple[dict[str, str], ...] = ()  # to its earlier questions: {question, answer}
    checks: tuple[str, ...] = ()  # names of the verification steps every task has to pass
    limits: AttemptLimits = AttemptLimits()
    key: str = ""
    sandbox: SandboxWish = SandboxWish()  # what a worker that plans runs in
    known: str = ""  # what is known about the project
    tree: str = ""  # where the tree to read is, if the sandbox shows it in another place
    project: str = ""  # the user's project, which that tree is a copy of


class Draft(msgspec.Struct, frozen=True, omit_defaults=True):
    """A plan document as text, or the questions that must be answered first, or why there is neither."""

    text: str = ""
    questions: tuple[str, ...] = ()
    error: str = ""
    cost_usd: float = 0.0
    tokens: int = 0
    unpriced_calls: int = 0
    summary: str = ""


def usage_of(of: WorkerReport | Draft) -> dict[str, float]:
    """What an attempt has used, as the run counts it."""
    unpriced = {"unpriced_calls": float(of.unpriced_calls)} if of.unpriced_calls else {}
    return {"cost_usd": of.cost_usd, "tokens": float(of.tokens), **unpriced}


class TaskPlanner(Protocol):
    """Somebody who writes a plan."""

    @property
    def name(self) -> str:
        """How `detent.code.yaml` calls it."""

    async def plan(self, brief: PlanBrief, hear: Hear) -> Draft:
        """Write a plan; the work tree must be the same afterwards."""
