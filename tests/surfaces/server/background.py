"""A server in a thread of its own, for tests that are not coroutines."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from detent.surfaces.server.setting import ServerLimits, ServerSettings
from tests.effort import PATIENCE_S
from tests.surfaces.server.stage import stage


@contextmanager
def serving_in_a_thread(folder: Path) -> Iterator[str]:
    """Serve the stage's flows, with a few runs in different states; the server's address."""
    ready, address = threading.Event(), ""
    stop: asyncio.Event | None = None
    loop: asyncio.AbstractEventLoop | None = None

    async def main() -> None:
        nonlocal address, stop, loop
        loop, stop = asyncio.get_running_loop(), asyncio.Event()
        limits = ServerLimits(requests_per_second=100_000, requests_burst=1_000_000)
        async with stage(folder, ServerSettings(limits=limits)) as at:
            await at.start("approval", what="x", amount=5)
            await at.start("plea", to="lee")
            await at.start("form")
            await at.start("mail", to="lee")
            address = at.served.address
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: asyncio.run(main()), name="server")
    thread.start()
    try:
        assert ready.wait(PATIENCE_S), "the server did not begin to answer"
        yield address
    finally:
        if loop is not None and stop is not None:
            loop.call_soon_threadsafe(stop.set)
        thread.join(PATIENCE_S)
        assert not thread.is_alive(), "the server did not stop"
