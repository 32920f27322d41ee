"""The same runs for MCP clients: detent's MCP server over streamable HTTP, under `/mcp` of this server.

It stands behind the same gate as everything else: the token, the checks of host and origin, the pace.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path

from starlette.routing import BaseRoute

from detent.surfaces.server.server_context import HttpServer

PATH = "/mcp"
ROUTES = "mcp"  # where the room keeps them


@asynccontextmanager
async def agents_welcome(room: HttpServer, folder: Path) -> AsyncIterator[None]:
    """While the block works, `room` has the routes for MCP clients; none where the package is not installed."""
    room.extras[ROUTES] = []
    if find_spec("mcp") is None:
        yield
        return
    from detent.surfaces.mcp import Surface

    app = Surface(room.host, folder=folder).app(PATH)
    async with app.router.lifespan_context(app):
        room.extras[ROUTES] = list(app.routes)
        yield


def paths(room: HttpServer) -> list[BaseRoute]:
    """The routes for MCP clients."""
    found: list[BaseRoute] = room.extras.get(ROUTES, [])
    return found
