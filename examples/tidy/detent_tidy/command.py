"""`detent tidy FOLDER`: start a run and stay with it until it ends or asks."""

from pathlib import Path
from typing import Any

import click

from detent.errors import Refused
from detent.kit.agent import of_agent
from detent.kit.language import _
from detent.kit.terminal.caller import Caller
from detent.kit.terminal.option import by_option, verb
from detent.kit.terminal.run_driver import drive, give
from detent.kit.terminal.run_wording import Manner
from detent_tidy.machine import TIDY


@verb("tidy", _("Find old files in a folder, and remove them once you agree."))
@click.argument("folder", metavar="FOLDER")
@click.option("--days", default=30, metavar="N", type=click.IntRange(1), help=_("How old a file must be, in days."))
@by_option
async def tidy(caller: Caller, folder: str, days: int, by: str) -> int:
    """Look, ask, remove."""
    place = Path(folder).resolve()
    if not place.is_dir():
        raise Refused(_("there is no folder {folder}", folder=str(place)))
    async with caller.host() as host:
        run = await host.start(TIDY, {"folder": str(place), "days": days}, by=by, source=of_agent("tidy"))
        await drive(caller, host, run.id)
        return give(caller, run.id)


def _response(output: Any) -> str:
    removed, changed = output.get("removed"), output.get("changed")
    if removed is None:
        return _("Nothing is that old.")
    left = _("; changed meanwhile and left alone: {names}", names=", ".join(changed)) if changed else ""
    return _("Removed: {names}", names=", ".join(removed) or "-") + left


COMMANDS = {"tidy": tidy}
MANNER = Manner(response=_response)
