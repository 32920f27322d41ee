"""Addresses of artefacts: the files that a run has kept, and each of them as a download."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import PurePosixPath
from urllib.parse import quote

import msgspec
from starlette.responses import StreamingResponse

from detent.errors import Unknown
from detent.host.artefact_list import KeptFile, list_artefacts
from detent.kit.http.route import HttpCall, Route
from detent.surfaces.server.server_context import HttpServer


class ArtefactList(msgspec.Struct, frozen=True):
    """The files that a run and the runs below it have kept."""

    run_id: str
    artefacts: list[KeptFile]


async def show_artefacts(room: HttpServer, call: HttpCall) -> ArtefactList:
    """Which files a run and its children have kept."""
    run_id = (await room.find(call.path["run_id"])).run_id
    return ArtefactList(run_id, await room.ask(list_artefacts, room.reader, run_id))


async def send_artefact(room: HttpServer, call: HttpCall) -> StreamingResponse:
    """One of them. It is somebody's file: no browser may run or show it as a page of ours."""
    run_id, digest = (await room.find(call.path["run_id"])).run_id, call.path["digest"]
    kept: list[KeptFile] = list(await room.ask(room.reader.artefacts, run_id))
    file = next((one for one in reversed(kept) if one.digest == digest), None)
    if file is None:
        raise Unknown(f"run {run_id} has no artefact {digest[:64]}")
    pieces = await room.ask(room.reader.read_artefact, run_id, digest)
    headers = {
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(PurePosixPath(file.name).name, safe='')}",
        "Content-Length": str(file.size),
        "Content-Security-Policy": "default-src 'none'; sandbox",
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "private, no-store",
    }
    return StreamingResponse(_send(pieces), media_type="application/octet-stream", headers=headers)


async def _send(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
        yield piece


SOME = (404, 409)
ROUTES = (
    Route("GET", "/api/runs/{run_id}/artefacts", show_artefacts, "The files a run has kept", ArtefactList, errors=SOME,
          about="Also those of the runs below it; each is fetched from the run that has it."),
    Route("GET", "/api/runs/{run_id}/artefacts/{digest}", send_artefact, "One of them, as it was kept", kind="file",
          errors=SOME, about="By its SHA-256. It is always sent as a download."),
)  # fmt: skip
