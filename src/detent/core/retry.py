"""Trying again: a run that has failed goes on from what failed, and what is done stays done.

Branches and actions that had ended well keep their results. The call that failed is made once more, with its key, and
with the yes it had if it is the same call.
"""

from typing import Any

from msgspec.structs import replace

from detent.core import route, state_work
from detent.core.branch import put_away
from detent.core.chart import INSTANT
from detent.core.contract import Contract
from detent.core.run import BranchState, Run, Wreck
from detent.core.working_copy import WorkingCopy
from detent.errors import Refused


def obstacle(run: Run) -> str:
    """Why a run cannot be tried again; empty when it can."""
    if run.ended is None:
        return f"run {run.id} has not ended"
    if run.ended not in route.RETRIED:
        return f"run {run.id} has ended as {run.ended.value}; only one that failed or was rejected can be tried again"
    if run.rules < 2:
        return f"run {run.id} was begun by an older version, which kept too little of it; fork it instead"
    if run.wreck is None:
        why = run.error.type if run.error is not None else "it has no error"
        return f"nothing of run {run.id} can be tried again ({why}); fork it, or begin a new one"
    return ""


def retry(draft: WorkingCopy) -> None:
    """Go on from what failed."""
    problem = obstacle(draft.run)
    if problem:
        raise Refused(problem)
    wreck = draft.run.wreck
    assert wreck is not None  # noqa: S101 - an obstacle otherwise
    route.reopen(draft)
    draft.state, draft.cause, draft.wreck = wreck.state, None, None
    draft.say("note", subject="retry", value=f"goes on in `{wreck.state}`")
    stand_again(draft, wreck)


def stand_again(draft: WorkingCopy, wreck: Wreck) -> None:
    """Put the work of a state back as it stood, and let what had failed of it go on."""
    leaves: list[tuple[str, Contract | None]] = []
    draft.changes.update(_changes(draft, wreck))
    draft.lanes = {}
    _stand(draft, wreck.lane, leaves)
    for path, before in leaves:
        if path in draft.lanes:  # one that was opened before may have ended the state
            _go_on(draft, path, before)


def _changes(draft: WorkingCopy, wreck: Wreck) -> dict[str, Any]:
    timeout_s = draft.place.timeout_s
    return {
        "error": None,
        "wreck": None,
        "raised": "",
        "local": wreck.local,
        "entered_at": draft.at,
        "is_business_failure": wreck.is_business_failure,
        "state_deadline": draft.at + timeout_s if timeout_s else 0.0,
    }


def _stand(draft: WorkingCopy, was: BranchState, leaves: list[tuple[str, Contract | None]]) -> None:
    """Put a branch back where it stood; those that had ended well stay ended, of the others the last ones go on."""
    if was.is_ended and not was.is_failed:
        put_away(draft, replace(was, left=(), broken=None))
        return
    work = draft.works(was.path)[was.position] if was.position < len(draft.works(was.path)) else None
    if was.spawned and not was.left and work is not None and work.branches:
        raise Refused(f"the branches of `{work.action.id}` have all ended, and what they gave does not go together")
    good = sum(1 for one in was.left if one.is_ended and not one.is_failed)
    draft.lanes[was.path] = replace(
        was, is_ended=False, is_failed=False, error=None, done=good, lost=0, left=(), broken=None
    )
    for child in was.left:
        _stand(draft, child, leaves)
    if not was.left:
        leaves.append((was.path, was.broken))


def _go_on(draft: WorkingCopy, path: str, before: Contract | None) -> None:
    position = draft.lanes[path].position
    works = draft.works(path)
    work = works[position] if position < len(works) else None
    if work is None or work.branches or work.action.effect in INSTANT or draft.lanes[path].skips:
        draft.ready.append((path, position))
        return
    known = set(draft.contracts)
    # Whoever tries it again gives it as many further attempts as it had at first.
    state_work.reopen(draft, path, before=None if before is None else replace(before, attempt=0, tries=()))
    error = before.error if before is not None and draft.run.seq else None  # of a fork: its children are not ours
    child = error.data.get("run_id") if error is not None else None
    for contract_id in set(draft.contracts) - known if work.action.effect == "child" and child else ():
        draft.contracts[contract_id] = replace(draft.contracts[contract_id], reopens=str(child))
