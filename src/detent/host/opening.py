"""Opening a home: which host keeps it is decided here, and loaded only when it is used."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from detent.host.embedded.journal_reader import JournalReader
    from detent.host.embedded.shared import SharedHost


def open_host(home: Path, *args: Any, **given: Any) -> "AbstractAsyncContextManager[SharedHost]":
    """A host on a home's journal, which other processes may be using too."""
    from detent.host.embedded.shared import open_host as open_shared  # noqa: PLC0415

    return open_shared(home, *args, **given)


def open_reader(home: Path) -> "JournalReader":
    """A reader of a home's journal; close it when done."""
    from detent.host.embedded.journal_reader import JournalReader  # noqa: PLC0415

    return JournalReader(home)
