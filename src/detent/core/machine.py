"""A machine: a transition table, the work of each state, and the ends, as plain data.

Building one checks it; a Machine that exists is sound. Its identity is the digest of its JSON, so a run pinned to
a digest cannot be changed by editing a file.
"""

import hashlib
import re
import sys
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec.structs import force_setattr

from detent.core.attribute import check_attributes
from detent.core.compiled_machine import Chart
from detent.core.machine_check import check
from detent.core.machine_check import did_you_mean as did_you_mean  # noqa: PLC0414 - who writes machines looks here
from detent.core.question import Question
from detent.core.schema import leave_out_secrets, list_secret_inputs, problems, with_defaults
from detent.core.status import Status
from detent.core.value import canonical, intern_texts, sort_keys
from detent.errors import DefinitionError, Refused

PROBLEMS_MAX = 20  # told at once
_ALL = sys.intern("all")

Kind = Literal["pure", "idempotent", "irreversible"]
End = Literal["completed", "failed", "rejected", "cancelled"]
if TYPE_CHECKING:
    WhenFull = Literal["queue", "cancel_previous", "drop", "ask"]
else:
    WhenFull = str  # a Literal is read as one object, and `queue` that somebody has written would be left out again
_GREAT = re.compile(rb"e[0-9]")  # how a float of 1e16 and more is written


class Retry(msgspec.Struct, frozen=True, omit_defaults=True):
    """Further attempts at a failed action: how many, on what, and how long between them."""

    limit: int
    on: tuple[str, ...] = ()  # error types; empty: every type that may be retried
    delay_s: float = 1.0
    factor: float = 2.0
    delay_s_max: float = 60.0
    is_last: bool = False  # only where no row of the state takes the failure
    is_exact: bool = False  # the delay as it is computed, without jitter


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


class Probe(msgspec.Struct, frozen=True, omit_defaults=True):
    """A call that finds out whether another happened: both conditions read `result`; neither holds: it cannot tell."""

    effect: str
    input: Any = {}
    happened: str = "{{ result.happened == true }}"
    not_happened: str = "{{ result.happened == false }}"


class Action(msgspec.Struct, frozen=True, omit_defaults=True):
    """One piece of work: which effect, with what, and under which care.

    `effect` may be one of the engine's own: `set` and `log` (input: name and value, message), `choose` (evaluates
    the input's `condition`), `keep` (its result is the input's `value`), `wait`, `ask` (only the question), and
    `branches` (several lines of work at once, or one per item of `each`).
    """

    id: str
    effect: str
    input: Any = {}
    kind: Literal["", "pure", "idempotent", "irreversible"] = ""  # overrides what the effect declares
    ask: Question | None = None
    when: str = ""
    timeout_s: float = 0.0
    retry: Retry | tuple[Retry, ...] | None = None  # of several, the first for a type of error has its own count
    key: str = ""
    scope: Literal["", "global", "session", "run"] = ""
    repeat: str = ""
    on_repeat: Literal["", "ask", "allow", "refuse", "reuse"] = ""  # when the same deed was done in another run
    wait: Wait | None = None
    branches: tuple[Branch, ...] = ()
    each: str = ""
    join: Literal["all", "any"] | int = "all"
    fail_fast: bool = False
    at_once: int = 0  # how many branches at the same time; 0: all, but of items 50
    tolerate: int = 0  # how many branches may fail; of a single call: its branch goes on after it has failed
    rate: int = 0  # how many such calls may begin
    per_s: float = 0.0  # in this time, in one run
    pace: str = ""  # calls with the same word share their rate; its own id otherwise
    is_shared: bool = False  # and so do those of all runs of the journal
    probe: Probe | None = None  # the call that finds out whether this one happened

    def __post_init__(self) -> None:
        if self.kind or self.scope or self.join is not _ALL:
            intern_texts(self, "kind", "scope", *(["join"] if isinstance(self.join, str) else []))
        force_setattr(self, "input", sort_keys(self.input))


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
    only_failed: bool = False  # and only then: after a call that failed, or that answered `success: false`
    is_retry: bool = False  # goes back to its source; errors that are never retried do not enable it
    is_kill: bool = False  # stop everything and end as failed in the target, without its work


class Limits(msgspec.Struct, frozen=True, omit_defaults=True):
    """Bounds over the whole life of a run; 0 means none."""

    max_transitions: int = 0
    max_visits: int = 0
    max_duration_s: float = 0.0
    max_cost_usd: float = 0.0
    max_tokens: int = 0


class Group(msgspec.Struct, frozen=True, omit_defaults=True):
    """Runs with the same key, of whatever machine, do not go on at the same time: at most `limit` of them."""

    key: str  # a template over `context`, the run's input
    limit: int = 1
    when_full: WhenFull = "queue"
    rate: int = 0  # instead of `limit`: how many may begin
    per_s: float = 0.0  # in this time


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
    asks: tuple[Kind, ...] = ()  # kinds of deed that are asked about first
    limits: Limits = Limits()
    children: dict[str, "Machine"] = {}  # machines that `child` actions start, by the name they use
    output: Any = None  # template of what the run gives; absent: its context
    input_schema: dict[str, Any] = {}  # JSON Schema of what a run must be given; empty: anything
    title: str = ""
    version: str = ""
    group: Group | None = None  # with which other runs it does not go on at the same time
    attributes: dict[str, Any] = {}  # templates of single values by which people look for a run
    on_failure: str = ""  # the state whose work takes back what was done, before a run ends otherwise than well
    at_end: str = ""  # the state whose work is done last, however a run ends

    if TYPE_CHECKING:

        def __init__(  # noqa: PLR0913, PLR0917  # what may be written; the fields say what it becomes
            self,
            name: str,
            initial: str,
            transitions: Iterable[Transition] = ...,
            work: Mapping[str, Iterable[Action]] = ...,
            ends: Mapping[str, Status | End] = ...,
            variables: dict[str, Any] = ...,
            local: dict[str, dict[str, Any]] = ...,
            timeouts_s: dict[str, float] = ...,
            keeps: Iterable[str] = ...,
            asks: Iterable[Kind] = ...,
            limits: Limits = ...,
            children: dict[str, "Machine"] = ...,
            output: Any = ...,
            input_schema: dict[str, Any] = ...,
            title: str = ...,
            version: str = ...,
            group: Group | None = ...,
            attributes: dict[str, Any] = ...,
            on_failure: str = ...,
            at_end: str = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        _settle(self)
        check(self)
        check_attributes(self)
        # A machine read back from its JSON has its keys in order: expressions must not see a difference.
        for name in ("work", "ends", "variables", "local", "timeouts_s", "output", "input_schema", "attributes"):
            force_setattr(self, name, sort_keys(getattr(self, name)))
        _ = self.chart  # compiles every expression, so that a bad one is found now

    @cached_property
    def digest(self) -> str:
        """The machine's identity: SHA-256 of its canonical JSON with whole floats written as integers (5.0 is 5)."""
        return hashlib.sha256(self.identity()).hexdigest()

    def identity(self) -> bytes:
        """What the digest is taken of."""
        text = self.to_json()
        has_whole_floats = b".0" in text or _GREAT.search(text) is not None  # or something that looks like one
        return canonical(_whole(msgspec.to_builtins(self))) if has_whole_floats else text

    @cached_property
    def states(self) -> tuple[str, ...]:
        """Every state, in the order the table names them."""
        named = [self.initial]
        for row in self.transitions:
            named += [row.source, row.target]
        named += [*self.work, *self.ends]
        return tuple(state for state in dict.fromkeys(named) if state != "*")

    @cached_property
    def chart(self) -> Chart:
        """The machine made ready for the engine."""
        return Chart(self)

    @cached_property
    def secret_inputs(self) -> tuple[str, ...]:
        """The parts of its input that a run is given and no journal holds."""
        return list_secret_inputs(self.input_schema)

    def take_secrets(self, given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
        """An input without its secrets, and those; refused where one does not fit. No value is told."""
        if not self.secret_inputs:
            return dict(given), {}
        secrets = {name: given[name] for name in self.secret_inputs if name in given}
        known = self.input_schema.get("properties", {})
        found = [one for name, value in secrets.items() for one in problems(known[name], value, f"input.{name}")]
        if found:
            raise Refused(f"`{self.name}` cannot begin with this: {'; '.join(found[:PROBLEMS_MAX])}")
        return {name: value for name, value in given.items() if name not in secrets}, secrets

    def accepts(self, state: str) -> tuple[str, ...]:
        """The signals that mean something in this state."""
        if state not in self.chart.places:
            raise DefinitionError(f"machine `{self.name}` has no state `{state}`")
        return self.chart.places[state].accepts

    def fill_input(self, given: dict[str, Any]) -> dict[str, Any]:
        """What a run is given, with the defaults filled in; refused where it does not fit the schema."""
        if not self.input_schema:
            return given
        schema = leave_out_secrets(self.input_schema)
        found = [f"input.{name} is a secret, which no journal may hold" for name in self.secret_inputs if name in given]
        filled: dict[str, Any] = with_defaults(schema, given)
        found += problems(schema, filled, "input")
        if found:
            raise Refused(f"`{self.name}` cannot begin with this: {'; '.join(found[:PROBLEMS_MAX])}")
        return filled

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


def _settle(machine: Machine) -> None:
    """Take lists for tuples and words for statuses, as people write them."""
    try:
        force_setattr(machine, "transitions", tuple(machine.transitions))
        force_setattr(machine, "work", {state: tuple(actions) for state, actions in machine.work.items()})
        force_setattr(machine, "ends", {state: Status(status) for state, status in machine.ends.items()})
        force_setattr(machine, "keeps", tuple(machine.keeps))
        force_setattr(machine, "asks", tuple(machine.asks))
    except (TypeError, ValueError, AttributeError) as error:
        raise DefinitionError(f"not a machine's parts: {error}", f"machine `{machine.name}`") from None


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
        if len(parts) != 3 or parts[1] == "!":
            raise DefinitionError(f"`{line.strip()}` is not a row of `source EVENT target`", f"table row {number}")
        source, on, target = parts
        error, on = (on[1:], "") if on.startswith("!") else ("", "" if on == "-" else on)
        rows.append(Transition(source=source, target=target, on=on, error=error, when=when.strip()))
    return tuple(rows)
