"""The journal's file: its schema, and how it is made, opened and brought up to date."""

import os
import sqlite3
from collections.abc import Iterable, Mapping
from pathlib import Path

from detent.errors import JournalError
from detent.whole_file import sync_folder

# Version 1, for ever; a new file is made of it and then of every migration, so there is only one road to a schema.
SCHEMA = """
create table machines (digest text primary key, name text not null, body blob not null) without rowid;
create table runs (
    no integer primary key,
    run_id text not null unique,
    name text not null,
    machine text not null,
    state text not null,
    status text not null,
    seq integer not null,
    head blob not null,
    started_at real not null,
    updated_at real not null,
    wake_at real,
    waiting text not null,
    by text not null,
    session text not null,
    parent text not null,
    source text not null,
    cost_usd real not null,
    held_by text not null default ''
);
create index runs_by_status on runs (status, no);
create index runs_by_wake on runs (wake_at) where wake_at is not null;
create index runs_by_parent on runs (parent) where parent <> '';
create index runs_by_holder on runs (held_by) where held_by <> '';
create table events (run integer not null, seq integer not null, id text, body blob not null, hash blob not null);
create unique index events_in_order on events (run, seq);
create unique index events_once on events (run, id) where id is not null;
create table snapshots (run integer not null, seq integer not null, engine text not null, body blob not null);
create unique index snapshots_in_order on snapshots (run, seq);
create table claims (
    scope text not null, key text not null, run_id text not null, contract_id text not null,
    call_hash text not null, status text not null, result blob, at real not null, primary key (scope, key)
) without rowid;
"""

# From version n to n + 1, n counting from 1 without gaps.
MIGRATIONS: dict[int, str] = {
    1: """
create table outbox (
    key text primary key, run_id text not null, message blob not null, at real not null,
    delivered_at real not null default 0, tries integer not null default 0, problem text not null default ''
) without rowid;
create index outbox_by_run on outbox (run_id);
create index outbox_left on outbox (at) where delivered_at = 0
""",
    2: "create index runs_asking on runs (no) where waiting <> '[]'",
    3: """
create table held (
    scope text not null, key text not null, run_id text not null, contract_id text not null,
    call_hash text not null, at real not null, primary key (scope, key)
) without rowid;
insert into held select scope, key, run_id, contract_id, call_hash, at from claims;
drop table claims;
alter table held rename to claims
""",
    4: "alter table runs add column error text not null default ''",
    5: "alter table runs add column alarms text not null default ''",
    6: """
create table projections (
    run integer not null, name text not null, version integer not null, seq integer not null, engine text not null,
    body blob not null, primary key (run, name)
) without rowid
""",
    # Which journal this is, for ever, and how often it was restored (see `marker`).
    7: """
create table meta (name text primary key, value text not null) without rowid;
insert into meta values ('journal_id', lower(hex(randomblob(16)))), ('epoch', '1')
""",
    # Looked for whenever a journal is opened: was it restored, and is that still to be looked into?
    8: "create index runs_restored on runs (no) where name = 'restored'",
}
VERSION = 1 + len(MIGRATIONS)


LEAVING, LEFT = "leaving", "left"  # where a journal is going, and where it has gone and when


def read_departure(db: sqlite3.Connection) -> tuple[str, bool]:
    """Where a journal is going or has gone, and whether it has; empty: it stays."""
    if not db.execute("select 1 from sqlite_master where name = 'meta'").fetchone():
        return "", False
    found = dict(db.execute("select name, value from meta where name in (?, ?)", (LEAVING, LEFT)).fetchall())
    return str(found.get(LEFT) or found.get(LEAVING) or "").partition(" ")[0], LEFT in found


def _check_departure(db: sqlite3.Connection, path: Path) -> None:
    address, has_left = read_departure(db)
    if has_left:
        raise JournalError(f"the journal of {path.parent} was moved to {address}: give --home {address}")
    if address:
        raise JournalError(
            f"the journal of {path.parent} is being moved to {address}: `detent move --all --to {address}` finishes"
            " that, and `detent move --all --cancel` gives it up"
        )


def open_writing(
    path: Path, sync: str, migrations: Mapping[int, str] = MIGRATIONS, *, is_leaving: bool = False
) -> sqlite3.Connection:
    """The one connection that writes; makes the file if there is none, and migrates an older one."""
    _make(path)
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=5.0)
    try:
        _check_version(db, path, migrations)
        db.execute("pragma journal_mode = wal")
        db.execute(f"pragma synchronous = {'full' if sync == 'full' else 'off'}")
        check_log(db, path)
        _migrate(db, path, migrations)
        if not is_leaving:
            _check_departure(db, path)
    except BaseException:
        db.close()
        raise
    try:
        _say_open(db)
    except BaseException:
        close_writing(db)  # else it would say for ever that there is a log, and closing has removed it
        raise
    return db


def close_writing(db: sqlite3.Connection) -> None:
    """Close the connection that writes; unless somebody is reading just then, the file alone has everything now."""
    reader = None
    try:
        db.execute("pragma busy_timeout = 200")
        _say(db, "closed")
        db.execute("pragma wal_checkpoint(truncate)").fetchall()
    except sqlite3.Error:  # no space, or somebody reads: then the log has the rest, and stays
        roll_back(db)
        reader = _hold_log(db)
    finally:
        db.close()
        if reader is not None:
            reader.close()


def _hold_log(db: sqlite3.Connection) -> sqlite3.Connection | None:
    """Whoever closes a journal last removes its log; one that can only read does not, so it must be the last."""
    try:
        path = Path(db.execute("pragma database_list").fetchone()[2])
        reader = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)
        reader.execute("select 1 from sqlite_master").fetchone()
    except (sqlite3.Error, OSError):
        return None
    return reader


def _say_open(db: sqlite3.Connection) -> None:
    """Say in the file itself that it is not all there is: whoever copies it now must copy its log as well."""
    _say(db, "open")
    db.execute("pragma wal_checkpoint(passive)").fetchall()


def _say(db: sqlite3.Connection, state: str) -> None:
    if _has_meta(db):
        db.execute("insert or replace into meta (name, value) values ('log', ?)", (state,))


def _has_meta(db: sqlite3.Connection) -> bool:
    return db.execute("select 1 from sqlite_master where name = 'meta'").fetchone() is not None


def check_log(db: sqlite3.Connection, path: Path) -> None:
    """Raise where a journal was in use when it was copied, and its log was left behind."""
    for _ in range(2):  # whoever writes it may just have opened or closed it
        if _log_size(path) or not _has_meta(db):
            return
        row = db.execute("select value from meta where name = 'log'").fetchone()
        if row is None or row[0] != "open" or _log_size(path):
            return
    raise JournalError(_CUT_OFF.format(path))


def _log_size(path: Path) -> int:
    try:
        return path.with_name(path.name + "-wal").stat().st_size
    except OSError:
        return 0


def open_reading(path: Path, migrations: Mapping[int, str] = MIGRATIONS) -> sqlite3.Connection:
    """A connection that only reads."""
    if path.stat().st_size == 0:
        raise JournalError(_EMPTY.format(path))
    address = f"{path.absolute().as_uri()}?mode=ro"
    try:
        return _looking(address, path, migrations)
    except sqlite3.OperationalError:
        log = path.with_name(path.name + "-wal")
        is_writable = os.access(path.parent, os.W_OK) and not os.statvfs(path.parent).f_flag & os.ST_RDONLY
        if is_writable or (log.exists() and log.stat().st_size):
            raise
        # Nobody can be writing in a folder nobody can write to, and SQLite need not make its files there.
        return _looking(f"{address}&immutable=1", path, migrations)


def _looking(address: str, path: Path, migrations: Mapping[int, str]) -> sqlite3.Connection:
    db = sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False, timeout=5.0)
    try:
        _check_version(db, path, migrations)
        check_log(db, path)
    except BaseException:
        db.close()
        raise
    return db


def _migrate(db: sqlite3.Connection, path: Path, migrations: Mapping[int, str]) -> None:
    version = _check_version(db, path, migrations)
    if version == 1 + len(migrations):
        return
    db.execute("begin immediate")
    try:
        while version < 1 + len(migrations):
            for statement in (migrations[version] if version else SCHEMA).split(";"):
                db.execute(statement)
            version += 1
        db.execute(f"pragma user_version = {version}")
        db.execute("commit")
    except BaseException:
        roll_back(db)
        raise


def _check_version(db: sqlite3.Connection, path: Path, migrations: Mapping[int, str]) -> int:
    version, known = int(db.execute("pragma user_version").fetchone()[0]), 1 + len(migrations)
    if version > known:
        raise JournalError(f"{path} was written by a newer detent (schema {version}, this one knows {known})")
    return version


_EMPTY = "{} is empty: it was cut off, for a journal is never made empty; put back a copy, or remove it to start again"


_CUT_OFF = (
    "{0} was in use when it was copied, and its log ({0}-wal) is missing: what was written last is not there. Copy it"
    " with `detent backup`; `detent restore` takes this file as what it is, an older journal"
)


def _make(path: Path) -> None:
    """Make the file whole and under another name first, so that an empty one always means damage."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.exists():
        if path.stat().st_size == 0:
            raise JournalError(_EMPTY.format(path))
        return
    new = path.with_name(f"{path.name}-new-{os.getpid()}")
    new.unlink(missing_ok=True)
    os.close(os.open(new, os.O_CREAT | os.O_WRONLY | os.O_EXCL | os.O_CLOEXEC, 0o600))
    try:
        db = sqlite3.connect(new, isolation_level=None)
        try:
            db.executescript(f"begin; {SCHEMA} pragma user_version = 1; commit;")
        finally:
            db.close()
        os.link(new, path)  # unlike a rename, never over a journal somebody else has made meanwhile
    except FileExistsError:
        return
    finally:
        new.unlink(missing_ok=True)
    sync_folder(path.parent)


def lacking(db: sqlite3.Connection, names: Iterable[str]) -> list[str]:
    """Those of these columns that the list of runs has not; a file that only older versions have written to."""
    known = {column[1] for column in db.execute("pragma table_info(runs)")}
    return [name for name in names if name not in known]


def roll_back(db: sqlite3.Connection) -> None:
    """End a transaction that failed."""
    try:
        if db.in_transaction:
            db.execute("rollback")
    except sqlite3.Error:
        return  # SQLite has rolled back by itself, or will when the file is next opened


def find_disk_fault(error: sqlite3.Error, path: Path) -> str:
    """Why nothing more may be written, if the disk itself has failed: its next yes would be no evidence."""
    if getattr(error, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_IOERR:
        return ""
    return explain_disk_fault(error, path)


def explain_disk_fault(error: Exception, path: Path) -> str:
    """Why a journal whose disk has failed takes nothing more."""
    return f"{path}: the disk has failed ({error}); nothing more is written until detent is started anew"


def explain_trouble(error: sqlite3.Error, path: Path) -> str:
    """What SQLite says, and the way out."""
    text = str(error)
    if "full" in text:
        return f"no space left for {path}; free some and resume: what was acknowledged is whole"
    if "malformed" in text or "not a database" in text:
        return f"{path} is damaged ({text}); `detent doctor` says more, other runs may still be readable"
    return f"{path}: {text}"
