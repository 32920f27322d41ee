"""Refs and index of the user's repository: written by git, and past a lock that a killed git of ours has left behind.

git makes a lock file before it writes, and one that is killed leaves it there for ever. What is ours we know: below
`refs/detent` nobody else writes, and of what belongs to the user a note says that we are at it.
"""

import asyncio
import os
import re
import time
from pathlib import Path

from detent.agents.coding.workspace.git_command import GitFailed
from detent.agents.coding.workspace.work_tree import Worktree

OWN = "refs/detent/"
INDEX = "index"  # written by git with a lock, too
LOCK_WAIT_S = 2.0
LOCK_POLL_S = 0.05
LOCKS_MAX = 4
_EXISTS = re.compile(r"Unable to create '(.+?\.lock)': File exists")


async def write(place: Worktree, *argv: str, ref: str, stdin: bytes = b"") -> None:
    """Let git write this ref (or `index`); a lock that a killed writer of ours left is removed."""
    is_own = ref.startswith(OWN)
    mark = note(place, ref)
    is_again = not is_own and mark.exists()  # the caller holds our lock: whoever wrote this note is dead
    if not is_own:
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.touch()
    for _ in range(LOCKS_MAX):
        try:
            await place.users(*argv, stdin=stdin)
            break
        except GitFailed as error:
            lock = _EXISTS.search(error.stderr)
            if lock is None or not (is_own or is_again) or not await outlast(Path(lock[1])):
                if not is_own:
                    mark.unlink(missing_ok=True)
                raise
    if not is_own:
        mark.unlink(missing_ok=True)


def note(place: Worktree, ref: str) -> Path:
    """The file that says that we are writing it."""
    return place.home / "writing" / ref.replace("/", "%")


async def outlast(lock: Path) -> bool:
    """Wait for whoever still holds a lock, then remove it if it has not moved; whether the place is free."""
    limit, first = time.monotonic() + LOCK_WAIT_S, None
    while time.monotonic() < limit:
        try:
            found = os.lstat(lock)
        except FileNotFoundError:
            return True
        first = first or found
        if not os.path.samestat(first, found):
            return False
        await asyncio.sleep(LOCK_POLL_S)
    lock.unlink(missing_ok=True)
    return True
