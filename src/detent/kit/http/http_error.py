"""What only a server can find wrong: a request that is not one, and a decision that came second."""

from typing import Any

from detent.errors import NotWaiting, Refused


class BadRequest(Refused):
    """The sender's move: this request cannot be meant as it is; `status` is the HTTP one."""

    def __init__(self, problem: str, status: int = 400) -> None:
        super().__init__(problem)
        self.status = status


class AlreadyDecided(NotWaiting):
    """Somebody answered first; `decided` says who, when and what."""

    def __init__(self, message: str, decided: dict[str, Any]) -> None:
        super().__init__(message)
        self.decided = decided
