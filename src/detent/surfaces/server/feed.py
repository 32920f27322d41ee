"""Feeds: the journal read once for everybody who looks on, event by event, in the order in which it was written.

A feed keeps its latest messages, already encoded, and each stream only its place. Whoever falls behind what is kept is
caught up from the journal, so a slow reader costs no memory and misses nothing.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from detent.core.history import Entry
from detent.core.run import Run
from detent.errors import DetentError
from detent.host.embedded.listing import Listing
from detent.host.embedded.reader import Follower
from detent.host.reading import Step
from detent.surfaces.server import shape, view
from detent.surfaces.server.webhook import MACHINE as WEBHOOK

if TYPE_CHECKING:
    from detent.surfaces.server.room import Room

PAUSE_S = 0.015  # how often the journal is looked at while somebody looks on
LIST_PAUSE_S = 0.02  # between two messages of the list, and so much more for every stream they must be written to:
LIST_PAUSE_EACH_S = 0.0005
KEPT = 256  # messages a feed keeps
KEPT_BYTES = 1024 * 1024
RUN_KEPT_BYTES = 128 * 1024  # of each run that is watched; there may be many
TROUBLE_S = 1.0
STEPS_MAX = 500  # events in one message of the list
_encode = msgspec.json.Encoder().encode


class Frame(NamedTuple):
    """One message of a feed: its place, the place before it, and its bytes."""

    place: int
    after: int
    body: bytes


class Moved(msgspec.Struct, frozen=True):
    """A message of the list: the runs that moved as they are now, and which events made them."""

    cursor: int
    runs: list[shape.RunLine]
    events: list[tuple[str, int]]


def message(kind: str, value: Any, place: int | None = None) -> bytes:
    """One message as Server-Sent Events write it."""
    head = b"" if place is None else b"id: %d\n" % place
    return b"event: %s\n%sdata: %s\n\n" % (kind.encode(), head, _encode(value))


class Feed:
    """The latest messages of one subject, and a bell for those who wait for the next."""

    def __init__(self, place: int, kept_bytes: int = KEPT_BYTES) -> None:
        self.place = place  # of the newest message
        self._kept_bytes = kept_bytes
        self.lookers = 0
        self.is_over = False
        self._kept: deque[Frame] = deque()
        self._bytes = 0
        self._bell = asyncio.Event()

    def add(self, frame: Frame) -> None:
        """Keep a message and forget the oldest ones."""
        self._kept.append(frame)
        self._bytes += len(frame.body)
        while len(self._kept) > KEPT or (self._bytes > self._kept_bytes and len(self._kept) > 1):
            self._bytes -= len(self._kept.popleft().body)
        self.place = frame.place

    def ring(self) -> None:
        """Wake everybody who waits."""
        bell, self._bell = self._bell, asyncio.Event()
        bell.set()

    @property
    def bell(self) -> asyncio.Event:
        """What the next ring will set; to be taken before looking, so that no ring is missed."""
        return self._bell

    def skip(self, place: int) -> None:
        """Go on from another place; what was before is only in the journal."""
        self._kept.clear()
        self._bytes = 0
        self.place = place

    def since(self, place: int) -> Sequence[Frame] | None:
        """The messages after a place; None when none of those kept begins there: the journal has what is between."""
        if place >= self.place:
            return ()
        ready = [frame for frame in self._kept if frame.place > place]
        return ready if ready and ready[0].after == place else None


class RunFeed(Feed):
    """The events of one run, folded once for all who watch it."""

    def __init__(self, journal: Listing, run_id: str, last: int) -> None:
        super().__init__(last, RUN_KEPT_BYTES)
        self.run_id = run_id
        self._follower = Follower(journal, run_id, last)
        for _ in self._follower.more(last):
            pass
        self._run: Run = self._follower.run
        self.is_over = self._run.ended is not None

    def pull(self) -> None:
        """Read what has come."""
        for entry in self._follower.more():
            self.add(frame_of(entry, self._run))
            self._run = entry.run
        self.is_over = self._run.ended is not None


def frame_of(entry: Entry, before: Run) -> Frame:
    """An event of a run as a message."""
    return Frame(entry.seq, entry.seq - 1, message("entry", view.log_entry(entry, before), entry.seq))


class Feeds:
    """All feeds of a server, filled by one task that reads the journal while anybody looks on."""

    def __init__(self, room: "Room") -> None:
        self._room = room
        self.streams = 0
        self.list = Feed(0)
        self.runs: dict[str, RunFeed] = {}
        self._journal: Listing | None = None
        self._place = 0  # up to where runs were told
        self._list_at = 0.0  # when the list was last told
        self._wanted = asyncio.Event()
        self._is_closed = False

    @property
    def journal(self) -> Listing:
        """The connection that is only used in the loop."""
        if self._journal is None:
            self._journal = Listing(self._room.home / "journal.db")
        return self._journal

    def open_run(self, run_id: str) -> RunFeed:
        """The feed of a run; to be closed again."""
        self._begin()
        feed = self.runs.get(run_id)
        if feed is None:
            record = self.journal.record(run_id)
            feed = self.runs[run_id] = RunFeed(self.journal, run_id, record.summary.seq if record else 0)
        feed.lookers += 1
        return feed

    def close_run(self, feed: RunFeed) -> None:
        """One looker less; the last one takes the feed with it."""
        feed.lookers -= 1
        if feed.lookers <= 0 and self.runs.get(feed.run_id) is feed:
            del self.runs[feed.run_id]

    def open_list(self) -> Feed:
        """The feed of the list."""
        self._begin()
        self.list.lookers += 1
        return self.list

    def close_list(self) -> None:
        """One looker less."""
        self.list.lookers -= 1

    def _begin(self) -> None:
        """Start to look, from here on, if nobody did."""
        if not self.is_wanted:
            self.list = Feed(self.journal.cursor())
            self._place = self.list.place
            self._wanted.set()

    @property
    def is_wanted(self) -> bool:
        """Whether anybody looks on."""
        return bool(self.runs) or self.list.lookers > 0

    def close(self) -> None:
        """End every stream."""
        self._is_closed = True
        for feed in (self.list, *self.runs.values()):
            feed.ring()

    async def run(self) -> None:
        """Look at the journal as long as anybody wants to know."""
        version = -1
        try:
            while not self._is_closed:
                if not self.is_wanted:
                    self._wanted.clear()
                    await self._wanted.wait()
                    version = -1
                try:
                    now = self.journal.data_version()
                    if now != version:
                        self._look()
                        version = now
                    self._tell_list()
                except DetentError:
                    await asyncio.sleep(TROUBLE_S)  # the file cannot be read now; the next look begins where this did
                await asyncio.sleep(PAUSE_S)
        finally:
            if self._journal is not None:
                self._journal.close()

    def _look(self) -> None:
        """Pass on to those who watch one run what was written since."""
        while steps := self.journal.steps(self._place, STEPS_MAX):
            self._place = steps[-1].cursor
            for run_id in dict.fromkeys(step.run_id for step in steps):
                feed = self.runs.get(run_id)
                if feed is None:
                    continue
                try:
                    feed.pull()
                except DetentError:
                    feed.is_over = True  # a damaged run ends its streams; `verify` says what is wrong with it
                feed.ring()

    def _tell_list(self) -> None:
        """Pass on to those who look at the list what runs were told; several steps at once, the more the lookers."""
        if self.list.place >= self._place:
            return
        if not self.list.lookers:
            self.list.skip(self._place)
            return
        now = asyncio.get_running_loop().time()
        if now - self._list_at < LIST_PAUSE_S + LIST_PAUSE_EACH_S * self.list.lookers:
            return
        self._list_at = now
        while steps := self.journal.steps(self.list.place, STEPS_MAX):
            self.list.add(list_frame(self.journal, steps, self.list.place))
        self.list.ring()


def list_frame(journal: Listing, steps: Sequence[Step], after: int) -> Frame:
    """One message about all runs that moved in these steps."""
    shown = [step for step in steps if step.name != WEBHOOK.name]
    records = journal.records(dict.fromkeys(step.run_id for step in shown))
    cursor = steps[-1].cursor
    told = Moved(cursor, [view.line(one.summary) for one in records], [(step.run_id, step.seq) for step in shown])
    return Frame(cursor, after, message("runs", told, cursor))
