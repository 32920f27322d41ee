"""The way a run came: which moves it made between states, and how often. A projection of the run."""

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
    version: ClassVar[int] = 1
    reach: ClassVar[int] = 0

    def __init__(self, run_id: str = "") -> None:
        self.run_id = run_id
        self.legs: Counter[Leg] = Counter()

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
                self.legs[Leg(fact.source, fact.target, fact.event, tuple(sorted(held)), caught)] += 1
                held, caught = set(), ""

    def dump(self) -> bytes:
        """Everything, for the next process."""
        return msgspec.json.encode([*self.legs.items()])

    @classmethod
    def load(cls, run_id: str, body: bytes) -> "RunPath":
        """What another process has dumped."""
        path = cls(run_id)
        path.legs.update(dict(msgspec.json.decode(body, type=list[tuple[Leg, int]])))
        return path
