"""What passes only in the user's own tree: tests that need ignored files, or something of this machine.

Such tests fail in a clean checkout before any worker has begun, so nobody is blamed for them. But who knows that they
are left out can name what they need. It is found out by running what fails once more, in the same checkout: with the
project's ignored files beside it, then also with the user's home, temporary folders and variables.
"""

import asyncio
import glob
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec.structs import replace

from detent.agents.coding.check import Ran
from detent.agents.coding.check_result import Checked, OnlyHere, matching, without
from detent.agents.coding.clean_checkout import Court, list_outside
from detent.agents.coding.job_sandbox import arrange
from detent.agents.coding.settings import CheckStep

FILES_MAX, BYTES_MAX = 2000, 256 * 1024 * 1024
SECONDS_MAX = 120.0  # a step that takes longer is not run again for this
NAMES_MAX = 50
SHOWN_MAX = 10


async def find_only_here(court: Court, tree: str, ran: Sequence[Ran], steps: Sequence[CheckStep]) -> list[OnlyHere]:
    """Of what fails in the checkout: what would pass in the user's own tree, and what it may need."""
    red = {one.checked.name: one.checked for one in ran if _is_worth_asking(one.checked)}
    again = [step for step in steps if step.name in red]
    failing = {test for checked in red.values() for test in checked.failing_ids}
    if not again or not failing or not court.site.is_mounted:
        return []
    found: list[OnlyHere] = []
    files = await list_ignored(court)
    if files:
        await court.lay_out(tree, [glob.escape(name) for name in files])
        passed = _list_passed(await court.try_here(again, only=failing)) & failing
        messages = {item.test: item.message for checked in red.values() for item in checked.failures}
        found += [OnlyHere(test, "files", _guess(files, messages.get(test, ""))) for test in sorted(passed)]
        failing -= passed
    if failing:
        await court.lay_out(tree, [glob.escape(name) for name in files])
        chosen = court.job.settings
        open_one = replace(chosen, sandbox=replace(chosen.sandbox, level="home"))
        site = arrange(court.job.root, court.place.root, open_one, list_outside(court.project))
        passed = _list_passed(await court.try_here(again, site=replace(site, services=("*",)), only=failing)) & failing
        found += [OnlyHere(test, "services") for test in sorted(passed)]
    return found[:NAMES_MAX]


def _is_worth_asking(checked: Checked) -> bool:
    is_red = bool(checked.failing_ids) and not checked.environment and not checked.timed_out
    return is_red and checked.seconds <= SECONDS_MAX


def _list_passed(ran: Iterable[Ran]) -> set[str]:
    return {test for one in ran for test in one.passed}


def _guess(files: Sequence[str], message: str) -> tuple[str, ...]:
    """The ignored files that a test may need: those that its failure names, else all."""
    named = [name for name in files if os.path.basename(name) in message]
    return tuple((named or list(files))[:SHOWN_MAX])


async def list_ignored(court: Court) -> list[str]:
    """The project's ignored files without litter, dependencies and what is included already."""
    chosen = court.job.settings
    found = await court.project.view.names("ls-files", "-z", "-o", "-i", "--exclude-standard")
    inner = {name for name in found if set(chosen.workspace.shared).intersection(Path(name).parts[:-1])}
    known = {*inner, *matching(found, (*chosen.workspace.include, ".detent/**", ".git/**"))}
    kept = [name for name in without(found, chosen.all_litter) if name not in known]
    return await asyncio.to_thread(_limit, court.job.root, kept[:FILES_MAX])


def _limit(root: str, names: Iterable[str]) -> list[str]:
    """As many of these files as can be copied in a moment."""
    kept, left = [], BYTES_MAX
    for name in names:
        path = Path(root, name)
        size = path.stat().st_size if path.is_file() and not path.is_symlink() else BYTES_MAX + 1
        if size <= left:
            left -= size
            kept.append(name)
    return kept
