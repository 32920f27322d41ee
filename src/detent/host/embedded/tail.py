"""The tail of the journal: who follows which run, and the newest entries of those runs.

The process that holds the journal tells it what was written, so its followers fold nothing. In any other process it
looks at the file, once for all followers, as long as there are any.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from detent.core.history import Entry

KEPT = 256  # entries of a run that is followed


class Bell:
    """Wakes everybody who waits for the next ring; to be taken before looking, so that no ring is missed."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def take(self) -> asyncio.Event:
        """What the next ring will set."""
        return self._event

    def ring(self) -> None:
        """Wake everybody who waits."""
        rung, self._event = self._event, asyncio.Event()
        rung.set()


class Watched:
    """A run that somebody follows, and its newest entries as its holder has folded them."""

    def __init__(self) -> None:
        self.followers = 0
        self.bell = Bell()
        self._entries: deque[Entry] = deque(maxlen=KEPT)
        self._lock = threading.Lock()  # readers in other threads look on too

    def take(self, entries: Sequence[Entry]) -> None:
        """Keep what was written, and tell."""
        with self._lock:
            if entries and self._entries and entries[0].seq != self._entries[-1].seq + 1:
                self._entries.clear()  # something was written in between, before anybody followed
            self._entries.extend(entries)
        self.bell.ring()

    def since(self, seq: int) -> list[Entry] | None:
        """The entries after one; None where what is kept does not reach back that far."""
        with self._lock:
            kept = self._entries
            if not kept or kept[0].seq > seq + 1:
                return None
            return [entry for entry in kept if entry.seq > seq]


class Tail:
    """Every run that is followed in this process."""

    def __init__(self) -> None:
        self.runs: dict[str, Watched] = {}  # looked at for every event, so a plain dictionary
        self.everything = Bell()
        self.is_fed = False  # by the holder in this process; else somebody has to look at the file
        self.followers = 0

    @contextmanager
    def watch(self, run_id: str) -> Iterator[Watched]:
        """Follow a run while the block goes on."""
        watched = self.runs.setdefault(run_id, Watched())
        watched.followers += 1
        try:
            with self.watch_all():
                yield watched
        finally:
            watched.followers -= 1
            if not watched.followers and self.runs.get(run_id) is watched:
                del self.runs[run_id]

    @contextmanager
    def watch_all(self) -> Iterator[None]:
        """Follow everything while the block goes on."""
        self.followers += 1
        try:
            yield
        finally:
            self.followers -= 1

    def wrote(self, run_id: str, entries: Sequence[Entry]) -> None:
        """The holder has written something of a run."""
        watched = self.runs.get(run_id)
        if watched is not None:
            watched.take(entries)
        self.everything.ring()

    def ring_all(self) -> None:
        """Something was written somewhere, or everything comes to an end: let everybody look."""
        self.everything.ring()
        for watched in tuple(self.runs.values()):
            watched.bell.ring()
