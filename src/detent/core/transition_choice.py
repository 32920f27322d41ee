"""The way on: which transition is taken when a state's work is done, and how a run arrives and ends.

Order after a failure: rows that name its type, rows open to failures, the last resort, and then the run fails.
"""

from typing import Any

from msgspec.structs import replace

from detent.core import concurrency_wait, state_work
from detent.core.branch import fold_branches, leave
from detent.core.budget import EXCEEDED
from detent.core.compiled_machine import Row, flat, ids
from detent.core.consequence import Consequence
from detent.core.contract import Failure
from detent.core.contract_lifecycle import NEVER_RETRIED
from detent.core.events import Signalled
from detent.core.run import BranchState, Closing, Wreck
from detent.core.status import Status
from detent.core.working_copy import WorkingCopy
from detent.errors import ExpressionError, Refused

CHAIN_MAX = 10_000  # transitions one event may lead to
REJECTIONS = ("approval_rejected", "already_done", "key_held")
LIMITS = ("loop_limit", "timeout.workflow", "budget_exceeded")  # caught once; the second time the run fails
HARD_LIMITS = ("loop_limit", "timeout.workflow")  # and these only by a row for their type
RETRIED = (Status.FAILED, Status.REJECTED)
FINAL = ("loop_limit", "budget_exceeded", "error_state", "no_transition", "expression_error")  # would only fail again
UNNAMED = (*REJECTIONS, *LIMITS, "no_transition")  # ends of a run that no row was expected to take


def rest(draft: WorkingCopy) -> None:
    """Work and take transitions until the run needs something from outside."""
    for _ in range(CHAIN_MAX):
        if draft.ready:
            state_work.go_on(draft)
        if draft.ended is None and draft.ending is not None:
            if _begin_last(draft):
                continue
            _close(draft)
            return
        if draft.settled:
            _settle(draft)
        elif not _from_inbox(draft):
            return
    end(draft, Status.FAILED, Failure("loop_limit", f"one event led to {CHAIN_MAX:,} transitions"))
    _close(draft)


def take_signal(draft: WorkingCopy, event: Signalled) -> bool:
    """Take the row for a signal; False when none is open to it."""
    rows = draft.place.signals.get(event.name)
    if not rows or draft.get("closing") is not None:
        return False
    before = draft.get("event")
    draft.changes["event"] = event
    way = _first(draft, rows)
    if way is None:
        draft.changes["event"] = before
        return False
    if draft.ended is not None:
        reopen(draft)
    draft.changes["error"] = None
    _take(draft, way, event.name)
    return True


def settle(draft: WorkingCopy, failure: Failure) -> None:
    """Break off the work of the state with this failure; the rows decide what follows."""
    if draft.run.rules >= 2 and "" in draft.lanes:
        _remember(draft, fold_branches(draft, ""), draft.get("is_business_failure"))
    leave(draft)
    draft.settled, draft.failure = True, failure


def _from_inbox(draft: WorkingCopy) -> bool:
    if draft.ended is not None:
        return False
    for signal in draft.get("inbox"):
        if take_signal(draft, signal):
            draft.use_up(signal)
            return True
    return False


def _begin_last(draft: WorkingCopy) -> bool:
    """Before a run ends: begin what comes last, once nothing of it is open; False when there is nothing (more)."""
    machine, closing = draft.machine, draft.get("closing")
    if draft.contracts or draft.ending is None or not (machine.on_failure or machine.at_end):
        return False
    status = draft.ending if closing is None else closing.status
    stages = ("" if status is Status.COMPLETED else machine.on_failure, machine.at_end)
    for stage in range(0 if closing is None else closing.stage, len(stages)):
        if not stages[stage]:
            continue
        if closing is None:
            kept = draft.get("wreck") if draft.get("rules") >= 5 else None
            closing = Closing(status, draft.state, stage + 1, draft.get("error"), kept)
        elif closing.wreck is not None and _is_taken_back(draft):
            closing = replace(closing, wreck=None)
        draft.changes.update(closing=replace(closing, stage=stage + 1), wreck=None)
        draft.ending, draft.wreck = None, None
        draft.say("note", subject=stages[stage], value=f"before the run ends as {status.value}")
        enter(draft, stages[stage], is_limited=False)
        return True
    return False


def _is_taken_back(draft: WorkingCopy) -> bool:
    """Whether an `undo` was called, or may have been: what it belongs to is not gone on from."""
    machine = draft.machine
    made = draft.get("counts") if machine.on_failure else {}
    return any(f"{machine.on_failure}/{one.id}" in made for one in machine.work.get(machine.on_failure, ()))


def _end_last(draft: WorkingCopy, closing: Closing) -> None:
    """What comes last is done, well or not: go on to the end that the run was to have."""
    if draft.failure is not None:
        said = f"`{draft.state}` failed: {draft.failure.message or draft.failure.type}"
        draft.say("note", subject=draft.state, value=said)
        draft.raise_alarm(said)
    draft.settled, draft.failure = False, None
    draft.lanes.clear()
    draft.ending = closing.status
    draft.changes["error"] = closing.error


def _settle(draft: WorkingCopy) -> None:
    """The work of the state is done or failed: choose the way on."""
    closing = draft.get("closing")
    if closing is not None:
        _end_last(draft, closing)
        return
    changes, run = draft.changes, draft.run
    failure, work = draft.failure, draft.place.work
    raised, _, later = changes.get("raised", run.raised).partition(" ")
    draft.settled, draft.failure = False, None
    if raised:
        changes["raised"] = ""
    if failure is not None:
        draft.cause = failure
        if draft.get("rules") >= 2 and "" in draft.lanes:
            _remember(draft, draft.lanes[""], draft.get("is_business_failure"))
    elif work and changes.get("wreck", run.wreck) is not None:
        changes["wreck"] = None
    if (failure is not None or work) and changes.get("error", run.error) is not failure:
        changes["error"] = failure
    way, event, reason = _choose(draft, failure, raised)
    if work and (failure is None or failure.type not in LIMITS):
        _count_attempt(draft, failure is not None or changes.get("is_business_failure", run.is_business_failure))
    if way is not None:
        _take(draft, way, event, reason)
        if later and failure is None:
            _pass(draft, later)
    elif reason is not None:
        _fail(draft, _name_passed_over(draft, reason))
    elif 0 < draft.get("state_deadline") <= draft.at:
        draft.changes["state_deadline"] = 0.0
        settle(draft, Failure("timeout.state", f"`{draft.state}` took too long"))
    else:
        draft.lanes.clear()  # the state waits for a signal


def _remember(draft: WorkingCopy, lane: BranchState | None, is_no: bool = False) -> None:
    """Keep how the work stood that has failed, for whoever tries it again."""
    draft.wreck = None if lane is None else Wreck(draft.state, lane, draft.get("local"), is_no)
    draft.changes["wreck"] = draft.wreck


def _pass(draft: WorkingCopy, raised: str) -> None:
    """More was raised: the state just entered is only passed through, and its work does not begin."""
    if draft.failure is None and draft.ending is None:
        draft.ready.clear()
        draft.settled = True
        draft.changes["raised"] = raised


def _count_attempt(draft: WorkingCopy, is_failed: bool) -> None:
    if is_failed:
        draft.put("failures", draft.state, draft.get("failures").get(draft.state, 0) + 1)
    elif draft.changes.get("failures", draft.run.failures):
        draft.drop("failures", draft.state)


def _choose(draft: WorkingCopy, failure: Failure | None, raised: str) -> tuple[Row | None, str, Failure | None]:
    """The row to take, the event it is taken on, and the failure it is taken for."""
    place = draft.place
    if failure is not None:
        return _catch(draft, failure), "", failure
    if raised:
        way = _first(draft, place.signals.get(raised, []))
        if way is not None:
            return way, raised, None
        known = ", ".join(place.signals) or "none"
        stuck = Failure("no_transition", f"`{draft.state}` raised `{raised}`; it has ways for: {known}")
    else:
        said = len(draft.taken)
        no = _no(draft)
        way = _first(draft, place.onward) if no is None else _after_no(draft, no)
        if way is not None:
            return way, "", None
        passed = _list_passed_over(draft) if no is not None else []
        if not passed and (place.signals or (draft.get("state_deadline") and not place.settled)):
            return None, "", None
        broken = [t.event for t in draft.taken[said:] if t.kind == "condition" and t.value is None]
        stuck = Failure("no_transition", f"nothing leads on from `{draft.state}`")
        if no is None:
            draft.wreck = None  # the work is done; only the way on is missing
        if broken:
            stuck = Failure("expression_error", broken[0])
        elif no is not None and passed:
            stuck = no
    draft.changes["error"] = draft.cause = stuck
    return _catch(draft, stuck, is_settled=True), "", stuck


def _no(draft: WorkingCopy) -> Failure | None:
    """What failed where an action has answered `success: false`: its own error, or one that names it."""
    if not draft.get("is_business_failure"):
        return None
    results = draft.get("results")
    for action in ids(draft.place.work):
        said = results.get(action)
        if isinstance(said, dict) and said.get("success") is False:
            return _own_error(action, said.get("error"))
    return Failure("tool_failure", f"an action of `{draft.state}` answered `success: false`")


def _own_error(action: str, said: Any) -> Failure:
    if isinstance(said, dict) and isinstance(said.get("type"), str) and said["type"]:
        return Failure(said["type"], str(said.get("message") or f"`{action}` failed"))
    detail = f": {said}" if isinstance(said, str) and said else ""
    return Failure("tool_failure", f"`{action}` answered `success: false`{detail}")


def _after_no(draft: WorkingCopy, no: Failure) -> Row | None:
    """The row for work that was done and did not succeed; one without a condition is for success."""
    rows = draft.place.settled
    if draft.get("rules") >= 2:
        draft.cause = no
        _remember(draft, _find_undone(draft))
        rows = [way for way in rows if way.when is not None or way.row.even_failed]
    way = _first(draft, rows)
    if way is not None and way.row.only_failed:
        draft.changes["error"] = no
    return way


def _find_undone(draft: WorkingCopy) -> BranchState | None:
    """The work of a state from the first action that said no, without what succeeded; None: nobody knows which did."""
    results, works = draft.get("results"), draft.place.work
    said = {name: results[name].get("success") for name in ids(works) if isinstance(results.get(name), dict)}
    no = {name for name, success in said.items() if success is False}
    again = {one.action.id for one in flat(works) if no & set(ids((one,)))}  # these, and what they stand in
    first = next((at for at, one in enumerate(works) if one.action.id in again), None)
    if first is None:
        return None
    return BranchState(position=first, skips=tuple(name for name in said if said[name] is True and name not in again))


def _list_passed_over(draft: WorkingCopy) -> list[str]:
    """The rows that only success takes, and that a failure has passed over."""
    if draft.get("rules") < 2:
        return []
    rows = [way.row for way in draft.place.settled if way.when is None and not way.row.even_failed]
    return [f"{draft.state} → {row.target}" for row in rows]


def _name_passed_over(draft: WorkingCopy, failure: Failure) -> Failure:
    """The failure that ends the run, with the rows it has passed over."""
    passed = [] if failure.type in UNNAMED else _list_passed_over(draft)
    return replace(failure, data={**failure.data, "passed_over": passed}) if passed else failure


def _catch(draft: WorkingCopy, failure: Failure, is_settled: bool = False) -> Row | None:
    place = draft.place
    if failure.type in LIMITS:
        draft.changes["limits_hit"] = draft.get("limits_hit") + 1
        if draft.get("limits_hit") > 1:
            return None
    way = _first(draft, [w for w in place.caught if failure.matches(w.row.error)])
    is_hard = failure.type in HARD_LIMITS or (failure.type == EXCEEDED and draft.get("rules") >= 2)
    if way is None and failure.type == EXCEEDED and is_hard:
        way = _first(draft, [w for w in place.settled if w.row.even_failed and EXCEEDED in w.row.when])
    if way is None and not is_settled and not is_hard:
        is_final = any(failure.matches(kind) for kind in NEVER_RETRIED)
        way = _first(draft, [w for w in place.settled if w.row.even_failed and not (is_final and w.row.is_retry)])
    if way is None and is_settled:  # the other rows have been looked at
        way = _first(draft, [w for w in place.settled if w.row.only_failed])
    if way is None and not is_hard:
        way = _first(draft, place.net)
    if way is not None and way.row.error:
        draft.say("caught", source=draft.state, event=failure.type, target=way.row.target, subject=failure.message)
    return way


def _first(draft: WorkingCopy, rows: list[Row]) -> Row | None:
    scope: dict[str, Any] | None = None
    for way in rows:
        if way.when is None:
            return way
        scope = scope or draft.scope()
        if draft.holds(way.when, scope):
            return way
    return None


def _take(draft: WorkingCopy, way: Row, event: str, failure: Failure | None = None) -> None:
    row = way.row
    leave(draft)
    draft.taken.append(Consequence("transition", draft.state, event, row.target))
    try:
        for work in way.then:
            state_work.act(draft, "", work)
    except (ExpressionError, Refused) as error:
        _fail(draft, Failure("expression_error", f"{draft.state} → {row.target}: {error}"))
        return
    if row.is_kill:
        draft.state = row.target
        end(draft, Status.FAILED, draft.get("error"))
        return
    draft.changes["transitions"] = draft.changes.get("transitions", draft.run.transitions) + 1
    enter(draft, row.target, is_limited=failure is None or failure.type not in LIMITS)


def enter(draft: WorkingCopy, state: str, is_limited: bool = True) -> None:
    """Arrive in a state and begin its work."""
    is_new = state != draft.state
    draft.state = state
    place, changes, run = draft.place, draft.changes, draft.run
    if is_new and (place.local or run.local or "local" in changes):
        changes["local"] = place.local
    changes["entered_at"] = draft.at
    changes["is_business_failure"] = False
    if changes.get("raised", run.raised):
        changes["raised"] = ""
    changes["state_deadline"] = draft.at + place.timeout_s if place.timeout_s else 0.0
    if place.status is not None:
        _arrive(draft, place.status)
        return
    over = _over_limit(draft, state) if draft.chart.has_limits else None
    if over is not None and is_limited:
        draft.settled, draft.failure = True, over
    else:
        state_work.begin(draft)


def _arrive(draft: WorkingCopy, status: Status) -> None:
    """An end state: it may set and log, then the run is over."""
    if status is Status.FAILED and draft.get("rules") >= 2 and draft.get("error") is None:
        draft.changes["error"] = draft.cause or _reason(draft)
    try:
        for work in draft.place.work:
            state_work.act(draft, "", work)
    except (ExpressionError, Refused) as error:
        draft.say("note", subject=draft.state, value=f"skipped: {error}")
    end(draft, status, None if status is Status.COMPLETED else draft.get("error") or draft.cause)


def _reason(draft: WorkingCopy) -> Failure:
    """Why a run fails where no failure led it to its end: the row that did."""
    taken = draft.taken
    at = next((at for at in reversed(range(len(taken))) if taken[at].kind == "transition"), None)
    if at is None:
        return Failure("error_state", f"the run began in `{draft.state}`, which is a failed end")
    way, before = taken[at], taken[at - 1] if at else None
    because = f" on `{way.event}`" if way.event else ""
    if before is not None and before.kind == "condition" and before.value is True:
        because += f", because {before.subject}"
    return Failure("error_state", f"`{way.source}` led to the failed end `{way.target}`{because}")


def _over_limit(draft: WorkingCopy, state: str) -> Failure | None:
    limits = draft.machine.limits
    if limits.max_visits:
        draft.put("visits", state, draft.get("visits").get(state, 0) + 1)
        if draft.get("visits")[state] > limits.max_visits:
            return Failure("loop_limit", f"`{state}` was entered more than {limits.max_visits} times")
    if limits.max_transitions and draft.get("transitions") > limits.max_transitions:
        return Failure("loop_limit", f"more than {limits.max_transitions} transitions")
    return None


def _fail(draft: WorkingCopy, failure: Failure) -> None:
    """Nothing takes this error: the run ends."""
    is_rejected = any(failure.matches(kind) for kind in REJECTIONS)
    end(draft, Status.REJECTED if is_rejected else Status.FAILED, failure)


def end(draft: WorkingCopy, status: Status, failure: Failure | None, actor: str = "engine") -> None:
    """Wish the run ended; it is over when nothing of it is open any more."""
    leave(draft, "", actor)
    concurrency_wait.close(draft, actor)
    draft.settled = False
    draft.ending = status
    draft.changes.update(error=failure, state_deadline=0.0, deadline=0.0)
    kept = draft.wreck if status in RETRIED and failure is not None and failure.type not in FINAL else None
    if kept is not draft.get("wreck"):
        draft.changes["wreck"] = kept


def _close(draft: WorkingCopy) -> None:
    if draft.contracts:
        return
    closing = draft.get("closing")
    if closing is not None:  # it ends as it was to, whatever became of what came last
        draft.state, draft.ending = closing.state, closing.status
        draft.changes.update(closing=None, error=closing.error)
        if draft.get("rules") >= 5:
            draft.changes["wreck"] = None if _is_taken_back(draft) else closing.wreck
    draft.ended, draft.ending, draft.held = draft.ending, None, False
    draft.changes.update(inbox=(), held_by="")
    try:
        draft.changes["output"] = draft.chart.output(draft.scope()) if draft.chart.output else draft.get("context")
    except ExpressionError as error:
        draft.say("note", subject="output", value=f"not computed: {error}")


def reopen(draft: WorkingCopy) -> None:
    """An end that can be left is left: the run lives again, with a new allowance of time."""
    longest = draft.machine.limits.max_duration_s
    draft.ended = draft.ending = None
    draft.changes.update(output=None, deadline=draft.at + longest if longest else 0.0)
