"""What an effect says while it is at work: streamed text, lines of output, a percentage.

It reaches whoever looks on at that moment and nobody else: no journal keeps it and no replay repeats it. What must
last belongs into the effect's Outcome. A call that was given a secret is not heard: half a secret cannot be hidden.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from detent.core.artefact import ArtefactStore
from detent.core.contract import Contract

Hear = Callable[[str, Mapping[str, Any]], None]  # a contract's id, and what it says
Pass = Callable[[str, str, Mapping[str, Any]], None]  # the same, with the run's id first
Say = Callable[[Mapping[str, Any]], None]


class OffLimits(NamedTuple):
    """What an effect has to keep off."""

    home: str = ""  # the folder of the journal,
    guarded: tuple[str, ...] = ()  # and files elsewhere that an effect must not change
    home_id: tuple[int, int] | None = None  # the number of that folder on the disk, and of the disk: names can be moved


class Attempt(Struct, frozen=True, eq=False):
    """A contract that is being carried out, its run, and who passes on what it says."""

    contract: Contract
    run_id: str
    pass_on: Pass
    ground: OffLimits = OffLimits()
    least: str = ""  # the weakest sandbox that the policy allows
    notes: dict[str, str] | None = None  # what the journal shall say of the call beside its outcome
    store: ArtefactStore | None = None  # where files are kept with the run


# Set by the host around the call of an effect. The contract is in it because a task or a thread may outlive the call it
# was started in: what it says of another contract is said of that one or of none.
attempt: ContextVar[Attempt | None] = ContextVar("attempt", default=None)


def say(contract: Contract, data: Mapping[str, Any]) -> None:
    """Tell whoever looks on; never fails the effect and never waits.

    The contract must be the very one the effect was called with. A task or thread that was not started by this call
    needs the call's own `voice`.
    """
    speaking = attempt.get()
    if speaking is not None and speaking.contract is contract:
        speaking.pass_on(speaking.run_id, contract.id, data)


def note(name: str, value: str) -> None:
    """Say something of the call at work that the journal keeps with its outcome, however that comes about."""
    speaking = attempt.get()
    if speaking is not None and speaking.notes is not None:
        speaking.notes[name] = value


def voice(contract: Contract) -> Say:
    """`say` of a contract, for tasks and threads that know nothing of its call."""
    speaking = attempt.get()
    if speaking is None or speaking.contract is not contract:
        return lambda _: None
    return lambda data: speaking.pass_on(speaking.run_id, contract.id, data)


@contextmanager
def speaking_for(contract: Contract, inner: Contract) -> Iterator[None]:
    """What an effect says of `inner`, a contract it made to call another effect, is heard as said of `contract`."""
    speaking = attempt.get()
    is_heard = speaking is not None and speaking.contract is contract
    token = attempt.set(replace(speaking, contract=inner) if speaking is not None and is_heard else None)
    try:
        yield
    finally:
        attempt.reset(token)
