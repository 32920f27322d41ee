"""Finding runs: by words in what they were given, asked and gave, and by an expression over their attributes."""

from typing import Annotated

import msgspec
from msgspec import Meta

from detent.core.attribute import Scalar
from detent.core.status import Status
from detent.errors import DefinitionError
from detent.host.system_run import HOUSEKEEPING
from detent.kit.http.http_error import BadRequest
from detent.kit.http.request_base import Asked, Count
from detent.kit.http.route import HttpCall, Route
from detent.kit.run_index import FoundRuns, RunFilter, RunIndex
from detent.surfaces.server import api_view, shape
from detent.surfaces.server.server_context import HttpServer
from detent.surfaces.server.statistics_routes import ask_index


class SearchQuery(Asked, frozen=True):
    """Which runs, in which order; `where` is an expression over the run's own words and its attributes."""

    text: Annotated[str, Meta(max_length=200)] = ""
    where: Annotated[str, Meta(max_length=2000)] = ""
    status: Annotated[tuple[shape.StatusName, ...], Meta(max_length=7)] = ()
    machine: shape.Name = ""
    sort: shape.Name = ""
    offset: shape.Seq = 0
    limit: Count = 50


class FoundLine(msgspec.Struct, frozen=True):
    """A run, and the values it can be found by."""

    run: shape.RunLine
    attributes: dict[str, Scalar]


class FoundPage(msgspec.Struct, frozen=True):
    """A part of what was found; `is_cut`: older runs were not looked at."""

    found: list[FoundLine]
    total: int
    is_cut: bool


async def search(room: HttpServer, call: HttpCall) -> FoundPage:
    """Find runs."""
    asked: SearchQuery = call.query
    statuses = tuple(Status(name) for name in asked.status)
    without = () if asked.machine else HOUSEKEEPING
    wanted = RunFilter(asked.text, asked.where, statuses, asked.machine, without, asked.sort, asked.offset, asked.limit)
    found = await ask_index(room, lambda index: _search(index, wanted))
    lines = [FoundLine(api_view.line(one.summary), one.attributes) for one in found.runs]
    return FoundPage(lines, found.total, found.is_cut)


def _search(index: RunIndex, wanted: RunFilter) -> FoundRuns:
    try:
        return index.search(wanted)
    except DefinitionError as error:
        raise BadRequest(f"`where`: {error.problem}", 422) from None


ROUTES = (
    Route("GET", "/api/search", search, "Find runs by words and by their attributes", FoundPage, query=SearchQuery,
          about="`text` is looked for in inputs, questions and outputs, wherever in a word. `where` is an expression: "
          "`customer == 'Nordwind' and status == 'waiting'`. At most the newest 20,000 runs are looked at."),
)  # fmt: skip
