"""One event of a run for machines: the same for the command line and for MCP clients."""

from typing import Any

import msgspec

from detent.core.history import Entry


def record_of(entry: Entry) -> dict[str, Any]:
    """One event for machines."""
    return {
        "seq": entry.seq,
        "at": entry.event.at,
        "event": msgspec.to_builtins(entry.event),
        "taken": msgspec.to_builtins(entry.taken),
        "state": entry.run.state,
        "status": entry.run.status.value,
    }
