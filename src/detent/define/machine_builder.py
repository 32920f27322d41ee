"""A machine in the making: what the compiler has gathered from one set of states and transitions."""

import functools
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Protocol, TypeVar

from detent.core.machine import Action, Await, Machine, Retry, Transition
from detent.core.status import Status
from detent.define.compile_context import Page
from detent.define.document import Route
from detent.define.grammar import IMPLICIT_ERRORS, RETRY
from detent.define.key_check import Fields
from detent.define.proof import MachineProof

ENDS = {"final": Status.COMPLETED, "error": Status.FAILED}

Nest = Callable[["MachinePlan", Route, Any, str], "tuple[Machine, MachinePlan] | None"]
FindChild = Callable[[Page, Route, str], dict[str, Any] | None]


class Struct(Protocol):
    """What the core's values have in common."""

    __struct_fields__: ClassVar[tuple[str, ...]]
    __struct_defaults__: ClassVar[tuple[Any, ...]]


Built = TypeVar("Built", bound=Struct)


def lean(kind: type[Built], /, **given: Any) -> Built:
    """Build a value of the core without what is its default anyway: equal machines must have one digest."""
    usual = _usual(kind)
    return kind(**{name: value for name, value in given.items() if name not in usual or value != usual[name]})


@functools.cache
def _usual(kind: type[Struct]) -> dict[str, Any]:
    return dict(zip(reversed(kind.__struct_fields__), reversed(kind.__struct_defaults__), strict=False))


class MachinePlan:
    """Everything that becomes one machine; places are kept beside it for what is found out late."""

    def __init__(self, page: Page, path: Route, *, is_fragment: bool, nest: Nest, find_child: FindChild) -> None:
        self.page, self.path, self.is_fragment = page, path, is_fragment
        self.nest, self.find_child = nest, find_child
        self.states: dict[str, Fields] = {}
        self.types: dict[str, str] = {}
        self.initial = ""
        self.variables: dict[str, Any] = {}
        self.declared: dict[str, Any] = {}  # of them, those declared here
        self.implied: dict[str, Status] = {}  # ends that are only named
        self.rows: list[Transition] = []
        self.row_paths: list[Route] = []
        self.left_on: set[str] = set()  # states that an event leads out of
        self.work: dict[str, tuple[Action, ...]] = {}
        self.local: dict[str, dict[str, Any]] = {}
        self.timeouts_s: dict[str, float] = {}
        self.awaited: dict[str, list[Await]] = {}  # by wait state, from `for` and from transitions with `on`
        self.named_events: dict[str, set[str]] = {}  # by wait state, from `for` alone
        self.events: dict[str, None] = {}
        self.retries: dict[str, Retry | tuple[Retry, ...]] = {}  # by state, from handlers
        self.actions: dict[str, Route] = {}  # the ids of all actions
        self.undos: list[tuple[str, Route, Any]] = []  # by action: where the call that takes it back stands
        self.asking: set[str] = set()  # states that ask before they act
        self.written: dict[str, None] = {}  # names of the context that an action sets
        self.set_variables: set[str] = set()  # names of `variables` that an action sets
        self.proof = MachineProof()

    def path_of(self, state: str) -> Route:
        """Where a state stands."""
        return (*self.path, "states", state)

    @property
    def ends(self) -> dict[str, Status]:
        """The states a run can end in."""
        declared = {state: ENDS[type] for state, type in self.types.items() if type in ENDS}
        return {**declared, **self.implied}

    @property
    def busy(self) -> tuple[str, ...]:
        """The declared states that are no ends."""
        return tuple(state for state, type in self.types.items() if type not in ENDS)

    def target(self, path: Route, name: str, *, may_retry: bool = False) -> str:
        """The state a name means, or nothing after a note; the name `retry` stays for the caller to resolve."""
        if name in self.types or (name == RETRY and may_retry):
            return name
        if name in IMPLICIT_ERRORS:
            self.implied[name] = Status.FAILED
        elif self.is_fragment and name != RETRY:
            self.implied[name] = Status.COMPLETED
        else:
            self.page.say(path, *self.page.unknown("state", name, self._names(may_retry)))
            return ""
        return name

    def _names(self, may_retry: bool) -> Iterable[str]:
        return [*self.types, *([RETRY] if may_retry else []), *IMPLICIT_ERRORS]

    def source(self, path: Route, name: str) -> str:
        """The state a transition leaves or a handler watches, or nothing after a note."""
        if name == "*":
            return name
        if name not in self.types:
            if name in self.implied:
                self.page.say(path, f"`{name}` is an end that is only named here", "declare it under `states`")
            else:
                self.page.say(path, *self.page.unknown("state", name, self.busy))
            return ""
        if self.types[name] in ENDS:
            self.page.say(path, f"`{name}` is an end (`{self.types[name]}`): nothing leads on from it")
            return ""
        return name

    def add(self, row: Transition, path: Route) -> None:
        """One more row of the table."""
        self.rows.append(row)
        self.row_paths.append(path)
        if row.on:
            self.left_on.add(row.source)

    def writes(self, variable: str) -> None:
        """Note that something sets this variable."""
        first, _, rest = variable.partition(".")
        if first == "variables" and rest:
            self.set_variables.add(rest.partition(".")[0])
        elif first != "state" or not rest:
            self.written[rest.partition(".")[0] if first == "context" and rest else first] = None
