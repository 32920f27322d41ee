"""Cognitive objects: what the assistant has in mind, one for each conversation, in one of six statuses.

Where one stands follows from the conversation's turns and from the moves people make; only the latter are kept. A move
that the table does not have is refused and leaves no record.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from detent.core.machine import table
from detent.core.status import Status
from detent.errors import EventRefused
from detent.host.reading import Summary

State = Literal["emerging", "active", "waiting", "blocked", "stable", "archived"]
STATES: tuple[State, ...] = ("emerging", "active", "waiting", "blocked", "stable", "archived")
MOVES = table("""
    emerging  clarify     active
    emerging  archive     archived
    active    wait        waiting
    active    block       blocked
    active    achieve     stable
    active    archive     archived
    waiting   resume      active
    waiting   block       blocked
    waiting   achieve     stable
    waiting   archive     archived
    blocked   unblock     active
    blocked   archive     archived
    stable    reactivate  active
    stable    archive     archived
    archived  reactivate  active
""")
TARGETS = {(row.source, row.on): row.target for row in MOVES}
BEFORE_THINKING = ("intent", "emotion", "memory")
# Whatever brings a conversation back to work when somebody speaks.
SPEAK = {"emerging": "clarify", "waiting": "resume", "blocked": "unblock", "stable": "reactivate",
         "archived": "reactivate"}  # fmt: skip


class ConcernHistory:
    """The moves of one cognitive object, made of turns (newest first) and of what people did to it."""

    def __init__(self, turns: Sequence[Summary], by_people: Sequence[Mapping[str, Any]] = ()) -> None:
        self.state: State = "emerging"
        self.transitions: list[dict[str, Any]] = []
        self._open = [turn for turn in turns if turn.status is Status.WAITING]
        is_new = len(turns) == 1 and turns[0].status is Status.RUNNING and turns[0].state in BEFORE_THINKING
        told: list[tuple[float, int, Any]] = []
        for number, turn in enumerate(reversed(turns)):
            told.append((turn.started_at, 2 * number, None if is_new else turn))
            if turn.status not in (Status.RUNNING, Status.PENDING):
                told.append((turn.updated_at, 2 * number + 1, turn))
        told += [(move["timestamp"], 2 * len(turns) + number, move) for number, move in enumerate(by_people)]
        for at, number, one in sorted(told, key=lambda event: event[:2]):
            if isinstance(one, Mapping):
                self._move(one["trigger"], at, one["actor"], one["reason"])
            elif one is not None:
                is_rest = number % 2 == 1
                if not is_rest or self.state in ("blocked", "archived"):  # somebody has spoken, or answered
                    self._move(SPEAK.get(self.state, ""), at, "assistant", one.run_id)
                if is_rest:
                    self._move(self._rest(one, at), at, "assistant", one.run_id)

    def _rest(self, turn: Summary, at: float) -> str:
        """What a turn that has come to rest means; a question that is still open elsewhere keeps it waiting."""
        waiting = [one for one in self._open if one is turn or one.updated_at <= at]
        is_doubtful = any(asked.reason == "outcome_unknown" for one in waiting for asked in one.waiting)
        if turn.status is Status.FAILED or is_doubtful:
            return "block"
        return "wait" if waiting else "achieve"

    def _move(self, trigger: str, at: float, actor: str, reason: str) -> None:
        target: Any = TARGETS.get((self.state, trigger))
        if target is None:
            return  # what people did may not fit any more: the conversation has gone on
        self.transitions.append({"from": self.state, "to": target, "trigger": trigger, "timestamp": at, "actor": actor,
                                 "reason": reason})  # fmt: skip
        self.state = target

    def check_move(self, trigger: str, actor: str, reason: str) -> dict[str, Any]:
        """A move that somebody wants to make, or the refusal with what would be accepted."""
        target = TARGETS.get((self.state, trigger))
        if target is None:
            raise EventRefused(self.state, trigger, [on for state, on in TARGETS if state == self.state])
        return {"from": self.state, "to": target, "trigger": trigger, "actor": actor, "reason": reason}


def topology() -> dict[str, Any]:
    """The six statuses, and what leads from one to another."""
    nodes = [{"id": state, "is_initial": state == "emerging", "is_final": state == "archived"} for state in STATES]
    return {"nodes": nodes, "edges": [{"from": row.source, "to": row.target, "trigger": row.on} for row in MOVES]}
