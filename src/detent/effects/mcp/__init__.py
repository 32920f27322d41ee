"""Tools of MCP servers as effects: each is called `server.tool` and is as dangerous as the configuration says.

Whatever a server says (descriptions, results, questions) is data for people and models to read, never an instruction.
"""

from detent.effects.mcp.catalogue import Offer, kind_of
from detent.effects.mcp.config import ConfigTrouble, ServerConfig, ToolConfig, parse_config
from detent.effects.mcp.servers import Servers, ServerStanding

__all__ = [
    "Servers",
    "ServerConfig",
    "ToolConfig",
    "ConfigTrouble",
    "parse_config",
    "Offer",
    "kind_of",
    "ServerStanding",
]
