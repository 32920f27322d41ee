"""What a cell does to the world, seen from inside the kernel by an audit hook; sent beside the probe.

Noted are programs started, connections to other machines, and files written or removed outside of the kernel's own
folder. What libraries do for themselves is no deed: temporary files, caches, folders made, workers of their own, and
programs that only tell what machine this is. It is no guard: whoever wants to hide from it can.

A deed is marked in a file of the kernel's folder before it is done: if kernel and detent then die, the next detent
still finds that this cell was about to touch the world.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import tempfile
from typing import Any

NOTED_MAX = 20
SHOWN_MAX = 120
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
# Programs that tell something about this machine, which libraries ask while they are loaded.
TELLING = frozenset({"fc-list", "lscpu", "uname", "ldconfig", "nproc", "sysctl", "system_profiler", "file"})
WORKERS = ("joblib", "loky", "multiprocessing", "resource_tracker")
LOOPBACK = ("127.", "::1", "localhost", "0.0.0.0", "::ffff:127.")  # noqa: S104  # only compared with
REMOVING = frozenset({"os.remove", "os.rmdir", "os.truncate", "os.rename", "shutil.rmtree", "os.link", "os.symlink"})
STARTING = frozenset({"subprocess.Popen", "os.system", "os.posix_spawn", "os.exec", "os.spawn", "pty.spawn"})
CONNECTING = frozenset({"socket.connect", "socket.sendto", "socket.sendmsg"})

_noted: dict[str, None] = {}
_databases: dict[str, Any] = {}  # opened by this cell: what they were like before
_folders: tuple[str, ...] = ()
_is_busy = False
_mark_path = ""  # where deeds are marked; "": nowhere


def install() -> None:
    """Begin to watch."""
    global _folders, _mark_path  # noqa: PLW0603
    own = os.environ.get("IPYTHONDIR", "")  # detent places it into the kernel's private folder
    _mark_path = os.path.join(os.path.dirname(own), "deeds") if own else ""
    home = os.path.expanduser("~")
    kept = [
        os.getcwd(), tempfile.gettempdir(), "/dev", "/proc", os.environ.get("IPYTHONDIR", ""),
        os.environ.get("XDG_CACHE_HOME") or os.path.join(home, ".cache"), os.environ.get("MPLCONFIGDIR", ""),
        os.path.join(home, ".config", "matplotlib"), os.path.join(home, ".matplotlib"),
        os.environ.get("XDG_RUNTIME_DIR", ""),
    ]  # fmt: skip
    _folders = tuple({made for one in kept if one for made in (os.path.abspath(one), os.path.realpath(one))})
    sys.addaudithook(watch)


def take() -> list[str]:
    """What was noted since this was last asked, one line each."""
    for path, before in _databases.items():
        if _look_at(path) != before:
            _note("changes a database", path)
    found = list(_noted)
    _noted.clear()
    _databases.clear()
    return found


def watch(event: str, given: tuple[Any, ...]) -> None:
    """The hook: it is called very often, so it looks at the name first."""
    global _is_busy  # noqa: PLW0603
    if event == "open":
        if type(given[2]) is int and not given[2] & WRITING:
            return
    elif event not in WATCHED:
        return
    if _is_busy:
        return
    _is_busy = True
    try:
        with contextlib.suppress(Exception):  # a strange argument must not break what the cell does
            WATCHED[event](event, given)
    finally:
        _is_busy = False


def _note(what: str, about: Any) -> None:
    if len(_noted) < NOTED_MAX:
        text = " ".join(str(about).split())
        line = f"{what}: {text if len(text) <= SHOWN_MAX else text[: SHOWN_MAX - 1] + '…'}"
        if line not in _noted:
            _mark(line)
        _noted[line] = None


def _mark(line: str) -> None:
    """Write down that a cell is about to do this, with a digest that says which cell."""
    if not _mark_path:
        return
    with contextlib.suppress(Exception):  # without a mark a crash is judged as before
        handle = os.open(_mark_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(handle, f"{_digest_cell()} {line}\n".encode("utf-8", "replace"))
        finally:
            os.close(handle)


def _digest_cell() -> str:
    """Which cell is at work: a digest of its code; "-" if the kernel does not say."""
    with contextlib.suppress(Exception):
        shell = sys.modules["IPython"].get_ipython()
        return hashlib.sha256(shell.kernel.get_parent()["content"]["code"].encode()).hexdigest()[:16]
    return "-"


def _is_inside(path: Any) -> bool:
    if isinstance(path, int):
        return True  # a descriptor: its opening was seen
    place = os.path.abspath(os.fsdecode(path))
    if "__pycache__" in place:
        return True
    return any(place == folder or place.startswith(folder + os.sep) for folder in _folders)


def _on_open(_: str, given: tuple[Any, ...]) -> None:
    if not _is_inside(given[0]):
        _note("writes", os.fsdecode(given[0]))


def _on_removal(event: str, given: tuple[Any, ...]) -> None:
    paths = given[:2] if event in ("os.rename", "os.link", "os.symlink") else given[:1]
    if not all(map(_is_inside, paths)):
        _note("removes or renames", ", ".join(os.fsdecode(path) for path in paths))


def _on_start(event: str, given: tuple[Any, ...]) -> None:
    words = given[1] if event in ("subprocess.Popen", "os.posix_spawn", "os.exec", "pty.spawn") else given[0]
    if event == "os.spawn":
        words = given[2]
    words = [words] if isinstance(words, str | bytes) else list(words)
    words = [os.fsdecode(word) for word in words]
    is_worker = os.path.basename(words[0]).startswith("python") and any(
        name in word for word in words[1:] for name in WORKERS
    )
    if os.path.basename(words[0].split()[0]) not in TELLING and not is_worker:
        _note("starts a program", " ".join(words))


def _on_connect(_: str, given: tuple[Any, ...]) -> None:
    address = given[1]
    if isinstance(address, tuple) and not str(address[0]).startswith(LOOPBACK):
        _note("uses the network", f"{address[0]}:{address[1]}")


def _on_database(_: str, given: tuple[Any, ...]) -> None:
    path = os.fsdecode(given[0])
    if path not in ("", ":memory:") and not path.startswith("file:") and path not in _databases:
        _databases[path] = _look_at(path)
        if not _is_inside(path):
            _mark(f"opens a database: {path}")


def _look_at(path: str) -> Any:
    with contextlib.suppress(OSError):
        found = os.stat(path)
        return (found.st_size, found.st_mtime_ns) if found.st_size else None  # opening one that is not there makes it
    return None


WATCHED: dict[str, Any] = {
    "open": _on_open,
    "sqlite3.connect": _on_database,
    **dict.fromkeys(REMOVING, _on_removal),
    **dict.fromkeys(STARTING, _on_start),
    **dict.fromkeys(CONNECTING, _on_connect),
}
