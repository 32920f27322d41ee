"""Backups: the whole home in one SQLite file, made while runs go on and checked before it counts.

The journal is copied by SQLite's online backup, as of one moment. What else lies in the home (the assistant's memory
and settings, the people file) is kept in a table of the same file. A backup is a journal that can be read as it is.
"""

import contextlib
import hashlib
import os
import secrets
import sqlite3
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from detent.errors import JournalError, Refused, Unknown
from detent.host.embedded.artefact_folder import FOLDER as ARTEFACTS
from detent.host.embedded.journal import Journal
from detent.host.embedded.journal_marker import HOME_MARKER, check_missing, read_identity
from detent.host.embedded.schema import open_reading
from detent.host.parts.claim_check import differences
from detent.host.reading import BackupReport
from detent.whole_file import sync_folder

JOURNAL = "journal.db"
OWN = {
    JOURNAL,
    f"{JOURNAL}-wal",
    f"{JOURNAL}-shm",
    "lock",
    "door",
    HOME_MARKER,
    "sessions",  # who is logged in: what has ended since must not begin again
    "links",
    "secrets",  # what runs were given and nobody may read again
    "search.db",
}  # made anew wherever a journal is opened
LEFT_OUT = {"mcp", "store"}  # logs of MCP servers, snapshots of work trees: large, and no run needs them to go on
FILE_MAX = 256 * 1024 * 1024
SQLITE = b"SQLite format 3\0"
FILES = "create table home_files (path text primary key, mode integer not null, body blob not null)"
CHAINS = "select cast(body as blob), cast(hash as blob) from events where run = ? order by seq"
RUNS = "select no, run_id, seq, cast(head as blob) from runs order by no"
STAMP = "%Y%m%d-%H%M%S"


def back_up(home: Path, file: Path, *, is_forced: bool = False, keep: int = 0) -> BackupReport:
    """Write a backup of a home into a file; into a folder, under the present time's name, keeping the newest `keep`."""
    begun = time.monotonic()
    place = file / f"{time.strftime(STAMP, time.gmtime())}.detent" if file.is_dir() else file
    if place.exists() and not is_forced:
        raise Refused(f"{place} is there already; another name, or --force")
    if not (home / JOURNAL).exists():
        check_missing(home)
        raise Unknown(f"there is no journal in {home} yet, so there is nothing to back up")
    draft = place.with_name(f".{place.name}.{secrets.token_hex(4)}")
    try:
        os.close(os.open(draft, os.O_CREAT | os.O_WRONLY | os.O_EXCL | os.O_CLOEXEC, 0o600))
        at, left_out = _copy(home, draft)
        runs, events = check_copy(draft)
        _put_in_place(draft, place, is_forced)
    except OSError as error:
        raise Refused(f"cannot write {place}: {error.strerror}") from None
    except sqlite3.Error as error:
        raise JournalError(f"cannot back up {home / JOURNAL}: {error}") from None
    finally:
        for path in (draft, draft.with_name(f"{draft.name}-journal")):
            path.unlink(missing_ok=True)
    dropped = _drop_older(file, keep) if file.is_dir() and keep else ()
    size, took_s = place.stat().st_size, time.monotonic() - begun
    return BackupReport(str(place), at, runs, events, size, tuple(left_out), dropped, took_s)


def _copy(home: Path, draft: Path) -> tuple[float, list[str]]:
    """Copy the journal as of one moment, and the other files after it; that moment, and what was left out."""
    at = time.time()  # before the copy: whatever is not in it was done later
    source = open_reading(home / JOURNAL)
    try:
        with contextlib.closing(sqlite3.connect(draft, isolation_level=None)) as copy:
            source.backup(copy)
            copy.execute("pragma journal_mode = delete")  # one file, without a log beside it
            copy.execute("begin immediate")
            copy.execute(FILES)
            left_out = list(_add_files(home, copy))
            said = {"backed_up_at": repr(at), "log": "closed"}
            if read_identity(copy) is not None:
                copy.executemany("insert or replace into meta (name, value) values (?, ?)", said.items())
            copy.execute("commit")
    finally:
        source.close()
    return at, left_out


def _add_files(home: Path, copy: sqlite3.Connection) -> Iterator[str]:
    """Keep the other files of a home in the copy; gives those that are left out."""
    for path in sorted(home.rglob("*")):
        name = path.relative_to(home)
        if name.parts[:2] == (ARTEFACTS, "content"):  # each is in the folder of its run too
            continue
        if name.parts[0] in OWN or path.name.endswith(("-wal", "-shm", "-journal")):
            continue
        try:
            found = path.lstat()
            if not stat.S_ISREG(found.st_mode):
                continue
            if name.parts[0] in LEFT_OUT or name.parts[0].startswith(".restoring-") or found.st_size > FILE_MAX:
                yield str(name)
                continue
            body = _read_whole(path)
        except (OSError, sqlite3.Error):
            yield str(name)
            continue
        copy.execute("insert into home_files values (?, ?, ?)", (str(name), stat.S_IMODE(found.st_mode), body))


def _read_whole(path: Path) -> bytes:
    """A file's bytes; those of a database that somebody may be writing, of one moment."""
    with path.open("rb") as file:
        if file.read(len(SQLITE)) != SQLITE:
            file.seek(0)
            return file.read()
    with (
        contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as source,
        contextlib.closing(sqlite3.connect(":memory:")) as copy,
    ):
        source.backup(copy)
        copy.execute("pragma journal_mode = delete")
        return copy.serialize()


def check_copy(path: Path) -> tuple[int, int]:
    """Check every hash and every claim of a journal that nobody writes; how many runs and events it has."""
    journal = Journal(path)
    try:
        problems = journal.check()
        runs, events = (0, 0) if problems else _check_chains(journal, problems)
        problems += [] if problems else [one.problem for one in differences(journal)]
    finally:
        journal.close()
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise JournalError(f"this journal is not whole: {problems[0]}{more}; `detent doctor --deep` says more")
    return runs, events


def _check_chains(journal: Journal, problems: list[str]) -> tuple[int, int]:
    runs = events = 0
    for no, run_id, seq, head in journal.rows(RUNS, ()):
        previous, count = hashlib.sha256(run_id.encode()).digest(), 0
        for body, hashed in journal.connection.execute(CHAINS, (no,)):
            previous, count = hashlib.sha256(previous + body).digest(), count + 1
            if previous != hashed:
                break
        if (count, previous) != (seq, head):
            problems.append(f"run {run_id} is damaged at event {count}")
        runs, events = runs + 1, events + count
    return runs, events


def _put_in_place(draft: Path, place: Path, is_forced: bool) -> None:
    with draft.open("rb") as file:
        os.fsync(file.fileno())
    if is_forced:
        draft.replace(place)
    else:
        try:
            os.link(draft, place)  # unlike a rename, never over what somebody else has made meanwhile
        except FileExistsError:
            raise Refused(f"{place} is there already; another name, or --force") from None
    sync_folder(place.parent)


def _drop_older(folder: Path, keep: int) -> tuple[str, ...]:
    """Remove all but the newest backups that were named after their time."""
    named = sorted(path for path in folder.glob("*.detent") if _is_stamp(path.stem))
    for path in named[:-keep]:
        path.unlink(missing_ok=True)
    return tuple(map(str, named[:-keep]))


def _is_stamp(name: str) -> bool:
    try:
        time.strptime(name, STAMP)
    except ValueError:
        return False
    return True


def moment_of(path: Path) -> float:
    """When a backup was made; of a file that does not say so, when its last event was written."""
    with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as db:
        try:
            row = db.execute("select value from meta where name = 'backed_up_at'").fetchone()
            if row is not None:
                return float(row[0])
        except sqlite3.OperationalError:
            pass  # a journal of a version that had no such table
        (last,) = db.execute("select max(updated_at) from runs").fetchone()
        return float(last or 0.0)
