"""The database's time, so that it does not matter whose clock is off: asked now and then, and counted on from there."""

import time

from detent.host.parts.clock import SystemClock


class DatabaseClock(SystemClock):
    """The clock of the database, as far as this process knows it."""

    def __init__(self) -> None:
        super().__init__()
        self._ahead = time.time() - time.monotonic()

    def now(self) -> float:
        """Seconds since the epoch."""
        return time.monotonic() + self._ahead

    def set(self, now: float) -> None:
        """What time it is at the database just now; a moment may have passed since it said so."""
        self._ahead = now - time.monotonic()
