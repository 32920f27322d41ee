"""Which states and transitions of a machine its test cases have been through."""

from collections.abc import Iterable
from typing import NamedTuple

from detent.core.machine import Machine, Transition

Way = tuple[str, str, str]  # from a state, on an event or on nothing, to a state


class CoveredRow(NamedTuple):
    """A row of the table, and how often it was taken."""

    row: Transition
    times: int


class CaseCoverage(NamedTuple):
    """What the cases of one machine have seen of it."""

    machine: Machine
    states: dict[str, int]  # how often each was entered
    rows: tuple[CoveredRow, ...]

    @property
    def missed_states(self) -> list[str]:
        """The states that no case has entered."""
        return [state for state, count in self.states.items() if not count]

    @property
    def missed_rows(self) -> list[Transition]:
        """The rows that no case has taken."""
        return [one.row for one in self.rows if not one.times]


def measure_coverage(machine: Machine, plays: Iterable[tuple[Iterable[str], Iterable[Way]]]) -> CaseCoverage:
    """What these plays, each the states it entered and the ways it took, have seen of a machine."""
    states = dict.fromkeys(machine.states, 0)
    taken: dict[Way, int] = {}
    for path, ways in plays:
        for state in path:
            states[state] = states.get(state, 0) + 1
        for way in ways:
            taken[way] = taken.get(way, 0) + 1
    rows = [CoveredRow(row, _count(row, taken)) for row in machine.transitions]
    return CaseCoverage(machine, states, tuple(rows))


def _count(row: Transition, taken: dict[Way, int]) -> int:
    """How often a row was taken; of rows that differ only in their condition, one stands for all."""
    return sum(
        count
        for (source, event, target), count in taken.items()
        if row.source in (source, "*") and row.target == target and (not row.on or row.on == event)
    )
