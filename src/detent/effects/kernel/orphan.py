"""Kernels and servers whose detent has died: each carries a mark in its environment, and /proc shows it.

A kernel of ours notices by itself, within a second, that its parent is gone; but one that is stopped, or deep inside
native code, does not. On systems without /proc nothing is found.
"""

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

MARK = "DETENT_KERNEL"
HOST = "_HOST"
GONE_S = 5.0
POLL_S = 0.02


def marks(home: str, mark: str = MARK) -> dict[str, str]:
    """What a kernel of that home carries, started by this process."""
    return {mark: home, mark + HOST: identity(os.getpid())}


def orphans(home: str, mark: str = MARK) -> Iterator[int]:
    """The processes marked with that home whose detent no longer lives."""
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError):  # it ended meanwhile, or it is not ours to look into
            found = (entry / "environ").read_bytes().split(b"\0")
            if f"{mark}={home}".encode() in found and not _has_host(found, mark):
                yield int(entry.name)


def kill_orphans(home: str, mark: str = MARK) -> int:
    """Kill them and wait until they are gone (a few seconds at most); how many there were."""
    seen: set[int] = set()
    until = time.monotonic() + GONE_S
    while (found := set(orphans(home, mark))) and time.monotonic() < until:
        for pid in found - seen:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        seen |= found
        time.sleep(POLL_S)
    return len(seen)


def _has_host(found: list[bytes], mark: str) -> bool:
    named = next((one for one in found if one.startswith(f"{mark}{HOST}=".encode())), b"").decode()
    host = named.partition("=")[2]
    return host == identity(int(host.partition("-")[0] or 0))


def identity(pid: int) -> str:
    """A process's number and the tick it was started at: two processes may share the first, never both."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return f"{pid}-gone"
    state, *fields = stat.rpartition(")")[2].split()
    return f"{pid}-gone" if state in "ZX" else f"{pid}-{fields[18]}"
