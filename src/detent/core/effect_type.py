"""Effects: the declared doors to the outside world.

An effect knows one world and nothing of machines or journals: it takes a contract, touches the world once and
says how it went. It may raise anything; the host turns that into data. What it must declare honestly is its
`kind`, because that decides what happens after a crash.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, overload

import msgspec

from detent.core.contract import Contract
from detent.core.question import Question
from detent.core.value import intern_texts
from detent.errors import DefinitionError

Kind = Literal["pure", "idempotent", "irreversible"]
Scope = Literal["global", "session", "run"]

TIMEOUT_S = 60.0


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """How one attempt went: a result, and what should follow from it."""

    result: Any = None
    raises: str = ""  # the event this result means to the machine; of "COMPLETE_ITEM NEXT_ITEM", one after the other
    patch: dict[str, Any] = {}  # values for the run's context, journalled with the result
    usage: dict[str, float] = {}  # tokens and cost_usd, counted against the run's limits
    question: Question | None = None  # not finished: wait for this answer first


class EffectFailed(Exception):
    """Nothing happened: the effect's own word, and evidence. `type` is one of the error types.

    Raise it only where that is known: the arguments were refused, the program was not found, nothing was sent. It gives
    the deed's key back, so the same deed may be tried again. Every other exception says only that something went wrong
    somewhere; after an irreversible call that is a doubt, and a person is asked.

    What it used up all the same (tokens and cost_usd) is counted like that of a success.
    """

    def __init__(
        self, message: str, type: str = "tool_failure", result: Any = None, usage: Mapping[str, float] | None = None
    ) -> None:
        super().__init__(message)
        self.type = type
        self.result = result
        self.usage = dict(usage or {})


class PartialFailure(Exception):
    """It failed, and may have done something before it did: a program that ran and then ended with an error.

    The run takes its error path at once, like after `EffectFailed`; the key of an irreversible deed stays taken, and
    whoever wants to do it again is asked, with `message` and `result` in front of them.
    """

    def __init__(
        self, message: str, type: str = "tool_failure", result: Any = None, usage: Mapping[str, float] | None = None
    ) -> None:
        super().__init__(message)
        self.type = type
        self.result = result
        self.usage = dict(usage or {})


class Declined(EffectFailed):
    """A person said no to what the effect asked while it was at work, and it has ended; `deed` is what is known of it.

    `none`: it says itself that it did nothing. `possible`: it did not say so, and its key stays taken.
    """

    def __init__(self, message: str, result: Any = None, deed: Literal["none", "possible"] = "none") -> None:
        super().__init__(message, "approval_rejected", result)
        self.deed = deed


class OutcomeUnknown(Exception):
    """The call left and no answer came back: nobody knows whether it happened.

    Any exception but `EffectFailed` and `PartialFailure` means the same. This one can show more: `result` is what came
    back all the same, such as an answer of 502.
    """

    def __init__(self, message: str = "", result: Any = None) -> None:
        super().__init__(message)
        self.result = result


class StillRunning(OutcomeUnknown):
    """The call was given up, and goes on where nobody can stop it: in a thread, say.

    `outcome` gives what came of it in the end, or raises as an effect does. Until then nobody can say that it did not
    happen; when it comes, it answers the question by itself.
    """

    def __init__(self, message: str, outcome: Awaitable[Any]) -> None:
        super().__init__(message)
        self.outcome = outcome


Perform = Callable[[Contract], Awaitable[Outcome | Mapping[str, Any] | None]]
Reconcile = Callable[[Contract], Awaitable[Outcome | None]]


class Declared(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What a run must know of an effect; pinned into its journal when it starts."""

    kind: Kind = "irreversible"
    timeout_s: float = TIMEOUT_S
    scope: Scope = "global"
    settle_s: float = -1.0  # how long a request may still be in flight after its caller died; -1: timeout_s
    key: tuple[str, ...] = ()  # the arguments that make two deeds the same; none: all of them
    kind_by: str = ""  # the argument that decides the kind, if one does
    kinds: dict[str, Kind] = {}  # and the kinds by its value in capitals, "" where it is left out; others: `kind`
    is_priced: bool = False  # its calls cost money or tokens, and say how much with their result
    is_lenient: bool = False  # an action that says nothing of its kind, key or scope keeps its key only in doubt

    def __post_init__(self) -> None:
        intern_texts(self, "kind", "scope")

    def kind_of(self, given: Mapping[str, Any]) -> Kind:
        """The kind of a call with these arguments."""
        if not self.kind_by:
            return self.kind
        value = given.get(self.kind_by)
        return self.kinds.get("" if value is None else str(value).upper(), self.kind)

    def essence(self, given: dict[str, Any]) -> dict[str, Any]:
        """The arguments that say which deed it is."""
        return {name: given.get(name) for name in self.key} if self.key else given

    @property
    def settle(self) -> float:
        """Seconds to hold back before anybody judges what happened."""
        return self.timeout_s if self.settle_s < 0 else self.settle_s


class Effect(msgspec.Struct, frozen=True):
    """A named door: what it declares, how to go through it, and how to find out whether somebody did.

    `reconcile` answers an Outcome (it happened, this is the result), raises EffectFailed (it did not happen) or
    returns None (it cannot tell). `withdraw` is told that nobody will answer what this contract asked (`hears_no`).
    """

    name: str
    perform: Perform
    declared: Declared = Declared()
    reconcile: Reconcile | None = None
    about: str = ""
    schema: dict[str, Any] = {}  # JSON Schema of its input, for those who must be told how to call it; empty: unknown
    withdraw: Callable[[Contract], None] | None = None
    advice: str = ""  # for whoever is asked about a call: how to declare what it is, where nobody has
    # What a policy can go by beside the arguments as they are written: any of {program, paths, host, sandbox}.
    facts: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
    # It works on what one machine has, such as files or processes: all such calls of a run are made in one place.
    is_local: bool = False
    takes: str = ""  # the names of its arguments, those it cannot do without with a `!`; empty: unknown
    may_trail: bool = False  # a pure call does not wait for the disk: a power cut may take its record with it


@overload
def effect(name: Callable[..., Any], /) -> Effect: ...
@overload
def effect(
    name: str = "",
    /,
    *,
    kind: Kind = "irreversible",
    timeout_s: float = TIMEOUT_S,
    scope: Scope = "global",
    settle_s: float = -1.0,
    reconcile: Reconcile | None = None,
    schema: Mapping[str, Any] | None = None,
    is_lenient: bool = False,
    facts: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None,
    is_local: bool = False,
    takes: str = "",
) -> Callable[[Callable[..., Any]], Effect]: ...
def effect(  # noqa: PLR0913  # each has the right default
    name: str | Callable[..., Any] = "",
    /,
    *,
    kind: Kind = "irreversible",
    timeout_s: float = TIMEOUT_S,
    scope: Scope = "global",
    settle_s: float = -1.0,
    reconcile: Reconcile | None = None,
    schema: Mapping[str, Any] | None = None,
    is_lenient: bool = False,
    facts: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None,
    is_local: bool = False,
    takes: str = "",
) -> Effect | Callable[[Callable[..., Any]], Effect]:
    """Declare an async function of a contract as an effect; undeclared means irreversible, the careful default."""
    if kind not in ("pure", "idempotent", "irreversible"):
        raise DefinitionError(f"kind `{kind}` is not one of pure, idempotent, irreversible")

    def declare(perform: Callable[..., Any]) -> Effect:
        called = name if isinstance(name, str) and name else perform.__name__
        about = (perform.__doc__ or "").strip().partition("\n")[0]
        declared = Declared(kind, float(timeout_s), scope, float(settle_s), is_lenient=is_lenient)
        known = dict(schema or {})
        return Effect(called, perform, declared, reconcile, about, known, facts=facts, is_local=is_local, takes=takes)

    return declare(name) if callable(name) else declare
