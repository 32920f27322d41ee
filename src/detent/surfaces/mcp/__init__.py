"""detent as an MCP server: any MCP client can start runs, look at them and have its user asked; it cannot approve."""

from detent.surfaces.mcp.mcp_server import Surface

__all__ = ["Surface"]
