"""What is known of a home's journal outside of its file: which journal it is, and how far it had come.

A journal that is gone, emptied, replaced by another or by an older copy of itself has forgotten what was done, and with
it every once-only key. So two small files remember it: `marker.json` in the home, and one in the user's state folder
(`$XDG_STATE_HOME/detent/homes`, by default in `~/.local/state`), named after the home's real path, which outlives the
home; one that is a link has one more there, named after the link. Whoever opens the journal for writing compares them
with it. A marker is a lower bound: it is written when the journal is opened and closed and now and then between, never
with each commit.

The journal itself says who it is in its table `meta`: `journal_id` for ever, `epoch` one more with every restore.
"""

import contextlib
import hashlib
import os
import secrets
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from detent.errors import JournalError

HOME_MARKER = "marker.json"
STATE_VARIABLE = "XDG_STATE_HOME"
MARKER_BYTES_MAX = 64 * 1024
EVERY = 1000  # batches between two marks
LAST_EVENT = "select rowid, hash from events order by rowid desc limit 1"
CLAIMS = "select count(*) from claims"
WAY_OUT = "Put it back (a backup, or the folder if it was moved). To begin anew without it: detent doctor --forget"


class Marker(msgspec.Struct, frozen=True, omit_defaults=True):
    """A journal at some moment: which one, its newest run and event, when, and in which home."""

    journal_id: str
    epoch: int = 1
    runs: int = 0  # the number of the newest run
    events: int = 0  # the place of the newest event in the order of all of them
    head: str = ""  # the hash of that event
    at: float = 0.0
    home: str = ""
    claims: int = -1  # how many keys were claimed when the journal was closed; -1: not counted


def read_identity(db: sqlite3.Connection) -> Marker | None:
    """What a journal says of itself now; None for a file of a version that had no identity yet."""
    try:
        named = dict(db.execute("select name, value from meta where name in ('journal_id', 'epoch')").fetchall())
    except sqlite3.OperationalError:
        return None
    if "journal_id" not in named:
        return None
    events, head = db.execute(LAST_EVENT).fetchone() or (0, b"")
    (runs,) = db.execute("select coalesce(max(no), 0) from runs").fetchone()
    return Marker(named["journal_id"], int(named.get("epoch", 1)), runs, events, head.hex(), time.time())


def find_problem(db: sqlite3.Connection, found: Marker, known: Marker) -> str:
    """Why a journal cannot be the one that is known, or not all of it; empty: it is, and has all that is known."""
    about = describe(known)
    if found.journal_id != known.journal_id:
        here = f"{found.journal_id[:8]}, {found.events:,} events"
        return f"this is another journal ({here}) than the one that was here: {about}"
    if found.epoch < known.epoch:
        return f"this is a copy from before a restore (epoch {found.epoch}); what was here was {about}"
    if found.epoch > known.epoch or not known.events or _has_event(db, known):
        return ""
    return f"this is an older or another copy of the journal, up to event {found.events:,}; what was here was {about}"


def _has_event(db: sqlite3.Connection, known: Marker) -> bool:
    """Whether the newest event that is known is there, or was pruned since."""
    row = db.execute("select hash from events where rowid = ?", (known.events,)).fetchone()
    if row is not None and row[0].hex() == known.head:
        return True
    if row is None and (db.execute(LAST_EVENT).fetchone() or (0,))[0] > known.events:
        return True
    # A VACUUM by hand may have given the events other places.
    wanted = bytes.fromhex(known.head)
    return db.execute("select 1 from events where hash = ? limit 1", (wanted,)).fetchone() is not None


def check_claims(db: sqlite3.Connection, found: Marker, known: Marker) -> None:
    """Raise where claims came or went although no event did: whoever trusted them could do a deed twice."""
    if known.claims < 0 or (found.events, found.head) != (known.events, known.head):
        return
    (count,) = db.execute(CLAIMS).fetchone()
    if count != known.claims:
        raise JournalError(
            f"the journal has {count:,} claims of irreversible calls; it had {known.claims:,} when it was closed, "
            "and nothing was journalled since. Rebuild them from the events: detent doctor --repair"
        )


def describe(known: Marker) -> str:
    """A journal in a few words, for whoever misses it."""
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(known.at)) if known.at else "an unknown time"
    last = f", the last one {known.head[:12]}" if known.head else ""
    size = f"{known.runs:,} runs and {known.events:,} events"
    return f"journal {known.journal_id[:8]}, epoch {known.epoch}, with {size}{last}, as of {when}"


def read_markers(home: Path) -> list[Marker]:
    """What is known of a home's journal, in the home and outside; the one that has come further is first."""
    found = [marker for marker in map(_read, marker_paths(home)) if marker is not None]
    return sorted(found, key=lambda marker: (marker.epoch, marker.events), reverse=True)


def check_missing(home: Path) -> None:
    """Raise where a home has no journal, or an empty one, but had one before."""
    path = home / "journal.db"
    with contextlib.suppress(OSError):
        if path.stat().st_size:
            return
    known = read_markers(home)
    if known:
        state = "is empty" if path.exists() else "is gone"
        raise JournalError(f"the journal {path} {state}. What was here: {describe(known[0])}. {WAY_OUT}")


def find_journal(home: Path) -> Path:
    """Where the journal of a home is, or is to be made; raises where one was and is missing."""
    check_missing(home)
    return home / "journal.db"


def check_known(home: Path, db: sqlite3.Connection) -> Marker | None:
    """Raise where a home's journal is not the one that is known, or not all of it; what it says of itself."""
    found = read_identity(db)
    if found is None:
        return None
    problem = next(filter(None, (find_problem(db, found, known) for known in read_markers(home))), "")
    if problem:
        way_out = "Put the right one back. To go on with this one: detent doctor --forget"
        raise JournalError(f"{home / 'journal.db'}: {problem}. {way_out}")
    return found


def check(home: Path, db: sqlite3.Connection) -> Marker | None:
    """The same, for whoever is about to write: its claims have to be those that are known, too."""
    found = check_known(home, db)
    if found is not None:
        for known in read_markers(home):
            check_claims(db, found, known)
    return found


def write(home: Path, marker: Marker, *, is_durable: bool = False) -> None:
    """Remember a journal in its home and outside; where one of them cannot be written, the other has to do."""
    body = msgspec.json.encode(msgspec.structs.replace(marker, home=os.path.realpath(home)))
    for path in marker_paths(home):
        with contextlib.suppress(OSError):
            if path.parent != home:
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _replace(path, body, is_durable=is_durable)


def forget(home: Path) -> Marker | None:
    """Remove what is known of a home's journal; what that was. For a person who knows why the journal is not there."""
    known = read_markers(home)
    for path in marker_paths(home):
        path.unlink(missing_ok=True)
    return known[0] if known else None


def forget_claims(home: Path) -> None:
    """Remove what is known of a journal's claims, for whoever is about to rebuild them."""
    for path in marker_paths(home):
        marker = _read(path)
        if marker is not None and marker.claims >= 0:
            _replace(path, msgspec.json.encode(msgspec.structs.replace(marker, claims=-1)), is_durable=False)


class Marking:
    """The markers of a journal that is open for writing: compared first, written now and then and at the end."""

    def __init__(
        self, home: Path, db: sqlite3.Connection, sync: Callable[[], None] = lambda: None, *, is_durable: bool = True
    ) -> None:
        self._home, self._db, self._sync, self._left = home, db, sync, EVERY
        try:
            found = check(home, db)
        except sqlite3.Error as error:
            raise JournalError(f"cannot read the journal in {home}: {error}") from None
        if found is not None and not all(_is_marked(path, found) for path in marker_paths(home)):
            write(home, found, is_durable=is_durable)

    def count(self) -> None:
        """A batch is on disk; now and then that is remembered."""
        self._left -= 1
        if self._left < 0:
            self._left = EVERY
            self._sync()  # a marker must not know more than the disk
            self._mark()

    def close(self) -> None:
        """Remember how far it has come, and how many keys are claimed."""
        self._mark(is_last=True)

    def _mark(self, *, is_last: bool = False) -> None:
        with contextlib.suppress(sqlite3.Error, OSError):  # an older marker holds as well
            found = read_identity(self._db)
            if found is not None:
                claims = self._db.execute(CLAIMS).fetchone()[0] if is_last else -1
                write(self._home, msgspec.structs.replace(found, claims=claims))


def marker_paths(home: Path) -> tuple[Path, ...]:
    """The marker in a home, and its twin in the user's state folder; another one there for a home that is a link.

    That one is named after the link: who turns the link to another folder finds the journal missed there.
    """
    state = Path(os.environ.get(STATE_VARIABLE) or os.path.expanduser("~/.local/state"), "detent", "homes")
    above, name = os.path.split(os.path.abspath(home))
    places = dict.fromkeys((os.path.realpath(home), os.path.join(os.path.realpath(above), name)))
    return home / HOME_MARKER, *(state / f"{_digest(place)}.json" for place in places)


def _digest(place: str) -> str:
    return hashlib.sha256(os.fsencode(place)).hexdigest()[:32]


def _is_marked(path: Path, found: Marker) -> bool:
    """Whether a marker is of this journal; how far it had come is told at the end."""
    marker = _read(path)
    return marker is not None and (marker.journal_id, marker.epoch) == (found.journal_id, found.epoch)


def _read(path: Path) -> Marker | None:
    """A marker; None where there is none that can be read: it only ever adds to what the other one says."""
    try:
        with path.open("rb") as file:
            return msgspec.json.decode(file.read(MARKER_BYTES_MAX), type=Marker)
    except (OSError, msgspec.MsgspecError):
        return None


def _replace(path: Path, body: bytes, *, is_durable: bool) -> None:
    draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    try:
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(body)
            if is_durable:
                file.flush()
                os.fsync(file.fileno())
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
