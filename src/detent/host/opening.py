"""Opening a home: which host keeps it is decided here, and loaded only when it is used."""

from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from detent.errors import JournalError, Refused
from detent.host.address import find_address

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from detent.core.identity import By, Identity
    from detent.host.parts.run_reader import RunReader
    from detent.host.people import PeopleSource
    from detent.host.port import OpenHost
    from detent.host.reading import BackupReport, Checkup, DatabaseReport, JournalHolder, RestoreReport


def open_host(home: Path, *args: Any, **given: Any) -> "AbstractAsyncContextManager[OpenHost]":
    """A host on a home's journal, which other processes may be using too."""
    if find_address(home):
        found: AbstractAsyncContextManager[OpenHost] = _load_postgres().open_postgres(home, *args, **given)
        return found
    from detent.host.embedded.shared_host import open_host as open_shared  # noqa: PLC0415

    return open_shared(home, *args, **given)


def open_reader(home: Path) -> "RunReader":
    """A reader of a home's journal; close it when done."""
    if find_address(home):
        reader: RunReader = _load_postgres().open_postgres_reader(home)
        return reader
    from detent.host.embedded.journal_reader import JournalReader  # noqa: PLC0415

    return JournalReader(home)


def is_held(home: Path) -> bool:
    """Whether some process writes a home's journal now."""
    if find_address(home):
        return bool(prepare_database(home, is_checked_only=True).workers)
    from detent.host.embedded.lock import is_held as is_locked  # noqa: PLC0415

    return is_locked(home)


def holder_of(home: Path) -> "JournalHolder":
    """Who says to write a home's journal."""
    from detent.host.embedded.lock import holder  # noqa: PLC0415

    return holder(home)


def checkup(home: Path) -> "Checkup":
    """Whether somebody writes a home's journal now, and answers."""
    if find_address(home):
        from detent.host.reading import Checkup, JournalHolder  # noqa: PLC0415

        return Checkup(is_held(home), JournalHolder(), True)
    from detent.host.embedded.holder_check import checkup as check  # noqa: PLC0415

    return check(home)


def forget_journal(home: Path) -> str:
    """Forget what is known of the journal that was in a home; what that was, in a few words, or nothing."""
    from detent.host.embedded.journal_marker import describe, forget  # noqa: PLC0415

    known = forget(home)
    return "" if known is None else describe(known)


def forget_claims(home: Path) -> None:
    """Forget how many claims a home's journal had, before they are rebuilt."""
    from detent.host.embedded.journal_marker import forget_claims as forget  # noqa: PLC0415

    forget(home)


def admit(people: "PeopleSource", verb: str, by: "By") -> "Identity":
    """Who does what is done to a home from outside, if the people of that home let them; a step never may."""
    from detent.host.parts.admission import Admission  # noqa: PLC0415

    return Admission(people).admit(verb, by)


def back_up(home: Path, file: Path, *, is_forced: bool = False, keep: int = 0) -> "BackupReport":
    """Write a checked backup of a home, whoever uses it meanwhile."""
    _check_folder(home)
    from detent.host.embedded.backup import back_up as write_backup  # noqa: PLC0415

    return write_backup(home, file, is_forced=is_forced, keep=keep)


async def restore(file: Path, home: Path, *, is_over: bool = False, by: "By" = "") -> "RestoreReport":
    """Put a backup in a home's place; what was there is kept aside."""
    _check_folder(home)
    from detent.host.embedded.restore import restore as put_back  # noqa: PLC0415

    return await put_back(file, home, is_over=is_over, by=by)


def move_home(home: Path, target: Path) -> None:
    """Move a home to another folder of this machine."""
    _check_folder(home)
    from detent.host.embedded.restore import move  # noqa: PLC0415

    move(home, target)


def find_departure(home: Path) -> tuple[str, bool]:
    """Where the journal of a home is going or has gone, and whether it has; empty: it is here."""
    from detent.host.embedded.journal_departure import find_departure as find  # noqa: PLC0415

    return find(home)


def find_twins(home: Path) -> tuple[str, ...]:
    """Other homes on this machine that have the same journal."""
    if find_address(home):
        return ()
    from detent.host.embedded.restore import find_twins as find  # noqa: PLC0415

    return find(home)


def find_mismatch(home: Path) -> str:
    """Why the journal in a home is not the one that was there, or not all of it; nothing where it is."""
    if find_address(home):
        return ""
    from detent.host.embedded.journal import open_journal  # noqa: PLC0415
    from detent.host.embedded.journal_marker import check_known  # noqa: PLC0415

    with closing(open_journal(home)) as journal:
        try:
            check_known(home, journal.connection)
        except JournalError as error:
            return str(error)
    return ""


def prepare_database(home: Path, *, is_checked_only: bool = False) -> "DatabaseReport":
    """Make the tables of a home's database, or bring them up to date; or only look at them."""
    if not find_address(home):
        raise Refused(f"{home} keeps its journal in a file; give --home postgresql://HOST/DATABASE")
    report: DatabaseReport = _load_postgres().prepare_database(home, is_checked_only=is_checked_only)
    return report


def _load_postgres() -> Any:
    return load_postgres("postgres_home")


def load_postgres(module: str) -> Any:
    """A module of the host in PostgreSQL, whose packages may be missing here."""
    try:
        return import_module(f"detent.host.postgres.{module}")
    except ImportError as error:
        raise Refused(f"a journal in PostgreSQL needs {error.name}: pip install 'detent[postgres]'") from None


def _check_folder(home: Path) -> None:
    """Refuse what is done to files where the journal is in a database, which has tools of its own for it."""
    if find_address(home):
        raise Refused("this journal is in a database: back it up with pg_dump, and restore it with pg_restore")
