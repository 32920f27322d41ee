"""Every exception detent raises, split by whose move it is.

    DetentError
    ├─ DefinitionError   author: this machine cannot be built        (where, problem)
    ├─ ExpressionError   author: an expression failed on these values (caught by the engine, becomes data)
    ├─ Refused           caller: not now                             → HTTP 409, CLI exit 2
    │  ├─ EventRefused       state, event, what it would accept
    │  ├─ NotWaiting         the contract has no open question
    │  ├─ NotPermitted       this person may not; says who may          → HTTP 403
    │  │  └─ BadSignature       nor is this signature theirs, for this answer
    │  ├─ GroupFull          a run of the same group has the place, and this one does not wait
    │  └─ Unknown            no such run, contract, machine, effect  → HTTP 404
    ├─ ReplayError       operator: journal and definition disagree
    ├─ JournalError      operator: storage
    ├─ NoAnswer          operator: the process that holds the journal does not answer; nothing was done
    │  └─ MaybeDone          it took the verb before it fell silent, so nobody knows
    └─ CallNotDone       caller of a guarded function: there is no result (run_id, contract_id)
       ├─ Waiting            a person is asked first
       ├─ InDoubt            it may have been done; a person is asked
       ├─ Rejected           a person or the policy said no
       └─ AlreadyDone        the same call was made before; has its result

A failing effect is not here: its failure is data (`{"type", "message"}`) on a FAILED contract.
"""

from collections.abc import Iterable
from typing import NamedTuple


class DetentError(Exception):
    """The root of everything detent raises on purpose."""


class Part(NamedTuple):
    """A part of a machine: a state, an action in it, or the row of its table from that state to another."""

    state: str = ""
    action: str = ""
    target: str = ""


class DefinitionError(DetentError):
    """The author's move: this definition cannot be built; the message says where and what would be right."""

    def __init__(self, problem: str, where: str = "", part: Part = Part()) -> None:  # noqa: B008  # it is immutable
        super().__init__(f"{where}: {problem}" if where else problem)
        self.problem = problem
        self.where = where
        self.part = part  # the same as data, for whoever knows where the parts are written


class ExpressionError(DetentError):
    """An expression met values it cannot work with; the engine turns this into the error `expression_error`."""


class Refused(DetentError):
    """The caller's move: nothing was changed, and the message says what would be accepted."""


class EventRefused(Refused):
    """This event is not accepted in this state."""

    def __init__(self, state: str, event: str, accepts: Iterable[str]) -> None:
        self.state = state
        self.event = event
        self.accepts = tuple(accepts)
        wanted = ", ".join(self.accepts) or "nothing: it has ended or is at work"
        super().__init__(f"`{event}` is not accepted in state `{state}`; accepted now: {wanted}")


class NotWaiting(Refused):
    """This contract has no open question (it was never asked, or somebody answered first)."""


class NotPermitted(Refused):
    """Whoever asks may not do this; the message says which role is missing and who has it."""


class BadSignature(NotPermitted):
    """The signature of an answer is not by this person, or not for this answer."""


class GroupFull(Refused):
    """There is no place in a run's group, and it does not wait for one."""


class Unknown(Refused):
    """There is no run, contract, machine or effect of that name."""


class ReplayError(DetentError):
    """The operator's move: the journal does not replay to what it says."""


class JournalError(DetentError):
    """The operator's move: the storage failed; what was acknowledged before is whole."""


class NoAnswer(DetentError):
    """The operator's move: the process that holds the journal does not answer, and what it was to do is withdrawn."""

    def __init__(self, message: str, *, pid: int, command: str, since: float, run_id: str, is_change: bool) -> None:
        super().__init__(message)
        self.pid = pid
        self.command = command
        self.since = since
        self.run_id = run_id  # where to look
        self.is_change = is_change  # whether anything would have been changed


class MaybeDone(NoAnswer):
    """The verb was taken and no answer came: it may have been done, and only the journal can tell."""


class CallNotDone(DetentError):
    """A call of a guarded function that has no result: it failed, or it may not be made now; `type` says why."""

    def __init__(self, message: str, *, run_id: str = "", contract_id: str = "", type: str = "tool_failure") -> None:
        super().__init__(message)
        self.run_id = run_id
        self.contract_id = contract_id
        self.type = type


class Waiting(CallNotDone):
    """A person is asked before the call is made; made again after the answer, the call goes on from there."""

    def __init__(
        self, question: str, *, run_id: str, contract_id: str, call: dict[str, object], is_doubt: bool = False
    ) -> None:
        self.command = f"detent {'settle' if is_doubt else 'approve'} {run_id}"  # one way to answer it
        super().__init__(f"{question} ({self.command})", run_id=run_id, contract_id=contract_id, type="waiting")
        self.question = question
        self.call = call  # the exact call that is asked about: effect and input


class InDoubt(CallNotDone):
    """The call was made and nobody knows what came of it; a person is asked, and it is not made again before that."""


class Rejected(CallNotDone):
    """A person or the policy said no to the call."""


class AlreadyDone(CallNotDone):
    """The same call was made before and is not made again; `result` is what it gave."""

    def __init__(self, message: str, *, run_id: str, result: object = None) -> None:
        super().__init__(message, run_id=run_id, type="already_done")
        self.result = result
