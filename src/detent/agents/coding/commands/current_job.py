"""The coding job at hand: found by the lease of its work tree, moved by signals, shown to people and machines."""

import asyncio
import functools
import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import click
import msgspec

from detent.agents.coding import active_context, delivery, lease, planning
from detent.agents.coding import archive as archives
from detent.agents.coding.commands.job_story import CodeNarrator
from detent.agents.coding.job import FINAL, Job, job_of
from detent.agents.coding.machine import OPERATIONS
from detent.agents.coding.workspace import Repository
from detent.core.run import Run
from detent.core.status import Status
from detent.errors import DetentError, Refused, Unknown
from detent.host.opening import is_held, open_reader
from detent.host.reading import Query
from detent.kit.agent import of_agent
from detent.kit.every_run import walk_runs
from detent.kit.language import _
from detent.kit.policy_file import HOME
from detent.kit.safe_text import visible
from detent.kit.terminal.caller import Caller, emit, show_line
from detent.kit.terminal.run_driver import drive, telling
from detent.kit.terminal.run_view import RunReport

SOURCE = of_agent("coding")
OUTCOME_CODES = {"archived": 0, "rolled_back": 4, "cancelled": 4}
UNVERIFIED = 6  # archived, and there was nothing to check it with
COLOURS = {"DONE": "green", "BLOCKED": "red", "IN_PROGRESS": "yellow", "SKIPPED": "dim"}


DOUBTS_MAX = 4
WORDS = {
    "verified": _("verified: the tests ran and passed, by name, where the worker could not reach"),
    "checked": _("checked: the checks succeeded, but no test vouches for it by name"),
    "unverified": _("unverified: there are no checks"),
}


class Desk:
    """One work tree, its journal, and the job that is active in it."""

    def __init__(self, caller: Caller, repository: Repository, by: str) -> None:
        self.caller, self.repository, self.by = caller, repository, by
        self.root = Path(repository.root)
        caller.go_on = ("code", "resume")
        if caller.home == Path(HOME):  # nobody said otherwise: beside the project, wherever we stand in it
            caller.home = self.root / HOME

    @classmethod
    async def open(cls, caller: Caller, by: str = "", folder: str = ".") -> "Desk":
        """The desk for a folder; a job that ended elsewhere, as on the page, is put away first."""
        desk = cls(caller, await Repository.open(folder), by)
        if desk.held_run:
            run = desk.standing().run
            if run.ended is not None:
                desk.settle(run)
        return desk

    @property
    def held_run(self) -> str:
        """The job that has this work tree, as far as this home knows it; it may have ended."""
        held = lease.read(self.repository.place)
        is_ours = held is not None and Path(held.home) == self.caller.home.resolve()
        return held.run_id if held is not None and is_ours and self.caller.find_known(held.run_id) else ""

    @property
    def run_id(self) -> str:
        """The active job, else the last one."""
        held = self.held_run
        if held:
            return held
        if self.caller.has_journal():
            for summary in walk_runs(self.caller.reader, Query(agent="coding")):
                return summary.run_id
        raise Unknown(f"there is no coding job here; begin one: {self.caller.command('code', 'start', 'REQUIREMENT')}")

    def holds(self, held: lease.Lease) -> bool:
        """Whether a lease is still somebody's: its journal says so."""
        with closing(open_reader(Path(held.home))) as reader:
            try:
                summary = reader.summary(held.run_id)
            except (DetentError, OSError):
                return held.is_beginning
        return not summary.status.is_terminal if summary is not None else held.is_beginning

    def standing(self) -> RunReport:
        """Where the job stands."""
        return RunReport(self.caller, self.run_id)

    def check(self, operation: str) -> RunReport:
        """The job, if this may be done in its state."""
        standing = self.standing()
        state = standing.run.state
        allowed = OPERATIONS.get(state, ())
        if operation not in allowed:
            named = ", ".join(allowed) or "nothing; wait for it"
            raise Refused(f"`{operation}` is not possible in {state}; possible: {named}")
        return standing

    async def say(self, name: str, data: Mapping[str, Any] | None = None) -> "RunReport":
        """Signal the job and stay with it until it ends or needs somebody."""
        run_id = self.run_id
        seq = self.standing().run.seq
        async with self.caller.host() as host:
            await host.signal(run_id, name, dict(data or {}), by=self.by)
            await self.drive(host, run_id, seq)
        return RunReport(self.caller, run_id)

    async def drive(self, host: Any, run_id: str, seq: int) -> Run:
        """Stay with a run, showing what its worker and its checks say."""
        await host.recover(run_id)
        stop: Callable[[], None] = lambda: None  # noqa: E731
        if not self.caller.is_json:
            stop = host.overhear(run_id, self._show_progress)
        try:
            tell = functools.partial(telling, host=host, narrator=CodeNarrator(run_id))
            run = await drive(self.caller, host, run_id, seq, tell)
        finally:
            stop()
        self.settle(run)
        return run

    def _show_progress(self, _contract_id: str, data: Mapping[str, Any]) -> None:
        if data.get("stream") in ("stdout", "stderr", "plan"):
            show_line(f"  │ {visible(str(data.get('text', '')))}", "dim")

    def settle(self, run: Run) -> None:
        """Bring the page up to date with where the run came to rest; give the lease back when it has ended."""
        try:
            job = job_of(run.context)
            active_context.project(job, run.id, run.state, is_paused=run.is_held)
            if run.ended is not None:
                if job.outcome != "archived":  # whose plan was cancelled had nothing to undo, so no effect kept it
                    archives.record_ended(run.id, job, job.outcome or str(run.ended), run.at)
                lease.drop(self.repository.place, run.id)
                delivery.discard_copies(str(self.root))
        except OSError as error:
            self.caller.warn(str(error))

    def give(self, standing: RunReport | None = None, code: int | None = None) -> int:
        """Show the job in the way the caller wants it; returns the exit code."""
        standing = standing or self.standing()
        run, job = standing.run, job_of(standing.run.context)
        if code is None:
            code = OUTCOME_CODES.get(job.outcome, standing.code) if run.ended else standing.code
            if job.outcome == "archived" and job.final is not None and job.final.word == "unverified":
                code = UNVERIFIED
        if self.caller.is_json:
            emit({**standing.envelope(ok=code in (0, 3, UNVERIFIED)), "job": facts(job, run)})
        else:
            tell(self.caller, job, run)
        return code


def facts(job: Job, run: Run) -> dict[str, Any]:
    """The job for machines."""
    tasks = []
    for task in job.plan.body.tasks if job.plan else ():
        progress = job.progress(task.id)
        tasks.append(
            {
                "id": task.id,
                "title": task.title,
                "status": progress.status,
                "attempts": progress.attempts,
                "repairs": progress.repairs,
                "checkpoint": progress.checkpoint,
                "tree": progress.evidence.tree if progress.evidence else "",
                "word": progress.evidence.word if progress.evidence else "",
                "review": msgspec.to_builtins(progress.evidence.review) if progress.evidence else [],
                "faults": msgspec.to_builtins(progress.faults),
            }
        )
    return {
        "requirement": job.requirement,
        "plan": job.plan.digest if job.plan else "",
        "plan_file": str(planning.plan_path(job.root)) if job.plan else "",
        "tasks": tasks,
        "task": job.step.task,
        "blocked": msgspec.to_builtins(job.blocked) if job.blocked and run.state == "BLOCKED" else None,
        "outcome": job.outcome,
        "kept": job.is_kept,
        "still_failing": list(_list_failing(job)),
        "word": job.final.word if job.final else "",
        "workspace": str(Path(job.root) / job.workspace) if job.workspace else "",
        "landed": msgspec.to_builtins(job.landed) if job.landed else None,
        "archive": job.archive,
        "pull_request": job.publish.url if job.publish else "",
        "undo": job.undo,
        "last_checkpoint": job.last_checkpoint,
        "spent": msgspec.to_builtins(job.spent),
        "operations": list(OPERATIONS.get(run.state, ())),
        "checks": [step.name for step in job.settings.verify],
    }


def tell(caller: Caller, job: Job, run: Run) -> None:
    """The job for people."""
    paused = _("  (paused)") if run.is_held else ""
    caller.say(f"{run.id}  {run.state}{paused}  {visible(job.requirement.partition(chr(10))[0][:100])}")
    for task in job.plan.body.tasks if job.plan else ():
        progress = job.progress(task.id)
        marks = active_context.MARKS[progress.status]
        count = _(" ({count} attempts)", count=progress.attempts) if progress.attempts > 1 else ""
        caller.say(f"  [{marks}] {task.id} {visible(task.title)}{count}", COLOURS.get(progress.status, ""))
    if FINAL in job.tasks:
        caller.say(f"  [{active_context.MARKS[job.tasks[FINAL].status]}] " + _("final verification"))
    if run.state == "BLOCKED" and job.blocked is not None:
        caller.say(f"  {job.blocked.reason}: {visible(job.blocked.detail)}", "red")
        folder = Path(job.root) / ".detent" / "code" / run.id / "blocked.md"
        caller.say(_("  the whole report: {file}", file=str(folder)))
        for name, words in _menu(job):
            caller.say(f"    {caller.command('code', *words)}  {name}", "cyan")
    elif run.state == "CONFIRMING" and job.plan is not None:
        caller.say(_("  plan {digest}: {file}", digest=job.plan.digest, file=str(planning.plan_path(job.root))))
        caller.say(_("  go: {command}", command=caller.command("code", "confirm", "--plan", job.plan.digest)))
    elif run.state == "ARCHIVING" and run.status is Status.WAITING:
        _tell_questions(caller, run)
    elif run.is_held:
        caller.say(_("  go on: {command}", command=caller.command("code", "resume")))
    elif run.status is Status.RUNNING and not is_held(caller.home):
        command = caller.command("code", "resume")
        caller.say(_("  nobody is at work on it now; go on: {command}", command=command), "yellow")
    elif run.ended is not None and job.outcome:
        caller.say(_("  {outcome}", outcome=job.ending), "green" if job.outcome == "archived" else "yellow")
        _tell_evidence(caller, job)
        if job.archive:
            caller.say(_("  record: {file}", file=str(Path(job.root) / job.archive / "summary.md")))
    if job.undo and job.ending == "rolled_back":
        caller.say(_("  take it back: {command}", command=caller.command("code", "rollback", "--to", job.undo)))


def _tell_questions(caller: Caller, run: Run) -> None:
    """What a job asks before its work goes out, and how to answer."""
    for asked in run.waiting:
        is_review = asked.effect == "code.review"
        command = caller.command("code", "review") if is_review else caller.command("approve", run.id)
        text = asked.question.text if asked.question else ""
        caller.say(_("  {question}  {command}", question=visible(text), command=command), "cyan")


def _tell_evidence(caller: Caller, job: Job) -> None:
    """How much a finished job is worth, what is still wrong, and where it can be seen."""
    if job.publish and job.publish.url:
        caller.say(_("  pull request: {url}", url=visible(job.publish.url)))
    still = _list_failing(job)
    if job.final is not None and job.final.word:
        word = WORDS[job.final.word]
        if still and job.final.word == "checked":
            word = _("checked: nothing that passed before fails now, but what failed before fails still")
        caller.say(f"  {word}", "yellow" if job.final.word == "unverified" else "green")
        for doubt in job.final.notes[:DOUBTS_MAX] if job.final.word == "checked" else ():
            caller.say(f"    {visible(doubt)}", "yellow")
    for note in job.log[-3:]:
        if note.text.startswith("you changed these meanwhile"):
            caller.say(f"  {visible(note.text)}", "yellow")
    if still:
        names = visible(", ".join(still[:5]) + (" …" if len(still) > 5 else ""))
        caller.say(_("  still failing, as before the job: {names}", names=names), "yellow")


def _list_failing(job: Job) -> tuple[str, ...]:
    """What failed before the job and fails still, at its end."""
    return tuple(test for step in job.final.steps for test in step.failing_ids) if job.final else ()


def _menu(job: Job) -> list[tuple[str, tuple[str, ...]]]:
    """The ways on from a block, the most likely first."""
    reason = job.blocked.reason if job.blocked else ""
    if not job.is_confirmed:  # there is no plan yet, so there is nothing to fix, retry or skip
        return [(_("plan again"), ("revise", "WISH")), (_("put everything back and end the job"), ("rollback",))]
    ways: list[tuple[str, tuple[str, ...]]] = []
    if reason == "question":
        ways.append((_("answer the worker"), ("answer", "TEXT")))
    if reason == "review":
        ways.append((_("look at the changes that wait for you"), ("approve", "--show")))
        ways.append((_("accept them"), ("approve",)))
    if reason == "only_here":
        ways.append((_("give them what they need"), ("include", "PATH")))
        ways.append((_("go on without them, and do not ask again"), ("include", "--none")))
    if reason == "budget":
        ways.append((_("let the job use more"), ("extend", "--minutes", "30")))
    return [
        *ways,
        (_("I fixed it, or here is a hint"), ("fix", "HINT")),
        (_("begin the task again from its checkpoint"), ("retry",)),
        (_("leave the task out"), ("skip",)),
        (_("end the job and keep what was done, unverified"), ("abandon", "--keep")),
        (_("put everything back and end the job"), ("rollback",)),
    ]


def is_interactive(caller: Caller) -> bool:
    """Whether somebody sits at the other end."""
    return not caller.is_json and sys.stdin.isatty() and sys.stdout.isatty()


async def ask_person(question: str) -> str:
    """What a person types; a thread waits for it, so that Ctrl-C works as everywhere."""
    return str(await asyncio.to_thread(click.prompt, question, default="", show_default=False)).strip()
