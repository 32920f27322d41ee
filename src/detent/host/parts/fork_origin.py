"""What a fork begins as: a run after one of its events, or where a loop of it ended although items had failed."""

from typing import Any, NamedTuple

import msgspec

from detent.core.engine import find_failed_joins
from detent.core.fork_migrate import FORK_RULES
from detent.core.machine import Machine
from detent.core.run import Run
from detent.errors import Refused
from detent.host.parts.journal_query import AnyJournal
from detent.host.parts.loaded_run import Point, beginning, load, replay, seq_at
from detent.host.parts.replay import find

ONLY = "*"  # the only loop that had failures


class ForkOrigin(NamedTuple):
    """A machine, where its effects come from, and how the new run begins."""

    machine: Machine
    source: str
    begins_as: dict[str, Any]


def find_origin(journal: AnyJournal, run_id: str, checkpoint: str) -> ForkOrigin:
    """A run after one of its events; by default the latest."""
    record = find(journal, run_id)
    was = load(journal, run_id, upto=seq_at(journal, record, checkpoint) if checkpoint else 0)
    return ForkOrigin(was.machine, was.run.source, _describe(was.run, was.run.seq, was.head))


def find_failed(journal: AnyJournal, run_id: str, loop: str) -> ForkOrigin:
    """Where a loop joined although items of it had failed; `*` where there is only one such."""
    with journal.one_moment():
        found: dict[str, ForkOrigin] = {}
        before = beginning(run_id)
        for point in replay(journal, find(journal, run_id).no, before):
            for action in _list_joined(before.run, point.run):
                found.pop(action, None)  # whatever it was before, it was done anew
                found.update(_find_here(before.run, point))
            before = point
    return _choose(before.run, found, loop)


def _find_here(before: Run, point: Point) -> dict[str, ForkOrigin]:
    """By action: how a fork begins that does again what had failed when the action's branches joined at this event."""
    if point.machine is None or point.event is None:
        return {}
    joined = find_failed_joins(point.machine, before, point.event)
    return {
        action: ForkOrigin(point.machine, run.source, {**_describe(run, point.seq, point.head), "loop": action})
        for action, run in joined.items()
    }


def _list_joined(before: Run, after: Run) -> list[str]:
    """The actions whose branches have joined between the two."""
    new = [(name, one) for name, one in after.results.items() if one is not before.results.get(name)]
    return [name for name, one in new if isinstance(one, dict) and ("failed" in one or "branches" in one)]


def _choose(run: Run, found: dict[str, ForkOrigin], loop: str) -> ForkOrigin:
    if run.ended is None:
        raise Refused(f"run {run.id} has not ended")
    if run.rules < 2:
        raise Refused(f"run {run.id} was begun by an older version, which kept too little of it; fork it instead")
    names = list(found) if loop == ONLY else [loop] if loop in found else []
    if not names:
        which = "" if loop == ONLY else f" of `{loop}`"
        known = f"; there are some of {', '.join(found)}" if found else ""
        raise Refused(f"run {run.id} has no failed items{which} that it went on without{known}")
    if len(names) > 1:
        raise Refused(f"run {run.id} went on without failed items of {', '.join(names)}; say which")
    return found[names[0]]


def _describe(run: Run, seq: int, head: bytes) -> dict[str, Any]:
    begins_as = {"run": msgspec.to_builtins(run), "rules": FORK_RULES}
    return {"run_id": run.id, "seq": seq, "checkpoint": head.hex(), **begins_as}
