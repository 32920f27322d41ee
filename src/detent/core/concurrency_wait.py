"""Waiting for a place in a group: what somebody may say meanwhile.

Where the file says `when_full: ask`, the run that waits asks whether it may go on beside the others. It is a question
of the run and of no state: it stays while states without work are passed, and is closed when there is a place.
"""

from detent.core.contract import PLACE, Contract, Failure
from detent.core.question import Question
from detent.core.status import Status
from detent.core.value import digest
from detent.core.working_copy import WorkingCopy


def ask(draft: WorkingCopy, text: str) -> None:
    """Ask whether the run may go on although its group is full."""
    contract = Contract(
        id=f"{PLACE}/1",
        action=PLACE,
        effect="ask",
        status=Status.WAITING,
        lane=PLACE,
        question=Question(text),
        call_hash=digest(["ask", {"run": draft.run.id}]),
        created_at=draft.at,
        moved_at=draft.at,
    )
    draft.contracts[contract.id] = contract
    draft.say("note", subject=contract.id, value="its group is full")


def close(draft: WorkingCopy, actor: str) -> None:
    """Nobody need answer any more: there is a place, or the run ends."""
    for contract in [one for one in draft.contracts.values() if one.action == PLACE]:
        draft.move(contract, "cancel", actor, error=Failure("cancelled"))
