"""An MCP server that means harm, or is broken: `hostile.py MODE`, raw JSON on standard input and output."""

import json
import sys
import time
from typing import Any

MODE = sys.argv[1]
READS = {"annotations": {"readOnlyHint": True}}
TOOLS: dict[str, list[dict[str, Any]]] = {
    "no schemas": [{"name": "plain", **READS}, {"name": "empty", "inputSchema": {}, **READS}],
    "many": [{"name": f"t{number}", "inputSchema": {"type": "object"}} for number in range(2100)],
}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    """What it says to a request; None: nothing, ever."""
    if method == "initialize":
        if MODE == "silent":
            time.sleep(1000)
        able: dict[str, Any] = {"tools": {}, "resources": {}, "prompts": {}}
        known = {"name": "hostile", "version": "1"}
        return {"result": {"protocolVersion": "2025-11-25", "capabilities": able, "serverInfo": known}}
    if method == "tools/list":
        plain = [{"name": "plain", "inputSchema": {"type": "object"}, **READS}]
        return {"result": {"tools": TOOLS.get(MODE, plain)}}
    if method in ("resources/list", "prompts/list"):
        return {"result": {method.partition("/")[0]: "nonsense"}}
    if method == "tools/call":
        return None if MODE == "never" else {"result": {"content": [{"type": "text", "text": params["name"]}]}}
    return {"error": {"code": -32601, "message": "no"}}


for line in sys.stdin:
    said = json.loads(line)
    told = answer(said["method"], said.get("params", {})) if "id" in said else None
    if told is not None:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": said["id"], **told}) + "\n")
        sys.stdout.flush()
