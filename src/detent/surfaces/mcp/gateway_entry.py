"""Serving the gateway: on standard input and output, or over streamable HTTP on this machine."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from detent.errors import Refused
from detent.guarding import guard as make_guard
from detent.kit.available_effects import configured_servers, server_file

LOOPBACK = "127.0.0.1"


@asynccontextmanager
async def open_gateway(home: Path, policy: Any, *, page: str = "", may_approve: bool = False) -> AsyncIterator[Any]:
    """A gateway over the servers of this folder, with its problems told by `problems`."""
    from detent.effects.mcp import Servers
    from detent.surfaces.mcp.gateway import Gateway
    from detent.surfaces.mcp.tool_pin import Pins

    configs = configured_servers()
    if not configs:
        raise Refused("there is no detent.mcp.yaml here, so the gateway has nothing to offer")
    law = getattr(policy, "mcp_may_approve_irreversible", False)
    guard = make_guard(home, policy=policy, waiting="raise")
    async with guard.open_in_loop(), Servers(home, configs) as servers:
        gateway = Gateway(guard, servers, configs, Pins(home / "mcp"), page=page, may_approve=may_approve or law)
        await gateway.open()
        yield gateway


async def serve_stdio(gateway: Any) -> None:
    """Serve one client until it hangs up."""
    from detent.surfaces.mcp.stdio_transport import standard_streams

    async with standard_streams() as (read, write):
        await gateway.server.run(read, write, gateway.server.create_initialization_options())


async def serve_http(gateway: Any, port: int) -> None:
    """Serve clients on this machine at `/mcp`."""
    try:
        import uvicorn
    except ImportError:
        raise Refused("`detent gateway --http` needs the package uvicorn: pip install 'detent[server]'") from None
    app = gateway.server.streamable_http_app(streamable_http_path="/mcp", host=LOOPBACK)
    await uvicorn.Server(uvicorn.Config(app, LOOPBACK, port, log_level="error", timeout_graceful_shutdown=2)).serve()


def gateway_file() -> Path:
    """The file that names the servers, in full: a client starts the gateway wherever it likes."""
    path = server_file()
    if path is None:
        raise Refused("there is no detent.mcp.yaml here, so the gateway has nothing to offer")
    return path.absolute()
