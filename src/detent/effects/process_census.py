"""Who runs on this machine: processes by number and start, by the marks they carry, and this boot.

Numbers of processes are given again; number and start together never are. Linux shows them in /proc. Elsewhere psutil
does (the extra `processes`; `notebook` brings it too), and without it nobody is found. Decision 0018 says why both.
"""

import contextlib
import functools
import importlib
import os
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

PROC = Path("/proc")
GONE = "gone"


class Proc:
    """Processes as Linux shows them."""

    def read_start(self, pid: int) -> str:
        """The tick a process was started at."""
        try:
            stat = (PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return GONE
        state, *fields = stat.rpartition(")")[2].split()
        return GONE if state in "ZX" else fields[18]

    def environments(self) -> Iterator[tuple[int, list[bytes]]]:
        """Every process that is ours to look into, with what is in its environment."""
        for entry in PROC.glob("[0-9]*"):
            with contextlib.suppress(OSError, ValueError):  # it ended meanwhile, or it is not ours
                yield int(entry.name), (entry / "environ").read_bytes().split(b"\0")


class Portable:
    """The same as psutil shows it; a clock that is set back or forth may make a process look gone."""

    def __init__(self, psutil: ModuleType) -> None:
        self._psutil = psutil

    def read_start(self, pid: int) -> str:
        """The second a process was started at, with a few digits."""
        try:
            process = self._psutil.Process(pid)
            return GONE if process.status() == self._psutil.STATUS_ZOMBIE else f"{process.create_time():.2f}"
        except (self._psutil.Error, OSError):
            return GONE

    def environments(self) -> Iterator[tuple[int, list[bytes]]]:
        """Every process that is ours to look into, with what is in its environment."""
        for process in self._psutil.process_iter():
            with contextlib.suppress(self._psutil.Error, OSError):
                yield process.pid, [os.fsencode(f"{name}={said}") for name, said in process.environ().items()]


@functools.cache
def _source() -> Proc | Portable:
    if not (PROC / "self" / "stat").exists():
        with contextlib.suppress(ImportError):
            return Portable(importlib.import_module("psutil"))  # only where the system itself does not say
    return Proc()


def identity(pid: int, source: Proc | Portable | None = None) -> str:
    """A process's number and when it was started: two processes may share the first, never both."""
    return f"{pid}-{(source or _source()).read_start(pid)}"


def lives(named: str, source: Proc | Portable | None = None) -> bool:
    """Whether the process of that identity still runs here."""
    pid, _, started = named.partition("-")
    return pid.isdecimal() and started != GONE and identity(int(pid), source) == named


def carriers(mark: str, source: Proc | Portable | None = None) -> Iterator[tuple[int, list[bytes]]]:
    """The processes that carry a mark, `NAME=value`, in their environment, each with all that is in there."""
    wanted = mark.encode()
    return ((pid, found) for pid, found in (source or _source()).environments() if wanted in found)


def value(found: list[bytes], name: str) -> str:
    """What a variable says in such an environment."""
    wanted = f"{name}=".encode()
    return next((one[len(wanted) :].decode("utf-8", "replace") for one in found if one.startswith(wanted)), "")


def boot() -> str:
    """Which start of the machine this is; empty where the system does not say."""
    try:
        return (PROC / "sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""
