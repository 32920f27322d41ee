"""Who runs on this machine, as /proc shows it: processes by number and start, by the marks they carry, and this boot.

Numbers of processes are given again; number and start together never are. Without /proc nobody is found.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path

PROC = Path("/proc")


def identity(pid: int) -> str:
    """A process's number and the tick it was started at: two processes may share the first, never both."""
    try:
        stat = (PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return f"{pid}-gone"
    state, *fields = stat.rpartition(")")[2].split()
    return f"{pid}-gone" if state in "ZX" else f"{pid}-{fields[18]}"


def lives(named: str) -> bool:
    """Whether the process of that identity still runs here."""
    pid, _, started = named.partition("-")
    return pid.isdecimal() and started != "gone" and identity(int(pid)) == named


def carriers(mark: str) -> Iterator[tuple[int, list[bytes]]]:
    """The processes that carry a mark, `NAME=value`, in their environment, each with all that is in there."""
    wanted = mark.encode()
    for entry in PROC.glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError):  # it ended meanwhile, or it is not ours to look into
            found = (entry / "environ").read_bytes().split(b"\0")
            if wanted in found:
                yield int(entry.name), found


def value(found: list[bytes], name: str) -> str:
    """What a variable says in such an environment."""
    wanted = f"{name}=".encode()
    return next((one[len(wanted) :].decode("utf-8", "replace") for one in found if one.startswith(wanted)), "")


def boot() -> str:
    """Which start of the machine this is."""
    try:
        return (PROC / "sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""
