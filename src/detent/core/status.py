"""The seven statuses a contract, and so a run, can have.

A *status* is one of seven and the same for every machine; a *state* is a place in one machine.
"""

from enum import Enum


class Status(str, Enum):
    """How far one attempt has come; the last four are final."""

    PENDING = "pending"
    RUNNING = "running"
    WAITING = "waiting"
    COMPLETED = "completed"
    FAILED = "failed"
    REJECTED = "rejected"
    CANCELLED = "cancelled"

    @property
    def is_terminal(self) -> bool:
        """Whether nothing can follow."""
        return self in TERMINAL


TERMINAL = frozenset({Status.COMPLETED, Status.FAILED, Status.REJECTED, Status.CANCELLED})
