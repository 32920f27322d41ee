"""A machine: a transition table, the work of each state, and the ends, as plain data.

Building one checks it; a Machine that exists is sound. Its identity is the digest of its JSON, so a run pinned to
a digest cannot be changed by editing a file.
"""

import re
from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from detent.core.question import Question
from detent.core.status import Status
from detent.core.value import digest
from detent.errors import DefinitionError

if TYPE_CHECKING:
    from detent.core.chart import Chart

OWN_EFFECTS = frozenset({"set", "log", "choose", "wait", "branches"})  # what the engine does by itself
_EFFECT_NAME = re.compile(r"[\w.:/@+-]{1,200}\Z")


class Retry(msgspec.Struct, frozen=True, omit_defaults=True):
    """Further attempts at a failed action: how many, on what, and how long between them."""

    limit: int
    on: tuple[str, ...] = ()  # error types; empty: every type that may be retried
    delay_s: float = 1.0
    factor: float = 2.0
    delay_s_max: float = 60.0


class Await(msgspec.Struct, frozen=True, omit_defaults=True):
    """One signal that ends a wait, if `match` holds for it."""

    event: str
    match: str = ""


class Wait(msgspec.Struct, frozen=True, omit_defaults=True):
    """A pause: for one of these signals, or for a time."""

    events: tuple[Await, ...] = ()
    duration_s: Any = 0  # sleep this long; number or expression
    timeout_s: Any = 0  # give up after this long; number or expression


class Branch(msgspec.Struct, frozen=True, omit_defaults=True):
    """One of several lines of work that go on side by side."""

    name: str
    actions: tuple["Action", ...]


class Action(msgspec.Struct, frozen=True, omit_defaults=True):
    """One piece of work: which effect, with what, and under which care.

    `effect` may be one of the engine's own: `set` and `log` (input: name and value, message), `choose` (evaluates
    `condition`), `wait`, and `branches` (several lines of work at once, or one per item of `each`).
    """

    id: str
    effect: str
    input: Any = {}
    kind: Literal["", "pure", "idempotent", "irreversible"] = ""  # overrides what the effect declares
    ask: Question | None = None
    when: str = ""
    timeout_s: float = 0.0
    retry: Retry | None = None
    key: str = ""
    scope: Literal["", "global", "session", "run"] = ""
    repeat: str = ""
    wait: Wait | None = None
    branches: tuple[Branch, ...] = ()
    each: str = ""
    join: Literal["all", "any"] | int = "all"
    fail_fast: bool = False
    at_once: int = 0  # how many branches at the same time; 0: all
    tolerate: int = 0  # how many branches may fail


class Transition(msgspec.Struct, frozen=True, omit_defaults=True):
    """One row of the table: from `source` to `target`, on a signal, on an error, or when the work is done."""

    source: str
    target: str
    on: str = ""
    error: str = ""  # takes errors of this type and its children; "*" is the last resort
    when: str = ""
    priority: int = 0
    then: tuple[Action, ...] = ()  # set, log and notes only
    even_failed: bool = False  # also tried after a failure that no typed row takes
    is_retry: bool = False  # goes back to its source; errors that are never retried do not enable it
    is_kill: bool = False  # stop everything and end as failed in the target, without its work


class Limits(msgspec.Struct, frozen=True, omit_defaults=True):
    """Bounds over the whole life of a run; 0 means none."""

    max_transitions: int = 0
    max_visits: int = 0
    max_duration_s: float = 0.0
    max_cost_usd: float = 0.0
    max_tokens: int = 0


class Machine(msgspec.Struct, frozen=True, omit_defaults=True, dict=True):
    """A table that can be checked, drawn, compared and run."""

    name: str
    initial: str
    transitions: tuple[Transition, ...] = ()
    work: dict[str, tuple[Action, ...]] = {}
    ends: dict[str, Status] = {}
    variables: dict[str, Any] = {}
    local: dict[str, dict[str, Any]] = {}  # a state's own variables
    timeouts_s: dict[str, float] = {}  # how long a run may stay in a state
    keeps: tuple[str, ...] = ()  # signals that are kept when they come early, instead of refused
    limits: Limits = Limits()
    output: Any = None  # template of what the run gives; absent: its context
    title: str = ""
    version: str = ""

    def __post_init__(self) -> None:
        _check(self)

    @cached_property
    def digest(self) -> str:
        """The machine's identity: SHA-256 of its canonical JSON with whole floats written as integers (5.0 is 5)."""
        return digest(_whole(msgspec.to_builtins(self)))

    @cached_property
    def states(self) -> tuple[str, ...]:
        """Every state, in the order the table names them."""
        named = [self.initial]
        for row in self.transitions:
            named += [row.source, row.target]
        named += [*self.work, *self.ends]
        return tuple(state for state in dict.fromkeys(named) if state != "*")

    @cached_property
    def chart(self) -> "Chart":
        """The machine made ready for the engine."""
        from detent.core.chart import Chart  # the chart is made of machines: importing it above would be a circle

        return Chart(self)

    def accepts(self, state: str) -> tuple[str, ...]:
        """The signals that mean something in this state."""
        if state not in self.chart.places:
            raise DefinitionError(f"machine `{self.name}` has no state `{state}`")
        return self.chart.places[state].accepts

    def to_json(self) -> bytes:
        """The machine as canonical JSON."""
        return msgspec.json.encode(self, order="sorted")

    @classmethod
    def from_json(cls, text: bytes | str) -> "Machine":
        """The machine that `to_json` wrote."""
        try:
            return msgspec.json.decode(text, type=cls)
        except msgspec.MsgspecError as error:
            raise DefinitionError(str(error), "machine") from None


def _whole(value: Any) -> Any:
    """Numbers as JSON compares them, so that a machine and its reading from JSON have one identity."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _whole(inner) for key, inner in value.items()}
    return [_whole(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def table(text: str) -> tuple[Transition, ...]:
    """Rows of `source EVENT target`; `-` stands for "when the work is done", `!type` for an error of that type.

    A row may end in `if EXPRESSION`.
    """
    rows = []
    for number, line in enumerate(text.splitlines(), 1):
        head, _, when = line.partition(" if ")
        parts = head.split()
        if not parts:
            continue
        if len(parts) != 3:
            raise DefinitionError(f"`{line.strip()}` is not a row of `source EVENT target`", f"table row {number}")
        source, on, target = parts
        error, on = (on[1:], "") if on.startswith("!") else ("", "" if on == "-" else on)
        rows.append(Transition(source=source, target=target, on=on, error=error, when=when.strip()))
    return tuple(rows)


def _check(machine: Machine) -> None:
    where = f"machine `{machine.name}`"
    if not isinstance(machine.initial, str) or not machine.initial:
        raise DefinitionError("a machine has exactly one initial state, given as its name", where)
    sources = {row.source for row in machine.transitions}
    known = {machine.initial, *sources, *machine.work, *machine.ends}
    if machine.initial not in sources | machine.work.keys() | machine.ends.keys():
        raise DefinitionError(f"the initial state `{machine.initial}` appears nowhere else", where)
    for name in (machine.name, *known - {"*"}, *(row.target for row in machine.transitions)):
        _identifier(name, "name", where)
    for row in machine.transitions:
        _check_transition(row, known, where)
    for state, actions in machine.work.items():
        _check_actions(actions, f"{where}, state `{state}`", 0)
    _check_idle_cycles(machine, where)
    _ = machine.chart  # compiles every expression, so that a bad one is found now and not at three in the morning


def _check_transition(row: Transition, known: set[str], where: str) -> None:
    if row.target not in known:
        raise DefinitionError(
            f"`{row.source}` leads to `{row.target}`, which has no transition, no work and is not an end"
            f"{did_you_mean(row.target, known)}",
            where,
        )
    if row.on:
        _identifier(row.on, "event", where)
    if any(action.effect not in ("set", "log") for action in row.then):
        raise DefinitionError(f"`{row.source}` → `{row.target}`: on the way only `set` and `log` are possible", where)


def _check_actions(actions: Iterable[Action], where: str, depth: int) -> None:
    if depth > 8:
        raise DefinitionError("branches are nested deeper than 8", where)
    seen: set[str] = set()
    for action in actions:
        _identifier(action.id, "action id", where)
        if action.id in seen:
            raise DefinitionError(f"the action id `{action.id}` is used twice", where)
        seen.add(action.id)
        if not action.effect or ("{{" not in action.effect and not _EFFECT_NAME.match(action.effect)):
            raise DefinitionError(f"action `{action.id}` names the effect {action.effect!r}", where)
        _check_branches(action, where, depth)


def _check_branches(action: Action, where: str, depth: int) -> None:
    place = f"{where}, action `{action.id}`"
    if (action.effect == "branches") != bool(action.branches):
        raise DefinitionError("an action has branches exactly when its effect is `branches`", place)
    if (action.effect == "wait") != (action.wait is not None):
        raise DefinitionError("an action has a wait exactly when its effect is `wait`", place)
    if action.wait is not None and not (action.wait.events or action.wait.duration_s):
        raise DefinitionError("a wait needs events or a duration, else nothing would ever end it", place)
    if action.each and len(action.branches) != 1:
        raise DefinitionError("`each` needs exactly one branch, which is done for every item", place)
    if isinstance(action.join, int) and (action.join < 1 or (not action.each and action.join > len(action.branches))):
        raise DefinitionError(f"join {action.join} can never be reached", place)
    for branch in action.branches:
        _check_actions(branch.actions, place, depth + 1)


def _check_idle_cycles(machine: Machine, where: str) -> None:
    """A circle of states that need no event and do no work would spin for ever."""
    idle: dict[str, list[str]] = {}
    for row in machine.transitions:
        if not (row.on or row.error or row.then or machine.work.get(row.source)):
            idle.setdefault(row.source, []).append(row.target)
    done: set[str] = set()
    for start in idle:
        trail: dict[str, None] = {}
        stack = [(start, False)]
        while stack:
            state, left = stack.pop()
            if left:
                trail.pop(state)
                done.add(state)
            elif state in trail:
                circle = " → ".join([*list(trail)[list(trail).index(state) :], state])
                raise DefinitionError(f"{circle} is a circle that needs no event and does no work", where)
            elif state in idle and state not in done:
                trail[state] = None
                stack.append((state, True))
                stack += [(target, False) for target in idle[state]]


def _identifier(name: object, what: str, where: str) -> None:
    if not isinstance(name, str) or not name.isidentifier() or len(name) > 100:
        raise DefinitionError(f"{what} {name!r} is not an identifier (letters, digits, `_`)", where)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """", did you mean `x`?" for the closest known name, or nothing."""
    import difflib  # only needed when something is already wrong

    close = difflib.get_close_matches(name, [k for k in known if isinstance(k, str)], n=1)
    return f"; did you mean `{close[0]}`?" if close else ""
