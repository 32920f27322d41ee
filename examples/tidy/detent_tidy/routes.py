"""The address of the agent: a run's sheet, for programs and for the page."""

from typing import Any

import msgspec

from detent.errors import Refused
from detent.kit.agent import owner
from detent.kit.http.context import ServerContext
from detent.kit.http.route import HttpCall, Route
from detent_tidy.projection import Sheet


class Tidied(msgspec.Struct, frozen=True):
    """What a run found, and what became of it."""

    run_id: str
    found: list[dict[str, Any]]
    removed: list[str]
    changed: list[str]
    bytes_freed: int


async def sheet(server: ServerContext, call: HttpCall) -> Tidied:
    """Read a run's sheet."""
    run = await server.find(call.path["run_id"])
    if owner(run.source, run.parent) != "tidy":
        raise Refused(f"run {run.run_id} is not one of tidy's")
    made = await server.ask(server.reader.project, run.run_id, Sheet)
    return Tidied(run.run_id, made.found, made.removed, made.changed, made.bytes_freed)


ROUTES = (
    Route("GET", "/api/runs/{run_id}/tidy", sheet, "What a tidy run found and removed", Tidied, errors=(404, 409),
          tag="tidy"),
)  # fmt: skip
