"""The driver of triggers: starts what is due, and says when it must be asked again.

It keeps nothing that the journal does not have. Any number of drivers may work on one home at the same time, and each
may die at any moment: what they start has an id that is computed, so nothing is started twice.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from itertools import islice, takewhile
from pathlib import Path
from typing import Any

from detent.core.status import TERMINAL
from detent.core.value import plain
from detent.define.schedule import Schedule
from detent.define.trigger import TriggerKind
from detent.errors import DetentError, JournalError
from detent.host.port import Host
from detent.host.reading import Query, Summary
from detent.host.system_run import TRIGGER_NAME, TRIGGERS_ID
from detent.kit.trigger.armed_trigger import (
    ARMED,
    ArmedTrigger,
    FiringRecord,
    find_trigger_run,
    list_triggers,
)
from detent.kit.trigger.driver_lock import DriverSeat
from detent.kit.trigger.file_watch import FileWatch
from detent.kit.trigger.firing import Firing, Occasion, fire, fire_all, mark_of_event, plan_occasion, skip

LATE_S = 60.0  # so long after its planned time something still counts as in time
AT_ONCE = 200  # firings of one trigger before others have their turn
BACK_S = 2 * 86_400.0  # how far back the latest missed time is looked for at first
LOOK_S = 2.0  # how often folders are looked at
SHORTEST_S = 0.05
REST_S = 60.0  # how long a driver waits at most: the clock may be set, and a journal may change hands
STEPS_MAX = 1000
ENDED = tuple(TERMINAL)


class TriggerDriver:
    """Drives the triggers of one home; `run_due` may be called again and again, `run` does so."""

    def __init__(
        self,
        host: Host,
        now: Callable[[], float],
        *,
        warn: Callable[[str], object] = lambda _: None,
        seat: DriverSeat | None = None,
    ) -> None:
        self._host, self._now, self._warn, self._seat = host, now, warn, seat
        self._files: dict[str, FileWatch] = {}
        self._cursor = -1
        self._triggers: dict[str, ArmedTrigger] | None = None
        self._told: set[str] = set()

    async def run(self) -> None:
        """Start what is due, until cancelled; what goes wrong with one trigger is told, and tried again later."""
        reader = self._host.reader
        try:
            with reader.watching() as news:
                while True:
                    try:
                        wait_s = await self._take_turn()
                    except DetentError as error:  # the journal changes hands, or the disk is full: look again
                        self._tell("", error)
                        wait_s = LOOK_S
                    await asyncio.sleep(SHORTEST_S)  # a busy home has news all the time: one look serves many
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(news.wait(), min(max(wait_s - SHORTEST_S, 0.0), REST_S))
        finally:
            if self._seat is not None:
                self._seat.leave()

    async def _take_turn(self) -> float:
        """Start what is due, if it is ours to do; in how many seconds to look again."""
        if self._seat is not None and not self._seat.take():
            return LOOK_S
        await self.run_due()
        return self.next_look() - self._now()

    async def run_due(self) -> list[str]:
        """Start everything that is due now; the ids of the runs that this has begun."""
        self._refresh()
        begun: list[str] = []
        todo = [one for one in (self._triggers or {}).values() if one.state == ARMED]
        while todo:
            left = []
            for armed in todo:
                try:
                    started, is_done = await self._run_one(armed)
                except JournalError:
                    raise
                except DetentError as error:
                    self._tell(armed.name, error)
                    continue
                begun += started
                if not is_done:
                    left.append(armed)
            for one in left:
                self._reload(one.id)
            todo = [self._triggers[one.id] for one in left] if self._triggers is not None else []
        return begun

    def next_look(self) -> float:
        """When there may be something due again."""
        now, soonest = self._now(), self._now() + REST_S
        for armed in (self._triggers or {}).values():
            if armed.state != ARMED:
                continue
            if armed.trigger.kind == "file":
                soonest = min(soonest, now + LOOK_S)
            elif armed.trigger.schedule is not None:
                for at in armed.trigger.schedule.next(armed.upto):
                    due = at + armed.trigger.schedule.delay(armed.id, at)
                    soonest = min(soonest, due if due > now else now + LOOK_S)  # one that could not be started
        return soonest

    def _refresh(self) -> None:
        """Read the triggers again if an event of one was written since the last look."""
        reader = self._host.reader
        if not reader.has_runs():
            self._triggers = {}
            return
        cursor = reader.cursor()
        if self._triggers is None or self._cursor < 0:
            self._triggers = {one.id: one for one in list_triggers(reader)}
        elif cursor != self._cursor:
            steps = reader.steps(self._cursor, STEPS_MAX)
            changed = {step.run_id for step in steps if step.name in (TRIGGERS_ID, TRIGGER_NAME)}
            if len(steps) >= STEPS_MAX or changed - self._triggers.keys():
                self._triggers = {one.id: one for one in list_triggers(reader)}
            else:
                for id in changed:
                    self._reload(id)
        self._cursor = cursor

    def _reload(self, id: str) -> None:
        armed = find_trigger_run(self._host.reader, id)
        if armed is not None and self._triggers is not None:
            self._triggers[id] = armed

    async def _run_one(self, armed: ArmedTrigger) -> tuple[list[str], bool]:
        """Start what one trigger has due; whether that was all of it."""
        match armed.trigger.kind:
            case "schedule":
                return await self._run_schedule(armed)
            case "file":
                occasions = self._find_files(armed)
            case "run_ended":
                occasions = await asyncio.to_thread(self._find_ended, armed)
            case _:
                return [], True  # somebody brings what these wait for
        return [one.run_id for one in await fire_all(self._host, armed, occasions) if one.is_new], True

    async def _run_schedule(self, armed: ArmedTrigger) -> tuple[list[str], bool]:
        schedule = armed.trigger.schedule
        if schedule is None:
            return [], True
        now = self._now()
        ripe = self._find_due(armed, schedule, now)
        if schedule.catch_up == "none" and ripe:
            in_time = [at for at in ripe if now - at - schedule.delay(armed.id, at) <= LATE_S]
            if not in_time:
                why = "nobody was there in time, and it does not catch up"
                await skip(self._host, armed, plan_occasion(ripe[-1]), why)
            ripe = in_time
        is_late = schedule.catch_up == "last" and len(ripe) > 1
        wanted = ripe[-1:] if schedule.catch_up == "last" else ripe
        occasions = [plan_occasion(at, armed.upto if is_late else 0.0) for at in wanted]
        fired = await fire_all(self._host, armed, occasions)
        return [one.run_id for one in fired if one.is_new], len(ripe) < AT_ONCE

    def _find_due(self, armed: ArmedTrigger, schedule: Schedule, now: float) -> list[float]:
        """The planned times that are due, in order: up to the first whose jitter is not over."""
        times: Iterable[float] = schedule.times(armed.upto, now)
        if schedule.catch_up == "all":
            times = islice(times, AT_ONCE)
        else:  # only the latest count: after a year without a driver the times of a year need not be computed
            times, back_s = [], BACK_S
            while not times:
                times = list(schedule.times(max(armed.upto, now - back_s), now))
                if now - back_s <= armed.upto:
                    break
                back_s *= 8
        return list(takewhile(lambda at: at + schedule.delay(armed.id, at) <= now, times))

    def _find_files(self, armed: ArmedTrigger) -> list[Occasion]:
        watch = self._files.get(armed.id)
        if watch is None or watch.armed.run.machine != armed.run.machine:
            watch = self._files[armed.id] = FileWatch(armed, Path(armed.file).parent)
        known = self._host.reader.project(armed.id, FiringRecord)
        return [one for one in watch.look(self._now()) if not known.has(one.mark)]

    def _find_ended(self, armed: ArmedTrigger) -> list[Occasion]:
        """Runs of a workflow that have ended since the trigger was armed and were not seen yet, oldest first."""
        reader, known = self._host.reader, self._host.reader.project(armed.id, FiringRecord)
        wanted, found = armed.trigger, []
        statuses = tuple(status for status in ENDED if not wanted.statuses or status.value in wanted.statuses)
        since = max(armed.since, armed.upto - LATE_S)
        query = Query(status=statuses, name=wanted.workflow, moved_since=since, limit=200)
        while True:
            page = reader.list(query)
            found += [one for one in page.runs if not known.has(mark_of_event(one.run_id, str(one.seq)))]
            if not page.next:
                break
            query = query._replace(before=page.next)
        return [self._occasion_of(one) for one in sorted(found, key=lambda one: one.updated_at)]

    def _occasion_of(self, ended: Summary) -> Occasion:
        run = self._host.reader.standing(ended.run_id).run
        earlier = run.context.get("trigger")
        chain = earlier.get("chain", 0) if isinstance(earlier, dict) else 0
        event: dict[str, Any] = {
            "run_id": run.id,
            "workflow": ended.name,
            "status": ended.status.value,
            "state": ended.state,
            "output": run.output if run.output is not None else run.context,
            "error": ended.error,
            "chain": (chain if isinstance(chain, int) else 0) + 1,
        }
        mark = mark_of_event(run.id, str(ended.seq))
        return Occasion(mark, ended.updated_at, plain(event, "event"), upto=ended.updated_at)

    def _tell(self, name: str, error: DetentError) -> None:
        said = f"trigger {name}: {error}" if name else str(error)
        if said not in self._told:
            self._told = {*list(self._told)[-100:], said}
            self._warn(said)


async def deliver(host: Host, kind: TriggerKind, name: str, occasion: Occasion) -> list[tuple[ArmedTrigger, Firing]]:
    """Fire every armed trigger that waits for this hook or signal; what is delivered again is answered as before."""
    heard = []
    for armed in list_triggers(host.reader):
        waits_for = armed.trigger.hook if kind == "webhook" else armed.trigger.signal
        if armed.state == ARMED and armed.trigger.kind == kind and waits_for == name:
            heard.append((armed, await fire(host, armed, occasion)))
    return heard
