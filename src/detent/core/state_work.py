"""Doing a state's work: each branch does its actions in order until one takes time.

Branches that can go on stand in the draft's `ready` queue, so that ten thousand branches need no deep stack.
"""

from typing import Any

from msgspec.structs import replace

from detent.core.branch import AGAIN, end, put_away, record, spawn
from detent.core.branch import begin as begin_branches
from detent.core.compiled_machine import INSTANT, Work
from detent.core.contract import Contract, Failure
from detent.core.contract_lifecycle import open_contract
from detent.core.machine_check import is_variable
from detent.core.needed_result import find_missing
from detent.core.run import BranchState
from detent.core.value import plain
from detent.core.working_copy import WorkingCopy
from detent.errors import ExpressionError, Refused

WHOLE = BranchState()  # the state itself
ROOTS = {"context": "context", "variables": "variables", "state": "local"}


def begin(draft: WorkingCopy) -> None:
    """Begin the work of the state the draft is in."""
    draft.lanes = {"": WHOLE}
    draft.ready.append(("", 0))


def go_on(draft: WorkingCopy) -> None:
    """Let every branch that can go on do so, until all of them wait or have ended."""
    while draft.ready:
        path, position = draft.ready.popleft()
        if path not in draft.lanes:
            continue
        if position == AGAIN:
            stand(draft, draft.lanes[path])
        else:
            _walk(draft, path, position)


def reopen(draft: WorkingCopy, path: str, due_at: float = 0.0, before: Contract | None = None) -> None:
    """Open what a branch stands on once more, whatever its condition says now, to be begun at `due_at` or at once."""
    lane = draft.lanes.get(path)
    if lane is None:
        return  # another branch, opened before, has ended the state
    try:
        open_contract(draft, path, draft.works(path)[lane.position], before, due_at)
    except (ExpressionError, Refused) as error:
        end(draft, path, _failure(error))


def stand(draft: WorkingCopy, was: BranchState) -> None:
    """Put a branch back where it stood when it failed, and let what had failed of it go on."""
    leaves: list[tuple[str, Contract | None]] = []
    _check_parts(draft, was)
    _stand(draft, was, leaves)
    for path, before in leaves:
        if path in draft.lanes:  # one that was opened before may have ended the state
            _try_again(draft, path, before)


def _check_parts(draft: WorkingCopy, was: BranchState) -> None:
    if was.is_ended and not was.is_failed:
        return
    works = draft.works(was.path)
    work = works[was.position] if was.position < len(works) else None
    if was.spawned and not was.left and work is not None and work.branches:
        raise Refused(f"the branches of `{work.action.id}` have all ended, and what they gave does not go together")
    for child in was.left:
        _check_parts(draft, child)


def _stand(draft: WorkingCopy, was: BranchState, leaves: list[tuple[str, Contract | None]]) -> None:
    """Those that had ended well stay ended; of the others the last ones go on, as many at a time as at first."""
    if was.is_ended and not was.is_failed:
        put_away(draft, replace(was, left=(), broken=None))
        return
    good = [one for one in was.left if one.is_ended and not one.is_failed]
    draft.lanes[was.path] = replace(
        was, is_ended=False, is_failed=False, error=None, done=len(good), lost=0, left=(), broken=None
    )
    is_bounded = draft.get("rules") >= 4
    for child in good if is_bounded else was.left:
        _stand(draft, child, leaves)
    if not was.left:
        leaves.append((was.path, was.broken))
    elif is_bounded:
        rest = tuple(one for one in was.left if not one.is_ended or one.is_failed)
        draft.lanes[was.path] = replace(draft.lanes[was.path], left=rest)
        spawn(draft, was.path, draft.works(was.path)[was.position])


def disown(was: BranchState) -> BranchState:
    """A branch of another run, which a fork begins with: the children that failed in it are not its own."""
    broken = None if was.broken is None else replace(was.broken, error=None)
    return replace(was, broken=broken, left=tuple(map(disown, was.left)))


def _try_again(draft: WorkingCopy, path: str, before: Contract | None) -> None:
    position = draft.lanes[path].position
    works = draft.works(path)
    work = works[position] if position < len(works) else None
    if work is None or work.branches or work.action.effect in INSTANT or draft.lanes[path].skips:
        draft.ready.append((path, position))
        return
    known = set(draft.contracts)
    # Whoever tries it again gives it as many further attempts as it had at first.
    reopen(draft, path, before=None if before is None else replace(before, attempt=0, tries=()))
    child = before.error.data.get("run_id") if before is not None and before.error is not None else None
    for contract_id in set(draft.contracts) - known if work.action.effect == "child" and child else ():
        draft.contracts[contract_id] = replace(draft.contracts[contract_id], reopens=str(child))


def _walk(draft: WorkingCopy, path: str, position: int) -> None:
    works = draft.works(path)
    failure = None
    try:
        while position < len(works):
            if _takes_time(draft, path, works[position], position):
                return
            position += 1
    except (ExpressionError, Refused) as error:
        failure = _failure(error)
        draft.say("note", subject=works[position].action.id, event="left", value=f"not done: {error}")
    end(draft, path, failure)


def _failure(error: ExpressionError | Refused) -> Failure:
    return Failure("validation_error" if isinstance(error, Refused) else "expression_error", str(error))


def _takes_time(draft: WorkingCopy, path: str, work: Work, position: int) -> bool:
    if work.action.effect in INSTANT:
        act(draft, path, work)
        return False
    if work.when is not None and not draft.holds(work.when, draft.scope(path)):
        return False
    lane = draft.lanes[path]
    if lane.skips and work.action.id in lane.skips:
        return False
    if draft.state == draft.machine.on_failure and draft.get("rules") >= 4 and _lacks_value(draft, path, work):
        return False
    if lane.position != position:
        draft.lanes[path] = replace(lane, position=position)
    if work.action.effect == "branches":
        return not begin_branches(draft, path, work)
    open_contract(draft, path, work)
    return True


def _lacks_value(draft: WorkingCopy, path: str, work: Work) -> bool:
    """Whether an `undo` would be called with a value that nobody has; it is not done then, and somebody must look."""
    missing = find_missing(work, draft.scope(path))
    if not missing:
        return False
    why = f"`{missing}` is not known"
    record(draft, path, work.action.id, {"success": False, "error": {"type": "validation_error", "message": why}})
    draft.say("note", subject=work.action.id, event="left", value=f"not done: {why}")
    draft.raise_alarm(f"`{work.action.id}` was not done, so what it takes back stands: {why}")
    return True


def act(draft: WorkingCopy, path: str, work: Work) -> None:
    """Do one of the engine's own actions that take no time."""
    action, scope = work.action, draft.scope(path)
    if work.when is not None and not draft.holds(work.when, scope):
        return
    if work.choice is not None:
        record(draft, path, action.id, {"value": draft.holds(work.choice, scope)})
        return
    given: dict[str, Any] = work.input(scope)
    if action.effect == "keep":
        record(draft, path, action.id, {"value": given.get("value")})
    elif action.effect == "set":
        _assign(draft, path, given["name"], given.get("value"))
    else:
        draft.say("log", subject=action.id, value=given["message"], event=str(given.get("level", "info")))


def _assign(draft: WorkingCopy, path: str, name: Any, value: Any) -> None:
    """Set a variable: a bare name is the context's, `variables.` and `state.` name the other two."""
    if not isinstance(name, str) or not is_variable(name):
        raise Refused(f"{name!r} is not the name of a variable")
    value = plain(value, name)  # a value may hold the whole context: without a limit it could double with every turn
    first, *rest = name.split(".")
    root, keys = (first, rest) if rest and first in ROOTS else ("context", [first, *rest])
    whole = _set_nested(draft.scope(path)[root], keys, value)[keys[0]]
    if root == "context":
        draft.write(path, keys[0], whole)
    else:
        draft.say("set", subject=name, value=value)
        draft.put(ROOTS[root], keys[0], whole)


def _set_nested(mapping: Any, keys: list[str], value: Any) -> dict[str, Any]:
    """A copy of `mapping` with one value deep inside it changed."""
    mapping = mapping if isinstance(mapping, dict) else {}
    inner = _set_nested(mapping.get(keys[0]), keys[1:], value) if len(keys) > 1 else value
    return {**mapping, keys[0]: inner}
