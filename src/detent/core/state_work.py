"""Doing a state's work: each branch does its actions in order until one takes time.

Branches that can go on stand in the draft's `ready` queue, so that ten thousand branches need no deep stack.
"""

from typing import Any

from msgspec.structs import replace

from detent.core.attempt import open_contract
from detent.core.branch import begin as begin_branches
from detent.core.branch import end, record
from detent.core.chart import INSTANT, Work
from detent.core.check import is_variable
from detent.core.contract import Contract, Failure
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
        if path in draft.lanes:
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
    if lane.position != position:
        draft.lanes[path] = replace(lane, position=position)
    if work.action.effect == "branches":
        return not begin_branches(draft, path, work)
    open_contract(draft, path, work)
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
