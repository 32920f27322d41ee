"""The assistant's memory file: what it was told to remember, facts of what it did, and each session's working memory.

One SQLite file beside the journal (`memory.db`), with full-text search. It is a memory, not the truth: what happened is
in the journal. Chinese, Japanese and Korean are indexed letter by letter, since they put no blanks between words.
"""

import contextlib
import re
import sqlite3
import threading
import time
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from detent.errors import JournalError

CANDIDATES = 50
SCANNED_MAX = 1000  # the substring fall-back looks at so many, newest first
WORKING_MAX = 64 * 1024  # bytes of a session's working memory
VALUE_MAX = 20_000
TERMS_MAX = 32

COLUMNS = "id, category, key, value, confidence, session, created_at, accessed_at, access_count"
SELECT = f"select {COLUMNS} from memories "  # noqa: S608  # our own text
SCHEMA = """
create table if not exists memories (
    id integer primary key, category text not null, key text not null, value text not null,
    confidence real not null, session text not null, source text not null unique,
    created_at real not null, accessed_at real not null, access_count integer not null default 0
);
create table if not exists working (
    session text not null, name text not null, value text not null, at real not null, primary key (session, name)
) without rowid;
create table if not exists archived (session text primary key, at real not null) without rowid;
create table if not exists passages (
    id integer primary key, session text not null, role text not null, content text not null, at real not null,
    source text not null unique
);
create index if not exists passages_of on passages (session, id);
create table if not exists concern_moves (
    id integer primary key, session text not null, source text not null, target text not null, trigger text not null,
    at real not null, actor text not null, reason text not null
);
"""
INDEXES = (
    "create virtual table if not exists memory_index using fts5(text)",
    "create virtual table if not exists passage_index using fts5(text)",
)
KEEP = (
    "insert into memories (category, key, value, confidence, session, source, created_at, accessed_at)"
    " values (?, ?, ?, ?, ?, ?, ?, ?) on conflict (source) do update set value = excluded.value,"
    " confidence = excluded.confidence, accessed_at = excluded.accessed_at returning id"
)

_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
_PIECE = re.compile(rf"[{_CJK}]+|[^\W_{_CJK}]+", re.UNICODE)
_IS_CJK = re.compile(f"[{_CJK}]")


class Memory(NamedTuple):
    """One thing that is remembered."""

    id: int
    category: str
    key: str
    value: str
    confidence: float
    session: str
    created_at: float
    accessed_at: float
    access_count: int

    @property
    def text(self) -> str:
        """Everything it says."""
        return f"{self.key} {self.value}"


class Passage(NamedTuple):
    """Something that was said in a conversation and is not told to the model word for word any more."""

    id: int
    session: str
    role: str
    content: str
    at: float


def fold_text(text: str) -> str:
    """A text as it is compared: full-width and capital letters are as good as others."""
    return unicodedata.normalize("NFKC", text).casefold()


def pieces(text: str) -> list[str]:
    """Words, and runs of letters of languages that put no blanks between words."""
    return _PIECE.findall(fold_text(text))


def terms(text: str) -> list[str]:
    """What to look for: words of two letters and more, and pairs of neighbours in what has no blanks."""
    found: list[str] = []
    for piece in pieces(text):
        if not _IS_CJK.match(piece):
            found += [piece] if len(piece) > 1 or piece.isdigit() else []
        elif len(piece) == 1:
            found.append(piece)
        else:
            found += [piece[at : at + 2] for at in range(len(piece) - 1)]
    return list(dict.fromkeys(found))[:TERMS_MAX]


def index_text(text: str) -> str:
    """A text as it is put into the index."""
    return " ".join(" ".join(piece) if _IS_CJK.match(piece) else piece for piece in pieces(text))


def _phrase(term: str) -> str:
    return '"' + (" ".join(term) if _IS_CJK.match(term) else term) + '"'


class Store:
    """The file; every method may be called from any thread."""

    def __init__(self, path: Path, now: Callable[[], float] = time.time) -> None:
        self._path, self.now = path, now
        self._guard = threading.Lock()
        self._db: sqlite3.Connection | None = None
        self.has_index = True

    def _open(self) -> sqlite3.Connection:
        if self._db is None:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            try:
                db = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False, timeout=10.0)
                self._path.chmod(0o600)
                db.execute("pragma journal_mode = wal")
                db.execute("pragma synchronous = normal")
                db.executescript(SCHEMA)
                try:
                    for index in INDEXES:
                        db.execute(index)
                except sqlite3.OperationalError:
                    self.has_index = False  # this SQLite was built without full-text search: LIKE must do
            except sqlite3.Error as error:
                raise JournalError(f"cannot open the memory {self._path}: {error}") from None
            self._db = db
        return self._db

    def close(self) -> None:
        """Let go of the file."""
        with self._guard:
            if self._db is not None:
                self._db.close()
                self._db = None

    def keep(self, entries: Iterable[dict[str, Any]], session: str = "") -> list[dict[str, Any]]:
        """Remember things; the same `source` (by default category and key) is replaced, not added again."""
        kept = []
        with self._guard:
            db, now = self._open(), self.now()
            db.execute("begin immediate")
            try:
                for entry in entries:
                    category, key = str(entry["category"])[:100], str(entry["key"])[:500]
                    value = str(entry["value"])[:VALUE_MAX]
                    source = str(entry.get("source") or f"{category}:{key}")
                    confidence = float(entry.get("confidence", 1.0))
                    given = (category, key, value, confidence, session, source, now, now)
                    number = int(db.execute(KEEP, given).fetchone()[0])
                    if self.has_index:
                        db.execute("delete from memory_index where rowid = ?", (number,))
                        text = index_text(f"{key} {value}")
                        db.execute("insert into memory_index (rowid, text) values (?, ?)", (number, text))
                    kept.append({"id": number, "category": category, "key": key})
                db.execute("commit")
            except BaseException:
                db.execute("rollback")
                raise
        return kept

    def candidates(self, text: str) -> list[Memory]:
        """Up to fifty memories that share a word with a text: by the index, else by LIKE, else letter by letter."""
        wanted = terms(text)
        if not wanted:
            return []
        with self._guard:
            db = self._open()
            return self._by_index(db, wanted) or _by_like(db, wanted) or _by_substring(db, wanted)

    def _by_index(self, db: sqlite3.Connection, wanted: Sequence[str]) -> list[Memory]:
        if not self.has_index:
            return []
        query = SELECT + "where id in (select rowid from memory_index where memory_index match ? order by rank limit ?)"  # noqa: S608
        try:
            rows = db.execute(query, (" OR ".join(map(_phrase, wanted)), CANDIDATES)).fetchall()
        except sqlite3.OperationalError:
            return []  # a term the index cannot take; LIKE takes anything
        return [Memory(*row) for row in rows]

    def touch(self, ids: Sequence[int]) -> None:
        """Note that these were of use."""
        with self._guard:
            marks = ", ".join("?" * len(ids))
            query = f"update memories set accessed_at = ?, access_count = access_count + 1 where id in ({marks})"  # noqa: S608  # only question marks
            self._open().execute(query, (self.now(), *ids))

    def memories(self, limit: int = 100, category: str = "") -> list[Memory]:
        """What is remembered, newest first."""
        with self._guard:
            query = SELECT + "where ? in ('', category) order by id desc limit ?"
            return [Memory(*row) for row in self._open().execute(query, (category, limit))]

    def forget(self, number: int) -> bool:
        """Remove one memory."""
        with self._guard:
            db = self._open()
            if self.has_index:
                db.execute("delete from memory_index where rowid = ?", (number,))
            return db.execute("delete from memories where id = ?", (number,)).rowcount == 1

    def correct(self, number: int, value: str, key: str = "") -> bool:
        """Give a memory another value and, where one is given, another key."""
        with self._guard:
            db = self._open()
            row = db.execute("select key from memories where id = ?", (number,)).fetchone()
            if row is None:
                return False
            named, told = (key or row[0])[:500], value[:VALUE_MAX]
            db.execute("begin immediate")
            try:
                db.execute("update memories set key = ?, value = ? where id = ?", (named, told, number))
                if self.has_index:
                    text = index_text(f"{named} {told}")
                    db.execute("update memory_index set text = ? where rowid = ?", (text, number))
                db.execute("commit")
            except BaseException:
                db.execute("rollback")
                raise
            return True

    def put_aside(self, session: str, said: Sequence[Mapping[str, Any]], source: str) -> int:
        """Keep what a conversation no longer tells the model word for word; the same `source` is kept once."""
        with self._guard:
            db, now, kept = self._open(), self.now(), 0
            db.execute("begin immediate")
            try:
                for number, one in enumerate(said):
                    given = (session, str(one.get("role")), str(one.get("content", "")), now, f"{source}#{number}")
                    query = ("insert or ignore into passages (session, role, content, at, source)"
                             " values (?, ?, ?, ?, ?) returning id")  # fmt: skip
                    row = db.execute(query, given).fetchone()
                    if row is not None and self.has_index:
                        text = index_text(given[2])
                        db.execute("insert into passage_index (rowid, text) values (?, ?)", (row[0], text))
                    kept += row is not None
                db.execute("commit")
            except BaseException:
                db.execute("rollback")
                raise
            return kept

    def passages(self, session: str, text: str = "", limit: int = 20) -> list[Passage]:
        """What was put aside of a conversation: what shares words with a text, best first; without one, the latest."""
        wanted = terms(text)
        query = "select id, session, role, content, at from passages where session = ?"
        with self._guard:
            db = self._open()
            if not wanted:
                rows = db.execute(f"{query} order by id desc limit ?", (session, limit)).fetchall()
                return [Passage(*row) for row in rows]
            rows = []
            if self.has_index:
                found = "select rowid from passage_index where passage_index match ?"
                given = (session, " OR ".join(map(_phrase, wanted)), CANDIDATES)
                with contextlib.suppress(sqlite3.OperationalError):  # a term the index cannot take
                    rows = db.execute(f"{query} and id in ({found}) order by id desc limit ?", given).fetchall()
            rows = rows or db.execute(f"{query} order by id desc limit ?", (session, SCANNED_MAX)).fetchall()
        counted = [(_count_terms(passage.content, wanted), passage) for passage in (Passage(*row) for row in rows)]
        best = sorted((pair for pair in counted if pair[0]), key=lambda pair: (-pair[0], -pair[1].id))
        return [passage for _count, passage in best[:limit]]

    def move_concern(self, session: str, move: Mapping[str, Any]) -> None:
        """Keep that somebody moved a cognitive object."""
        with self._guard:
            given = (session, move["from"], move["to"], move["trigger"], self.now(), move["actor"], move["reason"])
            self._open().execute("insert into concern_moves (session, source, target, trigger, at, actor, reason)"
                                 " values (?, ?, ?, ?, ?, ?, ?)", given)  # fmt: skip

    def concern_moves(self) -> dict[str, list[dict[str, Any]]]:
        """What people did to cognitive objects, by session, oldest first."""
        found: dict[str, list[dict[str, Any]]] = {}
        names = ("from", "to", "trigger", "timestamp", "actor", "reason")
        with self._guard:
            rows = self._open().execute("select session, source, target, trigger, at, actor, reason from concern_moves"
                                        " order by id").fetchall()  # fmt: skip
        for session, *move in rows:
            found.setdefault(session, []).append(dict(zip(names, move, strict=True)))
        return found

    def memory(self, number: int) -> Memory | None:
        """One memory."""
        with self._guard:
            row = self._open().execute(SELECT + "where id = ?", (number,)).fetchone()
        return None if row is None else Memory(*row)

    def file_under(self, number: int, category: str) -> bool:
        """Give a memory another category."""
        with self._guard:
            query = "update memories set category = ? where id = ?"
            return self._open().execute(query, (category, number)).rowcount == 1

    def archive(self, session: str) -> None:
        """Put a conversation away, as of now."""
        with self._guard:
            self._open().execute("insert or replace into archived values (?, ?)", (session, self.now()))

    def list_archived(self) -> dict[str, float]:
        """The conversations that were put away, and when."""
        with self._guard:
            return dict(self._open().execute("select session, at from archived").fetchall())

    def note(self, session: str, name: str, value: str) -> None:
        """Put something into a session's working memory; where it is full, the oldest goes first."""
        with self._guard:
            db = self._open()
            kept = value.encode()[:WORKING_MAX].decode(errors="ignore")
            db.execute("insert or replace into working values (?, ?, ?, ?)", (session, name, kept, self.now()))
            query = "select name, length(cast(value as blob)) from working where session = ? order by at desc, name"
            total = 0
            for old, size in db.execute(query, (session,)).fetchall():
                total += size
                if total > WORKING_MAX and old != name:
                    db.execute("delete from working where session = ? and name = ?", (session, old))

    def working(self, session: str) -> dict[str, str]:
        """A session's working memory, oldest first."""
        with self._guard:
            query = "select name, value from working where session = ? order by at, name"
            return dict(self._open().execute(query, (session,)).fetchall())


def _count_terms(text: str, wanted: Sequence[str]) -> int:
    folded = fold_text(text)
    return sum(term in folded for term in wanted)


def _by_like(db: sqlite3.Connection, wanted: Sequence[str]) -> list[Memory]:
    escaped = [term.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") for term in wanted]
    where = " or ".join(["key || ' ' || value like ? escape '\\'"] * len(escaped))
    query = f"{SELECT} where {where} order by id desc limit ?"
    return [Memory(*row) for row in db.execute(query, (*(f"%{term}%" for term in escaped), CANDIDATES))]


def _by_substring(db: sqlite3.Connection, wanted: Sequence[str]) -> list[Memory]:
    """SQLite's LIKE knows no full-width letters and no capitals beyond ASCII; this does."""
    rows = db.execute(SELECT + "order by id desc limit ?", (SCANNED_MAX,))
    found = (Memory(*row) for row in rows)
    return [memory for memory in found if any(term in fold_text(memory.text) for term in wanted)][:CANDIDATES]
