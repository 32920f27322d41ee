"""Rates of calls: when each may begin, so that in no time of that length more than so many do.

A call takes its slot when it is about to begin: one that asks somebody first, when it has its yes; one that is begun
again after a crash, once more. Whoever comes later than its slot, because nobody was there to wake it, takes a new one.
"""

from bisect import bisect_right, insort
from typing import Any

from msgspec.structs import replace

from detent.core.contract import Contract
from detent.core.machine import Action
from detent.core.question import Question
from detent.core.status import Status
from detent.core.working_copy import WorkingCopy

MOMENT_S = 1e-6  # sums of times are not exact
NOTHING: dict[str, Any] = {}
SINCE = 5  # the rules by which a call that is late takes a new slot
MARGIN_S_MAX = LATE_S_MAX = 1.0


def margin_of(per_s: float) -> float:
    """How much further apart slots are than they must be, so that who comes a little late breaks no promise."""
    return min(per_s / 60, MARGIN_S_MAX)


def patience_with(per_s: float) -> float:
    """Who comes later than this to a slot that the host gave asks for another, which takes a while by itself."""
    return min(per_s / 4, LATE_S_MAX)


def find_beginning(draft: WorkingCopy, action: Action, due_at: float, is_asked: bool) -> tuple[float, dict[str, Any]]:
    """When a call may begin that has a rate; where all runs share it, the host knows what others do, and says when."""
    if is_asked and draft.get("rules") >= SINCE:
        return due_at, NOTHING  # with the yes
    if not action.is_shared:
        return _find_slot(draft, action, due_at), NOTHING
    after = max(due_at, draft.at)
    return after, _ask_host(action, after)


def put_off(draft: WorkingCopy, contract: Contract, **fields: Any) -> bool:
    """Whether a call that could begin now must wait, because it has no slot yet, or none any more."""
    action = draft.work(contract).action
    is_new = contract.status is Status.PENDING and draft.at - contract.created_at <= _patience_of(action)
    if not action.rate or draft.get("rules") < SINCE or contract.due_at or is_new:
        return False
    if contract.status is Status.WAITING:
        fields.update(question=Question(reason="timer"), expires_at=0.0)
    if action.is_shared:
        draft.contracts[contract.id] = _ask_again(draft, replace(contract, **fields), action)
        return True
    slot = _find_slot(draft, action, 0.0)
    if slot:
        draft.contracts[contract.id] = replace(contract, **fields, due_at=slot)
    return slot > 0


def plan_late(draft: WorkingCopy) -> None:
    """Nobody was there when calls could begin: give all of their rate new slots, in the order of the old ones."""
    slotted = [one for one in draft.contracts.values() if one.due_at and not one.pace and not one.is_adrift]
    by_name: dict[str, list[tuple[Contract, Action]]] = {}
    for one in sorted(slotted, key=lambda one: one.due_at):
        action = draft.work(one).action
        if action.rate:
            by_name.setdefault(_name(action), []).append((one, action))
    for name, waiting in by_name.items():
        first, action = waiting[0]
        if draft.at - first.due_at <= _patience_of(action):
            continue
        if not action.is_shared:
            old = {one.due_at for one, _ in waiting}
            draft.put("slots", name, tuple(one for one in draft.get("slots").get(name, ()) if one not in old))
        for one, action in waiting:
            if not action.is_shared:
                due_at = _find_slot(draft, action, max(one.due_at, draft.at)) or draft.at
                draft.contracts[one.id] = replace(one, due_at=due_at)
            elif draft.at - one.due_at > _patience_of(action):
                asked = _ask_again(draft, one, action)
                draft.contracts[one.id] = replace(asked, pace={**asked.pace, "unused": one.due_at})


def _ask_again(draft: WorkingCopy, contract: Contract, action: Action) -> Contract:
    return replace(contract, due_at=draft.at, pace={**_ask_host(action, draft.at), "turn": draft.run.seq + 1})


def _patience_of(action: Action) -> float:
    """How late a call may come to its slot."""
    return patience_with(action.per_s) if action.is_shared else margin_of(action.per_s)


def _name(action: Action) -> str:
    return action.pace or action.id


def _find_slot(draft: WorkingCopy, action: Action, due_at: float) -> float:
    """When the next call of a rate may begin: in any time of `per_s` at most `rate`; 0: now."""
    apart_s = action.per_s + (margin_of(action.per_s) if draft.get("rules") >= SINCE else 0.0)
    earliest = due_at or draft.at
    slots = [one for one in draft.get("slots").get(_name(action), ()) if one > draft.at - apart_s]
    wanted = [earliest, *(one + apart_s for one in slots if one + apart_s > earliest)]
    slot = next(one for one in wanted if _has_room(slots, one, action.rate, apart_s))
    insort(slots, slot)
    draft.put("slots", _name(action), tuple(slots))
    return slot if slot > draft.at else 0.0


def _has_room(slots: list[float], at: float, rate: int, apart_s: float) -> bool:
    """Whether one more may begin then: of those that follow each other, none comes too soon after `rate` others."""
    place = bisect_right(slots, at)
    near = [*slots[max(0, place - rate) : place], at, *slots[place : place + rate]]
    return all(later - one > apart_s - MOMENT_S for one, later in zip(near, near[rate:], strict=False))


def _ask_host(action: Action, after: float) -> dict[str, Any]:
    return {"name": _name(action), "rate": action.rate, "per_s": action.per_s, "after": after}
