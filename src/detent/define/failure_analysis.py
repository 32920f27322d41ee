"""A machine as a map: what can go wrong in each state, and which rows can take it.

A condition decides only where its value is certain, so every way a run can take is on the map.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from detent.core.compiled_machine import INSTANT, Place, Row, Work, flat
from detent.core.contract import Failure
from detent.core.contract_lifecycle import NEVER_RETRIED
from detent.core.expression import is_constant, names
from detent.core.machine import Action, Machine
from detent.define.condition_truth import truth

REJECTED = Failure("approval_rejected")
STEPS_MAX = 200_000  # rows looked at before the proof gives up
# What fails only by an error: it answers, or it raises, and never says `success: false`.
NEVER_SAYS_NO = frozenset({
    "ask", "wait", "child", "shell", "http", "llm", "notify", "files", "files.read", "files.write", "files.append",
})  # fmt: skip

IsIrreversible = Callable[[Action], bool]
Deeds = Mapping[tuple[str, str], Work]
Facts = Mapping[str, Any]


class TooLarge(Exception):
    """There are more ways than anybody can look at."""


class Mark(NamedTuple):
    """By which paths a failure can still be seen: results of these actions, and `error` or `attempt`."""

    names: frozenset[str]
    more: frozenset[str]


class StateTrouble(NamedTuple):
    """One thing that can go wrong in a state: whose names tell of it, and what is known then."""

    action: str
    names: tuple[str, ...]
    facts: Facts
    error: Failure | None = None  # if its type is known
    is_no: bool = False  # the action answered `success: false`, and is no error


def deeds_of(machine: Machine, is_irreversible: IsIrreversible) -> Deeds:
    """The irreversible actions, by state and name."""
    return {
        (state, one.action.id): one
        for state, place in machine.chart.places.items()
        for one in flat(place.work)
        if is_irreversible(one.action)
    }


class Atlas:
    """A machine as the proof sees it."""

    def __init__(self, machine: Machine, deeds: Deeds) -> None:
        self.places = machine.chart.places
        self.deeds = deeds
        self.carriers = _carriers(machine)
        self._ways: dict[str, list[Row]] = {}
        self.reached = self._find_reachable(machine.initial)
        self._steps = 0

    def ways(self, state: str) -> list[Row]:
        """Every row that can be taken from a state, whatever happens there."""
        found = self._ways.get(state)
        if found is None:
            found = self._ways[state] = _ways(self.places[state])
        return found

    def _find_reachable(self, initial: str) -> dict[str, Place]:
        """The states that a run can come to."""
        found, pending = {initial: self.places[initial]}, [initial]
        while pending:
            for way in self.ways(pending.pop()):
                if way.row.target not in found:
                    found[way.row.target] = self.places[way.row.target]
                    pending.append(way.row.target)
        return found

    def count_look(self) -> None:
        """Count a step, so that the proof comes to an end."""
        self._steps += 1
        if self._steps > STEPS_MAX:
            raise TooLarge

    def reads(self, source: str, mark: "Mark") -> bool:
        """Whether an expression looks at a failure."""
        if not source:
            return False
        wanted = {"result", "approval", *mark.more}
        wanted |= {f"{root}.{name}" for root in ("result", "approval") for name in mark.names}
        wanted |= {path for path, origins in self.carriers.items() if origins & wanted}
        return any(_is_part(read, one) for read in names(source) for one in wanted)


def _is_part(read: str, wanted: str) -> bool:
    """Whether a path is the wanted one or lies in it; all results together are looked at only as a whole."""
    return read == wanted or (wanted not in ("result", "approval") and read.startswith(wanted + "."))


def _carriers(machine: Machine) -> dict[str, set[str]]:
    """Variables that are set from an error or a result: whoever reads them looks at that."""
    found: dict[str, set[str]] = {}
    actions = [action for actions in machine.work.values() for action in actions]
    for action in [*actions, *(action for row in machine.transitions for action in row.then)]:
        if action.effect == "set" and isinstance(action.input.get("name"), str):
            name = action.input["name"]
            path = name if name.startswith(("context.", "variables.", "state.")) else f"context.{name}"
            origins = {part for read in _reads(action.input.get("value")) for part in _beginnings(read)}
            found.setdefault(path, set()).update(origins)
    return found


def _reads(value: Any) -> Iterator[str]:
    pending = [value]
    while pending:
        one = pending.pop()
        if isinstance(one, str) and not is_constant(one):
            yield from names(one)
        elif isinstance(one, dict | list):
            pending.extend(one.values() if isinstance(one, dict) else one)


def _beginnings(read: str) -> Iterator[str]:
    first, _, rest = read.partition(".")
    yield first if first in ("error", "attempt") else f"{first}.{rest.partition('.')[0]}" if rest else first


# what can happen in a state


def _well(place: Place) -> Facts:
    """What is known after work well done."""
    if not place.work:
        return {}  # the error of an earlier state may still be there
    sure = [one.action.id for one in place.work if one.when is None and one.action.effect not in INSTANT]
    return {**{f"result.{name}.success": True for name in sure}, "error": None}


def troubles(place: Place) -> Iterator[StateTrouble]:
    """Everything that can go wrong in a state's work."""
    for one in place.work:
        action = one.action
        if action.effect in INSTANT or (action.wait is not None and not action.wait.timeout_s):
            continue
        inside = (action.id, *(inner.action.id for _, branch in one.branches for inner in flat(branch)))
        failed = {f"result.{action.id}.success": False}
        yield StateTrouble(action.id, inside, {**failed, "error": {"type": ""}})
        if action.effect not in NEVER_SAYS_NO:
            nothing = {"error": None, "error.type": None, "error.message": None}
            yield StateTrouble(action.id, inside, {**(failed if not one.branches else {}), **nothing}, is_no=True)
    if place.timeout_s:
        yield StateTrouble("", (), {"error": {"type": ""}, "error.type": "timeout.state"}, Failure("timeout.state"))


def refusals(place: Place) -> Iterator[StateTrouble]:
    """Every question of a state that somebody can say no to."""
    for top in place.work:
        for one in flat((top,)):
            if one.action.ask is not None:
                rejected = {"error.type": REJECTED.type, f"result.{one.action.id}.error.type": REJECTED.type}
                facts = {f"result.{one.action.id}.success": False, "error": {"type": ""}, **rejected}
                error = REJECTED if top is one else Failure("branch_failed", data={"causes": [REJECTED.type]})
                facts["error.type"] = error.type
                yield StateTrouble(one.action.id, (one.action.id, top.action.id), facts, error)


def _first(rows: Iterable[Row], facts: Facts) -> tuple[list[Row], bool]:
    """The rows of which one is taken, and whether one of them surely is."""
    possible = []
    for way in rows:
        holds = truth(way.row.when, facts)
        if holds is not False:
            possible.append(way)
        if holds is True:
            return possible, True
    return possible, False


def onward(place: Place) -> list[Row]:
    """The rows that work well done, or a signal, can take; where none surely is, also those for `no_transition`."""
    done, is_sure = _first(place.onward, _well(place))
    signals = [way for rows in place.signals.values() for way in rows]
    stuck = [] if is_sure else [*place.caught, *(way for way in place.settled if way.row.only_failed), *place.net]
    return [*done, *signals, *stuck]


def taking(place: Place, trouble: StateTrouble) -> list[Row]:
    """The rows that can take what went wrong."""
    error, facts = trouble.error, trouble.facts
    if trouble.is_no:
        open_rows = [way for way in place.settled if way.when is not None or way.row.even_failed]
        found, is_sure = _first(open_rows, facts)
        return found if is_sure else [*found, *place.caught, *place.net]
    if error is None:
        return _take_anything(place, facts)
    found, is_sure = _first([way for way in place.caught if error.matches(way.row.error)], facts)
    if is_sure:
        return found
    is_final = any(error.matches(kind) for kind in NEVER_RETRIED)
    open_rows = [way for way in place.settled if way.row.even_failed and not (is_final and way.row.is_retry)]
    more, is_sure = _first(open_rows, facts)
    return [*found, *more] if is_sure else [*found, *more, *place.net]


def _take_anything(place: Place, facts: Facts) -> list[Row]:
    """The rows that can take an error whose type nobody knows: of each type, and whether it may be retried or not."""
    found: list[Row] = []
    for kind in dict.fromkeys(way.row.error for way in place.caught):
        found += _first([way for way in place.caught if way.row.error == kind], facts)[0]
    open_rows = [way for way in place.settled if way.row.even_failed]
    found += _first(open_rows, facts)[0]
    final, is_sure = _first([way for way in open_rows if not way.row.is_retry], facts)
    found += [way for way in final if way not in found]
    return found if is_sure else [*found, *place.net]


def _ways(place: Place) -> list[Row]:
    if place.status is not None:
        return [way for rows in place.signals.values() for way in rows]
    found = {id(way): way for way in onward(place)}
    for trouble in troubles(place):
        found.update({id(way): way for way in taking(place, trouble)})
    return list(found.values())
