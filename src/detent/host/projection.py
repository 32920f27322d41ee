"""Projections: what somebody makes of a run's entries, one after the other.

A projection takes every entry of a run once and in order, and is asked for what it has made. Whoever reads keeps it and
goes on from where it was, so nothing is folded twice. It never writes, and one that fails harms only its own view.
"""

from typing import ClassVar, Protocol, TypeVar

from detent.core.history import Entry

WHY_MAX = 200  # entries that are kept to say why a run is where it is


class Projection(Protocol):
    """Made with a run's id; its class has a name, and a version that changes with what it makes.

    One that has `dump() -> bytes` and `load(run_id, body)` is kept in the journal like a snapshot, so that the next
    process need not go through a long run again. Whoever asks for a class gets the same projection as others who ask
    for it; those who need one that nobody else moves on ask for a class of their own.
    """

    name: ClassVar[str]
    version: ClassVar[int]
    reach: ClassVar[int]  # how many of the latest entries it needs; 0: all of them

    def __init__(self, run_id: str) -> None: ...

    def take(self, entry: Entry) -> None:
        """Take the next entry of the run."""


P = TypeVar("P", bound=Projection)


class Why:
    """The entries since the one that led into the present state, that one included; the latest if there are many."""

    name: ClassVar[str] = "why"
    version: ClassVar[int] = 1
    reach: ClassVar[int] = WHY_MAX

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.entries: list[Entry] = []

    def take(self, entry: Entry) -> None:
        """Begin anew where the run has entered a state."""
        if entry.seq == 1 or any(taken.kind in ("transition", "caught") for taken in entry.taken):
            self.entries = [entry]  # at once: somebody may look on in another thread
            return
        self.entries.append(entry)
        if len(self.entries) > WHY_MAX:
            del self.entries[0]
