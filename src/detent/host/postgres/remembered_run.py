"""A run as this process remembers it: brought up to date by what was written since, or presumed to be still so."""

from collections.abc import Sequence

from detent.core.status import Status
from detent.host.parts.journal_query import EventRow
from detent.host.parts.loaded_run import LoadedRun, Point, beginning, load, replay
from detent.host.postgres.journal import SHORT, PostgresJournal

Held = tuple[str, int, int]  # a contract, the worker that has begun it, and its turn
NOTHING: Held = ("", 0, 0)  # is in anybody's hands that the fold is about


def bring_up(  # where it is, and where it was
    journal: PostgresJournal,
    run_id: str,
    no: int,
    seq: int,
    head: bytes,
    cached: LoadedRun | None,
    found: Sequence[EventRow] = (),
) -> LoadedRun:
    """A run as it is at an event, from what this process has of it and what was written since, `found` or not yet."""
    if cached is not None and (cached.run.seq > seq or cached.no != no):
        cached = None
    if cached is None and seq > SHORT:
        return load(journal, run_id)
    if cached is not None and (cached.run.seq, cached.head) == (seq, head):
        return copy_run(cached)
    known = point = (
        beginning(run_id) if cached is None else Point(cached.run.seq, cached.run, cached.head, cached.machine)
    )
    is_found = bool(found) and found[0][0] == known.seq + 1 and found[-1][0] == seq
    for point in replay(journal, no, known, seq, found if is_found else ()):  # noqa: B007  # the last one is wanted
        pass
    if (point.seq, point.head) != (seq, head) or point.machine is None:
        return load(journal, run_id)
    live = LoadedRun(no, point.machine, point.run, point.head, seq - known.seq)
    if cached is not None:
        live.since += cached.since
        live.since_bytes, live.snapshot_bytes = cached.since_bytes, cached.snapshot_bytes
    return live


def copy_run(live: LoadedRun) -> LoadedRun:
    """The same run, to be moved while the other stays as it is."""
    copied = LoadedRun(live.no, live.machine, live.run, live.head, live.since)
    copied.since_bytes, copied.snapshot_bytes, copied.listed = live.since_bytes, live.snapshot_bytes, live.listed
    return copied


class PresumedRun(LoadedRun):
    """A run as this process remembers it: what is decided on that ground holds only if it is still so when written."""

    __slots__ = ()

    def __init__(self, known: LoadedRun) -> None:
        super().__init__(known.no, known.machine, known.run, known.head, known.since)


def is_likely(cached: LoadedRun, about: Held) -> bool:
    """Whether a run is probably still as it was last seen: nobody else has anything to do for it."""
    if about[0] and not about[1]:
        return False
    return all(one.status is not Status.RUNNING or one.id == about[0] for one in cached.run.contracts)
