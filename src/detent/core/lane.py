"""Doing a state's work: lanes of actions, the contracts they open, and how branches join again.

A lane goes on until something takes time. Whoever ends a contract calls `finished`, and the lane goes on from there.
"""

import hashlib
from typing import Any

from msgspec.structs import replace

from detent.core.chart import Work
from detent.core.contract import Contract, Failure
from detent.core.draft import Draft
from detent.core.effect import Declared
from detent.core.machine import Retry
from detent.core.question import Question
from detent.core.run import Lane
from detent.core.status import Status
from detent.core.value import canonical, digest, plain
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
ITEMS_MAX = 10_000


def begin(draft: Draft) -> None:
    """Begin the work of the state the draft is in."""
    draft.lanes = {"": Lane()}
    go_on(draft, "")


def go_on(draft: Draft, path: str) -> None:
    """Do the lane's actions from where it stands until one takes time or fails."""
    works = draft.works(path)
    while True:
        lane = draft.lanes[path]
        if lane.position >= len(works):
            return _ended(draft, path, None)
        try:
            if not _do(draft, path, works[lane.position]):
                return None
        except ExpressionError as error:
            return _ended(draft, path, Failure("expression_error", str(error)))
        except Refused as error:
            return _ended(draft, path, Failure("validation_error", str(error)))
        draft.lanes[path] = replace(draft.lanes[path], position=lane.position + 1)


def _do(draft: Draft, path: str, work: Work) -> bool:
    """Do one action; False when it takes time."""
    action = work.action
    scope = draft.scope(path)
    if work.when is not None and not draft.holds(work.when, action.when, scope):
        return True
    match action.effect:
        case "set":
            given = work.input(scope)
            draft.assign(path, str(given.get("name", "")), given.get("value"))
        case "log":
            given = work.input(scope)
            draft.say("log", subject=action.id, value=given.get("message"), event=str(given.get("level", "info")))
        case "choose":
            record(draft, path, action.id, {"value": bool(work.input(scope).get("condition"))})
        case "branches":
            return _branch(draft, path, work, scope)
        case _:
            open_contract(draft, path, work, scope)
            return False
    return True


def record(draft: Draft, path: str, action: str, result: Any) -> dict[str, Any]:
    """Keep an action's latest result, with `success` filled in where the effect did not say."""
    if not isinstance(result, dict):
        result = {} if result is None else {"value": result}
    if "success" not in result:
        result = {**result, "success": True}
    elif result["success"] is False:
        draft.changes["is_business_failure"] = True
    if path:
        lane = draft.lanes[path]
        draft.lanes[path] = replace(lane, results={**lane.results, action: result})
    else:
        draft.put("results", action, result)
    return result


def open_contract(draft: Draft, path: str, work: Work, scope: dict[str, Any], before: Contract | None = None,
                  due_at: float = 0.0) -> None:  # fmt: skip
    """Make the contract for an action and bring it as far as it goes without the outside world."""
    action = work.action
    effect = action.effect if work.effect is None else str(work.effect(scope))
    given = work.input(scope)
    given = given if isinstance(given, dict) else {"value": given}
    known: Declared = draft.get("effects").get(effect, UNDECLARED)
    kind = action.kind or ("pure" if effect in ("wait", "ask") else known.kind)
    name = f"{draft.state}/{path[1:].replace('/', '.') + '.' if path else ''}{action.id}"
    count = draft.get("counts").get(name, 0) + 1
    draft.put("counts", name, count)
    contract_id = f"{name}/{count}"
    repeat = str(work.repeat(scope)) if work.repeat else ""
    call_hash = digest([effect, given]) if kind == "irreversible" or action.ask else ""
    contract = Contract(
        id=contract_id,
        action=action.id,
        effect=effect,
        kind=kind,
        input=given,
        key=before.key if before and before.call_hash == call_hash else _key(draft, work, scope, effect, given, contract_id, repeat),
        scope=action.scope or known.scope,
        call_hash=call_hash,
        attempt=before.attempt + 1 if before else 1,
        lane=path,
        timeout_s=action.timeout_s or known.timeout_s,
        settle_s=known.settle,
        repeat=repeat,
        question=_question(work, scope, effect, repeat),
        approved=before.approved if before else "",
        created_at=draft.at,
        moved_at=draft.at,
        due_at=due_at,
    )
    draft.contracts[contract_id] = contract
    if not due_at and not (draft.held and kind != "pure" and effect not in ("wait", "ask")):
        start(draft, contract, work, scope)


UNDECLARED = Declared()


def _key(draft: Draft, work: Work, scope: dict[str, Any], effect: str, given: dict[str, Any], contract_id: str, repeat: str) -> str:
    """The idempotency key: what the author says, else what the deed is (irreversible) or where it stands (others)."""
    if work.key is not None:
        return f"{effect}:{work.key(scope)}"
    if (work.action.kind or draft.get("effects").get(effect, UNDECLARED).kind) != "irreversible":
        return f"{draft.run.id}/{contract_id}"
    key = f"{effect}:{hashlib.sha256(canonical(given)).hexdigest()}"
    return f"{key}:{draft.run.id}/{contract_id}" if repeat else key


def _question(work: Work, scope: dict[str, Any], effect: str, repeat: str) -> Question | None:
    action = work.action
    if effect == "wait":
        return Question(reason="event" if work.matches else "timer")
    if action.ask is not None:
        text = str(work.ask(scope)) if work.ask else action.ask.text
        return replace(action.ask, text=text or f"May `{action.id}` do this?")
    if repeat:
        return Question(text=f"Do the same thing again? Reason given: {repeat}")
    return None


def start(draft: Draft, contract: Contract, work: Work, scope: dict[str, Any]) -> None:
    """PENDING → RUNNING, and on to WAITING where a question comes first."""
    contract = draft.move(contract, "start", "engine", due_at=0.0)
    question = contract.question
    if question is None or (contract.approved and contract.approved == contract.call_hash):
        perform(draft, contract)
    elif contract.effect == "wait":
        _wait(draft, contract, work, scope)
    else:
        expires = draft.at + question.expires_s if question.expires_s else 0.0
        draft.move(contract, "suspend", "engine", expires_at=expires)


def perform(draft: Draft, contract: Contract) -> None:
    """Let the host carry it out; from the next commit on, the outside world may have felt it."""
    draft.contracts[contract.id] = replace(contract, deed="possible", question=None)
    draft.performing.append(contract.id)


def _wait(draft: Draft, contract: Contract, work: Work, scope: dict[str, Any]) -> None:
    seconds = work.duration or work.timeout
    expires = draft.at + _seconds(seconds(scope)) if seconds else 0.0
    waiting = draft.move(contract, "suspend", "engine", expires_at=expires)
    inbox = draft.get("inbox")
    for signal in inbox:
        if awaits(draft, waiting, signal.name, signal):
            draft.changes["inbox"] = tuple(s for s in inbox if s is not signal)
            return take_signal(draft, waiting, signal)
    return None


def _seconds(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1e10:
        raise ExpressionError(f"a time must be a number of seconds, not {value!r}")
    return float(value)


def awaits(draft: Draft, contract: Contract, name: str, signal: Any) -> bool:
    """Whether this wait takes that signal."""
    if contract.effect != "wait" or contract.status is not Status.WAITING or contract.is_adrift:
        return False
    lane = draft.lanes[contract.lane]
    work = draft.works(contract.lane)[lane.position]
    scope = {**draft.scope(contract.lane), "event": {"name": name, "id": signal.id, "data": signal.data, "by": signal.by}}
    for (event, match), declared in zip(work.matches, work.action.wait.events if work.action.wait else (), strict=True):
        if event == name and draft.holds(match, declared.match, scope):
            return True
    return False


def take_signal(draft: Draft, contract: Contract, signal: Any) -> None:
    """A wait got what it waited for."""
    draft.changes["event"] = signal
    running = draft.move(contract, "resume", signal.by or "signal", expires_at=0.0)
    result = {"event": signal.name, "id": signal.id, "data": signal.data, "by": signal.by}
    finished(draft, draft.move(running, "succeed", "engine", result=result, deed="done"))


def finished(draft: Draft, contract: Contract) -> None:
    """A contract has ended: keep what it gave and let its lane go on, try again, or fail."""
    if contract.is_adrift or contract.lane not in draft.lanes:
        return
    path = contract.lane
    if contract.status is Status.COMPLETED:
        record(draft, path, contract.action, contract.result)
        lane = draft.lanes[path]
        draft.lanes[path] = replace(lane, position=lane.position + 1)
        go_on(draft, path)
        return
    failure = contract.error or Failure("engine_error", f"{contract.id} ended as {contract.status.value}")
    result = {"success": False, "error": {"type": failure.type, "message": failure.message}}
    if contract.result is not None:
        result["result"] = contract.result
    record(draft, path, contract.action, result)
    work = draft.works(path)[draft.lanes[path].position]
    if _may_retry(work.action.retry, contract, failure):
        _again(draft, contract, work, work.action.retry)  # type: ignore[arg-type]
    else:
        _ended(draft, path, failure)


def _may_retry(retry: Retry | None, contract: Contract, failure: Failure) -> bool:
    if retry is None or contract.attempt > retry.limit or any(failure.matches(kind) for kind in NEVER_RETRIED):
        return False
    return not retry.on or any(failure.matches(kind) for kind in retry.on)


def _again(draft: Draft, contract: Contract, work: Work, retry: Retry) -> None:
    """The next attempt: same key, exponential delay, full jitter drawn from the run so that a replay agrees."""
    longest = min(retry.delay_s_max, retry.delay_s * retry.factor ** (contract.attempt - 1))
    drawn = hashlib.sha256(f"{draft.run.id}:{contract.id}".encode()).digest()
    delay = longest * int.from_bytes(drawn[:4], "big") / 2**32
    draft.say("note", subject=contract.id, value=f"attempt {contract.attempt + 1} in {delay:.3f} s")
    try:
        open_contract(draft, contract.lane, work, draft.scope(contract.lane), contract, draft.at + delay)
    except (ExpressionError, Refused) as error:
        _ended(draft, contract.lane, Failure("expression_error", str(error)))


def _branch(draft: Draft, path: str, work: Work, scope: dict[str, Any]) -> bool:
    """Begin an action's branches; True when there is nothing to do."""
    items: tuple[Any, ...] = ()
    if work.each is not None:
        found = work.each(scope)
        if not isinstance(found, list) or len(found) > ITEMS_MAX:
            raise ExpressionError(f"`each` of `{work.action.id}` must be a list of at most {ITEMS_MAX:,} items")
        items = tuple(plain(item) for item in found)
        if not items:
            record(draft, path, work.action.id, {"items": [], "failed": []})
            return True
    draft.lanes[path] = replace(draft.lanes[path], items=items, spawned=0)
    _spawn(draft, path, work)
    return False


def _spawn(draft: Draft, path: str, work: Work) -> None:
    """Begin as many branches as may go on at the same time."""
    total = len(draft.lanes[path].items) or len(work.branches)
    while path in draft.lanes:
        lane = draft.lanes[path]
        at_work = sum(1 for child in _children(draft, path) if not child.is_ended)
        if lane.spawned >= total or (work.action.at_once and at_work >= work.action.at_once):
            return
        child = f"{path}/{work.action.id}.{lane.spawned}"
        item = lane.items[lane.spawned] if lane.items else None
        draft.lanes[path] = replace(lane, spawned=lane.spawned + 1)
        draft.lanes[child] = Lane(path=child, item=item)
        position = lane.position
        go_on(draft, child)
        if path not in draft.lanes or draft.lanes[path].position != position:
            return  # the branches have joined already


def _children(draft: Draft, path: str) -> list[Lane]:
    depth = path.count("/") + 1
    return [c for p, c in draft.lanes.items() if p.startswith(path + "/") and p.count("/") == depth]


def _ended(draft: Draft, path: str, failure: Failure | None) -> None:
    if not path:
        draft.settled, draft.failure = True, failure
        return
    draft.lanes[path] = replace(draft.lanes[path], is_ended=True, is_failed=failure is not None, error=failure)
    _join(draft, path.rpartition("/")[0])


def _join(draft: Draft, path: str) -> None:
    """Look whether enough branches have ended, and go on if so."""
    parent = draft.lanes[path]
    work = draft.works(path)[parent.position]
    action, children = work.action, _children(draft, path)
    total = len(parent.items) or len(work.branches)
    failed = [c for c in children if c.is_failed]
    done = sum(1 for c in children if c.is_ended and not c.is_failed)
    if action.join == "all":
        enough = done + len(failed) == total and len(failed) <= action.tolerate
        hopeless = len(failed) > action.tolerate and (action.fail_fast or done + len(failed) == total)
    else:
        need = 1 if action.join == "any" else action.join
        enough, hopeless = done >= need, total - len(failed) < need
    if not enough and not hopeless:
        _spawn(draft, path, work)
        return
    ended = sorted(children, key=lambda c: int(c.path.rpartition(".")[2]))
    for child in children:
        leave(draft, child.path)
    if hopeless:
        _ended(draft, path, _branch_failure(work, [c for c in ended if c.is_failed]))
    else:
        _merge(draft, path, work, ended, total)


def _branch_failure(work: Work, failed: list[Lane]) -> Failure:
    first = failed[0]
    error = first.error or Failure("engine_error")
    index = int(first.path.rpartition(".")[2])
    name = f"item {index}" if work.each else work.branches[index][0]
    causes = [error.type, *error.data.get("causes", ())]
    message = f"branch `{name}` of `{work.action.id}`: {error.message or error.type}"
    return Failure("branch_failed", message, {"branch": name, "causes": causes})


def _merge(draft: Draft, path: str, work: Work, children: list[Lane], total: int) -> None:
    """Bring the branches' values together in the order they were declared; two different values are an error."""
    written: dict[str, Any] = {}
    good = [c for c in children if c.is_ended and not c.is_failed]
    for child in good:
        for name, value in child.writes.items():
            if name in written and written[name] != value:
                problem = f"two branches of `{work.action.id}` set `{name}` to different values"
                return _ended(draft, path, Failure("validation_error", problem))
            written[name] = value
    for name, value in written.items():
        draft.assign(path, name, value)
    by_index = {int(c.path.rpartition(".")[2]): c for c in children}
    if work.each:
        items = [_last(by_index.get(i)) for i in range(total)]
        failed = [{"index": i, "error": c.error.type} for i, c in by_index.items() if c.is_failed and c.error]
        record(draft, path, work.action.id, {"items": items, "failed": failed})
    else:
        names = {name: _last(by_index.get(i)) for i, (name, _) in enumerate(work.branches)}
        for child in good:
            for action, result in child.results.items():
                record(draft, path, action, result)
        record(draft, path, work.action.id, {"branches": names})
    draft.lanes[path] = replace(draft.lanes[path], position=draft.lanes[path].position + 1, items=(), spawned=0)
    return go_on(draft, path)


def _last(lane: Lane | None) -> Any:
    """What a branch gave: the result of its last action."""
    if lane is None or not lane.is_ended or not lane.results:
        return None
    return next(reversed(lane.results.values()))


def leave(draft: Draft, path: str = "", actor: str = "engine") -> None:
    """Drop a lane and all below it, stopping what they have under way."""
    inside = [p for p in draft.lanes if p == path or p.startswith(path + "/")]
    for lane in inside:
        del draft.lanes[lane]
    for contract in list(draft.contracts.values()):
        if contract.lane in inside and not contract.is_adrift:
            abandon(draft, contract, actor)


def abandon(draft: Draft, contract: Contract, actor: str) -> None:
    """End a contract nobody waits for any more; one that may have happened must still be settled."""
    if contract.status is Status.PENDING:
        contract = draft.move(contract, "start", actor)
    in_doubt = contract.is_irreversible and contract.deed == "possible"
    if contract.status is Status.RUNNING and contract.deed == "possible":
        draft.aborted.append(contract.id)
    elif contract.effect == "child":
        draft.aborted.append(contract.id)
    if in_doubt:
        draft.contracts[contract.id] = replace(contract, is_adrift=True)
    else:
        draft.move(contract, "cancel", actor, error=Failure("cancelled"))
