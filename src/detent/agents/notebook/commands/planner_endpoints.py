"""The protocol's two endpoints, served from detent's own planners for any client.

`POST /planning` answers one object; `POST /generating` streams one action per line, or all of them in one object where
`options.stream` is false. Only requests to this machine's own names are answered, and only JSON is read.
"""

from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from detent.agents.notebook.commands.planner_schema import OPENAPI
from detent.agents.notebook.observation import whole
from detent.agents.notebook.port import Advisers, PlannerFailed

BODY_MAX = 32 * 1024 * 1024
HERE = ("localhost", "127.0.0.1", "[::1]", "::1")


class BadPlannerRequest(Exception):
    """A request that cannot be answered, and why."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def planner_app(advisers: Advisers, names: tuple[str, ...] = HERE) -> Starlette:
    """An application that asks these advisers."""

    async def planning(request: Request) -> Response:
        """Judge an observation."""
        body = await _body(request, names)
        said = body.get("behavior_feedback")
        feedback = said if isinstance(said, dict) else None
        try:
            answer = await advisers.planner.plan(whole(body["observation"]), feedback)
        except PlannerFailed as error:
            return _refuse(503 if error.is_passing else 422, str(error))
        return JSONResponse(answer)

    async def generating(request: Request) -> Response:
        """Write the actions of a behaviour."""
        body = await _body(request, names)
        options = body.get("options")
        is_stream = not isinstance(options, dict) or options.get("stream") is not False
        actions = advisers.generator.generate(whole(body["observation"]))
        try:
            first = await anext(actions, None)
            if not is_stream:
                rest = [one async for one in actions]
                return JSONResponse({"actions": [one for one in [first, *rest] if one is not None]})
        except PlannerFailed as error:
            return _refuse(503 if error.is_passing else 422, str(error))
        return StreamingResponse(_lines(first, actions), media_type="application/x-ndjson")

    async def health(_: Request) -> Response:
        """Say that somebody is here."""
        return JSONResponse({"ok": True})

    async def openapi(_: Request) -> Response:
        """Describe the endpoints, so that a client can be written from it alone."""
        return JSONResponse(OPENAPI)

    routes = [
        Route("/planning", planning, methods=["POST"]),
        Route("/generating", generating, methods=["POST"]),
        Route("/openapi.json", openapi),
        Route("/health", health),
    ]
    return Starlette(routes=routes, exception_handlers={BadPlannerRequest: _tell_bad, HTTPException: _tell_wrong})


async def _tell_bad(_: Request, error: Exception) -> Response:
    return _refuse(getattr(error, "status", 400), str(error))


async def _tell_wrong(request: Request, error: Exception) -> Response:
    """No such path, or not by this method: in HTTP's own words, and with what there is."""
    code = int(getattr(error, "status_code", 500))
    said = f"{HTTPStatus(code).phrase}: {request.method} {request.url.path}; there are POST /planning, POST /generating"
    answer = _refuse(code, f"{said}, GET /openapi.json and GET /health")
    answer.headers.update(getattr(error, "headers", None) or {})
    return answer


async def _lines(first: dict[str, Any] | None, actions: AsyncIterator[dict[str, Any]]) -> AsyncIterator[bytes]:
    if first is not None:
        yield _line(first)
    async for action in actions:
        yield _line(action)


def _line(action: dict[str, Any]) -> bytes:
    wrapped = action if isinstance(action.get("action"), dict) or "warning" in action else {"action": action}
    return msgspec.json.encode(wrapped) + b"\n"


async def _body(request: Request, names: tuple[str, ...]) -> dict[str, Any]:
    host = request.headers.get("host", "")
    if host.rpartition(":")[0] not in names and host not in names:
        raise BadPlannerRequest(403, f"this planner does not answer to the name {host!r}")
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise BadPlannerRequest(415, "send application/json")
    content = bytearray()
    try:
        async for chunk in request.stream():
            content += chunk
            if len(content) > BODY_MAX:
                raise BadPlannerRequest(413, f"at most {BODY_MAX:,} bytes are read")
        body = msgspec.json.decode(bytes(content))
    except ClientDisconnect:
        raise BadPlannerRequest(400, "the request ended early") from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadPlannerRequest(400, f"not JSON: {error}") from None
    if not isinstance(body, dict) or not isinstance(body.get("observation"), dict):
        raise BadPlannerRequest(400, "the body needs `observation`, an object with `location` and `context`")
    return body


def _refuse(status: int, message: str) -> Response:
    return JSONResponse({"error": {"message": message}}, status_code=status)
