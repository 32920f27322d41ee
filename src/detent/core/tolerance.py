"""What failed in a run that went on without it: said beside its good end, so that it does not look clean."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from detent.core.compiled_machine import Work
from detent.core.machine import Machine
from detent.core.run import Run
from detent.core.status import Status


class ToleratedFailure(NamedTuple):
    """An action that the run went on from although parts of it had failed, or all of it."""

    action: str
    failed: int  # of items or branches; 1: of a single call
    is_loop: bool


def list_tolerated(machine: Machine, run: Run) -> list[ToleratedFailure]:
    """What failed in a completed run; nothing of one that has not ended well, whose error says more."""
    if run.ended is not Status.COMPLETED:
        return []
    return [one for work in machine.chart.tolerant for one in _list_of(work, run.results.get(work.action.id))]


def _list_of(work: Work, result: Any) -> Iterator[ToleratedFailure]:
    if not isinstance(result, dict):
        return
    if work.each is not None:
        count = len(result.get("failed") or ())
    elif work.branches:
        given = result.get("branches") if work.action.join == "all" else None
        count = sum(map(_is_failed, given.values())) if isinstance(given, dict) else 0
    else:
        count = int(result.get("success") is False)
    if count:
        yield ToleratedFailure(work.action.id, count, bool(work.branches))


def _is_failed(gave: Any) -> bool:
    return gave is None or (isinstance(gave, dict) and gave.get("success") is False)
