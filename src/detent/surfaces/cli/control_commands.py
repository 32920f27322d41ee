"""Commands that move a run from outside: signal, cancel, pause, resume, retry, fork, migrate."""

from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from detent.define import load as load_definition
from detent.errors import Refused
from detent.host.reading import Deed, Query
from detent.kit.language import _
from detent.kit.safe_text import brief, visible
from detent.kit.terminal import interrupt
from detent.kit.terminal.caller import Caller, emit
from detent.kit.terminal.option import by_option, no_wait_option, parse_object, run_argument, verb
from detent.kit.terminal.run_driver import drive, give, move, readable, recover, take_up
from detent.kit.terminal.run_view import RunReport
from detent.surfaces.cli.envelope_option import envelope_option

WORST_FIRST = (1, 3, 4, 0)
DEEDS_MAX = 50
RUNS_MAX = 10_000


@verb("signal")
@run_argument
@click.argument("event", metavar="EVENT")
@click.option("--data", default="", metavar="JSON", help=_("The signal's data, a JSON object."))
@click.option("--id", "signal_id", default="", metavar="ID", help=_("A signal with an id counts once."))
@no_wait_option
@by_option
async def signal(caller: Caller, run: str, event: str, data: str, signal_id: str, by: str) -> int:
    """Send a signal to a run."""
    given = parse_object(data, "--data")
    summary = caller.find(run)
    return await move(
        caller,
        summary.run_id,
        summary.seq,
        lambda host: host.signal(summary.run_id, event, given, id=signal_id, by=by),
    )


@verb("cancel")
@run_argument
@click.option("--reason", default="", metavar="TEXT", help=_("The reason, for the journal."))
@by_option
async def cancel(caller: Caller, run: str, reason: str, by: str) -> int:
    """Stop a run."""
    summary = caller.find(run)
    async with caller.host() as host:
        await host.cancel(summary.run_id, by=by, reason=reason)
        await host.recover(summary.run_id)
        await drive(caller, host, summary.run_id, summary.seq)
        standing = RunReport(caller, summary.run_id)
        return standing.give(0 if standing.run.ended else None)


@verb("pause")
@run_argument
@by_option
async def pause(caller: Caller, run: str, by: str) -> int:
    """Let a run begin nothing new; what is at work goes on."""
    run_id = caller.find(run).run_id
    async with caller.host() as host:
        if RunReport(caller, run_id).run.is_held:
            raise Refused(f"run {run_id} is paused already; `{caller.command('resume', run_id)}` lets it go on")
        await host.hold(run_id, by=by)
    return RunReport(caller, run_id).give(0)


@verb("resume")
@click.argument("run", metavar="[RUN]", default="")
@envelope_option
@click.option("--token", default="", metavar="TOKEN", help=_("With --envelope: the token of an open question."))
@click.option("--id", "id", default="", metavar="ID", help=_("With --envelope: the id of an open approval."))
@click.option("--approve", default=None, metavar="yes|no", help=_("With --envelope: the answer to an approval."))
@click.option(
    "--response-json", "response", default=None, metavar="JSON", help=_("With --envelope: the data asked for.")
)
@click.option("--cancel", "is_cancel", is_flag=True, help=_("With --envelope: cancel the run."))
@by_option
def resume(  # noqa: PLR0913, PLR0917  # one argument per option
    caller: Caller,
    run: str,
    envelope: str | None,
    token: str,
    id: str,
    approve: str | None,
    response: str | None,
    is_cancel: bool,
    by: str,
) -> int:
    """Take up what an earlier process left; with RUN its whole family, and also end its pause."""
    if envelope:
        from detent.surfaces.cli.envelope import GateDecision, resume_in_envelope

        return resume_in_envelope(caller, GateDecision(token, id, approve, response, is_cancel), by)
    if token or id or approve is not None or response is not None or is_cancel:
        raise click.UsageError(_("--token, --id, --approve, --response-json and --cancel go with --envelope"))
    return interrupt.run(_resume(caller, run, by))


async def _resume(caller: Caller, run: str, by: str) -> int:
    if not run:
        return await _resume_all(caller) if caller.has_journal() else _give(caller, [])
    summary = caller.find(run)
    if all(one.has_ended for one in caller.reader.family(summary.run_id)):
        raise Refused(f"run {summary.run_id} has ended ({summary.status.value})")
    async with caller.host() as host:
        await recover(caller, host, summary.run_id)
        if RunReport(caller, summary.run_id).run.is_held and not summary.status.is_terminal:
            await host.release(summary.run_id, by=by)
        await drive(caller, host, summary.run_id, summary.seq)
        return give(caller, summary.run_id)


async def _resume_all(caller: Caller) -> int:
    before = {summary.run_id: summary.seq for summary in caller.reader.list(Query(limit=RUNS_MAX)).runs}
    async with caller.host() as host:
        taken_up: list[str] = []
        heads: list[str] = []
        # Again as long as there is more: the end of a run may have freed a place in its group.
        while more := [one for one in await take_up(caller, host) if one not in taken_up]:
            taken_up += more
            heads = list(dict.fromkeys(_head(caller, run_id) for run_id in taken_up))
            for run_id in dict.fromkeys([*more, *heads]):  # all are at work; this only waits for one after the other
                await drive(caller, host, run_id, before.get(run_id, 0))
        standings = {run_id: RunReport(caller, run_id) for run_id in [*heads, *taken_up]}
        left = [one for one in taken_up if standings[_head(caller, one)].run.ended and not standings[one].run.ended]
        return _give(caller, [standings[run_id] for run_id in dict.fromkeys([*heads, *left])])


def _head(caller: Caller, run_id: str) -> str:
    """The run that stands for a family; where the first of it is damaged, each run stands for itself."""
    first = caller.reader.first_of(run_id)
    return first if readable(caller, first) else run_id


def _give(caller: Caller, standings: list[RunReport]) -> int:
    codes = [standing.code for standing in standings]
    code = next((c for c in WORST_FIRST if c in codes), 0)
    if caller.is_json:
        runs = [standing.envelope(ok=standing.code in (0, 3)) for standing in standings]
        emit({"ok": code in (0, 3), "runs": runs, "error": None})
        return code
    for standing in standings:
        standing.tell()
    if not standings:
        caller.say(_("nothing to resume"))
    return code


@verb("retry")
@run_argument
@no_wait_option
@by_option
async def retry(caller: Caller, run: str, by: str) -> int:
    """Let a failed run go on from what failed; what is done stays done."""
    summary = caller.find(run)
    return await move(caller, summary.run_id, summary.seq, lambda host: host.retry(summary.run_id, by=by))


@verb("fork")
@run_argument
@click.option("--at", default="", metavar="CHECKPOINT|SEQ", help=_("The event to fork after; by default the latest."))
@click.option(
    "--failed",
    is_flag=True,
    help=_("Do only the failed items of a for_each again; others are kept."),
)
@click.option("--loop", default="", metavar="NAME", help=_("With --failed: which one, where there are several."))
@click.option("--id", "run_id", default="", metavar="RUN", help=_("The new run's id."))
@by_option
async def fork(caller: Caller, run: str, at: str, failed: bool, loop: str, run_id: str, by: str) -> int:
    """Begin a new run as another one was after one of its events."""
    if (loop and not failed) or (failed and at):
        raise click.UsageError(_("--loop goes with --failed, and --at does not"))
    loop = (loop or "*") if failed else ""
    parent = caller.find(run).run_id
    if caller.find_known(run_id):
        raise Refused(f"there is a run {run_id} already; give the new one another id")
    seq = caller.reader.seq_at(parent, at, loop)
    since = caller.reader.deeds(parent, seq)
    async with caller.host() as host:
        begun = await host.fork(parent, str(seq), new_id=run_id, by=by, loop=loop)
        await drive(caller, host, begun.id)
        return _show_fork(RunReport(caller, begun.id), parent, seq, since)


def _show_fork(standing: RunReport, parent: str, seq: int, since: Sequence[Deed]) -> int:
    """The new run, and what the old one has done since: a fork takes nothing back."""
    caller, code = standing.caller, standing.code
    if caller.is_json:
        about = {"run_id": parent, "seq": seq, "done_since": msgspec.to_builtins(since)}
        emit({**standing.envelope(ok=code in (0, 3)), "forked_from": about})
        return code
    standing.tell()
    if since:
        caller.say(_("done by run {run_id} after event {seq}, and not taken back:", run_id=parent, seq=seq), "yellow")
    for deed in since[:DEEDS_MAX]:
        doubt = "" if deed.deed == "done" else _(" (perhaps)")
        caller.say(f"  {deed.seq:>3}  {visible(deed.contract_id)}: {visible(deed.effect)} {brief(deed.input)}{doubt}")
    if len(since) > DEEDS_MAX:
        caller.say(_("  … and {count} more; --json shows all", count=len(since) - DEEDS_MAX))
    return code


@verb("migrate")
@run_argument
@click.argument("file", metavar="FILE[:NAME]")
@click.option("--state", default="", metavar="STATE", help=_("The current state's name in the new machine."))
@click.option(
    "--action", "pairs", multiple=True, metavar="OLD=NEW", help=_("An action that has been renamed, as OLD=NEW.")
)
@by_option
async def migrate(caller: Caller, run: str, file: str, state: str, pairs: tuple[str, ...], by: str) -> int:
    """Move a waiting run to another machine."""
    actions = dict(pair.partition("=")[::2] for pair in pairs)
    if not all(actions.values()) or "" in actions:
        raise click.UsageError(_("--action takes OLD=NEW"))
    summary = caller.find(run)
    definition = load_definition(file)
    if summary.status.is_terminal:
        raise Refused(f"run {summary.run_id} has ended ({summary.status}); only a waiting one can go on elsewhere")
    if not _is_same_place(definition.source, summary.source):
        caller.warn(
            f"the run's effects are still looked for in {summary.source or 'no file'}, not in {definition.source}"
        )
    async with caller.host() as host:
        await host.migrate(summary.run_id, definition.machine, state=state, actions=actions, by=by)
        await host.recover(summary.run_id)
        await drive(caller, host, summary.run_id, summary.seq)
        return RunReport(caller, summary.run_id).give()


def _is_same_place(new: str, old: str) -> bool:
    """Whether effects are found in the same place; a workflow has none of its own, only modules in its folder."""
    is_plain = all(source.endswith((".yaml", ".yml")) for source in (new, old))
    return new == old or (is_plain and Path(new).parent == Path(old).parent)


COMMANDS = {
    "signal": signal,
    "cancel": cancel,
    "pause": pause,
    "resume": resume,
    "retry": retry,
    "fork": fork,
    "migrate": migrate,
}
