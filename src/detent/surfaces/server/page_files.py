"""The page: files that were built from `web/`, packed beside this module or lying in the source tree.

The page finds its way by what stands behind the `#` of its address, so every path that is not a file and not of the API
is unknown. The views that agents of other packages bring stand under `/agents`.
"""

import functools
import gzip
import mimetypes
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Route

from detent.errors import DetentError
from detent.kit.agent import find_agent
from detent.surfaces.server.server_context import HttpServer

PACKED = Path(__file__).parent / "page"
BUILT = Path(__file__).parents[4] / "web" / "dist"
VIEW = "/agents/{name}/view.js"
SMALL = 1024  # bytes not worth packing
ABSENT_FILE = "there is nothing at this address; the page is at /"
ABSENT = (
    "<!doctype html><html lang=en><meta charset=utf-8><title>detent</title><h1>detent</h1>"
    "<p>The server works; its page was not built. In the source tree, <code>./run web</code> builds it.</p>"
    "<p><a href=/api/openapi.json>The API</a> &middot; <a href=/api/runs>runs</a> &middot; "
    "<a href=/api/inbox>inbox</a></p></html>"
)
TYPES = {".js": "text/javascript", ".mjs": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml",
         ".json": "application/json", ".html": "text/html", ".woff2": "font/woff2", ".map": "application/json",
         ".webmanifest": "application/manifest+json", ".wasm": "application/wasm"}  # fmt: skip


def folder() -> Path | None:
    """Where the page is, if it is anywhere."""
    return next((place for place in (PACKED, BUILT) if (place / "index.html").is_file()), None)


def paths(_: HttpServer) -> list[BaseRoute]:
    """The routes of the page; to be tried after those of the API."""
    here = folder()

    async def serve(request: Request) -> Response:
        wanted = request.path_params.get("path", "")
        if wanted.startswith("api/"):
            raise HTTPException(405 if request.method == "HEAD" else 404)
        if here is None:
            return HTMLResponse(ABSENT)
        found = _file(here, wanted or "index.html")
        if found is None:
            return Response(ABSENT_FILE, 404, media_type="text/plain")
        return _send_file(found, request)

    return [Route(VIEW, _serve_view, methods=["GET"]), Route("/{path:path}", serve, methods=["GET"])]


def _serve_view(request: Request) -> Response:
    """The view of an agent's runs, if it brings one; in a thread, for its package may have to be imported."""
    try:
        found = find_agent(request.path_params["name"]).view_file()
    except DetentError:
        found = None
    return Response(ABSENT_FILE, 404, media_type="text/plain") if found is None else _send_file(found, request)


def _file(here: Path, wanted: str) -> Path | None:
    """A file of the page; whatever leads out of its folder is none."""
    if not wanted or "\0" in wanted or "\\" in wanted or len(wanted) > 500:
        return None
    try:
        path = (here / wanted).resolve()
        return path if path.is_relative_to(here.resolve()) and path.is_file() else None
    except (OSError, ValueError):
        return None


def _send_file(path: Path, request: Request) -> Response:
    stat = path.stat()
    tag = f'W/"{stat.st_mtime_ns:x}-{stat.st_size:x}"'
    headers = {"ETag": tag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    kind = TYPES.get(path.suffix) or mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    is_text = path.suffix in TYPES and path.suffix != ".woff2"
    if is_text and stat.st_size > SMALL and "gzip" in request.headers.get("accept-encoding", ""):
        body = _pack(path, tag)
        headers["Content-Encoding"] = "gzip"
    else:
        body = path.read_bytes()
    return Response(body, media_type=kind, headers=headers)


@functools.lru_cache(256)
def _pack(path: Path, tag: str) -> bytes:  # noqa: ARG001  # the tag tells one version of a file from the next
    return gzip.compress(path.read_bytes(), 9)
