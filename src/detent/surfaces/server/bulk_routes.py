"""One verb for many runs, over HTTP: chosen by name or by a query, looked at first, then done one after the other."""

import asyncio
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from detent.core.status import Status
from detent.errors import DefinitionError
from detent.host.reading import Summary
from detent.kit.http.http_error import BadRequest
from detent.kit.http.request_base import Asked
from detent.kit.http.route import HttpCall, Route
from detent.kit.run_index import RunFilter, RunIndex
from detent.surfaces.bulk_verb import (
    BULK_MAX,
    MOVED,
    PAUSE_S,
    BulkLine,
    BulkPlan,
    BulkVerb,
    act_on_run,
    line_of,
    look_at,
    select_runs,
)
from detent.surfaces.server import shape
from detent.surfaces.server.refusal import say_to
from detent.surfaces.server.server_context import HttpServer
from detent.surfaces.server.statistics_routes import ask_index

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
    reason: shape.Note = ""  # of a cancel, and the comment of a settlement
    signal: shape.Name = ""  # its name
    data: dict[str, Any] = msgspec.field(default_factory=dict)
    outcome: Literal["", "happened", "not_happened", "give_up"] = ""  # of a settlement
    definition: Annotated[str, Meta(max_length=1000)] = ""  # to migrate to
    state: shape.Name = ""  # what the present state is called there
    seen: dict[RunName, Annotated[str, Meta(max_length=500)]] = msgspec.field(default_factory=dict)  # marks, by run
    key: shape.Name = ""  # makes each signal and each retry of this request count once
    by: shape.Name = ""


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
    _check(given)
    machine = (await room.library.load(given.definition)).machine if given.verb == "migrate" else None
    plan = BulkPlan(given.verb, given.reason, given.signal, given.data, given.outcome, machine, given.state, given.key)
    found, matching = await _select(room, given)
    lines = []
    for summary in found:
        look = await room.ask(look_at, room.reader, plan, summary)
        is_other = given.seen.get(summary.run_id, look.mark) != look.mark
        problem = look.problem or (MOVED if is_other else "")
        is_done = False
        if not problem and not given.preview:
            problem = await act_on_run(room.host, plan, call.by, summary.run_id, look.doubts)
            is_done = not problem
            await asyncio.sleep(PAUSE_S)
        lines.append(line_of(summary, look, say_to(call.request, problem), is_done=is_done))
    return BulkReport(given.verb, given.preview, matching, sum(one.is_done for one in lines), lines)


def _check(given: BulkBody) -> None:
    for verb, field in (("signal", "signal"), ("settle", "outcome"), ("migrate", "definition")):
        if given.verb == verb and not getattr(given, field):
            raise BadRequest(f"`{verb}` needs `{field}`", 422)
    if not (given.runs or given.text or given.where or given.status or given.machine):
        raise BadRequest("say which runs: `runs`, or `where`, `text`, `status` or `machine`", 422)


async def _select(room: HttpServer, given: BulkBody) -> tuple[list[Summary], int]:
    if given.runs:
        found = [await room.find(name) for name in dict.fromkeys(given.runs)]
        return found, len(found)
    wanted = RunFilter(given.text, given.where, tuple(Status(name) for name in given.status), given.machine)

    def search(index: RunIndex) -> tuple[list[Summary], int]:
        try:
            page = select_runs(index, wanted)
        except DefinitionError as error:
            raise BadRequest(f"`where`: {error.problem}", 422) from None
        return [one.summary for one in page.runs], page.total

    return await ask_index(room, search)


ROUTES = (
    Route("POST", "/api/bulk", act, "Do one thing to many runs", BulkReport, takes=BulkBody, errors=(403, 404, 409),
          is_guarded=True,
          about="`cancel`, `retry`, `signal`, `pause`, `resume`, `settle` (with `outcome`) or `migrate` (with "
          "`definition`), for at most 500 runs. With `preview` nothing is changed, and the answer says what would "
          "become of each run. `seen` holds the marks of a preview: a run that has moved on since is refused."),
)  # fmt: skip
