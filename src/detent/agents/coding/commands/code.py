"""`detent code`: from a requirement to a verified, archived change."""

import asyncio
import subprocess
from pathlib import Path
from typing import Any

import click
import msgspec

from detent.agents.coding import (
    active_context,
    check_detection,
    github_api,
    lease,
    plan_parser,
    planning,
    worker_registry,
)
from detent.agents.coding import settings as configuration
from detent.agents.coding.commands import control_commands, read_commands, review_commands
from detent.agents.coding.commands.current_job import SOURCE, Desk, ask_person, is_interactive
from detent.agents.coding.job import Published, job_of
from detent.agents.coding.known_failure import NONE
from detent.agents.coding.machine import CODING
from detent.agents.coding.plan import order
from detent.agents.coding.settings import PlannerSettings, Settings, WorkerSettings
from detent.agents.coding.workspace import Repository
from detent.agents.coding.workspace.head import operations
from detent.errors import Refused
from detent.host.run_id import new_run_id
from detent.kit.language import _
from detent.kit.safe_text import visible
from detent.kit.terminal.caller import Caller
from detent.kit.terminal.option import by_option, verb
from detent.kit.terminal.run_view import RunReport

GO = {"go", "yes", "y", "ok", "confirm", "确认", "执行", "好", "是"}
CANCEL = {"cancel", "no", "n", "取消", "否"}
yes_option = click.option(
    "--yes", "is_yes", is_flag=True, help=_("Confirm the plan without asking, and land what was verified.")
)


@verb("start", _("Plan a requirement, ask you to confirm, and carry it out."))
@click.argument("requirement", metavar="REQUIREMENT")
@click.option("--plan", "plan_file", default="", metavar="FILE", help=_("Use this plan file instead of making a plan."))
@click.option(
    "--worker", default="", metavar="NAME|COMMAND", help=_("The worker to use instead of the configured one.")
)
@click.option("--planner", type=click.Choice(["model", "worker", "single"]), help=_("The planner to use."))
@click.option("--init", "is_init", is_flag=True, help=_("Run `git init` where there is no repository."))
@yes_option
@by_option
async def start(
    caller: Caller,
    requirement: str,
    plan_file: str,
    worker: str,
    planner: str | None,
    is_init: bool,
    is_yes: bool,
    by: str,
) -> int:
    """Begin a job."""
    if not requirement.strip():
        raise click.UsageError(_("the requirement is empty"))
    await _offer_git(caller, is_init)
    desk = await Desk.open(caller, by)
    if worker:
        _check(_worker(worker), desk)  # who cannot work is refused before anything is written
    _say_what_is_under_way(desk)
    chosen = _choose_settings(desk, plan_file, worker, planner)
    _check(chosen.worker, desk)
    run_id = new_run_id()
    stale = lease.take(desk.repository.place, run_id, caller.home, by, desk.holds)
    if stale is not None and not caller.is_json:
        caller.note(_("job {run_id} is over; its lease was taken over", run_id=stale.run_id), "dim")
    return await _begin(desk, run_id, {"settings": msgspec.to_builtins(chosen)}, requirement, is_yes)


async def _begin(desk: Desk, run_id: str, given: dict[str, Any], requirement: str, is_yes: bool) -> int:
    """Start the run whose lease is taken, and go on to the plan."""
    async with desk.caller.host() as host:
        begun = await host.start(CODING, {"root": str(desk.root), **given}, run_id=run_id, by=desk.by, source=SOURCE)
        desk.caller.interrupted = begun.id
        await host.signal(begun.id, "USER_INPUT_REQUIREMENT", {"requirement": requirement}, by=desk.by)
        await desk.drive(host, begun.id, begun.seq)
    return await _onward(desk, is_yes)


@verb("issue", _("Work on an issue: plan it, carry it out, push a branch and open a draft pull request."))
@click.argument("issue", metavar="OWNER/REPO#N")
@click.option(
    "--worker", default="", metavar="NAME|COMMAND", help=_("The worker to use instead of the configured one.")
)
@yes_option
@by_option
async def work_on_issue(caller: Caller, issue: str, worker: str, is_yes: bool, by: str) -> int:
    """From an issue to a pull request; pushing and opening are asked about."""
    name = github_api.parse_issue(issue)
    desk = await Desk.open(caller, by)
    if not desk.repository.has_git:
        raise Refused("an issue is worked on in a git repository that has a remote")
    chosen = _choose_settings(desk, "", worker, None)
    _check(chosen.worker, desk)
    remotes = (await desk.repository.place.plain("remote")).decode().split()
    if chosen.forge.remote not in remotes:
        raise Refused(f"this repository has no remote `{chosen.forge.remote}`; `forge.remote` names another")
    found = await github_api.Forge(chosen.forge).read_issue(name)
    # The change goes onto a branch of its own; the files here stay as they are.
    workspace = msgspec.structs.replace(chosen.workspace, land="branch")
    chosen = msgspec.structs.replace(chosen, workspace=workspace, commit="branch")
    run_id = new_run_id()
    lease.take(desk.repository.place, run_id, caller.home, by, desk.holds)
    place = Published(name.repo, f"detent/{run_id}", chosen.forge.remote, name.number)
    given = {"settings": msgspec.to_builtins(chosen), "publish": msgspec.to_builtins(place)}
    return await _begin(desk, run_id, given, f"{found.title}\n\n{found.body}\n\n{found.url}".strip(), is_yes)


UNDER_WAY = {
    "MERGE_HEAD": "merge", "CHERRY_PICK_HEAD": "cherry-pick", "REVERT_HEAD": "revert", "BISECT_LOG": "bisect",
    "rebase-merge": "rebase", "rebase-apply": "rebase", "sequencer": "cherry-pick",
}  # fmt: skip


def _say_what_is_under_way(desk: Desk) -> None:
    """A job may work in the middle of a merge; whoever forgot about theirs would rather know before."""
    found = sorted({UNDER_WAY.get(name, name) for name in operations(desk.repository.place)})
    if found and desk.repository.has_git:
        text = _(
            "in the middle of a {name}: the job works on the files as they are, and leaves it to you", name=found[0]
        )
        desk.caller.note(text, "yellow")


async def _offer_git(caller: Caller, is_wanted: bool) -> None:
    repository = await Repository.open(".")
    if repository.has_git:
        return
    if not is_wanted and is_interactive(caller):
        is_wanted = await asyncio.to_thread(click.confirm, _("There is no git repository here. Run `git init`?"), True)
    if is_wanted:
        subprocess.run(["git", "init", "--quiet"], check=True, cwd=repository.root)  # noqa: ASYNC221, S607
    else:
        caller.note(_("no git repository here: checkpoints are kept in .detent; `--init` makes one"), "yellow")


def _choose_settings(desk: Desk, plan_file: str, worker: str, planner: str | None) -> Settings:
    """The project's settings, detected and written where there are none, with what this call says instead."""
    found = configuration.read(desk.root)
    if found is None:
        found = _detect_settings(desk, worker)
        path = desk.root / configuration.FILE
        active_context.write(path, configuration.write_settings(found).encode())
        names = ", ".join(step.name for step in found.verify) or _("none")
        desk.caller.note(_("wrote {file}; checks: {names}", file=configuration.FILE, names=names))
    found = configuration.add_local(desk.root, found)
    if worker:
        found = msgspec.structs.replace(found, worker=_worker(worker))
    if plan_file:
        path = Path(plan_file)
        if not path.is_file():
            raise Refused(f"there is no plan {plan_file}")
        plan_parser.read(path.read_text("utf-8", errors="replace"))  # refused now, not after a job has begun
        found = msgspec.structs.replace(found, planner=PlannerSettings("file", file=str(path.resolve())))
    elif planner:
        chosen: Any = planner
        found = msgspec.structs.replace(found, planner=msgspec.structs.replace(found.planner, use=chosen))
    return found


def _detect_settings(desk: Desk, worker: str) -> Settings:
    """Settings for a project that has none: its checks as far as their tools are here, and an agent that is."""
    steps, missing = check_detection.drop_missing(desk.root, check_detection.detect(desk.root))
    for one in missing:
        desk.caller.note(_("left out of the checks: {name}", name=one), "yellow")
    if worker:
        return Settings(verify=steps, worker=_worker(worker))
    agent = check_detection.find_agent()
    if not agent:
        return Settings(verify=steps)
    desk.caller.note(_("found the agent `{name}`; it will plan and work", name=agent))
    return Settings(verify=steps, worker=WorkerSettings(agent), planner=PlannerSettings("worker"))


def _check(chosen: WorkerSettings, desk: Desk) -> None:
    missing = worker_registry.missing(worker_registry.hire(chosen), str(desk.root))
    if missing:
        raise Refused(missing)


def _worker(text: str) -> WorkerSettings:
    return WorkerSettings(text) if text in worker_registry.WORKERS else WorkerSettings("shell", command=text)


async def _onward(desk: Desk, is_yes: bool) -> int:
    """Where a plan waits for its confirmation: show it, and ask."""
    standing = desk.standing()
    while standing.run.state == "CONFIRMING":
        shown_digest = show_plan(desk, standing)
        if is_yes:  # who trusts the checks is not asked again
            return desk.give(await desk.say("USER_CONFIRM", {"plan": shown_digest}))
        if not is_interactive(desk.caller):
            return desk.give(standing)
        said = await ask_person(_("Go, modify …, or cancel?"))
        standing = await _take_in_edits(desk, standing)
        if _digest(standing) != shown_digest:
            continue  # it was edited while we asked: show it again
        word = said.lower().rstrip("!.。！")
        if word in GO:
            standing = await desk.say("USER_CONFIRM", {"plan": shown_digest, "attended": True})
            return desk.give(await review_commands.attend(desk, standing))
        if word in CANCEL:
            return desk.give(await desk.say("USER_CANCEL"))
        if said:
            standing = await desk.say("USER_MODIFY", {"wish": said.removeprefix("modify").strip()})
    return desk.give(standing)


def _digest(standing: RunReport) -> str:
    plan = job_of(standing.run.context).plan
    return plan.digest if plan else ""


def show_plan(desk: Desk, standing: RunReport) -> str:
    """The plan for people; returns its digest."""
    job = job_of(standing.run.context)
    if job.plan is None:
        return ""
    say, body = desk.caller.say, job.plan.body
    say()
    say(visible(body.title), "cyan")
    if body.goal:
        say(f"  {visible(body.goal, keep=chr(10))}")
    for task in order(body.tasks):
        depends = _("  after {tasks}", tasks=", ".join(task.depends)) if task.depends else ""
        say(f"  [ ] {task.id} P{task.priority} {visible(task.title)}{depends}")
        for item in task.acceptance:
            say(f"        {visible(item)}", "dim")
        if task.mends and task.mends != (NONE,):
            say(_("        must not fail any more: {names}", names=visible(", ".join(task.mends))), "dim")
    for risk in body.risks:
        say(_("  risk: {risk}", risk=visible(risk)), "yellow")
    checks = ", ".join(step.name for step in job.settings.verify) or _("none")
    say(_("  checks: {names}; worker: {worker}", names=checks, worker=job.settings.worker.use))
    if job.plan.judges:
        names = visible(", ".join(job.plan.judges))
        say(_("  judged by: {names}; changes to these wait for your approval", names=names), "dim")
    if job.settings.verify and not any(task.mends for task in body.tasks):
        say(
            _("  checks that fail already are not held against it; `Mends: NAME` in a task, or `all`, says otherwise"),
            "dim",
        )
    say(_("  edit it: {file}", file=str(planning.plan_path(job.root))), "dim")
    return job.plan.digest


async def _take_in_edits(desk: Desk, standing: RunReport) -> RunReport:
    """The job with what was edited in the plan document; the edit is shown."""
    job = job_of(standing.run.context)
    text, was = planning.read_edits(job)
    if not text or text == was:
        return standing
    plan_parser.read(text)  # a broken plan is refused before the job hears of it
    desk.caller.note(active_context.difference_of(was, text, planning.PLAN_FILE))
    return await desk.say("PLAN_EDITED", {"text": text})


@verb("confirm", _("Confirm the plan and start working on it."))
@click.option("--plan", "digest", default="", metavar="DIGEST", help=_("The digest of the plan you reviewed."))
@click.option("--yes", "is_yes", is_flag=True, help=_("Land what was verified without asking."))
@by_option
async def confirm(caller: Caller, digest: str, is_yes: bool, by: str) -> int:
    """Say Go."""
    desk = await Desk.open(caller, by)
    before = desk.check("confirm")
    standing = await _take_in_edits(desk, before)
    now = _digest(standing)
    if digest and digest != now:
        raise Refused(f"the plan is {now} now, not {digest}; look at it again: {caller.command('code', 'status')}")
    if not digest and now != _digest(before):
        desk.caller.note(_("the plan was edited; confirm what it is now"), "yellow")
        return desk.give(standing)
    if is_yes or not is_interactive(caller):
        return desk.give(await desk.say("USER_CONFIRM", {"plan": now}))
    standing = await desk.say("USER_CONFIRM", {"plan": now, "attended": True})
    return desk.give(await review_commands.attend(desk, standing))


@verb("revise", _("Ask for changes to the plan."))
@click.argument("wish", metavar="WISH")
@yes_option
@by_option
async def revise(caller: Caller, wish: str, is_yes: bool, by: str) -> int:
    """Back to planning."""
    desk = await Desk.open(caller, by)
    desk.check("revise")
    await desk.say("USER_MODIFY", {"wish": wish})
    return await _onward(desk, is_yes)


class Code(click.Group):
    """The group of the lifecycle's commands."""


COMMANDS: dict[str, click.Command] = {
    "code": Code(
        "code",
        commands={
            c.name or "": c
            for c in (
                start,
                work_on_issue,
                confirm,
                revise,
                *review_commands.COMMANDS,
                *control_commands.COMMANDS,
                *read_commands.COMMANDS,
            )
        },
        help=_("Turn a requirement into a verified change in a git repository."),
        context_settings={"help_option_names": ["-h", "--help"]},
    )
}
