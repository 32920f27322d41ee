"""Addresses of a run's past: its events, any moment of it, its picture, its contracts and deeds, and the proof."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from itertools import islice
from typing import Any

import msgspec
from msgspec.structs import replace
from starlette.responses import Response, StreamingResponse

from detent.core.contract import Contract
from detent.core.events import ContractMoved
from detent.core.history import Entry
from detent.core.run import Run
from detent.core.status import Status
from detent.define.graph import svg
from detent.errors import Unknown
from detent.host.embedded import reader
from detent.host.embedded.listing import Listing
from detent.host.embedded.live import load
from detent.host.embedded.reader import entries
from detent.host.embedded.transcript import transcript
from detent.surfaces.server import shape, view
from detent.surfaces.server.graph import Graph, GraphQuery, drawing, graph, picture_of
from detent.surfaces.server.room import Room
from detent.surfaces.server.route import Call, Route

PAGE_BYTES = 2 * 1024 * 1024  # a page of events ends here, however few they are
EXPORT_PAGE = 200
DEEDS_MAX = 1000


async def log(room: Room, call: Call) -> shape.LogPage:
    """A page of events."""
    record = await room.find(call.path["run_id"])
    return await room.read(page_of, record.summary.run_id, call.query.after, call.query.limit)


def page_of(journal: Listing, run_id: str, after: int, limit: int) -> shape.LogPage:
    """Events after one, each with what it led to and what it changed."""
    record = journal.record(run_id)
    last = record.summary.seq if record is not None else 0
    if after >= last:
        return shape.LogPage(run_id, [], None, last)
    found: list[shape.LogEntry] = []
    size = 0
    for entry in view.told(*_from(journal, run_id, after, after + limit)):
        found.append(entry)
        size += len(msgspec.json.encode(entry))
        if size > PAGE_BYTES:
            break
    seen = found[-1].seq if found else last
    return shape.LogPage(run_id, found, seen if seen < last else None, last)


def _from(journal: Listing, run_id: str, after: int, upto: int) -> tuple[Iterator[Entry], Run | None]:
    """The entries after one, and the run as it was before the first of them."""
    before = load(journal, run_id, upto=after).run if after else None
    return entries(journal, run_id, after, upto), before


async def log_entry(room: Room, call: Call) -> shape.LogEntry:
    """One event, whole."""
    record = await room.find(call.path["run_id"])
    seq = _seq(call, record.summary.seq)

    def read(journal: Listing) -> shape.LogEntry:
        return next(view.told(*_from(journal, record.summary.run_id, seq - 1, seq), is_whole=True))

    return await room.read(read)


async def export(room: Room, call: Call) -> Response:
    """A transcript of the run, which anybody can verify without detent; one that is cut off has no closing line."""
    record = await room.find(call.path["run_id"])
    journal = Listing(room.home / "journal.db")  # its own: a slow reader must not keep one of the others
    told = transcript(journal, [record])

    async def page() -> bytes:
        return "".join(await asyncio.to_thread(list, islice(told, EXPORT_PAGE))).encode()

    try:
        first = await page()  # what is damaged at once is an answer, not a stream that breaks
    except BaseException:
        journal.close()
        raise

    async def lines() -> AsyncIterator[bytes]:
        try:
            part = first
            while part:
                yield part
                part = await page()
        finally:
            journal.close()

    headers = {"Content-Disposition": f'attachment; filename="{record.summary.run_id}.jsonl"'}
    return StreamingResponse(lines(), media_type="application/x-ndjson", headers=headers)


async def verify(room: Room, call: Call) -> shape.Proof:
    """Replay the run and check every hash."""
    record = await room.find(call.path["run_id"])
    proof = await room.read(reader.verify, record.summary.run_id)
    return shape.Proof(proof.run_id, not proof.problem, proof.events, proof.checkpoint, proof.problem)


async def moment(room: Room, call: Call) -> shape.RunView:
    """The run as it was after one of its events."""
    record = await room.find(call.path["run_id"])
    run_id, last = record.summary.run_id, record.summary.seq
    seq = _seq(call, last)

    def read(journal: Listing) -> shape.RunView:
        return view.run_view(load(journal, run_id, upto=seq), last, view.why(journal, run_id, seq))

    return await room.read(read)


def _seq(call: Call, last: int) -> int:
    text = call.path["seq"]
    if not text.isascii() or not text.isdecimal() or len(text) > 15 or not 1 <= int(text) <= last:
        raise Unknown(f"this run has the events 1 to {last}, not `{text[:20]}`")
    return int(text)


async def drawn(room: Room, call: Call) -> Graph:
    """The picture as data, laid out."""
    record = await room.find(call.path["run_id"])
    return await room.read(graph, record.summary.run_id, call.query.at)


async def drawn_svg(room: Room, call: Call) -> Response:
    """The picture as SVG."""
    record = await room.find(call.path["run_id"])
    picture = await room.read(picture_of, record.summary.run_id, call.query.at)
    return drawing(svg(picture, theme=call.query.theme))


async def contracts(room: Room, call: Call) -> shape.LifePage:
    """The lives of a run's contracts."""
    record = await room.find(call.path["run_id"])
    lives = await room.read(lives_of, record.summary.run_id)
    after, upto = call.query.after, call.query.after + call.query.limit
    return shape.LifePage(record.summary.run_id, lives[after:upto], upto if upto < len(lives) else None, len(lives))


def lives_of(journal: Listing, run_id: str) -> list[shape.Life]:
    """Every contract a run has made, with all its moves, in the order they were made."""
    known: dict[str, Contract] = {}
    moves: dict[str, list[shape.Move]] = {}
    for entry in entries(journal, run_id):
        known.update((one.id, one) for one in entry.run.contracts)
        for taken in entry.taken:
            if taken.kind != "contract":
                continue
            move = shape.Move(entry.seq, entry.event.at, taken.event, Status(taken.target).value, taken.actor)
            moves.setdefault(taken.subject, []).append(move)
            if taken.subject not in known:
                known[taken.subject] = Contract(taken.subject, taken.subject.split("/")[-2:][0], "")
            known[taken.subject] = _ended(known[taken.subject], Status(taken.target), entry)
    return [shape.Life(view.contract(one), moves.get(one.id, [])) for one in known.values()]


def _ended(contract: Contract, status: Status, entry: Entry) -> Contract:
    """A contract as its last move left it: ended ones are no longer in the run."""
    if not status.is_terminal:
        return contract
    event = entry.event
    is_own = isinstance(event, ContractMoved) and event.contract_id == contract.id
    result = event.result if is_own and isinstance(event, ContractMoved) and event.trigger != "resume" else None
    error = event.error if is_own and isinstance(event, ContractMoved) else None
    deed: Any = "done" if status is Status.COMPLETED else contract.deed
    return replace(
        contract, status=status, moved_at=event.at, result=result, error=error, deed=deed, expires_at=0.0, due_at=0.0
    )


async def deeds(room: Room, call: Call) -> shape.Deeds:
    """What a run has done to the outside world."""
    record = await room.find(call.path["run_id"])
    return await room.read(deeds_of, record.summary.run_id, call.query.at or record.summary.seq)


def deeds_of(journal: Listing, run_id: str, at: int) -> shape.Deeds:
    """What a run has done to the outside world, before and after a point; a fork at that point takes nothing back."""
    found = reader.deeds(journal, run_id)
    before = [deed for deed in found if deed.seq <= at][-DEEDS_MAX:]
    return shape.Deeds(run_id, at, before, [deed for deed in found if deed.seq > at][:DEEDS_MAX])


SOME = (404, 409)
ROUTES = (
    Route("GET", "/api/runs/{run_id}/log", log, "What happened, event by event", shape.LogPage,
          query=shape.LogQuery, errors=SOME),
    Route("GET", "/api/runs/{run_id}/log/export", export, "The journal of a run, to keep", kind="lines", errors=SOME),
    Route("GET", "/api/runs/{run_id}/log/{seq}", log_entry, "One event, whole", shape.LogEntry, errors=SOME),
    Route("GET", "/api/runs/{run_id}/verify", verify, "Replay a run and check every hash", shape.Proof, errors=SOME),
    Route("GET", "/api/runs/{run_id}/at/{seq}", moment, "The run as it was", shape.RunView, errors=SOME),
    Route("GET", "/api/runs/{run_id}/graph", drawn, "The picture of a run, laid out", Graph, query=shape.PointQuery,
          errors=SOME),
    Route("GET", "/api/runs/{run_id}/graph.svg", drawn_svg, "The picture of a run as SVG", query=GraphQuery,
          kind="svg", errors=SOME),
    Route("GET", "/api/runs/{run_id}/contracts", contracts, "Every contract of a run, with its moves", shape.LifePage,
          query=shape.LifeQuery, errors=SOME),
    Route("GET", "/api/runs/{run_id}/deeds", deeds, "What a run has done to the outside world", shape.Deeds,
          query=shape.PointQuery, errors=SOME),
)  # fmt: skip
