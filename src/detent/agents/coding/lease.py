"""One active job per work tree: a lease that names the run, its journal, who began it and when.

Whether a lease still holds is for the journal to say: one whose run has ended, or was never begun, is taken over.
"""

import fcntl
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from detent.agents.coding import active_context
from detent.agents.coding.workspace.work_tree import Worktree
from detent.effects import process_census
from detent.errors import Refused

FILE = "job.json"


class Lease(msgspec.Struct, frozen=True):
    """Who has a work tree."""

    run_id: str
    home: str
    by: str = ""
    since: float = 0.0
    process: str = ""
    host: str = ""

    @property
    def is_beginning(self) -> bool:
        """Whether the process that took it still lives, here: its run may be about to begin."""
        return self.host == socket.gethostname() and process_census.lives(self.process)


def read(place: Worktree) -> Lease | None:
    """The lease on a work tree, held or stale."""
    try:
        return msgspec.json.decode((place.home / FILE).read_bytes(), type=Lease)
    except (OSError, msgspec.MsgspecError):
        return None


def take(place: Worktree, run_id: str, home: Path, by: str, holds: Callable[[Lease], bool]) -> Lease | None:
    """Take the lease; refused while another job has it. Returns the stale one that was taken over."""
    place.home.mkdir(parents=True, exist_ok=True)
    fd = os.open(place.home / f"{FILE}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        known = read(place)
        if known is not None and known.run_id != run_id and holds(known):
            since = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(known.since))
            raise Refused(
                f"job {known.run_id} of {known.by or 'somebody'} is active here since {since} UTC; finish it first: "
                "`detent code status` shows it and how to end it"
            )
        mine = Lease(
            run_id,
            str(home.resolve()),
            by,
            round(time.time(), 3),
            process_census.identity(os.getpid()),
            socket.gethostname(),
        )
        active_context.write(place.home / FILE, msgspec.json.encode(mine))
        return known
    finally:
        os.close(fd)


def drop(place: Worktree, run_id: str) -> None:
    """Give it back, if it is still this run's."""
    known = read(place)
    if known is not None and known.run_id == run_id:
        (place.home / FILE).unlink(missing_ok=True)
