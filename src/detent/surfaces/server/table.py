"""The route table: every address of the API. Agents bring theirs."""

from detent.kit.agent import all_agents
from detent.kit.http.route import Route
from detent.surfaces.server import control, definition, history, hook, inbox, run, settling, stream
from detent.surfaces.server import mcp_routes as workshop

PARTS = (run, control, history, inbox, settling, definition, stream, hook, workshop)


def routes() -> tuple[Route, ...]:
    """All rows, in the order in which they are tried."""
    own = [route for part in PARTS for route in part.ROUTES]
    return (*own, *(route for agent in all_agents() for route in agent.load("routes") or ()))
