"""The room every handler works in: the host that moves runs, its reader, the feeds and the settings."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from detent.core.identity import Identity
from detent.errors import DetentError, Unknown
from detent.host.port import OpenHost
from detent.host.reading import Summary
from detent.surfaces.server.authentication import Reception
from detent.surfaces.server.feed import Feeds
from detent.surfaces.server.progress_feed import ProgressFeed
from detent.surfaces.server.prometheus_meter import Meter
from detent.surfaces.server.question_index import QuestionDesk
from detent.surfaces.server.setting import ServerSettings

if TYPE_CHECKING:
    from detent.surfaces.server.definition_library import Library

READERS_MAX = 4  # questions put to the journal at the same time
P = ParamSpec("P")
R = TypeVar("R")


class HttpServer:
    """What one server has: a journal, its runs, and the project around it."""

    def __init__(
        self, host: OpenHost, home: Path, library: "Library", settings: ServerSettings, tasks: asyncio.TaskGroup
    ) -> None:
        self.host = host
        self.reader = host.reader
        self.home = home
        self.library = library
        self.settings = settings
        self.is_closing = False
        self.desk = QuestionDesk(host.reader)
        self.feeds = Feeds(self, tasks)
        self.progress = ProgressFeed(host)
        self.streams = 0
        self.meter = Meter(self)
        self._free = asyncio.Semaphore(READERS_MAX)
        self.extras: dict[str, Any] = {}  # what route modules of other parts keep here, by their name
        self.user = ""  # who runs this server; a claimed name
        self.reception = Reception(home, settings, self._note_attempt)

    async def ask(self, read: Callable[P, R], *args: P.args, **given: P.kwargs) -> R:
        """Ask the journal something in a thread: a long answer must not keep the others waiting."""
        async with self._free:
            return await asyncio.to_thread(read, *args, **given)

    async def _note_attempt(self, who: Identity, why: str) -> None:
        """Write down that somebody tried to be who they are not."""
        with suppress(DetentError):  # the request is refused anyway
            await self.host.change_people({"do": "refused", "name": who.name, "why": why}, by=who)

    async def find(self, name: str) -> Summary:
        """A run by its id, an unambiguous beginning of it, or `last`."""
        if not name or len(name) > 100:
            raise Unknown(f"there is no run `{name[:100]}`")
        return await self.ask(self.reader.find, name)

    @property
    def heartbeat_seconds(self) -> float:
        """How often a stream says that it lives."""
        return self.settings.limits.heartbeat_seconds

    @property
    def stalled_seconds(self) -> float:
        """How long a reader may take for one message."""
        return self.settings.limits.stalled_seconds

    async def find_run_id(self, name: str) -> str:
        """The id of the run that is meant; one that is in memory is not looked for."""
        return name if self.reader.at_hand(name) else (await self.find(name)).run_id

    def close(self) -> None:
        """End the streams; the host is closed by whoever opened it."""
        self.is_closing = True
        self.feeds.close()


@asynccontextmanager
async def open_room(
    host: OpenHost, home: Path, library: "Library", settings: ServerSettings
) -> AsyncIterator[HttpServer]:
    """A room whose feeds run while the block does."""
    host.reader.attend()
    async with asyncio.TaskGroup() as tasks:
        room = HttpServer(host, home, library, settings, tasks)
        try:
            yield room
        finally:
            room.close()
