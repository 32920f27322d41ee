"""What a journal answers, whatever keeps it: its rows as values, and everything one run writes in one transaction.

Events are the truth; each carries the hash of the one before it. The `runs` table and the snapshots are only caches of
the fold, written in the same transaction. The questions are plain SQL that SQLite and PostgreSQL understand alike.
"""

import hashlib
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

import msgspec

from detent.core.events import Event
from detent.core.machine import Machine
from detent.core.status import Status
from detent.errors import DefinitionError, JournalError, Refused, Unknown
from detent.host.reading import Note, OpenQuestion, Summary
from detent.host.system_run import HOUSEKEEPING

RECORD_MAX = 32 * 1024 * 1024  # bytes of one event
PAGE = 256  # events read at once
MACHINES_MAX = 100  # machines kept ready
# What the list has instead of an error where a run has completed and parts of it failed; the message is how many. A
# column of its own would be a migration for every journal, and older versions show this one as it is.
TOLERATED = "tolerated"

CLAIMS = "select scope, key, run_id, contract_id, call_hash, at from claims"  # older files have columns more
NOTES = "select key, run_id, message, at, delivered_at, tries, problem from outbox"
SUMMARY = (
    "select run_id, name, machine, state, status, seq, started_at, updated_at, wake_at, waiting, by, session, parent,"
    " cost_usd, head, source, no, error, alarms, held_by from runs"
)


EventRow = tuple[int, bytes, bytes]  # its number, its bytes and its hash


class Record(NamedTuple):
    """A run's row with what is needed to go on writing."""

    no: int
    summary: Summary
    head: bytes


class Claim(NamedTuple):
    """Who holds an irreversible deed's key; what came of the deed is in the holder's events, and only there."""

    scope: str
    key: str
    run_id: str
    contract_id: str
    call_hash: str
    at: float


class JournalIdentity(NamedTuple):
    """Which journal this is, for ever, and how often it was restored, and one."""

    journal_id: str
    epoch: int


class Owner(Protocol):
    """Whose events a batch holds."""

    is_broken: bool


class Batch(msgspec.Struct, eq=False):
    """Everything one run writes in one transaction."""

    owner: Owner  # once one of an owner's batches has failed, none of its later ones may be written
    events: list[tuple[int, int, str | None, bytes, bytes]] = []
    machine: Machine | None = None
    insert: tuple[Any, ...] | None = None
    update: tuple[Any, ...] | None = None
    advance: tuple[Any, ...] | None = None
    snapshot: tuple[int, int, str, bytes] | None = None
    claims: tuple[Claim, ...] = ()
    moved: tuple[tuple[str, str, str, str], ...] = ()  # claims that go over to somebody else in this transaction
    freed: tuple[tuple[str, str, str, str], ...] = ()
    fates: tuple[tuple[str, str], ...] = ()  # run and contract of the deeds that ended and keep their keys
    notes: tuple[Note, ...] = ()  # messages to send
    posted: tuple[Note, ...] = ()  # messages sent, or not, just now
    pruned: tuple[tuple[int], ...] = ()  # numbers of runs to forget
    meta: tuple[tuple[str, str], ...] = ()  # what the journal says of itself
    projection: tuple[Any, ...] | None = None  # the row of a projection: only a cache
    is_trailing: bool = False  # it is written now, and need not be on disk yet


class Nobody:
    """The owner of a batch that is about no run in memory."""

    is_broken = False


decode_event = msgspec.json.Decoder(Event).decode
encode = msgspec.json.Encoder().encode


def seal(event: Event) -> tuple[bytes, Event]:
    """An event as bytes, and as those bytes will be read again: what cannot come back must not go in."""
    try:
        body = encode(event)
        if len(body) > RECORD_MAX:
            raise Refused(f"this is {len(body):,} bytes as one event; at most {RECORD_MAX:,} are kept")
        return body, decode_event(body)
    except (msgspec.MsgspecError, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise Refused(f"this cannot be kept: {error}") from None


def chain(head: bytes, body: bytes) -> bytes:
    """The hash of an event: SHA-256 over the hash before it and its own bytes."""
    return hashlib.sha256(head + body).digest()


def genesis(run_id: str) -> bytes:
    """The hash before a run's first event."""
    return hashlib.sha256(run_id.encode()).digest()


class AnyJournal(ABC):
    """The questions of one connection to a journal."""

    summary = SUMMARY

    def __init__(self, name: str) -> None:
        self.name = name  # where it is, for messages
        self.events_read = self.bytes_read = 0
        self.damaged: dict[str, str] = {}  # rows of the list that make no sense, by run id
        self._machines: OrderedDict[str, Machine] = OrderedDict()

    @abstractmethod
    def rows(self, query: str, values: Sequence[Any]) -> list[Any]:
        """What a query finds; `listing`, `idempotency_claim`, `family` and others have queries of their own."""

    @abstractmethod
    def one_moment(self) -> AbstractContextManager[None]:
        """Everything read inside is of one moment, whatever others write meanwhile; for reading, and not for long."""

    @abstractmethod
    def identity(self) -> "JournalIdentity | None":
        """Which journal this is: its id and its epoch; None for a file of a version that had none yet."""

    @abstractmethod
    def check(self) -> list[str]:
        """What the store itself finds wrong; empty when it is sound."""

    @abstractmethod
    def close(self) -> None:
        """Let go."""

    def claim(self, scope: str, key: str) -> Claim | None:
        """Who holds a key."""
        row = self._one(f"{CLAIMS} where scope = ? and key = ?", (scope, key))
        return None if row is None else Claim(*row)

    def machine(self, digest: str) -> Machine:
        """A machine by its digest."""
        known = self._machines.get(digest)
        if known is not None:
            return known
        row = self._one("select body from machines where digest = ?", (digest,))
        if row is None:
            raise Unknown(f"there is no machine {digest[:12]} in {self.name}")
        try:
            machine = Machine.from_json(row[0])
        except (DefinitionError, TypeError, UnicodeDecodeError) as error:
            raise JournalError(f"machine {digest[:12]} in {self.name} is damaged: {error}") from None
        if machine.digest != digest:
            raise JournalError(f"machine {digest[:12]} in {self.name} is damaged: it is {machine.digest[:12]} now")
        self.know(machine)
        return machine

    def know(self, machine: Machine) -> None:
        """Keep a machine ready that is here already, instead of reading and compiling it again."""
        self._machines[machine.digest] = machine
        if len(self._machines) > MACHINES_MAX:
            self._machines.popitem(last=False)

    def has_event(self, no: int, event_id: str) -> bool:
        """Whether the run has an event of that id."""
        return self._one("select 1 from events where run = ? and id = ?", (no, event_id)) is not None

    def record(self, run_id: str) -> Record | None:
        """A run's row by its whole id."""
        row = self._one(f"{self.summary} where run_id = ?", (run_id,))
        return None if row is None else record_of_row(row)

    def find(self, prefix: str) -> list[Record]:
        """The runs whose id begins like this, newest first; at most ten."""
        like = prefix.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"
        query = f"{self.summary} where run_id like ? escape '\\' order by parent <> '', no desc limit 10"
        return [record_of_row(row) for row in self.rows(query, (like,))]

    def newest(self) -> Record | None:
        """The run started last that is nobody's child, and none of detent's own."""
        own = ", ".join("?" * len(HOUSEKEEPING))
        where = f"parent = '' and name not in ({own}) and machine not in ({own})"
        row = self._one(f"{self.summary} where {where} order by no desc limit 1", (*HOUSEKEEPING, *HOUSEKEEPING))
        return None if row is None else record_of_row(row)

    def runs(self, status: Iterable[Status] = (), name: str = "", limit: int = 100, before: int = 0) -> list[Record]:
        """Runs, newest first."""
        wanted = [s.value for s in status]
        where: list[str] = []
        values: list[str | int] = [*wanted]
        if wanted:
            where.append(f"status in ({', '.join('?' * len(wanted))})")
        if name:
            where.append("name = ?")
            values.append(name)
        if before:
            where.append("no < ?")
            values.append(before)
        clause = f" where {' and '.join(where)}" if where else ""
        found = []
        for row in self.rows(f"{self.summary}{clause} order by no desc limit ?", (*values, limit)):
            try:
                found.append(record_of_row(row))
            except JournalError as error:
                self.damaged[str(row[0])] = str(error)  # one bad row must not hide the others
        return found

    def session(self, session: str, limit: int = 100) -> list[Record]:
        """The runs of a session whose ids begin with its name, newest first."""
        query = f"{self.summary} where run_id > ? and run_id < ? and session = ? order by run_id desc limit ?"
        return [record_of_row(row) for row in self.rows(query, (f"{session}-", f"{session}-~", session, limit))]

    def timers(self) -> list[tuple[float, str]]:
        """Every run that wants to be woken, soonest first."""
        return self.rows("select wake_at, run_id from runs where wake_at is not null order by wake_at", ())

    def list_unattended(self) -> list[str]:
        """The runs that were at work, or paused by their host, when the last writer stopped, oldest first."""
        query = (
            "select run_id, no from runs where status in ('running', 'pending')"
            " union select run_id, no from runs where held_by = 'host' order by no"
        )
        return [row[0] for row in self.rows(query, ())]

    def notes(self, run_id: str = "") -> list[Note]:
        """The messages of a run, or those of all runs that are not delivered, oldest first."""
        where, values = (" where run_id = ?", (run_id,)) if run_id else (" where delivered_at = 0", ())
        rows = self.rows(f"{NOTES}{where} order by at, key", values)
        return [Note(*row)._replace(message=msgspec.json.decode(row[2])) for row in rows]

    def next_no(self) -> int:
        """The number for the next run."""
        row = self._one("select coalesce(max(no), 0) + 1 from runs", ())
        return int(row[0]) if row else 1

    def is_away(self, error: Exception) -> bool:  # noqa: ARG002  # a file is there
        """Whether an error only says that nothing can be read just then."""
        return False

    def events(self, no: int, after: int = 0, upto: int = 0) -> Iterator[tuple[int, Event, bytes, bytes]]:
        """A run's events as (seq, event, body, hash).

        They are read a page at a time: a query left open would show every other reader of this connection an old
        journal for as long as somebody looks at this run.
        """
        query = (
            "select seq, cast(body as blob), cast(hash as blob) from events"
            " where run = ? and seq > ? and seq <= ? order by seq limit ?"
        )
        seq = after
        while True:
            try:
                page = self.rows(query, (no, seq, upto or 2**62, PAGE))
            except (JournalError, UnicodeDecodeError) as error:
                if self.is_away(error):
                    raise
                raise JournalError(f"run {self._name(no)} is damaged after event {seq}: {error}") from None
            for found in self.decode(no, page):
                seq = found[0]
                yield found
            if len(page) < PAGE:
                return

    def decode(self, no: int, page: Iterable[EventRow]) -> Iterator[tuple[int, Event, bytes, bytes]]:
        """Events from their rows."""
        for number, body, hashed in page:
            try:
                event = decode_event(body)
            except (msgspec.MsgspecError, UnicodeDecodeError, TypeError) as error:
                raise JournalError(f"run {self._name(no)} is damaged at event {number}: {error}") from None
            self.events_read += 1
            self.bytes_read += len(body)
            yield number, event, body, hashed

    def _name(self, no: int) -> str:
        try:
            row = self._one("select run_id from runs where no = ?", (no,))
        except JournalError:
            row = None
        return str(row[0]) if row else f"no. {no}"

    def snapshot(self, no: int, upto: int) -> tuple[int, str, bytes] | None:
        """The latest cached fold of a run up to that event, if any: (seq, engine, body)."""
        query = (
            "select seq, engine, cast(body as blob) from snapshots where run = ? and seq <= ? order by seq desc limit 1"
        )
        try:
            row = self._one(query, (no, upto))
        except JournalError:
            return None  # only a cache: without it the events are folded again
        return None if row is None else (row[0], row[1], row[2])

    def hash_at(self, no: int, seq: int) -> bytes | None:
        """The hash of one event."""
        row = self._one("select hash from events where run = ? and seq = ?", (no, seq))
        return None if row is None else row[0]

    def _one(self, query: str, values: Sequence[Any]) -> Any:
        return next(iter(self.rows(query, values)), None)


_questions = msgspec.json.Decoder(tuple[OpenQuestion, ...]).decode


def _read_error(text: str, status: Status) -> tuple[dict[str, str] | None, int]:
    """Why a run has not ended well, and how much failed of one that has; a tool may name its errors as it likes."""
    error = msgspec.json.decode(text) if text else None
    return (None, int(error["message"])) if error and status is Status.COMPLETED else (error, 0)


def record_of_row(row: Any) -> Record:
    """A row of `SUMMARY` as a value."""
    try:
        error, failed = _read_error(row[17], Status(row[4]))
        summary = Summary(
            run_id=row[0], name=row[1], machine=row[2], state=row[3], status=Status(row[4]), seq=row[5],
            started_at=row[6], updated_at=row[7], wake_at=row[8] or 0.0, waiting=_questions(row[9]),
            by=row[10], session=row[11], parent=row[12], cost_usd=row[13], checkpoint=row[14].hex(), source=row[15],
            no=row[16], error=error, failed=failed,
            alarms=tuple(msgspec.json.decode(row[18])) if row[18] else (), held_by=row[19],
        )  # fmt: skip
    except (ValueError, TypeError, KeyError, AttributeError, msgspec.MsgspecError) as error:
        raise JournalError(f"run {row[0]} is damaged: its entry in the list makes no sense ({error})") from None
    return Record(row[16], summary, row[14])
