"""One checkpoint or rollback at a time in a work tree.

The lock is the kernel's, on a file, and is freed when its holder dies, however it dies.
"""

import contextlib
import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from detent.errors import Refused


@contextlib.contextmanager
def hold(path: Path, doing: str) -> Iterator[None]:
    """Hold the lock, or refuse and say who holds it and since when."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise Refused(f"{_holder(fd)}; try again when it is done") from error
        holder = {"pid": os.getpid(), "host": socket.gethostname(), "since": int(time.time()), "doing": doing}
        os.ftruncate(fd, 0)
        os.pwrite(fd, json.dumps(holder).encode(), 0)
        yield
        os.ftruncate(fd, 0)
    finally:
        os.close(fd)


def _holder(fd: int) -> str:
    try:
        holder = json.loads(os.pread(fd, 4096, 0))
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(holder["since"]))
        return f"process {holder['pid']} on {holder['host']} is at work here ({holder['doing']}) since {since} UTC"
    except (ValueError, KeyError, TypeError):
        return "another process is at work in this work tree"
