"""Rows in order, however many: what does not fit into a little memory lies in a file that nobody else sees."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple


class SpillOrder(NamedTuple):
    """Where a row stands: by time, then by run, then by place in the run."""

    at: float
    run: int
    seq: int


class Spill:
    """Takes rows in any order and gives them sorted."""

    def __init__(self) -> None:
        # No name: SQLite keeps it in memory while it is small, else in a file that is gone when this is closed.
        self._db = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._db.execute("pragma temp_store = file")
        self._db.execute("create table lines (at real, run integer, seq integer, body blob)")
        self._db.execute("begin")

    def add(self, order: SpillOrder, body: bytes) -> None:
        """Keep one row."""
        self._db.execute("insert into lines values (?, ?, ?, ?)", (*order, body))

    def read(self) -> Iterator[bytes]:
        """Every row, sorted; of equals the one that was added first comes first."""
        for (body,) in self._db.execute("select body from lines order by at, run, seq, rowid"):
            yield body

    def close(self) -> None:
        """Forget them."""
        self._db.close()


@contextmanager
def spilling() -> Iterator[Spill]:
    """Rows to be sorted while the block goes on."""
    spill = Spill()
    try:
        yield spill
    finally:
        spill.close()
