"""Commands that move a coding job: from cancel, pause and stop to fix, skip and rollback."""

import click

from detent.agents.coding.commands.current_job import Desk
from detent.agents.coding.commands.read_commands import show_patch
from detent.agents.coding.job import Job, Landed, job_of
from detent.agents.coding.machine import ADDED, CARRIED, CONCLUDED, SEED
from detent.agents.coding.workspace import Rollback
from detent.errors import Refused
from detent.kit.language import _
from detent.kit.safe_text import visible
from detent.kit.terminal.caller import Caller, emit
from detent.kit.terminal.option import by_option, verb
from detent.kit.terminal.run_view import RunReport


@verb("cancel", _("Cancel a plan that has not been confirmed."))
@by_option
async def cancel(caller: Caller, by: str) -> int:
    """Back to IDLE."""
    desk = await Desk.open(caller, by)
    desk.check("cancel")
    return desk.give(await desk.say("USER_CANCEL"))


@verb("pause", _("Pause: calls under way finish, nothing new starts."))
@by_option
async def pause(caller: Caller, by: str) -> int:
    """Hold the run."""
    desk = await Desk.open(caller, by)
    standing = desk.check("pause")
    if standing.run.is_held:
        raise Refused("the job is paused already; `detent code resume` lets it go on")
    async with caller.host() as host:
        await host.hold(standing.run.id, by=by)
    standing = desk.standing()
    desk.settle(standing.run)
    return desk.give(standing, 0)


@verb("resume", _("Continue after a pause, a crash or an interruption."))
@by_option
async def resume(caller: Caller, by: str) -> int:
    """Release the run, or take up what a dead process left."""
    desk = await Desk.open(caller, by)
    standing = desk.standing()
    if standing.run.ended is not None:
        raise Refused(f"job {standing.run.id} is over ({job_of(standing.run.context).outcome or 'ended'})")
    async with caller.host() as host:
        await host.recover(standing.run.id)
        if desk.standing().run.is_held:
            await host.release(standing.run.id, by=by)
        await desk.drive(host, standing.run.id, standing.run.seq)
    return desk.give()


@verb("stop", _("Stop the worker now; the job then waits for you."))
@click.option("--reason", default="", metavar="TEXT", help=_("The reason, for the journal."))
@by_option
async def stop(caller: Caller, reason: str, by: str) -> int:
    """Force the run to BLOCKED."""
    desk = await Desk.open(caller, by)
    desk.check("stop")
    return desk.give(await desk.say("FORCE_STOP", {"reason": reason or "stopped by hand"}), 0)


@verb("fix", _("Blocked: you fixed it, or give the worker a hint. The checks run first."))
@click.argument("hint", metavar="[HINT]", default="")
@click.option("--allow", multiple=True, metavar="PATH", help=_("A protected path this task may change."))
@by_option
async def fix(caller: Caller, hint: str, allow: tuple[str, ...], by: str) -> int:
    """A person's hand in it."""
    desk = await Desk.open(caller, by)
    standing = desk.check("fix")
    job = job_of(standing.run.context)
    if job.blocked is not None and job.blocked.reason == "archive":
        return desk.give(await desk.say("RETRY_ARCHIVE"))
    return desk.give(await desk.say("HUMAN_INTERVENTION", {"hint": hint, "allow": list(allow)}))


@verb("approve", _("Blocked: accept changes to tests and check settings, as they are now."))
@click.argument("paths", metavar="[PATH]...", nargs=-1)
@click.option("--show", "is_shown", is_flag=True, help=_("Only show the changes that wait for you."))
@by_option
async def approve(caller: Caller, paths: tuple[str, ...], is_shown: bool, by: str) -> int:
    """A person has looked at what judges the work; the approval is for these contents and no others."""
    desk = await Desk.open(caller, by)
    standing = desk.check("approve")
    job = job_of(standing.run.context)
    task = (job.blocked.task if job.blocked else "") or job.step.task
    found = job.progress(task).evidence
    items = [item for item in found.review if not paths or item.path in paths] if found is not None else []
    if not items:
        raise Refused("no change waits for an approval here; `detent code status` says what is wrong")
    # What makes a test pass whatever it expects may be anywhere in the change.
    shown = [] if any("::" in item.path for item in items) else [item.path for item in items]
    text = await desk.repository.compare(job.base or job.first_tree, found.tree if found else "", shown)
    if is_shown and caller.is_json:
        rows = [{"path": item.path, "why": item.why, "approve": item.name} for item in items]
        emit({"ok": True, "review": rows, "diff": text, "error": None})
        return 0
    if not caller.is_json:
        for item in items:
            caller.say(f"{visible(item.path)}: {visible(item.why)}", "yellow")
        show_patch(caller, text)
    if is_shown:
        return 0
    return desk.give(await desk.say("HUMAN_INTERVENTION", {"approve": [item.name for item in items]}))


@verb("abandon", _("Blocked: end the job. --keep brings what was done so far into your files, unverified."))
@click.option("--keep", "is_kept", is_flag=True, help=_("Keep what was done, although nothing vouches for it."))
@by_option
async def abandon(caller: Caller, is_kept: bool, by: str) -> int:
    """Out, without the work or with it."""
    desk = await Desk.open(caller, by)
    desk.check("abandon")
    standing = await desk.say("ROLLBACK", {"run": True, "keep": is_kept})
    return desk.give(standing, 0 if standing.run.ended is not None else 1)


@verb("answer", _("Blocked: answer the worker's question."))
@click.argument("text", metavar="TEXT")
@by_option
async def answer(caller: Caller, text: str, by: str) -> int:
    """What the worker wanted to know."""
    desk = await Desk.open(caller, by)
    questions = desk.standing().questions
    if questions:  # the planner's: they are a form of its contract
        question = questions[0]
        asked = question.get("data", {}).get("questions", [])
        async with caller.host() as host:
            said = {"data": {"answers": [text] * max(1, len(asked))}, "by": by, "channel": "cli"}
            await host.answer(question["run_id"], question["contract_id"], said)
            await desk.drive(host, question["run_id"], desk.standing().run.seq)
        return desk.give()
    desk.check("answer")
    return desk.give(await desk.say("ANSWER", {"answer": text}))


@verb("retry", _("Blocked: restore the task's files and start the task again."))
@by_option
async def retry(caller: Caller, by: str) -> int:
    """From the task's checkpoint."""
    desk = await Desk.open(caller, by)
    desk.check("retry")
    return desk.give(await desk.say("RETRY_TASK"))


@verb("skip", _("Blocked: skip the task and everything that depends on it."))
@click.option("--keep", "is_kept", is_flag=True, help=_("Keep what it has changed so far."))
@by_option
async def skip(caller: Caller, is_kept: bool, by: str) -> int:
    """Without this task."""
    desk = await Desk.open(caller, by)
    desk.check("skip")
    return desk.give(await desk.say("SKIP_TASK", {"keep": is_kept}))


@verb("extend", _("Blocked: raise the job's budget."))
@click.option("--cost", "cost_usd", type=float, default=0.0, metavar="USD", help=_("More dollars."))
@click.option("--minutes", type=float, default=0.0, help=_("More minutes."))
@click.option("--lines", "changed_lines", type=int, default=0, help=_("More changed lines."))
@by_option
async def extend(caller: Caller, cost_usd: float, minutes: float, changed_lines: int, by: str) -> int:
    """A larger budget."""
    if min(cost_usd, minutes, changed_lines) < 0 or not (cost_usd or minutes or changed_lines):
        raise click.UsageError(_("say how much more: --cost, --minutes or --lines"))
    desk = await Desk.open(caller, by)
    desk.check("extend")
    more = {"cost_usd": cost_usd, "minutes": minutes, "changed_lines": changed_lines}
    return desk.give(await desk.say("BUDGET_EXTENDED", more))


@verb("rollback", _("Roll the files back to a checkpoint; the present files are checkpointed first."))
@click.option("--run", "is_run", is_flag=True, help=_("Roll back to before the job."))
@click.option(
    "--to",
    "target",
    default="",
    metavar="CHECKPOINT",
    help=_("Roll back to this checkpoint, by its id or the beginning of it."),
)
@by_option
async def rollback(caller: Caller, is_run: bool, target: str, by: str) -> int:
    """The way back; a blocked job ends with it."""
    desk = await Desk.open(caller, by)
    standing = _current(desk)
    if standing is None or standing.run.ended is not None:
        if not target and not is_run:
            raise Refused("no job is active: say where to, with --to CHECKPOINT; `detent code checkpoints` lists them")
        if not target and standing is not None:
            job = job_of(standing.run.context)
            if job.landed is not None and job.landed.written:
                return await _take_back(desk, standing.run.id, job, job.landed)
            target = job.first_checkpoint
        return _show_rollback(desk, await desk.repository.rollback(target))
    desk.check("rollback")
    if target:
        await desk.repository.resolve(target)
    standing = await desk.say("ROLLBACK", {"run": is_run, "to": target})
    return desk.give(standing, 0 if standing.run.ended is not None else 1)


async def _take_back(desk: Desk, run_id: str, job: Job, landed: Landed) -> int:
    """Undo what a finished job has written, and nothing that was done since."""
    done = await desk.repository.take_back(run_id, (landed.before, landed.after), landed.written, landed.undo)
    await desk.repository.stage([path for path in landed.staged if path not in done.left])
    undo = done.undo.id if done.undo else ""
    if desk.caller.is_json:
        body = {"target": job.first_checkpoint, "undo": undo, "changed": list(done.written)}
        emit({"ok": True, **body, "left": list(done.left), "notes": [], "error": None})
        return 0
    desk.caller.say(_("taken back: {count} files", count=len(done.written)), "green")
    if done.left:
        names = visible(", ".join(done.left[:10]))
        desk.caller.say(_("  left, because you changed them since: {names}", names=names), "yellow")
    desk.caller.say(_("  take it back: {command}", command=desk.caller.command("code", "rollback", "--to", undo)))
    return 0


def _current(desk: Desk) -> RunReport | None:
    try:
        return desk.standing()
    except Refused:
        return None


def _show_rollback(desk: Desk, done: Rollback) -> int:
    if desk.caller.is_json:
        body = {"target": done.target.id, "undo": done.undo.id, "changed": [c.path for c in done.changed]}
        emit({"ok": True, **body, "left": list(done.left), "notes": list(done.notes), "error": None})
        return 0
    desk.caller.say(_("put back to {target}: {count} files", target=done.target.id, count=len(done.changed)), "green")
    for note in done.notes:
        desk.caller.say(f"  {note}", "yellow")
    command = desk.caller.command("code", "rollback", "--to", done.undo.id)
    desk.caller.say(_("  take it back: {command}", command=command))
    return 0


@verb("update-state", _("Move the job to a state, if exactly one command leads there."))
@click.argument("state", metavar="STATE")
@by_option
async def update_state(caller: Caller, state: str, by: str) -> int:
    """The context manager's `update_state`."""
    desk = await Desk.open(caller, by)
    run = desk.standing().run
    rows = [
        row for row in (*SEED, *ADDED, *CARRIED) if row.source == run.state and row.target == state.upper() and row.on
    ]
    said = sorted({row.on for row in rows})
    sayable = [name for name in said if name not in CONCLUDED]
    if not rows:
        raise Refused(f"nothing leads from {run.state} to {state.upper()}")
    if not sayable:
        raise Refused(f"{run.state} is left for {state.upper()} only on evidence ({', '.join(said)})")
    if sayable == ["ROLLBACK"]:
        raise Refused(
            "that would undo work: say it by its name, `detent code rollback` or `detent code abandon --keep`"
        )
    if len(sayable) > 1:
        raise Refused(f"several things lead from {run.state} to {state.upper()}: {', '.join(sayable)}; say which")
    data: dict[str, object] = {}
    if sayable == ["USER_CONFIRM"]:
        raise Refused("a plan is confirmed by its digest: `detent code confirm --plan DIGEST`")
    return desk.give(await desk.say(sayable[0], data))


@verb("update-progress", _("Set a task's status: DONE (checked first), BLOCKED or PENDING."))
@click.argument("task", metavar="TASK")
@click.argument("status", metavar="STATUS", type=click.Choice(["PENDING", "DONE", "BLOCKED"], case_sensitive=False))
@click.option("--summary", default="", metavar="TEXT", help=_("What was done."))
@by_option
async def update_progress(caller: Caller, task: str, status: str, summary: str, by: str) -> int:
    """The context manager's `update_progress`: a wish, not a fact; DONE needs evidence."""
    desk = await Desk.open(caller, by)
    run = desk.standing().run
    job = job_of(run.context)
    here = (job.blocked.task if job.blocked else "") or job.step.task
    if task != here:
        raise Refused(f"only the current task can be updated; that is {here or 'none'}")
    if status.upper() == "BLOCKED":
        desk.check("stop")
        return desk.give(await desk.say("FORCE_STOP", {"reason": summary or "set to BLOCKED"}), 0)
    desk.check("fix")
    if status.upper() == "PENDING":
        return desk.give(await desk.say("RETRY_TASK"))
    return desk.give(await desk.say("HUMAN_INTERVENTION", {"hint": summary}))


COMMANDS = (
    cancel, pause, resume, stop, fix, approve, answer, retry, skip, extend, abandon, rollback, update_state,
    update_progress,
)  # fmt: skip
