"""A run being advanced: the mutable working copy inside one call of `advance`.

Nothing reachable from the old run is changed: mappings are copied before the first write, structs are replaced.
"""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from detent.core.chart import Place, Work
from detent.core.commands import Abort, Ask, Command, Finish, Perform, Wake
from detent.core.contract import MOVES, Contract, Failure
from detent.core.events import Event
from detent.core.expression import names
from detent.core.taken import Taken
from detent.core.machine import Machine
from detent.core.run import ASKED, Lane, Run
from detent.core.status import Status
from detent.errors import ExpressionError, Refused

RECENT_MAX = 32
INBOX_MAX = 1000


class Draft:
    """Everything one event may change, with the few operations that change it."""

    def __init__(self, machine: Machine, run: Run, event: Event) -> None:
        self.machine = machine
        self.chart = machine.chart
        self.run = run
        self.at = event.at
        self.event_id = event.id
        self.changes: dict[str, Any] = {}
        self.contracts: dict[str, Contract] = {c.id: c for c in run.contracts}
        self.lanes: dict[str, Lane] = {lane.path: lane for lane in run.lanes}
        self.state = run.state
        self.taken: list[Taken] = []
        self.aborted: list[str] = []
        self.performing: list[str] = []
        self.settled = False
        self.failure: Failure | None = None
        self.raised = ""
        self.ending = run.ending
        self.ended = run.ended
        self.held = run.is_held
        self.ask_again: list[str] = []

    def get(self, name: str) -> Any:
        """The run's field as it stands in this draft."""
        return self.changes[name] if name in self.changes else getattr(self.run, name)

    def put(self, name: str, key: str, value: Any) -> None:
        """Set one key of one of the run's mappings, copying the mapping the first time."""
        if name not in self.changes:
            self.changes[name] = dict(getattr(self.run, name))
        self.changes[name][key] = value

    def drop(self, name: str, key: str) -> None:
        """Remove one key of one of the run's mappings."""
        if key in self.get(name):
            if name not in self.changes:
                self.changes[name] = dict(getattr(self.run, name))
            del self.changes[name][key]

    @property
    def place(self) -> Place:
        """The state the draft is in."""
        return self.chart.places[self.state]

    def say(self, kind: str, **fields: Any) -> None:
        """Note one thing that happened, for the trace."""
        self.taken.append(Taken(kind, **fields))

    def works(self, path: str) -> tuple[Work, ...]:
        """The actions of a lane."""
        works = self.place.work
        if path:
            for part in path.split("/")[1:]:
                action, _, index = part.rpartition(".")
                work = next(w for w in works if w.action.id == action)
                works = work.branches[0 if work.each else int(index)][1]
        return works

    def scope(self, path: str = "") -> dict[str, Any]:
        """What an expression can see from a lane."""
        scope: dict[str, Any] = {
            "context": self.get("context"),
            "variables": self.get("variables"),
            "state": self.get("local"),
            "result": self.get("results"),
            "attempt": self.get("failures").get(self.state, 0),
            "approval": self.get("answers"),
            "run": self._facts(),
        }
        event, error = self.get("event"), self.get("error")
        scope["event"] = None if event is None else {"name": event.name, "id": event.id, "data": event.data, "by": event.by}
        scope["error"] = None if error is None else {"type": error.type, "message": error.message, **error.data}
        if path:
            self._branch_scope(path, scope)
        return scope

    def _facts(self) -> dict[str, Any]:
        run = self.run
        return {"id": run.id, "state": self.state, "by": self.get("by"), "session": self.get("session"),
                "started_at": self.get("started_at"), "machine": self.machine.name}  # fmt: skip

    def _branch_scope(self, path: str, scope: dict[str, Any]) -> None:
        inside = ""
        context, result = dict(scope["context"]), dict(scope["result"])
        for part in path.split("/")[1:]:
            inside += "/" + part
            lane = self.lanes[inside]
            context.update(lane.writes)
            result.update(lane.results)
            index = int(part.rpartition(".")[2])
            scope["branch"] = {"index": index, "item": lane.item, "path": inside[1:]}
            scope["item"] = lane.item
        scope["context"], scope["result"] = context, result

    def holds(self, when: "Callable[[dict[str, Any]], Any] | None", source: str, scope: dict[str, Any]) -> bool | None:
        """Whether a condition holds; None when it could not be computed, which counts as false and is recorded."""
        if when is None:
            return True
        try:
            value = bool(when(scope))
        except ExpressionError as error:
            self.say("condition", subject=source, event=str(error), values=_seen(source, scope))
            return None
        self.say("condition", subject=source, value=value, values=_seen(source, scope))
        return value

    def assign(self, path: str, name: str, value: Any) -> None:
        """Set a variable: a bare name is the context's, `variables.` and `state.` name the other two."""
        root, _, rest = name.partition(".")
        if rest and root in ("context", "variables", "state"):
            where, keys = {"context": "context", "variables": "variables", "state": "local"}[root], rest.split(".")
        else:
            where, keys = "context", name.split(".")
        if not all(key.isidentifier() and not key.startswith("_") for key in keys):
            raise Refused(f"`{name}` is not a variable name")
        self.say("set", subject=name, value=value)
        if path and where == "context":
            lane = self.lanes[path]
            self.lanes[path] = replace(lane, writes={**lane.writes, keys[0]: self._nested(self.scope(path)["context"], keys, value)})
        else:
            self.put(where, keys[0], self._nested(self.get(where), keys, value))

    @staticmethod
    def _nested(mapping: Any, keys: list[str], value: Any) -> Any:
        if len(keys) == 1:
            return value
        inner = mapping.get(keys[0]) if isinstance(mapping, dict) else None
        inner = inner if isinstance(inner, dict) else {}
        return {**inner, keys[1]: Draft._nested(inner, keys[1:], value)}

    def move(self, contract: Contract, trigger: str, actor: str, **fields: Any) -> Contract:
        """Make one of the nine moves; the caller has checked that it is legal."""
        target = MOVES[contract.status, trigger]
        self.say("contract", source=contract.status.value, event=trigger, target=target.value, subject=contract.id,
                 actor=actor)  # fmt: skip
        moved = replace(contract, status=target, moved_at=self.at, **fields)
        if target.is_terminal:
            self.contracts.pop(contract.id, None)
        else:
            self.contracts[contract.id] = moved
        return moved

    def frozen(self) -> tuple[Run, tuple[Command, ...], tuple[Taken, ...]]:
        """The run after the event, what to do, and what happened."""
        old, changes = self.run, self.changes
        if self.event_id:
            changes["recent"] = (*old.recent[1 - RECENT_MAX :], self.event_id)
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
            **changes,
        )
        return run, self._commands(run), tuple(self.taken)

    def _commands(self, run: Run) -> tuple[Command, ...]:
        old = self.run
        commands: list[Command] = [Abort(contract_id) for contract_id in self.aborted]
        if len(run.contracts) or len(old.contracts):
            known = {c.id for c in old.waiting} - set(self.ask_again)
            for contract in run.contracts:
                if contract.status is Status.WAITING and contract.question and contract.question.reason in ASKED:
                    if contract.id not in known:
                        commands.append(Ask(contract.id))
                elif contract.id in self.performing and contract.status is Status.RUNNING:
                    commands.append(Perform(contract.id))
        if run.wake_at != old.wake_at:
            commands.append(Wake(run.wake_at))
        if run.ended is not None and old.ended is None:
            commands.append(Finish(run.ended, run.output, run.error))
        return tuple(commands)


def _seen(source: str, scope: dict[str, Any]) -> dict[str, Any]:
    """The values a condition looked at, for explaining it later."""
    seen = {}
    for name in sorted(names(source)):
        value: Any = scope
        for key in name.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        seen[name] = value if value is None or isinstance(value, (str, int, float, bool)) else "…"
    return seen
