"""The seven statuses a contract, and so a run, can have.

A *status* is one of seven and the same for every machine; a *state* is a place in one machine.
"""

from enum import StrEnum


class Status(StrEnum):
    """How far one attempt has come; the last four are final."""

    PENDING = "pending"
    RUNNING = "running"
    WAITING = "waiting"
    COMPLETED = "completed"
    FAILED = "failed"
    REJECTED = "rejected"
    CANCELLED = "cancelled"

    __hash__ = str.__hash__  # a third of the time of Enum's own, and `advance` looks statuses up all day

    @property
    def is_terminal(self) -> bool:
        """Whether nothing can follow."""
        return self in TERMINAL


TERMINAL = frozenset({Status.COMPLETED, Status.FAILED, Status.REJECTED, Status.CANCELLED})
