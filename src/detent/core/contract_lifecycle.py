"""Contracts from their first to their last move: opened, started, performed, ended, tried again.

RUNNING is written down together with the deed "possible" before the host is told to perform, so a crash can never
hide a call that has left. Whoever ends a contract calls `finish`, and its branch goes on from there.
"""

import hashlib
from typing import Any

from msgspec.structs import replace

from detent.core import call_rate
from detent.core.branch import end, leave, of_state, record
from detent.core.budget import stops
from detent.core.compiled_machine import Condition, Work
from detent.core.consequence import Consequence
from detent.core.contract import Contract, Failure
from detent.core.duration import seconds_of
from detent.core.effect_type import Declared
from detent.core.events import ContractMoved, Signalled
from detent.core.machine import Action, Retry
from detent.core.machine_check import is_effect_name
from detent.core.question import Question
from detent.core.status import Status
from detent.core.value import digest
from detent.core.working_copy import WorkingCopy, describe_signal
from detent.errors import ExpressionError, Refused

NEVER_RETRIED = (
    "validation_error",
    "approval_rejected",
    "expression_error",
    "budget_exceeded",
    "loop_limit",
    "cancelled",
    "already_done",
    "key_held",
    "tool_failure.unknown_outcome",
)
# How a call ends that somebody has decided on, or knows of already.
DECIDED = ("approval_rejected", "already_done", "tool_failure.unknown_outcome")
UNDECLARED = Declared()
# Effects every host has. A child run is named after its contract, so starting it twice starts it once.
OWN_KINDS = {"wait": "pure", "ask": "pure", "child": "idempotent"}
NOTHING: dict[str, Any] = {}


def open_contract(
    draft: WorkingCopy, path: str, work: Work, before: Contract | None = None, due_at: float = 0.0
) -> None:
    """Make the contract for an action and bring it as far as it goes without the outside world."""
    action = work.action
    scope = NOTHING if work.is_fixed else draft.scope(path)
    effect = action.effect if work.effect is None else _check_effect_name(work.effect(scope))
    is_edited = before is not None and bool(before.supersedes)  # then the person's arguments stand, not the author's
    given = before.input if before is not None and is_edited else _find_input(work, scope)
    if draft.chart.has_budget and _stop_over_budget(draft, action.id, effect):
        return
    declared = draft.changes.get("effects", draft.run.effects)
    known: Declared = declared.get(effect) or declared.get("*", UNDECLARED)  # `*`: a world of stubs takes any name
    kind = action.kind or OWN_KINDS.get(effect) or (known.kind_of(given) if known.kind_by else known.kind)
    is_lenient = known.is_lenient and kind == "irreversible" and _says_nothing(action)
    repeat = str(work.repeat(scope)) if work.repeat else ""
    question = _question(draft, work, scope, effect, kind, repeat)
    is_bound = kind == "irreversible" or (question is not None and effect != "wait") or _was_approved(before)
    call_hash = digest([effect, given]) if is_bound else ""
    is_asked = question is not None and (before is None or not call_hash or before.approved != call_hash)
    due_at, pace = call_rate.find_beginning(draft, action, due_at, is_asked) if action.rate else (due_at, NOTHING)
    branch = path[1:].replace("/", ".") + "." if path else ""
    contract_id = draft.number(f"{draft.state}/{branch}{action.id}", path)
    # One that asks nobody goes straight to RUNNING; an irreversible one only where no other can be doing the same.
    is_free = question is None and not due_at and not draft.held and (kind != "irreversible" or not draft.contracts)
    contract = Contract(
        id=contract_id,
        action=action.id,
        effect=effect,
        status=Status.RUNNING if is_free else Status.PENDING,
        effect_state="possible" if is_free else "none",
        kind=kind,
        input=given,
        # Not by the call hash: a harmless call has one only once it was in doubt, and keeps its key all the same.
        key=before.key
        if before is not None and before.effect == effect and before.input == given
        else _key(draft, work, scope, contract_id, effect, kind, given, repeat),
        scope=action.scope or ("run" if is_lenient else known.scope),
        call_hash=call_hash,
        lane=path,
        timeout_s=action.timeout_s or known.timeout_s,
        settle_s=known.settle,
        repeat=repeat,
        on_repeat=action.on_repeat,
        is_lenient=is_lenient,
        question=question,
        created_at=draft.at,
        moved_at=draft.at,
        due_at=due_at,
        pace=pace,
        probe=NOTHING if is_edited or work.probe is None else _make_probe(work.action, work.probe(scope)),
    )
    draft.contracts[contract_id] = contract = contract if before is None else _inherit(contract, before)
    if is_free:
        draft.performing[contract_id] = "none"
        draft.taken.append(Consequence("contract", Status.PENDING, "start", Status.RUNNING, contract_id, "engine"))
    elif not due_at and (not draft.held or effect in ("wait", "ask")):
        start(draft, contract, work)


def _was_approved(before: Contract | None) -> bool:
    """Whether the policy or the effect had it asked about, not the author."""
    return before is not None and before.approved != ""


def _find_input(work: Work, scope: dict[str, Any]) -> dict[str, Any]:
    given = work.input(scope)
    return given if isinstance(given, dict) else {"value": given}


def kind_of(draft: WorkingCopy, work: Work, contract: Contract, given: dict[str, Any]) -> str:
    """The kind of a contract's call with other arguments than its author's."""
    known: Declared = draft.get("effects").get(contract.effect, UNDECLARED)
    return known.kind_of(given) if known.kind_by and not work.action.kind else contract.kind


def _make_probe(action: Action, given: Any) -> dict[str, Any]:
    """The call that finds out whether this one happened; with other arguments than the author's there is none."""
    probe = action.probe
    assert probe is not None  # noqa: S101  # its arguments come from it
    return {"effect": probe.effect, "input": given, "happened": probe.happened, "not_happened": probe.not_happened}


def _says_nothing(action: Action) -> bool:
    """Whether its author has not declared what it does to the world."""
    return not (action.kind or action.key or action.scope or action.ask or action.repeat)


def _inherit(contract: Contract, before: Contract) -> Contract:
    """An attempt with what it has from the one before it; a yes only if it was given to this very call."""
    kept = {"attempt": before.attempt + 1, "tries": before.tries, "supersedes": before.supersedes}
    if contract.call_hash and before.approved == contract.call_hash:
        kept.update(answers=before.answers, approved=before.approved, rule=before.rule, again=before.again)
        kept.update(is_signed=before.is_signed)
    return replace(contract, **kept)


def _check_effect_name(effect: Any) -> str:
    if not isinstance(effect, str) or not is_effect_name(effect):
        raise ExpressionError(f"{effect!r} is not the name of an effect")
    return effect


def _key(draft: WorkingCopy, work: Work, scope: dict[str, Any], contract_id: str, effect: str, kind: str,
         given: dict[str, Any], repeat: str) -> str:  # fmt: skip
    """The idempotency key: what the author says, else what the deed is (irreversible) or where it stands (others)."""
    if work.key is not None:
        own = work.key(scope)
        if own is None or own == "":
            raise ExpressionError(f"the key of `{work.action.id}` is empty")
        return f"{effect}:{own if isinstance(own, str) else digest(own)}"
    if kind != "irreversible":
        return f"{draft.run.id}/{contract_id}"
    return deed_key(draft, contract_id, effect, given, repeat)


def deed_key(draft: WorkingCopy, contract_id: str, effect: str, given: dict[str, Any], repeat: str) -> str:
    """The key of an irreversible deed: the same call has the same key everywhere, unless it is repeated on purpose."""
    known: Declared = draft.get("effects").get(effect, UNDECLARED)
    key = f"{effect}:{digest(known.essence(given))}"
    return f"{key}:{draft.run.id}/{contract_id}" if repeat else key


def _question(
    draft: WorkingCopy, work: Work, scope: dict[str, Any], effect: str, kind: str, repeat: str
) -> Question | None:
    asks = work.action.ask
    if effect == "wait":
        return Question(reason="timer" if work.duration else "event")
    if asks is not None:
        text = str(work.ask(scope)) if work.ask else asks.text
        asks = replace(asks, text=text or f"May `{work.action.id}` do this?")
        return asks if work.terms is None else _set_terms(asks, work.terms(scope))
    if repeat:
        return Question(text=f"Do the same thing again? Reason given: {repeat}")
    return Question(f"May `{effect}` do this?") if kind in draft.machine.asks else None


def _set_terms(asks: Question, given: Any) -> Question:
    """A question with who may answer it as an expression has given; what is no such terms lets nobody answer."""
    names = given.get("approvers") if isinstance(given, dict) else None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ExpressionError("`terms` must give `approvers`, a list of names, and `separate`")
    return replace(asks, terms="", approvers=tuple(dict.fromkeys(names)), separate=bool(given.get("separate")))


def start(draft: WorkingCopy, contract: Contract, work: Work) -> None:
    """PENDING → RUNNING, and on to WAITING where a question comes first."""
    question = contract.question
    if question is None or (contract.approved and contract.approved == contract.call_hash):
        perform(draft, contract, "start", "engine")
        return
    running = draft.move(contract, "start", "engine")
    if contract.effect == "wait":
        _wait(draft, running, work)
    else:
        draft.move(running, "suspend", "engine", expires_at=expiry(draft, question))


def expiry(draft: WorkingCopy, question: Question) -> float:
    """Until when a question stands."""
    return draft.at + question.expires_s if question.expires_s else 0.0


def perform(draft: WorkingCopy, contract: Contract, trigger: str, actor: str, **fields: Any) -> None:
    """Start or resume a contract for the host to carry out; once this is written, the world may have felt it."""
    holder = _holder(draft, contract) if contract.kind == "irreversible" else ""
    if holder:
        error = Failure("key_held", f"the same deed is open in {holder}", {"holder": {"contract_id": holder}})
        running = draft.move(contract, trigger, actor, **fields)
        finish(draft, draft.move(running, "reject", "engine", error=error))
        return
    if draft.chart.has_budget and _stop_over_budget(draft, contract.action, contract.effect):
        return
    if draft.chart.has_rates and not contract.is_adrift and call_rate.put_off(draft, contract, **fields):
        return
    draft.performing[contract.id] = fields.get("effect_state", contract.effect_state)
    fields.update(effect_state="possible", question=None)
    draft.move(contract, trigger, actor, **fields)


def _stop_over_budget(draft: WorkingCopy, action: str, effect: str) -> bool:
    """Whether the budget does not let a call begin; then the work of the whole state is over."""
    failure = stops(draft, action, effect)
    if failure is not None:
        leave(draft)
        draft.settled, draft.failure = True, failure
    return failure is not None


def _holder(draft: WorkingCopy, contract: Contract) -> str:
    """The other open contract of this run that may be doing the same deed."""
    for other in draft.contracts.values():
        if other.key == contract.key and other.effect_state == "possible" and other.id != contract.id:
            return other.id
    return ""


def _wait(draft: WorkingCopy, contract: Contract, work: Work) -> None:
    """RUNNING → WAITING for a signal or a time; an early signal, or no time at all, ends it at once."""
    seconds = work.duration or work.timeout
    try:
        length = _seconds(seconds(draft.scope(contract.lane))) if seconds else 0.0
    except (ExpressionError, Refused) as error:
        failure = Failure("validation_error" if isinstance(error, Refused) else "expression_error", str(error))
        finish(draft, draft.move(contract, "fail", "engine", error=failure))
        return
    waiting = draft.move(contract, "suspend", "engine", expires_at=draft.at + length if length else 0.0)
    if work.duration and not length:
        wake(draft, waiting)
    for signal in draft.get("inbox") if work.matches else ():
        if awaits(draft, waiting, signal):
            draft.use_up(signal)
            take_signal(draft, waiting, signal)
            return


def _seconds(value: Any) -> float:
    length = seconds_of(value) if isinstance(value, str) else value
    if isinstance(length, bool) or not isinstance(length, int | float) or not 0 <= length <= 1e10:
        raise Refused(
            f"a time is a number of seconds or a text such as `90s`, `15m`, `1h30m`, `7d`, not {value!r:.100}"
        )
    return float(length)


def awaits(draft: WorkingCopy, contract: Contract, signal: Signalled) -> bool:
    """Whether this contract is a wait that takes that signal."""
    if contract.effect != "wait" or contract.status is not Status.WAITING:
        return False
    conditions = [match for event, match in draft.work(contract).matches if event == signal.name]
    if not conditions or None in conditions:
        return bool(conditions)
    scope = {**draft.scope(contract.lane), "event": describe_signal(signal)}
    return any(draft.holds(match, scope) for match in conditions if match is not None)


def take_signal(draft: WorkingCopy, contract: Contract, signal: Signalled) -> None:
    """A wait got what it waited for."""
    draft.changes["event"] = signal
    running = draft.move(contract, "resume", signal.by or "signal")
    told_as = describe_signal(signal)
    result = {"event": told_as.pop("name"), **told_as}
    finish(draft, draft.move(running, "succeed", "engine", result=result, effect_state="done"))


def wake(draft: WorkingCopy, contract: Contract) -> None:
    """The time of a sleep is over, or that of a call which had to wait for it."""
    if contract.effect != "wait":
        perform(draft, contract, "resume", "timer")
        return
    running = draft.move(contract, "resume", "timer")
    finish(draft, draft.move(running, "succeed", "timer", result={"slept": True}, effect_state="done"))


def succeed(draft: WorkingCopy, contract: Contract, event: ContractMoved, actor: str) -> None:
    """RUNNING → COMPLETED, with what the effect wants to follow; one adrift has only its own end."""
    done = draft.move(contract, "succeed", actor, result=event.result, effect_state="done")
    if contract.is_adrift:
        return
    if event.raises:
        draft.changes["raised"] = event.raises
    for name, value in event.patch.items():
        draft.write(contract.lane, name, value)
    finish(draft, done)


def finish(draft: WorkingCopy, contract: Contract) -> None:
    """A contract has ended: keep what it gave and let its branch go on, try again, or fail."""
    path = contract.lane
    lane = draft.lanes.get(path)
    if contract.is_adrift or lane is None:
        return
    if contract.status is Status.COMPLETED:
        if isinstance(contract.result, dict) and contract.result.get("success") is False:
            draft.changes["is_business_failure"] = True
        record(draft, path, contract.action, contract.result)
        draft.ready.append((path, lane.position + 1))
        return
    failure = contract.error or Failure("engine_error", f"{contract.id} ended as {contract.status.value}")
    record(draft, path, contract.action, _describe_failure(draft, contract, failure))
    work = draft.work(contract)
    if not (work.retries and _again(draft, contract, work, failure)):
        if work.action.tolerate:  # what came of it is in its result, for whoever wants to know
            _say_not_undone(draft, contract, failure)
            draft.ready.append((path, lane.position + 1))
            return
        if draft.run.rules >= 2:
            draft.lanes[path] = replace(draft.lanes[path], broken=replace(contract, result=None))
        end(draft, path, failure)


def _say_not_undone(draft: WorkingCopy, contract: Contract, failure: Failure) -> None:
    """An `undo` that failed leaves a deed standing, which nobody has decided; of a no or a giving up somebody knows."""
    if draft.state == draft.machine.on_failure and draft.get("rules") >= 4 and failure.type not in DECIDED:
        why = failure.message or failure.type
        draft.raise_alarm(f"`{contract.id}` failed, so what it takes back stands: {why}")


def _describe_failure(draft: WorkingCopy, contract: Contract, failure: Failure) -> dict[str, Any]:
    """What is kept of a call that failed: what it gave, with `success: false` and the error beside it."""
    said: dict[str, Any] = {"success": False, "error": {"type": failure.type, "message": failure.message}}
    given = contract.result
    if given is None:
        return said
    # By rules 1, and where it is the result of another deed that stands in the way, it lies one level deeper.
    is_own = draft.get("rules") >= 2 and contract.status is Status.FAILED and isinstance(given, dict)
    return {**given, **said} if is_own else {**said, "result": given}


def _may_retry(contract: Contract, failure: Failure) -> bool:
    is_in_doubt = (
        contract.is_irreversible and contract.effect_state == "possible" and contract.status is Status.CANCELLED
    )
    return not is_in_doubt and not any(failure.matches(kind) for kind in NEVER_RETRIED)


def _again(draft: WorkingCopy, contract: Contract, work: Work, failure: Failure) -> bool:
    """Begin the next attempt if the retry that is for this failure has one left."""
    retries = work.retries
    wanted = [n for n, one in enumerate(retries) if not one.on or any(failure.matches(kind) for kind in one.on)]
    if not wanted or not _may_retry(contract, failure):
        return False
    number, retry = wanted[0], retries[wanted[0]]
    tries = contract.tries or (0,) * len(retries)
    had = tries[number] if len(retries) > 1 else contract.attempt - 1
    if had >= retry.limit or (retry.is_last and _is_taken(draft, of_state(draft, contract.lane, failure))):
        return False
    if len(retries) > 1:
        contract = replace(contract, tries=tuple(n + (i == number) for i, n in enumerate(tries)))
    _try_again(draft, contract, work, retry, had)
    return True


def _is_taken(draft: WorkingCopy, failure: Failure) -> bool:
    """Whether a row of the state, other than the last resort, would take this failure."""
    place, before = draft.place, draft.get("error")
    rows = [way for way in place.caught if failure.matches(way.row.error)]
    rows += [way for way in place.settled if way.row.even_failed]
    draft.changes["error"] = failure
    try:
        scope = draft.scope()
        return any(way.when is None or _holds(way.when, scope) for way in rows)
    finally:
        draft.changes["error"] = before


def _holds(condition: Condition, scope: dict[str, Any]) -> bool:
    try:
        return bool(condition.evaluate(scope))
    except ExpressionError:
        return False


def _try_again(draft: WorkingCopy, contract: Contract, work: Work, retry: Retry, had: int) -> None:
    """The next attempt: same key, exponential delay, jitter drawn from the run so that a replay agrees, or none."""
    try:
        longest = min(retry.delay_s_max, retry.delay_s * retry.factor**had)
    except OverflowError:
        longest = retry.delay_s_max
    drawn = hashlib.sha256(f"{draft.run.id}:{contract.id}".encode()).digest()
    delay = longest if retry.is_exact else longest * int.from_bytes(drawn[:4], "big") / 2**32
    draft.say("note", subject=contract.id, value=f"attempt {contract.attempt + 1} in {delay:.3f} s")
    try:
        open_contract(draft, contract.lane, work, contract, draft.at + delay if delay else 0.0)
    except ExpressionError as error:
        end(draft, contract.lane, Failure("expression_error", str(error)))
