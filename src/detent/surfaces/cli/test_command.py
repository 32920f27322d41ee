"""The command that plays the cases of workflow files: stubbed tools, virtual time, the real engine and host."""

import os
import tempfile
from pathlib import Path
from typing import Any

import click
import yaml

from detent.core.machine import Machine
from detent.define.problem import BrokenDefinition, Problem
from detent.define.workflow import load_workflow
from detent.errors import Refused
from detent.kit.language import _
from detent.kit.safe_text import as_json, visible
from detent.kit.terminal.caller import Caller, emit
from detent.kit.terminal.exit_code import FAILED
from detent.kit.terminal.option import verb
from detent.testing import (
    Case,
    CaseCoverage,
    CaseVerdict,
    crash_case,
    measure_coverage,
    read_cases,
    record_case,
    try_case,
)

NOTHING = "—"
WIDTH = 110


@verb("test")
@click.argument("files", metavar="FILE…", nargs=-1)
@click.option(
    "--crash", is_flag=True, help=_("Repeat each case with a crash at every write and call; the end must be the same.")
)
@click.option("--coverage", "is_measured", is_flag=True, help=_("List the states and transitions that no case covers."))
@click.option(
    "--record",
    "recorded",
    default="",
    metavar="RUN",
    help=_("Make a test case from a run; it is written to FILE if one is given."),
)
@click.option(
    "--fuzz",
    "stories",
    type=click.IntRange(1, 1_000_000),
    metavar="N",
    help=_("Play N random stories of workflow files, and print the smallest that fails as a case."),
)
@click.option("--seed", type=int, default=0, metavar="N", help=_("The seed of the random stories; 0 by default."))
def test(
    caller: Caller,
    files: tuple[str, ...],
    crash: bool,
    is_measured: bool,
    recorded: str,
    stories: int | None,
    seed: int,
) -> int:
    """Play every case of every file; files that hold no cases come first."""
    if recorded:
        return _record(caller, recorded, files)
    if not files:
        raise click.UsageError(_("name a file with cases, or a run with --record"))
    if stories is not None:
        return _fuzz(caller, files, stories, seed)
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


def _record(caller: Caller, name: str, files: tuple[str, ...]) -> int:
    """A case from a real run: played once, so that nobody keeps one that does not hold."""
    if len(files) > 1:
        raise click.UsageError(_("name one file that the case is added to, or none"))
    reader = caller.reader
    run_id = reader.find(name).run_id
    standing = reader.standing(run_id)
    source = standing.run.source
    if not source or not Path(source).is_file():
        raise Refused(_("the file of run {run} is not there any more, so no case can name it", run=run_id))
    folder = Path(files[0]).resolve().parent if files else Path.cwd()
    family = [run_id, *(one.run_id for one in reader.family(run_id) if one.run_id != run_id)]
    told = [(one, tuple(reader.entries(one))) for one in family]
    case = record_case(standing.machine, told, f"as-{run_id}", os.path.relpath(source, folder))
    text = yaml.safe_dump([case], sort_keys=False, allow_unicode=True, width=WIDTH)
    verdict = _play_text(text, folder)
    if files:
        with Path(files[0]).open("a", encoding="utf-8") as file:
            file.write(text)
    if caller.is_json:
        emit({"ok": verdict.ok, "case": case, "differs": list(verdict.differs), "file": files[0] if files else None})
    elif not files:
        click.echo(text, nl=False)
    else:
        caller.say(_("written to {file}", file=visible(files[0])), "green")
    if not verdict.ok:
        _tell(caller, verdict)
        caller.note(_("this case does not hold as it is: a run has more to it than a case can say"), "yellow")
    return 0 if verdict.ok else FAILED


def _play_text(text: str, folder: Path) -> CaseVerdict:
    with tempfile.NamedTemporaryFile("w", suffix=".test.yaml", dir=folder, encoding="utf-8") as file:
        file.write(text)
        file.flush()
        return try_case(read_cases(file.name)[0])


def _fuzz(caller: Caller, files: tuple[str, ...], stories: int, seed: int) -> int:
    try:
        from detent.testing.fuzz import fuzz
    except ImportError:
        said = _("random stories are drawn by hypothesis, which is not installed; `pip install 'detent[fuzz]'`")
        raise Refused(said) from None
    found: list[dict[str, Any]] = []
    for file in files:
        report = fuzz(load_workflow(file, warn=False).machine, stories, seed)
        case = report.story.to_case(Path(file).name, report.problem, report.told) if report.story is not None else None
        dies_at = report.story.dies_at if report.story is not None else []
        found.append(
            {"file": file, "played": report.played, "problem": report.problem, "case": case, "dies_at": dies_at}
        )
        if caller.is_json:
            continue
        if case is None:
            caller.say(_("ok    {file}: {count} random stories", file=visible(file), count=report.played), "green")
            continue
        caller.say(_("FAIL  {file}: {problem}", file=visible(file), problem=visible(report.problem)), "red")
        click.echo(yaml.safe_dump([case], sort_keys=False, allow_unicode=True, width=WIDTH), nl=False)
        if dies_at:
            caller.say(_("# and the process dies at moment {moment}: play it with --crash", moment=dies_at[0]))
    is_good = not any(one["problem"] for one in found)
    if caller.is_json:
        emit({"ok": is_good, "files": found})
    return 0 if is_good else FAILED


def _measure(verdicts: list[CaseVerdict]) -> list[CaseCoverage]:
    """What the cases have seen of each file, whatever they stub of it; a machine that a case has changed is another."""
    played: dict[str, tuple[Machine, list[CaseVerdict]]] = {}
    for one in verdicts:
        if one.machine is not None:
            played.setdefault(one.file or one.machine.digest, (one.machine, []))[1].append(one)
    return [measure_coverage(of, [(one.path + one.last, one.ways) for one in own]) for of, own in played.values()]


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
