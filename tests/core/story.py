"""A run told step by step: what the tests of the core use to say what happens and to see what follows."""

from collections.abc import Mapping
from typing import Any

import msgspec

from detent import (
    Abort,
    Ask,
    Command,
    Consequence,
    Contract,
    ContractMoved,
    Declared,
    Event,
    Failure,
    Finish,
    Machine,
    Perform,
    Question,
    Run,
    Signalled,
    Started,
    Status,
    advance,
)
from detent.core.events import RULES

EFFECTS = {
    "look": Declared(kind="pure"),
    "sync": Declared(kind="idempotent"),
    "pay": Declared(kind="irreversible", timeout_s=5.0),
}


class Story:
    """One run, moved by events; every step also checks that the run before it was left as it was."""

    def __init__(self, machine: Machine, input: Mapping[str, Any] | None = None, **started: Any) -> None:
        self.machine = machine
        self.run = Run(id="r1")
        self.events: list[Event] = []
        self.commands: tuple[Command, ...] = ()
        self.taken: tuple[Consequence, ...] = ()
        self.performed: list[str] = []
        self.at = 100.0
        effects = started.pop("effects", EFFECTS)
        started.setdefault("rules", RULES)
        self.tell(Started(machine.digest, dict(input or {}), effects, **started, at=self.at))

    def tell(self, event: Event) -> "Story":
        before = msgspec.json.encode(self.run)
        run, commands, taken = advance(self.machine, self.run, event)
        assert msgspec.json.encode(self.run) == before
        self.run, self.commands, self.taken = run, commands, taken
        self.events.append(event)
        self.performed += [c.contract_id for c in commands if isinstance(c, Perform)]
        return self

    def signal(self, name: str, data: Mapping[str, Any] | None = None, *, by: str = "", id: str = "") -> "Story":
        return self.tell(Signalled(name, dict(data or {}), by, self.at, id))

    def succeed(self, what: str, result: Any = None, **fields: Any) -> "Story":
        return self.tell(ContractMoved(self.open(what).id, "succeed", result, at=self.at, **fields))

    def fail(self, what: str, kind: str = "tool_failure", message: str = "broken", **fields: Any) -> "Story":
        error = Failure(kind, message)
        return self.tell(ContractMoved(self.open(what).id, "fail", error=error, at=self.at, **fields))

    def move(self, what: str, trigger: str, **fields: Any) -> "Story":
        return self.tell(ContractMoved(self.open(what).id, trigger, at=self.at, **fields))

    def answer(self, what: str, **said: Any) -> "Story":
        return self.tell(ContractMoved(self.open(what).id, "resume", said, at=self.at))

    def doubt(self, what: str, **fields: Any) -> "Story":
        """What a host does when nobody knows whether a call happened."""
        question = Question("Did it happen?", "outcome_unknown")
        return self.move(what, "suspend", question=question, deed="possible", **fields)

    def wake(self, at: float | None = None) -> "Story":
        """Let the next timer ring, or the clock show a certain time."""
        self.at = self.run.wake_at if at is None else at
        assert self.at, "no timer is set"
        self.tell(Signalled("@wake", at=self.at))
        assert not 0 < self.run.wake_at <= self.at, "a timer that was due is still set"
        return self

    def open(self, what: str) -> Contract:
        """The open contract of that id or of that action."""
        found = [c for c in self.run.contracts if what in (c.id, c.action)]
        assert len(found) == 1, f"{what}: {[c.id for c in self.run.contracts]}"
        return found[0]

    @property
    def state(self) -> str:
        return self.run.state

    @property
    def status(self) -> Status:
        return self.run.status

    @property
    def error(self) -> str:
        return self.run.error.type if self.run.error else ""

    @property
    def opened(self) -> list[str]:
        return [c.id for c in self.run.contracts]

    @property
    def asked(self) -> list[str]:
        return [c.contract_id for c in self.commands if isinstance(c, Ask)]

    @property
    def aborted(self) -> list[str]:
        return [c.contract_id for c in self.commands if isinstance(c, Abort)]

    @property
    def finish(self) -> Finish | None:
        return next((c for c in self.commands if isinstance(c, Finish)), None)

    @property
    def path(self) -> list[str]:
        """The states entered by the latest event."""
        return [t.target for t in self.taken if t.kind == "transition"]
