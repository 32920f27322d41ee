"""Armed triggers: each is a run of its own, so arming, pausing and every firing are events in a journal.

The run's machine holds the workflow and the trigger as they were when somebody armed them; what is in the file now
makes no difference until it is armed again. All of this is made of the verbs of the port, so every host has it.
"""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, NamedTuple

import msgspec

from detent.core.events import Signalled, Started
from detent.core.history import Entry
from detent.core.identity import By, Identity
from detent.core.machine import Action, Machine, Transition
from detent.core.run import Run
from detent.define.source import Definition
from detent.define.trigger import Trigger
from detent.errors import JournalError, Refused, Unknown
from detent.host.port import Host, Reader
from detent.host.run_id import LENGTH_MAX
from detent.host.system_run import TRIGGER_NAME, TRIGGERS_ID

ARMED, PAUSED, REMOVED = "armed", "paused", "removed"
ADD, PAUSE, RESUME, REMOVE = "ADD", "PAUSE", "RESUME", "REMOVE"
FIRED, SKIPPED = "FIRED", "SKIPPED"
WORKFLOW = "workflow"
SPEC, FILE = "trigger", "file"

REGISTRY = Machine(
    name=TRIGGERS_ID,
    initial="kept",
    transitions=[Transition("kept", "kept", on=ADD)],
    title="The triggers of this home",
)


def _transitions() -> list[Transition]:
    """From `since` on a trigger counts; up to `upto` its planned times are dealt with, and never again."""
    later = "{{ event.data.upto if event.data.upto > context.upto else context.upto }}"
    since = (Action("since", "set", {"name": "context.since", "value": "{{ event.data.since }}"}),)
    upto = (Action("upto", "set", {"name": "context.upto", "value": later}),)
    rows = [Transition(state, state, on=FIRED, then=upto) for state in (ARMED, PAUSED)]
    rows += [Transition(ARMED, ARMED, on=SKIPPED, then=upto)]
    rows += [Transition(state, ARMED, on=ADD, then=since) for state in (ARMED, PAUSED, REMOVED)]
    rows += [Transition(ARMED, PAUSED, on=PAUSE), Transition(PAUSED, ARMED, on=RESUME, then=since)]
    return [*rows, *(Transition(state, REMOVED, on=REMOVE) for state in (ARMED, PAUSED))]


TRANSITIONS = _transitions()


class TriggerList:
    """A projection: the runs of all triggers that were ever armed here."""

    name: ClassVar[str] = "trigger_list"
    version: ClassVar[int] = 1
    reach: ClassVar[int] = 0

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.ids: dict[str, None] = {}

    def take(self, entry: Entry) -> None:
        """Note a trigger that was armed."""
        if type(entry.event) is Signalled and entry.event.name == ADD:
            self.ids[str(entry.event.data.get("run_id", ""))] = None


class FiringRecord:
    """A projection: what a trigger has started, and what it has passed over."""

    name: ClassVar[str] = "trigger_firings"
    version: ClassVar[int] = 2
    reach: ClassVar[int] = 0

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.fired: set[str] = set()
        self.skipped: set[str] = set()
        self.last: dict[str, Any] = {}  # the latest firing
        self.problem = ""  # why the latest occasion began nothing, if it did not
        self.armed_by = ""  # who armed it last

    def take(self, entry: Entry) -> None:
        """Note what became of an occasion, and who answers for the trigger."""
        event = entry.event
        if type(event) is Started or (type(event) is Signalled and event.name == ADD):
            self.armed_by = event.spoken_by or event.by
        if type(event) is not Signalled or event.name not in (FIRED, SKIPPED):
            return
        mark = str(event.data.get("mark", ""))
        if event.name == FIRED:
            self.fired.add(mark)
            self.last, self.problem = {**event.data, "at": event.at}, ""
        else:
            self.skipped.add(mark)
            self.problem = str(event.data.get("why", ""))

    def has(self, mark: str) -> bool:
        """Whether an occasion is dealt with."""
        return mark in self.fired or mark in self.skipped


class ArmedTrigger(NamedTuple):
    """A trigger as its run has it."""

    id: str  # of its run
    trigger: Trigger
    workflow: Machine
    file: str  # where both came from
    run: Run

    @property
    def name(self) -> str:
        """What people call it."""
        return f"{self.workflow.name}.{self.trigger.name}"

    @property
    def state(self) -> str:
        """armed, paused or removed."""
        return self.run.state

    @property
    def since(self) -> float:
        """From when on it counts; what happened before does not concern it."""
        return float(self.run.context.get("since") or 0.0)

    @property
    def upto(self) -> float:
        """Until when its planned times are dealt with."""
        return max(self.since, float(self.run.context.get("upto") or 0.0))

    def speak(self, record: FiringRecord) -> Identity:
        """In whose name its runs begin: its own, and whoever armed it speaks for it and counts as their initiator."""
        return Identity(f"trigger:{self.name}", "trigger", record.armed_by)

    def run_id_of(self, mark: str) -> str:
        """The id of the run that one event or planned time begins: the same whoever computes it, and when."""
        return make_id(f"{self.workflow.name}-{self.trigger.name}-{mark}")


def make_id(text: str) -> str:
    """A run's id that says what it is of; a long one is cut, and told apart by its hash."""
    clean = "".join(ch if ch.isalnum() or ch in "-_" else "-" for ch in text)
    if clean == text and len(text) <= LENGTH_MAX:
        return text
    mark = hashlib.sha256(text.encode()).hexdigest()[:16]
    return f"{clean[: LENGTH_MAX - 17]}-{mark}"


def trigger_id(workflow: str, name: str) -> str:
    """The id of a trigger's run."""
    return make_id(f"trigger-{workflow}-{name}")


def make_machine(definition: Definition, trigger: Trigger) -> Machine:
    """The machine of a trigger's run: it holds what is armed, so that its digest says what that is."""
    return Machine(
        name=TRIGGER_NAME,
        initial=ARMED,
        transitions=TRANSITIONS,
        variables={SPEC: msgspec.json.decode(msgspec.json.encode(trigger)), FILE: definition.source},
        children={WORKFLOW: definition.machine},
        title=f"{definition.machine.name}.{trigger.name}",
    )


async def arm(host: Host, definition: Definition, now: float, by: By) -> list[ArmedTrigger]:
    """Arm every trigger of a file as it is now; those that the file no longer has are removed."""
    if not definition.triggers:
        raise Refused(f"{definition.source} has no `triggers`")
    known = {one.id: one for one in list_triggers(host.reader)}
    await host.start(REGISTRY, run_id=TRIGGERS_ID, by=by)
    armed = []
    for trigger in definition.triggers:
        armed.append(await _arm_one(host, definition, trigger, known, now, by))
    kept = {one.id for one in armed}
    for old in known.values():
        if old.file == definition.source and old.id not in kept and old.state != REMOVED:
            await host.signal(old.id, REMOVE, by=by)
    return armed


async def _arm_one(
    host: Host, definition: Definition, trigger: Trigger, known: dict[str, ArmedTrigger], now: float, by: By
) -> ArmedTrigger:
    id, machine = trigger_id(definition.machine.name, trigger.name), make_machine(definition, trigger)
    old = known.get(id)
    if old is not None and old.file != definition.source and old.state != REMOVED:
        raise Refused(f"`{old.name}` is armed from {old.file}; remove that one first, or give one of them another name")
    await host.signal(TRIGGERS_ID, ADD, {"run_id": id}, id=f"add {id}", by=by)
    run = await host.start(machine, {"since": now, "upto": 0.0}, run_id=id, by=by)
    if run.machine != machine.digest:
        await host.migrate(id, machine, by=by)
    if run.machine != machine.digest or run.state != ARMED:
        # What was planned meanwhile by another plan is nobody's; a firing that is noted stays noted.
        run = await host.signal(id, ADD, {"since": now}, by=by)
    return ArmedTrigger(id, trigger, definition.machine, definition.source, await host.show(id))


async def pause(host: Host, armed: ArmedTrigger, by: By) -> None:
    """Pause a trigger: it starts nothing until it is resumed."""
    await host.signal(armed.id, PAUSE, by=by)


async def resume(host: Host, armed: ArmedTrigger, now: float, by: By) -> None:
    """Let a trigger go on; what was planned while it was paused stays undone."""
    await host.signal(armed.id, RESUME, {"since": now}, by=by)


async def remove(host: Host, armed: ArmedTrigger, by: By) -> None:
    """Disarm a trigger; what it has started goes on, and what it has fired for is remembered."""
    await host.signal(armed.id, REMOVE, by=by)


def list_triggers(reader: Reader) -> list[ArmedTrigger]:
    """Every trigger that was armed here, by name; those that were removed too."""
    if not reader.has_runs() or reader.summary(TRIGGERS_ID) is None:
        return []
    ids = tuple(reader.project(TRIGGERS_ID, TriggerList).ids)
    return sorted((one for one in (find_trigger_run(reader, id) for id in ids) if one), key=lambda one: one.name)


def find_trigger_run(reader: Reader, id: str) -> ArmedTrigger | None:
    """The trigger whose run that is; None where arming it never came that far, or it cannot be read."""
    try:
        standing = reader.standing(id)
        said = standing.machine.variables
        trigger = msgspec.convert(said[SPEC], Trigger)
        return ArmedTrigger(id, trigger, standing.machine.children[WORKFLOW], str(said[FILE]), standing.run)
    except (Unknown, JournalError, KeyError, msgspec.ValidationError):
        return None


def find_triggers(triggers: Iterable[ArmedTrigger], name: str) -> Sequence[ArmedTrigger]:
    """The triggers that a name means: WORKFLOW.NAME, the workflow's, or a trigger's own where only one has it."""
    present = [one for one in triggers if one.state != REMOVED]
    found = [one for one in present if name in (one.name, one.workflow.name)]
    found = found or [one for one in present if one.trigger.name == name]
    if not found:
        known = ", ".join(one.name for one in present[:20]) or "-"
        raise Unknown(f"there is no trigger `{name}`; armed: {known}")
    return found
