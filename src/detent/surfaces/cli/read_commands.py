"""Commands that only read: show, log, list, watch. They need nobody's leave and disturb nobody."""

import shutil
import sys
from pathlib import Path

import click
import msgspec

from detent.core.history import Entry
from detent.core.status import Status
from detent.errors import Refused
from detent.host.opening import find_departure, find_mismatch
from detent.host.reading import Query
from detent.host.system_run import HOUSEKEEPING
from detent.kit.error_translation import translate_error
from detent.kit.event_record import record_of
from detent.kit.every_run import walk_runs
from detent.kit.language import _
from detent.kit.run_index import FoundRuns, RunFilter, RunIndex
from detent.kit.safe_text import brief, clock, visible
from detent.kit.terminal.caller import Caller, emit
from detent.kit.terminal.option import complete, run_argument, verb
from detent.kit.terminal.run_story import consequences, headline
from detent.kit.terminal.run_view import RunReport
from detent.surfaces.cli.anchor_command import prove, say_head
from detent.surfaces.cli.answer_signing import read_signers
from detent.surfaces.cli.claim_report import difference
from detent.surfaces.cli.export_command import STDOUT, export
from detent.surfaces.cli.live_view import find_runs, fit_list, list_found, table, watch_list, watch_run


@verb("show")
@run_argument
@click.option("--why", is_flag=True, help=_("Also show how it got there: the conditions checked and their values."))
def show(caller: Caller, run: str, why: bool) -> int:
    """Show where a run stands."""
    standing = RunReport(caller, caller.find(run).run_id)
    story = caller.reader.why(standing.run.id) if why else ()
    if caller.is_json:
        told = {"why": [record_of(entry) for entry in story]} if why else {}
        emit(standing.envelope(ok=True) | told)
        return 0
    standing.tell()
    if standing.run.context and not standing.run.ended:
        caller.say(_("  context: {value}", value=brief(standing.run.context, 2000)))
    for entry in story:
        _say_entry(caller, entry)
    return 0


@verb("log")
@click.argument("run", metavar="[RUN]", default="", shell_complete=complete)
@click.option("--verify", "is_proof", is_flag=True, help=_("Replay the run and check every hash."))
@click.option(
    "--export", "file", is_flag=False, flag_value=STDOUT, default="", metavar="[FILE]",
    help=_("Export as JSON lines that can be verified without detent."),
)  # fmt: skip
@click.option("--all", "is_all", is_flag=True, help=_("With --export or --verify: every run."))
@click.option("--head", "is_head", is_flag=True, help=_("Print one digest over all runs, claims and people."))
@click.option(
    "--anchor", default="", metavar="FILE|git[:FOLDER]", help=_("With --verify: against what was anchored there.")
)
@click.option(
    "--signers", type=click.Path(path_type=Path), default=None, metavar="FILE",
    help=_("With --verify: who may have signed, as an allowed_signers file; else the keys the journal knows."),
)  # fmt: skip
def log(
    caller: Caller, run: str, is_proof: bool, file: str, is_all: bool, is_head: bool, anchor: str, signers: Path | None
) -> int:
    """Show every event and what it led to."""
    if is_head or anchor:
        if run or file or is_all or (is_head and (is_proof or anchor)) or (anchor and not is_proof):
            raise click.UsageError(_("--head goes alone; --anchor goes with --verify, and is about every run"))
        return say_head(caller) if is_head else prove(caller, anchor, signers)
    if signers is not None and not is_proof:
        raise click.UsageError(_("--signers goes with --verify"))
    if is_all == bool(run):
        raise click.UsageError(_("say which run: RUN, or --all together with --export or --verify"))
    if file and is_proof:
        raise click.UsageError(_("--export and --verify do not go together"))
    if is_all and not file and not is_proof:
        raise click.UsageError(_("--all goes with --export or --verify"))
    runs = (summary.run_id for summary in (walk_runs(caller.reader, Query()) if is_all else iter([caller.find(run)])))
    if file:
        return export(caller, runs, file)
    if is_proof:
        allowed = read_signers(signers)
        proofs = [_prove(caller, run_id, is_all, allowed) for run_id in runs]
        return max([*proofs, _stray(caller) if is_all else 0], default=0)
    for entry in caller.reader.entries(next(runs)):
        if caller.is_json:
            emit(record_of(entry))
        else:
            _say_entry(caller, entry)
    return 0


def _say_entry(caller: Caller, entry: Entry) -> None:
    caller.say(f"{entry.seq:>5}  {clock(entry.event.at)}  {headline(entry.event)}")
    for line in consequences(entry):
        caller.say(f"{'':>7}{line}", "dim")


def _prove(caller: Caller, run_id: str, is_one_of_many: bool, allowed_signers: str) -> int:
    proof = caller.reader.verify(run_id, allowed_signers)
    code = 1 if proof.problem else 0
    whose = f"{run_id}  " if is_one_of_many else ""
    if caller.is_json:
        error = {"type": "replay_error", "message": proof.problem} if proof.problem else None
        found = {"run_id": run_id, "events": proof.events, "checkpoint": proof.checkpoint}
        found |= {"signed": proof.signed} if proof.signed else {}
        emit({"ok": not code, **found, "error": error})
    elif code:
        about = _("after event {seq}: {problem}", seq=proof.events, problem=visible(proof.problem))
        caller.say(whose + about, "red")
    else:
        about = _(
            "ok: {count} events replay to the same run; checkpoint {hash}", count=proof.events, hash=proof.checkpoint
        )
        caller.say(whose + about, "green")
        if proof.signed:
            caller.say(whose + _("signed answers that hold: {count}", count=proof.signed), "green")
    return code


def _stray(caller: Caller) -> int:
    """Say which claims name runs that do not hold them; what a run holds without a claim is in its own proof."""
    found = [one for one in caller.reader.claim_differences() if one.kind == "stray"]
    for one in found:
        if caller.is_json:
            error = {"type": "replay_error", "message": one.problem}
            emit({"ok": False, "run_id": one.run_id, "events": None, "checkpoint": None, "error": error})
        else:
            caller.say(difference(one), "red")
    return 1 if found else 0


@verb("list")
@click.option("--waiting", is_flag=True, help=_("Only runs that wait."))
@click.option(
    "--status",
    type=click.Choice([s.value for s in Status]),
    multiple=True,
    help=_("Only runs of this status; may be repeated."),
)
@click.option(
    "--limit", type=click.IntRange(1, 100_000), default=50, show_default=True, help=_("The maximum number to show.")
)
@click.option("--system", is_flag=True, help=_("Also list the runs in which detent records its own work."))
@click.option("--watch", "is_live", is_flag=True, help=_("Keep running and show every change."))
@click.option("--where", metavar="EXPRESSION", default="", help=_("Only runs for which this query holds."))
@click.option(
    "--text", metavar="WORDS", default="", help=_("Only runs with these words in their input, questions or output.")
)
@click.option("--sort", metavar="NAME", default="", help=_("Sort by an attribute; -NAME reverses the order."))
async def list_runs(
    caller: Caller,
    *,
    waiting: bool,
    status: tuple[str, ...],
    limit: int,
    system: bool,
    is_live: bool,
    **finding: str,
) -> int:
    """List the runs, newest first."""
    if caller.has_journal() and (problem := find_mismatch(caller.home)):
        caller.warn(translate_error(problem))
    wanted = [Status(name) for name in dict.fromkeys((*status, *(["waiting"] if waiting else [])))]
    if any(finding.values()):
        if is_live:
            raise Refused("`--watch` shows all runs; `--where`, `--text` and `--sort` are asked once")
        return _search(
            caller, RunFilter(finding["text"], finding["where"], tuple(wanted), sort=finding["sort"], limit=limit)
        )
    query = Query(tuple(wanted), without=() if system else HOUSEKEEPING, limit=limit)
    if is_live:
        return await watch_list(caller, query)
    runs = find_runs(caller, query)
    if caller.is_json:
        emit({"ok": True, "runs": msgspec.to_builtins(runs), "error": None})
        return 0
    if not runs and not caller.has_journal():
        caller.say(_("no runs: there is no journal in {home} yet", home=visible(str(caller.home))))
        return 0
    for line, colour in fit_list(runs, shutil.get_terminal_size().columns) if sys.stdout.isatty() else table(runs):
        caller.say(line, colour)
    address, has_left = find_departure(caller.home)
    if has_left:
        caller.warn(_("this journal was moved to {address}; this is how it was then", address=visible(address)))
    return 0


def _search(caller: Caller, wanted: RunFilter) -> int:
    """List the runs that fit, with their attributes."""
    found = RunIndex(caller.reader, caller.home).search(wanted) if caller.has_journal() else FoundRuns([], 0, False)
    if caller.is_json:
        runs = [{**msgspec.to_builtins(one.summary), "attributes": one.attributes} for one in found.runs]
        emit({"ok": True, "runs": runs, "total": found.total, "is_cut": found.is_cut, "error": None})
        return 0
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
    for line, colour in list_found(found.runs, width):
        caller.say(line, colour)
    if found.total > len(found.runs):
        caller.say(_("{count} more; --limit shows them", count=found.total - len(found.runs)), "dim")
    if found.is_cut:
        caller.say(_("older runs were not looked at"), "dim")
    return 0


@verb("watch")
@run_argument
@click.option("--after", type=click.IntRange(0), default=0, metavar="SEQ", help=_("Start after this event."))
async def watch(caller: Caller, run: str, after: int) -> int:
    """Follow a run until it ends, whoever drives it."""
    return await watch_run(caller, caller.find(run).run_id, after)


COMMANDS = {"show": show, "log": log, "list": list_runs, "watch": watch}
