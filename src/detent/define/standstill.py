"""Where a run can stand for ever: states from which no end can be reached, and waits that nothing but an event ends.

Like the proof of `define.proof` this takes every row that could be taken: a state that it names has no way out at all.
A question to a person is no such wait: it stands in an inbox until somebody answers.
"""

from collections.abc import Mapping
from typing import NamedTuple

from detent.core.compiled_machine import Place, Row, flat
from detent.core.machine import Machine


class EndlessWait(NamedTuple):
    """A wait without an end, and why it has none, if somebody says so."""

    state: str
    action: str  # empty: the state itself waits for a signal
    why: str = ""


class Standstill(NamedTuple):
    """What may keep a run of a machine from ending."""

    no_way_out: tuple[str, ...] = ()
    waits: int = 0  # for events and signals
    endless: tuple[EndlessWait, ...] = ()

    @property
    def unexplained(self) -> tuple[EndlessWait, ...]:
        """The waits without an end of which nobody says why."""
        return tuple(one for one in self.endless if not one.why)


def find_standstill(machine: Machine, reasons: Mapping[str, str] | None = None) -> Standstill:
    """Look for what may keep a run from ending; `reasons` say by state why a wait has no end."""
    waits = 0
    endless = []
    for state, place in machine.chart.places.items():
        for action, has_end in _list_waits(place):
            waits += 1
            if not (has_end or place.timeout_s or machine.limits.max_duration_s):
                endless.append(EndlessWait(state, action, (reasons or {}).get(state, "")))
    return Standstill(_find_trapped(machine), waits, tuple(endless))


def _list_waits(place: Place) -> list[tuple[str, bool]]:
    """The waits of a state, and whether each ends by itself."""
    waits = [one.action for one in flat(place.work) if one.action.wait is not None]
    found = [(one.id, bool(one.wait and (one.wait.timeout_s or one.wait.duration_s))) for one in waits]
    if place.signals and place.status is None and not (place.settled or waits):
        found.append(("", False))
    return found


def _find_trapped(machine: Machine) -> tuple[str, ...]:
    """The states that a run can come to and from which it comes to no end, whatever happens."""
    places = machine.chart.places
    onward = {state: {way.row.target for way in _list_rows(place)} for state, place in places.items()}
    ends = {state for state, place in places.items() if place.status is not None}
    if not ends:
        return ()  # it is meant to go on for ever, as the machine of a door is
    reached, pending = {machine.initial}, [machine.initial]
    while pending:
        more = onward[pending.pop()] - reached
        reached |= more
        pending.extend(more)
    before: dict[str, set[str]] = {}
    for state, targets in onward.items():
        for target in targets:
            before.setdefault(target, set()).add(state)
    pending = list(ends)
    while pending:
        more = before.get(pending.pop(), set()) - ends
        ends |= more
        pending.extend(more)
    # One that nothing leads on from at all is told of elsewhere.
    return tuple(state for state in machine.states if state in reached - ends and onward.get(state))


def _list_rows(place: Place) -> list[Row]:
    return [*place.settled, *place.caught, *place.net, *(way for rows in place.signals.values() for way in rows)]


def describe_trapped(state: str) -> str:
    """What is the matter with a state without a way out."""
    return f"from `{state}` no end can be reached, whatever happens"


def describe_wait(wait: EndlessWait) -> str:
    """What is the matter with a wait without an end."""
    if wait.action in ("", wait.state):
        return f"`{wait.state}` waits for ever if nothing comes"
    return f"`{wait.action}` in `{wait.state}` waits for ever if nothing comes"


WAY_OUT = "let a transition lead to a state that is `type: final` or `type: error`"
WAIT_OUT = "give it a `timeout`, the file `limits.max_duration`, or say under `endless` why it may wait so long"
