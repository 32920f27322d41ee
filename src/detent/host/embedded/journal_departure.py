"""A journal that leaves its home for a database: marked while it is on its way, and sealed when it has arrived.

While it is marked nobody can move its runs, here or there. Sealed, it says for ever where it went; its events and
claims stay to be read.
"""

import contextlib
import shutil
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from detent.errors import Refused
from detent.host.embedded.artefact_folder import FOLDER as ARTEFACTS
from detent.host.embedded.artefact_folder import ArtefactFolder
from detent.host.embedded.backup import JOURNAL, LEFT_OUT, OWN
from detent.host.embedded.journal import open_journal
from detent.host.embedded.lock import Lock, holder
from detent.host.embedded.schema import LEAVING, LEFT, close_writing, open_reading, open_writing, read_departure
from detent.host.parts.anchor import read_head
from detent.host.reading import JournalHead

# What is carried, by table; projections and the index are made anew there.
TABLES = {
    "machines": "digest name body",
    "runs": "no run_id name machine state status seq head started_at updated_at wake_at waiting by session parent"
    " source cost_usd held_by error alarms",
    "events": "rowid run seq id body hash",
    "snapshots": "run seq engine body",
    "claims": "scope key run_id contract_id call_hash at",
    "outbox": "key run_id message at delivered_at tries problem",
}
PORTION = 1000


class Departure:
    """The leaving side of a move; holds the lock of the home."""

    def __init__(self, home: Path) -> None:
        self.home = home
        if not (home / JOURNAL).exists():
            raise Refused(f"there is no journal in {home}, so there is nothing to move")
        self._lock = Lock(home)
        if not self._lock.take():
            raise Refused(f"process {holder(home).pid or '?'} is using {home}; end it first")
        try:
            self._db = open_writing(home / JOURNAL, "full", is_leaving=True)
        except BaseException:
            self._lock.free()
            raise

    def close(self) -> None:
        """Let go of the home."""
        close_writing(self._db)
        self._lock.free()

    @property
    def target(self) -> tuple[str, bool]:
        """Where the journal is going or has gone, and whether it has; nowhere is empty."""
        return read_departure(self._db)

    @property
    def head(self) -> JournalHead:
        """One digest over everything that is carried."""
        journal = open_journal(self.home)
        try:
            return read_head(journal, self.home)
        finally:
            journal.close()

    def mark(self, address: str) -> None:
        """From now on nobody moves a run here until the move is finished or given up."""
        self._db.execute("insert or replace into meta values (?, ?)", (LEAVING, address))

    def unmark(self) -> None:
        """The move is given up."""
        self._db.execute("delete from meta where name = ?", (LEAVING,))

    def seal(self, address: str) -> None:
        """The journal is there: this one says so for ever."""
        self._db.execute("begin immediate")
        self._db.execute("delete from meta where name = ?", (LEAVING,))
        self._db.execute("insert into meta values (?, ?)", (LEFT, f"{address} {time.time():.0f}"))
        self._db.execute("commit")

    def tables(self) -> Iterator[tuple[str, Sequence[str], Iterator[tuple[Any, ...]]]]:
        """Every table with its columns and its rows."""
        for name, columns in TABLES.items():
            named = columns.split()
            order = "no" if name == "runs" else named[0]
            query = f"select {', '.join(named)} from {name} order by {order}"  # noqa: S608  # our own text
            yield name, named, self._rows(query)

    def _rows(self, query: str) -> Iterator[tuple[Any, ...]]:
        found = self._db.execute(query)
        while rows := found.fetchmany(PORTION):
            yield from rows

    @property
    def artefacts(self) -> ArtefactFolder:
        """The files that runs have kept."""
        return ArtefactFolder(self.home)

    def copy_files(self, folder: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Copy what else is in the home beside a new one; what was copied, and what stays behind."""
        copied, left = [], []
        for path in sorted(self.home.rglob("*")):
            name = path.relative_to(self.home)
            if name.parts[0] in (*OWN, ARTEFACTS) or path.is_symlink() or not path.is_file():
                continue
            place = folder / name
            if name.parts[0] in LEFT_OUT or path.name.endswith(("-wal", "-shm", "-journal")):
                left.append(str(name))
            elif not place.exists():
                place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                draft = place.with_name(f".{place.name}.moving")
                shutil.copy2(path, draft)
                draft.replace(place)
                copied.append(str(name))
        return tuple(copied), tuple(left)


def find_departure(home: Path) -> tuple[str, bool]:
    """Where the journal of a home is going or has gone, and whether it has; empty: it is here."""
    if not (home / JOURNAL).exists():
        return "", False
    with contextlib.suppress(sqlite3.Error), closing(open_reading(home / JOURNAL)) as db:
        return read_departure(db)
    return "", False
