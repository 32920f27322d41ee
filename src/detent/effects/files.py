"""The effects `files.write`, `files.read`, `files.append`, and `files`, which takes the same word as `op`.

    path      the file; it must lie inside `root`, also when symbolic links are followed
    root      a folder; the current one by default
    anywhere  true: the file may lie outside
    text, json or base64   what to write: a text, a value, or bytes
    encoding  of a text; UTF-8 by default
    parents   true: make missing folders
    as        how to read: text (default), json or base64

No effect reaches into the home, and none writes `detent.*.yaml`, the policy or the inside of `.git`, whatever the path
is called and whatever it is linked to (see `protected_path`).

Writing replaces the whole file or nothing, and the new content is on disk when it is done; a process killed in between
leaves at most a stray `.detent-*.tmp`. Appended JSON is one line, written JSON is indented. Reading gives at most 1 MiB
and says so. Results: `{path, bytes, success}`, reading also `{text | json | base64, truncated}`.

Writing is idempotent, reading pure, appending irreversible; of `files` the word decides. Whether an interrupted attempt
happened is read off the file:

- it ends with exactly what was to be appended (or is exactly what was to be written), and changed since the contract
  was made: it happened;
- there is no such file, or it has another end and did not change since: it did not happen;
- anything else (only a part of it, somebody wrote after it, an old file that always ended so): nobody can tell, and a
  person is asked.

The first line errs if another program appended the very same bytes meanwhile: lines that may repeat should carry an id.
"""

import asyncio
import base64
import binascii
import codecs
import contextlib
import errno
import functools
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from detent.core.contract import Contract
from detent.core.effect_type import Declared, Effect, EffectFailed, Outcome, OutcomeUnknown, effect
from detent.core.value import plain
from detent.effects import protected_path
from detent.effects.arguments import Arguments, invalid
from detent.effects.call_fact import file_facts
from detent.effects.thread import perform_in_thread
from detent.errors import Refused

READ_BYTES_MAX = 1024 * 1024
CLOCK_SLACK_S = 2.0  # a file's time may lag behind the clock, and some file systems count in steps of two seconds
WHERE = "path! root anywhere"
WHAT = f"{WHERE} text json base64 encoding parents"
READ = f"{WHERE} encoding as"


async def look(contract: Contract) -> Outcome | None:
    """Find out from the file whether an interrupted attempt happened."""
    op = contract.input.get("op") or contract.effect.rpartition(".")[2]
    if op == "read":
        raise EffectFailed("reading changes nothing")
    given = Arguments(contract.effect, contract.input, f"op {WHAT}")
    try:
        return await asyncio.to_thread(_judge, given, op == "append", contract.created_at)
    except FileNotFoundError as error:
        raise EffectFailed(f"there is no {error.filename!r}") from error
    except OSError:
        return None  # a file that cannot be looked into is no evidence


@effect("files.write", kind="idempotent", settle_s=1.0, reconcile=look, facts=file_facts, is_local=True, takes=WHAT)
async def write(contract: Contract) -> Outcome:
    """Replace a file's content, all of it or nothing."""
    return await _perform(_write, Arguments("files.write", contract.input, WHAT))


@effect("files.read", kind="pure", settle_s=0.0, facts=file_facts, is_local=True, takes=READ)
async def read(contract: Contract) -> Outcome:
    """Read a file."""
    return await _perform(_read, Arguments("files.read", contract.input, READ))


@effect("files.append", kind="irreversible", settle_s=1.0, reconcile=look, facts=file_facts, is_local=True, takes=WHAT)
async def append(contract: Contract) -> Outcome:
    """Add to the end of a file."""
    return await _perform(_append, Arguments("files.append", contract.input, WHAT))


async def _files(contract: Contract) -> Outcome:
    """Write, read or append, as `op` says."""
    op = Arguments("files", contract.input, f"op {WHAT} as").choice("op", ("write", "read", "append"))
    known = f"op {READ}" if op == "read" else f"op {WHAT}"
    work = {"write": _write, "read": _read, "append": _append}[op]
    return await _perform(work, Arguments(f"files {op}", contract.input, known))


files = Effect(
    "files",
    _files,
    Declared(kind="irreversible", settle_s=1.0, kind_by="op", kinds={"READ": "pure", "WRITE": "idempotent"}),
    look,
    about="Write, read or append, as `op` says.",
    facts=file_facts,
    is_local=True,
)


async def _perform(work: Callable[[Arguments], dict[str, Any]], given: Arguments) -> Outcome:
    return Outcome(await perform_in_thread(given.effect, functools.partial(_do, work, given), Outcome))


def _do(work: Callable[[Arguments], dict[str, Any]], given: Arguments) -> dict[str, Any]:
    """Do it; a refusal of the system is a failure, and each that comes this far means that the file is as it was."""
    try:
        return work(given)
    except FileNotFoundError as error:
        raise EffectFailed(f"there is no {error.filename!r}", type="tool_failure.not_found") from error
    except OSError as error:
        raise EffectFailed(f"{error.filename or 'the file'}: {error.strerror}") from error


def _path(given: Arguments) -> Path:
    """The real path of the file, links followed, inside its root."""
    text = given.text("path")
    if not text or "\0" in text:
        raise invalid(f"`path` of `{given.effect}` must name a file")
    root = Path(given.text("root", "."))
    if "\0" in str(root) or not root.is_dir():
        raise invalid(f"`root` of `{given.effect}`: there is no folder {str(root)!r}")
    try:
        root = root.resolve()
        path = (root / text).resolve()
    except RuntimeError as error:  # how Python before 3.13 says it
        raise invalid(f"`path` {text!r} is a circle of symbolic links") from error
    if not given.flag("anywhere") and not path.is_relative_to(root):
        raise invalid(f"`path` {text!r} leads out of {root}; `anywhere: true` would allow it")
    if path.is_dir():
        raise invalid(f"`path` {text!r} is a folder, not a file")
    return path


def _data(given: Arguments, *, is_line: bool) -> bytes:
    """The bytes to write."""
    names = [name for name in ("text", "json", "base64") if name in given.given]
    if len(names) != 1:
        raise invalid(f"`{given.effect}` needs exactly one of text, json, base64")
    if names == ["json"]:
        encoded = msgspec.json.encode(given.any("json"))
        return (encoded if is_line else msgspec.json.format(encoded, indent=2)) + b"\n"
    try:
        if names == ["base64"]:
            return base64.b64decode(given.text("base64"), validate=True)
        return given.text("text").encode(given.text("encoding", "utf-8"))
    except (binascii.Error, LookupError, ValueError) as error:
        raise invalid(f"`{names[0]}` of `{given.effect}` cannot be written: {error}") from error


@contextlib.contextmanager
def _folder_of(given: Arguments, path: Path, *, is_writing: bool) -> Iterator[int]:
    """The open folder of a file; made if it is missing and `parents` says so."""
    makes = is_writing and given.flag("parents")
    try:
        with protected_path.open_folder(path, is_writing=is_writing, makes=makes) as folder:
            yield folder
    except FileNotFoundError as error:
        if is_writing and not makes and not path.parent.is_dir():
            raise invalid(f"there is no folder {str(path.parent)!r}; `parents: true` would make it") from error
        error.filename = str(path)
        raise
    except OSError as error:  # it knows the last part of the path only
        error.filename = str(path)
        raise


def _write(given: Arguments) -> dict[str, Any]:
    path, data = _path(given), _data(given, is_line=False)
    with _folder_of(given, path, is_writing=True) as folder:
        _replace(folder, path, data)
        with _after_the_deed(path):
            protected_path.sync_folder(folder)
    return {"path": given.text("path"), "bytes": len(data), "success": True}


def _replace(folder: int, path: Path, data: bytes) -> None:
    """Put a whole file in the place of what has its name."""
    draft = f".detent-{secrets.token_hex(8)}.tmp"
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666, dir_fd=folder)
    try:
        with open(fd, "wb") as file:
            file.write(data)
            file.flush()
            with contextlib.suppress(FileNotFoundError):
                before = os.stat(path.name, dir_fd=folder, follow_symlinks=False)
                os.fchmod(fd, stat.S_IMODE(before.st_mode))
            os.fsync(fd)
        os.replace(draft, path.name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(draft, dir_fd=folder)
        raise


def _append(given: Arguments) -> dict[str, Any]:
    path, data = _path(given), _data(given, is_line=True)
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    with (
        _folder_of(given, path, is_writing=True) as folder,
        protected_path.open_file(folder, path.name, flags, is_writing=True) as fd,
    ):
        before = os.fstat(fd).st_size
        try:
            written = os.write(fd, data)  # in one piece, so that lines of several writers do not mix
        except OSError as error:
            if os.fstat(fd).st_size == before:
                raise
            raise OutcomeUnknown(f"{path} has changed although it could not be written: {error.strerror}") from error
        with _after_the_deed(path):
            if written < len(data):
                _take_back(fd, before, written, path)
            os.fsync(fd)
            if before == 0:
                protected_path.sync_folder(folder)
    return {"path": given.text("path"), "bytes": len(data), "success": True}


def _take_back(fd: int, before: int, written: int, path: Path) -> None:
    """Undo an append that ran into a full disk, unless somebody else has written after it."""
    if os.fstat(fd).st_size != before + written:
        raise OSError(errno.ENOSPC, "only a part of it found room on the disk")
    os.ftruncate(fd, before)
    raise EffectFailed(f"{path}: {os.strerror(errno.ENOSPC)}; nothing was appended")


@contextlib.contextmanager
def _after_the_deed(path: Path) -> Iterator[None]:
    """Trouble once the file has changed is not evidence that nothing happened."""
    try:
        yield
    except OSError as error:
        raise OutcomeUnknown(f"{path} has changed, but it may not last: {error.strerror}") from error


@contextlib.contextmanager
def _open_file(given: Arguments, path: Path) -> Iterator[int]:
    with (
        _folder_of(given, path, is_writing=False) as folder,
        protected_path.open_file(folder, path.name, os.O_RDONLY, is_writing=False) as fd,
    ):
        yield fd


def _read(given: Arguments) -> dict[str, Any]:
    form = given.choice("as", ("text", "json", "base64"), "text")
    with _open_file(given, _path(given)) as fd:
        size = os.fstat(fd).st_size
        with open(fd, "rb", closefd=False) as file:
            data = file.read(READ_BYTES_MAX + 1)
    is_cut = len(data) > READ_BYTES_MAX
    data = data[:READ_BYTES_MAX]
    result = {"path": given.text("path"), "bytes": max(size, len(data)), "success": True, "truncated": is_cut}
    if is_cut:
        result["note"] = f"only the first {READ_BYTES_MAX:,} of {size:,} bytes are here"
    return result | {form: _value(given, form, data, is_cut)}


def _value(given: Arguments, form: str, data: bytes, is_cut: bool) -> Any:
    name = given.text("path")
    if form == "base64":
        return base64.b64encode(data).decode()
    if form == "text":
        encoding = given.text("encoding", "utf-8")
        try:
            return codecs.getincrementaldecoder(encoding)().decode(data, final=not is_cut)
        except (LookupError, UnicodeError) as error:
            raise invalid(f"{name!r} cannot be read as {encoding} text; `as: base64` gives the bytes") from error
    if is_cut:
        raise invalid(f"{name!r} is larger than {READ_BYTES_MAX:,} bytes, too large to be read as JSON")
    try:
        return plain(msgspec.json.decode(data))
    except (msgspec.DecodeError, RecursionError, Refused) as error:
        raise invalid(f"{name!r} is not JSON: {error}") from error


def _judge(given: Arguments, is_append: bool, since: float) -> Outcome | None:
    path, data = _path(given), _data(given, is_line=is_append)
    done = Outcome({"path": given.text("path"), "bytes": len(data), "success": True})
    with _open_file(given, path) as fd:
        now = os.fstat(fd)
        is_untouched = now.st_mtime < since - CLOCK_SLACK_S
        end = os.pread(fd, len(data), max(0, now.st_size - len(data)))
        is_there = end == data and (is_append or now.st_size == len(data))
    if is_untouched and not is_there:
        raise EffectFailed(f"{str(path)!r} was last changed before this was to be done")
    return None if is_untouched or not is_there else done
