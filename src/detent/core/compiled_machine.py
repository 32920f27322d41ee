"""A machine made ready for the engine: lookups by state, and every expression compiled to a closure."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from detent.core.consequence import Consequence
from detent.core.expression import compile_condition, compile_template, is_constant, names
from detent.core.machine_check import OWN_EFFECTS
from detent.errors import DefinitionError, Part

if TYPE_CHECKING:
    from detent.core.machine import Action, Machine, Transition

INSTANT = frozenset({"set", "log", "choose", "keep"})  # the engine's own actions that take no time
Evaluate = Callable[[Mapping[str, Any]], Any]


class Condition:
    """A compiled condition that also knows which values it reads, to be able to explain itself."""

    __slots__ = ("evaluate", "reads", "source")

    def __init__(self, source: str) -> None:
        self.source = source
        self.evaluate = compile_condition(source)
        self.reads = tuple((name, tuple(name.split("."))) for name in sorted(names(source)))

    def list_values(self, scope: Mapping[str, Any]) -> dict[str, Any]:
        """The values it looks at; big ones are only hinted at."""
        found = {}
        for name, keys in self.reads:
            value: Any = scope
            for key in keys:
                value = value.get(key) if isinstance(value, Mapping) else None
            is_small = value is None or isinstance(value, int | float) or (isinstance(value, str) and len(value) <= 200)
            found[name] = value if is_small else "…"
        return found


class Row:
    """A transition with its condition compiled."""

    __slots__ = ("row", "then", "when")

    def __init__(self, row: "Transition") -> None:
        self.row = row
        self.when = Condition(row.when) if row.when else None
        self.then = tuple(Work(action) for action in row.then) if row.then else ()


class Work:
    """An action with its expressions compiled."""

    __slots__ = ("action", "ask", "branches", "choice", "duration", "each", "effect", "input", "is_fixed", "key",
                 "matches", "probe", "repeat", "retries", "terms", "timeout", "when")  # fmt: skip

    def __init__(self, action: "Action") -> None:
        self.action = action
        self.input = _input(action)
        self.effect = compile_template(action.effect) if "{{" in action.effect else None
        self.when = Condition(action.when) if action.when else None
        self.choice = Condition(_text(action.input["condition"])) if action.effect == "choose" else None
        self.key = compile_template(action.key) if action.key else None
        self.repeat = compile_template(action.repeat) if action.repeat else None
        self.probe = compile_template(action.probe.input) if action.probe is not None else None
        if action.probe is not None:
            for source in (action.probe.happened, action.probe.not_happened):
                Condition(source)  # a bad one is found now
        retry = action.retry
        self.retries = retry if isinstance(retry, tuple) else (retry,) if retry is not None else ()
        self.each = compile_template(action.each) if action.each else None
        self.ask = None if action.ask is None or is_constant(action.ask.text) else compile_template(action.ask.text)
        self.terms = compile_template(action.ask.terms) if action.ask is not None and action.ask.terms else None
        wait = action.wait
        self.matches: tuple[tuple[str, Condition | None], ...] = ()
        self.duration = self.timeout = None
        if wait is not None:
            self.matches = tuple((e.event, Condition(e.match) if e.match else None) for e in wait.events)
            self.duration = compile_template(wait.duration_s) if wait.duration_s else None
            self.timeout = compile_template(wait.timeout_s) if wait.timeout_s else None
        self.branches: tuple[tuple[str, tuple[Work, ...]], ...] = ()
        if action.branches:
            self.branches = tuple((b.name, tuple(Work(a) for a in b.actions)) for b in action.branches)
        # Whether opening its contract reads nothing: then the engine need not build a scope.
        self.is_fixed = is_constant(action.input) and not any(
            (self.effect, self.key, self.repeat, self.ask, self.terms, self.probe)
        )


def _input(action: "Action") -> Evaluate:
    """An action's input as a template; a child's machine in it keeps its expressions for the child."""
    given = action.input
    if action.effect != "child" or not isinstance(given, dict) or not isinstance(given.get("machine"), dict):
        return compile_template(given)
    rest = compile_template({name: value for name, value in given.items() if name != "machine"})
    return lambda scope: {**rest(scope), "machine": given["machine"]}


class Place:
    """A state: its work, what it accepts, and the ways out in the order they are tried."""

    __slots__ = (
        "accepts",
        "caught",
        "is_idle",
        "local",
        "net",
        "onward",
        "settled",
        "signal_shortcuts",
        "signals",
        "status",
        "timeout_s",
        "work",
        "work_shortcut",
    )

    def __init__(self, machine: "Machine", state: str, rows: list[Row], starred: list[Row]) -> None:
        self.status = machine.ends.get(state)
        self.local = machine.local.get(state, {})
        self.timeout_s = machine.timeouts_s.get(state, 0.0)
        self.work = tuple(_works(machine, state))
        self.signals: dict[str, list[Row]] = {}
        self.settled: list[Row] = []
        self.caught: list[Row] = []
        self.net: list[Row] = []
        for way in rows if self.status else [*rows, *starred]:
            if way.row.on:
                self.signals.setdefault(way.row.on, []).append(way)
            elif not way.row.error:
                self.settled.append(way)
            else:
                (self.net if way.row.error == "*" else self.caught).append(way)
        self.onward = [way for way in self.settled if not way.row.only_failed]  # when all went well
        awaited = [name for work in _waits(self.work) for name, _ in work.matches]
        self.accepts = tuple(dict.fromkeys([*self.signals, *awaited]))
        self.is_idle = bool(self.signals) and not (
            self.work or self.settled or self.status or self.local or self.timeout_s
        )
        # The engine's two shortcuts, filled by the chart: signals that only change the state, and where an only action
        # leads when it went well: the state, its first action, and what is told of it.
        self.signal_shortcuts: dict[str, tuple[str, tuple[Consequence, ...]]] = {}
        self.work_shortcut: tuple[str, Work, Consequence] | None = None


class Chart:
    """Everything the engine looks up, computed once per machine."""

    __slots__ = (
        "effects",
        "has_budget",
        "has_limits",
        "has_notes",
        "has_rates",
        "keeps",
        "machine",
        "output",
        "places",
        "tolerant",
    )

    def __init__(self, machine: "Machine") -> None:
        self.machine = machine
        rows = _rows(machine)
        starred = rows.pop("*", [])
        self.places = {state: Place(machine, state, rows.get(state, []), starred) for state in machine.states}
        every = [work for place in self.places.values() for work in flat(place.work)]
        self.tolerant = tuple(work for work in every if work.action.tolerate or work.action.join != "all")
        try:
            self.output = compile_template(machine.output) if machine.output is not None else None
        except DefinitionError as error:
            raise DefinitionError(error.problem, f"machine `{machine.name}`, output") from None
        self.keeps = frozenset(machine.keeps)
        self.has_budget = bool(machine.limits.max_cost_usd or machine.limits.max_tokens)
        self.has_limits = bool(machine.limits.max_transitions or machine.limits.max_visits)
        actions = list(_actions(machine))
        self.effects = _effects(actions)
        self.has_rates = any(action.rate for action in actions)
        self.has_notes = any(action.effect == "log" and _is_note(action) for action in actions)
        if not machine.limits.max_visits:
            self._pave()

    def _pave(self) -> None:
        """Find the signals that only change the state, and the ways on that depend on nothing."""
        for state, place in self.places.items():
            place.work_shortcut = self._find_work_shortcut(state, place)
            if self.has_limits:
                continue
            for event, ways in place.signals.items():
                row = ways[0].row
                is_simple = not (ways[0].when or row.then or row.is_kill)
                if is_simple and self.places[row.target].is_idle:
                    place.signal_shortcuts[event] = (row.target, (Consequence("transition", state, event, row.target),))

    def _find_work_shortcut(self, state: str, place: Place) -> tuple[str, Work, Consequence] | None:
        if len(place.work) != 1 or not place.onward or not _takes_time(place.work[0]):
            return None
        way = place.onward[0]
        if way.when or way.then or way.row.is_kill:
            return None
        target = self.places[way.row.target]
        if not target.work or target.status or target.local or target.timeout_s:
            return None
        first = target.work[0]
        if first.when or not _takes_time(first):
            return None
        return way.row.target, first, Consequence("transition", state, "", way.row.target)


def _rows(machine: "Machine") -> dict[str, list[Row]]:
    rows: dict[str, list[Row]] = {}
    for row in sorted(machine.transitions, key=lambda r: -r.priority):
        try:
            rows.setdefault(row.source, []).append(Row(row))
        except DefinitionError as error:
            where = f"machine `{machine.name}`, `{row.source}` → `{row.target}`"
            raise DefinitionError(error.problem, where, Part(row.source, target=row.target)) from None
    return rows


def _works(machine: "Machine", state: str) -> Iterator[Work]:
    for action in machine.work.get(state, ()):
        try:
            yield Work(action)
        except DefinitionError as error:
            where = f"machine `{machine.name}`, state `{state}`, action `{action.id}`"
            raise DefinitionError(error.problem, where, Part(state, action.id)) from None


def _takes_time(work: Work) -> bool:
    """Whether it is done by one contract."""
    return not work.branches and work.action.effect not in INSTANT


def _text(condition: Any) -> str:
    """A `choose` may say true or false outright."""
    return condition if isinstance(condition, str) else str(bool(condition)).lower()


def flat(work: Iterable[Work]) -> Iterator[Work]:
    """These actions, and those in their branches."""
    for one in work:
        yield one
        for _, inner in one.branches:
            yield from flat(inner)


def ids(work: Iterable[Work]) -> Iterator[str]:
    """The names of these actions, and of those in their branches."""
    return (one.action.id for one in flat(work))


def _waits(work: Iterable[Work]) -> Iterator[Work]:
    for one in work:
        if one.matches:
            yield one
        for _, inner in one.branches:
            yield from _waits(inner)


def _actions(machine: "Machine") -> Iterator["Action"]:
    """Every action, those of branches and of rows included."""

    def walk(action: "Action") -> Iterator["Action"]:
        for branch in action.branches:
            for inner in branch.actions:
                yield from walk(inner)
        yield action

    for actions in machine.work.values():
        for action in actions:
            if action.branches:
                yield from walk(action)
            else:
                yield action
    for row in machine.transitions:
        yield from row.then


def _is_note(action: "Action") -> bool:
    """Whether it may send a message to whoever started the run."""
    level = action.input.get("level") if isinstance(action.input, dict) else None
    return level == "notify" or not (level is None or is_constant(level))


def _effects(actions: Sequence["Action"]) -> tuple[str, ...]:
    """The names of the host's effects these actions call; one that is an expression counts as `*`."""
    called = dict.fromkeys(action.effect for action in actions)
    called |= dict.fromkeys(action.probe.effect for action in actions if action.probe is not None)
    return tuple(dict.fromkeys(name if "{{" not in name else "*" for name in called if name not in OWN_EFFECTS))
