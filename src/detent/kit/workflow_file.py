"""Workflow files of a project, as they are edited: read as text, and replaced only as long as they are what was seen.

A name comes from outside. Every folder on its way is opened from the one before, and no link is followed, so nothing
that is changed beneath our feet leads out of the project. A save is a new file that takes the old one's place at once.
"""

import fcntl
import hashlib
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Literal, NamedTuple

from detent.define.document import SOURCE_MAX, decode
from detent.errors import DefinitionError, Refused, Unknown

SUFFIXES = (".yaml", ".yml", ".lobster")
NAME_MAX = 1000
BOM = b"\xef\xbb\xbf"
STATES = re.compile(rb"(?m)^states[ \t]*:")
STEPS = re.compile(rb"(?m)^steps[ \t]*:")
Grammar = Literal["states", "steps", ""]


class FileChanged(Refused):
    """Somebody has changed the file since it was read."""


class FileText(NamedTuple):
    """What a file says: its text with plain line ends, and the hash of its bytes."""

    text: str
    hash: str
    content: bytes


def find_grammar(content: bytes) -> Grammar:
    """How a workflow file is written; nothing for a file that is none."""
    content = content.removeprefix(BOM)
    return "states" if STATES.search(content) else "steps" if STEPS.search(content) else ""


class ProjectFolder:
    """The folder of a project, whose workflow files can be edited; the home is not part of it."""

    def __init__(self, folder: Path, home: Path) -> None:
        self.folder, self._home = folder.resolve(), home

    def name_of(self, given: str | Path) -> str:
        """The name of a file that somebody calls from this folder; refuses one that lies outside."""
        path = Path(os.path.realpath(self.folder / given))
        if not path.is_relative_to(self.folder):
            raise Refused(
                f"{given} is not in the project {self.folder}; call `detent edit` in the folder it belongs to"
            )
        return str(path.relative_to(self.folder))

    def read(self, name: str) -> FileText:
        """A workflow file, if it is one of the project."""
        with self._open_folder(name) as folder:
            return _decode(name, _read(folder, name)[0])

    def replace(self, name: str, text: str, seen: str) -> FileText:
        """Put a text in a file's place, if that still has the hash `seen`; mode, mark and line ends stay."""
        with self._open_folder(name) as folder:
            with suppress(OSError):  # a file system without such locks still has the comparison below
                fcntl.flock(folder, fcntl.LOCK_EX)
            content, was = _read(folder, name)
            old = _decode(name, content)
            _check_same(name, old.hash, seen)
            new = _decode(name, _encode(text, content))
            with _write_beside(folder, f".{PurePosixPath(name).name}.detent", new.content, was) as waiting:
                _check_same(name, _decode(name, _read(folder, name)[0]).hash, seen)  # an editor knows of no lock
                _rename(folder, waiting, PurePosixPath(name).name)
            return new

    @contextmanager
    def _open_folder(self, name: str) -> Iterator[int]:
        """The folder that a file lies in."""
        way = _split(name)[:-1]
        here = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for part in way:
                try:
                    inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)
                except OSError:
                    raise Unknown(_describe_missing(name)) from None
                os.close(here)
                here = inner
                self._check_home(here, name)
            yield here
        finally:
            os.close(here)

    def _check_home(self, folder: int, name: str) -> None:
        with suppress(OSError):
            if os.path.samestat(os.fstat(folder), self._home.stat()):
                raise Refused(f"`{name}` is in detent's home, where nothing is edited")


def _split(name: str) -> tuple[str, ...]:
    parts = PurePosixPath(name).parts
    is_plain = 0 < len(name) <= NAME_MAX and name.isprintable() and not name.startswith("/")
    if not is_plain or any(part == ".." or part.startswith(".") for part in parts) or not parts:
        raise Refused(f"`{name[:200]}` is not a file that can be edited: give its path from the project's folder")
    if PurePosixPath(name).suffix.lower() not in SUFFIXES:
        raise Refused(f"`{name}` is not a workflow file; those end in {', '.join(SUFFIXES)}")
    return parts


def _describe_missing(name: str) -> str:
    return f"there is no file `{name}` in this project, or it is a link; open the file that the link leads to"


def _read(folder: int, name: str) -> tuple[bytes, os.stat_result]:
    """The bytes of a plain file, and what is known of it."""
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        file = os.open(PurePosixPath(name).name, flags, dir_fd=folder)
    except OSError as error:
        if isinstance(error, PermissionError):
            raise Refused(f"`{name}` cannot be read: {error.strerror}") from None
        raise Unknown(_describe_missing(name)) from None
    with os.fdopen(file, "rb") as opened:
        found = os.fstat(opened.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise Refused(f"`{name}` is not a plain file")
        return opened.read(SOURCE_MAX + 1), found


def _decode(name: str, content: bytes) -> FileText:
    try:
        text = decode(content, name)
    except DefinitionError as error:
        raise Refused(f"`{name}` cannot be edited: {error.problem}") from None
    if not find_grammar(content):
        raise Refused(f"`{name}` is not a workflow file: no line of it begins with `states:` or `steps:`")
    return FileText(text.replace("\r\n", "\n"), hashlib.sha256(content).hexdigest(), content)


def _encode(text: str, old: bytes) -> bytes:
    """A text as bytes that look like the old ones: with their mark and their line ends."""
    plain = text.replace("\r\n", "\n")
    if old.count(b"\n") and old.count(b"\r\n") == old.count(b"\n"):
        plain = plain.replace("\n", "\r\n")
    try:
        return (BOM if old.startswith(BOM) else b"") + plain.encode()
    except UnicodeEncodeError:
        raise Refused("the text holds half a character, which cannot be saved") from None


def _check_same(name: str, found: str, seen: str) -> None:
    if found != seen:
        raise FileChanged(f"`{name}` has been changed since you opened it; nothing was saved")


@contextmanager
def _write_beside(folder: int, name: str, content: bytes, like: os.stat_result) -> Iterator[str]:
    """A file that is whole and on disk, with the mode of another; it is gone afterwards, unless it was renamed."""
    _remove(folder, name)  # left behind by a process that died: whoever has the lock is the only one here
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(name, flags, 0o600, dir_fd=folder), "wb") as file:
            file.write(content)
            file.flush()
            with suppress(PermissionError):  # somebody else's file that we may write: it is ours then
                os.fchown(file.fileno(), like.st_uid, like.st_gid)
            os.fchmod(file.fileno(), stat.S_IMODE(like.st_mode))
            os.fsync(file.fileno())
        yield name
    except OSError as error:
        raise Refused(f"the file cannot be written: {error.strerror}") from None
    finally:
        _remove(folder, name)


def _rename(folder: int, name: str, into: str) -> None:
    os.rename(name, into, src_dir_fd=folder, dst_dir_fd=folder)
    os.fsync(folder)


def _remove(folder: int, name: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)
