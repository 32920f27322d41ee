"""Pace: how often somebody may ask. A bucket for each sender that fills steadily and holds a burst."""

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable


class Pace:
    """Buckets by sender; those who have been silent longest are forgotten first, so that memory has a bound."""

    def __init__(
        self, per_second: float, burst: float, most: int = 10_000, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_second, self._burst, self._most, self._now = per_second, burst, most, now
        self._left: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()  # what is left, as of when

    def take(self, sender: Hashable) -> float:
        """Count one request; how many seconds too early it is, 0.0 when it may go on."""
        now = self._now()
        left, at = self._left.pop(sender, (self._burst, now))
        left = min(self._burst, left + (now - at) * self._per_second) - 1
        self._left[sender] = max(left, 0.0), now
        if len(self._left) > self._most:
            self._left.popitem(last=False)
        return max(0.0, -left / self._per_second)

    def give_back(self, sender: Hashable) -> None:
        """Do not count the last request after all."""
        if sender in self._left:
            left, at = self._left[sender]
            self._left[sender] = min(self._burst, left + 1), at
