"""The five commands: what a host must do next, as data."""

from typing import Any

import msgspec

from detent.core.contract import Failure
from detent.core.status import Status


class Perform(msgspec.Struct, frozen=True, gc=False, tag=True):
    """Carry out this contract's effect; the event that led here must be on disk first."""

    contract_id: str


class Ask(msgspec.Struct, frozen=True, gc=False, tag=True):
    """Put this contract's question to whoever may answer."""

    contract_id: str


class Abort(msgspec.Struct, frozen=True, gc=False, tag=True):
    """Stop this contract's effect, if it is at work."""

    contract_id: str


class Wake(msgspec.Struct, frozen=True, gc=False, tag=True):
    """Send `@wake` at this time; replaces any earlier wish, and 0 takes it back."""

    at: float


class Finish(msgspec.Struct, frozen=True, gc=False, tag=True):
    """The run has ended like this; nothing of it is open."""

    status: Status
    output: Any = None
    error: Failure | None = None


Command = Perform | Ask | Abort | Wake | Finish
"""What `advance` tells a host to do next; each is carried out after its event is on disk."""
