"""Cognitive objects: what the assistant has in mind, one for each conversation, in one of six states.

Nothing of this is kept: a conversation's turns say where it stands. The only fact of its own is that somebody has put
it away, and that lasts until somebody speaks again.
"""

from collections.abc import Sequence
from typing import Any, Literal

from detent.core.machine import table
from detent.core.status import Status
from detent.host.reading import Summary

State = Literal["emerging", "active", "waiting", "blocked", "stable", "archived"]
STATES: tuple[State, ...] = ("emerging", "active", "waiting", "blocked", "stable", "archived")
MOVES = table("""
    emerging  think    active
    active    ask      waiting
    active    fail     blocked
    active    settle   stable
    waiting   answer   active
    waiting   speak    active
    waiting   doubt    blocked
    blocked   answer   active
    blocked   speak    active
    stable    speak    active
    stable    archive  archived
    blocked   archive  archived
    archived  speak    active
""")
BEFORE_THINKING = ("intent", "emotion", "memory")


def state_of(turns: Sequence[Summary], archived_at: float = 0.0) -> State:
    """Where a conversation stands, from its turns (newest first)."""
    newest = turns[0]
    if archived_at and archived_at >= max(turn.updated_at for turn in turns):
        return "archived"
    if any(turn.status in (Status.RUNNING, Status.PENDING) for turn in turns):
        is_first = len(turns) == 1 and newest.state in BEFORE_THINKING
        return "emerging" if is_first else "active"
    waiting = [question for turn in turns if turn.status is Status.WAITING for question in turn.waiting]
    if any(question.reason == "outcome_unknown" for question in waiting) or newest.status is Status.FAILED:
        return "blocked"
    return "waiting" if any(turn.status is Status.WAITING for turn in turns) else "stable"


def topology() -> dict[str, Any]:
    """The six states, and what leads from one to another."""
    nodes = [{"id": state, "is_initial": state == "emerging", "is_final": state == "archived"} for state in STATES]
    return {"nodes": nodes, "edges": [{"from": row.source, "to": row.target, "trigger": row.on} for row in MOVES]}
