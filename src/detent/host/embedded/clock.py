"""The wall clock and its alarms, behind three methods, so that tests can own time."""

import asyncio
import time
from collections.abc import Callable
from typing import Protocol


class Alarm(Protocol):
    """Something that can be taken back."""

    def cancel(self) -> None:
        """Do not ring."""


class Clock(Protocol):
    """What a host needs of time."""

    def now(self) -> float:
        """Seconds since the epoch."""

    def call_at(self, at: float, callback: Callable[[], object]) -> Alarm:
        """Call back at that time, or at once if it is past."""

    async def sleep_until(self, at: float) -> None:
        """Return at that time."""


DELAY_S_MAX = 86_400.0


class SystemClock:
    """The machine's own clock."""

    now = staticmethod(time.time)

    def call_at(self, at: float, callback: Callable[[], object]) -> Alarm:
        """Call back at that time; far-away alarms ring early and must be set again by their owner."""
        delay = min(max(0.0, at - time.time()), DELAY_S_MAX)
        return asyncio.get_running_loop().call_later(delay, callback)

    async def sleep_until(self, at: float) -> None:
        """Return at that time, by the wall clock."""
        while (left := at - time.time()) > 0:  # noqa: ASYNC110  # the wall clock may be set meanwhile
            await asyncio.sleep(min(left, DELAY_S_MAX))
