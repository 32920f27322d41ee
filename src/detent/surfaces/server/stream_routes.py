"""Addresses that stream: the events of one run, and the whole list as it moves, as Server-Sent Events.

Every event comes once and in order. A message's id is its place: the event's number in its run, or the cursor of the
list; a reader that was cut off sends it as `Last-Event-ID` and misses nothing.
"""

from collections.abc import AsyncIterator
from contextlib import ExitStack

from starlette.responses import Response

from detent.core.run import Run
from detent.host.port import EntryStream, Reader
from detent.host.ring import Ring
from detent.kit.http.http_error import BadRequest
from detent.kit.http.route import HttpCall, Route
from detent.kit.http.sse import BEAT, Stream, message
from detent.surfaces.server import shape
from detent.surfaces.server.feed import Frame, frame_of, list_frame
from detent.surfaces.server.server_context import HttpServer


async def run_events(room: HttpServer, call: HttpCall) -> Response:
    """The events of one run as they come."""
    _check_room(room)
    run_id = (await room.find(call.path["run_id"])).run_id
    return Stream(room, _run_chunks(room, run_id, _after(call) or 0))


async def list_events(room: HttpServer, call: HttpCall) -> Response:
    """The runs as they move."""
    _check_room(room)
    return Stream(room, _list_chunks(room, _after(call)))


def _check_room(room: HttpServer) -> None:
    most = room.settings.limits.streams
    if room.streams >= most:
        raise BadRequest(f"{most:,} streams are open already, which is the most this server takes", 429)


def _after(call: HttpCall) -> int | None:
    """Where to go on: the header that browsers send by themselves, else the parameter."""
    said = call.request.headers.get("last-event-id", "")
    if not said:
        return call.query.after  # type: ignore[no-any-return]
    if not said.isascii() or not said.isdecimal() or len(said) > 15:
        raise BadRequest("Last-Event-ID must be the number of an event")
    return int(said)


async def _run_chunks(room: HttpServer, run_id: str, after: int) -> AsyncIterator[bytes]:
    feed = await room.feeds.open_run(run_id)
    progress = room.progress.open(run_id, feed.ring)
    place = after
    laggard = Laggard(room.reader, run_id)
    try:
        yield _opening(room)
        while not room.is_closing:
            bell = feed.bell
            ready = feed.since(place)
            if ready is None:
                ready = await room.ask(laggard.more, place)
            if ready:
                place = ready[-1].place
                yield b"".join(frame.body for frame in ready)
            elif said := progress.take():
                yield said
            elif feed.is_over and place >= feed.place:
                yield message("end", {"run_id": run_id, "seq": feed.place})
                return
            else:
                yield await _beat(bell, room.settings.limits.heartbeat_seconds)
    finally:
        laggard.close()
        room.progress.close(run_id, progress)
        room.feeds.close_run(feed)


class Laggard:
    """A reader that is behind what its feed keeps, and so has a place of its own in the run."""

    def __init__(self, reader: Reader, run_id: str) -> None:
        self._reader, self._run_id = reader, run_id
        self._open: ExitStack | None = None
        self._place: EntryStream | None = None
        self._run = Run(id=run_id)  # before the next message

    def more(self, place: int) -> list[Frame]:
        """The next few messages after a place."""
        if self._place is None or self._place.seq != place:
            self.close()
            self._open = ExitStack()
            self._place = self._open.enter_context(self._reader.following(self._run_id, place))
            self._run = self._reader.at(self._run_id, place).run if place else Run(id=self._run_id)
        made: list[Frame] = []
        for entry in self._place.more():
            made.append(frame_of(entry, self._run))
            self._run = entry.run
        return made

    def close(self) -> None:
        """Give the place up."""
        if self._open is not None:
            self._open.close()
        self._open = self._place = None


async def _list_chunks(room: HttpServer, after: int | None) -> AsyncIterator[bytes]:
    feed = await room.feeds.open_list()
    place = feed.place if after is None else min(after, feed.place)
    try:
        yield _opening(room) + message("hello", {"cursor": place}, place)
        while not room.is_closing:
            bell = feed.bell
            ready = feed.since(place)
            if ready is None:
                ready = await room.ask(_list_missed, room, place, feed.place)
            if ready:
                place = ready[-1].place
                yield b"".join(frame.body for frame in ready)
            else:
                yield await _beat(bell, room.settings.limits.heartbeat_seconds)
    finally:
        room.feeds.close_list()


def _list_missed(room: HttpServer, place: int, upto: int) -> list[Frame]:
    """What the list's feed no longer keeps, up to where it is: going further, its next message would say it again."""
    steps = [step for step in room.reader.steps(place) if step.cursor <= upto]
    return [list_frame(room, steps, place, is_missed=True)] if steps else []


def _opening(room: HttpServer) -> bytes:
    """When to come back after a cut, and (for our own page; others ignore the field) how often a sign of life comes."""
    return b"retry: 1000\nbeat: %g\n\n" % room.settings.limits.heartbeat_seconds


async def _beat(bell: Ring, heartbeat_s: float) -> bytes:
    """Nothing at the next ring; a sign of life when there is none for long."""
    return b"" if await bell.wait(heartbeat_s) else BEAT


ROUTES = (
    Route("GET", "/api/runs/{run_id}/events", run_events, "The events of a run as they come", query=shape.StreamQuery,
          kind="stream", errors=(404, 409), about="`entry` messages have an id; `progress`, what an effect says while "
          "it is at work, has none and is not kept. A stream that begins while effects are at work is first told with "
          "`said` what each of them has said so far. `end` says that the run has ended and nothing will follow."),
    Route("GET", "/api/events", list_events, "All runs as they move", query=shape.StreamQuery, kind="stream",
          about="`runs` messages hold the runs that moved, as they are now; the id is the cursor of the list."),
)  # fmt: skip
