"""The command settle: all open doubts by effect, and one answer for many of them."""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from itertools import groupby
from typing import TYPE_CHECKING, Any

import click
import msgspec
from msgspec.structs import replace

from detent.core.status import Status
from detent.kit.call_evidence import cause_of, landing
from detent.kit.language import _
from detent.kit.safe_text import clock, pad, status_word, visible, when
from detent.kit.terminal.caller import Caller, emit
from detent.kit.terminal.option import by_option, comment_option, complete, is_left, no_wait_option, parse_json, verb
from detent.kit.terminal.question import LABEL_WIDTH
from detent.kit.terminal.run_driver import drive
from detent.surfaces.cli.answer_commands import OUTCOMES
from detent.surfaces.doubt_settlement import Doubt, Settled, choose_doubts, settle

if TYPE_CHECKING:
    from detent.host.port import OpenHost

SHOWN_MAX = 10  # doubts of one effect, or refusals
Lines = Iterator[tuple[str, str]]


@verb("settle")
@click.argument("runs", metavar="[RUN]…", nargs=-1, shell_complete=complete)
@click.option("--effect", default="", metavar="NAME", help=_("Only doubts about this effect."))
@click.option("--all", "is_all", is_flag=True, help=_("Every open doubt."))
@click.option("--outcome", type=click.Choice(list(OUTCOMES)), help=_("The outcome of each of them."))
@click.option("--probe", "is_probed", is_flag=True, help=_("Ask each effect's probe whether the call happened."))
@click.option("--result", default="", metavar="JSON", help=_("With `--outcome happened`: its result."))
@comment_option
@no_wait_option
@by_option
async def settle_doubts(
    caller: Caller, runs: tuple[str, ...], effect: str, is_all: bool, outcome: str | None, is_probed: bool, **given: str
) -> int:
    """List the open doubts, or settle many of them at once."""
    _check(runs, effect, is_all, outcome, is_probed, given["result"])
    named = [caller.find(name).run_id for name in runs]
    doubts, idle = choose_doubts(caller.reader, named, effect) if caller.has_journal() else ([], [])
    if outcome is None and not is_probed:
        return _list(caller, doubts)
    said = None if outcome is None else _make_answer(OUTCOMES[outcome], **given)
    found = [Settled(run_id, "", effect, False, f"run {run_id} has no open doubt") for run_id in idle]
    async with caller.host() as host:
        found = await settle(host, doubts, said) + found
        if not is_left():
            await _stay(caller, host, [one.run_id for one in found if one.is_settled])
    return _give(caller, [_now(caller, one) for one in found], doubts)


def _check(runs: Sequence[str], effect: str, is_all: bool, outcome: str | None, is_probed: bool, result: str) -> None:
    if is_all and (runs or effect):
        raise click.UsageError(_("--all goes without RUN and without --effect"))
    if outcome and is_probed:
        raise click.UsageError(_("give either --outcome or --probe"))
    if (outcome or is_probed) and not (runs or effect or is_all):
        raise click.UsageError(_("say which doubts: RUN…, --effect NAME or --all"))
    if result and outcome != "happened":
        raise click.UsageError(_("--result goes with --outcome happened"))


def _make_answer(outcome: str, result: str, comment: str, by: str) -> dict[str, Any]:
    said: dict[str, Any] = {"outcome": outcome, "by": by, "channel": "cli"}
    if comment:
        said["comment"] = comment
    if result:
        said["result"] = parse_json(result, "--result")
    return said


async def _stay(caller: Caller, host: "OpenHost", runs: Sequence[str]) -> None:
    """Stay with the runs that go on; all of them are at work, this only waits for one after the other."""
    runs = list(dict.fromkeys(runs))
    for run_id in runs:
        await host.recover(run_id)
    for run_id in runs:
        await drive(caller, host, run_id, tell=lambda *_: nullcontext())


def _now(caller: Caller, one: Settled) -> Settled:
    summary = caller.reader.summary(one.run_id)
    return replace(one, status=summary.status.value) if summary is not None else one


def _list(caller: Caller, doubts: Sequence[Doubt]) -> int:
    by_effect = {name: list(group) for name, group in groupby(sorted(doubts, key=_effect), _effect)}
    if caller.is_json:
        effects = [{"effect": name, "count": len(group)} for name, group in by_effect.items()]
        emit({"ok": True, "effects": effects, "doubts": msgspec.to_builtins(doubts), "error": None})
        return 0
    if not doubts:
        caller.say(_("no open doubts"))
    for name, group in by_effect.items():
        for line, colour in _group(caller, name, group):
            caller.say(line, colour)
    return 0


def _effect(doubt: Doubt) -> str:
    return doubt.effect


def _group(caller: Caller, effect: str, doubts: Sequence[Doubt]) -> Lines:
    """The doubts about one effect: why, until when, where, and the commands that settle them."""
    yield _("{name}: {count} in doubt", name=visible(effect), count=len(doubts)), "yellow"
    causes = Counter(cause_of({"cause": one.cause and msgspec.to_builtins(one.cause)}) for one in doubts)
    for cause, count in causes.most_common(SHOWN_MAX):
        yield f"  {pad(_('cause'), LABEL_WIDTH)} {cause} ({count})", ""
    if until := max((one.lands_until or 0.0 for one in doubts), default=0.0):
        yield f"  {pad(_('may land'), LABEL_WIDTH)} {landing({'lands_until': until})}", ""
    for one in doubts[:SHOWN_MAX]:
        where = f"{one.run_id}  {visible(one.machine)}  {visible(one.contract_id)}  ({when(one.since)})"
        yield f"  {pad(_('run'), LABEL_WIDTH)} {where}", ""
    if len(doubts) > SHOWN_MAX:
        yield _("  … and {count} more; --json shows all", count=len(doubts) - SHOWN_MAX), ""
    outcomes = caller.command("settle", "--effect", effect, "--outcome", "|".join(OUTCOMES)).replace("'", "")
    yield f"    {outcomes}", "cyan"
    yield f"    {caller.command('settle', '--effect', effect, '--probe')}", "cyan"


def _give(caller: Caller, found: Sequence[Settled], doubts: Sequence[Doubt]) -> int:
    """What was settled and what is left; the exit code says whether anything is."""
    left = [one for one in found if not one.is_settled]
    if caller.is_json:
        count = {"settled": len(found) - len(left), "left": len(left)}
        emit({"ok": not left, **count, "doubts": msgspec.to_builtins(found), "error": None})
    else:
        for line, colour in _summary(found, left, doubts):
            caller.say(line, colour)
    return 3 if left else 0


def _summary(found: Sequence[Settled], left: Sequence[Settled], doubts: Sequence[Doubt]) -> Lines:
    if not found:
        yield _("no open doubts"), ""
        return
    for one in left[:SHOWN_MAX]:
        yield f"  {one.run_id}  {visible(one.contract_id)}: {visible(one.problem)}", "yellow"
    if len(left) > SHOWN_MAX:
        yield _("  … and {count} more; --json shows all", count=len(left) - SHOWN_MAX), ""
    marks = {(one.run_id, one.contract_id) for one in left}
    until = max((d.lands_until or 0.0 for d in doubts if (d.run_id, d.contract_id) in marks), default=0.0)
    if until > time.time():
        yield _("  that they did not happen can be said from {clock} on", clock=clock(until)), ""
    done = len(found) - len(left)
    runs = Counter({one.run_id: one.status for one in found if one.is_settled}.values())
    now = ", ".join(f"{count} {status_word(Status(status))}" for status, count in runs.items() if status)
    text = _("settled {done} of {count}", done=done, count=len(found))
    yield f"{text}; {_('the runs are now: {statuses}', statuses=now)}" if now else text, "yellow" if left else "green"


COMMANDS = {"settle": settle_doubts}
