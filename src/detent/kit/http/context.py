"""The server that a handler works in, as far as handlers of agents know it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, Protocol, TypeVar

from detent.host.port import OpenHost, Reader
from detent.host.reading import Summary

P = ParamSpec("P")
R = TypeVar("R")


class ServerContext(Protocol):
    """A host that moves runs, its reader, and the limits of this server."""

    host: OpenHost
    reader: Reader
    home: Path
    is_closing: bool
    streams: int  # open now
    extras: dict[str, Any]  # what a part keeps here between two calls, by its name

    @property
    def heartbeat_seconds(self) -> float:
        """How often a stream says that it lives."""

    @property
    def stalled_seconds(self) -> float:
        """How long a reader may take for one message."""

    async def ask(self, read: Callable[P, R], *args: P.args, **given: P.kwargs) -> R:
        """Ask the journal something in a thread: a long answer must not keep the others waiting."""

    async def find(self, name: str) -> Summary:
        """A run by its id, an unambiguous beginning of it, or `last`."""
