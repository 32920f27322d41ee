"""The commands worker and db: carrying out what runs on a database lead to, and the database itself."""

import asyncio
import signal

import click

from detent.errors import Refused
from detent.host.address import find_address
from detent.host.opening import open_host, prepare_database
from detent.host.reading import DatabaseReport
from detent.kit.language import _
from detent.kit.terminal.caller import Caller, emit
from detent.kit.terminal.option import verb
from detent.kit.text import visible

SLOTS = 8
GRACE_S = 20.0


@verb("worker")
@click.option("--slots", type=click.IntRange(1, 1000), default=SLOTS, metavar="N", help=_("How many calls at once."))
async def worker(caller: Caller, slots: int) -> int:
    """Carry out calls until SIGINT or SIGTERM."""
    if not find_address(caller.home):
        raise Refused("a worker is for runs in a database: give --home postgresql://HOST/DATABASE")
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, told.set)
    async with (
        caller.driving() as given,
        open_host(caller.home, reader=caller.reader, slots=slots, grace_s=GRACE_S, **given) as host,
    ):
        taken_up = await host.recover()
        report = prepare_database(caller.home, is_checked_only=True)
        if caller.is_json:
            emit({"ok": True, "database": report.name, "slots": slots, "taken_up": list(taken_up), "error": None})
        else:
            known = {"name": visible(report.name), "slots": slots, "count": len(taken_up)}
            caller.say(_("works on {name}, {slots} calls at once; runs taken up: {count}", **known), "green")
            caller.say(_("Ctrl-C stops it."), "dim")
        await told.wait()
        caller.note(_("Stopping; another worker goes on with what is not finished in time."))
    return 0


@verb("db")
@click.argument("what", type=click.Choice(["init", "migrate", "check"]))
async def db(caller: Caller, what: str) -> int:
    """Make the tables of a database, bring them up to date, or look at them."""
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


def _describe_lack(report: DatabaseReport) -> dict[str, str]:
    way_out = "detent db init" if not report.version else "detent db migrate"
    message = _("the tables are of version {version}, not {known}", version=report.version, known=report.known)
    return {"type": "journal_error", "message": f"{message}: {way_out}"}


COMMANDS = {"worker": worker, "db": db}
