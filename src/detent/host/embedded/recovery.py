"""After a crash: what the statuses and the deed of each open contract say must be done.

RUNNING with nobody at work: pure or idempotent is performed again with the same key; irreversible goes to the probe
and then to a person. WAITING stays; ended is over.
"""

from typing import Protocol

from msgspec.structs import replace

from detent.core.events import CANCEL, RELEASE, Signalled
from detent.core.status import Status
from detent.errors import DetentError
from detent.host.embedded.contract_executor import Attempts
from detent.host.embedded.host_protocol import Performer
from detent.host.parts.child import awaiting
from detent.host.parts.family import children, family
from detent.host.parts.loaded_run import LoadedRun
from detent.host.parts.outcome import run_again


class RecoveringHost(Performer, Protocol):
    """What taking up needs of a host."""

    @property
    def attempts(self) -> Attempts:
        """What carries out contracts."""

    def check_agent(self, live: LoadedRun) -> None:
        """Refuse to move a run whose agent is not here."""

    @property
    def stopped(self) -> dict[str, str]:
        """Runs whose journal broke off, and why."""


def take_up(host: RecoveringHost, run_id: str) -> tuple[str, ...]:
    """Recover one run with its whole family, or everything; the runs that had something under way."""
    if run_id:
        host.load(run_id)  # what is named must be sound
        kin = family(host.journal, run_id)
        left = [one.run_id for one in kin if not one.has_ended]
        apart = [(one.run_id, one.parent, one.has_ended) for one in kin if one.parent]
    else:
        left, apart = host.journal.list_unattended(), children(host.journal)
    taken_up = []
    for one in left:
        try:
            if recover_run(host, host.load(one)):
                taken_up.append(one)
            host.stopped.pop(one, None)
        except DetentError as error:
            if one == run_id:
                raise
            host.report(one, error)  # a damaged run must not keep the others from going on
    for child, parent, has_ended in apart:
        try:
            recover_child(host, child, parent, has_ended)
        except DetentError as error:
            host.report(child, error)
    return tuple(taken_up)


def recover_run(host: RecoveringHost, live: LoadedRun) -> bool:
    """Put a run nobody drives back to work; whether there was anything to do."""
    host.check_agent(live)
    found = False
    now = host.clock.now()
    for contract in live.run.contracts:
        if contract.question is not None and "lands_until" in contract.question.data:
            host.attempts.doubts.look_again(live, contract)
        if contract.status is not Status.RUNNING or contract.id in live.tasks or live.run.contract(contract.id) is None:
            continue
        if contract.id in live.dispatched:
            continue  # this process has just begun it
        found = True
        if contract.is_irreversible and contract.effect_state == "possible":
            host.spawn(live, contract.id, host.attempts.doubts.settle(live, contract.id, None, is_crash=True))
        else:
            again = [replace(moved, at=now) for moved in run_again(contract, "recovery")]
            host.fold(live, again[0], follow=again[1:])  # both or neither: alone, the first would ask a person
    if live.run.is_held and live.run.held_by == "host" and live.run.ended is None:
        host.fold(live, Signalled(RELEASE, {}, "host", now))
        found = True
    return found


def recover_child(host: RecoveringHost, run_id: str, parent: str, has_ended: bool) -> None:
    """Bring a child run and its parent together again: hand up what came of it, or end what nobody waits for."""
    parent_id, _, contract_id = parent.partition(" ")
    try:
        above = host.load(parent_id).run
    except DetentError:
        return  # the parent is damaged: its child is left as it is until somebody has looked
    contract = awaiting(above, run_id, contract_id)
    if has_ended:
        if contract is not None and contract.status is Status.WAITING:
            host.attempts.hand_up(host.load(run_id).run)
    elif contract is None:
        live = host.load(run_id)
        if live.run.ended is None and live.run.ending is None:
            host.fold(live, Signalled(CANCEL, {"reason": "nobody waits for it"}, "parent", host.clock.now()))
