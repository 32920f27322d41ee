"""The door: a work tree whose state can be kept, compared and put back."""

import contextlib
import os
import time
from collections.abc import Collection, Iterator
from dataclasses import replace

from detent.agents.coding.workspace import (
    checkpoint_lock,
    checkpoint_record,
    commit,
    difference,
    landing,
    rollback,
    snapshot,
    work_tree,
)
from detent.agents.coding.workspace.checkpoint_record import HEADS, PINS, RESCUES, Checkpoint
from detent.agents.coding.workspace.commit import Committed
from detent.agents.coding.workspace.difference import Change
from detent.agents.coding.workspace.landing import Landing, MadeTree
from detent.agents.coding.workspace.ref import write as write_ref
from detent.agents.coding.workspace.rollback import Rollback
from detent.agents.coding.workspace.snapshot import CAP_BYTES, Snapshot
from detent.agents.coding.workspace.work_tree import Worktree

KEEP_RUNS = 3
KEEP_DAYS = 14.0
DAY_S = 86_400.0


class Repository:
    """One work tree; with git or without. Its verbs refuse while another process is at work in it."""

    def __init__(self, found: Worktree, cap_bytes: int = CAP_BYTES) -> None:
        self.place = found
        self.cap_bytes = cap_bytes

    @classmethod
    async def open(cls, path: str | os.PathLike[str], *, cap_bytes: int = CAP_BYTES) -> "Repository":
        """The work tree around a folder. An untracked file larger than the cap is left out of checkpoints."""
        return cls(await work_tree.find(path), cap_bytes)

    @property
    def root(self) -> str:
        """The top of the work tree."""
        return self.place.root

    @property
    def has_git(self) -> bool:
        """Whether this is a git repository; if not, `git init` is worth an offer."""
        return self.place.has_git

    async def checkpoint(self, run: str, label: str = "") -> Checkpoint:
        """Keep the work tree as it is now, under a private ref; HEAD, branch, index and stash are not touched."""
        checkpoint_record.check_run(run)
        with self._hold(f"checkpoint for {run}"):
            return await checkpoint_record.write(
                self.place, run, label, await snapshot.take(self.place, self.cap_bytes)
            )

    async def checkpoints(self, run: str | None = None) -> list[Checkpoint]:
        """The checkpoints of a run, or of all runs, the oldest first."""
        return await checkpoint_record.every(self.place, run)

    async def resolve(self, name: str, run: str | None = None) -> Checkpoint:
        """The checkpoint of this id, or the only one whose id begins so."""
        return await checkpoint_record.resolve(self.place, name, run)

    async def tree_id(self) -> str:
        """The tree that a checkpoint of this moment would hold: what evidence is bound to."""
        return (await self.look()).tree

    async def diff(self, before: Checkpoint | str, after: Checkpoint | str | None = None) -> str:
        """The difference between two checkpoints, or up to the present work tree, as a patch."""
        return await difference.patch(self.place, *await self._trees(before, after))

    async def compare(self, before: str, after: str, paths: Collection[str] = ()) -> str:
        """The difference of two trees as a patch, of these paths or of all."""
        return await difference.patch(self.place, before, after, paths)

    async def changes(self, before: Checkpoint | str, after: Checkpoint | str | None = None) -> list[Change]:
        """The same difference as a list."""
        return await difference.changes(self.place, *await self._trees(before, after))

    async def rollback(self, target: Checkpoint | str) -> Rollback:
        """Put the work tree, HEAD, branch and index back; what was there before is a checkpoint of its own."""
        goal = await self._checkpoint(target)
        with self._hold(f"rollback to {goal.id}"):
            return await rollback.roll_back(self.place, await checkpoint_record.facts(self.place, goal), self.cap_bytes)

    async def land(self, run: str, base: str, made: MadeTree, *, wins: bool = False) -> Landing:
        """Bring what a job made of the tree `base` into this work tree, as one change or not at all."""
        checkpoint_record.check_run(run)
        label = landing.MERGE if self.place.own else landing.LABEL
        with self._hold(f"landing of {run}"):
            return await landing.land(self.place, run, base, made, self.cap_bytes, wins=wins, label=label)

    async def take_back(self, run: str, trees: tuple[str, str], paths: Collection[str], undo: str = "") -> Landing:
        """Undo a landing, file by file, where the file still is what it wrote; `undo` is the checkpoint before it."""
        known = await checkpoint_record.facts(self.place, await self.resolve(undo)) if undo else None
        was = MadeTree(trees[0], known.permissions if known else {})
        with self._hold(f"taking back the landing of {run}"):
            return await landing.take_back(self.place, run, was, trees[1], paths, self.cap_bytes)

    async def list_dirty(self) -> set[str]:
        """The files whose contents are not what the user's index says; new ones are among them."""
        changed = await self.place.plain.names("diff-files", "-z", "--name-only", "--no-renames")
        return {*changed, *await self.place.plain.names("ls-files", "-z", "-o", "--exclude-standard")}

    async def stage(self, paths: Collection[str]) -> None:
        """Bring the entries of these files in the user's index up to date, as `git add` does."""
        if paths:
            named = b"\0".join(os.fsencode(path) for path in paths)
            flags = ("--pathspec-from-file=-", "--pathspec-file-nul")
            await self.place.plain("--literal-pathspecs", "add", "-A", "-f", *flags, stdin=named)

    async def look(self) -> Snapshot:
        """The work tree at this moment."""
        with self._hold("looking at the work tree"):
            return await snapshot.take(self.place, self.cap_bytes)

    async def commit_on_branch(
        self, run: str, before: str, after: str, message: str, paths: Collection[str] | None = None
    ) -> Committed:
        """Commit the difference of two trees, of these paths or of all, onto the branch `detent/RUN`."""
        checkpoint_record.check_run(run)
        with self._hold(f"a commit for {run}"):
            return await commit.on_branch(self.place, run, (before, after), message, paths)

    async def commit_in_place(
        self, before: Checkpoint | str, after: str, message: str, paths: Collection[str] | None = None
    ) -> Committed:
        """Commit on the current branch what changed from a checkpoint to a tree, as far as it was clean then."""
        facts = await checkpoint_record.facts(self.place, await self._checkpoint(before))
        with self._hold(f"a commit for {facts.checkpoint.run}"):
            return await commit.in_place(self.place, facts, after, message, paths)

    async def commit_landed(
        self, run: str, trees: tuple[str, str], message: str, paths: Collection[str] | None = None
    ) -> Committed:
        """Commit on the current branch, of what has landed, the difference of two trees, where nothing else differs."""
        safe = await self.checkpoint(run, "before a commit")
        facts = await checkpoint_record.facts(self.place, safe)
        before = replace(facts, checkpoint=replace(safe, tree=trees[0]))
        with self._hold(f"a commit for {run}"):
            return await commit.in_place(self.place, before, trees[1], message, paths)

    async def retain(
        self, runs: int = KEEP_RUNS, days: float = KEEP_DAYS, now: float | None = None, spare: Collection[str] = ()
    ) -> list[str]:
        """Let go of the checkpoints of old runs: not the latest few, older than some days, not to be spared."""
        latest = {item.run: item for item in await self.checkpoints()}  # in the order of their numbers
        order = sorted(latest.values(), key=lambda item: (item.at, item.seq), reverse=True)
        since = (time.time() if now is None else now) - days * DAY_S
        gone: list[str] = []
        for item in order[runs:]:
            is_ours = (
                await checkpoint_record.facts(self.place, item)
            ).home == self.place.name  # not another work tree's
            if is_ours and item.at < since and item.run not in spare:
                gone += await self.prune(item.run)
        return gone

    async def prune(self, run: str, keep: int = 0) -> list[str]:
        """Let go of a run's checkpoints except the latest `keep`; the ids let go.

        The rescues of a run go with its last checkpoint. What was moved aside stays: no ref holds it.
        """
        with self._hold(f"pruning {run}"):
            found = await self.checkpoints(run)
            dropped = found[: max(0, len(found) - keep)]
            for item in dropped:
                refs = [item.ref, f"{HEADS}/{run}/{item.seq}", f"{HEADS}/{run}/{item.seq}-branch"]
                inner = (await checkpoint_record.facts(self.place, item)).nested
                for path in inner:
                    repository = await work_tree.find_nested(self.place, os.path.join(self.root, path))
                    if repository is not None:
                        await _drop(repository, [f"{PINS}/{run}/{item.seq}", *refs[1:]])
                await _drop(self.place, refs)
            if len(dropped) == len(found):
                rescues = await self.place.users("for-each-ref", "--format=%(refname)", f"{RESCUES}/{run}/")
                await _drop(self.place, rescues.decode().split())
            return [item.id for item in dropped]

    @contextlib.contextmanager
    def _hold(self, doing: str) -> Iterator[None]:
        if not self.place.has_git:
            work_tree.make_store(self.place)
        with checkpoint_lock.hold(self.place.home / "lock", doing):
            yield

    async def _checkpoint(self, named: Checkpoint | str) -> Checkpoint:
        return named if isinstance(named, Checkpoint) else await self.resolve(named)

    async def _trees(self, before: Checkpoint | str, after: Checkpoint | str | None) -> tuple[str, str]:
        first = (await self._checkpoint(before)).tree
        return first, await self.tree_id() if after is None else (await self._checkpoint(after)).tree


async def _drop(found: Worktree, refs: list[str]) -> None:
    for ref in refs:
        await write_ref(found, "update-ref", "-d", ref, ref=ref)
