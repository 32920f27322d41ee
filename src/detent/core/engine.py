"""`advance`: the one function that moves a run.

Pure, synchronous, deterministic: the same machine, run and event always give the same run, commands and story.
An event that is not accepted raises `Refused` and changes nothing.
"""

from typing import Any

import msgspec
from msgspec.structs import replace

from detent.core import answer, lane
from detent.core.chart import Row
from detent.core.commands import Command
from detent.core.contract import MOVES, Contract, Failure
from detent.core.draft import INBOX_MAX, Draft
from detent.core.events import CANCEL, HOLD, MIGRATE, RELEASE, WAKE, ContractMoved, Event, Signalled, Started
from detent.core.taken import Taken
from detent.core.machine import Machine
from detent.core.run import Run
from detent.core.status import Status
from detent.errors import EventRefused, ExpressionError, NotWaiting, Refused

CHAIN_MAX = 10_000  # transitions one event may lead to


def advance(machine: Machine, run: Run, event: Event) -> tuple[Run, tuple[Command, ...], tuple[Taken, ...]]:
    """Fold one event into a run; returns the run, what the host must do, and what happened."""
    if type(event) is Signalled:
        if not (event.id or run.contracts or run.ended or run.is_held):
            plain = machine.chart.places[run.state].plain.get(event.name) if run.state else None
            if plain is not None and not run.local and not run.state_deadline:
                target, taken = plain
                moved = replace(run, state=target, seq=run.seq + 1, at=event.at, entered_at=event.at, event=event,
                                transitions=run.transitions + 1, error=None)  # fmt: skip
                return moved, (), taken
        if event.id and event.id in run.recent:
            return run, (), ()
        draft = Draft(machine, run, event)
        _signalled(draft, event)
    elif type(event) is ContractMoved:
        if event.id and event.id in run.recent:
            return run, (), ()
        draft = Draft(machine, run, event)
        _moved(draft, event)
    elif type(event) is Started:
        draft = Draft(machine, run, event)
        _started(draft, event)
    else:
        raise Refused(f"{type(event).__name__} is not an event")
    _rest(draft)
    return draft.frozen()


def _started(draft: Draft, event: Started) -> None:
    if draft.run.seq:
        raise EventRefused(draft.run.state, "started", draft.machine.accepts(draft.run.state))
    if event.machine != draft.machine.digest:
        raise Refused(f"the run is pinned to machine {event.machine[:12]}, not {draft.machine.digest[:12]}")
    if event.fork is not None:
        _forked(draft, event)
        return
    limits = draft.machine.limits
    draft.changes.update(
        machine=event.machine,
        context=event.input,
        variables=draft.machine.variables,
        effects=event.effects,
        by=event.by,
        session=event.session,
        source=event.source,
        parent=event.parent,
        started_at=event.at,
        deadline=event.at + limits.max_duration_s if limits.max_duration_s else 0.0,
    )
    _enter(draft, draft.machine.initial, "")


def _forked(draft: Draft, event: Started) -> None:
    """Begin as another run was: same place and values, its open contracts opened anew."""
    fork = event.fork or {}
    was = msgspec.convert(fork["run"], Run)
    fresh = Run(id=draft.run.id)
    for name in Run.__struct_fields__:
        if name not in ("id", "seq", "at", "contracts", "lanes", "ending", "ended", "is_held", "state", "recent", "parent"):
            draft.changes[name] = getattr(was, name)
    draft.changes.update(machine=event.machine, effects=event.effects, source=event.source or was.source,
                         by=event.by or was.by, parent=fresh.parent, inbox=was.inbox)  # fmt: skip
    draft.say("note", subject="fork", value=f"{fork.get('run_id')} at {fork.get('checkpoint')}")
    draft.state = was.state
    if was.ended is not None:
        draft.ending = was.ended
    elif was.lanes or was.contracts:
        lane.begin(draft)


def _signalled(draft: Draft, event: Signalled) -> None:
    if not draft.run.seq:
        raise Refused(f"run {draft.run.id} has not started")
    if event.name.startswith("@"):
        _own(draft, event)
        return
    accepts = draft.machine.accepts(draft.state)
    if draft.ending and not draft.ended:
        raise EventRefused(draft.state, event.name, ())
    if draft.ended is None:
        for contract in tuple(draft.contracts.values()):
            if contract.effect == "wait" and lane.awaits(draft, contract, event.name, event):
                lane.take_signal(draft, contract, event)
                return
    if _take_signal(draft, event):
        return
    if event.name not in draft.chart.keeps or draft.ended is not None:
        raise EventRefused(draft.state, event.name, accepts)
    inbox = draft.get("inbox")
    if len(inbox) >= INBOX_MAX:
        raise Refused(f"the inbox of run {draft.run.id} is full ({INBOX_MAX} early signals)")
    draft.say("note", subject=event.name, value="early: kept in the inbox")
    draft.changes["inbox"] = (*inbox, event)


def _take_signal(draft: Draft, event: Signalled) -> bool:
    rows = draft.place.signals.get(event.name)
    if not rows:
        return False
    before = draft.get("event")
    draft.changes["event"] = event
    row = _first(draft, rows)
    if row is None:
        draft.changes["event"] = before
        return False
    draft.ended = draft.ending = None
    _take(draft, row, event.name)
    return True


def _own(draft: Draft, event: Signalled) -> None:
    """The host's own signals."""
    if event.name == MIGRATE:
        _migrate(draft, event)
        return
    if draft.ended is not None:
        raise EventRefused(draft.state, event.name, ())
    if event.name == WAKE:
        _wake(draft)
    elif event.name == CANCEL:
        if draft.ending:
            raise EventRefused(draft.state, "cancel", ())
        _end(draft, Status.CANCELLED, Failure("cancelled", str(event.data.get("reason", "")) or "cancelled"), event.by or "caller")
    elif event.name == HOLD:
        draft.held = True
        draft.changes["held_by"] = event.by
    elif event.name == RELEASE:
        _release(draft)
    else:
        raise EventRefused(draft.state, event.name, draft.machine.accepts(draft.state))


def _migrate(draft: Draft, event: Signalled) -> None:
    """Go on under another machine; `draft.machine` is the new one."""
    state = str(event.data.get("state") or draft.state)
    if state not in draft.chart.places:
        raise Refused(f"the new machine has no state `{state}`; map it to one of {', '.join(draft.machine.states)}")
    if any(c.status is Status.RUNNING for c in draft.contracts.values()):
        raise Refused("a run can be migrated only while nothing of it is at work")
    known = {w.action.id for w in draft.chart.places[state].work}
    missing = [c.action for c in draft.contracts.values() if not c.is_adrift and not c.lane and c.action not in known]
    if missing:
        raise Refused(f"state `{state}` of the new machine has no action `{missing[0]}`, which is waiting")
    draft.say("note", subject="migrate", value=f"{draft.run.machine[:12]} → {draft.machine.digest[:12]}")
    draft.changes["machine"] = draft.machine.digest
    draft.changes["effects"] = {**draft.get("effects"), **{}}
    draft.state = state


def _release(draft: Draft) -> None:
    draft.held = False
    for contract in tuple(draft.contracts.values()):
        if contract.status is Status.PENDING and not contract.due_at:
            _start(draft, contract)


def _start(draft: Draft, contract: Contract) -> None:
    where = draft.lanes.get(contract.lane)
    if where is not None:
        work = draft.works(contract.lane)[where.position]
        lane.start(draft, contract, work, draft.scope(contract.lane))


def _wake(draft: Draft) -> None:
    """Let every timer that is due go off, oldest first."""
    at = draft.at
    if 0 < draft.run.deadline <= at:
        draft.changes["deadline"] = 0.0
        _fail(draft, Failure("timeout.workflow", f"the run took longer than {draft.machine.limits.max_duration_s:g} s"))
        return
    due = [c for c in draft.contracts.values() if 0 < (c.due_at if c.status is Status.PENDING else c.expires_at) <= at]
    for contract in sorted(due, key=lambda c: c.due_at or c.expires_at):
        if draft.contracts.get(contract.id) is not contract:
            continue
        if contract.status is Status.PENDING:
            if draft.held:
                draft.contracts[contract.id] = replace(contract, due_at=0.0)
            else:
                _start(draft, contract)
        elif contract.status is Status.WAITING:
            answer.expired(draft, contract)
    if 0 < draft.get("state_deadline") <= at and not draft.settled:
        draft.changes["state_deadline"] = 0.0
        lane.leave(draft)
        draft.settled, draft.failure = True, Failure("timeout.state", f"`{draft.state}` took too long")


def _moved(draft: Draft, event: ContractMoved) -> None:
    contract = draft.contracts.get(event.contract_id)
    if contract is None:
        raise NotWaiting(f"contract `{event.contract_id}` of run {draft.run.id} is not open")
    if (contract.status, event.trigger) not in MOVES:
        accepts = [trigger for status, trigger in MOVES if status is contract.status]
        if event.trigger == "resume":
            raise NotWaiting(f"contract `{contract.id}` is {contract.status.value}, it waits for no answer")
        raise EventRefused(contract.status.value, event.trigger, accepts)
    if event.usage:
        for name, amount in event.usage.items():
            draft.put("usage", name, draft.get("usage").get(name, 0) + amount)
    actor = event.actor or "host"
    match event.trigger:
        case "succeed":
            _succeeded(draft, contract, event, actor)
        case "fail" | "reject" | "cancel":
            default = {"fail": "tool_failure", "reject": "approval_rejected", "cancel": "cancelled"}[event.trigger]
            error = event.error or Failure(default)
            lane.finished(draft, draft.move(contract, event.trigger, actor, error=error, result=event.result))
        case "suspend":
            answer.suspended(draft, contract, event, actor)
        case "resume":
            answer.resumed(draft, contract, event, actor)
        case "timeout":
            answer.expired(draft, contract)
        case _:
            _start(draft, contract)


def _succeeded(draft: Draft, contract: Contract, event: ContractMoved, actor: str) -> None:
    if event.raises:
        draft.raised = event.raises
    for name, value in event.patch.items():
        draft.assign(contract.lane if contract.lane in draft.lanes else "", name, value)
    over = _over_budget(draft)
    ended = draft.move(contract, "succeed", actor, result=event.result, deed="done")
    if over and not contract.is_adrift:
        lane.record(draft, contract.lane, contract.action, event.result)
        lane.leave(draft)
        draft.settled, draft.failure = True, over
        return
    lane.finished(draft, ended)


def _over_budget(draft: Draft) -> Failure | None:
    limits, usage = draft.machine.limits, draft.get("usage")
    if limits.max_cost_usd and usage.get("cost_usd", 0) > limits.max_cost_usd:
        return Failure("budget_exceeded", f"cost {usage['cost_usd']:.4f} USD is over {limits.max_cost_usd:g}")
    if limits.max_tokens and usage.get("tokens", 0) > limits.max_tokens:
        return Failure("budget_exceeded", f"{usage['tokens']:g} tokens are over {limits.max_tokens}")
    return None


def _rest(draft: Draft) -> None:
    """Take transitions until the run needs something from outside."""
    for _ in range(CHAIN_MAX):
        if draft.ended is None and draft.ending is not None:
            _close(draft)
            return
        if draft.settled:
            _settle(draft)
        elif not _from_inbox(draft):
            return
    _end(draft, Status.FAILED, Failure("loop_limit", f"one event led to {CHAIN_MAX:,} transitions"))
    _close(draft)


def _from_inbox(draft: Draft) -> bool:
    if draft.ended is not None or not draft.get("inbox"):
        return False
    for signal in draft.get("inbox"):
        if signal.name in draft.place.signals and _take_signal(draft, signal):
            draft.changes["inbox"] = tuple(s for s in draft.get("inbox") if s is not signal)
            return True
    return False


def _settle(draft: Draft) -> None:
    """The work of the state is done or failed: choose the way on."""
    failure, raised = draft.failure, draft.raised
    draft.settled, draft.failure, draft.raised = False, None, ""
    failed = failure is not None or draft.get("is_business_failure")
    if failure is not None:
        draft.changes["error"] = failure
    row, event = _choose(draft, failure, raised)
    if draft.place.work:
        if failed:
            draft.put("failures", draft.state, draft.get("failures").get(draft.state, 0) + 1)
        else:
            draft.drop("failures", draft.state)
    if row is not None:
        _take(draft, row, event)
    elif failure is not None:
        _fail(draft, failure)
    else:
        draft.lanes.pop("", None)


def _choose(draft: Draft, failure: Failure | None, raised: str) -> tuple[Row | None, str]:
    place = draft.place
    if failure is not None:
        return _catch(draft, failure), ""
    if raised:
        row = _first(draft, place.signals.get(raised, []))
        if row is not None:
            return row, raised
        known = ", ".join(place.signals) or "none"
        return _stuck(draft, Failure("no_transition", f"`{draft.state}` raised `{raised}`; it has ways for: {known}"))
    said = len(draft.taken)
    row = _first(draft, place.settled)
    if row is not None or (place.signals and not place.settled) or place.accepts:
        return row, ""
    broken = [t.event for t in draft.taken[said:] if t.kind == "condition" and t.value is None]
    if broken:
        return _stuck(draft, Failure("expression_error", broken[0]))
    return _stuck(draft, Failure("no_transition", f"nothing leads on from `{draft.state}`"))


def _stuck(draft: Draft, failure: Failure) -> tuple[Row | None, str]:
    """No way on is itself an error, which a typed row or the last resort may take."""
    draft.changes["error"] = failure
    row = _catch(draft, failure, is_settled=True)
    if row is None:
        _fail(draft, failure)
    return row, ""


def _catch(draft: Draft, failure: Failure, is_settled: bool = False) -> Row | None:
    place = draft.place
    row = _first(draft, [w for w in place.caught if failure.matches(w.row.error)])
    if row is None and not is_settled:
        final = any(failure.matches(kind) for kind in lane.NEVER_RETRIED)
        row = _first(draft, [w for w in place.settled if w.row.even_failed and not (final and w.row.is_retry)])
    if row is None:
        row = _first(draft, place.net)
    if row is not None and row.row.error:
        draft.say("caught", source=draft.state, event=failure.type, target=row.row.target, subject=failure.message)
    return row


def _first(draft: Draft, rows: list[Row]) -> Row | None:
    scope: dict[str, Any] | None = None
    for way in rows:
        if way.when is None:
            return way
        scope = scope or draft.scope()
        if draft.holds(way.when, way.row.when, scope):
            return way
    return None


def _take(draft: Draft, way: Row, event: str) -> None:
    row = way.row
    lane.leave(draft)
    draft.say("transition", source=draft.state, event=event, target=row.target)
    try:
        for work in way.then:
            lane._do(draft, "", work)
    except (ExpressionError, Refused) as error:
        _fail(draft, Failure("expression_error", f"{draft.state} → {row.target}: {error}"))
        return
    if row.is_kill:
        draft.state = row.target
        _end(draft, Status.FAILED, draft.get("error"))
        return
    if row.target != draft.state:
        draft.changes["local"] = draft.machine.local.get(row.target, {})
    if not row.error and not draft.place.status:
        pass
    _enter(draft, row.target, row.error)


def _enter(draft: Draft, state: str, error: str) -> None:
    """Arrive in a state and begin its work."""
    if draft.state == "":
        draft.changes["local"] = draft.machine.local.get(state, {})
    draft.state = state
    draft.changes["transitions"] = draft.get("transitions") + 1
    draft.changes["entered_at"] = draft.at
    draft.changes["is_business_failure"] = False
    timeout = draft.machine.timeouts_s.get(state, 0.0)
    draft.changes["state_deadline"] = draft.at + timeout if timeout else 0.0
    place = draft.place
    if place.status is not None:
        _arrive(draft, place.status)
        return
    over = _over_limit(draft, state) if draft.chart.has_limits else None
    if over is not None and error != over.type:
        _limited(draft, over)
    else:
        lane.begin(draft)


def _arrive(draft: Draft, status: Status) -> None:
    """An end state: it may set and log, then the run is over."""
    try:
        for work in draft.place.work:
            lane._do(draft, "", work)
    except (ExpressionError, Refused) as error:
        draft.say("note", subject=draft.state, value=f"skipped: {error}")
    _end(draft, status, None if status is Status.COMPLETED else draft.get("error"))


def _over_limit(draft: Draft, state: str) -> Failure | None:
    limits = draft.machine.limits
    if limits.max_visits:
        draft.put("visits", state, draft.get("visits").get(state, 0) + 1)
        if draft.get("visits")[state] > limits.max_visits:
            return Failure("loop_limit", f"`{state}` was entered more than {limits.max_visits} times")
    if limits.max_transitions and draft.get("transitions") > limits.max_transitions:
        return Failure("loop_limit", f"more than {limits.max_transitions} transitions")
    return None


def _limited(draft: Draft, failure: Failure) -> None:
    """A typed row may catch the limit once; the second time it is final."""
    draft.changes["error"] = failure
    draft.changes["limits_hit"] = draft.get("limits_hit") + 1
    rows = [w for w in draft.place.caught if failure.matches(w.row.error)]
    row = _first(draft, rows) if draft.get("limits_hit") == 1 else None
    if row is None:
        _fail(draft, failure)
    else:
        draft.say("caught", source=draft.state, event=failure.type, target=row.row.target, subject=failure.message)
        _take(draft, row, "")


def _fail(draft: Draft, failure: Failure) -> None:
    """Nothing takes this error: the run ends."""
    rejected = failure.matches("approval_rejected") or failure.type in ("already_done", "key_held")
    _end(draft, Status.REJECTED if rejected else Status.FAILED, failure)


def _end(draft: Draft, status: Status, failure: Failure | None, actor: str = "engine") -> None:
    """Wish the run ended; it is over when nothing of it is open any more."""
    draft.settled = False
    draft.ending = status
    draft.changes["error"] = failure
    lane.leave(draft, "", actor)
    for contract in list(draft.contracts.values()):
        if not contract.is_adrift:
            lane.abandon(draft, contract, actor)


def _close(draft: Draft) -> None:
    if draft.contracts:
        return
    draft.ended, draft.ending = draft.ending, None
    draft.changes["state_deadline"] = draft.changes["deadline"] = 0.0
    draft.changes["inbox"] = ()
    try:
        draft.changes["output"] = draft.chart.output(draft.scope()) if draft.chart.output else draft.get("context")
    except ExpressionError as error:
        draft.say("note", subject="output", value=f"not computed: {error}")
