"""The command bulk: one verb for many runs that a query finds, shown first and done once somebody agrees."""

import asyncio
from typing import Any

import click
import msgspec

from detent.core.status import Status
from detent.define import load as load_definition
from detent.errors import Refused
from detent.host.reading import Summary
from detent.kit.language import _
from detent.kit.run_index import RunFilter, RunIndex
from detent.kit.safe_text import status_word, visible
from detent.kit.terminal.caller import Caller, emit
from detent.kit.terminal.option import by_option, parse_object, verb
from detent.surfaces.bulk_verb import PAUSE_S, BulkLine, BulkPlan, act_on_run, line_of, look_at, select_runs
from detent.surfaces.cli.answer_commands import OUTCOMES

VERBS = ("cancel", "retry", "signal", "pause", "resume", "settle", "migrate")
SHOWN_MAX = 40


@verb("bulk")
@click.argument("deed", metavar="VERB", type=click.Choice(VERBS))
@click.option("--where", metavar="EXPRESSION", default="", help=_("Only runs for which this query holds."))
@click.option(
    "--text", metavar="WORDS", default="", help=_("Only runs with these words in their input, questions or output.")
)
@click.option(
    "--status",
    type=click.Choice([s.value for s in Status]),
    multiple=True,
    help=_("Only runs of this status; may be repeated."),
)
@click.option("--machine", default="", metavar="NAME", help=_("Only runs of this workflow."))
@click.option("--signal", "signal_name", default="", metavar="NAME", help=_("For `signal`: its name."))
@click.option("--data", default="", metavar="JSON", help=_("For `signal`: its data, a JSON object."))
@click.option(
    "--outcome", type=click.Choice(list(OUTCOMES)), help=_("For `settle`: the outcome of each call in doubt.")
)
@click.option("--to", "file", default="", metavar="FILE[:NAME]", help=_("For `migrate`: the new definition."))
@click.option("--state", default="", metavar="STATE", help=_("The current state's name in the new machine."))
@click.option("--reason", default="", metavar="TEXT", help=_("The reason, for the journal."))
@click.option("--yes", "is_sure", is_flag=True, help=_("Do it; without this, only show what would happen to each run."))
@by_option
async def bulk(caller: Caller, deed: Any, is_sure: bool, by: str, **given: Any) -> int:
    """Do one thing to many runs; without --yes, show what would be done."""
    plan = _plan(deed, given)
    wanted = RunFilter(given["text"], given["where"], tuple(map(Status, given["status"])), given["machine"])
    if not (wanted.text or wanted.where or wanted.status or wanted.name):
        raise Refused("say which runs: `--where`, `--text`, `--status` or `--machine`")
    found, total = _find(caller, wanted)
    looks = [look_at(caller.reader, plan, one) for one in found]
    lines = [line_of(one, look, look.problem) for one, look in zip(found, looks, strict=True)]
    if is_sure and any(not line.problem for line in lines):
        async with caller.host() as host:
            for at, line in enumerate(lines):
                if not line.problem:
                    problem = await act_on_run(host, plan, by, line.run_id, looks[at].doubts)
                    lines[at] = msgspec.structs.replace(line, is_done=not problem, problem=problem)
                    await asyncio.sleep(PAUSE_S)
    return _give(caller, plan, lines, total, is_sure=is_sure)


def _plan(deed: Any, given: dict[str, Any]) -> BulkPlan:
    for name, option, value in (
        ("signal", "--signal", given["signal_name"]),
        ("settle", "--outcome", given["outcome"]),
        ("migrate", "--to", given["file"]),
    ):
        if deed == name and not value:
            raise click.UsageError(_("`{verb}` needs {option}", verb=name, option=option))
    machine = load_definition(given["file"]).machine if deed == "migrate" else None
    outcome = OUTCOMES[given["outcome"]] if given["outcome"] else ""
    data = parse_object(given["data"], "--data")
    return BulkPlan(
        deed, given["reason"], given["signal_name"], data, outcome, machine, given["state"], channel="terminal"
    )


def _find(caller: Caller, wanted: RunFilter) -> tuple[list[Summary], int]:
    if not caller.has_journal():
        return [], 0
    page = select_runs(RunIndex(caller.reader, caller.home), wanted)
    return [one.summary for one in page.runs], page.total


def _give(caller: Caller, plan: BulkPlan, lines: list[BulkLine], total: int, *, is_sure: bool) -> int:
    done, able = sum(line.is_done for line in lines), sum(not line.problem for line in lines)
    is_refused = is_sure and any(line.problem for line in lines) and not done
    if caller.is_json:
        told = {"verb": plan.verb, "is_preview": not is_sure, "matching": total, "done": done}
        emit({"ok": not is_refused, **told, "runs": msgspec.to_builtins(lines), "error": None})
        return int(is_refused)
    for line in lines[:SHOWN_MAX]:
        said = (
            visible(line.problem) if line.problem else _("done") if line.is_done else status_word(Status(line.status))
        )
        caller.say(
            f"  {line.run_id}  {visible(line.machine)} {visible(line.state)}  {said}", "dim" if line.problem else ""
        )
    if len(lines) > SHOWN_MAX:
        caller.say(_("  … and {count} more; --json shows all", count=len(lines) - SHOWN_MAX))
    if is_sure:
        caller.say(_("{done} of {count} done", done=done, count=len(lines)))
    else:
        caller.say(_("{verb}: {able} of {count} runs; --yes does it", verb=plan.verb, able=able, count=total))
    return int(is_refused)


COMMANDS = {"bulk": bulk}
