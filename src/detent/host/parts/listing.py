"""Questions about many runs at once: pages of the list, what waits for people, and the one order of all events.

Every question costs the same however many runs there are: a search looks at so many rows and says where it stopped.
"""

from collections.abc import Iterable
from typing import NamedTuple

from detent.errors import JournalError
from detent.host.parts.journal_query import AnyJournal, Record, record_of_row
from detent.host.reading import Query, Step

SCAN_MAX = 20_000  # rows one search looks at
COUNT = "select count(*) from runs"
OPEN = "where waiting <> '[]'"  # an ended run has nothing open; the words are those of the index `runs_asking`
HAYSTACK = "run_id || ' ' || name || ' ' || state || ' ' || by || ' ' || session || ' ' || source || ' ' || waiting"


class Found(NamedTuple):
    """What a search found, newest first, and where the next one goes on; 0: there is no more."""

    records: list[Record]
    next: int


class Listing(AnyJournal):
    """A journal for those who look at many runs."""

    def search(self, wanted: Query) -> Found:
        """One page of runs."""
        newest = self._one("select coalesce(max(no), 0) from runs", ())
        before = min(wanted.before or 2**62, int(newest[0]) + 1)
        where, values = _conditions(wanted)
        is_filtered = bool(wanted.name or wanted.agent or wanted.text)
        is_timed = any(at is not None for at in (wanted.since, wanted.until, wanted.moved_since))
        is_scan = is_filtered or is_timed
        floor = before - SCAN_MAX if is_scan else 0
        rows = []
        # One question per status: asked for several at once, SQLite would sort all of them for one page.
        for status in dict.fromkeys(s.value for s in wanted.status) or [None]:
            parts = ["no < ?", "no >= ?", *(["status = ?"] if status else []), *where]
            given = [before, floor, *([status] if status else []), *values, wanted.limit + 1]
            rows += self.rows(f"{self.summary} where {' and '.join(parts)} order by no desc limit ?", given)
        rows.sort(key=lambda row: -row[16])
        page, rest = rows[: wanted.limit], rows[wanted.limit :]
        following = int(page[-1][16]) if rest else floor if is_scan and floor > 1 else 0
        return Found(self._sound(page), following)

    def waiting(self, limit: int) -> list[Record]:
        """Runs with a question for people, oldest first."""
        return self._sound(self.rows(f"{self.summary} {OPEN} order by no limit ?", (limit,)))

    def waiting_count(self) -> int:
        """How many runs have a question for people."""
        return int(self._one(f"{COUNT} {OPEN}", ())[0])

    def names(self, limit: int = 200) -> list[str]:
        """The names of the machines there are."""
        return [row[0] for row in self.rows("select distinct name from machines order by name limit ?", (limit,))]

    def cursor(self) -> int:
        """The place of the newest event in the order of all of them."""
        return int(self._one("select coalesce(max(rowid), 0) from events", ())[0])

    def steps(self, after: int, limit: int) -> list[Step]:
        """The events after a place, in the order in which they were written."""
        query = (
            "select events.rowid, runs.run_id, runs.name, events.seq from events join runs on runs.no = events.run"
            " where events.rowid > ? order by events.rowid limit ?"
        )
        return [Step(*row) for row in self.rows(query, (after, limit))]

    def records(self, run_ids: Iterable[str]) -> list[Record]:
        """The rows of these runs."""
        wanted = list(run_ids)
        marks = ", ".join("?" * len(wanted))
        return self._sound(self.rows(f"{self.summary} where run_id in ({marks})", wanted)) if wanted else []

    def _sound(self, rows: Iterable[tuple[object, ...]]) -> list[Record]:
        found = []
        for row in rows:
            try:
                found.append(record_of_row(row))
            except JournalError as error:
                self.damaged[str(row[0])] = str(error)  # one bad row must not hide the others
        return found


def _conditions(wanted: Query) -> tuple[list[str], list[object]]:
    """What no index helps with."""
    where: list[str] = []
    values: list[object] = []
    if wanted.name:
        where.append("name = ?")
        values.append(wanted.name)
    if wanted.agent:
        where.append("parent = '' and (source = ? or source like ? escape '\\')")
        values += [f"agent:{wanted.agent}", f"agent:{_literal(wanted.agent)} %"]
    if wanted.text:
        where.append(f"instr(lower({HAYSTACK}), lower(?)) > 0")
        values.append(wanted.text)
    if wanted.since is not None:
        where.append("started_at >= ?")
        values.append(wanted.since)
    if wanted.until is not None:
        where.append("started_at < ?")
        values.append(wanted.until)
    if wanted.moved_since is not None:
        where.append("updated_at >= ?")
        values.append(wanted.moved_since)
    if wanted.is_top:
        where.append("parent = ''")
    if wanted.without:
        marks = ", ".join("?" * len(wanted.without))
        where.append(f"name not in ({marks}) and machine not in ({marks})")
        values += (*wanted.without, *wanted.without)
    return where, values


def _literal(text: str) -> str:
    """A text whose every letter stands for itself in `like`."""
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
