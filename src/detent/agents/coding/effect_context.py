"""What every effect of the lifecycle stands on: the job from its contract, the repository, one hand at a time in it.

A worker, a verification, a checkpoint and a rollback never overlap in one work tree: each waits here until the one
before it has swept up.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import msgspec

from detent.agents.coding import active_context
from detent.agents.coding.check_result import without
from detent.agents.coding.job import Job, job_of, patch
from detent.agents.coding.workspace import Checkpoint, Repository, checkout, checkpoint_record, difference
from detent.core.contract import Contract
from detent.core.effect_type import Outcome
from detent.core.progress import say
from detent.core.value import digest
from detent.errors import Refused

LINE_MAX = 2000
_hands: "WeakValueDictionary[tuple[int, str], asyncio.Lock]" = WeakValueDictionary()
_open: dict[str, Repository] = {}


class Stage:
    """One effect at work."""

    def __init__(self, contract: Contract, job: Job, users: Repository) -> None:
        self.contract, self.job, self.users = contract, job, users
        self.run_id = str(contract.input.get("run", ""))
        self.state = str(contract.input.get("state", ""))
        self.folder = folder_of(job.root, self.run_id)
        self.repository = open_copy(users, self.folder) if job.workspace else users

    async def prepare(self) -> None:
        """Make the copy again if somebody has deleted it: every state of it that matters is a checkpoint."""
        job = self.job
        if job.workspace and job.last_checkpoint and not Path(self.repository.root).is_dir():
            known = await self.users.resolve(job.last_checkpoint, self.run_id)
            await checkout.make_copy(
                self.users.place,
                self.repository.place,
                await checkpoint_record.facts(self.users.place, known),
                is_linked=False,
            )

    def hear(self, stream: str, line: str) -> None:
        """Pass a line of output on to whoever looks on."""
        say(self.contract, {"stream": stream, "text": line[:LINE_MAX]})

    async def checkpoint(self, label: str) -> Checkpoint:
        """Keep the tree as it is."""
        return await self.repository.checkpoint(self.run_id, label)

    async def list_changed(self, before: str, after: str) -> list[str]:
        """The paths that differ between two trees, litter left out."""
        found = await difference.steps(self.repository.place, before, after)
        return without(sorted(found), self.job.settings.all_litter)

    async def fingerprint(self, before: str, after: str) -> str:
        """What has changed from one tree to another as one word, litter left out."""
        found = await difference.steps(self.repository.place, before, after)
        paths = without(sorted(found), self.job.settings.all_litter)
        return digest([[path, found[path].new_mode, found[path].new] for path in paths])[:16]

    async def lines(self, before: str, after: str) -> int:
        """How many lines that is, added and removed."""
        counted = await difference.line_counts(self.repository.place, before, after)
        kept = without(counted, self.job.settings.all_litter)
        return sum(sum(counted[path]) for path in kept)

    def renew(self, job: Job) -> "Stage":
        """The same stage for a job of which something has changed."""
        return Stage(self.contract, job, self.users)

    def outcome(
        self, after: Job, result: Any = None, usage: dict[str, float] | None = None, since: Job | None = None
    ) -> Outcome:
        """What changed of the job, since the effect began."""
        return Outcome(result=result or {}, patch=patch(since or self.job, after), usage=usage or {})

    def conclude(
        self, after: Job, result: Any = None, usage: dict[str, float] | None = None, since: Job | None = None
    ) -> Outcome:
        """The same, and the event that the job's verdict names, if it has one."""
        changed = {**patch(since or self.job, after), "verdict": after.verdict}
        return Outcome(result=result or {}, raises=after.verdict, patch=changed, usage=usage or {})


def open_copy(users: Repository, folder: Path) -> Repository:
    """The copy of a project that the worker of a job works in."""
    return Repository(checkout.copy_of(users.place, folder / "tree", folder / "tree.view"), users.cap_bytes)


def find_worked_on(users: Repository, job: Job, run_id: str) -> Repository:
    """The tree that a job works on: its copy while there is one, else the user's own."""
    copy = open_copy(users, folder_of(job.root, run_id))
    return copy if job.workspace and Path(copy.root).is_dir() else users


def folder_of(root: str, run_id: str) -> Path:
    """Where a job keeps its files."""
    return Path(root) / ".detent" / "code" / run_id


def now() -> float:
    """The time, for records; nothing is decided by it here."""
    return round(time.time(), 3)


async def open_repository(root: str) -> Repository:
    """The repository of a work tree, looked up once in a process as long as it is there."""
    known = _open.get(root)
    if known is not None and known.place.git_dir.is_dir() and known.has_git:
        return known
    found = await Repository.open(root)
    _open[root] = found
    return found


@asynccontextmanager
async def set_stage(contract: Contract, *, is_projected: bool = True) -> AsyncIterator[Stage]:
    """The stage for a contract; nobody else works in its tree until the block is left."""
    try:
        job = job_of(contract.input["job"])
    except msgspec.ValidationError as error:
        raise Refused(f"this run's context is not a coding job: {error}") from None
    key = (id(asyncio.get_running_loop()), job.root)
    hands = _hands.setdefault(key, asyncio.Lock())
    async with hands:
        stage = Stage(contract, job, await open_repository(job.root))
        own = Path(job.root) / ".detent"
        own.mkdir(mode=0o700, exist_ok=True)  # it may become a home
        stage.folder.mkdir(parents=True, exist_ok=True)
        ignore = own / ".gitignore"
        if not ignore.exists():
            active_context.write(ignore, b"*\n")  # neither `git status` nor a worker's `git add` sees our folder
        if is_projected:
            active_context.project(job, stage.run_id, stage.state)
        await stage.prepare()
        yield stage
