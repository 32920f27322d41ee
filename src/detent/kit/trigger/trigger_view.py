"""Triggers as they are shown: where each stands, what it did last, and what comes next."""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from detent.define import load
from detent.define.schedule import show_moment
from detent.errors import DefinitionError
from detent.host.port import Reader
from detent.kit.trigger.armed_trigger import ARMED, ArmedTrigger, FiringRecord, make_machine

FileState = Literal["same", "changed", "gone"]


class ShownTrigger(msgspec.Struct, frozen=True):
    """A trigger for people; times are seconds since 1970, and 0 where there is none."""

    name: str
    kind: str
    about: str
    state: str
    file: str
    file_state: FileState
    last_at: float
    last_run: str
    next_at: float
    next_text: str
    problem: str  # why its latest occasion began nothing
    run_id: str  # its own


class Upcoming(NamedTuple):
    """One planned time of a trigger."""

    at: float
    text: str
    name: str
    change: str  # what a clock change has done to it: moved, once, or nothing


def show_trigger(reader: Reader, armed: ArmedTrigger, now: float) -> ShownTrigger:
    """One trigger as it stands."""
    record = reader.project(armed.id, FiringRecord)
    coming = find_upcoming([armed], now, 1)
    return ShownTrigger(
        name=armed.name,
        kind=armed.trigger.kind,
        about=armed.trigger.about,
        state=armed.state,
        file=armed.file,
        file_state=compare_file(armed),
        last_at=float(record.last.get("at", 0.0)),
        last_run=str(record.last.get("run_id", "")),
        next_at=coming[0].at if coming else 0.0,
        next_text=coming[0].text if coming else "",
        problem=record.problem,
        run_id=armed.id,
    )


def compare_file(armed: ArmedTrigger) -> FileState:
    """Whether the file still says what was armed."""
    try:
        definition = load(armed.file, warn=False)
    except DefinitionError:
        return "gone"
    now = next((one for one in definition.triggers if one.name == armed.trigger.name), None)
    return "same" if now is not None and make_machine(definition, now).digest == armed.run.machine else "changed"


def find_upcoming(triggers: Sequence[ArmedTrigger], now: float, count: int) -> list[Upcoming]:
    """What the schedules of armed triggers plan next, soonest first."""
    found = []
    for armed in triggers:
        schedule = armed.trigger.schedule
        if armed.state != ARMED or schedule is None:
            continue
        for at in schedule.next(max(now, armed.since), count):
            found.append(Upcoming(at, show_moment(at, schedule.timezone), armed.name, schedule.describe_change(at)))
    return sorted(found)[:count]


def upcoming_as_data(one: Upcoming) -> dict[str, Any]:
    """A planned time as JSON has it."""
    return {"at": one.at, "time": one.text, "trigger": one.name} | ({"clock_change": one.change} if one.change else {})
