"""Waking runs when they asked for it: a job in the queue holds the time for all, and this process rings on time."""

from collections.abc import Sequence

from detent.core.events import WAKE, Event, Signalled
from detent.errors import DetentError, EventRefused
from detent.host.concurrency_group import needs_slot
from detent.host.parts.clock import Alarm
from detent.host.parts.loaded_run import LoadedRun
from detent.host.postgres.fold_transaction import Moment
from detent.host.postgres.host_protocol import PostgresMover

SOON_S = 3600.0  # what is due later is left to the queue
ALARMS_MAX = 10_000


class Wakes:
    """The alarms of one process; what it does not ring, a worker does."""

    def __init__(self, host: PostgresMover) -> None:
        self._host = host
        self._alarms: dict[str, Alarm] = {}
        self._is_closed = False

    def set(self, run_id: str, at: float) -> None:
        """Ring for a run at that time; 0: no more."""
        alarm = self._alarms.pop(run_id, None)
        if alarm is not None:
            alarm.cancel()
        is_soon = at - self._host.clock.now() <= SOON_S and len(self._alarms) < ALARMS_MAX
        if at and not self._is_closed and (is_soon or self._host.is_own_time):
            self._alarms[run_id] = self._host.clock.call_at(at, lambda: self._ring(run_id))

    def close(self) -> None:
        """Ring no more."""
        self._is_closed = True
        for alarm in self._alarms.values():
            alarm.cancel()
        self._alarms.clear()

    def _ring(self, run_id: str) -> None:
        self._alarms.pop(run_id, None)
        if not self._is_closed:
            self._host.own(self.wake(run_id))

    async def wake(self, run_id: str) -> None:
        """Let what is due in a run go off, if it still is."""
        try:
            await self.ring(await self._host.surely(lambda: self._host.look(run_id)))
        except EventRefused:
            return  # it ended in the meantime
        except DetentError as error:
            self._host.report(run_id, error)

    async def ring(self, live: LoadedRun) -> None:
        """Let what is due in a run go off."""
        if needs_slot(live, self._host.clock.now()):
            await self._host.take_slots(live.run.id)
        now = self._host.clock.now()

        def make(moment: Moment) -> Sequence[Event]:
            run = moment.live.run
            is_due = 0 < run.wake_at <= now or any(0 < c.expires_at <= now for c in run.contracts)
            return (Signalled(WAKE, at=now),) if is_due and run.ended is None else ()

        await self._host.fold(live, make, patience_s=float("inf"))
