"""Commands that look at a coding job: status, checkpoints, diff, archive, doctor."""

import shutil
import time
from pathlib import Path
from typing import Any

import click

from detent.agents.coding import archive as archives
from detent.agents.coding import check_detection, lease, worker_registry
from detent.agents.coding import settings as configuration
from detent.agents.coding.commands.current_job import Desk
from detent.agents.coding.effect_context import find_worked_on
from detent.agents.coding.job import job_of
from detent.agents.coding.workspace import Repository
from detent.core.run import Run
from detent.core.status import Status
from detent.errors import DetentError, Refused
from detent.kit.language import _
from detent.kit.safe_text import visible, when
from detent.kit.terminal.caller import Caller, emit
from detent.kit.terminal.option import by_option, verb

QUIET_S = 1800.0  # a job at work that has said nothing for so long deserves a look


@verb("status", _("Show where the job stands, with its errors."))
async def status(caller: Caller) -> int:
    """The job, its tasks, and what can be done now."""
    desk = await Desk.open(caller)
    standing = desk.standing()
    desk.settle(standing.run)
    job = job_of(standing.run.context)
    code = desk.give(standing)
    if not caller.is_json:
        for task_id, progress in job.tasks.items():
            for fault in progress.faults[:10]:
                first = fault.message.partition("\n")[0]
                where = " ".join(filter(None, (task_id, fault.step, visible(fault.test))))
                caller.say(f"    {where}: {visible(first)}", "red")
        latest = job.final or job.progress(job.step.task).evidence
        if (
            latest is not None
            and standing.run.ended is None
            and await _find_tree(desk, standing.run).tree_id() != latest.tree
        ):
            caller.say(_("  the files have changed since they were last verified"), "yellow")
    return 0 if standing.run.ended is not None else code


@verb("checkpoints", _("List the checkpoints, oldest first."))
@click.option("--all", "is_all", is_flag=True, help=_("Those of every job."))
async def checkpoints(caller: Caller, is_all: bool) -> int:
    """Where one can go back to."""
    desk = await Desk.open(caller)
    found = await desk.repository.checkpoints(None if is_all else desk.run_id)
    if caller.is_json:
        rows = [{"id": c.id, "run_id": c.run, "label": c.label, "at": c.at, "tree": c.tree} for c in found]
        emit({"ok": True, "checkpoints": rows, "error": None})
        return 0
    for item in found:
        caller.say(f"{item.id}  {when(item.at)}  {visible(item.label)}")
    return 0


@verb("diff", _("Show what the job has changed, or one of its tasks."))
@click.argument("task", metavar="[TASK|CHECKPOINT]", default="")
async def diff(caller: Caller, task: str) -> int:
    """A patch from a checkpoint to the files as they are."""
    desk = await Desk.open(caller)
    run = desk.standing().run
    job = job_of(run.context)
    since = job.progress(task).checkpoint if task in job.tasks else task or job.first_checkpoint
    if not since:
        raise Refused("nothing was begun yet, so there is nothing to compare with")
    text = await _find_tree(desk, run).diff(since)
    if caller.is_json:
        emit({"ok": True, "since": since, "diff": text, "error": None})
    else:
        show_patch(caller, text)
    return 0


def _find_tree(desk: Desk, run: Run) -> Repository:
    return find_worked_on(desk.repository, job_of(run.context), run.id)


def show_patch(caller: Caller, text: str) -> None:
    """A patch for people."""
    for line in text.splitlines():
        colour = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")
        caller.say(visible(line, keep="\t"), colour)


@verb("list", _("List the finished jobs, newest first."))
async def archive_list(caller: Caller) -> int:
    """Every record."""
    desk = await Desk.open(caller)
    found = archives.every(str(desk.root))
    if caller.is_json:
        emit({"ok": True, "jobs": found, "error": None})
        return 0
    for item in found:
        done = sum(task.get("status") == "DONE" for task in item.get("tasks", []))
        shown = visible(str(item.get("requirement", "")).partition("\n")[0][:80])
        words = _("{done} of {count} tasks", done=done, count=len(item.get("tasks", [])))
        outcome = "" if item.get("outcome", "archived") == "archived" else f"  {visible(str(item['outcome']))}"
        caller.say(f"{item['run']}  {when(float(item.get('finished_at') or 0))}  {words}{outcome}  {shown}")
    if not found:
        caller.say(_("no finished jobs"))
    return 0


@verb("show", _("Show the record of a finished job, as a text for a pull request."))
@click.argument("job", metavar="JOB", default="last")
async def archive_show(caller: Caller, job: str) -> int:
    """One record."""
    desk = await Desk.open(caller)
    facts = archives.find(str(desk.root), job)
    text = (Path(facts["folder"]) / "summary.md").read_text("utf-8", errors="replace")
    if caller.is_json:
        emit({"ok": True, "job": facts, "summary": text, "error": None})
    else:
        for line in text.splitlines():
            caller.say(visible(line))
    return 0


@verb("doctor", _("Check what a job needs here: git, worker, checks, lease, heartbeat."))
@by_option
async def doctor(caller: Caller, by: str) -> int:
    """Say what is missing before a job finds out."""
    desk = await Desk.open(caller, by)
    findings: list[tuple[str, bool, str]] = [("git", desk.repository.has_git, shutil.which("git") or "")]
    chosen = configuration.Settings(verify=check_detection.detect(desk.root))
    try:
        read = configuration.read(desk.root)
        findings.append((configuration.FILE, read is not None, "" if read else _("will be written by the first job")))
        chosen = read or chosen
    except DetentError as error:
        findings.append((configuration.FILE, False, str(error)))
    for step in chosen.verify:
        program = step.argv[0]
        place = shutil.which(program) or shutil.which(str(desk.root / program)) or ""
        findings.append((_("check {name}", name=step.name), bool(place), place or program))
    try:
        worker = worker_registry.hire(chosen.worker)
        missing = worker_registry.missing(worker, str(desk.root))
        findings.append((_("worker"), not missing, missing or worker.name))
    except DetentError as error:
        findings.append((_("worker"), False, str(error)))
    findings += _about_job(desk)
    is_fine = all(ok for _name, ok, _text in findings)
    if caller.is_json:
        emit({"ok": is_fine, "findings": [{"name": n, "ok": ok, "detail": t} for n, ok, t in findings], "error": None})
    else:
        for name, ok, text in findings:
            caller.say(f"{'ok  ' if ok else '–   '} {name}  {visible(text)}", "green" if ok else "yellow")
    return 0 if is_fine else 1


def _about_job(desk: Desk) -> list[tuple[str, bool, str]]:
    held = lease.read(desk.repository.place)
    if held is None:
        return []
    is_held = desk.holds(held)
    found: list[tuple[str, bool, str]] = [
        (_("lease"), True, f"{held.run_id} {held.by}" if is_held else _("stale; the next job takes it over"))
    ]
    try:
        run: Any = desk.standing().run
    except DetentError:
        return found
    if run.status is Status.RUNNING and not run.is_held:
        quiet = time.time() - run.at
        text = _("at work; last event {when}", when=when(run.at))
        found.append((_("heartbeat"), quiet < QUIET_S, text))
    return found


archive = click.Group(
    "archive",
    commands={"list": archive_list, "show": archive_show},
    help=_("The records of finished jobs."),
    context_settings={"help_option_names": ["-h", "--help"]},
)

COMMANDS = (status, checkpoints, diff, archive, doctor)
