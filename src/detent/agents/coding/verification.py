"""What a tree is worth: checked where its worker cannot reach, by what was there before it began.

The new source is laid out in a clean checkout with the tests, check settings, interpreter and tools of the beginning;
that result decides. Where the worker also changed what judges, the tree is checked a second time as it is, and the
changes are for a person to look at. A test that passed before must have run and passed, by its name.
"""

import asyncio
import json
import os
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from detent.agents.coding import file_role, local_only_test, test_sensitivity
from detent.agents.coding.change_set import ChangeSet, read_change
from detent.agents.coding.check import Ran
from detent.agents.coding.check_result import Checked, Evidence, Failing, ReviewItem, Word, faults
from detent.agents.coding.clean_checkout import NAMES, Court
from detent.agents.coding.effect_context import Stage, now
from detent.agents.coding.job import Job
from detent.agents.coding.job_sandbox import list_known
from detent.agents.coding.settings import CheckStep
from detent.agents.coding.test_sensitivity import TestDoubts
from detent.agents.coding.workspace import checkout
from detent.agents.coding.workspace.difference import PathStep
from detent.core.value import digest
from detent.effects import process

MOVED_MAX = 50
LOST_MAX = 50
DEAF_MAX = 20
_NO_MODULE = re.compile(r"No module named '(\w+)")


async def measure(stage: Stage, key: str, tree: str) -> Evidence:
    """The baseline: how the tree that a job begins with does in the same kind of checkout."""
    await asyncio.to_thread(process.kill_leftovers, key)
    begun = now()
    court, checks = Court(stage, key), stage.job.settings.verify
    ran, moved = await court.run(tree, checks, rerun=False)
    paths = await checkout.list_blobs(court.project, tree)
    steps = tuple(
        replace(_find_elsewhere(court, one, paths), ids=digest(one.passed)[:16])
        if one.passed
        else _find_uninstalled(one.checked, paths)
        for one in ran
    )
    body = {one.checked.name: one.passed for one in ran}
    path = stage.folder / NAMES
    await asyncio.to_thread(path.write_text, json.dumps(body), "utf-8")
    around = await asyncio.to_thread(file_role.read_around, Path(stage.job.root))
    only_here = tuple(await local_only_test.find_only_here(court, tree, ran, checks))
    seconds = round(now() - begun, 3)
    facts: dict[str, Any] = {"around": around, "only_here": only_here}
    facts["known"] = await asyncio.to_thread(list_known, stage.job.root, stage.job.settings)
    return Evidence(tree, "baseline", steps, tuple(moved[:MOVED_MAX]), now(), seconds, **facts)


def _find_uninstalled(checked: Checked, paths: Collection[str]) -> Checked:
    """Of a step in which no test could be read: whether the project is merely not installed for its Python."""
    missing = {found[1] if (found := _NO_MODULE.search(one.message)) else "" for one in checked.failures}
    name = missing.pop() if len(missing) == 1 else ""
    if not name or not any(f"{root}/{name}/__init__.py" in paths for root in file_role.ROOTS):
        return checked
    why = (
        f"no test can be read, because the project's own `{name}` is not installed for this Python. Say where it is "
        "(`-o pythonpath=src` after `pytest` in detent.code.yaml), or make an environment (`python3 -m venv .venv && "
        ".venv/bin/pip install -e .`) and name `.venv/bin/python` there; then say `detent code fix`"
    )
    return replace(checked, environment=why)


def _find_elsewhere(court: Court, ran: Ran, paths: Collection[str]) -> Checked:
    """Of a step whose tests ran: whether they tried another release of the project than the one that lies here."""
    for file in ran.files:
        *_, name, last = ("", "", *file.split("/"))
        is_own = last == "__init__.py" and f"src/{name}/__init__.py" in paths
        if is_own and not Path(file).is_relative_to(court.site.seen) and _is_first(file):
            why = (
                f"the tests use the `{name}` that is installed at {file} and not the project's own. Say where it is "
                "(`-o pythonpath=src` after `pytest` in detent.code.yaml), or install it as it lies here "
                "(`pip install -e .`), and say `detent code fix`"
            )
            return replace(ran.checked, environment=why)
    return ran.checked


def _is_first(file: str) -> bool:
    """Whether a package is one by itself, and no part of another."""
    return not (Path(file).parent.parent / "__init__.py").exists()


async def verify(
    stage: Stage, steps: Sequence[CheckStep], mode: Any, key: str, approved: Sequence[str] = ()
) -> Evidence:
    """What the tree that the worker left is worth."""
    await asyncio.to_thread(process.kill_leftovers, key)
    begun, job = now(), stage.job
    court = Court(stage, key)
    change = await read_change(court, steps, approved)
    strange = await asyncio.to_thread(_find_around, job)
    if strange:
        told = Checked("settings", "", environment=strange)
        return Evidence(change.tree, mode, (told,), (), now(), round(now() - begun, 3))
    rerun, is_same = job.settings.rerun_flaky, change.source_tree == change.tree
    ran, moved = await court.run(change.source_tree, steps, rerun)
    own, own_moved = await court.run(change.tree, steps, rerun) if not is_same and not _stops(ran) else ((), [])
    known = court.known
    found = tuple(_compare(one, job.baseline, known, change.judging) for one in ran)
    flaky = _list_flaky(job, change.tree, tuple(one.checked for one in own) or found)
    doubtful = [*flaky, *_list_left_out(ran, job.baseline), *_list_running(found, job.baseline)]
    notes = [*_list_notes(court, found, change.judging), *doubtful]
    word: Word = "checked" if doubtful and _word(found, court) == "verified" else _word(found, court)
    is_good = all(_holds(one, job.baseline) and not one.lost for one in (*found, *(one.checked for one in own)))
    review = change.review
    agreed = {item.path for item in review if item.name in approved}
    if is_good and agreed:
        notes += await test_sensitivity.list_replaced(court, change.tree, steps, change.judging, agreed)
    if word == "verified" and is_good:
        doubts = await _try_tests(court, change, steps, own or ran, known)
        notes += doubts.notes
        word = "checked" if doubts.is_weak else word
        review = (*review, *_list_doubted(job, change, doubts))
    evidence = Evidence(
        change.tree,
        mode,
        found,
        tuple(dict.fromkeys([*moved, *own_moved]))[:MOVED_MAX],
        now(),
        round(now() - begun, 3),
        tuple(one.checked for one in own),
        tuple(item for item in review if item.name not in approved),
        word,
        tuple(notes),
        too_large=change.too_large,
    )
    return replace(evidence, word="unverified") if _is_open(evidence, job.baseline) else evidence


async def _try_tests(
    court: Court, change: ChangeSet, steps: Sequence[CheckStep], ran: Sequence[Ran], known: Mapping[str, list[str]]
) -> TestDoubts:
    """Whether the tests would notice: on the old source, and on mutants, with the worker's new tests as well."""
    new = {test for one in ran for test in one.passed if test not in known.get(one.checked.name, ())}
    doubts = await test_sensitivity.try_old_source(court, change.tree, steps, change.source, new)
    doubts = await test_sensitivity.try_old_data(court, change.tree, steps, change.source, doubts)
    seconds = sum(one.checked.seconds for one in ran)
    if seconds <= test_sensitivity.TURNED_SECONDS_MAX:
        passed = {test for one in ran for test in one.passed}
        deaf, is_asked = await test_sensitivity.try_expectations(court, change.tree, steps, new, passed)
        could_be_asked = bool(new) or (seconds <= test_sensitivity.SECONDS_MAX and court.job.settings.mutants > 0)
        doubts = replace(doubts, deaf=deaf, is_silent=could_be_asked and not is_asked)
        doubts = await test_sensitivity.try_other_input(court, change.tree, steps, change.source, doubts)
    if seconds > test_sensitivity.SECONDS_MAX or doubts.deaf:
        return doubts
    loaded = {os.path.relpath(file, court.site.seen) for one in ran for file in one.files}
    source = {path: step for path, step in change.source.items() if path in loaded} or change.source
    return await test_sensitivity.try_mutants(court, change.tree, steps, source, doubts)


def _list_doubted(job: Job, change: ChangeSet, doubts: TestDoubts) -> list[ReviewItem]:
    """Tests that pass whatever they expect, in this very tree, and data that decides: a person has to see why."""
    if job.settings.review == "none":
        return []
    why = "it passes although it was made to expect something else: look at what the change does to it"
    deaf = [ReviewItem(test, change.tree, why) for test in doubts.deaf[:DEAF_MAX]]
    why = "tests pass with this data and fail with what it was: look whether they take from it what they expect"
    return deaf + [ReviewItem(path, change.source[path].new, why) for path in doubts.data]


def _is_open(evidence: Evidence, baseline: Evidence | None) -> bool:
    """Whether something stands against the work: then no good word is said about it."""
    own = replace(evidence, steps=evidence.own_steps)
    return bool(evidence.review or evidence.environment or faults(evidence, baseline) or faults(own, baseline))


def _find_around(job: Job) -> str:
    """A settings file above the project that came or changed since the baseline: checks would read it."""
    before = job.baseline.around if job.baseline else {}
    found = file_role.read_around(Path(job.root)) if job.baseline and job.baseline.at and job.workspace else before
    changed = sorted(path for path in {*before, *found} if before.get(path) != found.get(path))
    return f"{changed[0]}, which tools read although it is outside of the project, is not as it was" if changed else ""


def _stops(ran: Sequence[Ran]) -> bool:
    return any(one.checked.environment for one in ran)


def _compare(
    ran: Ran, baseline: Evidence | None, known: Mapping[str, list[str]], judging: Mapping[str, PathStep]
) -> Checked:
    """The step with what passed before and did not run and pass now."""
    checked = ran.checked
    was = next((step for step in baseline.steps if step.name == checked.name), None) if baseline else None
    if was is None or checked.environment or checked.timed_out:
        return checked
    if was.is_reported and not checked.is_reported:
        return replace(checked, odd="the test runner did not report what it did, though it could before")
    strange = sorted(set(checked.replaced) - set(was.replaced))
    if strange and not checked.odd:
        told = f"functions of the test runner were replaced, which they were not before: {', '.join(strange[:5])}"
        checked = replace(checked, odd=told)
    before = known.get(checked.name, [])
    if was.failing_ids:
        checked = replace(checked, mended={test: _find_outcome(test, ran) for test in was.failing_ids})
    if not was.ids:
        return checked
    if digest(before)[:16] != was.ids:
        return replace(checked, odd="the list of the tests that passed before was changed")
    failing = set(checked.failing_ids)
    lost = []
    for test in before:
        outcome = ran.outcomes.get(test, "gone")
        if outcome == "passed" or test in failing:
            continue
        file = test.partition("::")[0]
        if outcome == "gone" and (_has_siblings(test, before, ran) or file in judging):
            continue  # other names of the same function ran, or its file was changed and that was approved
        words = {"gone": "was not there", "not_run": "was not run"}.get(outcome, f"was {outcome}")
        lost.append(Failing(test, f"it passed before the job and {words} now"))
    return replace(checked, lost=tuple(lost[:LOST_MAX]))


def _find_outcome(test: str, ran: Ran) -> str:
    """How a test ended now; a file that could not be read before is mended when tests of it have passed."""
    inner = [outcome for name, outcome in ran.outcomes.items() if name.startswith(f"{test}::")]
    return ran.outcomes.get(test) or ("passed" if "passed" in inner else inner[0] if inner else "gone")


def _list_left_out(ran: Sequence[Ran], baseline: Evidence | None) -> list[str]:
    """Tests of files that could not be read before which did not run now: nobody knows whether they should have."""
    files = {test for step in baseline.steps for test in step.failing_ids if "::" not in test} if baseline else set()
    named = [(name, how) for one in ran for name, how in one.outcomes.items() if name.partition("::")[0] in files]
    left = sorted(f"{name} ({how})" for name, how in named if "::" in name and how not in ("passed", "failed"))
    return [f"in files that could not be read before, these did not run: {', '.join(left[:5])}"] if left else []


def _list_running(steps: Sequence[Checked], baseline: Evidence | None) -> list[str]:
    """Checks that leave processes behind, which they did not before: what these would do, nobody has seen."""
    quiet = {step.name for step in baseline.steps if not step.running} if baseline else set()
    found = [step for step in steps if step.running and step.name in quiet]
    return [f"{step.name} left {step.running} processes running, which it did not before" for step in found]


def _has_siblings(test: str, before: Sequence[str], ran: Ran) -> bool:
    """Whether as many cases of a parametrised test passed as before, under other names."""
    name = test.partition("[")[0]
    if name == test:
        return False
    was = sum(one.startswith(f"{name}[") for one in before)
    return sum(one.startswith(f"{name}[") for one in ran.passed) >= was


def _word(steps: Sequence[Checked], court: Court) -> Word:
    """How much the evidence says: test by test, by exit codes only, or nothing."""
    site = court.site
    deciding = [step for step in steps if step.is_required]
    if not deciding:
        return "unverified"
    is_apart = site.is_mounted and bool(court.job.workspace)
    is_told = any(step.is_reported and step.passed for step in deciding)
    is_green = all(_holds(step, court.job.baseline) for step in deciding)
    is_steady = not any(step.flaky for step in deciding)
    return "verified" if is_told and is_apart and is_green and is_steady else "checked"


def _holds(step: Checked, baseline: Evidence | None) -> bool:
    """Whether a step stands against nothing: it is green, or it is no test and says of each complaint that it is old.

    A test that failed before and fails still is nobody's fault, but no proof either.
    """
    old = baseline.failing(step.name) if baseline and not step.is_strict else frozenset[str]()
    is_clear = not (step.is_reported or step.environment or step.timed_out or step.odd) and not step.counted
    return step.is_green or (is_clear and bool(step.failing_ids) and old.issuperset(step.failing_ids))


def _list_flaky(job: Job, tree: str, steps: Sequence[Checked]) -> list[str]:
    """What came out differently in two runs of the same tree: just now, or now and at an earlier verification."""
    found = [(step.name, step.flaky) for step in steps if step.flaky]
    earlier = [one.evidence for one in job.tasks.values() if one.evidence and one.evidence.tree == tree]
    for was in (one for evidence in earlier for one in evidence.own_steps or evidence.steps):
        step = next((one for one in steps if one.name == was.name), was)
        differing = tuple(sorted(set(was.failing_ids) ^ set(step.failing_ids)))
        is_told = not was.environment and not step.environment
        if is_told and (differing or was.is_green != step.is_green):
            found.append((was.name, differing or (was.name,)))
    told = (f"flaky (same tree, two results): {name}: {', '.join(tests[:5])}" for name, tests in found)
    return list(dict.fromkeys(told))


def _list_notes(court: Court, steps: Sequence[Checked], judging: Mapping[str, PathStep]) -> list[str]:
    site = court.site
    notes = [f"checked without a sandbox: {site.why_open}"] if site.why_open else []
    new = [path for path, step in judging.items() if step.status == "A"]
    if new:
        notes.append(f"new tests and settings: {', '.join(sorted(new)[:5])}")
    for step in steps:
        if step.reran:
            notes.append(f"{step.name}: red at first, then run once more")
    return notes
