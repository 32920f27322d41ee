"""A machine made ready for the engine: lookups by state, and every expression compiled to a closure."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from detent.core.expression import compile_condition, compile_template, is_constant
from detent.core.taken import Taken
from detent.core.machine import Action, Machine, Transition
from detent.errors import DefinitionError

Evaluate = Callable[[Mapping[str, Any]], Any]


class Row:
    """A transition with its condition compiled."""

    __slots__ = ("row", "then", "when")

    def __init__(self, row: Transition) -> None:
        self.row = row
        self.when = compile_condition(row.when) if row.when else None
        self.then = tuple(Work(action) for action in row.then)


class Work:
    """An action with its expressions compiled."""

    __slots__ = ("action", "ask", "branches", "duration", "each", "effect", "input", "key", "matches", "repeat",
                 "timeout", "when")  # fmt: skip

    def __init__(self, action: Action) -> None:
        self.action = action
        self.input = compile_template(action.input)
        self.effect = None if is_constant(action.effect) else compile_template(action.effect)
        self.when = compile_condition(action.when) if action.when else None
        self.key = compile_template(action.key) if action.key else None
        self.repeat = compile_template(action.repeat) if action.repeat else None
        self.each = compile_template(action.each) if action.each else None
        self.ask = None if action.ask is None or is_constant(action.ask.text) else compile_template(action.ask.text)
        wait = action.wait
        self.matches = tuple((a.event, compile_condition(a.match) if a.match else None) for a in wait.events) if wait else ()
        self.duration = compile_template(wait.duration_s) if wait and wait.duration_s else None
        self.timeout = compile_template(wait.timeout_s) if wait and wait.timeout_s else None
        self.branches = tuple((b.name, tuple(Work(a) for a in b.actions)) for b in action.branches)


class Place:
    """A state: its work, what it accepts, and the ways out in the order they are tried."""

    __slots__ = ("accepts", "caught", "is_idle", "net", "plain", "settled", "signals", "status", "work")

    def __init__(self, machine: Machine, state: str) -> None:
        self.status = machine.ends.get(state)
        self.work = tuple(_compiled(machine, state))
        rows = sorted((r for r in machine.transitions if r.source == state), key=lambda r: -r.priority)
        starred = sorted((r for r in machine.transitions if r.source == "*"), key=lambda r: -r.priority)
        everywhere = [] if self.status else starred
        every = [Row(r) for r in (*rows, *everywhere)]
        self.signals: dict[str, list[Row]] = {}
        for way in every:
            if way.row.on:
                self.signals.setdefault(way.row.on, []).append(way)
        self.settled = [way for way in every if not way.row.on and not way.row.error]
        self.caught = [way for way in every if way.row.error not in ("", "*")]
        self.net = [way for way in every if way.row.error == "*"]
        waits = [name for work in _waits(self.work) for name, _ in work.matches]
        self.accepts = tuple(dict.fromkeys([*self.signals, *waits]))
        self.is_idle = not (self.work or self.settled or self.status or machine.local.get(state)
                            or machine.timeouts_s.get(state))  # fmt: skip
        self.plain: dict[str, tuple[str, tuple[Taken, ...]]] = {}  # filled by the chart: the engine's fast road


class Chart:
    """Everything the engine looks up, computed once per machine."""

    __slots__ = ("effects", "has_limits", "keeps", "machine", "output", "places")

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.places = {state: Place(machine, state) for state in machine.states}
        self.output = compile_template(machine.output) if machine.output is not None else None
        self.keeps = frozenset(machine.keeps)
        limits = machine.limits
        self.has_limits = bool(limits.max_transitions or limits.max_visits)
        self.effects = _effects(machine)
        for state, place in self.places.items():
            if not self.has_limits:
                self._pave(state, place)

    def _pave(self, state: str, place: Place) -> None:
        for event, ways in place.signals.items():
            row = ways[0].row
            simple = len(ways) == 1 and not (ways[0].when or row.then or row.is_kill)
            if simple and self.places[row.target].is_idle:
                place.plain[event] = (row.target, (Taken("transition", state, event, row.target),))


def _compiled(machine: Machine, state: str) -> Iterable[Work]:
    for action in machine.work.get(state, ()):
        try:
            yield Work(action)
        except DefinitionError as error:
            raise DefinitionError(str(error), f"machine `{machine.name}`, state `{state}`, action `{action.id}`") from None


def _waits(work: Iterable[Work]) -> Iterable[Work]:
    for one in work:
        if one.matches:
            yield one
        for _, inner in one.branches:
            yield from _waits(inner)


def _effects(machine: Machine) -> tuple[str, ...]:
    """The names of the effects this machine calls; one that is an expression counts as `*`."""

    def walk(actions: Iterable[Action]) -> Iterable[str]:
        for action in actions:
            if action.branches:
                for branch in action.branches:
                    yield from walk(branch.actions)
            elif action.effect not in ("set", "log", "choose", "wait"):
                yield action.effect if is_constant(action.effect) else "*"

    return tuple(dict.fromkeys(name for actions in machine.work.values() for name in walk(actions)))
