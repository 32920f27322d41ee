"""The three events: past tense, journalled, the only inputs of a run.

Time, answers, results and their order enter a run only through these. Signals whose name begins with `@` are the
host's own: `@wake` (a timer is due), `@cancel`, `@hold` and `@release` (pause), `@migrate`, `@policy` (what a rule
said about a contract that goes on as it is, or about who may answer its question), `@attempt` (somebody tried to answer
who may not; nothing else changed), `@repeat` (what a contract asks
about was done before), `@evidence` (what came of a call after its contract had gone on without it), `@retry` (a run
that has failed goes on from what failed), `@slot` (when a call may begin whose rate all runs share),
`@restored` (the journal was restored from a backup, and the run may have
gone on since).
"""

from typing import Any

import msgspec

from detent.core.contract import Failure
from detent.core.effect_type import Declared
from detent.core.question import Question

# What an event means may only change for runs that begin later: a run says by which rules it is folded.
# 1: 0.1. 2: a failure is not taken by a row without a condition; the result of a failed call is kept whole; a deed that
# was done in another run is asked about. 3: branches that have ended stand apart from those under way, and count their
# contracts themselves, so that an event costs the same among ten thousand items; of a loop that says nothing of it
# fifty items go on at the same time. 4: a deed that somebody gave up on, or that was not taken back, raises an alarm;
# no `undo` is called with a value that nobody has; what is tried again goes on as few at a time as at first.
# 5: a run whose `finally` is done can be tried again, if nothing was taken back; a call that has a rate takes its slot
# when it is about to begin, and a new one if it is late for it; what failed in a group that went on keeps its result.
RULES = 5
WAKE, CANCEL, HOLD, RELEASE, MIGRATE, RULED = "@wake", "@cancel", "@hold", "@release", "@migrate", "@policy"
REPEATED, EVIDENCE, RETRY, RESTORED, ATTEMPT = "@repeat", "@evidence", "@retry", "@restored", "@attempt"
SLOT = "@slot"


class Started(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="event", tag="started"):
    """A run began, pinned to a machine and to what its effects declared."""

    machine: str
    input: dict[str, Any] = {}
    effects: dict[str, Declared] = {}
    by: str = ""
    known_by: str = ""  # what vouches for the name; empty: nothing, it is claimed
    spoken_by: str = ""  # who said it in that name, where that is somebody else
    session: str = ""
    source: str = ""  # where the definition came from, to find its effects again
    parent: str = ""  # "run_id contract_id" of the contract this run carries out
    fork: dict[str, Any] | None = None  # {run_id, seq, checkpoint, run, rules}: begin as that run was
    rules: int = 1  # by which rules its events are folded; see RULES
    at: float = 0.0
    id: str = ""
    group: str = ""  # the run that keeps the order of its group
    held_by: str = ""  # it begins held: it waits for a place in its group
    place_at: float = 0.0  # until then, where places come at a certain rate
    place_question: str = ""  # and asks whether it may go on all the same


class Signalled(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="event", tag="signalled"):
    """Somebody outside said that something happened."""

    name: str
    data: dict[str, Any] = {}
    by: str = ""
    at: float = 0.0
    id: str = ""
    known_by: str = ""
    spoken_by: str = ""


class ContractMoved(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="event", tag="moved"):
    """A contract made one of its nine moves; `resume` carries the answer as its result."""

    contract_id: str
    trigger: str
    result: Any = None
    error: Failure | None = None
    question: Question | None = None
    raises: str = ""
    patch: dict[str, Any] = {}
    usage: dict[str, float] = {}
    deed: str = ""  # what is known of the outside world, when the move alone does not say it; a `fail` frees the key
    # of the deed unless it says `possible` here
    actor: str = ""
    at: float = 0.0
    id: str = ""
    sandbox: str = ""  # the level at which the call's program ran, if it started one; `off: …` says why there is none


Event = Started | Signalled | ContractMoved
"""What `advance` takes: the only inputs of a run, and all that a journal holds."""


def digest_after(event: Event) -> str:
    """The digest a `@migrate` event leads to, else nothing."""
    return str(event.data.get("machine", "")) if type(event) is Signalled and event.name == MIGRATE else ""
