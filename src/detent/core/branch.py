"""Lines of work side by side: how branches begin, end, join again, and what is left behind.

A branch writes to its own copy of the context; the values meet when the branches join.
"""

from typing import Any

from msgspec.structs import replace

from detent.core.compiled_machine import Work
from detent.core.contract import PLACE, Contract, Failure
from detent.core.question import Question
from detent.core.run import BranchState
from detent.core.status import Status
from detent.core.working_copy import WorkingCopy
from detent.errors import ExpressionError, Refused

ITEMS_MAX = 10_000
AT_ONCE = 50  # items of a loop under way at the same time, where it does not say how many
PIECE = 64  # ended branches that are kept together
AGAIN = -1  # in the place of a position: the branch stands as it failed, and is tried again


def record(draft: WorkingCopy, path: str, action: str, result: Any) -> None:
    """Keep an action's latest result."""
    result, lane = fill_success(result), draft.lanes.get(path)
    if path and lane is not None:
        draft.lanes[path] = replace(lane, results={**lane.results, action: result})
    else:
        draft.put("results", action, result)


def fill_success(result: Any) -> dict[str, Any]:
    """A result with `success`, where the effect did not say."""
    if not isinstance(result, dict):
        return {"success": True} if result is None else {"value": result, "success": True}
    return result if "success" in result else {**result, "success": True}


def begin(draft: WorkingCopy, path: str, work: Work) -> bool:
    """Begin an action's branches; True when there is nothing to do."""
    items: tuple[Any, ...] = ()
    total = len(work.branches)
    if work.each is not None:
        found = work.each(draft.scope(path))
        if not isinstance(found, list) or len(found) > ITEMS_MAX:
            raise ExpressionError(f"`each` of `{work.action.id}` must be a list of at most {ITEMS_MAX:,} items")
        items = tuple(found)
        total = len(items)
    if _count_needed(work, total) > total:
        raise Refused(f"`{work.action.id}` needs {_count_needed(work, total)} branches to succeed and has {total}")
    if not total:
        record(draft, path, work.action.id, {"items": [], "failed": []})
        return True
    lane = draft.lanes[path]
    base = lane.base if path or draft.get("rules") < 3 else _find_highest(draft, work.action.id)
    draft.lanes[path] = replace(lane, items=items, spawned=0, done=0, lost=0, base=base)
    spawn(draft, path, work)
    return False


def _find_highest(draft: WorkingCopy, action: str) -> int:
    """The highest number that a contract in a branch of this action has had in this run."""
    like = f"{draft.state}/{action}."  # by older rules every branch has entries of its own
    return max((number for name, number in draft.get("counts").items() if name.startswith(like)), default=0)


def _count_needed(work: Work, total: int) -> int:
    """How many branches must end well."""
    join = work.action.join
    if join == "all":
        return total - min(work.action.tolerate, total)
    return 1 if join == "any" else join


def _total(lane: BranchState, work: Work) -> int:
    return len(lane.items) or len(work.branches)


def spawn(draft: WorkingCopy, path: str, work: Work) -> None:
    """Begin as many branches as may go on at the same time; those that are tried again come first."""
    lane = draft.lanes[path]
    upto = _total(lane, work)
    at_once = work.action.at_once or (AT_ONCE if work.each and draft.get("rules") >= 3 else 0)
    if lane.left:
        lane = _stand_next(draft, lane, at_once)
    if at_once:
        upto = min(upto, lane.done + lane.lost + len(lane.left) + at_once)
    if lane.spawned >= upto:
        return
    for index in range(lane.spawned, upto):
        child = f"{path}/{work.action.id}.{index}"
        item = lane.items[index] if lane.items else None
        draft.lanes[child] = BranchState(path=child, item=item, skips=lane.skips, base=lane.base)
        draft.ready.append((child, 0))
    draft.lanes[path] = replace(lane, spawned=upto)


def _stand_next(draft: WorkingCopy, lane: BranchState, at_once: int) -> BranchState:
    """Let as many of the branches that wait to be tried again go on as there is room for."""
    under_way = lane.spawned - lane.done - lane.lost - len(lane.left)
    room = max(0, at_once - under_way) if at_once else len(lane.left)
    for child in lane.left[:room]:
        draft.lanes[child.path] = child
        draft.ready.append((child.path, AGAIN))
    lane = draft.lanes[lane.path] = replace(lane, left=lane.left[room:])
    return lane


def end(draft: WorkingCopy, path: str, failure: Failure | None) -> None:
    """A branch has come to its end; the state settles, or the branches may join."""
    if not path:
        draft.settled, draft.failure = True, failure
        return
    is_lost = failure is not None
    ended = replace(draft.lanes[path], is_ended=True, is_failed=is_lost, error=failure)
    above = path.rpartition("/")[0]
    put_away(draft, ended)
    parent = draft.lanes[above]
    parent = replace(parent, done=parent.done + (not is_lost), lost=parent.lost + is_lost)
    draft.lanes[above] = parent
    _join(draft, above, parent)


def put_away(draft: WorkingCopy, ended: BranchState) -> None:
    """Keep a branch that has ended; nothing looks at it before the branches join."""
    if draft.get("rules") < 3:
        draft.lanes[ended.path] = ended
        return
    draft.lanes.pop(ended.path, None)
    if not ended.is_failed:
        ended = replace(ended, item=None, counts={}, base=0)  # it is not begun again
    above = ended.path.rpartition("/")[0]
    parent = draft.lanes[above]
    *full, latest = parent.ended or ((),)
    pieces = (*full, (*latest, ended)) if len(latest) < PIECE else (*full, latest, (ended,))
    draft.lanes[above] = replace(parent, ended=pieces)


def _list_children(draft: WorkingCopy, path: str, first: str) -> list[BranchState]:
    """The branches inside a branch, in the order they were declared: under way, ended, or waiting to be tried again."""
    lane = draft.lanes[path]
    found = {one.path: one for piece in (*lane.ended, lane.left) for one in piece}
    names = [f"{first}{index}" for index in range(lane.spawned)]
    return [child for name in names if (child := found.get(name) or draft.lanes.get(name)) is not None]


def _join(draft: WorkingCopy, path: str, parent: BranchState) -> None:
    """Look whether enough branches have ended, and go on if so."""
    work = draft.works(path)[parent.position]
    total = _total(parent, work)
    need = _count_needed(work, total)
    if work.action.join == "all":
        is_over = parent.done + parent.lost == total
        is_hopeless = parent.lost > work.action.tolerate and (is_over or work.action.fail_fast)
    else:
        is_over = parent.done >= need
        is_hopeless = total - parent.lost < need
    if not is_over and not is_hopeless:
        spawn(draft, path, work)
        return
    if draft.on_join is not None and parent.lost and not is_hopeless and not path and work.action.join == "all":
        draft.on_join(work.action.id)
    children = _list_children(draft, path, f"{path}/{work.action.id}.")
    if is_hopeless and draft.get("rules") >= 2:
        draft.lanes[path] = fold_branches(draft, path)
    leave(draft, path + "/")
    if is_hopeless:
        if draft.get("rules") >= 2:
            _keep_results(draft, path, work, children, total, is_failed=True)
        end(draft, path, _branch_failure(work, next(c for c in children if c.is_failed)))
    else:
        _merge(draft, path, work, children, total)


def fold_branches(draft: WorkingCopy, path: str) -> BranchState:
    """A branch with those inside it, as they stand."""
    lane = draft.lanes[path]
    first = f"{path}/{draft.works(path)[lane.position].action.id}." if lane.spawned else ""
    children = _list_children(draft, path, first)
    left = tuple(fold_branches(draft, one.path) if one.path in draft.lanes else one for one in children)
    return replace(lane, left=left, ended=()) if left else lane


def of_state(draft: WorkingCopy, path: str, failure: Failure) -> Failure:
    """What the whole state would fail with if this failure of a branch were the last word on it."""
    while path:
        above = path.rpartition("/")[0]
        work = draft.works(above)[draft.lanes[above].position]
        failure = _branch_failure(work, replace(draft.lanes[path], error=failure))
        path = above
    return failure


def _branch_failure(work: Work, first: BranchState) -> Failure:
    error = first.error or Failure("engine_error")
    index = int(first.path.rpartition(".")[2])
    name = f"item {index}" if work.each else work.branches[index][0]
    causes = [error.type, *error.data.get("causes", ())]
    message = f"branch `{name}` of `{work.action.id}`: {error.message or error.type}"
    return Failure("branch_failed", message, {"branch": name, "causes": causes})


def _merge(draft: WorkingCopy, path: str, work: Work, children: list[BranchState], total: int) -> None:
    """Bring the branches' values together in the order they were declared; two different values are an error."""
    written: dict[str, Any] = {}
    good = [c for c in children if c.is_ended and not c.is_failed]
    for child in good:
        for name, value in child.writes.items():
            if name in written and written[name] != value:
                problem = f"two branches of `{work.action.id}` set `{name}` to different values"
                return end(draft, path, Failure("validation_error", problem))
            written[name] = value
    for name, value in written.items():
        draft.write(path, name, value)
    _keep_results(draft, path, work, children, total)
    lane = draft.lanes[path]
    draft.lanes[path] = replace(lane, items=(), spawned=0, done=0, lost=0, ended=(), left=())
    draft.ready.append((path, lane.position + 1))
    return None


def _keep_results(
    draft: WorkingCopy, path: str, work: Work, children: list[BranchState], total: int, is_failed: bool = False
) -> None:
    """Keep what each branch that has ended gave; those of a group that failed are kept as well."""
    gave = [_last(child) for child in children] + [None] * (total - len(children))
    mark = {"success": False} if is_failed else {}
    if work.each:
        failed = [{"index": i, "error": c.error.type} for i, c in enumerate(children) if c.error is not None]
        record(draft, path, work.action.id, {"items": gave, "failed": failed, **mark})
        return
    has_all = is_failed or draft.get("rules") >= 5
    for child in children:
        # What the failed branches gave says why, of a group that failed and of one that went on without them.
        if child.is_ended and (has_all or not child.is_failed):
            for action, result in child.results.items():
                record(draft, path, action, result)
    names = {name: gave[index] for index, (name, _) in enumerate(work.branches)}
    record(draft, path, work.action.id, {"branches": names, **mark})


def _last(lane: BranchState) -> Any:
    """What a branch gave: the result of its last action."""
    return next(reversed(lane.results.values())) if lane.is_ended and lane.results else None


def leave(draft: WorkingCopy, above: str = "", actor: str = "engine") -> None:
    """Drop every branch whose path begins like this, stopping what they have under way."""
    if not above:
        draft.lanes.clear()
        draft.ready.clear()
    else:
        for path in [p for p in draft.lanes if p.startswith(above)]:
            del draft.lanes[path]
    for contract in list(draft.contracts.values()):
        if contract.lane.startswith(above) and not contract.is_adrift and contract.action != PLACE:
            abandon(draft, contract, actor)


def _is_at_work(contract: Contract) -> bool:
    """Whether something outside is under way for a contract, and must be told that it is over."""
    question = contract.question
    return (
        contract.effect_state == "possible" if question is None else question.hears_no or question.reason == "callback"
    )


def in_doubt(draft: WorkingCopy, contract: Contract, actor: str) -> Contract:
    """Nobody has answered what an irreversible call asked, or will: only somebody who looks can say what happened."""
    running = draft.move(contract, "resume", actor)
    doubt = Question(f"`{contract.effect}` was called and never answered. Did it happen?", "outcome_unknown")
    return draft.move(running, "suspend", actor, question=doubt, expires_at=0.0)


def abandon(draft: WorkingCopy, contract: Contract, actor: str) -> None:
    """End a contract nobody waits for any more; one that may have happened must still be settled."""
    if contract.status is Status.PENDING:
        contract = draft.move(contract, "start", actor)
    deed = contract.effect_state
    if contract.id in draft.performing:
        deed = draft.performing.pop(contract.id)  # the host has not been told yet
    elif _is_at_work(contract):
        draft.aborted.append(contract.id)
    if contract.is_irreversible and deed == "possible":
        if contract.question is not None and contract.question.hears_no:
            contract = in_doubt(draft, contract, actor)
        draft.contracts[contract.id] = replace(contract, is_adrift=True)
    else:
        draft.move(contract, "cancel", actor, error=Failure("cancelled"), effect_state=deed)
