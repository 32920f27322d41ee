"""The command audit: who allowed what, with what in front of them. It only reads."""

import sys
from collections.abc import Iterator
from itertools import islice

import click
import msgspec

from detent.kit.audit.decision import AuditDecision
from detent.kit.audit.decision_sheet import write_csv
from detent.kit.audit.decision_trail import AuditFilter, parse_time, read_decisions
from detent.kit.language import _
from detent.kit.safe_text import brief, clock, columns, visible
from detent.kit.terminal.caller import Caller, emit
from detent.kit.terminal.option import complete, verb

AT_ONCE = 200  # rows that are aligned with each other
COLOURS = {"reject": "red", "deny": "red", "edit": "yellow", "expire": "yellow"}

since_option = click.option(
    "--since",
    default="",
    metavar="TIME",
    help=_("Only from this time on: 30d for 30 days ago, or a date like 2026-01-31."),
)
until_option = click.option(
    "--until", default="", metavar="TIME", help=_("Only up to this time, written like --since.")
)


@verb("audit")
@since_option
@until_option
@click.option("--who", default="", metavar="NAME", help=_("Only decisions by this person, or by `policy:RULE`."))
@click.option("--effect", default="", metavar="PATTERN", help=_("Only calls of these effects, like `mail.*`."))
@click.option("--run", default="", metavar="RUN", shell_complete=complete, help=_("Only decisions of this run."))
@click.option("--csv", "is_csv", is_flag=True, help=_("Write CSV that a spreadsheet opens safely."))
def audit(caller: Caller, since: str, until: str, who: str, effect: str, run: str, is_csv: bool) -> int:
    """Show who allowed what."""
    if is_csv and caller.is_json:
        raise click.UsageError(_("--csv and --json do not go together"))
    run_id = caller.find(run).run_id if run else ""
    wanted = AuditFilter(parse_time(since, "--since"), parse_time(until, "--until"), who, effect, run_id)
    found = read_decisions(caller.reader, wanted)
    if is_csv:
        for line in write_csv(found):
            sys.stdout.write(line)
        return 0
    if caller.is_json:
        count = 0
        for one in found:
            sys.stdout.write(as_line(one))
            count += 1
        emit({"ok": True, "decisions": count, "error": None})
        return 0
    _tell(caller, found)
    return 0


def as_line(one: AuditDecision) -> str:
    """One decision as a line of JSON."""
    return msgspec.json.encode(one).decode() + "\n"


def _tell(caller: Caller, found: Iterator[AuditDecision]) -> None:
    head = [_("time"), _("run"), _("by whom"), _("answer"), _("call"), _("outcome")]
    count = 0
    while some := list(islice(found, AT_ONCE)):
        lines = columns([*([] if count else [head]), *(_row(one) for one in some)])
        if not count:
            caller.say(lines.pop(0), "dim")
        for line, one in zip(lines, some, strict=True):
            caller.say(line, COLOURS.get(one.answer, ""))
        count += len(some)
    if not count:
        caller.say(_("no decisions"))


def _row(one: AuditDecision) -> list[str]:
    """A decision in one line: what was shown in brief, and everything else with --csv or --json."""
    who = f"{visible(one.spoken_by)} for {visible(one.by)}" if one.spoken_by else visible(one.by)
    known = "" if one.known_by in (one.by, "policy") else f" ({visible(one.known_by)})"
    why = f"“{brief(one.reason, 40)}”" if one.reason else ""
    answer = " ".join(part for part in (one.answer, one.quorum, why) if part)
    call = f"{visible(one.effect)} {brief(one.arguments, 60)}" if one.effect else ""
    return [clock(one.at), one.run_id, f"{who or '?'}{known}", answer, call, _outcome_word(one.outcome)]


def _outcome_word(outcome: str) -> str:
    return {
        "done": _("done"),
        "failed": _("failed"),
        "refused": _("refused"),
        "cancelled": _("cancelled"),
        "reused": _("earlier result used"),
        "doubt": _("nobody knows"),
        "not_yet": _("not yet"),
    }[outcome]


COMMANDS = {"audit": audit}
