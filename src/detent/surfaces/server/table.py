"""The route table: every address of the API. Agents bring theirs."""

import re

from detent.kit.agent import load_all
from detent.kit.http.route import Route
from detent.surfaces.server import (
    artefact_routes,
    audit,
    batch,
    bulk,
    caller_routes,
    control,
    definition,
    draft,
    editor,
    figures,
    history,
    hook,
    inbox,
    login,
    rehearsal,
    run,
    search,
    seeing,
    sentence,
    settling,
    stream,
    trigger_routes,
)
from detent.surfaces.server import mcp_routes as workshop

PARTS = (
    login,
    run,
    control,
    bulk,
    history,
    artefact_routes,
    batch,
    inbox,
    search,
    seeing,
    sentence,
    figures,
    settling,
    audit,
    definition,
    rehearsal,
    editor,
    draft,
    stream,
    hook,
    trigger_routes,
    caller_routes,
    workshop,
)


def routes() -> tuple[Route, ...]:
    """All rows, in the order in which they are tried; of two for one address the first counts."""
    found = [route for part in PARTS for route in part.ROUTES]
    found += [route for rows in load_all("routes") for route in rows]
    table: dict[tuple[str, str], Route] = {}
    for route in found:
        table.setdefault((route.method, re.sub(r"\{\w+", "{", route.path)), route)
    return tuple(table.values())
