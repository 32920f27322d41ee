"""What a machine can never do: go on to an irreversible action after a failure nobody looked at, or past a no.

A failure is looked at by a handler, by `on: error`, and by a condition that reads `error`, `attempt` or what failed.
The proof walks the table and takes every way that could be taken; a condition decides only where its value is certain.
So it may warn of a way that no run takes, and it misses none.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from detent.core.compiled_machine import flat
from detent.core.machine import Machine, Transition
from detent.define.condition_truth import truth
from detent.define.failure_analysis import (
    Atlas,
    Facts,
    IsIrreversible,
    Mark,
    StateTrouble,
    TooLarge,
    deeds_of,
    onward,
    refusals,
    taking,
    troubles,
)
from detent.define.standstill import Standstill


class Hole(NamedTuple):
    """A way to an irreversible action that should be closed."""

    after: Literal["failure", "rejection"]
    action: str  # what fails, or is said no to; empty: the state's time is over
    rows: tuple[Transition, ...]  # the way, from the state it happens in
    sources: tuple[str, ...]  # the states of the way, since a row may be for `*`
    deed: str

    @property
    def states(self) -> tuple[str, ...]:
        """The way, state by state."""
        return (*self.sources, self.rows[-1].target)


class MachineProof(NamedTuple):
    """What was found out about a machine."""

    deeds: int = 0  # irreversible actions
    holes: tuple[Hole, ...] = ()
    is_whole: bool = True  # false: the machine is too large to look at every way
    standstill: Standstill = Standstill()
    same: tuple[str, ...] = ()  # irreversible calls that are the same in every run


def together(proofs: Iterable[MachineProof]) -> MachineProof:
    """What holds of several machines that are one workflow."""
    every = tuple(proofs)
    holes = tuple(hole for one in every for hole in one.holes)
    still = Standstill(
        tuple(state for one in every for state in one.standstill.no_way_out),
        sum(one.standstill.waits for one in every),
        tuple(wait for one in every for wait in one.standstill.endless),
    )
    same = tuple(action for one in every for action in one.same)
    return MachineProof(sum(one.deeds for one in every), holes, all(one.is_whole for one in every), still, same)


def prove(machine: Machine, is_irreversible: IsIrreversible) -> MachineProof:
    """Look for ways to irreversible actions past failures and past people who said no."""
    deeds = deeds_of(machine, is_irreversible)
    if not deeds:
        return MachineProof()
    atlas = Atlas(machine, deeds)
    found: dict[tuple[str, int], Hole] = {}
    try:
        for hole in (*_after_failures(atlas), *_after_rejections(atlas)):
            found.setdefault((hole.after, id(hole.rows[0])), hole)
    except TooLarge:
        return MachineProof(len(atlas.deeds), tuple(found.values()), is_whole=False)
    return MachineProof(len(atlas.deeds), tuple(found.values()))


def _after_failures(atlas: Atlas) -> Iterator[Hole]:
    for state, place in atlas.reached.items():
        for trouble in troubles(place) if place.status is None else ():
            seen_by = frozenset({"attempt"} if trouble.is_no else {"attempt", "error"})  # a no is not in `error`
            here = Mark(frozenset(trouble.names), seen_by)
            for way in taking(place, trouble):
                row = way.row
                if row.error or row.only_failed or row.is_kill or atlas.reads(row.when, here):
                    continue
                hole = _Search(atlas, state, trouble).walk(row, here._replace(more=seen_by - {"attempt"}))
                if hole is not None:
                    yield hole


class _Search:
    """The ways on from one failure that nobody has looked at."""

    def __init__(self, atlas: Atlas, state: str, trouble: StateTrouble) -> None:
        self._atlas, self._state, self._trouble = atlas, state, trouble

    def walk(self, first: Transition, mark: Mark) -> Hole | None:
        """The shortest way to an irreversible action."""
        pending: deque[tuple[tuple[Transition, ...], tuple[str, ...], Mark]] = deque([((first,), (self._state,), mark)])
        seen = {(first.target, mark)}
        while pending:
            rows, sources, mark = pending.popleft()
            here = rows[-1].target
            deed = self._find_deed(here, mark)
            if deed:
                return Hole("failure", self._trouble.action, rows, sources, deed)
            if here == self._state:
                continue  # what failed is done anew, and fails anew or not at all
            left = self._mark_left(here, mark)
            for way in self._atlas.ways(here):
                self._atlas.count_look()
                if (
                    (way.row.target, left) not in seen
                    and not way.row.is_kill
                    and not self._atlas.reads(way.row.when, left)
                ):
                    seen.add((way.row.target, left))
                    pending.append(((*rows, way.row), (*sources, here), left))
        return None

    def _mark_left(self, state: str, mark: Mark) -> Mark:
        """By what the failure can still be seen after the work of a state: what is done anew hides it."""
        work = self._atlas.places[state].work
        again = {one.action.id for one in flat(work)}
        return Mark(mark.names - again, frozenset() if work else mark.more)

    def _find_deed(self, state: str, mark: Mark) -> str:
        for one in flat(self._atlas.places[state].work):
            name = one.action.id
            if (state, name) in self._atlas.deeds and not self._atlas.reads(one.action.when, mark):
                return name
            if state == self._state and name in self._trouble.names:
                return ""  # the rest is done only if this succeeds now
        return ""


def _after_rejections(atlas: Atlas) -> Iterator[Hole]:
    for state, place in atlas.reached.items():
        for trouble in refusals(place) if place.status is None else ():
            guarded = _find_guarded(atlas, state, trouble.action)
            for way in taking(place, trouble) if guarded else ():
                hole = None if way.row.is_kill else _past(atlas, state, way.row, trouble, guarded)
                if hole is not None:
                    yield hole


def _past(
    atlas: Atlas, state: str, first: Transition, trouble: StateTrouble, guarded: frozenset[tuple[str, str]]
) -> Hole | None:
    """The shortest way from a no to what the question stood before, with no other question between."""
    known = {path: value for path, value in trouble.facts.items() if path.startswith("result.")}
    pending: deque[tuple[tuple[Transition, ...], tuple[str, ...]]] = deque([((first,), (state,))])
    seen = {first.target}
    while pending:
        rows, sources = pending.popleft()
        here = rows[-1].target
        deeds = [name for name in _find_unasked(atlas, here, known) if (here, name) in guarded]
        if deeds:
            return Hole("rejection", trouble.action, rows, sources, deeds[0])
        if any(one.action.ask is not None for one in flat(atlas.places[here].work)):
            continue  # a new question, and so a new answer
        for way in atlas.ways(here):
            atlas.count_look()
            if way.row.target not in seen and not way.row.is_kill and truth(way.row.when, known) is not False:
                seen.add(way.row.target)
                pending.append(((*rows, way.row), (*sources, here)))
    return None


def _find_guarded(atlas: Atlas, state: str, question: str) -> frozenset[tuple[str, str]]:
    """The irreversible actions that a question stands before: those a yes leads to, with no other question between."""
    found: set[tuple[str, str]] = set()
    asking = next(one for one in flat(atlas.places[state].work) if one.action.id == question)
    same = asking.action.effect, asking.action.input
    if asking.action.effect != "ask":  # the deed is the call itself; it may stand elsewhere, unasked
        return frozenset(
            place for place, one in atlas.deeds.items()
            if (one.action.effect, one.action.input) == same and one.action.ask is None
        )  # fmt: skip
    pending, seen = deque(way.row.target for way in onward(atlas.places[state])), {state}
    while pending:
        here = pending.popleft()
        if here in seen:
            continue
        seen.add(here)
        atlas.count_look()
        deeds = _find_unasked(atlas, here, {})
        found.update((here, name) for name in deeds)
        if not deeds and not any(one.action.ask is not None for one in flat(atlas.places[here].work)):
            pending.extend(way.row.target for way in onward(atlas.places[here]))
    return frozenset(found)


def _find_unasked(atlas: Atlas, state: str, known: Facts) -> list[str]:
    """The irreversible actions of a state that are done before any question of its own."""
    found = []
    for one in flat(atlas.places[state].work):
        if one.action.ask is not None:
            break
        if (state, one.action.id) in atlas.deeds and truth(one.action.when, known) is not False:
            found.append(one.action.id)
    return found


def what(hole: Hole) -> str:
    """What can happen and should not."""
    first, deed = hole.states[0], f"`{hole.deed}` in `{hole.states[-1]}`"
    if hole.after == "rejection":
        return f"{deed} cannot be undone, and can be done after a no to `{hole.action}` in `{first}`"
    failed = f"`{hole.action}` in `{first}` has failed" if hole.action else f"the time of `{first}` is over"
    return f"{deed} cannot be undone, and can be done after {failed} and nothing has looked at that"


def way_out(hole: Hole) -> str:
    """What would close it."""
    if hole.after == "rejection":
        return f"lead a no elsewhere, or ask again before `{hole.deed}`"
    reads = f"`error`, `attempt` or `result.{hole.action}`" if hole.action else "`error` or `attempt`"
    return f"leave the condition out, say `on: error`, or let the condition read {reads}"
