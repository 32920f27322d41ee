"""The commands of `detent policy`: test a policy on the calls of the past, and propose rules from past answers."""

from pathlib import Path

import click
import msgspec

from detent.define.policy import load_policy
from detent.kit.audit.backtest import LISTED_MAX, BacktestChange, BacktestReport, Period, RuleCount, run_backtest
from detent.kit.audit.decision_trail import parse_time
from detent.kit.audit.suggestion import AT_LEAST, suggest_rules
from detent.kit.language import _
from detent.kit.safe_text import brief, clock, columns, visible
from detent.kit.terminal.caller import Caller, emit
from detent.kit.terminal.command_summary import summaries
from detent.kit.terminal.exit_code import FAILED
from detent.kit.terminal.option import verb
from detent.surfaces.cli.audit_command import since_option, until_option


@verb("backtest", _("Replay past calls through a policy file and show what it would have decided."))
@click.argument("file", type=click.Path(path_type=Path))
@since_option
@until_option
@click.option("--strict", "is_strict", is_flag=True, help=_("Exit 1 if it would allow a call that a person refused."))
@click.option(
    "--limit", type=click.IntRange(1, 10_000), default=LISTED_MAX, show_default=True,
    help=_("The maximum number of calls to list."),
)  # fmt: skip
def backtest(caller: Caller, file: Path, since: str, until: str, is_strict: bool, limit: int) -> int:
    """Replay past calls through a policy."""
    policy = load_policy(file)
    period = Period(parse_time(since, "--since"), parse_time(until, "--until"))
    report = run_backtest(caller.reader, policy, period, limit)
    is_bad = bool(report.damaged or (is_strict and report.dangerous_count))
    if caller.is_json:
        emit({"ok": not is_bad, **msgspec.to_builtins(report), "error": _error(report, is_strict)})
    else:
        _tell(caller, report)
    return FAILED if is_bad else 0


def _error(report: BacktestReport, is_strict: bool) -> dict[str, str] | None:
    if report.damaged:
        return {"type": "journal_error", "message": report.damaged[0]}
    if is_strict and report.dangerous_count:
        message = f"calls it would allow although a person refused or changed them: {report.dangerous_count}"
        return {"type": "too_lenient", "message": message}
    return None


def _tell(caller: Caller, report: BacktestReport) -> None:
    caller.say(_("calls: {calls}, of runs: {runs}", calls=report.calls, runs=report.runs))
    if report.dangerous_count:
        about = _("allowed although a person refused or changed it: {count}", count=report.dangerous_count)
        caller.say(about, "red")
        _tell_calls(caller, report.dangerous, report.dangerous_count)
    _tell_rules(caller, _("rule in this file"), report.new_rules)
    _tell_rules(caller, _("rule at the time"), report.old_rules)
    if report.change_count:
        caller.say(_("otherwise decided differently: {count}", count=report.change_count))
        _tell_calls(caller, report.changes, report.change_count)
    else:
        caller.say(_("nothing else would be decided differently"))
    for one in report.unknown:
        reads = ", ".join(one.reads)
        caller.say(_("rule `{rule}` reads {reads}, which the journal does not have: its result is a guess",
                     rule=visible(one.rule), reads=visible(reads)), "yellow")  # fmt: skip
    for problem in report.damaged:
        caller.warn(problem)


def _tell_calls(caller: Caller, calls: list[BacktestChange], count: int) -> None:
    for line in columns([_row(one) for one in calls]):
        caller.say(f"  {line}")
    if count > len(calls):
        caller.say("  " + _("… and {count} older ones; --limit lists more", count=count - len(calls)), "dim")


def _row(one: BacktestChange) -> list[str]:
    said = f"{visible(one.by) or '?'}: {one.said}" if one.said else ""
    change = f"{one.was} → {one.now}" + (f" ({visible(one.now_rule)})" if one.now_rule else "")
    place = f"{one.run_id}@{one.seq} {visible(one.contract_id)}"
    return [clock(one.at), change, said, f"{visible(one.effect)} {brief(one.arguments, 60)}", place]


def _tell_rules(caller: Caller, title: str, counts: list[RuleCount]) -> None:
    head = [title, _("allow"), _("ask"), _("deny"), _("approved"), _("refused"), _("edited")]
    rows = [
        [visible(one.rule) or _("(no rule)"),
         *map(str, (one.allow, one.ask, one.deny, one.approved, one.refused, one.edited))]
        for one in counts
    ]  # fmt: skip
    for number, line in enumerate(columns([head, *rows])):
        caller.say(line, "" if number else "dim")


@verb("suggest", _("Propose rules for what people have approved again and again, as text to adopt."))
@since_option
@click.option(
    "--at-least", type=click.IntRange(2, 1_000_000), default=AT_LEAST, show_default=True, metavar="COUNT",
    help=_("How many approvals a rule needs."),
)  # fmt: skip
def suggest(caller: Caller, since: str, at_least: int) -> int:
    """Propose rules."""
    report = suggest_rules(caller.reader, caller.policy(), parse_time(since, "--since"), at_least)
    if caller.is_json:
        emit({"ok": True, **msgspec.to_builtins(report), "error": None})
        return 0
    if not report.suggestions:
        caller.note(_("nothing to suggest: no call was approved at least {count} times and never refused",
                      count=at_least))  # fmt: skip
        return 0
    for one in report.suggestions:
        people = ", ".join(visible(name) or "?" for name in one.people)
        caller.note(_("{name}: approvals: {count}, by {people}, from {oldest} to {newest}; none refused",
                      name=one.name, count=one.approvals, people=people, oldest=clock(one.oldest),
                      newest=clock(one.newest)))  # fmt: skip
        caller.note("  " + _("backtest: calls allowed: {allowed}, answers spared: {spared}, refused: {refused}",
                             allowed=one.would_allow, spared=one.would_spare,
                             refused=one.allowed_though_refused), "dim")  # fmt: skip
    caller.note(_("Put what you agree with above the rules that ask. Nothing was changed."))
    caller.say(report.yaml.rstrip("\n"))
    return 0


policy = click.Group(
    "policy",
    [backtest, suggest],
    help=summaries()["policy"],
    context_settings={"help_option_names": ["-h", "--help"]},
)
COMMANDS = {"policy": policy}
