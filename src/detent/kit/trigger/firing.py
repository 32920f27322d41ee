"""Firing: one planned time or event becomes one run, however often and by however many it is tried.

First the run begins, under an id computed from the trigger and its mark; then the trigger's own run notes it. Who dies
between the two leaves a run that the next one finds again. What was noted is never begun again, even after the run was
pruned.
"""

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from detent.core.expression import compile_condition, compile_template
from detent.core.identity import By
from detent.core.machine import Machine
from detent.core.schema import problems
from detent.core.value import plain
from detent.define.schedule import show_moment
from detent.errors import DetentError, ExpressionError, GroupFull, Refused
from detent.host.port import Host
from detent.kit.trigger.armed_trigger import ARMED, FIRED, SKIPPED, ArmedTrigger, FiringRecord

CHAIN_MAX = 16  # runs that start each other by their ends
WHY_MAX = 500
BROUGHT = ("webhook", "signal")  # kinds whose occasions somebody brings
NOTES_MAX = 20
SIDE_BY_SIDE = 25  # firings of one trigger


class Occasion(msgspec.Struct, frozen=True):
    """Why a trigger fires: at a planned time, or because of an event; `mark` tells it from every other."""

    mark: str
    at: float  # when it was planned, or happened
    event: dict[str, Any] = {}
    upto: float = 0.0  # planned times up to here are dealt with, when this one is
    missed_after: float = 0.0  # planned times after this one and before were passed over
    is_manual: bool = False
    by: By = ""  # who fires it by hand


def plan_occasion(at: float, missed_after: float = 0.0) -> Occasion:
    """The occasion of a planned time."""
    return Occasion(mark_of_time(at), at, upto=at, missed_after=missed_after)


def mark_of_time(at: float) -> str:
    """A planned time as it stands in a run's id; UTC, so that an hour that the clock shows twice is two."""
    moment = datetime.fromtimestamp(at, UTC)
    return moment.strftime("%Y%m%dT%H%M%S") + (f"-{moment.microsecond:06d}" if moment.microsecond else "") + "Z"


def mark_of_event(*parts: str) -> str:
    """An event as it stands in a run's id."""
    return hashlib.sha256("\0".join(parts).encode(errors="surrogateescape")).hexdigest()[:24]


class Firing(NamedTuple):
    """What became of an occasion: a run, or why there is none."""

    run_id: str = ""
    why: str = ""
    is_new: bool = False


async def fire(host: Host, armed: ArmedTrigger, occasion: Occasion) -> Firing:
    """Begin the run of an occasion, once, and note it."""
    begun = await begin_run(host, armed, occasion)
    if begun.is_new:
        await _note(host, armed, occasion, begun.run_id)
    return begun


async def fire_all(host: Host, armed: ArmedTrigger, occasions: Sequence[Occasion]) -> list[Firing]:
    """Fire for several occasions; side by side where no order is promised, so that they share the journal's commits."""
    if armed.workflow.group is not None:
        return [await fire(host, armed, one) for one in occasions]
    fired: list[Firing] = []
    for at in range(0, len(occasions), SIDE_BY_SIDE):
        tried = [fire(host, armed, one) for one in occasions[at : at + SIDE_BY_SIDE]]
        for came in await asyncio.gather(*tried, return_exceptions=True):
            if isinstance(came, BaseException):
                raise came
            fired.append(came)
    return fired


async def begin_run(host: Host, armed: ArmedTrigger, occasion: Occasion) -> Firing:
    """Begin the run of an occasion, unless that is noted already."""
    run_id = armed.run_id_of(occasion.mark)
    if occasion.mark in host.reader.project(armed.id, FiringRecord).fired:
        return Firing(run_id)
    given, why_not = make_input(armed, occasion)
    by = occasion.by or armed.by
    if why_not:
        # A hook may bring any number of messages that are not meant; what is looked for is noted, to be passed over.
        if armed.state == ARMED and not occasion.is_manual and armed.trigger.kind not in BROUGHT:
            await skip(host, armed, occasion, why_not)
        return Firing("", why_not)
    try:
        run = await host.start(armed.workflow, given, run_id=run_id, by=by, source=armed.file)
    except GroupFull as error:  # it does not wait for a place, by its own word
        if armed.state == ARMED and not occasion.is_manual:
            await skip(host, armed, occasion, str(error))
        return Firing("", str(error))
    return Firing(run.id, is_new=True)


async def _note(host: Host, armed: ArmedTrigger, occasion: Occasion, run_id: str) -> None:
    data: dict[str, Any] = {"mark": occasion.mark, "run_id": run_id, "planned": occasion.at, "upto": occasion.upto}
    if occasion.is_manual:
        data["is_manual"] = True
    if occasion.missed_after:
        data["missed_after"] = occasion.missed_after
    await host.signal(armed.id, FIRED, data, id=f"fire {occasion.mark}", by=occasion.by or armed.by)


async def skip(host: Host, armed: ArmedTrigger, occasion: Occasion, why: str) -> None:
    """Write down that an occasion begins nothing, and why."""
    data = {"mark": occasion.mark, "planned": occasion.at, "upto": occasion.upto, "why": why[:WHY_MAX]}
    await host.signal(armed.id, SKIPPED, data, id=f"skip {occasion.mark}", by=occasion.by or armed.by)


def make_input(armed: ArmedTrigger, occasion: Occasion) -> tuple[dict[str, Any], str]:
    """What the run is given, and why there is none if there is none."""
    trigger, about = armed.trigger, describe(armed, occasion)
    wrong = problems(trigger.schema, _payload(occasion), "the message") if trigger.schema else []
    if wrong:
        return {}, "; ".join(wrong[:NOTES_MAX])
    if int(about.get("chain", 0)) > CHAIN_MAX:
        return {}, f"{CHAIN_MAX} runs have started each other by their ends; this looks like a circle"
    scope = {"trigger": about, "event": occasion.event}
    try:
        if trigger.when and not compile_condition(trigger.when)(scope):
            return {}, "its condition does not hold"
        made = compile_template(trigger.input)(scope)
    except (ExpressionError, DetentError) as error:
        return {}, f"its expressions cannot be used: {error}"
    given = made if isinstance(made, dict) else {"value": made}
    given = given if is_closed(armed.workflow) else {**given, "trigger": about}
    try:
        armed.workflow.fill_input(given)
    except Refused as error:
        return {}, str(error)
    return given, ""


def is_closed(workflow: Machine) -> bool:
    """Whether a workflow takes no input that it does not name, and does not name `trigger`."""
    schema = workflow.input_schema
    return schema.get("additionalProperties") is False and "trigger" not in (schema.get("properties") or {})


def describe(armed: ArmedTrigger, occasion: Occasion) -> dict[str, Any]:
    """What a run finds in `context.trigger`: the planned time is the natural part of a key."""
    zone = armed.trigger.schedule.timezone if armed.trigger.schedule is not None else "UTC"
    about: dict[str, Any] = {
        "name": armed.name,
        "kind": armed.trigger.kind,
        "planned": show_moment(occasion.at, zone),
        "planned_at": occasion.at,
    }
    if occasion.is_manual:
        about["is_manual"] = True
    if occasion.event:
        about["event"] = plain(occasion.event, "event")
        if chain := occasion.event.get("chain"):
            about["chain"] = chain
    return about


def _payload(occasion: Occasion) -> Mapping[str, Any]:
    body = occasion.event.get("body", occasion.event.get("data"))
    return body if isinstance(body, dict) else {"value": body}
