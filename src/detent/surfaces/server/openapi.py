"""The OpenAPI 3.1 document, made from the route table: what it says is what the server does."""

import json
import re
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import msgspec

from detent.kit.http.route import Route
from detent.surfaces.server.shape import Trouble

REF = "#/components/schemas/{name}"
ALWAYS = {
    400: "not understood",
    401: "the token is missing or wrong",
    403: "sent by another site",
    421: "asked for under a name that is not this server's",
    429: "too many requests",
    431: "too many headers, or too long ones",
    503: "the journal cannot be used now",
    504: "it may have been done: the process that holds the journal took it and does not answer",
}
WORDS = {
    404: "there is no such thing",
    405: "another method is wanted",
    408: "the body came too slowly",
    409: "refused: nothing was changed",
    413: "too large",
    415: "not JSON",
    422: "it does not fit the schema",
    425: "too early: something else must be opened first",
}
MEDIA = {
    "json": "application/json",
    "stream": "text/event-stream",
    "svg": "image/svg+xml",
    "lines": "application/x-ndjson",
    "csv": "text/csv",
    "text": "text/plain",
}
# In Python a class name stands once; clients know these by the plain noun, and go on doing so.
API_NAMES = {
    "OpenQuestion": "Question",
    "AnswerBody": "Answer",
    "ContractView": "Contract",
    "GraphEdge": "Edge",
    "GraphLabel": "Label",
    "GraphNode": "Node",
    "MachineChange": "Change",
    "MoveView": "Move",
    "ProofView": "Proof",
    "RetryBody": "Retry",
}
_CLASS = re.compile(rf'(?<=["/])(?:{"|".join(API_NAMES)})(?=")')


def document(routes: Sequence[Route]) -> dict[str, Any]:
    """The whole document."""
    types = [kind for route in routes for kind in (route.gives, route.takes, route.query) if kind is not None]
    schemas, components = msgspec.json.schema_components([*types, Trouble], ref_template=REF)
    schemas, components = _rename_schemas(schemas), _rename_schemas(components)
    schema_of = dict(zip(map(id, [*types, Trouble]), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.address, {})[route.method.lower()] = _operation(route, schema_of, components)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "detent",
            "version": version("detent"),
            "summary": "Runs of state machines: start, watch, decide.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def _rename_schemas(schemas: Any) -> Any:
    """The schemas under the names that clients know them by."""
    return json.loads(_CLASS.sub(lambda found: API_NAMES[found[0]], json.dumps(schemas)))


def _operation(route: Route, schema_of: dict[int, Any], components: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {
        "operationId": _name(route),
        "tags": [route.tag],
        "summary": route.summary,
        **({"description": route.about} if route.about else {}),
        "parameters": [*_path_parameters(route), *_query_parameters(route, components), *_header_parameters(route)],
        "responses": _responses(route, schema_of),
    }
    if route.takes is not None:
        body = {"application/json": {"schema": schema_of[id(route.takes)]}}
        made["requestBody"] = {"required": True, "content": body}
    return made


def _name(route: Route) -> str:
    words = [part.strip("{}") for part in route.address.removeprefix("/api/").strip("/").split("/")]
    return "_".join([route.method.lower(), *(word.replace("-", "_").replace(".", "_") for word in words)])


def _path_parameters(route: Route) -> list[dict[str, Any]]:
    found = []
    for name in route.parameters:
        schema: dict[str, Any] = {"type": "string", "minLength": 1}
        if name == "seq":
            schema = {"type": "integer", "minimum": 1}
        found.append({"name": name, "in": "path", "required": True, "schema": schema})
    return found


def _query_parameters(route: Route, components: dict[str, Any]) -> list[dict[str, Any]]:
    if route.query is None:
        return []
    shape = components[route.query.__name__]
    return [
        {"name": name, "in": "query", "required": name in shape.get("required", ()), "schema": schema}
        for name, schema in shape["properties"].items()
    ]


def _header_parameters(route: Route) -> list[dict[str, Any]]:
    if route.kind != "stream":
        return []
    about = "the id of the last message that arrived; the stream goes on after it"
    return [{"name": "Last-Event-ID", "in": "header", "schema": {"type": "string"}, "description": about}]


def _responses(route: Route, schema_of: dict[int, Any]) -> dict[str, Any]:
    schema = schema_of.get(id(route.gives), {"type": "string"})
    good = {"description": route.summary, "content": {MEDIA[route.kind]: {"schema": schema}}}
    trouble = {"application/json": {"schema": schema_of[id(Trouble)]}}
    body = (408, 413, 415, 422) if route.takes is not None or route.is_raw else (422,) if route.query else ()
    codes = sorted({*ALWAYS, *route.errors, *body})
    refused = {str(code): {"description": (ALWAYS | WORDS)[code], "content": trouble} for code in codes}
    return {str(route.status): good, **refused}
