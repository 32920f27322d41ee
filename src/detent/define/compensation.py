"""What comes last: calls that take back what was done, and what is done however a run ends."""

from typing import Any

from msgspec.structs import replace

from detent.core.machine import Action
from detent.define.action import actions
from detent.define.key_check import Fields
from detent.define.machine_builder import MachinePlan

UNDO, FINALLY = "undoing", "finishing"


def read_last(plan: MachinePlan, given: Fields) -> tuple[str, str]:
    """Compile `undo` of all actions and `finally` of the file; the names of the states they became, or nothing."""
    undo, final = _name(plan, UNDO), _name(plan, FINALLY)
    taken_back = _read_undos(plan, undo)
    last = actions(plan, given.at("finally"), given.get("finally"), final) if "finally" in given else ()
    if taken_back:
        plan.work[undo] = taken_back
    if last:
        plan.work[final] = last
    return undo if taken_back else "", final if last else ""


def _name(plan: MachinePlan, name: str) -> str:
    while name in plan.types:
        name += "_"
    return name


def _read_undos(plan: MachinePlan, state: str) -> tuple[Action, ...]:
    """The calls in the reverse order of what they take back: each if that was done, whatever becomes of the others."""
    found: list[Action] = []
    for id, path, value in reversed(plan.undos):
        if not isinstance(value, dict):
            plan.page.say(path, "`undo` is an action: a `tool` with its `params`")
            continue
        for key in ("when", "undo"):
            if key in value:
                plan.page.say((*path, key), f"`{key}` does not go with `undo`", at_key=True)
        found += _read_one(plan, path, {"id": f"undo_{id}", **value}, id, state)
    return tuple(found)


def _read_one(plan: MachinePlan, path: Any, value: dict[str, Any], id: str, state: str) -> list[Action]:
    (made,) = actions(plan, path, [value], state) or (None,)
    if made is None:
        return []
    return [replace(made, when=f"{{{{ result.{id}.success }}}}", tolerate=1)]
