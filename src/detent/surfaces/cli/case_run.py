"""The command that plays the cases of workflow files: stubbed tools, virtual time, the real engine and host."""

import click

from detent.define.problem import BrokenDefinition, Problem
from detent.kit.language import _
from detent.kit.terminal.caller import Caller, emit
from detent.kit.terminal.exit_code import FAILED
from detent.kit.terminal.option import verb
from detent.kit.text import as_json, visible
from detent.testing import Case, CaseVerdict, crash_case, read_cases, try_case

NOTHING = "—"


@verb("test")
@click.argument("files", metavar="FILE…", nargs=-1, required=True)
@click.option(
    "--crash", is_flag=True, help=_("Repeat each case with a crash at every write and call; the end must be the same.")
)
def test(caller: Caller, files: tuple[str, ...], crash: bool) -> int:
    """Play every case of every file; files that hold no cases come first."""
    verdicts = []
    for case in _read(files):
        verdicts.append(crash_case(case) if crash else try_case(case))
        _tell(caller, verdicts[-1])
    passed = sum(verdict.ok for verdict in verdicts)
    failed = len(verdicts) - passed
    if caller.is_json:
        told = [_describe_verdict(verdict) for verdict in verdicts]
        emit({"ok": not failed, "passed": passed, "failed": failed, "cases": told})
    else:
        colour = "red" if failed else "green"
        caller.say(_("{passed} passed, {failed} failed", passed=passed, failed=failed), colour)
    return FAILED if failed else 0


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
