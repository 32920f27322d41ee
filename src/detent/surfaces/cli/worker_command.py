"""The commands worker and db: carrying out what runs on a database lead to, and the database itself."""

import asyncio
import signal
from collections import Counter
from collections.abc import Iterator

import click

from detent.errors import DetentError, Refused
from detent.host.address import find_address, find_place
from detent.host.opening import open_host, prepare_database
from detent.host.reading import DatabaseReport
from detent.kit.audit.decision_trail import parse_time
from detent.kit.error_translation import translate_error
from detent.kit.language import _
from detent.kit.safe_text import clock, visible
from detent.kit.terminal.caller import Caller, emit
from detent.kit.terminal.option import by_option, verb

SLOTS = 8
GRACE_S = 20.0
QUEUES = ("shared", "own", "local")  # what anybody may do, local calls of its own place, those of runs without a place
LEASE_S = 60.0
NAME_MAX = 100


@verb("worker")
@click.option("--slots", type=click.IntRange(1, 1000), default=SLOTS, metavar="N", help=_("How many calls at once."))
@click.option("--name", default="", metavar="NAME", help=_("Its place: workers with the same name see the same files."))
@click.option(
    "--queues",
    default=",".join(QUEUES),
    metavar="LIST",
    help=_("Which queues it takes calls from: {words}.", words=", ".join(QUEUES)),
)
@click.option("--lease", "lease_s", type=click.FloatRange(1.0), default=LEASE_S, metavar="SECONDS",
              help=_("How long its place may be away before runs ask a person."))  # fmt: skip
async def worker(caller: Caller, slots: int, name: str, queues: str, lease_s: float) -> int:
    """Carry out calls until SIGINT or SIGTERM."""
    if not find_address(caller.home):
        raise Refused("a worker is for runs in a database: give --home postgresql://HOST/DATABASE")
    wanted = [one.strip() for one in queues.split(",") if one.strip()]
    if not wanted or not set(wanted) <= set(QUEUES):
        raise Refused(f"--queues is `{queues}`; it must be some of {', '.join(QUEUES)}")
    if len(name) > NAME_MAX or not name.isprintable():
        raise Refused(f"--name must be a name of at most {NAME_MAX} characters")
    place = find_place(name)
    mine = {"slots": slots, "place": place, "queues": tuple(wanted), "lease_s": lease_s}
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, told.set)
    async with (
        caller.driving() as given,
        open_host(caller.home, reader=caller.reader, grace_s=GRACE_S, **mine, **given) as host,
    ):
        silent = _("the database does not answer; nothing is lost, and this worker goes on when it is back")
        host.on_silence = lambda: caller.warn(silent)
        taken_up = await host.recover()
        report = prepare_database(caller.home, is_checked_only=True)
        if caller.is_json:
            emit({"ok": True, "database": report.name, "slots": slots, "place": place,
                  "taken_up": list(taken_up), "error": None})  # fmt: skip
        else:
            known = {"name": visible(report.name), "slots": slots, "count": len(taken_up), "place": visible(place)}
            caller.say(_("works on {name} at {place}, {slots} calls at once; runs taken up: {count}", **known), "green")
            caller.say(_("Ctrl-C stops it."), "dim")
        await told.wait()
        caller.note(_("Stopping; another worker goes on with what is not finished in time."))
    return 0


@verb("db")
@click.argument("what", type=click.Choice(["init", "migrate", "check", "restored"]))
@click.option("--since", default="", metavar="TIME", help=_("With `restored`: when the copy was made."))
@by_option
async def db(caller: Caller, what: str, since: str, by: str) -> int:
    """Make the tables of a database, bring them up to date, look at them, or say that they were restored."""
    if (what == "restored") != bool(since):
        raise click.UsageError(_("--since goes with `restored`, which needs it"))
    if what == "restored":
        return await _say_restored(caller, parse_time(since, "--since") or 0.0, by)
    report = await asyncio.to_thread(prepare_database, caller.home, is_checked_only=what == "check")
    is_ready = report.version == report.known
    if caller.is_json:
        emit({"ok": is_ready, **report._asdict(), "error": None if is_ready else _describe_lack(report)})
    else:
        known = {**report._asdict(), "name": visible(report.name)}
        caller.say(_("{name}: PostgreSQL {server}, schema {version}", **known), "green" if is_ready else "red")
        if is_ready:
            counts = _("{runs} runs, {at_work} calls at work, {queued} jobs waiting, {workers} workers", **known)
            caller.say(counts, "dim")
        else:
            caller.say(_describe_lack(report)["message"], "red")
        if report.swept:
            caller.warn(_("the sweep had to put {count} things right; that should not be", count=report.swept))
    return 0 if is_ready else 1


async def _say_restored(caller: Caller, since: float, by: str) -> int:
    """Begin a new epoch: irreversible calls that the copy cannot know are asked about from now on."""
    if not find_address(caller.home):
        raise Refused(
            "`detent restore` puts a file back; this is for a database: give --home postgresql://HOST/DATABASE"
        )
    async with caller.driving() as given, open_host(caller.home, reader=caller.reader, slots=0, **given) as host:
        epoch = await host.mark_restored(since, by=by)
    if caller.is_json:
        emit({"ok": True, "epoch": epoch, "since": since, "error": None})
        return 0
    known = {"clock": clock(since), "epoch": epoch}
    caller.say(_("restored as of {clock}, epoch {epoch}", **known), "green")
    caller.say(_("So irreversible calls that it does not know are asked about. When everything was looked into:"))
    caller.say(f"  {caller.command('restore', '--close-gap')}")
    return 0


def _describe_lack(report: DatabaseReport) -> dict[str, str]:
    way_out = "detent db init" if not report.version else "detent db migrate"
    if report.version > report.known:
        way_out = _("this detent is older; update it")
    message = _("the tables are of version {version}, not {known}", version=report.version, known=report.known)
    return {"type": "journal_error", "message": f"{message}: {way_out}"}


def describe_unserved(caller: Caller) -> Iterator[str]:
    """Calls that lie there because nobody at work can make them."""
    try:
        found = caller.reader.list_unserved() if caller.has_journal() else ()
    except DetentError:
        return  # told where the journal is looked at
    for problem, count in Counter(one.problem for one in found).items():
        yield _("{count} calls wait: {problem}", count=count, problem=visible(translate_error(problem)))


COMMANDS = {"worker": worker, "db": db}
