"""What a person says before work lands, and about what its tests need: `detent code review`, `detent code include`."""

from collections.abc import Sequence
from typing import Any

import click

from detent.agents.coding import active_context
from detent.agents.coding import settings as configuration
from detent.agents.coding.commands.current_job import Desk, ask_person, is_interactive
from detent.agents.coding.commands.read_commands import show_patch
from detent.agents.coding.hunk import Hunk
from detent.agents.coding.job import job_of
from detent.agents.coding.review import LandingReview, RejectedHunk, read_review, write_comments
from detent.errors import Refused
from detent.kit.language import _
from detent.kit.safe_text import visible
from detent.kit.terminal.caller import Caller, emit
from detent.kit.terminal.option import by_option, verb
from detent.kit.terminal.run_view import RunReport

REJECT = {"r", "n", "reject", "no", "拒绝"}
YES = {"y", "yes", "ok", "是", "好"}
REST = {"all", "rest", "全部"}
QUIT = {"q", "quit", "later", "退出"}


class WaitingReview:
    """A question about landing that is open, and what it is about."""

    def __init__(self, question: dict[str, Any], shown: LandingReview) -> None:
        self.question, self.shown = question, shown


async def find_waiting(desk: Desk, standing: RunReport) -> WaitingReview | None:
    """The review that waits, if one does."""
    job = job_of(standing.run.context)
    for question in standing.questions:
        tree = str((question.get("data") or {}).get("tree") or "")
        if standing.run.state == "ARCHIVING" and tree:
            return WaitingReview(question, await read_review(desk.repository, job.base, tree))
    return None


async def attend(desk: Desk, standing: RunReport) -> RunReport:
    """Stay with a job that somebody watches: ask them what it asks, as long as it does."""
    while True:
        job = job_of(standing.run.context)
        waiting = await find_waiting(desk, standing)
        if waiting is not None:
            said = await _ask_about_hunks(desk.caller, waiting.shown)
            if said is None:
                return standing
            standing = await _answer(desk, waiting.question, said)
        elif standing.run.state == "ARCHIVING" and standing.questions:
            asked = standing.questions[0]
            said_word = (await ask_person(f"{visible(asked['question'])} [y/n]")).lower()
            if said_word not in (*YES, *REJECT):
                return standing
            standing = await _answer(desk, asked, {"approved": said_word in YES})
        elif standing.run.state == "BLOCKED" and job.blocked is not None and job.blocked.reason == "only_here":
            desk.caller.say(visible(job.blocked.detail), "yellow")
            words = await ask_person(_("Give them what? (paths or variables; nothing: go on without)"))
            standing = await _include(desk, words.split(), [])
        else:
            return standing


async def _ask_about_hunks(caller: Caller, shown: LandingReview) -> dict[str, Any] | None:
    """What a person says, hunk by hunk; None: not now."""
    rejected: list[RejectedHunk] = []
    for number, hunk in enumerate(shown.hunks, 1):
        _show_hunk(caller, hunk)
        place = _("{number} of {count}", number=number, count=len(shown.hunks))
        said = (await ask_person(_("{place}: accept, reject REMARK, all, quit?", place=place))).strip()
        word, _space, rest = said.partition(" ")
        if word.lower() in REST:
            break
        if word.lower() in QUIT:
            return None
        if word.lower() in REJECT:
            rejected.append(RejectedHunk(hunk.id, rest.strip() or await ask_person(_("What is wrong with it?"))))
    return _words(shown, rejected)


def _words(shown: LandingReview, rejected: Sequence[RejectedHunk], comment: str = "") -> dict[str, Any]:
    reject = [{"hunk": one.hunk, "comment": one.comment} for one in rejected]
    is_no = bool(rejected or comment)
    return {"approved": not is_no, "comment": comment, "data": {"diff": shown.diff, "reject": reject}}


def _show_hunk(caller: Caller, hunk: Hunk) -> None:
    caller.say()
    caller.say(f"{hunk.id}  {visible(hunk.path)}", "cyan")
    show_patch(caller, hunk.text)


async def _answer(desk: Desk, question: dict[str, Any], said: dict[str, Any]) -> RunReport:
    async with desk.caller.host() as host:
        full = {**said, "by": desk.by, "channel": "cli", "call_hash": question.get("call_hash", "")}
        await host.answer(question["run_id"], question["contract_id"], full)
        await desk.drive(host, question["run_id"], desk.standing().run.seq)
    return desk.standing()


@verb("review", _("Look at the change that waits to land: accept it, or send parts of it back."))
@click.option("--accept", "is_accepted", is_flag=True, help=_("Let it land as it is."))
@click.option("--reject", "rejected", multiple=True, metavar="HUNK", help=_("Send this hunk back to the worker."))
@click.option(
    "--comment",
    "comments",
    multiple=True,
    metavar="TEXT",
    help=_("What is wrong: one text for each --reject, or one for all."),
)
@click.option("--diff", "seen", default="", metavar="DIGEST", help=_("The digest of the difference you looked at."))
@click.option("--stop", "is_stopped", is_flag=True, help=_("Neither accept nor reject: block the job."))
@by_option
async def review(
    caller: Caller,
    is_accepted: bool,
    rejected: tuple[str, ...],
    comments: tuple[str, ...],
    seen: str,
    is_stopped: bool,
    by: str,
) -> int:
    """Before it lands."""
    desk = await Desk.open(caller, by)
    standing = desk.check("review")
    waiting = await find_waiting(desk, standing)
    if waiting is None:
        raise Refused("nothing waits for a review here; `detent code status` says how far the job is")
    shown = waiting.shown
    if seen and seen != shown.diff:
        raise Refused(f"the difference is {shown.diff} now, not {seen}; look at it again")
    if sum((is_accepted, bool(rejected or comments), is_stopped)) > 1:
        raise click.UsageError(_("say one of --accept, --reject and --stop"))
    if is_accepted:
        return desk.give(await _answer(desk, waiting.question, _words(shown, [])))
    if is_stopped:
        said = {"approved": False, "data": {"diff": shown.diff, "stop": True}}
        return desk.give(await _answer(desk, waiting.question, said))
    if rejected or comments:
        each = [RejectedHunk(hunk, comments[n] if n < len(comments) else "") for n, hunk in enumerate(rejected)]
        whole = "\n".join(comments[len(rejected) :])
        write_comments(shown.hunks, each, whole)  # refused now, not after the job has heard of it
        return desk.give(await _answer(desk, waiting.question, _words(shown, each, whole)))
    if is_interactive(caller):
        return desk.give(await attend(desk, standing))
    return _show(caller, shown)


def _show(caller: Caller, shown: LandingReview) -> int:
    if caller.is_json:
        rows = [{"id": one.id, "path": one.path, "text": one.text} for one in shown.hunks]
        emit({"ok": True, "diff": shown.diff, "tree": shown.tree, "hunks": rows, "error": None})
        return 0
    for hunk in shown.hunks:
        _show_hunk(caller, hunk)
    caller.say()
    accept = caller.command("code", "review", "--accept", "--diff", shown.diff)
    caller.say(_("  let it land: {command}", command=accept), "cyan")
    reject = caller.command("code", "review", "--reject", "HUNK", "--comment", "TEXT")
    caller.say(_("  send a part back: {command}", command=reject), "cyan")
    return 0


@verb("include", _("Blocked: some tests pass only in your own tree; name the files they need."))
@click.argument("things", metavar="[PATH|VARIABLE]...", nargs=-1)
@click.option(
    "--service", "services", multiple=True, metavar="PATH", help=_("A socket or folder outside of the project.")
)
@click.option("--none", "is_none", is_flag=True, help=_("Include nothing; go on without these tests."))
@by_option
async def include(caller: Caller, things: tuple[str, ...], services: tuple[str, ...], is_none: bool, by: str) -> int:
    """Ignored files, sockets and variables for the copy and the checks; remembered on this machine."""
    if bool(things or services) == is_none:
        raise click.UsageError(_("name what they need, or say --none"))
    desk = await Desk.open(caller, by)
    desk.check("include")
    return desk.give(await _include(desk, things, services))


async def _include(desk: Desk, things: Sequence[str], services: Sequence[str]) -> RunReport:
    """Hand on what was named, and remember it: nobody is asked twice."""
    files = [one for one in things if not _is_service(desk, one)]
    outside = [*services, *(one for one in things if _is_service(desk, one))]
    missing = [one for one in files if not any(desk.root.glob(one))]
    if missing:
        raise Refused(f"there is no `{missing[0]}` in {desk.root}")
    known = configuration.read_local(desk.root) or configuration.LocalAnswers()
    said = {"include": sorted({*known.include, *files}), "services": sorted({*known.services, *outside})}
    active_context.json_file(desk.root / configuration.LOCAL, said)
    if files or outside:
        wanted = ", ".join(f"{name}: [{', '.join(found)}]" for name, found in said.items() if found)
        told = _("remembered here; for everybody, in {file}: {line}", file=configuration.FILE, line=_line(wanted))
        desk.caller.note(told)
    return await desk.say("HUMAN_INTERVENTION", {"include": files, "services": outside})


def _line(wanted: str) -> str:
    return f"workspace: {{{wanted}}}"


def _is_service(desk: Desk, word: str) -> bool:
    """Whether a word is something of the machine: a path outside, or the name of a variable."""
    return word.startswith(("/", "~")) or (word.isidentifier() and word.isupper() and not (desk.root / word).exists())


COMMANDS = (review, include)
