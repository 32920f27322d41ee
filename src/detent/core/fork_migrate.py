"""Going on elsewhere: a fork begins as another run was, a migration goes on under another machine.

Neither repeats what is done: branches keep their places, and only what was open is opened again.
"""

from typing import Any

import msgspec
from msgspec.structs import replace

from detent.core import state_work
from detent.core.branch import fold_branches
from detent.core.compiled_machine import Work
from detent.core.contract import Contract
from detent.core.effect_type import Declared
from detent.core.events import RULES, Signalled, Started
from detent.core.retry import stand_again
from detent.core.run import BranchState, Run, Wreck
from detent.core.status import Status
from detent.core.transition_choice import enter
from detent.core.working_copy import WorkingCopy
from detent.errors import EventRefused, Refused

# How a new fork begins, written into its first event. A fork of 0.1 names none and keeps to those of its day:
# it began at once, and with its condition asked again, what the other run was not to begin before a certain time.
FORK_RULES = 2
# A fork is a new run: it has these values of the old one, but limits, usage and deadlines of its own.
KEPT = ("context", "variables", "local", "results", "answers", "failures", "counts", "event", "error", "inbox",
        "raised", "is_business_failure")  # fmt: skip


def fork(draft: WorkingCopy, event: Started) -> None:
    """Begin as another run was: same place and values, its open contracts opened anew."""
    source = event.fork or {}
    try:
        was = msgspec.convert(source.get("run"), Run)
    except msgspec.ValidationError as error:
        raise Refused(f"a fork needs the run it begins as: {error}") from None
    if was.state not in draft.chart.places:
        raise Refused(f"the machine has no state `{was.state}`, where run {source.get('run_id', was.id)} stood")
    draft.changes.update({name: getattr(was, name) for name in KEPT})
    draft.changes.update(
        by=event.by or was.by,
        spoken_by=event.spoken_by if event.by else was.spoken_by,
        session=event.session or was.session,
        source=event.source or was.source,
        entered_at=event.at,
    )
    draft.say("note", subject="fork", value=f"{source.get('run_id', was.id)} at {source.get('checkpoint', was.seq)}")
    draft.state = was.state
    timeout_s = draft.place.timeout_s
    if was.ended is not None or was.ending is not None:
        draft.ending = was.ended or was.ending
        draft.changes["deadline"] = 0.0
        return
    if "loop" in source:
        if was.wreck is None or was.machine != event.machine:
            raise Refused(f"nothing of `{source['loop']}` can be done again in another machine than its own")
        stand_again(draft, was.wreck)
        return
    draft.changes["state_deadline"] = event.at + timeout_s if timeout_s else 0.0
    if was.machine != event.machine:
        _resume_idle(draft) if not was.lanes else state_work.begin(draft)
        return
    draft.lanes = {one.path: state_work.disown(one) if one.left else one for one in was.lanes}
    opened = {c.lane: c for c in was.contracts if not c.is_adrift and c.lane in draft.lanes}
    if "rules" not in source:
        draft.ready.extend((path, draft.lanes[path].position) for path in opened)
        return
    for path, contract in opened.items():
        # What had not begun begins by its timer: there may be a signal in the inbox that came before it.
        is_pending = contract.status is Status.PENDING
        state_work.reopen(draft, path, event.at + max(0.0, contract.due_at - was.at) if is_pending else 0.0)


def stand_at_join(draft: WorkingCopy) -> Run:
    """The run while branches join of which some have failed: what a fork begins as that does these again."""
    wreck = Wreck(draft.state, fold_branches(draft, ""), draft.get("local"), draft.get("is_business_failure"))
    kept = {name: draft.get(name) for name in KEPT}
    return replace(draft.run, state=draft.state, contracts=(), lanes=(), ended=None, ending=None, wreck=wreck, **kept)


def migrate(draft: WorkingCopy, event: Signalled) -> None:
    """Go on under another machine; `draft.machine` is the new one."""
    state = str(event.data.get("state") or draft.state)
    _check(draft, event, state)
    former, draft.state = draft.state, state
    draft.say("note", subject="migrate", value=f"{draft.run.machine[:12]} → {draft.machine.digest[:12]}")
    place, limits, run = draft.place, draft.machine.limits, draft.run
    renamed = _map_actions(draft, event, former)
    draft.lanes = _standing(draft, former, renamed)
    for contract in draft.contracts.values():
        if contract.action in renamed:  # its result is found under the new name; its id stays, for it was asked about
            draft.contracts[contract.id] = replace(contract, action=renamed[contract.action])
    draft.changes.update(
        machine=draft.machine.digest,
        rules=_rules(draft, event.data.get("rules", run.rules)),
        effects={**run.effects, **_parse_declared(event.data.get("effects"))},
        variables={**draft.machine.variables, **run.variables},
        local={**place.local, **run.local},
        state_deadline=run.entered_at + place.timeout_s if place.timeout_s else 0.0,
        deadline=run.started_at + limits.max_duration_s if limits.max_duration_s else 0.0,
    )
    if not draft.lanes:
        _resume_idle(draft)


def _check(draft: WorkingCopy, event: Signalled, state: str) -> None:
    wanted = event.data.get("machine", draft.machine.digest)
    if wanted != draft.machine.digest:
        raise Refused(f"the run is to be migrated to machine {str(wanted)[:12]}, not {draft.machine.digest[:12]}")
    if draft.ended is not None or draft.ending is not None:
        raise EventRefused(draft.state, event.name, ())
    if state not in draft.chart.places:
        known = ", ".join(draft.machine.states)
        raise Refused(f"the new machine has no state `{state}`; map it to one of {known}")
    if any(c.status is Status.RUNNING for c in draft.contracts.values()):
        raise Refused("a run can be migrated only while nothing of it is at work")
    if any(lane.left for lane in draft.lanes.values()):
        raise Refused("a run can be migrated only once all that is tried again has begun")


def _rules(draft: WorkingCopy, wanted: Any) -> int:
    """The rules a migrated run goes on by: those of the day it is migrated, never older ones."""
    if not isinstance(wanted, int) or not draft.run.rules <= wanted <= RULES:
        raise Refused(f"run {draft.run.id} cannot go on by rules {wanted!r}; it has {draft.run.rules} of {RULES}")
    return wanted


def _map_actions(draft: WorkingCopy, event: Signalled, former: str) -> dict[str, str]:
    """Actions that have another name now: those the caller maps, and a state's own when the state is mapped."""
    try:
        renamed = msgspec.convert(event.data.get("actions") or {}, dict[str, str])
    except msgspec.ValidationError as error:
        raise Refused(f"actions are mapped from name to name: {error}") from None
    waiting = {contract.action for contract in draft.contracts.values()}
    for name in renamed:
        if name not in waiting:
            raise Refused(f"no action `{name}` is waiting; open: {', '.join(sorted(waiting)) or 'none'}")
    there = {work.action.id for work in draft.place.work}
    if former != draft.state and former in waiting and former not in there and draft.state in there:
        renamed.setdefault(former, draft.state)  # a wait is called like its state
    return renamed


def _standing(draft: WorkingCopy, former: str, renamed: dict[str, str]) -> dict[str, BranchState]:
    """The branches with their positions in the new machine, found by the ids of the actions they stand on."""
    stands: dict[str, Contract | str] = {c.lane: c for c in draft.contracts.values() if not c.is_adrift}
    for path in draft.lanes:
        above, _, part = path.rpartition("/")
        if part:
            stands[above] = part.rpartition(".")[0]
    found = {}
    ended = [one.path for lane in draft.lanes.values() for piece in lane.ended for one in piece]
    for path in (*draft.lanes, *ended):
        if _works(draft, path) is None:
            raise Refused(
                f"state `{draft.state}` of the new machine has no branch `{path[1:]}`, where `{former}` stands"
            )
    for path, one in draft.lanes.items():
        works = draft.works(path)
        is_standing = path in stands and not one.is_ended
        found[path] = replace(one, position=_position(draft, works, stands[path], renamed)) if is_standing else one
    return found


def _works(draft: WorkingCopy, path: str) -> tuple[Work, ...] | None:
    """Like `draft.works`, but a branch may have no counterpart."""
    try:
        return draft.works(path)
    except (StopIteration, IndexError):
        return None


def _position(draft: WorkingCopy, works: tuple[Work, ...], stands: Contract | str, renamed: dict[str, str]) -> int:
    action = stands if isinstance(stands, str) else renamed.get(stands.action, stands.action)
    for position, work in enumerate(works):
        if work.action.id == action:
            if not isinstance(stands, str) and work.effect is None and work.action.effect != stands.effect:
                raise Refused(f"action `{action}` of the new machine is no longer `{stands.effect}`, which is waiting")
            return position
    there = ", ".join(work.action.id for work in works) or "none"
    problem = f"state `{draft.state}` of the new machine has no action `{action}`, which is waiting"
    raise Refused(f"{problem}; map it to one of {there}")


def _parse_declared(given: Any) -> dict[str, Declared]:
    try:
        return msgspec.convert(given or {}, dict[str, Declared])
    except msgspec.ValidationError as error:
        raise Refused(f"the effects' declarations do not fit: {error}") from None


def _resume_idle(draft: WorkingCopy) -> None:
    """A run that only waited for a signal goes on waiting, unless nothing could ever move it."""
    place = draft.place
    if place.status is not None or not (place.signals or draft.get("state_deadline")):
        enter(draft, draft.state)
