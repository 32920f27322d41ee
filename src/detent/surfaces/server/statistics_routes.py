"""Addresses of figures: over time for people, and as they are now for Prometheus."""

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, TypeVar

from msgspec import Meta
from starlette.responses import Response

from detent.kit.http.request_base import Asked
from detent.kit.http.route import HttpCall, Route
from detent.kit.run_index import RunIndex
from detent.kit.run_statistics import HOUR_S, FigureFilter, Figures
from detent.redaction import ambient_redactor
from detent.surfaces.server import shape

if TYPE_CHECKING:
    from detent.surfaces.server.server_context import HttpServer

DAY_S = 24 * HOUR_S
R = TypeVar("R")


class FigureQuery(Asked, frozen=True):
    """The last so many days, or from one time to another; in hours where that is not too many steps, else in days."""

    days: Annotated[int, Meta(ge=1, le=366)] = 30
    until: Annotated[float, Meta(ge=0, le=1e11)] | None = None
    machine: shape.Name = ""


async def figures(room: "HttpServer", call: HttpCall) -> Figures:
    """Figures of the last days."""
    asked: FigureQuery = call.query
    until = asked.until if asked.until is not None else time.time()
    step_h = 1 if asked.days <= 2 else 24
    wanted = FigureFilter(until - asked.days * DAY_S + step_h * HOUR_S, until, step_h, asked.machine)
    return await ask_index(room, lambda index: index.figures(wanted))


async def metrics(room: "HttpServer", _: HttpCall) -> Response:
    """Everything a monitor wants to know, in Prometheus' own format."""
    totals = await ask_index(room, lambda index: index.totals())
    text, kind = await room.ask(room.meter.expose, totals)
    return Response(ambient_redactor().hide_free(text), media_type=kind)


async def ask_index(room: "HttpServer", ask: Callable[[RunIndex], R]) -> R:
    """Ask the search index; one at a time, for whoever comes second finds it up to date."""
    turn: asyncio.Semaphore = room.extras.setdefault("search", asyncio.Semaphore(1))
    async with turn:
        return await room.ask(lambda: ask(RunIndex(room.reader, room.home)))


ROUTES = (
    Route("GET", "/api/figures", figures, "Figures over time", Figures, query=FigureQuery,
          about="Runs that began, ended and failed, how long people were waited for, cost and tokens, by hour (up to "
          "two days) or day (UTC); the durations of runs, states and questions with p50 and p95 over the whole time. "
          "They are counted in hours as events come, so the question costs the same however long the journal is."),
    Route("GET", "/metrics", metrics, "Metrics for Prometheus", kind="text", tag="server",
          about="Guarded like the API: a monitor sends `Authorization: Bearer TOKEN`."),
)  # fmt: skip
