"""`advance`: the one function that moves a run.

Pure, synchronous, deterministic: the same machine, run and event always give the same run, commands and story.
An event that is not accepted raises `Refused` and changes nothing.
"""

from msgspec.structs import replace

from detent.core import (
    answer,
    budget,
    call_rate,
    concurrency_wait,
    contract_lifecycle,
    fork_migrate,
    retry,
    shortcut,
    state_work,
    transition_choice,
)
from detent.core.commands import Command
from detent.core.consequence import Consequence
from detent.core.contract import MOVES, PLACE, Contract, Failure
from detent.core.events import (
    ATTEMPT,
    CANCEL,
    EVIDENCE,
    HOLD,
    MIGRATE,
    RELEASE,
    REPEATED,
    RESTORED,
    RETRY,
    RULED,
    RULES,
    SLOT,
    WAKE,
    ContractMoved,
    Event,
    Signalled,
    Started,
)
from detent.core.machine import Machine
from detent.core.run import Run
from detent.core.status import Status
from detent.core.working_copy import WorkingCopy, copy_run, remember
from detent.errors import EventRefused, NotWaiting, Refused

INBOX_MAX = 1000


def advance(machine: Machine, run: Run, event: Event) -> tuple[Run, tuple[Command, ...], tuple[Consequence, ...]]:
    """Fold one event into a run; returns the run, what the host must do, and what happened."""
    if event.id and event.id in run.recent:
        return run, (), ()
    if run.machine != machine.digest and not _may_change_machine(run, event):
        raise Refused(f"run {run.id} is pinned to machine {run.machine[:12]}, not {machine.digest[:12]}")
    if type(event) is Signalled:
        is_quiet = not (run.contracts or run.inbox or run.ended or run.local or run.state_deadline)
        way = machine.chart.places[run.state].signal_shortcuts.get(event.name) if is_quiet and run.state else None
        if way is not None:
            return _move_on(run, event, *way)
        draft = copy_run(machine, run, event)
        _take_signal(draft, event)
    elif type(event) is ContractMoved:
        moved_on = shortcut.take_shortcut(machine, run, event)
        if moved_on is not None:
            return moved_on.freeze()
        draft = copy_run(machine, run, event)
        _take_move(draft, event)
    elif type(event) is Started:
        draft = copy_run(machine, run, event)
        _begin_run(draft, event)
    else:
        raise Refused(f"{type(event).__name__} is not an event")
    transition_choice.rest(draft)
    return draft.freeze()


def find_failed_joins(machine: Machine, run: Run, event: Event) -> dict[str, Run]:
    """By action whose branches this event joins though some had failed: the run as it stood just then."""
    draft, found = copy_run(machine, run, event), dict[str, Run]()
    draft.on_join = lambda action: found.update({action: fork_migrate.stand_at_join(draft)})
    if type(event) is Signalled:
        _take_signal(draft, event)
    elif type(event) is ContractMoved:
        _take_move(draft, event)
    elif type(event) is Started:
        _begin_run(draft, event)
    transition_choice.rest(draft)
    return found


def _may_change_machine(run: Run, event: Event) -> bool:
    return not run.seq or (type(event) is Signalled and event.name == MIGRATE)


def _move_on(
    run: Run, event: Signalled, target: str, taken: tuple[Consequence, ...]
) -> tuple[Run, tuple[Command, ...], tuple[Consequence, ...]]:
    """The fast road: a signal that only changes the state."""
    moved = replace(
        run,
        state=target,
        seq=run.seq + 1,
        at=event.at,
        entered_at=event.at,
        event=event,
        transitions=run.transitions + 1,
    )
    if event.id or run.error is not None or run.is_business_failure:
        recent = remember(run.recent, event.id) if event.id else run.recent
        moved = replace(moved, error=None, is_business_failure=False, recent=recent)
    return moved, (), taken


def _begin_run(draft: WorkingCopy, event: Started) -> None:
    if draft.run.seq:
        raise EventRefused(draft.run.state, "started", draft.machine.accepts(draft.run.state))
    if event.rules > RULES:
        raise Refused(f"run {draft.run.id} was started by a newer detent (rules {event.rules}, this one knows {RULES})")
    if event.machine != draft.machine.digest:
        raise Refused(f"the run is pinned to machine {event.machine[:12]}, not {draft.machine.digest[:12]}")
    longest = draft.machine.limits.max_duration_s
    draft.changes.update(
        machine=event.machine,
        rules=event.rules,
        context=event.input,
        variables=draft.machine.variables,
        effects=event.effects,
        by=event.by,
        spoken_by=event.spoken_by,
        session=event.session,
        source=event.source,
        parent=event.parent,
        started_at=event.at,
        deadline=event.at + longest if longest else 0.0,
    )
    if event.group:
        draft.changes.update(group=event.group)
    if event.held_by:
        draft.held = True
        draft.changes["held_by"] = event.held_by
    if event.fork is not None:
        fork_migrate.fork(draft, event)
    else:
        transition_choice.enter(draft, draft.machine.initial)
    if event.held_by:  # its time begins when it has a place
        draft.changes.update(deadline=0.0, state_deadline=0.0)
        if event.place_at:
            draft.changes["place_at"] = event.place_at
        if event.place_question and draft.ending is None:
            concurrency_wait.ask(draft, event.place_question)


def _take_signal(draft: WorkingCopy, event: Signalled) -> None:
    if not draft.run.seq:
        raise Refused(f"run {draft.run.id} has not started")
    if event.name.startswith("@"):
        _own(draft, event)
        return
    if draft.ending is not None:
        raise EventRefused(draft.state, event.name, ())
    for contract in draft.run.contracts:
        if contract_lifecycle.awaits(draft, contract, event):
            contract_lifecycle.take_signal(draft, contract, event)
            return
    if transition_choice.take_signal(draft, event):
        return
    if event.name not in draft.chart.keeps or draft.ended is not None:
        raise EventRefused(draft.state, event.name, draft.machine.accepts(draft.state))
    inbox = draft.run.inbox
    if len(inbox) >= INBOX_MAX:
        raise Refused(f"the inbox of run {draft.run.id} is full ({INBOX_MAX} early signals)")
    draft.say("note", subject=event.name, value="early: kept in the inbox")
    draft.changes["inbox"] = (*inbox, event)


def _own(draft: WorkingCopy, event: Signalled) -> None:
    """The host's own signals."""
    if event.name == MIGRATE:
        fork_migrate.migrate(draft, event)
        return
    if event.name == EVIDENCE:
        _note_evidence(draft, event)
        return
    if event.name == RETRY:
        retry.retry(draft)
        return
    if draft.ended is not None or (draft.ending is not None and event.name == CANCEL):
        raise EventRefused(draft.state, event.name, ())
    if event.name == WAKE:
        _wake(draft)
    elif event.name == CANCEL:
        reason = str(event.data.get("reason") or "") or "cancelled"
        transition_choice.end(draft, Status.CANCELLED, Failure("cancelled", reason), event.by or "caller")
    elif event.name == HOLD:
        draft.held = True
        draft.changes["held_by"] = event.by
    elif event.name == RELEASE:
        _release(draft)
    elif event.name == RULED:
        answer.take_ruling(draft, event)
    elif event.name == REPEATED:
        answer.take_repetition(draft, event)
    elif event.name in NOTES:
        NOTES[event.name](draft, event)
    else:
        raise EventRefused(draft.state, event.name, draft.machine.accepts(draft.state))


def _note_attempt(draft: WorkingCopy, event: Signalled) -> None:
    """Somebody tried what they may not; nothing else has changed."""
    about = {name: str(event.data.get(name, "")) for name in ("contract_id", "verb", "why")}
    draft.say("attempt", subject=about["contract_id"], event=about["verb"], value=about["why"])


def _note_evidence(draft: WorkingCopy, event: Signalled) -> None:
    """What came of a call too late to decide anything; if it was done again meanwhile, that must not go unseen."""
    contract_id, said = str(event.data.get("contract_id", "")), str(event.data.get("said", ""))
    draft.say("evidence", subject=contract_id, event=said, value=event.data.get("result"))
    if event.data.get("is_second"):
        draft.raise_alarm(f"`{contract_id}` may have been done twice: {said}")


def _note_restore(draft: WorkingCopy, event: Signalled) -> None:
    """The journal is older than the world: this run may have gone on where nobody has kept it."""
    said = "restored from a backup: what it did after that backup was made is not in this journal"
    draft.say("note", subject=event.name, value=said)
    draft.raise_alarm(said)


def _take_slot(draft: WorkingCopy, event: Signalled) -> None:
    """When a call may begin whose rate all runs share; its timer does the rest."""
    at = float(event.data["at"])
    if "contract_id" not in event.data and draft.run.place_at:  # it came too late for its place
        draft.changes["place_at"] = at
        return
    contract = draft.contracts.get(str(event.data.get("contract_id", "")))
    if contract is None or not contract.pace:
        raise NotWaiting(f"no call of run {draft.run.id} waits for that")
    at = at if draft.run.rules >= call_rate.SINCE else max(at, draft.at)
    draft.contracts[contract.id] = replace(contract, pace={}, due_at=at)


NOTES = {RESTORED: _note_restore, ATTEMPT: _note_attempt, SLOT: _take_slot}


def _release(draft: WorkingCopy) -> None:
    is_new = bool(draft.run.group) and draft.run.held_by == f"group:{draft.run.group}"
    draft.held = False
    draft.changes["held_by"] = ""
    if draft.run.place_at:
        draft.changes["place_at"] = 0.0
    concurrency_wait.close(draft, "engine")
    if is_new:
        longest, stay = draft.machine.limits.max_duration_s, draft.place.timeout_s
        draft.changes["deadline"] = draft.at + longest if longest else 0.0
        draft.changes["state_deadline"] = draft.at + stay if stay else 0.0
    for contract in draft.run.contracts:
        # One that was started before may have ended its state, and this one with it.
        is_current = draft.contracts.get(contract.id) is contract
        if not is_current or contract.alarm_at:
            continue
        if contract.status is Status.PENDING:
            contract_lifecycle.start(draft, contract, draft.work(contract))
        elif contract.question is not None and contract.question.reason == "timer":
            contract_lifecycle.wake(draft, contract)


def _wake(draft: WorkingCopy) -> None:
    """Let every timer that is due go off, oldest first.

    Afterwards none that is due is left, except that of a call which the end of its state sets adrift: it rings next.
    """
    at, run = draft.at, draft.run
    if 0 < run.place_at <= at:
        draft.changes["place_at"] = 0.0
        if run.held_by == f"group:{run.group}":  # nobody else holds it
            _release(draft)
    if draft.chart.has_rates and run.rules >= call_rate.SINCE and not draft.held:
        call_rate.plan_late(draft)
    limit = min((t for t in (run.deadline, run.state_deadline) if 0 < t <= at), default=at)
    # What comes after the state's own time is over is cancelled with the state, unless it is no longer part of it.
    due = [c for c in draft.contracts.values() if 0 < c.alarm_at <= (at if c.is_adrift else limit)]
    for contract in sorted(due, key=lambda c: c.alarm_at):
        if draft.contracts.get(contract.id) is not contract:
            continue  # an earlier one has ended it
        if contract.pace:
            continue  # the host has not said yet when it may begin
        if draft.held and contract.due_at:
            draft.contracts[contract.id] = replace(contract, due_at=0.0)
        elif contract.status is Status.WAITING:
            answer.expire(draft, contract)
        else:
            contract_lifecycle.start(draft, contract, draft.work(contract))
    state_work.go_on(draft)
    if 0 < run.deadline <= at:
        draft.changes["deadline"] = 0.0
        longest = draft.machine.limits.max_duration_s
        transition_choice.settle(draft, Failure("timeout.workflow", f"the run took longer than {longest:g} s"))
    elif 0 < run.state_deadline <= at and not draft.settled:
        draft.changes["state_deadline"] = 0.0
        transition_choice.settle(draft, Failure("timeout.state", f"`{draft.state}` took too long"))


def _take_move(draft: WorkingCopy, event: ContractMoved) -> None:
    contract = draft.contracts.get(event.contract_id)
    if contract is None:
        raise NotWaiting(f"contract `{event.contract_id}` of run {draft.run.id} is not open")
    if (contract.status, event.trigger) not in MOVES:
        accepts = [trigger for status, trigger in MOVES if status is contract.status]
        if event.trigger == "resume":
            raise NotWaiting(f"contract `{contract.id}` is {contract.status.value}, it waits for no answer")
        raise EventRefused(contract.status.value, event.trigger, accepts)
    actor = event.actor or "host"
    if event.usage:
        budget.count(draft, contract, event.usage)
    match event.trigger:
        case "succeed":
            contract_lifecycle.succeed(draft, contract, event, actor)
        case "fail" | "reject" | "cancel":
            error = event.error or Failure(FAILURES[event.trigger])
            if actor == answer.POLICY:
                answer.say_rule(draft, contract, error.data.get(answer.POLICY))
            contract_lifecycle.finish(
                draft, draft.move(contract, event.trigger, actor, error=error, result=event.result)
            )
        case "suspend":
            answer.suspend(draft, contract, event, actor)
        case "resume":
            answer.resume(draft, contract, event, actor)
        case "timeout":
            answer.expire(draft, contract)
        case _:
            _start(draft, contract)
    _follow_up(draft, contract, event, actor)


def _follow_up(draft: WorkingCopy, contract: Contract, event: ContractMoved, actor: str) -> None:
    """What a move means for more than its contract."""
    if event.usage:
        _check_budget(draft, contract)
    elif contract.action == PLACE:
        _take_place(draft, contract, event, actor)


def _take_place(draft: WorkingCopy, contract: Contract, event: ContractMoved, actor: str) -> None:
    """Somebody has said whether a run may go on although its group is full."""
    if contract.id in draft.contracts:
        return
    draft.drop("answers", PLACE)
    if event.trigger == "resume" and answer.answer_of(event.result).approved:
        _release(draft)
    elif draft.ending is None:
        transition_choice.end(
            draft, Status.CANCELLED, Failure("cancelled", "its group is full, and somebody said no"), actor
        )


FAILURES = {"fail": "tool_failure", "reject": "approval_rejected", "cancel": "cancelled"}


def _start(draft: WorkingCopy, contract: Contract) -> None:
    if draft.held:
        raise Refused("the run is held and begins nothing new; release it first")
    contract_lifecycle.start(draft, contract, draft.work(contract))


def _check_budget(draft: WorkingCopy, contract: Contract) -> None:
    """Over the budget the state fails, whatever the attempt gave."""
    # The state that a row has led to because of this very limit may finish its work.
    is_known = draft.run.error is not None and draft.run.error.type == budget.EXCEEDED
    problem = "" if is_known or contract.is_adrift or draft.ending is not None else budget.over(draft)
    if problem:
        transition_choice.settle(draft, Failure(budget.EXCEEDED, problem))
