"""A contract: one attempt at one action, and the machine of its life.

CONTRACT is the whole law: seven statuses, nine moves. A retry is a new contract with the same key.
"""

from typing import Any, Literal

import msgspec

from detent.core.machine import Machine, table
from detent.core.question import Answer, Question
from detent.core.status import TERMINAL, Status

Deed = Literal["none", "possible", "done"]
ASKED = frozenset({"approval", "form", "outcome_unknown"})  # what people answer; the rest is answered by events


CONTRACT = Machine(
    name="contract",
    initial="pending",
    transitions=table("""
        pending  start    running
        running  succeed  completed
        running  fail     failed
        running  reject   rejected
        running  suspend  waiting
        running  cancel   cancelled
        waiting  resume   running
        waiting  cancel   cancelled
        waiting  timeout  cancelled
    """),
    ends={status.value: status for status in TERMINAL},
)
"""The law of contracts as a machine: seven statuses, nine moves."""
MOVES = {(Status(row.source), row.on): Status(row.target) for row in CONTRACT.transitions}


class Failure(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Why something did not work, as data."""

    type: str
    message: str = ""
    data: dict[str, Any] = {}

    def matches(self, kind: str) -> bool:
        """Whether `kind` names this error, one of its parents, or the cause inside a failed branch."""
        if kind == "*":
            return True
        types = [self.type, *self.data.get("causes", ())]
        return any(t == kind or t.startswith(kind + ".") for t in types)


PLACE = "@place"  # the action of the question whether a run may go on although its group is full


class Contract(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One attempt at one action; `effect_state` says whether the outside world may have felt it."""

    id: str
    action: str
    effect: str
    status: Status = Status.PENDING
    effect_state: Deed = msgspec.field(default="none", name="deed")  # journals and the API say `deed`
    kind: str = "pure"
    input: dict[str, Any] = {}
    key: str = ""
    scope: str = "global"
    call_hash: str = ""
    attempt: int = 1
    tries: tuple[int, ...] = ()  # how many further attempts each of the action's retries has had, if it has several
    lane: str = ""
    timeout_s: float = 0.0
    settle_s: float = 0.0
    repeat: str = ""  # why this identical deed is wanted again
    on_repeat: str = ""  # what to do when the deed was done in another run; "": ask
    again: str = ""  # "run_id contract_id" of the same deed, which somebody wants done a second time
    is_lenient: bool = False  # nobody declared what it does: only a doubt keeps its key, every known end gives it back
    supersedes: str = ""
    reopens: str = ""  # the child run that is gone on with, instead of a new one
    question: Question | None = None
    answers: tuple[Answer, ...] = ()  # what people said, to this question and to earlier ones
    answered: int = 0  # how many of the answers were for earlier questions
    asked: dict[str, Any] = {}  # what the effect left with its last question, given back to it with the answer
    approved: str = ""  # the call hash people said yes to
    judges: tuple[str, ...] = ()  # whom that question was for; what the effect asks later is for them too
    separate: bool = False  # and whether it was not for whoever started the run
    is_signed: bool = False  # and whether its answers had to be signed; so have those to what is asked later
    rule: str = ""  # the rule of the policy that has asked about it or answered for it
    created_at: float = 0.0
    moved_at: float = 0.0
    due_at: float = 0.0  # PENDING: not before
    expires_at: float = 0.0  # WAITING: not after
    pace: dict[str, Any] = {}  # it waits to be told when it may begin, for calls of all runs share this rate
    probe: dict[str, Any] = {}  # the call that finds out whether it happened, and how its answer is read
    is_adrift: bool = False  # its state was left; it drives nothing, but must still be settled
    result: Any = None
    error: Failure | None = None

    @property
    def is_open(self) -> bool:
        """Whether it has not ended."""
        return not self.status.is_terminal

    @property
    def is_asking(self) -> bool:
        """Whether it waits for an answer from a person."""
        return self.status is Status.WAITING and self.question is not None and self.question.reason in ASKED

    @property
    def alarm_at(self) -> float:
        """When its timer is due: the start of a pending one, the end of a wait; 0: never."""
        return self.due_at or self.expires_at

    @property
    def is_irreversible(self) -> bool:
        """Whether doing it twice would be wrong."""
        return self.kind == "irreversible"
