"""`triggers:` in workflow files: what they mean, what is refused, and which times a schedule plans."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detent.define.schedule import Schedule, show_moment
from detent.define.trigger import Trigger
from detent.define.workflow import read_workflow
from detent.errors import DefinitionError

STATES = """
states: {a: {type: initial}, z: {type: final}}
transitions: [{from: a, to: z}]
"""
BERLIN = ZoneInfo("Europe/Berlin")


def read(triggers: str) -> tuple[Trigger, ...]:
    return read_workflow(f"triggers:\n  {triggers}\n{STATES}").triggers


def refused(triggers: str) -> str:
    with pytest.raises(DefinitionError) as caught:
        read(triggers)
    return str(caught.value)


def at(*parts: int) -> float:
    return datetime(*parts, tzinfo=BERLIN).timestamp()  # type: ignore[arg-type, misc]


def test_a_trigger_changes_nothing_about_its_machine() -> None:
    with_it = read_workflow(f"triggers: {{t: {{every: 5m}}}}\n{STATES}").machine
    assert with_it.digest == read_workflow(STATES).machine.digest


def test_a_schedule_is_read() -> None:
    (found,) = read(
        't: {schedule: "0 9 * jan mon", timezone: Europe/Berlin, catch_up: all, jitter: 5m, start: 2026-01-01,'
        ' end: "2026-02-01T12:00", input: {day: "{{ trigger.planned }}"}}'
    )
    assert found.schedule is not None
    times = [show_moment(one, "Europe/Berlin") for one in found.schedule.times(0.0)]
    assert times == [f"2026-01-{day:02}T09:00:00+01:00" for day in (5, 12, 19, 26)]
    assert found.about == "0 9 * jan mon Europe/Berlin"


@pytest.mark.parametrize(
    ("triggers", "said"),
    [
        ("t: {}", "exactly one of"),
        ("t: {every: 5m, signal: X}", "exactly one of"),
        ("t: {every: 5m, settle: 3s}", "`settle` does not go with `every`"),
        ('t: {schedule: "61 * * * *"}', "`61` cannot be the minute: 0 to 59"),
        ('t: {schedule: "0 0 * * fri-mon"}', "`fri-mon` cannot be the day of the week"),
        ('t: {schedule: "0 0 15W * *"}', "`15W` cannot be the day of the month"),
        ('t: {schedule: "* * * foo *"}', "`foo` cannot be the month"),
        ('t: {schedule: "@daily"}', "once a day is"),
        ('t: {schedule: "* * * *"}', "five fields"),
        ('t: {schedule: "0 0 31 2 *"}', "`31` cannot be the day of the month"),
        ('t: {schedule: "0 0 * * *", timezone: Atlantis/Centre}', "not a time zone"),
        ("t: {every: 5m, start: tomorrow}", "not a time"),
        ("t: {every: 5m, start: 2026-02-01, end: 2026-01-01}", "not after the start"),
        ("t: {every: 0.1}", "between two runs"),
        ("t: {file: ../x}", "below the folder"),
        ("t: {run_ended: x, status: sleeping}", "unknown status"),
        ('t: {every: 5m, when: "{{ context.x }}"}', "unknown name `context`"),
        ("t: {schedul: x}", "did you mean `schedule`?"),
        ("9t: {every: 5m}", "not a name"),
        ("t: 7", "must be a mapping"),
    ],
)
def test_what_cannot_be_meant_is_refused(triggers: str, said: str) -> None:
    assert said in refused(triggers)


def test_a_clock_change_is_told() -> None:
    daily = Schedule("30 2 * * *", timezone="Europe/Berlin")
    (forward,) = daily.next(at(2026, 3, 28, 12))
    assert show_moment(forward, "Europe/Berlin") == "2026-03-29T03:00:00+02:00"
    assert daily.describe_change(forward) == "moved"
    (back,) = daily.next(at(2026, 10, 24, 12))
    assert daily.describe_change(back) == "once"
    assert daily.describe_change(daily.next(back)[0]) == ""
    hourly = Schedule("30 * * * *", timezone="Europe/Berlin")
    night = list(hourly.times(at(2026, 10, 25, 0), at(2026, 10, 25, 4)))
    assert len(night) == 5, "an hour that comes twice is two hours of work"


@given(
    st.sampled_from(["*/7 * * * *", "30 2 * * *", "0 */6 * * mon-fri", "15 1,3 1 * *"]),
    st.floats(1.7e9, 1.9e9),
    st.floats(60.0, 2 * 86_400.0),
)
def test_it_makes_no_difference_when_one_begins_to_plan(cron: str, begin: float, length: float) -> None:
    schedule = Schedule(cron, timezone="Europe/Berlin", jitter_s=600.0)
    whole = list(schedule.times(begin, begin + length))
    middle = begin + length / 2
    assert whole == [*schedule.times(begin, middle), *schedule.times(middle, begin + length)]
    assert whole == sorted(set(whole))
    assert all(0.0 <= schedule.delay("t", one) < 600.0 for one in whole)


@given(st.floats(1.0, 1e6), st.floats(0.0, 2e9), st.floats(0.0, 1e9))
def test_regular_times_are_counted_from_the_start(every: float, after: float, start: float) -> None:
    first, second = Schedule(every_s=every, start=start).next(max(after, start), 2)
    assert max(after, start) < first < second
    assert Schedule(every_s=every, start=start).next(first) == [second]
