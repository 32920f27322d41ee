"""The command that plays the cases of workflow files: stubbed tools, virtual time, the real engine and host."""

import click

from detent.define.problem import BrokenDefinition, Problem
from detent.kit.language import _
from detent.kit.terminal.caller import Caller, emit
from detent.kit.terminal.exit_code import FAILED
from detent.kit.terminal.option import verb
from detent.kit.text import as_json, visible
from detent.testing import Case, CaseCoverage, CaseVerdict, crash_case, measure_coverage, read_cases, try_case

NOTHING = "—"


@verb("test")
@click.argument("files", metavar="FILE…", nargs=-1, required=True)
@click.option(
    "--crash", is_flag=True, help=_("Repeat each case with a crash at every write and call; the end must be the same.")
)
@click.option(
    "--coverage", "is_measured", is_flag=True, help=_("Say which states and transitions no case goes through.")
)
def test(caller: Caller, files: tuple[str, ...], crash: bool, is_measured: bool) -> int:
    """Play every case of every file; files that hold no cases come first."""
    verdicts = []
    for case in _read(files):
        verdicts.append(crash_case(case) if crash else try_case(case))
        _tell(caller, verdicts[-1])
    passed = sum(verdict.ok for verdict in verdicts)
    failed = len(verdicts) - passed
    seen = _measure(verdicts) if is_measured else []
    if caller.is_json:
        told = [_describe_verdict(verdict) for verdict in verdicts]
        shown = {"coverage": [_describe_coverage(one) for one in seen]} if is_measured else {}
        emit({"ok": not failed, "passed": passed, "failed": failed, "cases": told, **shown})
    else:
        colour = "red" if failed else "green"
        for one in seen:
            _tell_coverage(caller, one)
        caller.say(_("{passed} passed, {failed} failed", passed=passed, failed=failed), colour)
    return FAILED if failed else 0


def _measure(verdicts: list[CaseVerdict]) -> list[CaseCoverage]:
    """What the cases have seen of each machine; a machine that a case has changed is another one."""
    machines = {one.machine.digest: one.machine for one in verdicts if one.machine is not None}
    return [
        measure_coverage(
            machine, [(one.path, one.ways) for one in verdicts if one.machine and one.machine.digest == digest]
        )
        for digest, machine in machines.items()
    ]


def _describe_coverage(seen: CaseCoverage) -> dict[str, object]:
    rows = [
        {
            "from": row.source,
            "to": row.target,
            "on": row.on,
            "error": row.error,
            "condition": row.when,
            "count": times,
        }
        for row, times in seen.rows
    ]
    return {"machine": seen.machine.name, "digest": seen.machine.digest, "states": seen.states, "transitions": rows}


def _tell_coverage(caller: Caller, seen: CaseCoverage) -> None:
    states, rows = len(seen.states), len(seen.rows)
    about = {"name": visible(seen.machine.name), "states": states - len(seen.missed_states), "all_states": states}
    about |= {"rows": rows - len(seen.missed_rows), "all_rows": rows}
    is_whole = not seen.missed_states and not seen.missed_rows
    told = _("`{name}`: {states} of {all_states} states entered, {rows} of {all_rows} transitions taken", **about)
    caller.say(told, "green" if is_whole else "yellow")
    for state in seen.missed_states:
        caller.say(_("  never entered: {state}", state=visible(state)))
    for row in seen.missed_rows:
        why = visible(row.on or row.error or row.when)
        caller.say(_("  never taken: {source} → {target}", source=visible(row.source), target=visible(row.target))
                   + (f"  {why}" if why else ""))  # fmt: skip


def _read(files: tuple[str, ...]) -> list[Case]:
    cases: list[Case] = []
    problems: list[Problem] = []
    for file in files:
        try:
            cases += read_cases(file)
        except BrokenDefinition as error:
            problems += error.problems
    if problems:
        raise BrokenDefinition(problems)
    return cases


def _describe_verdict(verdict: CaseVerdict) -> dict[str, object]:
    shown: dict[str, object] = {
        "id": verdict.id,
        "ok": verdict.ok,
        "expected": verdict.expected,
        "actual": verdict.actual,
    }
    if verdict.refused:
        shown["refused"] = list(verdict.refused)
    if verdict.problem:
        shown["problem"] = verdict.problem
    return shown


def _tell(caller: Caller, verdict: CaseVerdict) -> None:
    if verdict.ok:
        caller.say(_("ok    {name}", name=visible(verdict.id)), "green")
        return
    caller.say(_("FAIL  {name}  {where}", name=visible(verdict.id), where=visible(verdict.where)), "red")
    for key in verdict.differs:
        for name, expected, came in _pairs(key, verdict):
            caller.say(_("        {key}: expected {value}", key=name, value=expected))
            caller.say(_("        {key}: came     {value}", key=name, value=came))
    for problem in verdict.refused:
        caller.say(_("        the script was refused: {problem}", problem=visible(problem)))
    for line in verdict.problem.splitlines():
        caller.say(_("        {problem}", problem=visible(line)))


def _pairs(key: str, verdict: CaseVerdict) -> list[tuple[str, str, str]]:
    """What was expected beside what came; of calls and context only the parts that differ."""
    expected, came = verdict.expected.get(key), verdict.actual.get(key)
    if isinstance(expected, dict) and isinstance(came, dict):
        parts = [name for name in expected if expected[name] != came.get(name)]
        return [(visible(f"{key}.{name}"), as_json(expected[name]), as_json(came.get(name))) for name in parts]
    known = as_json(expected) if key in verdict.expected else NOTHING
    return [(key, known, visible(str(came), keep="\n") if key == "load_error" else as_json(came))]


COMMANDS = {"test": test}
