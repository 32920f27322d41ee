"""What happened, as a story: one trace over the journal, kept outside the run's state."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from detent.core.events import Event
    from detent.core.machine import Machine
    from detent.core.run import Run


class Taken(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing an event led to.

    `transition`: source, event, target. `contract`: subject moved from source to target by event, done by actor.
    `condition`: subject was read as `value` with these `values`. `caught`: an error of type event was taken by the
    row to target. `log`, `note`, `set`, `dropped`: subject and value say it.
    """

    kind: str
    source: str = ""
    event: str = ""
    target: str = ""
    subject: str = ""
    actor: str = ""
    value: Any = None
    values: dict[str, Any] = {}


class Entry(msgspec.Struct, frozen=True):
    """One event of a run with what followed from it and the run as it was afterwards."""

    seq: int
    event: "Event"
    taken: tuple[Taken, ...]
    run: "Run"


def trace(machine: "Machine", run: "Run", events: "Iterable[Event]") -> Iterator[Entry]:
    """Fold events over a run, telling what each of them led to."""
    from detent.core.engine import advance  # the engine writes history; history only borrows its fold

    for event in events:
        run, _, taken = advance(machine, run, event)
        yield Entry(run.seq, event, taken, run)
