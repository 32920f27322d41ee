"""Opening a home: which host keeps it is decided here, and loaded only when it is used."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from detent.host.embedded.journal_reader import JournalReader
    from detent.host.embedded.shared import SharedHost
    from detent.host.reading import BackupReport, Checkup, JournalHolder, RestoreReport


def open_host(home: Path, *args: Any, **given: Any) -> "AbstractAsyncContextManager[SharedHost]":
    """A host on a home's journal, which other processes may be using too."""
    from detent.host.embedded.shared import open_host as open_shared  # noqa: PLC0415

    return open_shared(home, *args, **given)


def open_reader(home: Path) -> "JournalReader":
    """A reader of a home's journal; close it when done."""
    from detent.host.embedded.journal_reader import JournalReader  # noqa: PLC0415

    return JournalReader(home)


def is_held(home: Path) -> bool:
    """Whether some process writes a home's journal now."""
    from detent.host.embedded.lock import is_held as is_locked  # noqa: PLC0415

    return is_locked(home)


def holder_of(home: Path) -> "JournalHolder":
    """Who says to write a home's journal."""
    from detent.host.embedded.lock import holder  # noqa: PLC0415

    return holder(home)


def checkup(home: Path) -> "Checkup":
    """Whether somebody writes a home's journal now, and answers."""
    from detent.host.embedded.checkup import checkup as check  # noqa: PLC0415

    return check(home)


def forget_journal(home: Path) -> str:
    """Forget what is known of the journal that was in a home; what that was, in a few words, or nothing."""
    from detent.host.embedded.marker import describe, forget  # noqa: PLC0415

    known = forget(home)
    return "" if known is None else describe(known)


def forget_claims(home: Path) -> None:
    """Forget how many claims a home's journal had, before they are rebuilt."""
    from detent.host.embedded.marker import forget_claims as forget  # noqa: PLC0415

    forget(home)


def back_up(home: Path, file: Path, *, is_forced: bool = False, keep: int = 0) -> "BackupReport":
    """Write a checked backup of a home, whoever uses it meanwhile."""
    from detent.host.embedded.backup import back_up as write_backup  # noqa: PLC0415

    return write_backup(home, file, is_forced=is_forced, keep=keep)


async def restore(file: Path, home: Path, *, is_over: bool = False, by: str = "") -> "RestoreReport":
    """Put a backup in a home's place; what was there is kept aside."""
    from detent.host.embedded.restore import restore as put_back  # noqa: PLC0415

    return await put_back(file, home, is_over=is_over, by=by)


def move_home(home: Path, target: Path) -> None:
    """Move a home to another folder of this machine."""
    from detent.host.embedded.restore import move  # noqa: PLC0415

    move(home, target)


def find_twins(home: Path) -> tuple[str, ...]:
    """Other homes on this machine that have the same journal."""
    from detent.host.embedded.restore import find_twins as find  # noqa: PLC0415

    return find(home)
