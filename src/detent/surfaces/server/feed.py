"""Feeds: runs followed once for everybody who looks on, event by event, in the order in which they were written.

A feed keeps its latest messages, already encoded, and each stream only its place. Whoever falls behind what is kept is
caught up from the journal, so a slow reader costs no memory and misses nothing.
"""

import asyncio
from collections.abc import Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from detent.core.history import Entry
from detent.core.run import Run
from detent.errors import DetentError
from detent.host.port import Reader
from detent.host.reading import Step
from detent.host.ring import Ring
from detent.kit.http.sse import message
from detent.surfaces.server import api_view, shape
from detent.surfaces.server.webhook import MACHINE as WEBHOOK

if TYPE_CHECKING:
    from detent.surfaces.server.server_context import HttpServer

LIST_PAUSE_S = 0.02  # between two messages of the list, and so much more for every stream they must be written to:
LIST_PAUSE_EACH_S = 0.0005
KEPT = 256  # messages a feed keeps
KEPT_BYTES = 1024 * 1024
RUN_KEPT_BYTES = 128 * 1024  # of each run that is watched; there may be many
TROUBLE_S = 1.0


class Frame(NamedTuple):
    """One message of a feed: its place, the place before it, and its bytes."""

    place: int
    after: int
    body: bytes


class Moved(msgspec.Struct, frozen=True, omit_defaults=True):
    """A message of the list: the runs that moved as they are now, and which events made them."""

    cursor: int
    runs: list[shape.RunLine]
    events: list[tuple[str, int]]
    waiting: int | None = None  # open questions of all runs, where these have changed how many there are
    titles: dict[str, str] = {}  # of the machines that ask, by digest


class Feed:
    """The latest messages of one subject, and a bell for those who wait for the next."""

    def __init__(self, place: int, kept_bytes: int = KEPT_BYTES) -> None:
        self.place = place  # of the newest message
        self._kept_bytes = kept_bytes
        self.lookers = 0
        self.is_over = False
        self._kept: list[Frame] = []
        self._bytes = 0
        self._bell = Ring()

    def add(self, frame: Frame) -> None:
        """Keep a message and forget the oldest ones."""
        self._kept.append(frame)
        self._bytes += len(frame.body)
        while len(self._kept) > KEPT or (self._bytes > self._kept_bytes and len(self._kept) > 1):
            self._bytes -= len(self._kept.pop(0).body)
        self.place = frame.place

    def ring(self) -> None:
        """Wake everybody who waits."""
        bell, self._bell = self._bell, Ring()
        bell.set()

    @property
    def bell(self) -> Ring:
        """What the next ring will set; to be taken before looking, so that no ring is missed."""
        return self._bell

    def since(self, place: int) -> Sequence[Frame] | None:
        """The messages after a place; None when none of those kept begins there: the journal has what is between."""
        if place >= self.place:
            return ()
        ready = list(takewhile(lambda frame: frame.place > place, reversed(self._kept)))[::-1]
        return ready if ready and ready[0].after == place else None


class RunFeed(Feed):
    """The events of one run, made into messages once for all who watch it."""

    def __init__(self, run: Run) -> None:
        super().__init__(run.seq, RUN_KEPT_BYTES)
        self.run_id = run.id
        self._run = run
        self.is_over = run.ended is not None
        self.filling: asyncio.Task[None] | None = None

    async def fill(self, reader: Reader) -> None:
        """Take what comes, until the run has ended."""
        try:
            async for entry in reader.follow(self.run_id, self.place):
                self.add(frame_of(entry, self._run))
                self._run = entry.run
                self.ring()
            self.is_over = self._run.ended is not None
        except DetentError:
            self.is_over = True  # a damaged run ends its streams; `verify` says what is wrong with it
        self.ring()


def frame_of(entry: Entry, before: Run) -> Frame:
    """An event of a run as a message."""
    return Frame(entry.seq, entry.seq - 1, message("entry", api_view.log_entry(entry, before), entry.seq))


class Feeds:
    """All feeds of a server, each filled by a task as long as anybody looks on."""

    def __init__(self, room: "HttpServer", tasks: asyncio.TaskGroup) -> None:
        self._room, self._tasks = room, tasks
        self.list = Feed(0)
        self.runs: dict[str, RunFeed] = {}
        self._telling: asyncio.Task[None] | None = None
        self._opening = asyncio.Lock()

    async def open_run(self, run_id: str) -> RunFeed:
        """The feed of a run; to be closed again."""
        async with self._opening:
            feed = self.runs.get(run_id)
            if feed is None:
                now = await self._room.ask(self._room.reader.standing, run_id)
                feed = self.runs[run_id] = RunFeed(now.run)
                feed.filling = None if feed.is_over else self._tasks.create_task(feed.fill(self._room.reader))
            feed.lookers += 1
            return feed

    def close_run(self, feed: RunFeed) -> None:
        """One looker less; the last one takes the feed with it."""
        feed.lookers -= 1
        if feed.lookers > 0:
            return
        if self.runs.get(feed.run_id) is feed:
            del self.runs[feed.run_id]
        if feed.filling is not None:
            feed.filling.cancel()

    async def open_list(self) -> Feed:
        """The feed of the list; to be closed again."""
        async with self._opening:
            if self._telling is None:
                self.list = Feed(await self._room.ask(self._room.reader.cursor))
                self._telling = self._tasks.create_task(self._tell(self.list))
            self.list.lookers += 1
            return self.list

    def close_list(self) -> None:
        """One looker less."""
        self.list.lookers -= 1
        if not self.list.lookers and self._telling is not None:
            self._telling.cancel()
            self._telling = None

    def close(self) -> None:
        """End every stream."""
        for feed in (self.list, *self.runs.values()):
            feed.ring()
        for task in (self._telling, *(feed.filling for feed in self.runs.values())):
            if task is not None:
                task.cancel()

    async def _tell(self, feed: Feed) -> None:
        """Pass on to those who look at the list what moved; several steps at once, the more the lookers."""
        reader = self._room.reader
        while True:
            try:
                async for steps in reader.follow_all(feed.place):
                    feed.add(await self._room.ask(list_frame, self._room, steps, feed.place))
                    feed.ring()
                    await asyncio.sleep(LIST_PAUSE_S + LIST_PAUSE_EACH_S * feed.lookers)
                return
            except DetentError:
                await asyncio.sleep(TROUBLE_S)  # the file cannot be read now; the next look begins where this did


def list_frame(room: "HttpServer", steps: Sequence[Step], after: int, *, is_missed: bool = False) -> Frame:
    """One message about all runs that moved in these steps."""
    shown = [step for step in steps if step.name != WEBHOOK.name]
    runs = room.reader.summaries(dict.fromkeys(step.run_id for step in shown))
    cursor = steps[-1].cursor
    titles = {digest: room.desk.title(digest) for digest in {one.machine for one in runs if one.waiting}}
    events = [(step.run_id, step.seq) for step in shown]
    waiting = room.desk.note(runs, is_missed=is_missed)
    told = Moved(cursor, [api_view.line(one) for one in runs], events, waiting, titles)
    return Frame(cursor, after, message("runs", told, cursor))
