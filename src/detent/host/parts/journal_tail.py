"""The tail of the journal: who follows which run, and the newest entries of those runs.

The process that holds the journal tells it what was written, so its followers fold nothing. In any other process it
looks at the file, once for all followers, as long as there are any. A process that shows runs to people has it attend
to what moved lately as well, for that is what they look at next.
"""

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from detent.core.history import Entry
from detent.host.parts.loaded_run import ResidentRun
from detent.host.ring import Ring

KEPT = 256  # entries of a run that is followed
LATELY = 64  # runs that moved lately and that nobody follows
LATELY_KEPT = 32  # entries of such a run


class Bell:
    """Wakes everybody who waits for the next ring; to be taken before looking, so that no ring is missed."""

    def __init__(self) -> None:
        self._ring = Ring()
        self._is_taken = False

    def take(self) -> Ring:
        """What the next ring will set."""
        ring = self._ring  # before it counts as taken: a ring in between is of what the taker has yet to look at
        self._is_taken = True
        return ring

    def ring(self) -> None:
        """Wake everybody who waits; for every event that is written, and mostly nobody does."""
        if self._is_taken:
            self._is_taken = False
            rung, self._ring = self._ring, Ring()
            rung.set()


class Watched:
    """A run that somebody follows, and its newest entries as its holder has folded them."""

    def __init__(self, elsewhere: int = 0) -> None:
        self.followers = 0
        self.bell = Bell()
        self.kept: ResidentRun | None = None  # as its holder has written it last
        self.elsewhere = (
            elsewhere  # how often somebody else has written, or may have: what is kept here is not all then
        )
        self._entries: list[Entry] = []
        self._lock = threading.Lock()  # readers in other threads look on too

    def take(self, entries: Sequence[Entry], kept: ResidentRun | None) -> None:
        """Keep what was written, and tell."""
        most = KEPT if self.followers else LATELY_KEPT
        with self._lock:
            if entries and self._entries and entries[0].seq != self._entries[-1].seq + 1:
                self._entries.clear()  # something was written in between, before anybody followed
            self._entries.extend(entries)
            del self._entries[:-most]
        self.kept = kept
        self.bell.ring()

    def clear(self) -> None:
        """Forget what was written."""
        with self._lock:
            self._entries.clear()
        self.kept = None

    def since(self, seq: int) -> list[Entry] | None:
        """The entries after one; None where what is kept does not reach back that far."""
        with self._lock:
            kept = self._entries
            if not kept or kept[0].seq > seq + 1:
                return None
            return [entry for entry in kept if entry.seq > seq]


class Tail:
    """Every run that is followed in this process, and those that moved lately if it is attentive."""

    def __init__(self) -> None:
        self.runs: dict[str, Watched] = {}  # looked at for every event, so a plain dictionary
        self.is_attentive = False
        self._lately: OrderedDict[str, Watched] = OrderedDict()  # those of them that nobody follows
        self.everything = Bell()
        self.is_fed = False  # by the holder in this process; else somebody has to look at the file
        self.followers = 0

    @contextmanager
    def watch(self, run_id: str) -> Iterator[Watched]:
        """Follow a run while the block goes on."""
        watched = self.runs.setdefault(run_id, self._make())
        self._lately.pop(run_id, None)
        watched.followers += 1
        try:
            with self.watch_all():
                yield watched
        finally:
            watched.followers -= 1
            if not watched.followers and self.runs.get(run_id) is watched:
                self._let_go(run_id, watched)

    def _make(self) -> Watched:
        return Watched(0 if self.is_fed else 1)  # others may have written before anybody watched

    @contextmanager
    def watch_all(self) -> Iterator[None]:
        """Follow everything while the block goes on."""
        self.followers += 1
        try:
            yield
        finally:
            self.followers -= 1

    def wrote(self, run_id: str, entries: Sequence[Entry], kept: ResidentRun | None = None) -> None:
        """The holder has written something of a run, which is now as `kept`."""
        watched = self.runs.get(run_id)
        if watched is None and self.is_attentive:
            watched = self.runs[run_id] = self._make()
        if watched is not None:
            watched.take(entries, kept)
            if not watched.followers:
                self._let_go(run_id, watched)
        self.everything.ring()

    def note_moved(self, run_id: str) -> None:
        """Another process has written something of a run: whoever follows has to look."""
        watched = self.runs.get(run_id)
        if watched is not None:
            watched.elsewhere += 1
            watched.bell.ring()
        self.everything.ring()

    def _let_go(self, run_id: str, watched: Watched) -> None:
        """Nobody follows this run: forget it, at once or when so many others have moved since."""
        self._lately[run_id] = watched
        self._lately.move_to_end(run_id)
        while len(self._lately) > (LATELY if self.is_attentive else 0):
            self.forget(next(iter(self._lately)))

    def forget(self, run_id: str) -> None:
        """Keep nothing of a run: others have moved since, or it is gone from the journal."""
        self._lately.pop(run_id, None)
        watched = self.runs.get(run_id)
        if watched is not None:
            watched.clear()
            if not watched.followers:
                del self.runs[run_id]

    def ring_all(self) -> None:
        """Something was written somewhere, or everything comes to an end: let everybody look."""
        self.everything.ring()
        for watched in tuple(self.runs.values()):
            watched.elsewhere += 1
            watched.bell.ring()
