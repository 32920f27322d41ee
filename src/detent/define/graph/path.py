"""The way a run came: which moves it made between states, and how often. A projection of the run."""

from array import array
from bisect import bisect_right
from collections import Counter
from typing import ClassVar, NamedTuple

import msgspec

from detent.core.history import Entry


class Leg(NamedTuple):
    """One move between two states, with what a trace says of the row that led there."""

    source: str
    target: str
    event: str
    held: tuple[str, ...]  # the conditions that were found true on the way
    caught: str  # the error that led there


class RunPath:
    """Everything a run has passed through."""

    name: ClassVar[str] = "path"
    version: ClassVar[int] = 2
    reach: ClassVar[int] = 0

    def __init__(self, run_id: str = "") -> None:
        self.run_id = run_id
        self.legs: Counter[Leg] = Counter()
        self._names: dict[Leg, int] = {}  # each leg that was ever made, by a number
        self._seqs, self._order = array("Q"), array("L")  # the event of every move, and the number of its leg

    def take(self, entry: Entry) -> None:
        """Take in what one event led to."""
        held: set[str] = set()
        caught = ""
        for fact in entry.taken:
            if fact.kind == "condition" and fact.value is True:
                held.add(fact.subject)
            elif fact.kind == "caught":
                caught = fact.event
            elif fact.kind == "transition":
                leg = Leg(fact.source, fact.target, fact.event, tuple(sorted(held)), caught)
                self.legs[leg] += 1
                self._order.append(self._names.setdefault(leg, len(self._names)))
                self._seqs.append(entry.seq)
                held, caught = set(), ""

    def at(self, seq: int) -> "RunPath":
        """The way as it was after one of the run's events; nothing is folded again for that."""
        path = RunPath(self.run_id)
        made = Counter(self._order[: bisect_right(self._seqs, seq)])
        names = list(self._names)  # after the moves: whoever folds it in another thread names a leg before it counts it
        path.legs.update({names[number]: times for number, times in made.items()})
        return path

    def dump(self) -> bytes:
        """Everything, for the next process."""
        return msgspec.json.encode((list(self._names), self._seqs.tolist(), self._order.tolist()))

    @classmethod
    def load(cls, run_id: str, body: bytes) -> "RunPath":
        """What another process has dumped."""
        path = cls(run_id)
        legs, seqs, order = msgspec.json.decode(body, type=tuple[list[Leg], list[int], list[int]])
        path._names = {leg: number for number, leg in enumerate(legs)}
        path._seqs, path._order = array("Q", seqs), array("L", order)
        path.legs.update({legs[number]: times for number, times in Counter(order).items()})
        return path
