"""Reading the journal on from a bookmark: for those who tell others what happened, however often this server restarts.

The bookmark is a file in the home. It is moved after what was read has been dealt with, so a crash before that reads
the same events again; whoever reads must be able to do the same again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from detent.errors import DetentError
from detent.host.reading import Step
from detent.whole_file import write_whole

if TYPE_CHECKING:
    from detent.surfaces.server.server_context import HttpServer

TROUBLE_S = 2.0
Look = Callable[[Sequence[Step]], Awaitable[None]]


async def read_on(room: "HttpServer", name: str, look: Look) -> None:
    """Show every event to `look`, from now on or from the bookmark of that name; goes on until cancelled."""
    mark = room.home / name
    await room.host.succeed()  # whoever holds the journal tells of it
    while not room.is_closing:
        try:
            async for steps in room.reader.follow_all(await _begin(room, mark)):
                await look(steps)
                _keep(mark, steps[-1].cursor)
        except DetentError:  # the journal cannot be used now; it is read again from the bookmark
            await asyncio.sleep(TROUBLE_S)


async def _begin(room: "HttpServer", mark: Path) -> int:
    newest = await room.ask(room.reader.cursor)
    try:
        return min(int(mark.read_text()), newest)
    except (OSError, ValueError):
        _keep(mark, newest)
        return newest


def _keep(path: Path, place: int) -> None:
    write_whole(path, str(place).encode())
