"""Groups: runs that must not be under way at the same time, across all runs of a journal.

A group is a run of its own: whoever begins enters it, whoever has ended leaves it, and the order of these events says
who has a place and who waits. So the queue is in the journal like everything else, and the same for every host. A run
that waits is held; the first that waits is released when a place is free.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Container
from contextlib import asynccontextmanager, suppress
from typing import Any, ClassVar, NamedTuple, Protocol

import msgspec

from detent.core.call_rate import patience_with
from detent.core.events import SLOT, Event, Signalled
from detent.core.expression import compile_template
from detent.core.history import Entry
from detent.core.identity import By, Identity
from detent.core.machine import Group, Machine, table
from detent.core.run import Run
from detent.core.status import Status
from detent.errors import EventRefused, ExpressionError, GroupFull, NotWaiting, Refused, Unknown
from detent.host.parts.clock import Clock
from detent.host.parts.loaded_run import LoadedRun
from detent.host.port import Reader
from detent.host.rate_slot import find_slot
from detent.host.reading import Query
from detent.host.run_id import new_run_id
from detent.host.system_run import GROUP_NAME

NAME = GROUP_NAME
ENTER, LEAVE, EMPTY = "ENTER", "LEAVE", "EMPTY"
HOST = Identity("", "detent")
KEY_MAX = 200  # letters of a key that are kept to be shown
PAGE = 200
# A group that nobody is in has ended, so that it can be pruned; who enters opens it again.
MACHINE = Machine(
    name=NAME,
    initial="open",
    transitions=table("""
        open ENTER open
        open LEAVE open
        open EMPTY empty
        empty ENTER open
        empty LEAVE empty
    """),
    ends={"empty": Status.COMPLETED},
    title="Runs that do not go on at the same time",
)


class GroupQueue:
    """A projection: who is in a group, in the order in which they came."""

    name: ClassVar[str] = "group_queue"
    version: ClassVar[int] = 4
    reach: ClassVar[int] = 0

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.members: dict[str, float] = {}  # since when
        self.limit = 1
        self.key = ""
        self.slots: list[float] = []  # when the latest that have entered could begin, where there is a rate
        self.given: dict[str, float] = {}  # and by member
        self.rate = 0

    def take(self, entry: Entry) -> None:
        """Somebody enters or leaves."""
        event = entry.event
        if type(event) is not Signalled:
            return
        run_id = str(event.data.get("run_id", ""))
        if event.name == ENTER:
            self.members.setdefault(run_id, event.at)
            self.limit, self.key = int(event.data.get("limit", 1)), str(event.data.get("key", ""))
            self.rate = int(event.data.get("rate", 0))
            if self.rate and (run_id not in self.given or event.data.get("is_late")):
                self.given[run_id] = self._find_slot(event.at, self.rate, float(event.data.get("per_s", 0.0)))
        elif event.name == LEAVE:
            self.members.pop(run_id, None)
            self.given.pop(run_id, None)

    def _find_slot(self, at: float, rate: int, per_s: float) -> float:
        """When the next one may begin: in any time of `per_s` at most `rate` begin, in the order in which they came."""
        slot = find_slot(self.slots, at, rate, per_s)
        self.slots = [*self.slots, slot][-rate:]
        return slot

    def dump(self) -> bytes:
        """What is kept, so that a long history need not be read again."""
        kept = [list(self.members.items()), self.limit, self.key, self.slots, self.given, self.rate]
        return msgspec.json.encode(kept)

    @classmethod
    def load(cls, run_id: str, body: bytes) -> "GroupQueue":
        """What was kept."""
        made = cls(run_id)
        members, made.limit, made.key, made.slots, made.given, made.rate = msgspec.json.decode(body)
        made.members = dict(members)
        return made

    @property
    def holders(self) -> tuple[str, ...]:
        """Who has a place."""
        return tuple(self.members)[: self.limit]


class PlaceInQueue(NamedTuple):
    """Where a run waits: `number` counts those before it that wait too, from 1; `behind` holds a place."""

    key: str
    number: int
    behind: str


class Entering(set[str]):
    """The ids of runs that are about to begin; `planning` is held by whoever gives those that are late another time."""

    def __init__(self) -> None:
        self.planning = asyncio.Lock()


class GroupHost(Protocol):
    """What groups need of a host."""

    @property
    def reader(self) -> Reader:
        """Reads what this host writes."""

    @property
    def entering(self) -> "Entering":
        """Runs that have entered their group and are about to begin."""

    @property
    def clock(self) -> Clock:
        """What time it is."""

    async def fetch(self, run_id: str) -> LoadedRun:
        """The run as it stands now."""

    async def tell(self, live: LoadedRun, event: Event) -> Run:
        """Fold an event."""

    async def start(self, machine: Machine, input: Any = None, *, run_id: str = "", by: By = "") -> Run:
        """Begin a run."""

    async def signal(self, run_id: str, name: str, data: Any = None, *, id: str = "", by: By = "") -> Run:
        """Tell a run that something happened."""

    async def cancel(self, run_id: str, *, by: By = "", reason: str = "") -> Run:
        """Stop a run."""

    async def release(self, run_id: str, *, by: By = "") -> Run:
        """Let a run go on."""


def find_key(group: Group, input: dict[str, Any], run_id: str) -> str:
    """The key of a run that is about to begin."""
    try:
        found = compile_template(group.key)({"context": input, "run": {"id": run_id}})
    except ExpressionError as error:
        raise Refused(f"the key of its group cannot be computed: {error}") from None
    return found if isinstance(found, str) else msgspec.json.encode(found, order="sorted").decode()


def group_id(key: str) -> str:
    """The id of a group's run."""
    return f"group-{hashlib.sha256(key.encode()).hexdigest()[:32]}"


def mark_of(group: str) -> str:
    """Who holds a run that waits for a place."""
    return f"group:{group}"


async def enter(
    host: GroupHost, group: Group, id: str, key: str, run_id: str, *, is_again: bool = False
) -> dict[str, Any]:
    """Let a run into its group; gives what its first event says of that. One that cannot wait is refused."""
    await host.start(MACHINE, run_id=id, by=HOST)
    if run_id not in host.reader.project(id, GroupQueue).members:
        await host.signal(id, ENTER, _describe(group, key, run_id), by=HOST)
    queue = host.reader.project(id, GroupQueue)
    slot = queue.given.get(run_id, 0.0)
    if slot <= queue.members[run_id] if queue.rate else run_id in queue.holders:
        return {"group": id}
    before = [one for one in queue.members if one != run_id]
    if group.when_full == "drop" or is_again:
        await leave(host, id, run_id, f"dropped {new_run_id()}")
        if queue.rate:
            raise GroupFull(f"it is too early for another run of its group `{key[:KEY_MAX]}`, which is full")
        raise GroupFull(f"its group `{key[:KEY_MAX]}` is full: run {before[0]} has the place")
    if group.when_full == "cancel_previous":
        for other in before:
            await _cancel(host, other, run_id)
    held: dict[str, Any] = {"group": id, "held_by": mark_of(id)} | ({"place_at": slot} if slot else {})
    if group.when_full == "ask":
        why = "it is early for another run" if queue.rate else f"run {before[0]} has the place"
        held["place_question"] = f"Its group `{key[:KEY_MAX]}` is full: {why}. Go on all the same? No ends this run."
    return held


@asynccontextmanager
async def enter_new(
    host: GroupHost, group: Group | None, input: dict[str, Any], run_id: str, parent: str
) -> AsyncIterator[dict[str, Any]]:
    """A run that is about to begin enters its group, if it has one; gives what its first event says of that.

    A child has the place of its parents in the same group: else it would wait for them, and they for it.
    """
    key = "" if group is None else find_key(group, input, run_id)
    id = group_id(key)
    while group is not None and parent:
        above = (await host.fetch(parent.partition(" ")[0])).run
        group, parent = (None if above.group == id else group), above.parent
    if group is None:
        yield {}
        return
    host.entering.add(run_id)
    try:
        place = await enter(host, group, id, key, run_id)
        try:
            yield place
        except Refused:
            if host.reader.summary(run_id) is None:
                await leave(host, id, run_id, f"{run_id} refused {new_run_id()}")
            raise
    finally:
        host.entering.discard(run_id)
    if "held_by" in place:
        await pass_on(host, id)  # who left while it began could not release it yet


@asynccontextmanager
async def enter_again(host: GroupHost, group: Group | None, run: Run) -> AsyncIterator[None]:
    """A run that has ended is tried again: it needs a place, and gives it back if it is refused."""
    if group is None or not run.group or run.ended is None:
        yield
        return
    mark = f"{run.id} {run.seq}"
    await leave(host, run.group, run.id, mark)  # its end may not have been told yet
    await enter(host, group, run.group, host.reader.project(run.group, GroupQueue).key, run.id, is_again=True)
    try:
        yield
    except Refused:
        await leave(host, run.group, run.id, f"refused {mark} {new_run_id()}")
        raise


def is_late(live: LoadedRun, now: float) -> bool:
    """Whether nobody was there to let a run go on when it was its turn."""
    group = live.machine.group
    return group is not None and 0 < live.run.place_at < now - patience_with(group.per_s)


def needs_slot(live: LoadedRun, now: float) -> bool:
    """Whether a run must be told when it, or a call of it, may begin."""
    return any(contract.pace for contract in live.run.contracts) or is_late(live, now)


async def take_place(host: GroupHost, live: LoadedRun) -> None:
    """Give a run another time to begin if nobody was there at its own."""
    async with host.entering.planning:
        if not is_late(live, host.clock.now()):
            return
        queue = host.reader.project(live.run.group, GroupQueue)
        if queue.given.get(live.run.id, 0.0) <= live.run.place_at:
            await _plan_late(host, live.run.group, queue)
            queue = host.reader.project(live.run.group, GroupQueue)
    now = host.clock.now()
    slot = Signalled(SLOT, {"at": queue.given.get(live.run.id, now)}, "host", now)
    with suppress(NotWaiting):  # somebody has let it go on meanwhile
        await host.tell(live, slot)


async def _plan_late(host: GroupHost, id: str, queue: GroupQueue) -> None:
    """Give all who are late another time, in the order of their old ones; each takes it when it is woken."""
    now = host.clock.now()
    slots = {run_id: queue.given.get(run_id, 0.0) for run_id in queue.members}  # none: it came before there was a rate
    for run_id in sorted(slots, key=slots.__getitem__):
        if slots[run_id] < now:
            with suppress(Unknown):  # it has not begun
                late = await host.fetch(run_id)
                if late.machine.group is not None and is_late(late, now):
                    data = {**_describe(late.machine.group, queue.key, run_id), "is_late": True}
                    await host.signal(id, ENTER, data, id=f"late {run_id} {late.run.seq}", by=HOST)


def _describe(group: Group, key: str, run_id: str) -> dict[str, Any]:
    data: dict[str, Any] = {"run_id": run_id, "limit": group.limit, "key": key[:KEY_MAX]}
    return data | ({"rate": group.rate, "per_s": group.per_s} if group.rate else {})


async def _cancel(host: GroupHost, run_id: str, by_run: str) -> None:
    """Ask a run to end; it keeps its place until nothing of it can still happen."""
    try:
        await host.cancel(run_id, by=HOST, reason=f"run {by_run} of the same group has begun")
    except Refused:
        return  # it is ending, or has ended


async def leave(host: GroupHost, group: str, run_id: str, mark: str) -> None:
    """A run has ended: whoever waits first has its place now."""
    await host.signal(group, LEAVE, {"run_id": run_id}, id=f"leave {mark}", by=HOST)
    await pass_on(host, group)


async def pass_on(host: GroupHost, group: str) -> None:
    """Release whoever has a place and still waits; close a group that nobody is in."""
    queue = host.reader.project(group, GroupQueue)
    if not queue.members:
        with suppress(EventRefused):  # somebody else has closed it already
            await host.signal(group, EMPTY, by=HOST)
        return
    if queue.rate:
        return  # each goes on when its time has come, by a timer of its own
    for run_id in queue.holders:
        try:
            run = host.reader.standing(run_id).run
        except Unknown:
            continue  # it is about to begin, with its place
        if run.ended is None and run.is_held and run.held_by == mark_of(group):
            await host.release(run_id, by=Identity(mark_of(group), "detent"))


async def reconcile(host: GroupHost, now: float, patience_s: float = 0.0, entering: Container[str] = ()) -> None:
    """After a crash: those that have ended, or never began, leave their groups; the next ones go on.

    Who is `entering` is about to begin here; for others that may begin elsewhere there is some patience.
    """
    query = Query(status=(Status.WAITING,), name=NAME, limit=PAGE)
    while True:
        page = host.reader.list(query)
        for group in page.runs:
            for run_id, since in tuple(host.reader.project(group.run_id, GroupQueue).members.items()):
                known = host.reader.summary(run_id)
                if known is None and (run_id in entering or now - since < patience_s):
                    continue
                if known is None or known.status.is_terminal:
                    mark = f"{run_id} {known.seq if known is not None else 'never began'}"
                    data = {"run_id": run_id}
                    await host.signal(group.run_id, LEAVE, data, id=f"leave {mark}", by=HOST)
            await pass_on(host, group.run_id)
            await asyncio.sleep(0)  # there may be many, and others are at work here
        if not page.next:
            return
        query = query._replace(before=page.next)


def find_place(reader: Reader, run: Run) -> PlaceInQueue | None:
    """Where a run waits for a place; None if it does not."""
    if not run.group or not run.is_held or run.held_by != mark_of(run.group):
        return None
    queue = reader.project(run.group, GroupQueue)
    order = [*queue.members]
    if queue.rate:
        order = [one for one in order if queue.given.get(one, 0.0) > run.at or one == run.id]
        return PlaceInQueue(queue.key, order.index(run.id) + 1 if run.id in order else 1, "")
    number = max(1, order.index(run.id) + 1 - queue.limit) if run.id in queue.members else 1
    return PlaceInQueue(queue.key, number, order[0] if order else "")
