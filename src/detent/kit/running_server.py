"""The server that answers for a home, so that other commands find it: where, and for which project folder.

What the file says counts as long as the process that wrote it lives: one that was killed leaves it behind.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from detent.effects.process_census import identity, lives
from detent.whole_file import write_whole

FILE = "server.json"
CONTENT_MAX = 10_000


class RunningServer(msgspec.Struct, frozen=True):
    """One server: its process, its project, what people open, and whether they are known there without a login."""

    process: str
    folder: str
    address: str
    is_login_free: bool


@contextmanager
def announce(home: Path, folder: Path, address: str, *, is_login_free: bool) -> Iterator[None]:
    """Let others find this process's server while the block works; the last one to come is found."""
    told = RunningServer(identity(os.getpid()), str(folder), address, is_login_free)
    path = home / FILE
    try:
        _write(path, msgspec.json.encode(told))
        yield
    finally:
        if _read(path) == told:
            with suppress(OSError):
                path.unlink()


def find_server(home: Path, folder: Path) -> RunningServer | None:
    """The server that answers for a home and a project folder now."""
    found = _read(home / FILE)
    return found if found is not None and found.folder == str(folder) and lives(found.process) else None


def _write(path: Path, content: bytes) -> None:
    with suppress(OSError):  # a convenience: a server that cannot be found works as well
        write_whole(path, content)


def _read(path: Path) -> RunningServer | None:
    try:
        with path.open("rb") as file:
            return msgspec.json.decode(file.read(CONTENT_MAX), type=RunningServer)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None
