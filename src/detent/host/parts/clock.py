"""The wall clock and its alarms, behind three methods, so that tests can own time."""

import asyncio
import heapq
import math
import time
from collections.abc import Callable
from typing import Protocol

from msgspec import Struct


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
DEAD_MAX = 1000  # alarms taken back that may lie in the heap


class _Alarm(Struct, eq=False):
    """One alarm of the system's clock."""

    clock: "SystemClock"
    callback: Callable[[], object] | None

    def cancel(self) -> None:
        """Do not ring."""
        if self.callback is not None:
            self.callback = None
            self.clock.discard_alarm()


class SystemClock:
    """The machine's own clock.

    Nearly every alarm is a call's time limit and is taken back unheard; so they lie in a heap of our own, and the
    loop has one timer, for the first of them.
    """

    now = staticmethod(time.time)

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, _Alarm]] = []
        self._count = 0
        self._dead = 0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = math.inf

    def call_at(self, at: float, callback: Callable[[], object]) -> Alarm:
        """Call back at that time, or at once if it is past."""
        alarm = _Alarm(self, callback)
        self._count += 1
        heapq.heappush(self._heap, (at, self._count, alarm))
        if at < self._timer_at:
            self._set()
        return alarm

    def discard_alarm(self) -> None:
        """An alarm was cancelled; now and then the heap is rid of them."""
        self._dead += 1
        if self._dead > DEAD_MAX and 2 * self._dead > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[2].callback is not None]
            heapq.heapify(self._heap)
            self._dead = 0

    def _set(self) -> None:
        """Set the loop's timer for the first alarm; the wall clock may be changed, so look at least once a day."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = self._heap[0][0]
        delay = min(max(0.0, self._timer_at - self.now()), DELAY_S_MAX)
        self._timer = asyncio.get_running_loop().call_later(delay, self._ring)

    def _ring(self) -> None:
        self._timer, self._timer_at = None, math.inf
        now = self.now()
        due: list[Callable[[], object]] = []
        while self._heap and (self._heap[0][0] <= now or self._heap[0][2].callback is None):
            alarm = heapq.heappop(self._heap)[2]
            if alarm.callback is None:
                self._dead -= 1
            else:
                due.append(alarm.callback)
                alarm.callback = None
        if self._heap:
            self._set()
        for callback in due:
            callback()

    async def sleep_until(self, at: float) -> None:
        """Return at that time, by the wall clock."""
        while (left := at - self.now()) > 0:  # noqa: ASYNC110  # the wall clock may be set meanwhile
            await asyncio.sleep(min(left, DELAY_S_MAX))
