"""The engine's own deeds as a file writes them: set and increment a variable, write a line of log."""

from typing import Any

from detent.core.machine import Action
from detent.define.compile_context import items
from detent.define.document import Route
from detent.define.key_check import Fields, fields
from detent.define.machine_builder import MachinePlan


def assignment(plan: MachinePlan, id: str, name: str, value: Any, when: str = "") -> Action:
    """Set a variable; a bare name is the context's."""
    plan.writes(name)
    return Action(id=id, effect="set", input={"name": name, "value": value}, when=when)


def line(id: str, message: Any, level: str = "info", when: str = "") -> Action:
    """Write something down."""
    given = {"message": message} if level == "info" else {"message": message, "level": level}
    return Action(id=id, effect="log", input=given, when=when)


def steps(plan: MachinePlan, path: Route, value: Any) -> tuple[Action, ...]:
    """What `on_transition` does, in order."""
    found = []
    for number, (place, inner) in enumerate(items(plan.page, path, value, "`on_transition`"), 1):
        step = fields(plan.page, place, inner, "step", f"step {number}")
        action = _step(plan, step, f"step_{number}") if step is not None and step.type else None
        if action is not None:
            found.append(action)
    return tuple(found)


def _step(plan: MachinePlan, step: Fields, id: str) -> Action | None:
    if step.type == "log":
        if "message" not in step:
            plan.page.say(step.path, "a `log` needs `message`")
            return None
        return line(id, step["message"], step.get("level", "info"))
    name = variable_of(plan, step)
    if not name:
        return None
    if step.type == "set_variable":
        return assignment(plan, id, name, step.get("value"))
    return assignment(plan, id, name, _increase(plan, step, name))


def variable_of(plan: MachinePlan, given: Fields) -> str:
    """The name behind `name` or `variable`."""
    name = given.get("variable") or given.get("name")
    if not name:
        if not given.said & {"variable", "name"}:
            plan.page.say(given.path, f"`{given.type}` needs `variable`", "the name of what it changes")
        return ""
    return str(name)


def _increase(plan: MachinePlan, step: Fields, name: str) -> str:
    """An expression for one more; what is not there yet counts as 0."""
    first, dot, _ = name.partition(".")
    path = name if dot and first in ("context", "variables", "state") else f"context.{name}"
    by: Any = step.get("by", 1)
    if isinstance(by, str) and by.strip().startswith("{{") and by.strip().endswith("}}"):
        by = f"({by.strip()[2:-2].strip()})"
    elif not isinstance(by, (int, float)) or isinstance(by, bool):
        plan.page.say(step.at("by"), "`by` must be a number or one expression")
        by = 1
    return f"{{{{ ({path} or 0) + {by} }}}}"
