"""What an effect says while it is at work: streamed text, lines of output, a percentage.

It reaches whoever looks on at that moment and nobody else: no journal keeps it and no replay repeats it. What must
last belongs into the effect's Outcome. A call that was given a secret is not heard: half a secret cannot be hidden.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from detent.core.contract import Contract

Hear = Callable[[str, Mapping[str, Any]], None]  # a contract's id, and what it says
Pass = Callable[[str, str, Mapping[str, Any]], None]  # the same, with the run's id first

# Of the contracts that are being carried out, by identity: who passes on what they say, and their run. The host keeps
# it; a contract outside of a host is not in it, and nobody listens.
onlookers: dict[int, tuple[Pass, str]] = {}


def say(contract: Contract, data: Mapping[str, Any]) -> None:
    """Tell whoever looks on; never fails the effect and never waits.

    The contract must be the very one the effect was called with.
    """
    listening = onlookers.get(id(contract))
    if listening is not None:
        pass_on, run_id = listening
        pass_on(run_id, contract.id, data)


@contextmanager
def speaking_for(contract: Contract, inner: Contract) -> Iterator[None]:
    """What an effect says of `inner`, a contract it made to call another effect, is heard as said of `contract`."""
    listening = onlookers.get(id(contract))
    if listening is not None:
        onlookers[id(inner)] = listening
    try:
        yield
    finally:
        onlookers.pop(id(inner), None)
