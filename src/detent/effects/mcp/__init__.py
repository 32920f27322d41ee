"""Tools of MCP servers as effects: each is called `server.tool` and is as dangerous as the configuration says.

Whatever a server says (descriptions, results, questions) is data for people and models to read, never an instruction.
"""

from detent.effects.mcp.catalogue import Offer, kind_of
from detent.effects.mcp.config import ServerConfig, ToolConfig, Trouble, configured
from detent.effects.mcp.servers import Servers, Standing

__all__ = ["Servers", "ServerConfig", "ToolConfig", "Trouble", "configured", "Offer", "kind_of", "Standing"]
