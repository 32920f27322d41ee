"""The seat of whoever drives the triggers of a home: a kernel file lock, which death of any kind lets go of.

Two drivers would do no harm; with a seat they do no double work either, and others can see whether anybody drives.
"""

import fcntl
import os
from pathlib import Path

FILE = "triggers.lock"


class DriverSeat:
    """The seat of one home."""

    def __init__(self, home: Path) -> None:
        self._path = home / FILE
        self._file: int | None = None

    def take(self) -> bool:
        """Sit down if nobody does; whether we sit."""
        if self._file is not None:
            return True
        try:
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:
            return False  # the home is not there yet, or closed to us
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            return False
        self._file = file
        return True

    def leave(self) -> None:
        """Let others drive."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def is_driven(home: Path) -> bool:
    """Whether somebody drives the triggers of a home now."""
    seat = DriverSeat(home)
    if not (home / FILE).exists():
        return False
    is_free = seat.take()
    seat.leave()
    return not is_free
