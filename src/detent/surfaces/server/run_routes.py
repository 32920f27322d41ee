"""Addresses of runs: the list, the start, and where one stands."""

import hashlib
from typing import Any

import msgspec

from detent.core.events import Started
from detent.core.history import Entry
from detent.core.schema import leave_out_secrets, problems
from detent.core.status import Status
from detent.errors import Refused
from detent.host.port import Reader
from detent.host.reading import Query
from detent.host.standing import Standing
from detent.host.system_run import HOUSEKEEPING
from detent.kit.http.http_error import BadRequest
from detent.kit.http.route import HttpCall, Route
from detent.surfaces.server import api_view, shape
from detent.surfaces.server.requester import viewer_of
from detent.surfaces.server.server_context import HttpServer


async def list_runs(room: HttpServer, call: HttpCall) -> shape.RunPage:
    """One page of runs, newest first."""
    query: shape.RunQuery = call.query
    search = Query(
        status=tuple(Status(name) for name in query.status),
        name=query.machine,
        agent=query.agent,
        text=query.text,
        since=query.since,
        until=query.until,
        is_top=query.top,
        without=() if query.machine or query.system else HOUSEKEEPING,
        before=query.before,
        limit=query.limit,
    )
    return await room.ask(_page, room.reader, search)


def _page(reader: Reader, search: Query) -> shape.RunPage:
    cursor = reader.cursor()  # first: whoever streams on from here misses nothing
    found = reader.list(search)
    return shape.RunPage([api_view.line(one) for one in found.runs], found.next or None, reader.waiting_count(), cursor)


async def start(room: HttpServer, call: HttpCall) -> shape.RunView:
    """Begin a run."""
    given: shape.Begin = call.body
    definition = await room.library.load(given.definition)
    plain, _ = definition.machine.take_secrets(given.input)
    found = problems(leave_out_secrets(definition.input), plain, "input")
    if found:
        raise BadRequest("; ".join(found), 422)
    run_id = run_id_of(given.key)
    if run_id:
        await room.ask(_check_same, room.reader, run_id, given.key, definition.machine.digest, plain)
    begun = await room.host.start(
        definition.machine,
        given.input,
        run_id=run_id,
        by=call.by,
        session=given.session,
        source=definition.source,
    )
    return await standing(room, begun.id, call)


def run_id_of(key: str) -> str:
    """The id of the run that a key stands for; nothing for none."""
    return f"k{hashlib.sha256(key.encode()).hexdigest()[:15]}" if key else ""


def _check_same(reader: Reader, run_id: str, key: str, digest: str, given: dict[str, Any]) -> None:
    """A key that was used before must have been used for the same."""
    if reader.summary(run_id) is None:
        return
    first = next(reader.entries(run_id, upto=1)).event
    if not isinstance(first, Started) or (first.machine, first.input) != (digest, given):
        raise Refused(f"the key `{key}` has started run {run_id} with something else; take another key")


async def show(room: HttpServer, call: HttpCall) -> shape.RunView:
    """Where a run stands."""
    return await standing(room, await room.find_run_id(call.path["run_id"]), call)


async def standing(room: HttpServer, run_id: str, call: HttpCall) -> shape.RunView:
    """Where a run stands, with why."""
    found = room.reader.at_hand(run_id)
    if found is None:
        found = await room.ask(_standing, room.reader, run_id)
    who, people = viewer_of(room, call.request)
    shown = api_view.run_view(*found, who=who, people=people)
    if not room.reader.has_workers or found[0].run.status is not Status.RUNNING:
        return shown
    unserved = await room.ask(room.reader.list_unserved, run_id)
    calls = [shape.UnservedCall(one.contract_id, one.lack, one.problem) for one in unserved]
    return msgspec.structs.replace(shown, unserved=calls)


def _standing(reader: Reader, run_id: str) -> tuple[Standing, tuple[Entry, ...]]:
    now, why = reader.standing(run_id), reader.why(run_id)
    return now, why if why[-1].seq == now.run.seq else reader.why(run_id, now.run.seq)


async def machines(room: HttpServer, _: HttpCall) -> list[str]:
    """The names of machines that runs were started of, for a filter."""
    return [name for name in await room.ask(room.reader.machine_names) if name not in HOUSEKEEPING]


class Health(msgspec.Struct, frozen=True):
    """Whether the server works, and who holds the journal."""

    ok: bool
    version: str
    is_holder: bool
    streams: int
    cursor: int


async def health(room: HttpServer, _: HttpCall) -> Health:
    """A small sign of life that has really looked into the journal."""
    from importlib.metadata import version

    cursor = await room.ask(room.reader.cursor)
    return Health(True, version("detent"), room.host.is_holder, room.streams, cursor)


ROUTES = (
    Route("GET", "/api/runs", list_runs, "The runs, newest first", shape.RunPage, query=shape.RunQuery,
          about="Filters go together. A search over text, machine or time looks at 20,000 runs per request: a page may "
                "be short, or empty, and still have `next`."),
    Route("POST", "/api/runs", start, "Start a run", shape.RunView, takes=shape.Begin, status=201, errors=(404, 409)),
    Route("GET", "/api/machines", machines, "Names of machines that have runs", list[str]),
    Route("GET", "/api/runs/{run_id}", show, "Where a run stands, and why", shape.RunView, errors=(404, 409)),
    Route("GET", "/healthz", health, "Whether the server works", Health, is_open=True, tag="server"),
)  # fmt: skip
