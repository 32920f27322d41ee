"""The desk: every open question of a journal as one line each, in memory, so that ten thousand of them can be paged.

It is an index of what the list of runs says, brought up to date from the order of all events whenever somebody asks.
Whoever looks at a list gets it as it was at one moment, decided questions included: nothing moves under a pointer.
"""

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from detent.core.question import Reason
from detent.errors import DetentError
from detent.host.port import Reader
from detent.host.reading import OpenQuestion, Summary

CATCH_UP_MAX = 5_000  # events; when more were written since, everything is read anew
CLOSED_MAX = 20_000  # decided questions that older lists can still show
TEXT_MAX = 300  # letters of a question that a line keeps
GROUPS_MAX = 200
HOUR_S = 3600.0
AGES = (("hour", HOUR_S), ("day", 24 * HOUR_S), ("week", 168 * HOUR_S), ("older", float("inf")))
Group = Literal["", "machine", "effect", "by", "age"]
Age = Literal["", "hour", "day", "week", "older"]
Key = tuple[str, str]  # run and contract


class DeskLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """One question in a list: enough to find it and to choose it."""

    run_id: str
    contract_id: str
    machine: str
    title: str
    digest: str
    action: str
    effect: str
    reason: Reason
    question: str
    call_hash: str
    since: float
    by: str = ""
    batch: bool = False  # a plain yes is wanted, and many may be given at once
    decided: bool = False


class DeskGroup(msgspec.Struct, frozen=True):
    """Questions that have something in common."""

    name: str
    count: int
    oldest: float


class DeskPage(msgspec.Struct, frozen=True):
    """A part of a list as it was at the moment `at`; `cursor` is where `/api/events` goes on from."""

    lines: list[DeskLine]
    offset: int
    matching: int  # in the list of that moment
    open: int  # of them, how many nobody has decided yet
    total: int  # open questions of the whole journal, now
    groups: list[DeskGroup]
    newest: float  # when the last question of that list was asked
    at: int
    cursor: int


class DeskFilter(NamedTuple):
    """Which questions; what is left empty does not matter."""

    machine: str = ""
    effect: str = ""
    by: str = ""
    age: Age = ""
    text: str = ""
    digest: str = ""
    action: str = ""
    is_batch: bool = False

    def takes(self, line: DeskLine, now: float) -> bool:
        """Whether a question is meant."""
        if self.text and self.text.lower() not in _words(line).lower():
            return False
        if self.age and age_of(line, now) != self.age:
            return False
        wanted = ((self.machine, line.machine), (self.effect, line.effect), (self.by, line.by))
        same = (*wanted, (self.digest, line.digest), (self.action, line.action))
        return all(not wish or wish == has for wish, has in same) and (line.batch or not self.is_batch)


class _Placed(NamedTuple):
    line: DeskLine
    opened: int  # the moments it came and went, as cursors of the desk
    closed: int = 0


class QuestionDesk:
    """The open questions of a journal, and those that were decided lately."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._turn = threading.Lock()
        self._cursor = -1  # nothing was read yet
        self._open: dict[str, dict[str, _Placed]] = {}  # by run, then by contract
        self._closed: deque[_Placed] = deque()
        self._noted = 0  # how many open questions the last message told of
        self._forgotten = 0  # lists older than this moment cannot be shown any more
        self._titles: dict[str, str] = {}
        self._alike: Counter[tuple[str, str]] = Counter()  # by machine and action: what can be approved together

    def read(self, wanted: DeskFilter, at: int = 0, offset: int = 0, limit: int = 100, group: Group = "") -> DeskPage:
        """A part of a list: as it is now, or as it was at a moment somebody has a list of."""
        now = time.time()
        with self._turn:
            self._catch_up()
            cursor = self._cursor
            moment = at if self._forgotten <= at <= cursor and at else cursor
            found = [one for one in self._as_of(moment) if wanted.takes(one.line, now)]
            total = self._count()
        # Of those asked at one moment the shorter name first: item 2 of a loop stands before item 10.
        found.sort(key=lambda one: (one.line.since, one.line.run_id, len(one.line.contract_id), one.line.contract_id))
        shown = [replace(one.line, decided=True) if one.closed else one.line for one in found[offset : offset + limit]]
        is_open = [one.line for one in found if not one.closed]
        counts = (offset, len(found), len(is_open), total)
        newest = found[-1].line.since if found else 0.0
        return DeskPage(shown, *counts, _groups(is_open, group, now), newest, moment, cursor)

    def keys(self, wanted: DeskFilter, limit: int) -> tuple[list[Key], int, int]:
        """The oldest open questions, how many there are, and where the journal was."""
        page = self.read(wanted, limit=limit)
        return [(line.run_id, line.contract_id) for line in page.lines], page.open, page.cursor

    def count_alike(self, digest: str, action: str) -> int:
        """How many open questions of one action can be approved together."""
        with self._turn:
            self._catch_up()
            return self._alike[digest, action]

    def note(self, moved: Iterable[Summary], *, is_missed: bool = False) -> int | None:
        """How many questions are open after these runs moved; None where everybody has been told that already."""
        with self._turn:
            is_about = is_missed or any(one.waiting or one.run_id in self._open for one in moved)
            if is_about:
                self._catch_up()
            count = self._count()
            if count == self._noted and not is_about:
                return None
            self._noted = count
            return count

    def title(self, digest: str) -> str:
        """What a machine calls itself for people."""
        if digest not in self._titles:
            try:
                self._titles[digest] = self._reader.machine(digest).title
            except DetentError:
                return ""  # it is gone or damaged; its name must do
        return self._titles[digest]

    def _count(self) -> int:
        return sum(len(contracts) for contracts in self._open.values())

    def _as_of(self, moment: int) -> Iterable[_Placed]:
        yield from (one for held in self._open.values() for one in held.values() if one.opened <= moment)
        yield from (one for one in self._closed if one.opened <= moment < one.closed)

    def _catch_up(self) -> None:
        """Read what was written since; everything, where that is quicker."""
        cursor = self._reader.cursor()
        if self._cursor < 0 or not 0 <= cursor - self._cursor <= CATCH_UP_MAX:
            waiting = {one.run_id: one for one in self._reader.waiting()}
            for run_id in [*self._open, *(name for name in waiting if name not in self._open)]:
                self._take(run_id, waiting.get(run_id), cursor)
        elif cursor > self._cursor:
            moved = {step.run_id for step in self._reader.steps(self._cursor, CATCH_UP_MAX)}
            found = {one.run_id: one for one in self._reader.summaries(moved)}
            for run_id in moved:
                self._take(run_id, found.get(run_id), cursor)
        self._cursor = cursor

    def _take(self, run_id: str, now: Summary | None, cursor: int) -> None:
        """The questions of one run as they are now."""
        held = self._open.get(run_id, {})
        asked = {} if now is None else {one.contract_id: line_of(now, one, self.title) for one in now.waiting}
        kept = {name: one for name, one in held.items() if _is_same(one.line, asked.get(name))}
        for name, one in held.items():
            if name not in kept:
                self._close(one._replace(closed=cursor))
                self._alike[one.line.digest, one.line.action] -= one.line.batch
        fresh = {name: _Placed(line, cursor) for name, line in asked.items() if name not in kept}
        for one in fresh.values():
            self._alike[one.line.digest, one.line.action] += one.line.batch
        if kept or fresh:
            self._open[run_id] = kept | fresh
        else:
            self._open.pop(run_id, None)

    def _close(self, one: _Placed) -> None:
        self._closed.append(one)
        if len(self._closed) > CLOSED_MAX:
            self._forgotten = max(self._forgotten, self._closed.popleft().closed)


def line_of(run: Summary, asked: OpenQuestion, find_title: Callable[[str], str]) -> DeskLine:
    """A question as a line."""
    text = asked.question if len(asked.question) <= TEXT_MAX else f"{asked.question[:TEXT_MAX]}…"
    return DeskLine(
        run_id=run.run_id,
        contract_id=asked.contract_id,
        machine=run.name,
        title=find_title(run.machine),
        digest=run.machine,
        action=asked.action,
        effect=asked.call.effect,
        reason=asked.reason,
        question=text,
        call_hash=asked.call_hash,
        since=asked.since,
        by=run.by,
        batch=is_batchable(asked),
    )


def is_batchable(asked: OpenQuestion) -> bool:
    """Whether many like it may be approved at once: never a doubt, a form, a repeat, or what must be signed."""
    return asked.reason == "approval" and not asked.earlier and not asked.require_signature


def age_of(line: DeskLine, now: float) -> str:
    """How long a question has been waiting, roughly."""
    return next(name for name, most in AGES if now - line.since < most)


def _is_same(line: DeskLine, other: DeskLine | None) -> bool:
    return other is not None and (line.since, line.call_hash, line.question) == (
        other.since,
        other.call_hash,
        other.question,
    )


def _words(line: DeskLine) -> str:
    return " ".join((line.question, line.title, line.machine, line.effect, line.by, line.run_id, line.contract_id))


def _groups(lines: list[DeskLine], group: Group, now: float) -> list[DeskGroup]:
    if not group:
        return []
    named = [(age_of(line, now) if group == "age" else str(getattr(line, group)), line.since) for line in lines]
    oldest: dict[str, float] = {}
    for name, since in named:
        oldest.setdefault(name, since)  # they come oldest first
    counts = Counter(name for name, _ in named).most_common(GROUPS_MAX)
    return [DeskGroup(name, count, oldest[name]) for name, count in counts]
