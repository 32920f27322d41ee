"""Kernels and servers whose detent has died: each carries a mark in its environment.

A kernel of ours notices by itself, within a second, that its parent is gone; but one that is stopped, or deep inside
native code, does not. Where `process_census` cannot see processes nothing is found.
"""

import contextlib
import os
import signal
import time
from collections.abc import Container, Iterator

from detent.effects import process_census
from detent.effects.process_census import carriers, identity, lives

MARK = "DETENT_KERNEL"
HOST = "_HOST"
GONE_S = 5.0
POLL_S = 0.02


def marks(home: str, mark: str = MARK) -> dict[str, str]:
    """What a kernel of that home carries, started by this process."""
    return {mark: home, mark + HOST: identity(os.getpid())}


def orphans(home: str, mark: str = MARK, spared: Container[int] = ()) -> Iterator[int]:
    """The processes marked with that home whose detent no longer lives; not those of a session that is kept."""
    for pid, found in carriers(f"{mark}={home}"):
        if not lives(process_census.value(found, mark + HOST)):
            with contextlib.suppress(OSError):
                if os.getsid(pid) not in spared:
                    yield pid


def kill_orphans(home: str, mark: str = MARK, spared: Container[int] = ()) -> int:
    """Kill them and wait until they are gone (a few seconds at most); how many there were."""
    seen: set[int] = set()
    until = time.monotonic() + GONE_S
    while (found := set(orphans(home, mark, spared))) and time.monotonic() < until:
        for pid in found - seen:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        seen |= found
        time.sleep(POLL_S)
    return len(seen)
