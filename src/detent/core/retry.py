"""Trying again: a run that has failed goes on from what failed, and what is done stays done.

Branches and actions that had ended well keep their results. The call that failed is made once more, with its key, and
with the yes it had if it is the same call.
"""

from typing import Any

from detent.core import state_work, transition_choice
from detent.core.run import Run, Wreck
from detent.core.working_copy import WorkingCopy
from detent.errors import Refused


def obstacle(run: Run) -> str:
    """Why a run cannot be tried again; empty when it can."""
    if run.ended is None:
        return f"run {run.id} has not ended"
    if run.ended not in transition_choice.RETRIED:
        return f"run {run.id} has ended as {run.ended.value}; only one that failed or was rejected can be tried again"
    if run.rules < 2:
        return f"run {run.id} was begun by an older version, which kept too little of it; fork it instead"
    if run.wreck is None:
        why = run.error.type if run.error is not None else "it has no error"
        return f"nothing of run {run.id} can be tried again ({why}); fork it, or begin a new one"
    return ""


def is_vain(run: Run) -> bool:
    """Whether it would only be refused again: its key stands for a call with other arguments, which stay."""
    return run.error is not None and run.error.type == "validation_error" and "holder" in run.error.data


def retry(draft: WorkingCopy) -> None:
    """Go on from what failed."""
    problem = obstacle(draft.run)
    if problem:
        raise Refused(problem)
    wreck = draft.run.wreck
    assert wreck is not None  # noqa: S101 - an obstacle otherwise
    transition_choice.reopen(draft)
    draft.state, draft.cause, draft.wreck = wreck.state, None, None
    draft.say("note", subject="retry", value=f"goes on in `{wreck.state}`")
    stand_again(draft, wreck)


def stand_again(draft: WorkingCopy, wreck: Wreck) -> None:
    """Put the work of a state back as it stood, and let what had failed of it go on."""
    draft.changes.update(_changes(draft, wreck))
    draft.lanes = {}
    state_work.stand(draft, wreck.lane if draft.run.seq else state_work.disown(wreck.lane))


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
