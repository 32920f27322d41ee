"""What happened, as a story: the events of a run with what each led to, kept outside the run's state."""

from collections.abc import Iterable, Iterator

import msgspec

from detent.core.consequence import Consequence
from detent.core.engine import advance
from detent.core.events import Event
from detent.core.machine import Machine
from detent.core.run import Run

__all__ = ["Entry", "Consequence", "trace"]


class Entry(msgspec.Struct, frozen=True):
    """One event of a run with what followed from it and the run as it was afterwards."""

    seq: int
    event: Event
    taken: tuple[Consequence, ...]
    run: Run


def trace(machine: Machine, run: Run, events: Iterable[Event]) -> Iterator[Entry]:
    """Fold events over a run, telling what each of them led to."""
    for event in events:
        run, _, taken = advance(machine, run, event)
        yield Entry(run.seq, event, taken, run)
