"""The commands backup, restore and move: a home is copied, put back and carried elsewhere."""

from pathlib import Path

import click

from detent.errors import Refused
from detent.host.address import is_address
from detent.host.opening import back_up, move_home, restore
from detent.host.relocation import cancel_move, move_to_database
from detent.kit.language import _
from detent.kit.safe_text import clock, visible
from detent.kit.terminal.caller import Caller, emit
from detent.kit.terminal.option import by_option, comment_option, verb


@verb("backup")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--force", "is_forced", is_flag=True, help=_("Replace an existing file."))
@click.option(
    "--keep", type=click.IntRange(1, 100_000), default=None, metavar="COUNT",
    help=_("If FILE is a folder: keep only this many backups in it."),
)  # fmt: skip
def backup(caller: Caller, file: Path, is_forced: bool, keep: int | None) -> int:
    """Write a backup of the home and check it."""
    if keep is not None and not file.is_dir():
        raise click.UsageError(_("--keep needs a folder; {file} is not one", file=visible(str(file))))
    done = back_up(caller.home, file, is_forced=is_forced, keep=keep or 0)
    if caller.is_json:
        emit({"ok": True, **done._asdict(), "error": None})
        return 0
    known = {"file": visible(done.file), "runs": done.runs, "events": done.events, "size": done.size // 1000}
    caller.say(_("{file}: {runs} runs, {events} events, {size} kB; hashes and claims checked", **known), "green")
    if done.left_out:
        caller.note(_("not in it: {names}", names=visible(", ".join(done.left_out[:10]))), "dim")
    for name in done.dropped:
        caller.note(_("removed: {file}", file=visible(name)), "dim")
    return 0


@verb("restore")
@click.argument("file", metavar="[FILE]", required=False, type=click.Path(path_type=Path))
@click.option("--over", "is_over", is_flag=True, help=_("Replace an existing journal; the old one is kept aside."))
@click.option(
    "--close-gap", "is_closing", is_flag=True, help=_("Stop asking about calls that the backup could not know of.")
)
@by_option
@comment_option
async def restore_home(
    caller: Caller, file: Path | None, is_over: bool, is_closing: bool, by: str, comment: str
) -> int:
    """Put a backup in the home's place."""
    if is_closing == (file is not None) or (is_over and is_closing):
        raise click.UsageError(_("say either the FILE to restore, or --close-gap"))
    if file is None:
        return await _close_gap(caller, by, comment)
    who = caller.admit("restore", by)  # by the people who are here: those of the backup may be others
    done = await restore(file, caller.home, is_over=is_over, by=who if who.known != "claimed" else by)
    if caller.is_json:
        emit({"ok": True, **done._asdict(), "error": None})
        return 0
    known = {"home": visible(done.home), "runs": done.runs, "clock": clock(done.since), "epoch": done.epoch}
    caller.say(_("{home}: restored as of {clock}, {runs} runs, epoch {epoch}", **known), "green")
    if done.aside:
        caller.say(_("what was here is kept in {folder}", folder=visible(done.aside)))
    told = {"since": clock(done.since), "until": clock(done.until), "count": done.live}
    caller.say(
        _("What was done between {since} and {until} is not in this journal; {count} runs were live.", **told), "yellow"
    )
    caller.say(_("So irreversible calls that it does not know are asked about. When everything was looked into:"))
    caller.say(f"  {caller.command('restore', '--close-gap')}")
    for twin in done.twins:
        caller.warn(_("the same journal is also in {home}; use only one of them", home=twin))
    return 0


async def _close_gap(caller: Caller, by: str, comment: str) -> int:
    if not caller.has_journal():
        raise Refused(f"there is no journal in {caller.home}")
    async with caller.host() as host:
        closed = await host.close_gap(by=by, comment=comment)
    if caller.is_json:
        emit({"ok": True, "closed": list(closed), "error": None})
    elif closed:
        caller.say(_("closed; new calls are made without that question, open questions stay"), "green")
    else:
        caller.say(_("there is no gap: this journal was not restored, or that is closed already"))
    return 0


@verb("move")
@click.option("--to", "target", default="", metavar="FOLDER", help=_("The new folder; it must be new or empty."))
@click.option("--all", "is_all", is_flag=True, help=_("Move the whole journal into a database: --to postgresql://…"))
@click.option("--cancel", "is_cancelled", is_flag=True, help=_("Abandon an unfinished move into a database."))
def move(caller: Caller, target: str, is_all: bool, is_cancelled: bool) -> int:
    """Move the home to another folder of this machine, or its journal into a database."""
    if is_cancelled == bool(target):
        raise click.UsageError(_("say either --to, or --all --cancel"))
    if is_all:
        return _give_up_move(caller) if is_cancelled else _move_to_database(caller, target)
    if is_address(target):
        raise Refused("only a whole journal moves into a database: say --all")
    if "://" in target:
        raise Refused(f"--to takes a folder of this machine, not an address like {target.partition('://')[0]}://…")
    caller.admit("move")
    move_home(caller.home, Path(target))
    if caller.is_json:
        emit({"ok": True, "from": str(caller.home), "home": str(Path(target)), "error": None})
        return 0
    caller.say(_("moved to {home}; give --home or DETENT_HOME from now on", home=visible(target)), "green")
    return 0


def _move_to_database(caller: Caller, address: str) -> int:
    if not is_address(address):
        raise Refused("--all moves a journal into a database: --to postgresql://HOST/DATABASE")
    caller.reader.close()
    done = move_to_database(caller.home, address)
    if caller.is_json:
        emit({"ok": True, "from": str(caller.home), **done._asdict(), "error": None})
        return 0
    known = {"runs": done.runs, "events": done.events, "claims": done.claims}
    caller.say(_("moved {runs} runs, {events} events and {claims} claims, all equal on both sides", **known), "green")
    caller.say(_("the old journal is sealed; give --home {address} from now on", address=visible(address)))
    if done.copied:
        caller.note(_("copied to {home}: {names}", home=done.home, names=visible(", ".join(done.copied[:10]))), "dim")
    if done.left:
        caller.note(_("not moved: {names}", names=visible(", ".join(done.left[:10]))), "dim")
    return 0


def _give_up_move(caller: Caller) -> int:
    caller.reader.close()
    address = cancel_move(caller.home)
    if caller.is_json:
        emit({"ok": True, "home": str(caller.home), "not_moved_to": address, "error": None})
    else:
        caller.say(_("given up; the journal stays in {home}", home=visible(str(caller.home))), "green")
    return 0


COMMANDS = {"backup": backup, "restore": restore_home, "move": move}
