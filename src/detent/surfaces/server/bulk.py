"""One verb for many runs: looked at first, then done one after the other, each with an entry of its own.

A preview and the deed take the same selection and ask the same question of each run, so that what was shown is what is
tried. What has moved meanwhile is refused alone and says why.
"""

import asyncio
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from detent.core.status import Status
from detent.errors import DefinitionError, DetentError
from detent.host.people import RECORD_ID
from detent.host.reading import Summary
from detent.host.standing import Can
from detent.kit.http.asked import Asked
from detent.kit.http.route import HttpCall, Route
from detent.kit.http.trouble import BadRequest
from detent.kit.run_index import RunFilter, RunIndex
from detent.surfaces.server import shape
from detent.surfaces.server.server_context import HttpServer
from detent.surfaces.server.webhook import MACHINE as WEBHOOK

BULK_MAX = 500
PAUSE_S = 0.005  # between two runs: others want to be heard as well
BulkVerb = Literal["cancel", "retry", "signal", "pause", "resume"]
RunName = Annotated[str, Meta(min_length=1, max_length=100)]


class BulkBody(Asked, frozen=True):
    """Which runs (by name, or by what finds them), what to do, and whether only to look."""

    verb: BulkVerb
    runs: Annotated[tuple[RunName, ...], Meta(max_length=BULK_MAX)] = ()
    text: Annotated[str, Meta(max_length=200)] = ""
    where: Annotated[str, Meta(max_length=2000)] = ""
    status: Annotated[tuple[shape.StatusName, ...], Meta(max_length=7)] = ()
    machine: shape.Name = ""
    preview: bool = False
    reason: shape.Note = ""  # of a cancel
    signal: shape.Name = ""  # its name
    data: dict[str, Any] = msgspec.field(default_factory=dict)
    key: shape.Name = ""  # makes each signal and each retry of this request count once
    by: shape.Name = ""


class BulkLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """What becomes of one run; `problem`: why it does not."""

    run_id: str
    machine: str
    state: str
    status: str
    is_done: bool = False
    problem: str = ""


class BulkReport(msgspec.Struct, frozen=True):
    """What would be done, or was."""

    verb: str
    is_preview: bool
    matching: int  # runs that fit; more than were looked at are left for the next time
    done: int
    runs: list[BulkLine]


async def act(room: HttpServer, call: HttpCall) -> BulkReport:
    """Do one thing to many runs, or say what would become of it."""
    given: BulkBody = call.body
    if given.verb == "signal" and not given.signal:
        raise BadRequest("name the `signal` to send", 422)
    if not (given.runs or given.text or given.where or given.status or given.machine):
        raise BadRequest("say which runs: `runs`, or `where`, `text`, `status` or `machine`", 422)
    found, matching = await room.ask(_select, room, given)
    lines = []
    for summary in found:
        problem = await room.ask(_find_obstacle, room, given, summary.run_id)
        is_done = False
        if not problem and not given.preview:
            problem = await _do(room, given, call, summary.run_id)
            is_done = not problem
            await asyncio.sleep(PAUSE_S)
        status = summary.status.value
        lines.append(BulkLine(summary.run_id, summary.name, summary.state, status, is_done, problem))
    return BulkReport(given.verb, given.preview, matching, sum(one.is_done for one in lines), lines)


def _select(room: HttpServer, given: BulkBody) -> tuple[list[Summary], int]:
    if given.runs:
        found = [room.reader.find(name) for name in dict.fromkeys(given.runs)]
        return found, len(found)
    statuses = tuple(Status(name) for name in given.status)
    without = () if given.machine else (WEBHOOK.name, RECORD_ID)
    wanted = RunFilter(given.text, given.where, statuses, given.machine, without, limit=BULK_MAX)
    try:
        page = RunIndex(room.reader, room.home).search(wanted)
    except DefinitionError as error:
        raise BadRequest(f"`where`: {error.problem}", 422) from None
    return [one.summary for one in page.runs], page.total


def _find_obstacle(room: HttpServer, given: BulkBody, run_id: str) -> str:
    """Why this cannot be done to a run as it stands; nothing when it can."""
    try:
        can: Can = room.reader.standing(run_id).can
    except DetentError as error:
        return str(error)
    if given.verb == "signal":
        return "" if given.signal in can.signal else f"it takes no `{given.signal}` now"
    return "" if getattr(can, given.verb) else f"`{given.verb}` makes no sense for it now"


async def _do(room: HttpServer, given: BulkBody, call: HttpCall, run_id: str) -> str:
    """The verb itself; why it was refused, or nothing."""
    host, by = room.host, call.by
    key = f"bulk {given.key}" if given.key else ""
    try:
        if given.verb == "cancel":
            await host.cancel(run_id, by=by, reason=given.reason)
        elif given.verb == "retry":
            await host.retry(run_id, by=by, id=key)
        elif given.verb == "signal":
            await host.signal(run_id, given.signal, given.data, id=key, by=by)
        elif given.verb == "pause":
            await host.hold(run_id, by=by)
        else:
            await host.recover(run_id)
            await host.release(run_id, by=by)
    except DetentError as error:
        return str(error)
    return ""


ROUTES = (
    Route("POST", "/api/bulk", act, "Do one thing to many runs", BulkReport, takes=BulkBody, errors=(403, 404, 409),
          about="`cancel`, `retry`, `signal`, `pause` or `resume`, for at most 500 runs. With `preview` nothing "
          "is changed, and the answer says what would become of each run."),
)  # fmt: skip
