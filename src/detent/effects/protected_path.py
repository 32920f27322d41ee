"""What no effect may change: the home, and the files that decide what effects may do.

These are `detent.*.yaml` (policy, people, servers, the settings of agents), the policy file wherever it is, and the
inside of `.git`, whose hooks and settings are programs.

A path is believed only while it is walked: each folder is opened in the one before it, links are not followed on the
way (the caller has resolved them), and the home is known by its number on the disk, whatever it is called.
"""

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from detent.core import progress
from detent.effects.arguments import invalid

ENDINGS = (".yaml", ".yml", ".json")
BEGINNING = "detent."
STATE_VARIABLE = "XDG_STATE_HOME"

_listed: dict[str, tuple[int, tuple[str, ...]]] = {}  # by folder: when it last changed, and the files of ours in it
LISTED_MAX = 100


def is_setting(name: str) -> bool:
    """Whether a file of that name is one of ours, however it is written: some file systems do not mind case."""
    folded = name.casefold()
    return folded.startswith(BEGINNING) and folded.endswith(ENDINGS)


def guarded_files(home: str, cwd: str) -> list[str]:
    """The files there are now that may be read and not changed, by their real paths."""
    attempt = progress.attempt.get()
    named = attempt.ground.guarded if attempt is not None else ()
    places = [os.path.dirname(home), cwd] if home else [cwd]
    found = [file for folder in places for file in _settings_in(folder)]
    real = [os.path.realpath(file) for file in (*found, *named)]
    return [file for file in dict.fromkeys(real) if os.path.isfile(file)]


def _settings_in(folder: str) -> tuple[str, ...]:
    """Listing a large folder takes long, so it is done again only when it has changed."""
    try:
        changed = os.stat(folder).st_mtime_ns
        if _listed.get(folder, (0, ()))[0] != changed:
            if len(_listed) >= LISTED_MAX:
                _listed.clear()
            _listed[folder] = changed, tuple(_scan(folder))
        return _listed[folder][1]
    except OSError:
        return ()


def _scan(folder: str) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if is_setting(entry.name):
                yield entry.path


def state_folder() -> str:
    """Where markers of homes are kept, if there is such a folder: without them a missing journal is not missed."""
    state = os.environ.get(STATE_VARIABLE) or os.path.expanduser("~/.local/state")
    place = os.path.realpath(os.path.join(state, "detent"))
    return place if os.path.isdir(place) else ""


FOLDER_FLAGS = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
FILE_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
INODES_MAX = 100_000  # files of a home that are compared with one that has several names


@contextlib.contextmanager
def open_folder(path: Path, *, is_writing: bool, makes: bool = False) -> Iterator[int]:
    """The folder of a file whose path is real, as an open file; refuses one that is out of reach."""
    if is_writing:
        _check_names(path)
    folder = os.open(path.anchor, FOLDER_FLAGS)
    try:
        home = _home_id()
        for name in path.parent.parts[1:]:
            inner = _step(folder, name, makes=makes)
            os.close(folder)
            folder = inner
            about = os.fstat(folder)
            if (about.st_dev, about.st_ino) == home:
                raise invalid(f"{str(path)!r} is in the home, where the journal is: no effect may reach into it")
        yield folder
    finally:
        os.close(folder)


def _step(folder: int, name: str, *, makes: bool) -> int:
    """A folder in another one; made if it is missing and may be, and on disk then."""
    try:
        return os.open(name, FOLDER_FLAGS, dir_fd=folder)
    except FileNotFoundError:
        if not makes:
            raise
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, dir_fd=folder)
        sync_folder(folder)
    return os.open(name, FOLDER_FLAGS, dir_fd=folder)


@contextlib.contextmanager
def open_file(folder: int, name: str, flags: int, *, is_writing: bool, mode: int = 0o666) -> Iterator[int]:
    """An ordinary file in an open folder; not a link, a pipe or a device, and not another name of a guarded file."""
    fd = os.open(name, flags | FILE_FLAGS, mode, dir_fd=folder)
    try:
        about = os.fstat(fd)
        if not stat.S_ISREG(about.st_mode):
            raise invalid(f"{name!r} is not an ordinary file")
        if about.st_nlink > 1 and (about.st_dev, about.st_ino) in _kept_inodes(is_writing=is_writing):
            raise invalid(f"{name!r} is another name of a file that is out of reach")
        yield fd
    finally:
        with contextlib.suppress(OSError):  # what was written is on disk by now, and reading needs no end
            os.close(fd)


def sync_folder(folder: int) -> None:
    """Make a new name in an open folder durable."""
    fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _home() -> str:
    attempt = progress.attempt.get()
    return attempt.ground.home if attempt is not None else ""


def _home_id() -> tuple[int, int] | None:
    """The home's number on the disk, also after somebody has moved it."""
    attempt = progress.attempt.get()
    return None if attempt is None else attempt.ground.home_id or identify(attempt.ground.home)


def _check_names(path: Path) -> None:
    """Refuse to write a file that decides what effects may do, by its name or because it is the policy."""
    if is_setting(path.name):
        raise invalid(f"{str(path)!r} is a file of detent's own settings: a person changes it, no effect")
    if any(part.casefold() == ".git" for part in path.parts):
        raise invalid(f"{str(path)!r} is inside `.git`: only git itself writes there")
    attempt = progress.attempt.get()
    for file in attempt.ground.guarded if attempt is not None else ():
        named = identify(file)
        if os.path.realpath(file) == str(path) or (named is not None and named == identify(str(path))):
            raise invalid(f"{str(path)!r} is the policy: a person changes it, no effect")


def _kept_inodes(*, is_writing: bool) -> set[tuple[int, int]]:
    """The files of the home, and when writing those that decide what effects may do, by their numbers on the disk."""
    home = _home()
    files = guarded_files(os.path.realpath(home), os.getcwd()) if home and is_writing else []
    found = {identity for file in files if (identity := identify(file)) is not None}
    for folder, _, names in os.walk(home) if home else ():
        for name in names:
            identity = identify(os.path.join(folder, name))
            if identity is not None and len(found) < INODES_MAX:
                found.add(identity)
    return found


def identify(path: str) -> tuple[int, int] | None:
    """What a file or folder is called on the disk, whatever its names are: the disk's number and its own."""
    try:
        about = os.stat(path)
    except (OSError, ValueError):
        return None
    return about.st_dev, about.st_ino
