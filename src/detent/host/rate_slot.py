"""Rates that all runs of a journal share: when each call may begin.

A pace is a run of its own, like a group: who wants to begin takes a slot there, and the order of these events says when
each may. Then the run is told, and its own timer does the rest; so a crash at any point loses no slot and gives none
twice.
"""

import hashlib
from typing import Any, ClassVar, Protocol

import msgspec

from detent.core.call_rate import margin_of
from detent.core.contract import Contract
from detent.core.events import SLOT, Event, Signalled
from detent.core.history import Entry
from detent.core.identity import By, Identity
from detent.core.machine import Machine, table
from detent.core.run import Run
from detent.core.status import Status
from detent.errors import NotWaiting
from detent.host.parts.clock import Clock
from detent.host.parts.loaded_run import LoadedRun
from detent.host.port import Reader
from detent.host.system_run import PACE_NAME

TAKE, CLOSE = "TAKE", "CLOSE"
HOST = Identity("", "detent")
PAST_MAX = 200  # slots of the past that are known by who has them
SLOTS_MAX = 1_000
MACHINE = Machine(
    name=PACE_NAME,
    initial="open",
    transitions=table("""
        open TAKE open
        open CLOSE closed
    """),
    ends={"closed": Status.COMPLETED},
    title="Calls that begin at a certain rate",
)


def find_slot(slots: list[float], at: float, rate: int, per_s: float) -> float:
    """When the next one may begin: in any time of `per_s` at most `rate` begin, in the order in which they came."""
    earlier = slots[-rate] + per_s + margin_of(per_s) if len(slots) >= rate else 0.0
    return max(at, earlier, *slots[-1:])


class PaceSlots:
    """A projection: who may begin when."""

    name: ClassVar[str] = "pace_slots"
    version: ClassVar[int] = 2
    reach: ClassVar[int] = 0

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.slots: list[float] = []
        self.given: dict[str, float] = {}  # by run and contract

    def take(self, entry: Entry) -> None:
        """Somebody wants to begin."""
        event = entry.event
        if type(event) is not Signalled or event.name != TAKE or str(event.data.get("member", "")) in self.given:
            return
        after, rate = float(event.data.get("after", 0.0)), int(event.data.get("rate", 1))
        if event.data.get("unused") in self.slots:  # nobody was there to begin then
            self.slots.remove(event.data["unused"])
        slot = find_slot(self.slots, max(event.at, after), rate, float(event.data.get("per_s", 0.0)))
        self.slots = [*self.slots, slot][-SLOTS_MAX:]
        self.given[str(event.data["member"])] = slot
        past = [one for one, then in self.given.items() if then <= event.at]
        for one in past[:-PAST_MAX]:
            del self.given[one]

    def dump(self) -> bytes:
        """What is kept, so that a long history need not be read again."""
        return msgspec.json.encode([self.slots, self.given])

    @classmethod
    def load(cls, run_id: str, body: bytes) -> "PaceSlots":
        """What was kept."""
        made = cls(run_id)
        made.slots, made.given = msgspec.json.decode(body)
        return made


class PaceHost(Protocol):
    """What paces need of a host."""

    @property
    def clock(self) -> Clock:
        """What time it is."""

    @property
    def reader(self) -> Reader:
        """Reads what this host writes."""

    async def start(self, machine: Machine, input: Any = None, *, run_id: str = "", by: By = "") -> Run:
        """Begin a run."""

    async def signal(self, run_id: str, name: str, data: Any = None, *, id: str = "", by: By = "") -> Run:
        """Tell a run that something happened."""

    async def tell(self, live: LoadedRun, event: Event) -> Run:
        """Fold an event."""


async def take_slots(host: PaceHost, live: LoadedRun) -> None:
    """Tell a run when those of its calls may begin that wait to hear it."""
    for contract in live.run.contracts:
        if contract.pace:
            turn = contract.pace.get("turn")  # it has had a slot, and came too late for it
            slot = await _take(host, contract, f"{live.run.id} {contract.id}{f' {turn}' if turn else ''}")
            data = {"contract_id": contract.id, "at": slot}
            try:
                await host.tell(live, Signalled(SLOT, data, "host", host.clock.now()))
            except NotWaiting:
                continue  # it was told before, or nobody wants it any more


async def _take(host: PaceHost, contract: Contract, member: str) -> float:
    """The slot of a call; asked for twice, it is the same."""
    id = f"pace-{hashlib.sha256(str(contract.pace['name']).encode()).hexdigest()[:32]}"
    await host.start(MACHINE, run_id=id, by=HOST)
    if member not in host.reader.project(id, PaceSlots).given:
        told = {name: value for name, value in contract.pace.items() if name not in {"name", "turn"}}
        await host.signal(id, TAKE, {"member": member, **told}, id=f"take {member}", by=HOST)
    return host.reader.project(id, PaceSlots).given.get(member, float(contract.pace["after"]))
