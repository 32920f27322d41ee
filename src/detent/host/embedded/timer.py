"""Durable timers: one alarm for the soonest of all; the times themselves are in the journal."""

import heapq
from contextlib import suppress
from typing import TYPE_CHECKING

from detent.core.events import WAKE, Signalled
from detent.core.run import Run
from detent.core.status import Status
from detent.errors import DetentError, EventRefused
from detent.host.concurrency_group import needs_slot
from detent.host.parts.clock import Alarm

if TYPE_CHECKING:
    from detent.host.embedded.host_protocol import Mover


SPARE = 1000


class Timers:
    """Wakes runs when they asked to be woken."""

    def __init__(self, host: "Mover") -> None:
        self._host = host
        self._times: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []
        self._alarm: Alarm | None = None
        self._alarm_at = 0.0

    def load(self) -> None:
        """Read every timer the journal knows."""
        for at, run_id in self._host.journal.timers():
            self.set(run_id, at)

    def set(self, run_id: str, at: float) -> None:
        """Wake that run at that time; 0: no more."""
        if not at:
            self._times.pop(run_id, None)
            return
        self._times[run_id] = at
        heapq.heappush(self._heap, (at, run_id))
        if len(self._heap) > 2 * len(self._times) + SPARE:  # times that were taken back still lie here
            self._heap = [(then, one) for one, then in self._times.items()]
            heapq.heapify(self._heap)
        if self._alarm is None or at < self._alarm_at:
            self._arm()

    def ring_first(self, run: Run) -> bool:
        """Let a question or a wait of this run whose time is over go off: who comes now comes after it.

        Nobody may have driven the run when it was due; then its timer is not set here either.
        """
        now = self._host.clock.now()
        if not any(c.status is Status.WAITING and 0 < c.expires_at <= now for c in run.contracts):
            return False
        self._times.pop(run.id, None)
        self._wake(run.id, now)
        return True

    def close(self) -> None:
        """Ring no more."""
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm, self._heap = None, []

    def _arm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if self._heap:
            self._alarm_at = self._heap[0][0]
            self._alarm = self._host.clock.call_at(self._alarm_at, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        now = self._host.clock.now()
        while self._heap and self._heap[0][0] <= now:
            at, run_id = heapq.heappop(self._heap)
            if self._times.get(run_id) == at:
                del self._times[run_id]
                self._wake(run_id, now)
        self._arm()

    def _wake(self, run_id: str, now: float) -> None:
        try:
            live = self._host.load(run_id)
            if needs_slot(live, now):
                self._host.own(self._take_slots(run_id))
            else:
                self._host.fold(live, Signalled(WAKE, at=now))
        except EventRefused:
            return  # it ended in the meantime
        except DetentError as error:
            self._host.report(run_id, error)

    async def _take_slots(self, run_id: str) -> None:
        """Find out when calls may begin whose rate all runs share, then let go off what is due."""
        try:
            await self._host.take_slots(run_id)
            with suppress(EventRefused):  # it ended in the meantime
                self._host.fold(self._host.load(run_id), Signalled(WAKE, at=self._host.clock.now()))
        except DetentError as error:
            self._host.report(run_id, error)
