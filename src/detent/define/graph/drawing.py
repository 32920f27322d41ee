"""What there is to see in a machine: nodes and edges without any place on the paper.

Every format is drawn from this. Rows between the same two states are one edge with several labels; rows from `*` leave
a node of their own, so that they do not cover the picture.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from detent.core.history import Entry
from detent.core.machine import Action, Machine, Transition, Wait
from detent.core.run import Run
from detent.define.graph.path import Leg, RunPath
from detent.define.graph.text_width import shorten

NodeKind = Literal["normal", "wait", "ask", "parallel", "any", "group", "completed", "failed", "rejected", "cancelled"]
EdgeKind = Literal["settled", "signal", "error", "retry"]

ANY = "*"
ENDS = ("completed", "failed", "rejected", "cancelled")
CONDITION_MAX = 30  # columns
DETAIL_MAX = 32
DETAILS_MAX = 3  # lines
_SILENT = ("set", "log", "choose")
_EVENT = re.compile(r"(?:event\.name|result\.\w+\.event) == (?:'([^']+)'|\"([^\"]+)\")(?= and |$)")


@dataclass(frozen=True, slots=True)
class Node:
    """A state; `marks` says what it does besides its kind (it may ask and wait at once)."""

    name: str
    kind: NodeKind = "normal"
    details: tuple[str, ...] = ()
    lanes: tuple[str, ...] = ()  # one per branch of a parallel state
    marks: tuple[str, ...] = ()  # of "ask", "wait", "parallel"
    is_initial: bool = False
    is_visited: bool = False
    is_current: bool = False
    members: tuple[str, ...] = ()  # of a group of states that is drawn as one

    @property
    def is_end(self) -> bool:
        """Whether a run is over here."""
        return self.kind in ENDS

    @property
    def text(self) -> str:
        """What is written on it."""
        return "any state" if self.kind == "any" else self.name


@dataclass(frozen=True, slots=True)
class Label:
    """Why an edge is taken: an event, `!error`, or a condition."""

    text: str
    kind: EdgeKind
    is_visited: bool = False


@dataclass(frozen=True, slots=True)
class Edge:
    """All rows from one state to another."""

    source: str
    target: str
    kind: EdgeKind = "settled"
    labels: tuple[Label, ...] = ()
    visits: int = 0

    @property
    def is_visited(self) -> bool:
        """Whether the run came this way."""
        return self.visits > 0

    @property
    def is_loop(self) -> bool:
        """Whether it ends where it begins."""
        return self.source == self.target


@dataclass(frozen=True, slots=True)
class Picture:
    """A machine, or a run of it, ready to be drawn."""

    name: str
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    title: str = ""
    status: str = ""  # of the run; empty for a machine alone

    @property
    def is_run(self) -> bool:
        """Whether it shows a run."""
        return bool(self.status)

    @property
    def current(self) -> Node | None:
        """Where the run is."""
        return next((node for node in self.nodes if node.is_current), None)


def picture(
    machine: Machine, run: Run | None = None, entries: Iterable[Entry] = (), path: RunPath | None = None
) -> Picture:
    """The picture of a machine; with a run, its state is lit, and with its path, or entries of it, the way it came."""
    path = path or RunPath()
    for entry in entries:
        path.take(entry)
        run = run if run is not None and run.seq >= entry.run.seq else entry.run
    walk = _Walk(machine, path)
    here = run.state if run is not None else ""
    seen = walk.states | ({here, machine.initial} if here else set())
    starred = any(row.source == ANY for row in machine.transitions)
    nodes = [_node(machine, state, state in seen, state == here) for state in machine.states]
    if starred:
        nodes.append(Node(ANY, "any", is_visited=any(machine.transitions[i].source == ANY for i in walk.rows)))
    status = run.status.value if run is not None else ""
    return Picture(machine.name, tuple(nodes), tuple(_edges(machine, walk)), machine.title, status)


class _Walk:
    """Which rows a run took, and how often."""

    def __init__(self, machine: Machine, path: RunPath) -> None:
        self._machine = machine
        self._out: dict[str, list[int]] = {}
        for index, row in enumerate(machine.transitions):
            self._out.setdefault(row.source, []).append(index)
        self.rows: dict[int, int] = {}
        legs = dict(path.legs)  # at once: whoever folds it may move on in another thread
        self.states = {state for leg in legs for state in (leg.source, leg.target)}
        for leg, times in legs.items():
            taken = self._row(leg)
            if taken is not None:
                self.rows[taken] = self.rows.get(taken, 0) + times

    def _row(self, leg: Leg) -> int | None:
        """The row that fits best; a trace names only the states and the event."""
        fitting = []
        for index in [*self._out.get(leg.source, ()), *self._out.get(ANY, ())]:
            row = self._machine.transitions[index]
            if row.target == leg.target and row.on == leg.event and bool(row.error) == bool(leg.caught):
                fitting.append((index, row))
        sure = [index for index, row in fitting if _is_sure(row, leg)]
        return sure[0] if sure else fitting[0][0] if fitting else None


def _is_sure(row: Transition, leg: Leg) -> bool:
    is_caught = row.error in ("", "*", leg.caught) or leg.caught.startswith(row.error + ".")
    return is_caught and (not row.when or row.when in leg.held)


def _node(machine: Machine, state: str, is_visited: bool, is_current: bool) -> Node:
    actions = machine.work.get(state, ())
    marks = tuple(_marks(actions))
    end = machine.ends.get(state)
    kind: NodeKind = "normal"
    if end is not None:
        kind = end.value  # type: ignore[assignment] # an end has one of the four final statuses
    elif marks:
        kind = "parallel" if "parallel" in marks else "ask" if "ask" in marks else "wait"
    return Node(
        state,
        kind,
        details=tuple(_details(machine, state, actions)),
        lanes=tuple(_lanes(actions)),
        marks=marks,
        is_initial=state == machine.initial,
        is_visited=is_visited,
        is_current=is_current,
    )


def _marks(actions: Iterable[Action]) -> Iterator[str]:
    every = list(_inner(actions))
    if any(action.branches for action in every):
        yield "parallel"
    if any(action.ask is not None for action in every):
        yield "ask"
    if any(action.wait is not None for action in every):
        yield "wait"


def _inner(actions: Iterable[Action]) -> Iterator[Action]:
    for action in actions:
        yield action
        for branch in action.branches:
            yield from _inner(branch.actions)


def _details(machine: Machine, state: str, actions: Iterable[Action]) -> list[str]:
    """A few short lines about what is done in a state."""
    lines = [_describe_action(action) for action in actions if action.effect not in _SILENT and not action.branches]
    if len(lines) > DETAILS_MAX:
        lines = [*lines[: DETAILS_MAX - 1], f"+{len(lines) - DETAILS_MAX + 1} more"]
    if state in machine.timeouts_s:
        lines.append(f"at most {_span(machine.timeouts_s[state])}")
    return [shorten(line, DETAIL_MAX) for line in lines]


def _describe_action(action: Action) -> str:
    if action.wait is not None:
        return _pause(action.wait)
    if action.effect == "ask":
        return (action.ask.text if action.ask else "") or action.id
    return action.effect if action.effect.split(".")[-1] == action.id else f"{action.id}: {action.effect}"


def _pause(wait: Wait) -> str:
    if wait.duration_s:
        return f"for {_span(wait.duration_s)}"
    events = " or ".join(awaited.event for awaited in wait.events)
    return f"{events}, {_span(wait.timeout_s)}" if events and wait.timeout_s else events or _span(wait.timeout_s)


def _span(seconds: Any) -> str:
    """A time as people say it; an expression is left as it is."""
    if isinstance(seconds, str):
        return _bare(seconds)
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:g} {unit}"
    return f"{seconds:g} s"


def _lanes(actions: Iterable[Action]) -> Iterator[str]:
    for action in actions:
        for branch in action.branches:
            deeds = [inner for inner in branch.actions if inner.effect not in _SILENT]
            # The question of a lane is another for each item: its name says more than the beginning of a template.
            work = [inner.id if inner.effect == "ask" else _describe_action(inner) for inner in deeds]
            work = [deed.removeprefix(f"{branch.name}: ") for deed in work]
            name = f"each {_bare(action.each)}" if action.each else branch.name
            yield shorten(f"{name}: {', '.join(work)}" if work else name, DETAIL_MAX)


def _bare(expression: str) -> str:
    text = expression.strip()
    return text[2:-2].strip() if text.startswith("{{") and text.endswith("}}") else text


def _edges(machine: Machine, walk: _Walk) -> Iterator[Edge]:
    pairs: dict[tuple[str, str], list[int]] = {}
    for index, row in enumerate(machine.transitions):
        pairs.setdefault((row.source, row.target), []).append(index)
    choosing = {row.source for row in machine.transitions if row.when and not row.on and not row.error}
    for (source, target), rows in pairs.items():
        labels: dict[tuple[str, EdgeKind], bool] = {}
        for index in rows:
            row = machine.transitions[index]
            key = (_reason(row, source in choosing) or _name_awaited(machine, row), _kind(row))
            labels[key] = labels.get(key, False) or index in walk.rows
        kinds = {kind for _, kind in labels}
        whole: EdgeKind = "retry" if source == target else "signal" if "signal" in kinds else "settled"
        yield Edge(
            source,
            target,
            next(iter(kinds)) if len(kinds) == 1 and source != target else whole,
            tuple(Label(text, kind, seen) for (text, kind), seen in labels.items() if text),
            sum(walk.rows.get(index, 0) for index in rows),
        )


def _kind(row: Transition) -> EdgeKind:
    if row.is_retry:
        return "retry"
    return "signal" if row.on else "error" if row.error or row.only_failed else "settled"


def _reason(row: Transition, is_choice: bool) -> str:
    """What is written on a row."""
    name = row.on or (f"!{row.error}" if row.error else "on error" if row.only_failed else "")
    event, rest = _split_event("" if name or _is_same(row) else _bare(row.when))
    when = shorten("" if _is_same(row) else rest or ("" if event else _bare(row.when)), CONDITION_MAX)
    name = name or event
    if name:
        text = f"{name} [{when}]" if when else name
    else:
        text = when or ("retry" if row.is_retry else "else" if is_choice else "")
    return f"{text} (kill)".strip() if row.is_kill else text


def _split_event(condition: str) -> tuple[str, str]:
    """The event that a condition asks for, and what else it wants: of a wait, the name says more than the question."""
    found = _EVENT.match(condition)
    return (found[1] or found[2], condition[found.end() :].removeprefix(" and ").strip()) if found else ("", "")


def _name_awaited(machine: Machine, row: Transition) -> str:
    """What a state waits for, on the one row that leads out of it when that has come."""
    if row.on or row.error or row.when or row.is_retry or row.only_failed:
        return ""
    waits = [action.wait for action in machine.work.get(row.source, ()) if action.wait is not None]
    names = [one.event for wait in waits for one in wait.events]
    return names[0] if len(names) == 1 else ""


def _is_same(row: Transition) -> bool:
    """Whether the condition only says of which action the error is, as the rows for `on_reject` and `on_expire` do."""
    ending = f".error.type == '{row.error}' }}}}"
    return bool(row.error) and row.when.startswith("{{ result.") and row.when.endswith(ending)
