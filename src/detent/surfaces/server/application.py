"""The application: Starlette's routes made from the route table, and the one place where errors become answers."""

import asyncio
import sys
import time
import traceback
from collections.abc import Awaitable
from typing import Annotated, Any, get_args, get_origin

import msgspec
from starlette.applications import Starlette
from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.routing import Route as Path
from starlette.types import ASGIApp

from detent.core.value import plain
from detent.define.problem import BrokenDefinition
from detent.errors import (
    DefinitionError,
    DetentError,
    EventRefused,
    JournalError,
    MaybeDone,
    NoAnswer,
    NotPermitted,
    NotWaiting,
    Refused,
    ReplayError,
    Unknown,
)
from detent.kit.http.http_error import AlreadyDecided, BadRequest
from detent.kit.http.route import HttpCall, Route, bare
from detent.kit.workflow_file import FileChanged
from detent.redaction import ambient_redactor
from detent.surfaces.server import mcp_mount as agent
from detent.surfaces.server import openapi, page_files, route_table
from detent.surfaces.server.refusal import Turned, say_to
from detent.surfaces.server.request_gate import Gate
from detent.surfaces.server.requester import check_verb, name_caller
from detent.surfaces.server.server_context import HttpServer
from detent.surfaces.server.shape import Detail, Trouble

TYPES: list[tuple[type[DetentError], int, str]] = [
    (BadRequest, 400, "bad_request"),
    (AlreadyDecided, 409, "already_decided"),
    (EventRefused, 409, "event_refused"),
    (NotWaiting, 409, "not_waiting"),
    (FileChanged, 409, "file_changed"),
    (NotPermitted, 403, "not_permitted"),
    (Unknown, 404, "unknown"),
    (Refused, 409, "refused"),
    (DefinitionError, 422, "definition_error"),
    (ReplayError, 409, "replay_error"),
    (JournalError, 503, "journal_error"),
    (MaybeDone, 504, "maybe_done"),
    (NoAnswer, 503, "no_answer"),
    (DetentError, 409, "error"),
]


def application(room: HttpServer, gate: "Gate | None" = None) -> ASGIApp:
    """The whole server as an ASGI application."""
    routes = route_table.routes()
    document = openapi.document(routes)

    async def described(_: Request) -> Response:
        return respond(document)

    paths: list[BaseRoute] = [_path(room, route) for route in routes]
    paths.append(Path("/api/openapi.json", described))
    paths += agent.paths(room)
    paths += page_files.paths(room)
    made = Starlette(routes=paths, exception_handlers={HTTPException: _http_problem})
    return (gate or Gate(room.settings)).around(made, routes)


def respond(value: Any, status: int = 200) -> Response:
    """A value as JSON, without secrets."""
    return Response(ambient_redactor().hide_json(msgspec.json.encode(value)), status, media_type="application/json")


def trouble(status: int, kind: str, message: str, **known: Any) -> Response:
    """What went wrong, as every answer that is not 2xx says it."""
    return respond(Trouble(Detail(kind, message, **known)), status)


def _path(room: HttpServer, route: Route) -> Path:
    async def endpoint(request: Request) -> Response:
        began = time.monotonic()
        response = await _respond_to(_work(room, route, request), request)
        took = None if route.kind == "stream" else time.monotonic() - began
        room.meter.note(route.method, route.path, response.status_code, took)
        return response

    made = Path(route.path, endpoint, methods=[route.method], name=f"{route.method} {route.path}")
    made.methods = {route.method}  # without the HEAD that Starlette adds: it would follow a stream and show nothing
    return made


async def _work(room: HttpServer, route: Route, request: Request) -> Response:
    query = _query(route, request.query_params)
    body = bare(route.takes) if route.is_raw else await _body(room, route, request)
    by = name_caller(room, request, str(getattr(body, "by", "") or ""), is_guarded=route.is_guarded)
    check_verb(room, route.needs, by)
    call = HttpCall({k: str(v) for k, v in request.path_params.items()}, query, body, by, request)
    result = await route.handle(room, call)
    return result if isinstance(result, Response) else respond(result, route.status)


async def _respond_to(work: Awaitable[Response], request: Request) -> Response:
    """The answer, or what went wrong: the only place where errors become status codes."""
    try:
        return await work
    except DetentError as error:
        return _refusal(error, request)
    except Turned as turned:
        response = trouble(turned.status, turned.kind, str(turned))
        response.headers.update(turned.headers)
        return response
    except ClientDisconnect:
        return Response(status_code=400)
    except (asyncio.CancelledError, HTTPException):
        raise
    except Exception as error:  # noqa: BLE001  # a fault of ours: say so, without showing the inside
        sys.stderr.write(ambient_redactor().hide_free("".join(traceback.format_exception(error))))
        return trouble(500, "internal_error", "this is a fault of detent; what was acknowledged is in the journal")


def _refusal(error: DetentError, request: Request) -> Response:
    for kind, status, name in TYPES:
        if isinstance(error, kind):
            known: dict[str, Any] = {}
            if isinstance(error, EventRefused):
                known["accepts"] = list(error.accepts)
            if isinstance(error, BrokenDefinition):
                known["problems"] = [problem._asdict() for problem in error.problems]
            if isinstance(error, AlreadyDecided):
                known["decided"] = error.decided
            said = say_to(request, str(error))
            return trouble(error.status if isinstance(error, BadRequest) else status, name, said, **known)
    raise error


def _query(route: Route, given: QueryParams) -> Any:
    """The parameters behind the question mark, as the Struct of the route."""
    names = {field.name: field for field in msgspec.structs.fields(route.query)} if route.query else {}
    values: dict[str, Any] = {}
    for name in given:
        if name not in names:
            known = ", ".join(names) or "none"
            raise BadRequest(f"there is no parameter `{name}`; known: {known}")
        many = given.getlist(name)
        is_list = _is_list(names[name].type)
        if len(many) > 1 and not is_list:
            raise BadRequest(f"the parameter `{name}` is there twice")
        values[name] = many if is_list else many[0]
    if route.query is None:
        return None
    try:
        return plain_numbers(msgspec.convert(values, route.query, strict=False))
    except msgspec.ValidationError as error:
        raise BadRequest(f"the parameters do not fit: {error}", 422) from None


def _is_list(kind: Any) -> bool:
    return get_origin(get_args(kind)[0] if get_origin(kind) is Annotated else kind) in (list, tuple)


def plain_numbers(query: Any) -> Any:
    """The query, if no number in it is infinite or none at all."""
    for name in query.__struct_fields__:
        value = getattr(query, name)
        if isinstance(value, float):
            plain(value, name)
    return query


async def _body(room: HttpServer, route: Route, request: Request) -> Any:
    """The JSON body as the Struct of the route; nothing at all stands for an empty object."""
    if route.takes is None:
        return None
    content = await content_of(room, request)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise BadRequest("send JSON, with `Content-Type: application/json`", 415)
    try:
        value = plain(msgspec.json.decode(content), "body")
        return msgspec.convert(value, route.takes)
    except msgspec.ValidationError as error:
        raise BadRequest(f"the body does not fit: {error}", 422) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(f"the body is not JSON: {error}") from None


async def content_of(room: HttpServer, request: Request) -> bytes:
    """The body of a request, if it is not too large and does not take too long."""
    limits = room.settings.limits
    parts, size = [], 0
    try:
        async with asyncio.timeout(limits.body_seconds):
            async for part in request.stream():
                size += len(part)
                if size > limits.body_bytes:
                    raise BadRequest(f"the body has more than {limits.body_bytes:,} bytes", 413)
                parts.append(part)
    except TimeoutError:
        raise BadRequest(f"the body did not arrive within {limits.body_seconds:g} s", 408) from None
    return b"".join(parts)


async def _http_problem(_: Request, error: Exception) -> Response:
    """What Starlette itself refuses: no such address, no such method."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    words = {404: "there is no such address; /api/openapi.json lists them", 405: "this address takes another method"}
    kind = {404: "unknown", 405: "method_not_allowed"}.get(status, "bad_request")
    response = trouble(status, kind, words.get(status, str(getattr(error, "detail", "") or "not understood")))
    for name, value in (getattr(error, "headers", None) or {}).items():
        response.headers[name] = value
    return response
