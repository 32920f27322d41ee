"""Firing: one planned time or event becomes one run, however often and by however many it is tried.

First the run begins, under an id computed from the trigger and its mark; then the trigger's own run notes it. Who dies
between the two leaves a run that the next one finds again. What was noted is never begun again, even after the run was
pruned.
"""

import asyncio
import hashlib
from collections.abc import Iterable, Mapping, Sequence
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
from detent.host.port import Host, Reader
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


class _Note(NamedTuple):
    """What the trigger's own run is to be told of an occasion."""

    name: str
    data: dict[str, Any]
    id: str


async def fire(host: Host, armed: ArmedTrigger, occasion: Occasion) -> Firing:
    """Begin the run of an occasion, once, and note it."""
    (fired,) = await fire_all(host, armed, [occasion])
    return fired


async def fire_all(host: Host, armed: ArmedTrigger, occasions: Sequence[Occasion]) -> list[Firing]:
    """Fire for several occasions, in their order.

    First all their runs begin, then all are noted, which shares the journal's commits. Only the last note says up to
    when planned times are dealt with: whoever dies before it leaves nothing that is passed over.
    """
    fired: list[Firing] = []
    notes: list[tuple[Occasion, _Note]] = []
    try:
        for occasion in occasions:
            begun, note = await begin_run(host, armed, occasion)
            fired.append(begun)
            notes += [(occasion, note)] if note is not None else []
    except DetentError:
        await _tell_early(host, armed, notes)
        raise
    await _tell_early(host, armed, notes[:-1])
    for one, note in notes[-1:]:
        await _tell(host, armed, one, note)
    return fired


async def _tell_early(host: Host, armed: ArmedTrigger, notes: Sequence[tuple[Occasion, _Note]]) -> None:
    """Note occasions that others follow: which are dealt with, but not up to when."""
    early = [(one, note._replace(data={**note.data, "upto": 0.0})) for one, note in notes]
    for at in range(0, len(early), SIDE_BY_SIDE):
        await asyncio.gather(*(_tell(host, armed, *told) for told in early[at : at + SIDE_BY_SIDE]))


async def _tell(host: Host, armed: ArmedTrigger, occasion: Occasion, note: _Note) -> None:
    by = occasion.by if occasion.is_manual else armed.speak(host.reader.project(armed.id, FiringRecord))
    await host.signal(armed.id, note.name, note.data, id=note.id, by=by)


async def begin_run(host: Host, armed: ArmedTrigger, occasion: Occasion) -> tuple[Firing, _Note | None]:
    """Begin the run of an occasion, unless that is noted already; and what is to be noted now."""
    run_id = armed.run_id_of(occasion.mark)
    record = host.reader.project(armed.id, FiringRecord)
    if occasion.mark in record.fired:
        return Firing(run_id), None
    given, why_not = make_input(armed, occasion)
    by = occasion.by if occasion.is_manual else armed.speak(record)  # who fires by hand needs the right to start runs
    is_planned = armed.state == ARMED and not occasion.is_manual
    if why_not:
        # A hook may bring any number of messages that are not meant; what is looked for is noted, to be passed over.
        is_noted = is_planned and armed.trigger.kind not in BROUGHT
        return Firing("", why_not), _note_skipped(occasion, why_not) if is_noted else None
    try:
        run = await host.start(armed.workflow, given, run_id=run_id, by=by, source=armed.file)
    except GroupFull as error:  # it does not wait for a place, by its own word
        return Firing("", str(error)), _note_skipped(occasion, str(error)) if is_planned else None
    data: dict[str, Any] = {"mark": occasion.mark, "run_id": run.id, "planned": occasion.at, "upto": occasion.upto}
    if occasion.is_manual:
        data["is_manual"] = True
    if occasion.missed_after:
        data["missed_after"] = occasion.missed_after
    return Firing(run.id, is_new=True), _Note(FIRED, data, f"fire {occasion.mark}")


def foresee(reader: Reader, armed: ArmedTrigger, occasions: Iterable[Occasion]) -> list[Firing]:
    """What would become of these occasions now; nothing is begun."""
    noted = reader.project(armed.id, FiringRecord).fired
    found = []
    for occasion in occasions:
        run_id = armed.run_id_of(occasion.mark)
        if occasion.mark in noted or reader.summary(run_id) is not None:
            found.append(Firing(run_id))
        else:
            why_not = make_input(armed, occasion)[1]
            found.append(Firing("" if why_not else run_id, why_not, is_new=not why_not))
    return found


def _note_skipped(occasion: Occasion, why: str) -> _Note:
    data = {"mark": occasion.mark, "planned": occasion.at, "upto": occasion.upto, "why": why[:WHY_MAX]}
    return _Note(SKIPPED, data, f"skip {occasion.mark}")


async def skip(host: Host, armed: ArmedTrigger, occasion: Occasion, why: str) -> None:
    """Write down that an occasion begins nothing, and why."""
    await _tell(host, armed, occasion, _note_skipped(occasion, why))


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
