"""Reading a journal without holding it: always possible, also while another process writes."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from detent.core.engine import advance
from detent.core.history import Entry
from detent.core.machine import Machine
from detent.core.run import Run
from detent.errors import JournalError, Refused, ReplayError, Unknown
from detent.host.embedded.journal import Journal, Record, genesis
from detent.host.embedded.live import load, replay


class Proof(NamedTuple):
    """What verifying a run found."""

    run_id: str
    events: int
    checkpoint: str
    problem: str


def find(journal: Journal, name: str) -> Record:
    """A run by its id, an unambiguous beginning of it, or `last`."""
    if name == "last":
        newest = journal.newest()
        if newest is None:
            raise Unknown("there are no runs yet")
        return newest
    exact = journal.record(name)
    if exact is not None:
        return exact
    found = journal.find(name)
    top = [r for r in found if not r.summary.parent] or found
    if len(top) == 1:
        return top[0]
    if not top:
        raise Unknown(f"there is no run `{name}`; `detent list` shows them")
    raise Refused(f"`{name}` fits several runs: {', '.join(r.summary.run_id for r in top[:5])}")


def entries(journal: Journal, run_id: str, after: int = 0, upto: int = 0) -> Iterator[Entry]:
    """A run's events with what each led to, from the first after `after`."""
    return Follower(journal, run_id, after).more(upto)


class Follower:
    """Reads on in a run's events; what it has folded it does not fold again."""

    def __init__(self, journal: Journal, run_id: str, after: int = 0) -> None:
        record = journal.record(run_id)
        if record is None:
            raise Unknown(f"there is no run {run_id}")
        self._journal, self._no, self._after = journal, record.no, after
        self.run, self._head, self._seq, self._machine = _base(journal, record, after)

    def more(self, upto: int = 0) -> Iterator[Entry]:
        """The events that have come since."""
        before = self.run
        events = replay(self._journal, self._no, before, self._head, self._seq, self._machine, upto)
        for seq, event, run, head, machine in events:
            _, _, taken = advance(machine, before, event)
            before = run
            self.run, self._head, self._seq, self._machine = run, head, seq, machine
            if seq > self._after:
                yield Entry(seq, event, taken, run)


async def follow(
    journal: Journal, run_id: str, after: int, bell: asyncio.Event, is_over: Callable[[], bool]
) -> AsyncIterator[Entry]:
    """A run's events as they come, one round for every ring of the bell, until the run has ended or it is over."""
    follower = Follower(journal, run_id, after)
    while not is_over():
        bell.clear()
        for entry in follower.more():
            yield entry
            if is_over():
                return
        if follower.run.ended is not None:
            return
        await bell.wait()


def _base(journal: Journal, record: Record, after: int) -> tuple[Run, bytes, int, Machine | None]:
    """Where to begin folding: the snapshot if it is not past what is asked for."""
    if after and journal.snapshot(record.no, after) is not None:
        live = load(journal, record.summary.run_id, upto=after)
        return live.run, live.head, live.run.seq, live.machine
    return Run(id=record.summary.run_id), genesis(record.summary.run_id), 0, None


def verify(journal: Journal, run_id: str) -> Proof:
    """Replay a whole run from its first event and check every hash and what the list says of it."""
    record = journal.record(run_id)
    if record is None:
        raise Unknown(f"there is no run {run_id}")
    seq, head, run = 0, genesis(run_id), Run(id=run_id)
    try:
        for seq, _, run, head, _ in replay(journal, record.no, run, head, 0):  # noqa: B007, B020
            pass
    except (JournalError, ReplayError) as error:
        return Proof(run_id, seq, head.hex(), str(error))
    said = record.summary
    if (seq, head, run.state, run.status) != (said.seq, record.head, said.state, said.status):
        return Proof(run_id, seq, head.hex(), f"the list says {said.status.value} in `{said.state}` at {said.seq}")
    return Proof(run_id, seq, head.hex(), "")


def open_journal(home: Path) -> Journal:
    """The journal of a home for reading."""
    path = home / "journal.db"
    if not path.exists():
        raise Unknown(f"there is no journal in {home} yet; `detent run FILE` makes one")
    return Journal(path)
