"""`triggers:` of a workflow file: what starts its runs when nobody does.

A trigger is data like the rest of the file: it does nothing until somebody arms it (`detent trigger add`).
"""

from typing import Any, Literal

import msgspec

from detent.core.status import TERMINAL
from detent.define.compile_context import Page
from detent.define.document import Route
from detent.define.key_check import Fields, fields
from detent.define.schedule import EVERY_MIN_S, Schedule, check_cron, find_zone, parse_moment
from detent.define.value_check import check_name, seconds
from detent.errors import DefinitionError

TriggerKind = Literal["schedule", "webhook", "file", "run_ended", "signal"]
# Which key makes a trigger what it is, and which others go with it.
CAUSES: dict[str, TriggerKind] = {
    "schedule": "schedule",
    "every": "schedule",
    "webhook": "webhook",
    "file": "file",
    "run_ended": "run_ended",
    "signal": "signal",
}
ALONGSIDE: dict[TriggerKind, frozenset[str]] = {
    "schedule": frozenset({"timezone", "catch_up", "jitter", "start", "end"}),
    "webhook": frozenset({"schema"}),
    "file": frozenset({"settle", "existing"}),
    "run_ended": frozenset({"status"}),
    "signal": frozenset({"schema"}),
}
EVERYWHERE = frozenset({"when", "input", "description"})
ROOTS = ("trigger", "event")  # what its expressions can read
STATUSES = tuple(sorted(status.value for status in TERMINAL))
SETTLE_S = 2.0
JITTER_S_MAX = 86_400.0


class Trigger(msgspec.Struct, frozen=True, omit_defaults=True):
    """One trigger: its name in the file, what it waits for, and what the run is given."""

    name: str
    kind: TriggerKind
    schedule: Schedule | None = None
    hook: str = ""  # of detent.serve.yaml
    files: str = ""  # a pattern below the file's folder
    settle_s: float = SETTLE_S  # a file counts when it has not changed for so long
    is_existing: bool = False  # files that were there before the trigger was armed count too
    workflow: str = ""  # the name of another one, whose runs end
    statuses: tuple[str, ...] = ()  # how they end; empty: however
    signal: str = ""
    schema: dict[str, Any] = {}  # of what is sent
    when: str = ""
    input: Any = {}

    @property
    def about(self) -> str:
        """What it waits for, in a few words."""
        match self.kind:
            case "schedule" if self.schedule is not None:
                said = self.schedule.cron or f"every {self.schedule.every_s:g} s"
                return said if self.schedule.timezone == "UTC" else f"{said} {self.schedule.timezone}"
            case "webhook":
                return f"hook {self.hook}"
            case "file":
                return self.files
            case "run_ended":
                return " ".join([self.workflow, *self.statuses])
        return self.signal


def read_triggers(page: Page, path: Route, value: Any) -> tuple[Trigger, ...]:
    """The triggers of a file; a note for each that cannot be meant."""
    if value is None:
        return ()
    if not isinstance(value, dict):
        page.say(path, "`triggers` must be a mapping from names to triggers")
        return ()
    found = []
    for name, inner in value.items():
        here = (*path, name)
        if not check_name(page, here, name, "a trigger:", at_key=True):
            continue
        before, seen = len(page.problems), len(page.readings)
        given = fields(page, here, inner, "trigger", f"the trigger `{name}`")
        made = _read_trigger(given, name) if given is not None else None
        _check_names(page, seen)
        if made is not None and len(page.problems) == before:
            found.append(made)
    return tuple(found)


def _read_trigger(given: Fields, name: str) -> Trigger | None:
    causes = [key for key in CAUSES if key in given.said]
    if len(causes) != 1:
        given.page.say(given.path, f"a trigger has exactly one of {', '.join(f'`{one}`' for one in CAUSES)}")
        return None
    cause, kind = causes[0], CAUSES[causes[0]]
    for key in given.said - {cause} - ALONGSIDE[kind] - EVERYWHERE:
        given.page.say(given.at(key), f"`{key}` does not go with `{cause}`", at_key=True)
    if cause not in given:
        return None  # what stands there is wrong, and was said
    return Trigger(
        name=name,
        kind=kind,
        schedule=_read_schedule(given) if kind == "schedule" else None,
        hook=given.get("webhook", ""),
        files=_read_pattern(given),
        settle_s=_seconds(given, "settle", SETTLE_S),
        is_existing=given.get("existing", False),
        workflow=given.get("run_ended", ""),
        statuses=_read_statuses(given),
        signal=given.get("signal", ""),
        schema=given.get("schema", {}),
        when=given.get("when", ""),
        input=given.get("input", {}),
    )


def _read_schedule(given: Fields) -> Schedule:
    every_s = _seconds(given, "every", 0.0)
    if "every" in given and every_s < EVERY_MIN_S:
        given.say("every", f"at least {EVERY_MIN_S:g} s must lie between two runs")
    cron, timezone = str(given.get("schedule", "")), str(given.get("timezone", "UTC"))
    if cron and (wrong := check_cron(cron)):
        given.say("schedule", wrong)
    try:
        find_zone(timezone)
    except DefinitionError as error:
        given.say("timezone", error.problem)
        timezone = "UTC"
    moments = {"start": 0.0, "end": 0.0}
    for key in moments:
        try:
            moments[key] = parse_moment(str(given[key]), timezone) if key in given else 0.0
        except DefinitionError as error:
            given.say(key, error.problem, "in quotes, if it has a time of day")
    if moments["end"] and moments["end"] <= moments["start"]:
        given.say("end", "the end is not after the start")
    jitter_s = _seconds(given, "jitter", 0.0)
    if jitter_s > JITTER_S_MAX:
        given.say("jitter", "the jitter is at most a day")
    return Schedule(cron, every_s, timezone, given.get("catch_up", "last"), jitter_s, **moments)


def _seconds(given: Fields, key: str, default: float) -> float:
    return seconds(given.page, given.at(key), given[key], key) if key in given else default


def _read_pattern(given: Fields) -> str:
    pattern = str(given.get("file", ""))
    if pattern.startswith("/") or ".." in pattern.split("/"):
        given.say("file", "files are watched below the folder of the workflow file", "write a path without `..`")
    return pattern


def _read_statuses(given: Fields) -> tuple[str, ...]:
    wanted: tuple[str, ...] = given.get("status", ())
    for one in wanted:
        if one not in STATUSES:
            given.say("status", *given.page.unknown("status", one, STATUSES))
    return wanted


def _check_names(page: Page, seen: int) -> None:
    """A trigger's expressions read what has happened; there is no run yet whose context they could read."""
    own, page.readings[seen:] = page.readings[seen:], []
    for reading in own:
        for read in reading.reads:
            if (root := read.partition(".")[0]) not in ROOTS:
                page.say(reading.path, *page.unknown("name", root, ROOTS))
