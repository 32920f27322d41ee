"""The gateway: a harmless call through it against the same call made directly, taking turns."""

import asyncio
import json
import os
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.engine import folder
from bench.figure import Figure
from bench.workflows import DETENT

CALLS = 30
ROUNDS = 5
MOST = 2.5
SERVER = """
from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations
server = MCPServer("s")
@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def look(word: str) -> str:
    "Look."
    return word
server.run()
"""


def gateway_call() -> Iterator[Figure]:
    """A read through the gateway, durable, against the server itself."""
    with folder() as made:
        home = made.resolve()
        (home / "server.py").write_text(SERVER)
        one = {"command": sys.executable, "args": [str(home / "server.py")], "trusted": True}
        (home / "detent.mcp.yaml").write_text(json.dumps({"servers": {"s": one}}))
        direct, through = asyncio.run(_measure(home))
    ratio = statistics.median(b / a for a, b in zip(direct, through, strict=True))
    a, b = statistics.median(direct), statistics.median(through)
    yield Figure("gateway-call", "a harmless call", round(b * 1e3, 2), "ms", round(a * 1e3, 2), round(ratio, 2),
                 f"≤ {MOST}× direct", ratio <= MOST)  # fmt: skip


async def _measure(home: Path) -> tuple[list[float], list[float]]:
    from mcp import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    plain = StdioServerParameters(command=sys.executable, args=[str(home / "server.py")])
    guarded = StdioServerParameters(command=str(DETENT), args=["gateway"], cwd=str(home), env=dict(os.environ))
    async with Client(stdio_client(plain)) as one, Client(stdio_client(guarded)) as other:
        for client in (one, other):
            await client.list_tools()
        await _call(one, "look"), await _call(other, "s__look")
        turns = [(await _call(one, "look"), await _call(other, "s__look")) for _ in range(ROUNDS)]
    return [direct for direct, _ in turns], [through for _, through in turns]


async def _call(client: Any, tool: str) -> float:
    begun = time.perf_counter()
    for number in range(CALLS):
        result = await client.call_tool(tool, {"word": str(number)})
        assert not result.is_error, result
    return (time.perf_counter() - begun) / CALLS


GROUPS = {"gateway-call": gateway_call}
