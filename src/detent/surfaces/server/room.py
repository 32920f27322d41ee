"""The room every handler works in: the host that moves runs, readers of its journal, the feeds and the settings."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from detent.errors import Unknown
from detent.host.embedded.journal import Record
from detent.host.embedded.listing import Listing
from detent.host.embedded.reader import find
from detent.host.embedded.shared import SharedHost
from detent.surfaces.server.feed import Feeds
from detent.surfaces.server.setting import Settings
from detent.surfaces.server.voice import Voices

if TYPE_CHECKING:
    from detent.surfaces.server.library import Library

READERS_MAX = 4
P = ParamSpec("P")
R = TypeVar("R")


class Room:
    """What one server has: a journal, its runs, and the project around it."""

    def __init__(self, host: SharedHost, home: Path, library: "Library", settings: Settings) -> None:
        self.host = host
        self.home = home
        self.library = library
        self.settings = settings
        self.is_closing = False
        self.feeds = Feeds(self)
        self.voices = Voices(host)
        self._idle: list[Listing] = []
        self._free = asyncio.Semaphore(READERS_MAX)
        self.extras: dict[str, Any] = {}  # what route modules of other parts keep here, by their name

    async def read(self, ask: Callable[Concatenate[Listing, P], R], *args: P.args, **given: P.kwargs) -> R:
        """Ask the journal something in a thread: a long answer must not keep the others waiting."""
        async with self._free:
            journal = self._idle.pop() if self._idle else Listing(self.home / "journal.db")
            try:
                return await asyncio.to_thread(ask, journal, *args, **given)
            finally:
                self._idle.append(journal)

    async def find(self, name: str) -> Record:
        """A run by its id, an unambiguous beginning of it, or `last`."""
        if not name or len(name) > 100:
            raise Unknown(f"there is no run `{name[:100]}`")
        return await self.read(find, name)

    def close(self) -> None:
        """End the streams; the host is closed by whoever opened it."""
        self.is_closing = True
        self.feeds.close()

    def let_go(self) -> None:
        """Close the readers, when nobody asks any more."""
        for journal in self._idle:
            journal.close()
        self._idle.clear()


@asynccontextmanager
async def open_room(host: SharedHost, home: Path, library: "Library", settings: Settings) -> AsyncIterator[Room]:
    """A room whose feeds run while the block does."""
    room = Room(host, home, library, settings)
    async with asyncio.TaskGroup() as tasks:
        tailing = tasks.create_task(room.feeds.run())
        try:
            yield room
        finally:
            room.close()
            tailing.cancel()
    room.let_go()
