"""Addresses of runs: the list, the start, and where one stands."""

import hashlib
from typing import Any

import msgspec

from detent.core.events import Started
from detent.core.schema import problems
from detent.core.status import Status
from detent.errors import Refused
from detent.host.embedded.listing import Listing
from detent.host.embedded.live import load
from detent.host.reading import Query
from detent.surfaces.server import shape, view
from detent.surfaces.server.room import Room
from detent.surfaces.server.route import Call, Route
from detent.surfaces.server.trouble import BadRequest
from detent.surfaces.server.webhook import MACHINE as WEBHOOK


async def list_runs(room: Room, call: Call) -> shape.RunPage:
    """One page of runs, newest first."""
    query: shape.RunQuery = call.query
    search = Query(
        status=tuple(Status(name) for name in query.status),
        name=query.machine,
        text=query.text,
        since=query.since,
        until=query.until,
        is_top=query.top,
        without=() if query.machine else (WEBHOOK.name,),
        before=query.before,
        limit=query.limit,
    )
    return await room.read(_page, search)


def _page(journal: Listing, search: Query) -> shape.RunPage:
    cursor = journal.cursor()  # first: whoever streams on from here misses nothing
    found = journal.search(search)
    lines = [view.line(record.summary) for record in found.records]
    return shape.RunPage(lines, found.next or None, journal.waiting_count(), cursor)


async def start(room: Room, call: Call) -> shape.RunView:
    """Begin a run."""
    given: shape.Begin = call.body
    definition = await room.library.load(given.definition)
    found = problems(definition.input, given.input, "input")
    if found:
        raise BadRequest("; ".join(found), 422)
    run_id = run_id_of(given.key)
    if run_id:
        await room.read(check_same, run_id, given.key, definition.machine.digest, given.input)
    begun = await room.host.start(
        definition.machine,
        given.input,
        run_id=run_id,
        by=call.by,
        session=given.session,
        source=definition.source,
    )
    return await standing(room, begun.id)


def run_id_of(key: str) -> str:
    """The id of the run that a key stands for; nothing for none."""
    return f"k{hashlib.sha256(key.encode()).hexdigest()[:15]}" if key else ""


def check_same(journal: Listing, run_id: str, key: str, digest: str, given: dict[str, Any]) -> None:
    """A key that was used before must have been used for the same."""
    record = journal.record(run_id)
    if record is None:
        return
    first = next((event for _, event, _, _ in journal.events(record.no, upto=1)), None)
    if not isinstance(first, Started) or (first.machine, first.input) != (digest, given):
        raise Refused(f"the key `{key}` has started run {run_id} with something else; take another key")


async def show(room: Room, call: Call) -> shape.RunView:
    """Where a run stands."""
    record = await room.find(call.path["run_id"])
    return await standing(room, record.summary.run_id)


async def standing(room: Room, run_id: str) -> shape.RunView:
    """Where a run stands, with why."""
    return await room.read(_standing, run_id)


def _standing(journal: Listing, run_id: str) -> shape.RunView:
    live = load(journal, run_id)
    return view.run_view(live, live.run.seq, view.why(journal, run_id, live.run.seq))


async def machines(room: Room, _: Call) -> list[str]:
    """The names of machines that runs were started of, for a filter."""
    return await room.read(lambda journal: [name for name in journal.names() if name != WEBHOOK.name])


class Health(msgspec.Struct, frozen=True):
    """Whether the server works, and who holds the journal."""

    ok: bool
    version: str
    is_holder: bool
    streams: int
    cursor: int


async def health(room: Room, _: Call) -> Health:
    """A small sign of life that has really looked into the journal."""
    from importlib.metadata import version

    cursor = await room.read(Listing.cursor)
    return Health(True, version("detent"), room.host.is_holder, room.feeds.streams, cursor)


ROUTES = (
    Route("GET", "/api/runs", list_runs, "The runs, newest first", shape.RunPage, query=shape.RunQuery,
          about="Filters go together. A search over text, machine or time looks at 20,000 runs per request: a page may "
                "be short, or empty, and still have `next`."),
    Route("POST", "/api/runs", start, "Start a run", shape.RunView, takes=shape.Begin, status=201, errors=(404, 409)),
    Route("GET", "/api/machines", machines, "Names of machines that have runs", list[str]),
    Route("GET", "/api/runs/{run_id}", show, "Where a run stands, and why", shape.RunView, errors=(404, 409)),
    Route("GET", "/healthz", health, "Whether the server works", Health, is_open=True, tag="server"),
)  # fmt: skip
