"""Addresses of a run's past: its events, any moment of it, its picture, its contracts and deeds, and the proof."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from itertools import islice

import msgspec
from starlette.responses import Response, StreamingResponse

from detent.core.history import Entry
from detent.core.run import Run
from detent.define.graph import svg
from detent.errors import Unknown
from detent.host.port import Reader
from detent.kit.http.route import HttpCall, Route
from detent.surfaces.server import api_view, shape
from detent.surfaces.server.contract_history import ContractLives
from detent.surfaces.server.graph import Graph, GraphQuery, SvgQuery, drawing, graph, picture_of
from detent.surfaces.server.server_context import HttpServer

PAGE_BYTES = 2 * 1024 * 1024  # a page of events ends here, however few they are
EXPORT_PAGE = 200
DEEDS_MAX = 1000


async def log(room: HttpServer, call: HttpCall) -> shape.LogPage:
    """A page of events."""
    found = await room.find(call.path["run_id"])
    return await room.ask(_page, room.reader, found.run_id, found.seq, call.query.after, call.query.limit)


def _page(reader: Reader, run_id: str, last: int, after: int, limit: int) -> shape.LogPage:
    """Events after one, each with what it led to and what it changed."""
    if after >= last:
        return shape.LogPage(run_id, [], None, last)
    found: list[shape.LogEntry] = []
    size = 0
    for entry in api_view.view_entries(*_from(reader, run_id, after, after + limit)):
        found.append(entry)
        size += len(msgspec.json.encode(entry))
        if size > PAGE_BYTES:
            break
    seen = found[-1].seq if found else last
    return shape.LogPage(run_id, found, seen if seen < last else None, last)


def _from(reader: Reader, run_id: str, after: int, upto: int) -> tuple[Iterator[Entry], Run | None]:
    """The entries after one, and the run as it was before the first of them."""
    before = reader.at(run_id, after).run if after else None
    return reader.entries(run_id, after, upto), before


async def log_entry(room: HttpServer, call: HttpCall) -> shape.LogEntry:
    """One event, whole."""
    found = await room.find(call.path["run_id"])
    seq = _seq(call, found.seq)

    def read() -> shape.LogEntry:
        return next(api_view.view_entries(*_from(room.reader, found.run_id, seq - 1, seq), is_whole=True))

    return await room.ask(read)


async def export(room: HttpServer, call: HttpCall) -> Response:
    """A transcript of the run, which anybody can verify without detent; one that is cut off has no closing line."""
    run_id = (await room.find(call.path["run_id"])).run_id
    told = room.reader.transcript([run_id])

    async def page() -> bytes:
        return "".join(await asyncio.to_thread(list, islice(told, EXPORT_PAGE))).encode()

    first = await page()  # what is damaged at once is an answer, not a stream that breaks

    async def lines() -> AsyncIterator[bytes]:
        try:
            part = first
            while part:
                yield part
                part = await page()
        finally:
            told.close()

    headers = {"Content-Disposition": f'attachment; filename="{run_id}.jsonl"'}
    return StreamingResponse(lines(), media_type="application/x-ndjson", headers=headers)


async def verify(room: HttpServer, call: HttpCall) -> shape.ProofView:
    """Replay the run and check every hash."""
    proof = await room.ask(room.reader.verify, (await room.find(call.path["run_id"])).run_id)
    return shape.ProofView(proof.run_id, not proof.problem, proof.events, proof.checkpoint, proof.problem)


async def moment(room: HttpServer, call: HttpCall) -> shape.RunView:
    """The run as it was after one of its events."""
    found = await room.find(call.path["run_id"])
    seq = _seq(call, found.seq)

    def read() -> shape.RunView:
        return api_view.run_view(room.reader.at(found.run_id, seq), room.reader.why(found.run_id, seq))

    return await room.ask(read)


def _seq(call: HttpCall, last: int) -> int:
    text = call.path["seq"]
    if not text.isascii() or not text.isdecimal() or len(text) > 15 or not 1 <= int(text) <= last:
        raise Unknown(f"this run has the events 1 to {last}, not `{text[:20]}`")
    return int(text)


async def draw(room: HttpServer, call: HttpCall) -> Graph:
    """The picture as data, laid out."""
    run_id = (await room.find(call.path["run_id"])).run_id
    return await room.ask(graph, room.reader, run_id, call.query)


async def draw_svg(room: HttpServer, call: HttpCall) -> Response:
    """The picture as SVG."""
    run_id = (await room.find(call.path["run_id"])).run_id
    picture = await room.ask(picture_of, room.reader, run_id, call.query.at)
    return drawing(svg(picture, theme=call.query.theme))


async def contracts(room: HttpServer, call: HttpCall) -> shape.LifePage:
    """The lives of a run's contracts."""
    run_id = (await room.find(call.path["run_id"])).run_id
    return await room.ask(_page_lives, room.reader, run_id, call.query)


def _page_lives(reader: Reader, run_id: str, asked: shape.LifeQuery) -> shape.LifePage:
    lives, known = reader.project_part(run_id, ContractLives, asked.within or None)
    total = len(lives.contracts)
    after = max(0, total - asked.limit) if asked.newest else asked.after
    upto = after + asked.limit
    return shape.LifePage(run_id, lives.page(after, upto), upto if upto < total else None, total, after, known)


async def deeds(room: HttpServer, call: HttpCall) -> shape.Deeds:
    """What a run has done to the outside world."""
    found = await room.find(call.path["run_id"])
    return await room.ask(deeds_of, room.reader, found.run_id, call.query.at or found.seq)


def deeds_of(reader: Reader, run_id: str, at: int) -> shape.Deeds:
    """What a run has done to the outside world, before and after a point; a fork at that point takes nothing back."""
    found = reader.deeds(run_id)
    before = [deed for deed in found if deed.seq <= at][-DEEDS_MAX:]
    return shape.Deeds(run_id, at, before, [deed for deed in found if deed.seq > at][:DEEDS_MAX])


SOME = (404, 409)
ROUTES = (
    Route("GET", "/api/runs/{run_id}/log", log, "What happened, event by event", shape.LogPage,
          query=shape.LogQuery, errors=SOME),
    Route("GET", "/api/runs/{run_id}/log/export", export, "The journal of a run, to keep", kind="lines", errors=SOME),
    Route("GET", "/api/runs/{run_id}/log/{seq}", log_entry, "One event, whole", shape.LogEntry, errors=SOME),
    Route("GET", "/api/runs/{run_id}/verify", verify, "Replay a run and check every hash", shape.ProofView,
          errors=SOME),
    Route("GET", "/api/runs/{run_id}/at/{seq}", moment, "The run as it was", shape.RunView, errors=SOME),
    Route("GET", "/api/runs/{run_id}/graph", draw, "The picture of a run, laid out", Graph, query=GraphQuery,
          errors=SOME, about="With `fold`, groups of states of a large machine are one box each, but for those in "
          "`open`. With `within`, the way of a long run is drawn as far as it is known after that time (`upto`)."),
    Route("GET", "/api/runs/{run_id}/graph.svg", draw_svg, "The picture of a run as SVG", query=SvgQuery,
          kind="svg", errors=SOME),
    Route("GET", "/api/runs/{run_id}/contracts", contracts, "Every contract of a run, with its moves", shape.LifePage,
          query=shape.LifeQuery, errors=SOME),
    Route("GET", "/api/runs/{run_id}/deeds", deeds, "What a run has done to the outside world", shape.Deeds,
          query=shape.PointQuery, errors=SOME),
)  # fmt: skip
