"""Addresses of triggers: what is armed, what comes next, and firing, pausing and resuming by hand."""

import sys
import time
from typing import Any

import msgspec

from detent.errors import Refused
from detent.host.port import Reader
from detent.kit.http.request_base import Asked, Count
from detent.kit.http.route import HttpCall, Route
from detent.kit.trigger import armed_trigger
from detent.kit.trigger.armed_trigger import ARMED, REMOVED, ArmedTrigger, find_triggers, list_triggers
from detent.kit.trigger.driver_lock import DriverSeat, is_driven
from detent.kit.trigger.firing import Occasion, fire, mark_of_time
from detent.kit.trigger.trigger_driver import TriggerDriver
from detent.kit.trigger.trigger_view import ShownTrigger, find_upcoming, show_trigger
from detent.surfaces.server.server_context import HttpServer


class PlannedTime(msgspec.Struct, frozen=True):
    """A planned time; `change` says what a clock change does to it: moved, once of two, or nothing."""

    at: float
    time: str
    trigger: str
    change: str


class TriggerPage(msgspec.Struct, frozen=True):
    """The triggers, what they start next, and whether anybody drives them."""

    triggers: list[ShownTrigger]
    next: list[PlannedTime]
    is_driven: bool


class TriggerQuery(Asked, frozen=True):
    """How many planned times."""

    count: Count = 20


class FireRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a trigger fired by hand is given as `event`."""

    event: dict[str, Any] = {}
    by: str = ""


class TriggerMove(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who pauses or resumes."""

    by: str = ""


class FiredRun(msgspec.Struct, frozen=True):
    """The run that was begun."""

    run_id: str


async def list_all(room: HttpServer, call: HttpCall) -> TriggerPage:
    """Every trigger that is armed or paused."""
    return await room.ask(_page, room, call.query.count)


def _page(room: HttpServer, count: int) -> TriggerPage:
    now, found = time.time(), _present(room.reader)
    coming = [PlannedTime(one.at, one.text, one.name, one.change) for one in find_upcoming(found, now, count)]
    return TriggerPage([show_trigger(room.reader, one, now) for one in found], coming, is_driven(room.home))


def _present(reader: Reader) -> list[ArmedTrigger]:
    return [one for one in list_triggers(reader) if one.state != REMOVED]


async def fire_one(room: HttpServer, call: HttpCall) -> FiredRun:
    """Fire a trigger by hand."""
    armed, now = await room.ask(_find, room.reader, call.path["name"]), time.time()
    occasion = Occasion(f"hand-{mark_of_time(now)}", now, call.body.event, is_manual=True, by=call.by)
    done = await fire(room.host, armed, occasion)
    if done.why:
        raise Refused(f"`{armed.name}` starts nothing: {done.why}")
    return FiredRun(done.run_id)


async def pause_one(room: HttpServer, call: HttpCall) -> TriggerPage:
    """Pause a trigger."""
    armed = await room.ask(_find, room.reader, call.path["name"])
    if armed.state == ARMED:
        await armed_trigger.pause(room.host, armed, call.by)
    return await room.ask(_page, room, 20)


async def resume_one(room: HttpServer, call: HttpCall) -> TriggerPage:
    """Resume a trigger."""
    armed = await room.ask(_find, room.reader, call.path["name"])
    if armed.state != ARMED:
        await armed_trigger.resume(room.host, armed, time.time(), call.by)
    return await room.ask(_page, room, 20)


def _find(reader: Reader, name: str) -> ArmedTrigger:
    found = find_triggers(_present(reader), name)
    if len(found) > 1:
        raise Refused(f"there are several: {', '.join(one.name for one in found)}; name one")
    return found[0]


async def drive_triggers(room: HttpServer) -> None:
    """Start what is due, as long as the server lives."""
    driver = TriggerDriver(room.host, time.time, warn=_warn, seat=DriverSeat(room.home))
    await driver.run()


def _warn(said: str) -> None:
    sys.stderr.write(f"detent serve: {said}\n")
    sys.stderr.flush()


ROUTES = (
    Route("GET", "/api/triggers", list_all, "What starts runs by itself, and when", TriggerPage, query=TriggerQuery,
          tag="triggers"),
    Route("POST", "/api/triggers/{name}/fire", fire_one, "Start a run now, as the trigger would", FiredRun,
          takes=FireRequest, errors=(404, 409), tag="triggers"),
    Route("POST", "/api/triggers/{name}/pause", pause_one, "Let a trigger start nothing for now", TriggerPage,
          takes=TriggerMove, errors=(404, 409), tag="triggers"),
    Route("POST", "/api/triggers/{name}/resume", resume_one, "Let a trigger go on", TriggerPage, takes=TriggerMove,
          errors=(404, 409), tag="triggers"),
)  # fmt: skip
