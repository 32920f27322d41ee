"""What one event led to, as small facts the trace is made of; they never influence the run."""

from typing import Any

import msgspec


class Consequence(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One thing an event led to.

    `transition`: source, event, target. `contract`: subject moved from source to target by event, done by actor.
    `condition`: subject was read as `value` with these `values`; value None: it failed, event says why.
    `caught`: an error of type event was taken by the row to target. `set`: subject became value. `log`: subject
    said value at level event. `policy`: the rule `value` decided event about the contract subject; `values` say more.
    `evidence`: what came late of the call subject is value; event says more. `note`: subject and value say it.
    """

    kind: str
    source: str = ""
    event: str = ""
    target: str = ""
    subject: str = ""
    actor: str = ""
    value: Any = None
    values: dict[str, Any] = {}
