"""The route table: every address of the API. Agents bring theirs."""

import re

from detent.kit.agent import load_all
from detent.kit.http.route import Route
from detent.surfaces.server import (
    artefact_routes,
    audit_routes,
    batch_approval,
    bulk_routes,
    control_routes,
    definition_routes,
    draft_routes,
    dry_run_routes,
    editor_routes,
    guard_routes,
    history_routes,
    inbox,
    incoming_hook,
    login_routes,
    mcp_routes,
    run_routes,
    search,
    sentence,
    settle_routes,
    statistics_routes,
    stream_routes,
    trigger_routes,
    waterfall_routes,
)

PARTS = (
    login_routes,
    run_routes,
    control_routes,
    bulk_routes,
    history_routes,
    artefact_routes,
    batch_approval,
    inbox,
    search,
    waterfall_routes,
    sentence,
    statistics_routes,
    settle_routes,
    audit_routes,
    definition_routes,
    dry_run_routes,
    editor_routes,
    draft_routes,
    stream_routes,
    incoming_hook,
    trigger_routes,
    guard_routes,
    mcp_routes,
)


def routes() -> tuple[Route, ...]:
    """All rows, in the order in which they are tried; of two for one address the first counts."""
    found = [route for part in PARTS for route in part.ROUTES]
    found += [route for rows in load_all("routes") for route in rows]
    table: dict[tuple[str, str], Route] = {}
    for route in found:
        table.setdefault((route.method, re.sub(r"\{\w+", "{", route.path)), route)
    return tuple(table.values())
