"""A run: the fold of its events, and nothing else.

Status is derived. History is not here: it is in the journal, told by `trace()`; a run holds only what the next event
needs, so its size does not grow with its age.
"""

from typing import Any

import msgspec

from detent.core.contract import Contract, Failure
from detent.core.effect_type import Declared
from detent.core.events import Signalled
from detent.core.status import Status


class BranchState(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Where one branch of a state's work stands; the state itself is the branch named "" (a `lane` in journals)."""

    path: str = ""
    position: int = 0
    item: Any = None
    writes: dict[str, Any] = {}  # context values of this branch, merged when the branches join
    is_failed: bool = False
    is_ended: bool = False
    error: Failure | None = None
    spawned: int = 0  # children begun, where this branch has branches of its own
    done: int = 0  # of them, how many have ended well
    lost: int = 0  # and how many failed
    items: tuple[Any, ...] = ()  # what `each` gave
    results: dict[str, Any] = {}  # this branch's own
    broken: Contract | None = None  # the attempt that ended it, to go on from
    left: tuple["BranchState", ...] = ()  # its branches as they stood when it failed; those still to be tried again
    skips: tuple[str, ...] = ()  # actions that are done already, when the rest is tried again
    ended: tuple[tuple["BranchState", ...], ...] = ()  # its branches that have ended, in pieces: each end copies one
    counts: dict[str, int] = {}  # contracts made in this branch, by action
    base: int = 0  # the highest number of a contract that an earlier branch like this one may have had


class Wreck(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What a failure left behind: enough to go on from what failed, without doing again what is done."""

    state: str
    lane: BranchState
    local: dict[str, Any] = {}
    is_business_failure: bool = False  # of an action that is not tried again


class Closing(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """How a run will end when what comes last is done: taking back what was done, and what is done at every end."""

    status: Status
    state: str  # in which it ends
    stage: int  # how many of the two have begun
    error: Failure | None = None
    wreck: Wreck | None = None  # to go on from, as long as nothing was taken back


class Run(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Where one run of a machine stands."""

    id: str
    machine: str = ""
    rules: int = 1  # by which its events are folded
    state: str = ""
    seq: int = 0
    at: float = 0.0
    started_at: float = 0.0
    entered_at: float = 0.0
    transitions: int = 0
    by: str = ""
    session: str = ""
    parent: str = ""
    source: str = ""
    context: dict[str, Any] = {}
    variables: dict[str, Any] = {}
    local: dict[str, Any] = {}
    results: dict[str, Any] = {}
    answers: dict[str, Any] = {}  # latest answer by action
    contracts: tuple[Contract, ...] = ()  # open ones
    lanes: tuple[BranchState, ...] = ()
    inbox: tuple[Signalled, ...] = ()
    event: Signalled | None = None
    error: Failure | None = None
    failures: dict[str, int] = {}  # by state: consecutive failed executions
    visits: dict[str, int] = {}
    counts: dict[str, int] = {}  # contracts made, by state/action
    usage: dict[str, float] = {}
    priced: tuple[str, ...] = ()  # effects that have reported usage, where it is limited
    effects: dict[str, Declared] = {}
    recent: tuple[str, ...] = ()  # ids of the latest events that had one
    ending: Status | None = None  # wanted end, while something is still open
    ended: Status | None = None
    output: Any = None
    is_held: bool = False
    held_by: str = ""
    raised: str = ""  # what an effect of this state has raised; chooses the row, or rows, when the work is done
    is_business_failure: bool = False  # an action of this execution answered success: false
    wreck: Wreck | None = None  # of the failure in `error`
    alarms: tuple[str, ...] = ()  # what somebody must look into: deeds done twice perhaps, or left standing
    limits_hit: int = 0
    state_deadline: float = 0.0
    deadline: float = 0.0
    spoken_by: str = ""  # who started it in the name of `by`, where that is somebody else
    group: str = ""  # the run that keeps the order of its group
    closing: Closing | None = None  # it does what comes last
    slots: dict[str, tuple[float, ...]] = {}  # when the latest calls begin that have a rate
    place_at: float = 0.0  # when it has its place in its group, if that is a matter of time

    @property
    def status(self) -> Status:
        """One of seven, derived from what is open."""
        if self.ended is not None:
            return self.ended
        if not self.seq:
            return Status.PENDING
        if not self.is_held or self.ending:
            for contract in self.contracts:
                if contract.status is not Status.WAITING:
                    return Status.RUNNING
        elif any(contract.status is Status.RUNNING for contract in self.contracts):
            return Status.RUNNING
        return Status.WAITING

    @property
    def waiting(self) -> tuple[Contract, ...]:
        """The contracts that wait for an answer from a person."""
        return tuple(c for c in self.contracts if c.is_asking)

    @property
    def wake_at(self) -> float:
        """When the next timer is due; 0: never."""
        soonest = self.deadline
        if self.state_deadline and (not soonest or self.state_deadline < soonest):
            soonest = self.state_deadline
        if self.place_at and (not soonest or self.place_at < soonest):
            soonest = self.place_at
        for contract in self.contracts:
            at = contract.due_at or contract.expires_at
            if at and (not soonest or at < soonest):
                soonest = at
        return soonest

    def contract(self, contract_id: str) -> Contract | None:
        """The open contract of that id."""
        for contract in self.contracts:
            if contract.id == contract_id:
                return contract
        return None
