"""One writing process per journal: a kernel file lock, which death of any kind lets go of."""

import fcntl
import json
import os
import sys
import time
from pathlib import Path

from detent.errors import JournalError
from detent.host.reading import JournalHolder


class Lock:
    """The right to write one journal."""

    def __init__(self, home: Path, command: str = "") -> None:
        self._path = home / "lock"
        self._command = command or Path(sys.argv[0]).name  # never its arguments: there may be a secret among them
        self._file: int | None = None

    def take(self) -> bool:
        """Take the lock if it is free."""
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise JournalError(f"cannot use {self._path.parent} as a home: {error.strerror}") from None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            return False
        self._file = file
        try:
            os.truncate(file, 0)
            os.pwrite(file, json.dumps(JournalHolder(os.getpid(), self._command, time.time())._asdict()).encode(), 0)
        except OSError:
            return True  # the disk is full: the kernel knows who holds it, others only do not learn our name
        return True

    def is_free(self) -> bool:
        """Whether nobody holds it, we included."""
        return self._file is None and not is_held(self._path.parent)

    def free(self) -> None:
        """Let others write."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def holder(home: Path) -> JournalHolder:
    """Who says to hold the lock of a home."""
    try:
        found = json.loads((home / "lock").read_text() or "{}")
        return JournalHolder(int(found["pid"]), str(found.get("command") or ""), float(found.get("since") or 0))
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return JournalHolder()


def is_held(home: Path) -> bool:
    """Whether some process writes this journal now."""
    try:
        file = os.open(home / "lock", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False
