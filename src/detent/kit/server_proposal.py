"""Adding an MCP server: a block pasted from another program's file, with a kind proposed for each of its tools.

A proposal is no declaration. What a tool is called, and what its server says of it, are hints for the person who
confirms them; nothing counts before that.
"""

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from detent.core.effect_type import Kind
from detent.errors import Refused

if TYPE_CHECKING:
    from detent.effects.mcp import Offer

READS = frozenset({"get", "list", "read", "search", "find", "look", "show", "fetch", "describe", "query", "count",
                   "check", "view", "browse", "lookup", "status", "diff", "log"})  # fmt: skip
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


class ProposedKind(NamedTuple):
    """What a tool is taken for, and why."""

    kind: Kind
    why: str


def propose_kind(offer: "Offer") -> ProposedKind:
    """What a tool seems to be: its server's hint, else a name that says it reads, else the careful default."""
    hints = offer.hints
    if hints.read_only:
        return ProposedKind("pure", "its server says that it only reads")
    if hints.idempotent and not hints.destructive:
        return ProposedKind("idempotent", "its server says that it may be called again")
    if hints.read_only is False or hints.destructive:
        return ProposedKind("irreversible", "its server says that it changes something")
    words = [word.lower() for word in _WORD.findall(offer.name)]
    found = next((word for word in words if word in READS), "")
    if found and words.index(found) <= 1:
        return ProposedKind("pure", f"its name says `{found}`")
    return ProposedKind("irreversible", "nothing says otherwise")


def write_block(name: str, server: dict[str, Any], kinds: dict[str, Kind]) -> str:
    """The entry of a server in `detent.mcp.yaml`; JSON's values are YAML's as well."""
    lines = [f"  {json.dumps(name)}:"]
    lines += [f"    {key}: {json.dumps(value, ensure_ascii=False)}" for key, value in server.items() if key != "tools"]
    if kinds:
        lines.append("    tools:")
        lines += [f"      {json.dumps(tool)}: {{effect: {kind}}}" for tool, kind in kinds.items()]
    return "\n".join(lines) + "\n"


def insert_block(path: Path, block: str) -> None:
    """Put an entry under `servers` of a file, and keep the rest as it is; a file that is not there is begun."""
    if not path.exists():
        path.write_text(f"servers:\n{block}", encoding="utf-8")
        return
    text = path.read_text(encoding="utf-8")
    head = re.search(r"(?m)^(servers|mcpServers):[ \t]*(#.*)?\n", text)
    if head is None:
        raise Refused(f"{path} has no line `servers:`; put this under its servers:\n{block}")
    path.write_text(f"{text[: head.end()]}{block}{text[head.end() :]}", encoding="utf-8")
