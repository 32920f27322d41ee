"""One ring of a bell: an event to wait for that is light, for a server keeps thousands on which nothing happens.

`asyncio.Event` holds a queue, which alone takes as much memory as all of an idle reader should.
"""

import asyncio


class Ring:
    """Something that happens once; everybody who waits for it goes on then."""

    __slots__ = ("_is_set", "_waiting")

    def __init__(self) -> None:
        self._is_set = False
        self._waiting: set[asyncio.Future[bool]] | None = None  # made when somebody waits

    def set(self) -> None:
        """It has happened; told in the thread of those who wait."""
        self._is_set = True
        for future in self._waiting or ():
            _tell(future, is_rung=True)

    async def wait(self, seconds: float | None = None) -> bool:
        """Go on when it has happened, or after a time: whether it has."""
        if self._is_set:
            return True
        loop = asyncio.get_running_loop()
        future: asyncio.Future[bool] = loop.create_future()
        if self._waiting is None:
            self._waiting = set()
        self._waiting.add(future)
        timer = None if seconds is None else loop.call_later(seconds, _tell, future, False)
        try:
            return await future
        finally:
            self._waiting.discard(future)
            if timer is not None:
                timer.cancel()


def _tell(future: "asyncio.Future[bool]", is_rung: bool) -> None:
    if not future.done():
        future.set_result(is_rung)
