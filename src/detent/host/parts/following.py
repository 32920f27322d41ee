"""Following: a place in the entries of one run, or in everything that is written."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from itertools import islice
from typing import Protocol

from detent.core.history import Entry
from detent.core.run import Run
from detent.host.parts import replay as reader
from detent.host.parts.journal_tail import Bell, Watched
from detent.host.parts.listing import Listing
from detent.host.standing import Standing

CATCH_UP = 100  # entries read at once for a follower that is behind


class Source(Protocol):
    """What a follower reads from where memory does not reach back."""

    def journal(self) -> AbstractContextManager[Listing]:
        """A connection of one's own while the block goes on."""

    def standing(self, run_id: str) -> Standing:
        """Where a run stands."""


class Following:
    """A reader's place in the entries of one run."""

    def __init__(self, owner: Source, watched: Watched, run_id: str, after: int) -> None:
        self._owner, self._watched, self.run_id = owner, watched, run_id
        self._rung = watched.bell.take()
        self._elsewhere = 0  # as it was when everything was read last
        self._behind: reader.Follower | None = None  # its own fold, while it is behind what memory keeps
        self.seq = after  # of the last entry given
        self.run = Run(id=run_id)  # as of that entry

    @property
    def is_over(self) -> bool:
        """Whether the run has ended and everything was given."""
        return self.run.ended is not None

    def at_hand(self) -> Sequence[Entry] | None:
        """The next entries, if memory has them or there are none; None: `more` has to look into the file."""
        self._rung = self._watched.bell.take()
        if self._elsewhere != self._watched.elsewhere:
            return None
        return self._advance_to(self._watched.since(self.seq))

    def more(self) -> Sequence[Entry]:
        """The next entries; none when there are no more for now."""
        found = self.at_hand()
        return (self._advance_to(self._read()) or ()) if found is None else found

    def _advance_to(self, found: Sequence[Entry] | None) -> Sequence[Entry] | None:
        if found:
            self.seq, self.run = found[-1].seq, found[-1].run
        return found

    async def wait(self) -> None:
        """Return when there may be more."""
        await self._rung.wait()

    def _read(self) -> list[Entry]:
        elsewhere = self._watched.elsewhere  # before it looks: what is written from now on is looked for again
        with self._owner.journal() as journal:
            found = self._read_on(journal)
        if len(found) < CATCH_UP:
            self._elsewhere = elsewhere
        return found

    def _read_on(self, journal: Listing) -> list[Entry]:
        behind = self._behind
        is_near = behind is not None and behind.run.seq >= self.seq - CATCH_UP
        if behind is not None and is_near and (found := self._take(behind, journal)):
            return found
        record = journal.record(self.run_id)
        if record is None:
            return []
        if record.summary.seq <= self.seq:
            return self._stand()
        self._behind = reader.Follower(journal, self.run_id, self.seq)  # from near: memory may have kept up meanwhile
        return self._take(self._behind, journal)

    def _take(self, behind: reader.Follower, journal: Listing) -> list[Entry]:
        return list(islice((entry for entry in behind.more(journal=journal) if entry.seq > self.seq), CATCH_UP))

    def _stand(self) -> list[Entry]:
        """Nothing is new: find out where the run stands, for it may have ended."""
        if self.run.seq < self.seq:
            run = self._owner.standing(self.run_id).run
            self.run = run if run.seq == self.seq else self.run  # else there is more by now
        return []


class Watching:
    """Somebody who looks again whenever something was written."""

    def __init__(self, bell: Bell) -> None:
        self._bell, self._rung = bell, bell.take()

    async def wait(self) -> None:
        """Return when there may be something new since this was last called."""
        await self._rung.wait()
        self._rung = self._bell.take()
