"""What a tree is worth: checked where its worker cannot reach, by what was there before it began.

The new source is laid out in a clean checkout with the tests, check settings, interpreter and tools of the beginning;
that result decides. Where the worker also changed what judges, the tree is checked a second time as it is, and the
changes are for a person to look at. A test that passed before must have run and passed, by its name.
"""

import asyncio
import difflib
import functools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from detent.agents.coding import check, classification, mutation, suspicion, testimony
from detent.agents.coding.check import Ran
from detent.agents.coding.classification import JudgingPaths
from detent.agents.coding.evidence import Checked, Evidence, Failing, ReviewItem, faults, without
from detent.agents.coding.job import Job
from detent.agents.coding.port import limits_of
from detent.agents.coding.settings import CheckStep
from detent.agents.coding.stage import Stage, now
from detent.agents.coding.workplace import Workplace, arrange, find_shared, include
from detent.agents.coding.workspace import checkout, difference
from detent.agents.coding.workspace.difference import PathStep
from detent.agents.coding.workspace.place import Worktree
from detent.core.value import digest
from detent.effects import process

FOLDER, WATCH, NAMES = "checkout", "checkout.view", "passed.json"
MOVED_MAX = 50
LOST_MAX = 50
TEXT_MAX = 512 * 1024
GONE = "0" * 12
TESTS_MAX = 400
MUTANTS_S_MAX = 30.0  # checks that take longer are not repeated for that
LINK, NOTHING = "120000", "000000"


class Court:
    """One verification: the checkout, the rules, and what there was before."""

    def __init__(self, stage: Stage, key: str) -> None:
        self.stage, self.job, self.key = stage, stage.job, key
        project = stage.users.place
        self.place: Worktree = checkout.copy_of(project, stage.folder / FOLDER, stage.folder / WATCH)
        self.base = stage.job.base or stage.job.first_tree

    async def run(self, tree: str, steps: Sequence[CheckStep], rerun: bool) -> tuple[tuple[Ran, ...], list[str]]:
        """Check a tree in a clean checkout; also what the checks themselves changed in it."""
        job = self.job
        if not steps:
            return (), []
        await checkout.put(self.place, tree)
        await asyncio.to_thread(include, job.root, self.place.root, job.settings)
        ran = await check.run_steps(
            steps,
            self.site,
            self.stage.folder / "checks",
            self.key,
            self.stage.hear,
            rerun,
            limits_of(job.settings.limits).space,
        )
        moved = without(await checkout.find_moved(self.place), job.settings.all_litter)
        return ran, [path for path in moved if not path.startswith(job.settings.workspace.shared)]

    @functools.cached_property
    def site(self) -> Workplace:
        """Where the checks run."""
        project = self.stage.users.place
        return arrange(self.job.root, self.place.root, self.job.settings, list_outside(project), is_check=True)


def list_outside(project: Worktree) -> list[str]:
    """The git dirs of a project that lie elsewhere, as those of a linked work tree do."""
    found = (str(project.git_dir), str(project.common_dir))
    return [place for place in dict.fromkeys(found) if not Path(place).is_relative_to(project.root)]


async def measure(stage: Stage, key: str, tree: str) -> Evidence:
    """The baseline: how the tree that a job begins with does in the same kind of checkout."""
    await asyncio.to_thread(process.kill_leftovers, key)
    begun = now()
    court = Court(stage, key)
    ran, moved = await court.run(tree, stage.job.settings.verify, rerun=False)
    steps = tuple(replace(one.checked, ids=digest(one.passed)[:16]) if one.passed else one.checked for one in ran)
    body = {one.checked.name: one.passed for one in ran}
    path = stage.folder / NAMES
    await asyncio.to_thread(path.write_text, json.dumps(body), "utf-8")
    around = await asyncio.to_thread(classification.read_around, Path(stage.job.root))
    seconds = round(now() - begun, 3)
    return Evidence(tree, "baseline", steps, tuple(moved[:MOVED_MAX]), now(), seconds, around=around)


async def verify(
    stage: Stage, steps: Sequence[CheckStep], mode: Any, key: str, approved: Sequence[str] = ()
) -> Evidence:
    """What the tree that the worker left is worth."""
    await asyncio.to_thread(process.kill_leftovers, key)
    begun, job = now(), stage.job
    court = Court(stage, key)
    tree = await stage.repository.tree_id()
    changed = await difference.steps(stage.users.place, court.base, tree)
    changed = {path: changed[path] for path in without(changed, job.settings.all_litter)}
    rules = await _read_rules(court, steps)
    kinds = {path: rules.kind_of(path, is_new=step.status == "A") for path, step in changed.items()}
    tests = await _read_tests(court)
    await _find_judges(court, changed, kinds, tests)
    judging = {path: step for path, step in changed.items() if kinds[path] != "source"}
    review = [*_list_changes(job, judging, kinds), *await _list_suspects(court, changed, kinds, tests)]
    open_ones = {item.path for item in review if item.name not in approved}
    reverted = {
        path: step for path, step in judging.items() if path in open_ones or path not in {r.path for r in review}
    }
    source = await checkout.adjust(
        stage.users.place,
        tree,
        {path: None if s.status == "A" else (s.old_mode, s.old) for path, s in reverted.items()},
    )
    rerun = job.settings.rerun_flaky
    strange = await asyncio.to_thread(_find_around, job)
    if strange:
        told = Checked("settings", "", environment=strange)
        return Evidence(tree, mode, (told,), (), now(), round(now() - begun, 3))
    ran, moved = await court.run(source, steps, rerun)
    own, own_moved = await court.run(tree, steps, rerun) if source != tree and not _stops(ran) else ((), [])
    known = await asyncio.to_thread(_read_names, stage.folder / NAMES)
    found = tuple(_compare(one, job.baseline, known, judging) for one in ran)
    word, notes = _word(found, court), _list_notes(court, found, judging)
    is_good = all(one.is_green and not one.lost for one in (*found, *(one.checked for one in own)))
    if word == "verified" and is_good and sum(one.seconds for one in found) <= MUTANTS_S_MAX:
        # With the worker's new tests, too: a new feature has no others.
        new = {path: step for path, step in changed.items() if path not in judging}
        unnoticed, said = await _try_mutants(court, tree if own else source, steps, new)
        notes += said
        word = "checked" if unnoticed else word
    evidence = Evidence(
        tree,
        mode,
        found,
        tuple(dict.fromkeys([*moved, *own_moved]))[:MOVED_MAX],
        now(),
        round(now() - begun, 3),
        tuple(one.checked for one in own),
        tuple(item for item in review if item.name not in approved),
        word,
        tuple(notes),
    )
    return replace(evidence, word="unverified") if _is_open(evidence, job.baseline) else evidence


def _is_open(evidence: Evidence, baseline: Evidence | None) -> bool:
    """Whether something stands against the work: then no good word is said about it."""
    own = replace(evidence, steps=evidence.own_steps)
    return bool(evidence.review or evidence.environment or faults(evidence, baseline) or faults(own, baseline))


async def _try_mutants(
    court: Court, source: str, steps: Sequence[CheckStep], changed: Mapping[str, PathStep]
) -> tuple[bool, list[str]]:
    """Whether the tests do not mind most of some wrong changes of the new lines; and which ones they do not mind."""
    most, place = court.job.settings.mutants, court.stage.users.place
    steps = [step for step in steps if testimony.attach(step.argv) is not None]
    mutants: list[tuple[str, mutation.Mutant]] = []
    for path, step in sorted(changed.items()):
        if path.endswith(".py") and step.status != "D" and step.new_mode != LINK and len(mutants) < most:
            was = await _body(court, step.old) if step.status != "A" else ""
            text = await _body(court, step.new)
            made = mutation.make_mutants(text, _added_lines(was, text), most - len(mutants))
            mutants += [(path, mutant) for mutant in made]
    alive = []
    for path, mutant in mutants:
        blob = await place.view.line("hash-object", "-w", "--stdin", stdin=mutant.text.encode())
        tree = await checkout.adjust(place, source, {path: (changed[path].new_mode, blob)})
        ran, _ = await court.run(tree, steps, rerun=False)
        if all(one.checked.is_green for one in ran):
            alive.append(f"{path}:{mutant.line} as {mutant.what}")
    if not mutants:
        return False, []
    told = [f"the tests notice {len(mutants) - len(alive)} of {len(mutants)} wrong changes of the new lines"]
    told += [f"no test notices {name}" for name in alive]
    return len(alive) * 2 > len(mutants), told


def _find_around(job: Job) -> str:
    """A settings file above the project that came or changed since the baseline: checks would read it."""
    before = job.baseline.around if job.baseline else {}
    found = classification.read_around(Path(job.root)) if job.baseline and job.baseline.at and job.workspace else before
    changed = sorted(path for path in {*before, *found} if before.get(path) != found.get(path))
    return f"{changed[0]}, which tools read although it is outside of the project, is not as it was" if changed else ""


def _stops(ran: Sequence[Ran]) -> bool:
    return any(one.checked.environment for one in ran)


async def _read_rules(court: Court, steps: Sequence[CheckStep]) -> JudgingPaths:
    """Which files judge, by the tree of the beginning."""
    blobs = await checkout.list_blobs(court.stage.users.place, court.base)
    shared = find_shared(court.job.root, court.place.root, court.job.settings)
    texts = court.stage.folder / "rules"
    await asyncio.to_thread(texts.mkdir, parents=True, exist_ok=True)
    for name in ("pyproject.toml", "pytest.ini", "tox.ini", "setup.cfg"):
        body = await _body(court, blobs[name][1]) if name in blobs else ""
        await asyncio.to_thread((texts / name).write_text, body, "utf-8")
    modules = [str(Path(court.job.root) / name) for name in shared]
    return classification.read_rules(texts, [*court.job.settings.verify, *steps], blobs, modules)


async def _body(court: Court, blob: str) -> str:
    return (await court.stage.users.place.view("cat-file", "blob", blob))[:TEXT_MAX].decode("utf-8", "replace")


def _list_changes(job: Job, judging: Mapping[str, PathStep], kinds: Mapping[str, str]) -> list[ReviewItem]:
    """Changes to what judges that a person has to look at."""
    found = []
    for path, step in judging.items():
        kind: Any = kinds[path]
        is_asked = step.status != "A" or kind == "config" or job.settings.review == "all"
        if is_asked and job.settings.review != "none":
            word = {"A": "new", "D": "deleted", "M": "changed", "T": "replaced"}.get(step.status, "changed")
            about = "a test" if kind == "test" else "what decides how the checks run"
            found.append(ReviewItem(path, GONE if step.status == "D" else step.new, f"{word}: {about}", kind))
    return found


async def _read_tests(court: Court) -> list[str]:
    """The texts of the tests of the beginning."""
    blobs = await checkout.list_blobs(court.stage.users.place, court.base)
    rules = JudgingPaths()
    names = [path for path in blobs if path.endswith(classification.CODE) and rules.kind_of(path) == "test"]
    asked = "".join(f"{blobs[path][1]}\n" for path in names[:TESTS_MAX]).encode()
    rest = await court.stage.users.place.view("cat-file", "--batch", stdin=asked) if names else b""
    found = []
    while rest:
        header, _, rest = rest.partition(b"\n")
        size = int(header.rpartition(b" ")[2])
        found.append(rest[: min(size, TEXT_MAX)].decode("utf-8", "replace"))
        rest = rest[size + 1 :]
    return found


async def _find_judges(
    court: Court, changed: Mapping[str, PathStep], kinds: dict[str, classification.Kind], tests: Sequence[str]
) -> None:
    """A file that is both source and test counts as both."""
    for path, step in changed.items():
        if kinds[path] == "source" and step.old_mode not in (LINK, NOTHING):
            was = await _body(court, step.old) if path.endswith(".py") else ""
            if classification.is_judge(path, was, tests):
                kinds[path] = "test"


async def _list_suspects(
    court: Court, changed: Mapping[str, PathStep], kinds: Mapping[str, str], tests: Sequence[str]
) -> list[ReviewItem]:
    """Changed source that looks at its tests, and what a person should know about it."""
    if court.job.settings.review == "none":
        return []
    python = [
        path
        for path, step in changed.items()
        if kinds[path] == "source"
        and step.status != "D"
        and path.endswith((".py", ".pyi"))
        and step.new_mode != "120000"
    ]
    links = [
        ReviewItem(path, step.new, "it is a link now")
        for path, step in changed.items()
        if step.new_mode == "120000" and kinds[path] == "source"
    ]
    if not python:
        return links
    after = {path: await _body(court, changed[path].new) for path in python}
    before = {path: await _body(court, changed[path].old) for path in python if changed[path].status != "A"}
    added = {path: _added_lines(before.get(path, ""), text) for path, text in after.items()}
    suspects = await asyncio.to_thread(suspicion.find_suspects, after, before, added, tests)
    by_file: dict[str, list[str]] = {}
    for suspect in suspects:
        by_file.setdefault(suspect.file, []).append(f"line {suspect.line}: {suspect.why}")
    return [*links, *(ReviewItem(path, changed[path].new, "; ".join(why[:5])) for path, why in by_file.items())]


def _added_lines(before: str, after: str) -> set[int]:
    matcher = difflib.SequenceMatcher(None, before.splitlines(), after.splitlines(), autojunk=False)
    found: set[int] = set()
    for tag, _, _, start, end in matcher.get_opcodes():
        if tag in ("insert", "replace"):
            found |= set(range(start + 1, end + 1))
    return found


def _read_names(path: Path) -> dict[str, list[str]]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, list[str]])
    except (OSError, msgspec.MsgspecError):
        return {}


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
        checked = replace(checked, mended={test: ran.outcomes.get(test, "gone") for test in was.failing_ids})
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


def _has_siblings(test: str, before: Sequence[str], ran: Ran) -> bool:
    """Whether as many cases of a parametrised test passed as before, under other names."""
    name = test.partition("[")[0]
    if name == test:
        return False
    was = sum(one.startswith(f"{name}[") for one in before)
    return sum(one.startswith(f"{name}[") for one in ran.passed) >= was


def _word(steps: Sequence[Checked], court: Court) -> Any:
    """How much the evidence says: test by test, by exit codes only, or nothing."""
    site = court.site
    deciding = [step for step in steps if step.is_required]
    if not deciding:
        return "unverified"
    is_apart = site.is_mounted and bool(court.job.workspace)
    is_told = any(step.is_reported and step.passed for step in deciding)
    is_green = all(
        step.is_green for step in deciding
    )  # what failed before and fails still is nobody's fault, and no proof
    return "verified" if is_told and is_apart and is_green else "checked"


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
