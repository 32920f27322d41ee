"""What a hostile program tries against the home and the process that has it; run where it is by its text.

`burgle(home, holder)` gives the names of what worked, and must give none from inside a sandbox.
"""

import ctypes
import os
import socket
from collections.abc import Callable
from pathlib import Path

PTRACE_SEIZE = 0x4206
PTRACE_DETACH = 17


def _connect(home: Path) -> None:
    os.chdir(home)  # a socket's path is short
    socket.socket(socket.AF_UNIX).connect("door")


def _trace(holder: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.ptrace(PTRACE_SEIZE, holder, None, None):
        raise OSError(ctypes.get_errno(), "ptrace")
    libc.ptrace(PTRACE_DETACH, holder, None, None)


def burgle(home: Path, holder: int) -> list[str]:
    """Try it all; what worked."""
    journal, proc = home / "journal.db", Path(f"/proc/{holder}")
    tries: dict[str, Callable[[], object]] = {
        "read the journal": journal.read_bytes,
        "write the journal": lambda: journal.open("r+b").close(),
        "make a file": (home / "mine").touch,
        "rename the journal": lambda: journal.rename(home / "old.db"),
        "rename the home": lambda: home.rename(home.with_name("old")),
        "unlink the journal": journal.unlink,
        "link the journal": lambda: Path("link").hardlink_to(journal),
        "read the people": (home / "detent.people.yaml").read_text,
        "connect to the holder": lambda: _connect(home),
        "trace the holder": lambda: _trace(holder),
        "the holder's root": lambda: list((proc / "root" / str(journal.parent)[1:]).iterdir()),
        "the holder's folder": lambda: list((proc / "cwd").iterdir()),
        "the holder's memory": lambda: (proc / "mem").open("rb").close(),
        "the holder's files": lambda: os.readlink(proc / "fd" / "0"),
    }
    there, worked = os.getcwd(), []
    for name, attempt in tries.items():
        try:
            attempt()
            worked.append(name)
        except OSError:
            pass
        finally:
            os.chdir(there)
    return worked
