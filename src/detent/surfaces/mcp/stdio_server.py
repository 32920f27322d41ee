"""detent as an MCP server on standard input and output, until the client hangs up."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

from detent.errors import Refused

if TYPE_CHECKING:
    from detent.host.port import OpenHost


async def serve(
    opened: "Callable[[], AbstractAsyncContextManager[OpenHost]]",
    *,
    may_approve_irreversible: bool = False,
) -> None:
    """Serve one client; what a process that died left behind is taken up first."""
    try:
        from detent.surfaces.mcp.mcp_server import Surface
    except ImportError:
        raise Refused("`detent mcp` needs the package mcp: pip install 'detent[mcp]'") from None
    async with opened() as host:
        if host.is_holder:
            await host.recover()
        surface = Surface(host, mcp_may_approve_irreversible=may_approve_irreversible)
        await surface.server.run_stdio_async()
