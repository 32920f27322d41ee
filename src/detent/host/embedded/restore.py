"""Restoring a home from a backup, and moving one: either all of it is in place, or what was there still is.

A restored journal is the same journal (its id stays) in a new epoch, and its restore is on record in it (`gap`). It is
made whole in a folder aside first; one rename puts it in place.
"""

import contextlib
import errno
import itertools
import os
import secrets
import shutil
import sqlite3
import time
from pathlib import Path

import msgspec

from detent.core.identity import By
from detent.errors import JournalError, Refused
from detent.host.embedded.backup import JOURNAL, OWN, check_copy, moment_of
from detent.host.embedded.host import EmbeddedHost
from detent.host.embedded.journal_marker import Marker, forget, marker_paths, read_identity, read_markers, write
from detent.host.embedded.lock import Lock, holder
from detent.host.embedded.schema import close_writing, open_writing
from detent.host.parts.restore_gap import mark_restored
from detent.host.reading import RestoreReport
from detent.whole_file import sync_folder

STAGING = ".restoring-"
STAMP = "%Y%m%d-%H%M%S"
COUNTS = (
    "select count(*), coalesce(sum(status in ('running', 'pending', 'waiting')), 0) from runs where name <> 'restored'"
)
LOCK = "lock"
MOVED = "journal.db.moved"  # a journal that is on its way to another disk


async def restore(file: Path, home: Path, *, is_over: bool = False, by: By = "") -> RestoreReport:
    """Put a backup in a home's place; what was there is kept aside, and only replaced if that is meant."""
    _check_file(file)
    has_old = (home / JOURNAL).exists()
    if has_old and not is_over:
        raise Refused(f"there is a journal in {home}; --over puts the backup in its place and keeps that one aside")
    lock = _take(home)
    try:
        for left in home.glob(f"{STAGING}*"):  # of a restore that was killed
            shutil.rmtree(left)
        staging = home / f"{STAGING}{secrets.token_hex(4)}"
        staging.mkdir(mode=0o700)
        try:
            known = read_markers(home)
            report = await _prepare(file, staging, max((one.epoch for one in known), default=1), by)
            aside = _keep_aside(home) if has_old else ""
            _install(staging, home)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
        return report._replace(home=str(home), aside=aside, twins=find_twins(home))
    except OSError as error:
        raise Refused(f"cannot restore into {home}: {error.strerror or error}") from None
    finally:
        lock.free()


def _check_file(file: Path) -> None:
    """A backup must be sound before anything gives way to it."""
    try:
        with file.open("rb") as opened:
            if opened.read(16) != b"SQLite format 3\0":
                raise Refused(f"{file} is not a backup of a journal")
    except OSError as error:
        raise Refused(f"cannot read {file}: {error.strerror}") from None


def _take(home: Path) -> Lock:
    lock = Lock(home)
    if not lock.take():
        raise Refused(f"process {holder(home).pid or '?'} is using {home}; end it first")
    return lock


async def _prepare(file: Path, staging: Path, epoch: int, by: By) -> RestoreReport:
    """Make the restored home in a folder of its own, with its restore on record."""
    path = staging / JOURNAL
    try:
        _copy_database(file, path)
        since = moment_of(path)
        _unpack(path, staging)
        check_copy(path)
    except sqlite3.Error as error:
        raise Refused(f"{file} is not a backup of a journal: {error}") from None
    try:
        async with EmbeddedHost(staging) as host:
            runs, live = host.journal.rows(COUNTS, ())[0]
            gap = await mark_restored(host, since, time.time(), by, epoch)
    finally:
        forget(staging)
    return RestoreReport("", gap.since, gap.until, gap.epoch, runs, live, "", ())


def _copy_database(source: Path, target: Path) -> None:
    """Copy a journal that may have a log beside it, or be in use."""
    os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_EXCL | os.O_CLOEXEC, 0o600))
    address = f"{source.absolute().as_uri()}?mode=ro"
    with (
        contextlib.closing(sqlite3.connect(address, uri=True)) as given,
        contextlib.closing(sqlite3.connect(target, isolation_level=None)) as copy,
    ):
        given.backup(copy)
        copy.execute("pragma journal_mode = delete")
        with contextlib.suppress(sqlite3.OperationalError):  # a journal of a version that had no such table
            copy.execute("update meta set value = 'closed' where name = 'log'")


def _unpack(path: Path, staging: Path) -> None:
    """Lay the other files of the home beside the journal."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        if not db.execute("select 1 from sqlite_master where name = 'home_files'").fetchone():
            return
        for name, mode, body in db.execute("select path, mode, body from home_files").fetchall():
            place = staging / name
            if not place.resolve().is_relative_to(staging.resolve()) or Path(name).parts[0] in OWN:
                raise Refused(f"{path.name} would write to {name!r}: it is not a backup that detent made")
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with open(os.open(place, os.O_CREAT | os.O_WRONLY | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
                file.write(body)
                file.flush()
                os.fsync(file.fileno())
            place.chmod(mode & 0o700)
        db.execute("drop table home_files")
        db.execute("delete from meta where name = 'backed_up_at'")


def _keep_aside(home: Path) -> str:
    """Keep what is in a home beside it; the journal's file with its log, which is emptied into it where that goes."""
    aside = _new_folder(home.with_name(f"{home.absolute().name}.before-restore-{time.strftime(STAMP, time.gmtime())}"))
    journal = home / JOURNAL
    with contextlib.suppress(sqlite3.Error, JournalError):  # one that is damaged is kept as it is
        close_writing(open_writing(journal, "full"))
    for path in sorted(home.iterdir()):
        if path.name.startswith(STAGING) or path.name in ("lock", "door"):
            continue
        if path.is_dir():
            shutil.copytree(path, aside / path.name, symlinks=True)
        else:
            shutil.copy2(path, aside / path.name, follow_symlinks=False)
    for path in (*aside.rglob("*"), aside):
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                os.fsync(file.fileno())
    sync_folder(aside)
    return str(aside)


def _new_folder(wanted: Path) -> Path:
    """A folder of that name, or of the next one that is free."""
    for number in itertools.count(1):
        folder = wanted if number == 1 else wanted.with_name(f"{wanted.name}-{number}")
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
            return folder
    raise AssertionError


def _install(staging: Path, home: Path) -> None:
    """Put the restored files in place, the journal last; the log of the old one must be gone before."""
    for path in sorted(staging.rglob("*")):
        place = home / path.relative_to(staging)
        if path.is_dir():
            place.mkdir(mode=0o700, exist_ok=True)
        elif path.name not in OWN:
            path.replace(place)
    for name in (f"{JOURNAL}-wal", f"{JOURNAL}-shm"):
        (home / name).unlink(missing_ok=True)
    (staging / JOURNAL).replace(home / JOURNAL)
    sync_folder(home)
    _mark(home)


def _mark(home: Path) -> None:
    """Remember the journal that is in a home now."""
    with contextlib.closing(sqlite3.connect(f"{(home / JOURNAL).absolute().as_uri()}?mode=ro", uri=True)) as db:
        found = read_identity(db)
    if found is not None:
        write(home, found, is_durable=True)


def find_twins(home: Path) -> tuple[str, ...]:
    """Other homes on this machine that have the same journal: each does not know what the other does."""
    known, (_, *paths) = read_markers(home), marker_paths(home)
    if not known:
        return ()
    found: list[Marker] = []
    for path in sorted(paths[0].parent.glob("*.json")) if paths[0].parent.is_dir() else ():
        if path not in paths:
            with contextlib.suppress(OSError, msgspec.MsgspecError):
                found.append(msgspec.json.decode(path.read_bytes(), type=Marker))
    here = os.path.realpath(home)  # also under the name of a link to it
    others = [one for one in found if one.journal_id == known[0].journal_id and one.home != here]
    return tuple(one.home for one in others if Path(one.home, JOURNAL).exists())


def move(home: Path, target: Path) -> None:
    """Move a home to another folder of this machine; at every moment at most one of the two can be used."""
    if target.exists() and (not target.is_dir() or any(one.name != LOCK for one in target.iterdir())):
        raise Refused(f"{target} is there already; a home moves into a folder that is new or empty")
    if target.absolute().is_relative_to(home.absolute()):
        raise Refused(f"{target} is inside {home}")
    if not (home / JOURNAL).exists() and not (home / MOVED).exists():
        raise Refused(f"there is no journal in {home}, so there is nothing to move")
    lock = _take(home)
    try:
        if (home / JOURNAL).exists():
            close_writing(open_writing(home / JOURNAL, "full"))  # the file alone has everything now
        target.parent.mkdir(parents=True, exist_ok=True)
        (target / LOCK).unlink(missing_ok=True)  # of a command that missed its journal there
        try:
            os.rename(home, target)
        except OSError as error:
            if error.errno not in (errno.EXDEV, errno.EBUSY):  # another disk, or a folder that cannot be renamed
                raise
            _move_across(home, target)
        if (target / MOVED).exists():  # a move to another disk was killed, and its journal stayed
            (target / MOVED).replace(target / JOURNAL)
        sync_folder(target.parent)
        _mark(target)  # the old place stays known outside: who goes on there would begin without any once-only key
    except OSError as error:
        raise Refused(f"cannot move {home} to {target}: {error.strerror or error}") from None
    finally:
        lock.free()


def _move_across(home: Path, target: Path) -> None:
    """Copy a home to another disk, take the old one out of use, and only then let the new one be used."""
    draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    journal = home / (JOURNAL if (home / JOURNAL).exists() else MOVED)
    try:
        shutil.copytree(home, draft, symlinks=True, ignore=shutil.ignore_patterns("lock", "door", f"{STAGING}*"))
        (draft / journal.name).replace(draft / JOURNAL)
        check_copy(draft / JOURNAL)
        for path in draft.rglob("*"):
            if path.is_file() and not path.is_symlink():
                with path.open("rb") as file:
                    os.fsync(file.fileno())
        journal.replace(home / MOVED)
        draft.replace(target)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    sync_folder(target.parent)
    shutil.rmtree(home, ignore_errors=True)
