"""The command prune: old runs go, except those whose trace still protects a key."""

import time
from typing import Any

import click

from detent.core.duration import seconds_of
from detent.kit.language import _
from detent.kit.safe_text import visible
from detent.kit.terminal.caller import Caller, emit
from detent.kit.terminal.option import by_option, verb


@verb("prune")
@click.option(
    "--older-than",
    "age",
    required=True,
    metavar="TIME",
    help=_("How long ago a run must have ended, like 90d or 12h."),
)
@click.option("--dry-run", "is_dry", is_flag=True, help=_("Only list what would be deleted."))
@by_option
async def prune(caller: Caller, age: str, is_dry: bool, by: str) -> int:
    """Forget runs that ended long ago."""
    seconds = seconds_of(age)
    if seconds is None or seconds < 0:
        raise click.UsageError(_("--older-than takes a time like 90d, not `{given}`", given=visible(age)))
    before = time.time() - seconds
    found, kept = caller.reader.old_runs(before)
    if is_dry or not found:
        return _give(caller, {"pruned": found, "kept_for_keys": kept, "records": []}, is_dry)
    async with caller.host() as host:
        return _give(caller, await host.prune(before, by=by), is_dry)


def _give(caller: Caller, done: dict[str, Any], is_dry: bool) -> int:
    if caller.is_json:
        emit({"ok": True, **done, "dry_run": is_dry, "error": None})
        return 0
    for one in done["pruned"]:
        caller.note(f"  {one['run_id']}  {visible(one['name'])}  {one['status']}  {one['checkpoint'][:16]}", "dim")
    counts = {"count": len(done["pruned"]), "kept": done["kept_for_keys"]}
    if is_dry:
        caller.say(
            _(
                "{count} runs would be deleted; {kept} older ones are kept because they protect an irreversible call",
                **counts,
            )
        )
    else:
        caller.say(
            _("{count} runs deleted; {kept} older ones are kept because they protect an irreversible call", **counts)
        )
    return 0


COMMANDS = {"prune": prune}
