"""A run being advanced: the mutable working copy inside one call of `advance`.

Nothing reachable from the old run is changed: mappings are copied before the first write, structs are replaced.
"""

from collections import deque
from collections.abc import Callable
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from detent.core.commands import Abort, Ask, Command, Finish, Perform, Wake
from detent.core.compiled_machine import Chart, Condition, Place, Work
from detent.core.consequence import Consequence
from detent.core.contract import MOVES, Contract, Deed, Failure
from detent.core.events import Event, Signalled
from detent.core.machine import Machine
from detent.core.run import BranchState, Run, Wreck
from detent.core.status import TERMINAL, Status
from detent.errors import ExpressionError

RECENT_MAX = 32
ALARMS_MAX = 20


class WorkingCopy(Struct, eq=False):
    """Everything one event may change, with the few operations that change it."""

    machine: Machine
    chart: Chart
    run: Run
    at: float
    event_id: str
    state: str
    contracts: dict[str, Contract]
    lanes: dict[str, BranchState]
    cause: Failure | None  # the latest failure, for an unhappy end
    wreck: Wreck | None  # what that failure left behind
    ending: Status | None
    ended: Status | None
    held: bool
    changes: dict[str, Any] = {}
    ready: deque[tuple[str, int]] = field(default_factory=deque)  # branches that can go on, and from which action
    taken: list[Consequence] = []
    aborted: list[str] = []
    asking: dict[str, None] = {}  # contracts that began to wait in this event
    performing: dict[str, Deed] = {}  # to be dispatched after this event, with the deed as it was before
    settled: bool = False  # the state's work is over, well or with `failure`
    failure: Failure | None = None
    on_join: Callable[[str], None] | None = None  # told of an action whose branches join though some failed

    def get(self, name: str) -> Any:
        """The run's field as it stands in this draft."""
        return self.changes[name] if name in self.changes else getattr(self.run, name)

    def put(self, name: str, key: str, value: Any) -> None:
        """Set one key of one of the run's mappings; in a copy, since expressions may have lent out the old one."""
        self.changes[name] = {**self.get(name), key: value}

    def use_up(self, signal: Signalled) -> None:
        """Take a signal out of the inbox; one of them, where the same was told twice."""
        inbox = self.get("inbox")
        at = next((at for at, one in enumerate(inbox) if one is signal), len(inbox))
        self.changes["inbox"] = (*inbox[:at], *inbox[at + 1 :])

    def drop(self, name: str, key: str) -> None:
        """Remove one key of one of the run's mappings."""
        mapping = self.get(name)
        if key in mapping:
            self.changes[name] = {k: v for k, v in mapping.items() if k != key}

    def number(self, name: str, path: str = "") -> str:
        """The id of the next contract of that name; one in a branch is counted there."""
        counts = self.changes.get("counts", self.run.counts)
        number = counts.get(name, 0) + 1
        if not path or self.get("rules") < 3:
            self.changes["counts"] = {**counts, name: number}
            return f"{name}/{number}"
        lane, action = self.lanes[path], name.rpartition(".")[2]
        had = lane.counts.get(action, 0) + 1
        number = max(number, lane.base + had)
        self.lanes[path] = replace(lane, counts={**lane.counts, action: had})
        counted = f"{self.state}/{path.split('/', 2)[1].rpartition('.')[0]}."  # the highest of all its branches
        if counts.get(counted, 0) < number:
            self.changes["counts"] = {**counts, counted: number}
        return f"{name}/{number}"

    @property
    def place(self) -> Place:
        """The state the draft is in."""
        return self.chart.places[self.state]

    def say(self, kind: str, **fields: Any) -> None:
        """Note one thing that happened, for the trace."""
        self.taken.append(Consequence(kind, **fields))

    def raise_alarm(self, text: str) -> None:
        """Say what somebody must look into, on the run itself; of many the latest are kept."""
        self.changes["alarms"] = (*self.get("alarms")[1 - ALARMS_MAX :], text)

    def works(self, path: str) -> tuple[Work, ...]:
        """The actions of a branch."""
        works = self.chart.places[self.state].work
        for part in path.split("/")[1:] if path else ():
            action, _, index = part.rpartition(".")
            work = next(w for w in works if w.action.id == action)
            works = work.branches[0 if work.each else int(index)][1]
        return works

    def work(self, contract: Contract) -> Work:
        """The action of a contract whose branch is still there."""
        return self.works(contract.lane)[self.lanes[contract.lane].position]

    def scope(self, path: str = "") -> dict[str, Any]:
        """What an expression can see from a branch."""
        run, now = self.run, self.changes.get  # asked directly: this is made for nearly every event
        event, error = now("event", run.event), now("error", run.error)
        scope: dict[str, Any] = {
            "context": now("context", run.context),
            "variables": now("variables", run.variables),
            "state": now("local", run.local),
            "result": now("results", run.results),
            "attempt": now("failures", run.failures).get(self.state, 0),
            "approval": now("answers", run.answers),
            "event": None if event is None else describe_signal(event),
            "error": None if error is None else {**error.data, "type": error.type, "message": error.message},
            "run": {
                "id": run.id,
                "state": self.state,
                "by": now("by", run.by),
                "session": now("session", run.session),
                "started_at": now("started_at", run.started_at),
                "machine": self.machine.name,
            },
        }
        if path:
            self._branch_scope(path, scope)
        return scope

    def _branch_scope(self, path: str, scope: dict[str, Any]) -> None:
        inside = ""
        context, result = dict(scope["context"]), dict(scope["result"])
        for part in path.split("/")[1:]:
            inside += "/" + part
            lane = self.lanes[inside]
            context.update(lane.writes)
            result.update(lane.results)
            scope["branch"] = {"index": int(part.rpartition(".")[2]), "item": lane.item, "path": inside[1:]}
            scope["item"] = lane.item
        scope["context"], scope["result"] = context, result

    def holds(self, condition: Condition, scope: dict[str, Any]) -> bool:
        """Whether a condition holds; one that cannot be computed counts as false, and is recorded as such."""
        try:
            value = bool(condition.evaluate(scope))
        except ExpressionError as error:
            self.say("condition", subject=condition.source, event=str(error), values=condition.list_values(scope))
            return False
        self.say("condition", subject=condition.source, value=value, values=condition.list_values(scope))
        return value

    def write(self, path: str, name: str, value: Any) -> None:
        """Set one value of the context; a branch's own until the branches join."""
        self.say("set", subject=name, value=value)
        lane = self.lanes.get(path)
        if path and lane is not None:
            self.lanes[path] = replace(lane, writes={**lane.writes, name: value})
        else:
            self.put("context", name, value)

    def move(self, contract: Contract, trigger: str, actor: str, expires_at: float = 0.0, **fields: Any) -> Contract:
        """Make one of the nine moves, checked by the caller; a timer ends with the status it was for."""
        before = contract.status
        target = MOVES[before, trigger]
        self.taken.append(Consequence("contract", before, trigger, target, contract.id, actor))
        moved = replace(contract, status=target, moved_at=self.at, due_at=0.0, expires_at=expires_at, **fields)
        if target in TERMINAL:
            self.contracts.pop(contract.id, None)
        else:
            self.contracts[contract.id] = moved
            if target is Status.WAITING:
                self.asking[contract.id] = None
        return moved

    def freeze(self) -> tuple[Run, tuple[Command, ...], tuple[Consequence, ...]]:
        """The run after the event, what to do, and what happened."""
        old = self.run
        if self.event_id:
            self.changes["recent"] = remember(old.recent, self.event_id)
        run = replace(
            old,
            seq=old.seq + 1,
            at=self.at,
            state=self.state,
            contracts=tuple(self.contracts.values()),
            lanes=tuple(self.lanes.values()),
            ending=self.ending,
            ended=self.ended,
            is_held=self.held,
            **self.changes,
        )
        return run, self._commands(run), tuple(self.taken)

    def _commands(self, run: Run) -> tuple[Command, ...]:
        old = self.run
        commands: list[Command] = [*map(Abort, self.aborted), *map(Perform, self.performing)]
        for contract_id in self.asking:
            contract = self.contracts.get(contract_id)
            if contract is not None and contract.is_asking:
                commands.append(Ask(contract_id))
        if run.wake_at != old.wake_at:
            commands.append(Wake(run.wake_at))
        if run.ended is not None and old.ended is None:
            commands.append(Finish(run.ended, run.output, run.error))
        return tuple(commands)


def copy_run(machine: Machine, run: Run, event: Event) -> WorkingCopy:
    """A run as one event finds it."""
    return WorkingCopy(
        machine,
        machine.chart,
        run,
        event.at,
        event.id,
        run.state,
        {contract.id: contract for contract in run.contracts},
        {lane.path: lane for lane in run.lanes},
        run.error,
        run.wreck,
        run.ending,
        run.ended,
        run.is_held,
    )


def describe_signal(signal: Signalled) -> dict[str, Any]:
    """A signal as expressions see it."""
    return {"name": signal.name, "id": signal.id, "data": signal.data, "by": signal.by}


def remember(recent: tuple[str, ...], event_id: str) -> tuple[str, ...]:
    """The latest event ids, with one more."""
    return (*recent[1 - RECENT_MAX :], event_id)
