"""After a crash: what the statuses and the deed of each open contract say must be done.

RUNNING with nobody at work: pure or idempotent is performed again with the same key; irreversible goes to the probe
and then to a person. WAITING stays; ended is over.
"""

from typing import TYPE_CHECKING

from msgspec.structs import replace

from detent.core.events import RELEASE, Signalled
from detent.core.status import Status
from detent.host.embedded.attempt import run_again
from detent.host.embedded.live import Live

if TYPE_CHECKING:
    from detent.host.embedded.host import EmbeddedHost


def recover_run(host: "EmbeddedHost", live: Live) -> bool:
    """Put a run nobody drives back to work; whether there was anything to do."""
    found = False
    now = host.clock.now()
    if live.run.is_held and live.run.held_by == "host":
        host.fold(live, Signalled(RELEASE, {}, "host", now))
        found = True
    for contract in live.run.contracts:
        if contract.status is not Status.RUNNING or contract.id in live.tasks or live.run.contract(contract.id) is None:
            continue
        if contract.id in live.dispatched:
            continue  # this process has just begun it
        found = True
        if contract.is_irreversible and contract.deed == "possible":
            host.spawn(live, contract.id, host.attempts.doubt(live, contract.id, None, is_crash=True))
        else:
            for moved in run_again(contract, "recovery"):
                host.fold(live, replace(moved, at=now))
    return found
