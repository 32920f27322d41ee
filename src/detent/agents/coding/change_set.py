"""What a worker has changed: what of it is source, what judges, and what a person has to look at."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from detent.agents.coding import changed_expectation, example, file_role, suspect_change
from detent.agents.coding.check_result import ReviewItem, without
from detent.agents.coding.clean_checkout import TEXT_MAX, Court, find_added_lines
from detent.agents.coding.file_role import JudgingPaths, Kind
from detent.agents.coding.job_sandbox import find_shared, list_installations
from detent.agents.coding.settings import CheckStep
from detent.agents.coding.test_sensitivity import before
from detent.agents.coding.workspace import checkout, difference
from detent.agents.coding.workspace.difference import PathStep
from detent.agents.coding.workspace.snapshot import Snapshot

GONE = "0" * 12
TESTS_MAX = 400
LINK, NOTHING = "120000", "000000"


class ChangeSet(msgspec.Struct, frozen=True):
    """What a worker has changed, and what of it judges."""

    tree: str  # as the worker left it
    source_tree: str  # the same with tests and check settings as they were, save what a person approved
    source: dict[str, PathStep]
    judging: dict[str, PathStep]
    review: tuple[ReviewItem, ...]  # what a person has to look at, or had to
    too_large: tuple[str, ...] = ()


async def read_change(court: Court, steps: Sequence[CheckStep], approved: Sequence[str]) -> ChangeSet:
    """What differs from the tree of the beginning, and which of it is put back before it is judged."""
    job, seen = court.job, await court.stage.repository.look()
    tree = seen.tree
    changed = await difference.steps(court.project, court.base, tree, is_counted=True)
    changed = {path: changed[path] for path in without(changed, job.settings.all_litter)}
    rules = await _read_rules(court, steps)
    kinds = {path: rules.kind_of(path, is_new=step.status == "A") for path, step in changed.items()}
    tests = await _read_tests(court)
    await _find_judges(court, changed, kinds, tests)
    judging = {path: step for path, step in changed.items() if kinds[path] != "source"}
    review = [*await _list_changes(court, judging, kinds), *await _list_suspects(court, changed, kinds, tests)]
    open_ones = {item.path for item in review if item.name not in approved}
    unasked = set(judging).difference(item.path for item in review)
    reverted = {path: before(step) for path, step in judging.items() if path in open_ones or path in unasked}
    source = {path: step for path, step in changed.items() if path not in judging}
    left_out = await _list_too_large(court, seen)
    return ChangeSet(
        tree, await checkout.adjust(court.project, tree, reverted), source, judging, tuple(review), left_out
    )


async def _list_too_large(court: Court, seen: Snapshot) -> tuple[str, ...]:
    """New files that are too large for a checkpoint: they would neither land nor be rolled back."""
    cap = court.stage.repository.cap_bytes
    large = [item for item in seen.uncaptured if item.size > cap]
    if not large:
        return ()
    first = await court.stage.users.resolve(court.job.first_checkpoint, court.stage.run_id)
    known = {item.path for item in first.uncaptured}
    return tuple(f"{item.path} ({item.size / 2**20:.0f} MiB)" for item in large if item.path not in known)


async def _read_rules(court: Court, steps: Sequence[CheckStep]) -> JudgingPaths:
    """Which files judge, by the tree of the beginning."""
    blobs = await checkout.list_blobs(court.project, court.base)
    shared = find_shared(court.job.root, court.place.root, court.job.settings)
    texts = court.stage.folder / "rules"
    await asyncio.to_thread(texts.mkdir, parents=True, exist_ok=True)
    for name in file_role.SETTINGS:
        body = await court.read(blobs[name][1]) if name in blobs else ""
        await asyncio.to_thread((texts / name).write_text, body, "utf-8")
    checks = [*court.job.settings.verify, *steps]
    found = [*(str(Path(court.job.root) / name) for name in shared), *list_installations(checks)]
    return file_role.read_rules(texts, checks, blobs, found)


async def _list_changes(court: Court, judging: Mapping[str, PathStep], kinds: Mapping[str, str]) -> list[ReviewItem]:
    """Changes to what judges that a person has to look at."""
    job, found = court.job, list[ReviewItem]()
    for path, step in judging.items():
        kind: Any = kinds[path]
        is_asked = step.status != "A" or kind == "config" or job.settings.review == "all"
        if is_asked and job.settings.review != "none":
            word = {"A": "new", "D": "deleted", "M": "changed", "T": "replaced"}.get(step.status, "changed")
            about = "a test" if kind == "test" else "what decides how the checks run"
            if kind == "test" and path.endswith(".py") and LINK not in (step.old_mode, step.new_mode):
                was, now = [await court.read(blob) if blob.strip("0") else "" for blob in (step.old, step.new)]
                claims = changed_expectation.describe_claims(was, now)
                about += f" ({claims})" if claims else ""
            found.append(ReviewItem(path, GONE if step.status == "D" else step.new, f"{word}: {about}", kind))
    return found


async def _read_tests(court: Court) -> list[str]:
    """The texts of the tests of the beginning."""
    blobs = await checkout.list_blobs(court.project, court.base)
    rules = JudgingPaths()
    names = [path for path in blobs if path.endswith(file_role.CODE) and _holds_tests(rules, path)]
    asked = "".join(f"{blobs[path][1]}\n" for path in names[:TESTS_MAX]).encode()
    rest = await court.project.view("cat-file", "--batch", stdin=asked) if names else b""
    found = []
    while rest:
        header, _, rest = rest.partition(b"\n")
        size = int(header.rpartition(b" ")[2])
        found.append(rest[: min(size, TEXT_MAX)].decode("utf-8", "replace"))
        rest = rest[size + 1 :]
    return found


def _holds_tests(rules: JudgingPaths, path: str) -> bool:
    return rules.kind_of(path) == "test" or path.rpartition("/")[2] == "conftest.py"


async def _find_judges(
    court: Court, changed: Mapping[str, PathStep], kinds: dict[str, Kind], tests: Sequence[str]
) -> None:
    """A file that is both source and test counts as both."""
    for path, step in changed.items():
        if kinds[path] == "source" and step.old_mode not in (LINK, NOTHING):
            was = await court.read(step.old) if path.endswith(".py") else ""
            is_run = path in court.tested and not path.endswith(".py")  # documentation whose examples are tests
            if is_run or file_role.is_judge(path, was, tests):
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
    examples = [one for text in tests for one in example.list_examples(text)]
    for path, step in changed.items():
        is_data = kinds[path] == "source" and step.status == "A" and not path.endswith(file_role.CODE)
        if is_data and step.new_mode != LINK and example.holds_example(await court.read(step.new), examples):
            links.append(ReviewItem(path, step.new, "it is new data that has an example of the tests in it"))
    if not python:
        return links
    after = {path: await court.read(changed[path].new) for path in python}
    before = {path: await court.read(changed[path].old) for path in python if changed[path].status != "A"}
    added = {path: find_added_lines(before.get(path, ""), text) for path, text in after.items()}
    steps = court.job.baseline.steps if court.job.baseline else ()
    mended = {
        changed_expectation.split_name(test)[1].rpartition("::")[2] for step in steps for test in step.failing_ids
    }
    suspects = await asyncio.to_thread(suspect_change.find_suspects, after, before, added, tests, mended)
    by_file: dict[str, list[str]] = {
        path: ["it is too long for anybody to read"] for path, text in after.items() if len(text.encode()) >= TEXT_MAX
    }
    for path in court.tested.intersection(before):
        lost = changed_expectation.find_lost_examples(before[path], after[path])
        by_file |= {path: [lost]} if lost else {}
    for suspect in suspects:
        by_file.setdefault(suspect.file, []).append(f"line {suspect.line}: {suspect.why}")
    return [*links, *(ReviewItem(path, changed[path].new, "; ".join(why[:5])) for path, why in by_file.items())]
