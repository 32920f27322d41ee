"""Where a tree is judged: a clean checkout outside of the worker's reach, and how trees are laid out and run in it."""

import asyncio
import difflib
import functools
import itertools
import re
from collections.abc import Collection, Sequence
from pathlib import Path

import msgspec

from detent.agents.coding import check
from detent.agents.coding.check import Ran
from detent.agents.coding.check_result import without
from detent.agents.coding.effect_context import Stage
from detent.agents.coding.job_sandbox import Workplace, arrange, include
from detent.agents.coding.port import limits_of
from detent.agents.coding.settings import CheckStep
from detent.agents.coding.workspace import checkout
from detent.agents.coding.workspace.work_tree import Worktree

FOLDER, WATCH = "checkout", "checkout.view"
NAMES = "passed.json"
TEXT_MAX = 512 * 1024
LINE_END = re.compile(r"\r\n|\r|\n")  # str.splitlines knows more, by which somebody could move the lines


class Court:
    """One verification: the checkout, the rules, and what there was before."""

    def __init__(self, stage: Stage, key: str) -> None:
        self.stage, self.job, self.key = stage, stage.job, key
        self.project = stage.users.place
        self.place: Worktree = checkout.copy_of(self.project, stage.folder / FOLDER, stage.folder / WATCH)
        self.base = stage.job.base or stage.job.first_tree

    async def lay_out(self, tree: str, more: Collection[str] = ()) -> None:
        """Put a tree into the checkout, with the ignored files that the settings name, and `more` of them."""
        await checkout.put(self.place, tree)
        globs = (*self.job.settings.workspace.include, *more)
        await asyncio.to_thread(include, self.job.root, self.place.root, globs)

    async def run(
        self, tree: str, steps: Sequence[CheckStep], rerun: bool, only: Collection[str] = ()
    ) -> tuple[tuple[Ran, ...], list[str]]:
        """Check a tree in a clean checkout; also what the checks themselves changed in it."""
        if not steps:
            return (), []
        await self.lay_out(tree)
        ran = await self.try_here(steps, rerun=rerun, only=only)
        chosen = self.job.settings
        moved = without(await checkout.find_moved(self.place), chosen.all_litter)
        return ran, [path for path in moved if not path.startswith(chosen.workspace.shared)]

    async def try_here(
        self,
        steps: Sequence[CheckStep],
        *,
        site: Workplace | None = None,
        rerun: bool = False,
        only: Collection[str] = (),
    ) -> tuple[Ran, ...]:
        """Run checks in the checkout as it lies."""
        folder, space = self.stage.folder / "checks", limits_of(self.job.settings.limits).space
        return await check.run_steps(steps, site or self.site, folder, self.key, self.stage.hear, rerun, space, only)

    @functools.cached_property
    def site(self) -> Workplace:
        """Where the checks run."""
        hidden = list_outside(self.project)
        known = self.job.baseline.known if self.job.baseline else None
        return arrange(self.job.root, self.place.root, self.job.settings, hidden, is_check=True, known=known)

    @functools.cached_property
    def known(self) -> dict[str, list[str]]:
        """The tests that passed at the baseline, by the check that they are of."""
        try:
            return msgspec.json.decode((self.stage.folder / NAMES).read_bytes(), type=dict[str, list[str]])
        except (OSError, msgspec.MsgspecError):
            return {}

    @functools.cached_property
    def tested(self) -> frozenset[str]:
        """The files that have tests at the baseline, as the test runner calls them."""
        steps = self.job.baseline.steps if self.job.baseline else ()
        names = [*(test for step in steps for test in step.failing_ids), *itertools.chain(*self.known.values())]
        return frozenset(test.partition("::")[0] for test in names)

    async def read(self, blob: str) -> str:
        """The text of a file."""
        return (await self.project.view("cat-file", "blob", blob))[:TEXT_MAX].decode("utf-8", "replace")


def list_outside(project: Worktree) -> list[str]:
    """The git dirs of a project that lie elsewhere, as those of a linked work tree do."""
    found = (str(project.git_dir), str(project.common_dir))
    return [place for place in dict.fromkeys(found) if not Path(place).is_relative_to(project.root)]


def find_added_lines(before: str, after: str) -> set[int]:
    """The numbers of the lines that are new or changed, counted as Python counts them."""
    matcher = difflib.SequenceMatcher(None, LINE_END.split(before), LINE_END.split(after), autojunk=False)
    found: set[int] = set()
    for tag, _, _, start, end in matcher.get_opcodes():
        if tag in ("insert", "replace"):
            found |= set(range(start + 1, end + 1))
    return found
