"""Finding runs by what is in them: their attributes, and full text over what they were given, asked and gave.
Counting them, too (`run_statistics`): both look at every event once.

The index is a file of its own beside the journal (`search.db`), outside every commit. It is brought up to date from the
order of all events when somebody searches, and made anew where it is missing, damaged, older, or of another journal.
"""

import os
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec

from detent.core.attribute import Scalar, read_attributes
from detent.core.events import ContractMoved, Started
from detent.core.expression import compile_condition
from detent.core.status import Status
from detent.errors import DetentError, ExpressionError, JournalError
from detent.host.port import Reader
from detent.host.reading import Query, Summary
from detent.host.system_run import HOUSEKEEPING
from detent.kit.run_statistics import (
    FIGURE_SCHEMA,
    FIGURE_TABLES,
    FigureFilter,
    Figures,
    note_entry,
    read_figures,
    read_totals,
)

FILE = "search.db"
VERSION = 2
TEXT_MAX = 64 * 1024  # letters of one field that are indexed
WORDS_MAX = 16  # of one search
TRIGRAM = 3  # shorter words are looked for one row after the other
AT_ONCE = 2000  # events that are looked at before what was found is kept
SCAN_MAX = 20_000  # runs one search looks at, newest first
SCHEMA = """
create table meta (name text primary key, value text not null) without rowid;
create table runs (run_id text primary key, seq integer not null, attributes text not null) without rowid;
create virtual table texts using fts5 (run_id unindexed, part unindexed, body, tokenize = 'trigram');
create table places (run_id text not null, part text not null, row integer not null, primary key (run_id, part, row))
    without rowid
"""
R = TypeVar("R")
Part = Literal["input", "question", "output"]


class RunFilter(NamedTuple):
    """Which runs; what is left empty does not matter."""

    text: str = ""
    where: str = ""
    status: tuple[Status, ...] = ()
    name: str = ""
    without: tuple[str, ...] = ()
    sort: str = ""  # an attribute, or a word of `where`; `-` before it turns the order round
    offset: int = 0
    limit: int = 50


class FoundRun(NamedTuple):
    """A run with its attributes."""

    summary: Summary
    attributes: dict[str, Scalar]


class FoundRuns(NamedTuple):
    """One page of what was found, and how many there are."""

    runs: list[FoundRun]
    total: int
    is_cut: bool  # there are older runs that were not looked at


class RunIndex:
    """The index of one home."""

    def __init__(self, reader: Reader, home: Path) -> None:
        self._reader, self._path = reader, home / FILE

    def search(self, wanted: RunFilter) -> FoundRuns:
        """Runs that fit, newest first unless sorted."""
        condition = compile_condition(wanted.where) if wanted.where else None

        def ask(db: sqlite3.Connection) -> tuple[list[tuple[str, set[str]]], dict[str, str]]:
            known = dict(db.execute("select run_id, attributes from runs").fetchall())
            return [(word.lower(), _find_word(db, word)) for word in _split(wanted.text)], known

        words, known = self._ask(ask)
        found: list[FoundRun] = []
        summaries, is_cut = self._newest(wanted)
        for summary in summaries:
            attributes: dict[str, Scalar] = msgspec.json.decode(known.get(summary.run_id, "{}"))
            if words and not _has_words(summary, attributes, words):
                continue
            if condition is None or _is_so(condition, _scope(summary, attributes)):
                found.append(FoundRun(summary, attributes))
        if wanted.sort:
            found = _sort(found, wanted.sort)
        return FoundRuns(found[wanted.offset : wanted.offset + wanted.limit], len(found), is_cut)

    def figures(self, wanted: FigureFilter) -> Figures:
        """What was counted in a time."""
        return self._ask(lambda db: read_figures(db, wanted))

    def totals(self) -> list[tuple[str, str, str, int, float]]:
        """What was counted since the journal began: machine, what, name, how often, how much."""
        return self._ask(read_totals)

    def _newest(self, wanted: RunFilter) -> tuple[list[Summary], bool]:
        found: list[Summary] = []
        before = 0
        while len(found) < SCAN_MAX:
            query = Query(wanted.status, wanted.name, without=wanted.without, before=before, limit=500)
            page = self._reader.list(query)
            found += page.runs
            before = page.next
            if not before:
                return found, False
        return found, True

    def _ask(self, question: Callable[[sqlite3.Connection], R]) -> R:
        """Ask the file, brought up to date; one that is damaged is made anew."""
        for is_last in (False, True):
            try:
                with closing(self._connect()) as db:
                    self._catch_up(db)
                    return question(db)
            except (sqlite3.Error, OSError) as error:
                is_damaged = isinstance(error, sqlite3.DatabaseError) and not isinstance(
                    error, sqlite3.OperationalError
                )
                if is_last or not is_damaged:
                    raise JournalError(f"{self._path} cannot be used for searching ({error}); remove it") from None
                self._path.unlink(missing_ok=True)
        raise AssertionError("the second try returns or raises")

    def _connect(self) -> sqlite3.Connection:
        journal, epoch = self._reader.identity()
        mark = f"{VERSION} {journal} {epoch}"
        if not self._path.exists():
            os.close(os.open(self._path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        db = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False, timeout=30.0)
        try:
            db.execute("pragma synchronous = off")  # it can always be made again
            db.execute("begin immediate")
            has_meta = db.execute("select 1 from sqlite_master where name = 'meta'").fetchone()
            row = db.execute("select value from meta where name = 'mark'").fetchone() if has_meta else None
            if row is None or row[0] != mark:
                for name in ("places", "texts", "runs", "meta", *FIGURE_TABLES):
                    db.execute(f"drop table if exists {name}")
                for statement in (*SCHEMA.split(";"), *FIGURE_SCHEMA.split(";")):
                    db.execute(statement)
                db.executemany("insert into meta values (?, ?)", [("mark", mark), ("cursor", "0")])
            db.execute("commit")
        except BaseException:
            db.close()
            raise
        return db

    def _catch_up(self, db: sqlite3.Connection) -> None:
        """Take in every run that moved since; what was taken in is kept piece by piece."""
        while True:
            db.execute("begin immediate")
            try:
                after = int(db.execute("select value from meta where name = 'cursor'").fetchone()[0])
                steps = self._reader.steps(after, AT_ONCE)
                for run_id in dict.fromkeys(step.run_id for step in steps):
                    try:
                        self._take(db, run_id)
                    except DetentError:
                        continue  # a damaged run must not hide the others
                if steps:
                    db.execute("update meta set value = ? where name = 'cursor'", (str(steps[-1].cursor),))
                db.execute("commit")
            except BaseException:
                if db.in_transaction:
                    db.execute("rollback")
                raise
            if len(steps) < AT_ONCE:
                return

    def _take(self, db: sqlite3.Connection, run_id: str) -> None:
        """A run as it stands, and what its events since the last look have to say."""
        row = db.execute("select seq from runs where run_id = ?", (run_id,)).fetchone()
        seq = 0 if row is None else int(row[0])
        run, name = None, ""
        for entry in self._reader.entries(run_id, seq):
            event, run = entry.event, entry.run
            name = name or self._reader.machine(run.machine).name
            if name not in HOUSEKEEPING and run.machine not in HOUSEKEEPING:
                note_entry(db, name, entry)
            if isinstance(event, Started):
                _add(db, run_id, "input", _words(event.input))
            elif isinstance(event, ContractMoved) and event.question is not None:
                _add(db, run_id, "question", event.question.text)
        if run is None:
            return
        for contract in run.waiting:
            _add(db, run_id, "question", contract.question.text if contract.question is not None else "")
        if run.ended is not None:
            _add(db, run_id, "output", _words(run.output), is_only=True)
        attributes = msgspec.json.encode(read_attributes(self._reader.machine(run.machine), run)).decode()
        db.execute("insert or replace into runs values (?, ?, ?)", (run_id, run.seq, attributes))


def _add(db: sqlite3.Connection, run_id: str, part: Part, text: str, *, is_only: bool = False) -> None:
    """Keep a text of a run once; `is_only`: in place of what was there."""
    body = text[:TEXT_MAX]
    rows = db.execute("select row from places where run_id = ? and part = ?", (run_id, part)).fetchall()
    if is_only:
        for (row,) in rows:
            db.execute("delete from texts where rowid = ?", (row,))
        db.execute("delete from places where run_id = ? and part = ?", (run_id, part))
        rows = []
    kept = [db.execute("select body from texts where rowid = ?", row).fetchone()[0] for row in rows]
    if not body or body in kept:
        return
    row = db.execute("insert into texts (run_id, part, body) values (?, ?, ?)", (run_id, part, body)).lastrowid
    db.execute("insert into places values (?, ?, ?)", (run_id, part, row))


def _words(value: Any) -> str:
    """A value as text to search in: what people read of it, without the marks of JSON around names."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return "\n".join(f"{name} {_words(inner)}" for name, inner in value.items())
    if isinstance(value, (list, tuple)):
        return "\n".join(_words(inner) for inner in value)
    return "" if value is None else str(value)


def _split(text: str) -> list[str]:
    """The words to look for; what no text of a run can hold is taken out of them."""
    clean = text.replace("\0", " ").encode("utf-8", "replace").decode()
    return clean.split()[:WORDS_MAX]


def _find_word(db: sqlite3.Connection, word: str) -> set[str]:
    """The runs with these letters in one of their texts, wherever in a word."""
    if len(word) >= TRIGRAM:
        query, given = "select run_id from texts where body match ?", '"{}"'.format(word.replace('"', '""'))
    else:
        query, given = "select run_id from texts where body like ? escape '\\'", f"%{_literal(word)}%"
    return {row[0] for row in db.execute(query, (given,))}


def _has_words(summary: Summary, attributes: dict[str, Scalar], words: list[tuple[str, set[str]]]) -> bool:
    """Whether every word is in one of a run's texts, or in what its line in the list says of it."""
    said = (summary.run_id, summary.name, summary.state, summary.by, summary.session, summary.source)
    line = " ".join((*said, *(str(value) for value in attributes.values()))).lower()
    return all(summary.run_id in runs or word in line for word, runs in words)


def _literal(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def _scope(summary: Summary, attributes: dict[str, Scalar]) -> dict[str, Any]:
    """What an expression can read of a run; its own words come before attributes of the same name."""
    own = {
        "run_id": summary.run_id,
        "machine": summary.name,
        "state": summary.state,
        "status": summary.status.value,
        "by": summary.by,
        "session": summary.session,
        "parent": summary.parent,
        "started_at": summary.started_at,
        "updated_at": summary.updated_at,
        "cost_usd": summary.cost_usd,
        "questions": len(summary.waiting),
        "error": "" if summary.error is None else summary.error["type"],
    }
    return {**attributes, **own, "attributes": attributes}


def _is_so(condition: Any, scope: dict[str, Any]) -> bool:
    try:
        return bool(condition(scope))
    except ExpressionError:
        return False  # it does not hold for a run that lacks what it reads


def _sort(found: list[FoundRun], by: str) -> list[FoundRun]:
    """In the order of one value; runs without it come last, either way."""
    name, is_down = by.lstrip("-"), by.startswith("-")
    values = [(_scope(one.summary, one.attributes).get(name), one) for one in found]
    has = [(value, one) for value, one in values if isinstance(value, (str, int, float))]
    has.sort(key=lambda pair: (isinstance(pair[0], str), pair[0]), reverse=is_down)
    return [one for _, one in has] + [one for value, one in values if not isinstance(value, (str, int, float))]
