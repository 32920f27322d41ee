"""The actions of a workflow file, compiled to the machine's."""

import json
from collections.abc import Iterable
from typing import Any

from detent.core.machine import Action, Branch
from detent.define.builtin_action import assignment, line, variable_of
from detent.define.compile_context import MARKS, items
from detent.define.document import Route
from detent.define.grammar import ACTION_TYPES
from detent.define.key_check import Fields, fields
from detent.define.machine_builder import MachinePlan, lean
from detent.define.problem import cut
from detent.define.tool_call import call
from detent.define.value_check import check_name, is_name

IMPLIED = {"tool": "tool_call", "python": "tool_call", "workflow": "tool_call", "for_each": "for_each"}
BRANCHES_MAX = 200
NAMING = ("id", "name")  # what a branch in a list may be named with
NEST_MAX = 8  # as deep as the engine lets branches be nested


def actions(
    plan: MachinePlan, path: Route, value: Any, state: str, depth: int = 0, only: Iterable[str] = ()
) -> tuple[Action, ...]:
    """A list of actions; `only` names the types that are possible here, if not all are."""
    found: list[Action] = []
    seen: set[str] = set()
    for number, (place, inner) in enumerate(items(plan.page, path, value, "`actions`"), 1):
        given = _read_fields(plan, place, inner, number)
        if given is None:
            continue
        if only and given.type not in only:
            plan.page.say(place, f"an end may only {' and '.join(only)}, not `{given.type}`")
            continue
        id = _id(plan, given, number, seen)
        seen.add(id)
        action = _action(plan, given, id, state, depth)
        if action is not None:
            found.append(action)
    return tuple(found)


def _read_fields(plan: MachinePlan, path: Route, value: Any, number: int) -> Fields | None:
    what = f"action {number}"
    if isinstance(value, dict):
        said = value.get("id")
        what = f"action `{said}`" if is_name(said) else what
        type = value.get("type") if "type" in value else _imply_type(value)
        if type is None:
            before = len(plan.page.problems)
            fields(plan.page, path, value, "action", what)  # a key that is misspelt says more than one that is missing
            if len(plan.page.problems) == before:
                plan.page.say(path, f"{what} needs `type`", f"one of {', '.join(ACTION_TYPES)}; or a `tool` to call")
            return None
        if not isinstance(type, str) or type not in ACTION_TYPES:
            plan.page.say((*path, "type"), *plan.page.unknown("type of action", str(type), ACTION_TYPES))
            return None
        return fields(plan.page, path, value, "action", what, type)
    return fields(plan.page, path, value, "action", what)


def _imply_type(value: dict[str, Any]) -> str | None:
    for key, type in IMPLIED.items():
        if key in value:
            return type
    return None


def _id(plan: MachinePlan, given: Fields, number: int, seen: set[str]) -> str:
    """The action's name; a line of log or an assignment needs none of its own."""
    if "id" in given:
        id = str(given["id"])
        if id in seen:
            plan.page.say(given.at("id"), f"the action id `{id}` is used twice in this list")
        plan.actions.setdefault(id, given.path)
        return id
    if given.type not in ("log", "set_variable") and "id" not in given.said:
        plan.page.say(given.path, f"a `{given.type}` needs an `id`", "its result is found under it")
    id = f"{given.type}_{number}"
    while id in seen:
        id += "_"
    return id


def _action(plan: MachinePlan, given: Fields, id: str, state: str, depth: int) -> Action | None:
    if depth > NEST_MAX:
        plan.page.say(given.path, f"branches are nested deeper than {NEST_MAX}")
        return None
    match given.type:
        case "tool_call":
            if "undo" in given:
                plan.undos.append((id, given.at("undo"), given["undo"]))
            return call(plan, given, id, state)
        case "parallel" | "for_each":
            return side_by_side(plan, given, id, state, depth)
    when, params = given.get("when", ""), _params(plan, given)
    match given.type:
        case "conditional":
            condition = _own(plan, given, params, "condition")
            return None if condition is None else Action(id, "choose", input={"condition": condition}, when=when)
        case "log":
            message = _own(plan, given, params, "message")
            level = str(given.get("level", params.get("level", "info")))
            return None if message is None else line(id, message, level, when)
        case _:
            name = params.get("name") or params.get("variable") or variable_of(plan, given)
            return assignment(plan, id, name, given.get("value", params.get("value")), when) if name else None


def _params(plan: MachinePlan, given: Fields) -> dict[str, Any]:
    """What a file writes under `params`, checked as if it stood beside it."""
    params = given.get("params")
    if not isinstance(params, dict):
        return {}
    checked = fields(plan.page, given.at("params"), params, "action", "`params`", given.type)
    return checked.values if checked is not None else {}


def _own(plan: MachinePlan, given: Fields, params: dict[str, Any], key: str) -> Any:
    value = given.get(key, params.get(key))
    if value is None and key not in given.said:
        plan.page.say(given.path, f"a `{given.type}` needs `{key}`")
    return value


def side_by_side(plan: MachinePlan, given: Fields, id: str, state: str, depth: int) -> Action | None:
    """Branches of a parallel state or action, or one branch for every item of a list."""
    each = ""
    if given.type == "for_each":
        loop = _loop(plan, given)
        if loop is None:
            return None
        given, each = loop
        inner = actions(plan, given.at("actions"), given.get("actions"), state, depth + 1)
        branches: tuple[Branch, ...] = (Branch("each", inner),)
    elif "branches" in given:
        if "actions" in given and given.path[-1:] != (state,):
            given.say("actions", "a parallel action has `actions` or `branches`, not both")
        branches = tuple(_branches(plan, given.at("branches"), given["branches"], state, depth))
    else:
        inner = actions(plan, given.at("actions"), given.get("actions"), state, depth + 1)
        if len(inner) > BRANCHES_MAX:
            hint = "use `for_each` to go through a list"
            given.say("actions", f"more than {BRANCHES_MAX} actions side by side", hint)
            return None
        branches = tuple(Branch(action.id, (action,)) for action in inner)
    if not branches or (each and not branches[0].actions):
        if not plan.page.is_sound:
            return None  # what would have been there is wrong, and that has been said
        plan.page.say(given.path, f"`{id}` has nothing to do", "give it `actions`" if each else "give it `branches`")
        return None
    join = given.get("join", "all")
    if isinstance(join, int) and not each and join > len(branches):
        given.say("join", f"join {join} can never be reached: there are {len(branches)} branches")
        join = "all"
    return lean(
        Action,
        id=id,
        effect="branches",
        branches=branches,
        each=each,
        join=join,
        fail_fast=given.get("fail_fast", False),
        at_once=given.get("concurrency", 0),
        tolerate=given.get("tolerate", 0),
        when=given.get("when", ""),
    )


def _loop(plan: MachinePlan, given: Fields) -> tuple[Fields, str] | None:
    """The three ways to write a loop as one: `items` beside `actions`, `for_each: LIST`, `for_each: {items, …}`."""
    found = given.get("for_each")
    if isinstance(found, dict):
        inner = fields(plan.page, given.at("for_each"), found, "action", "`for_each`", "for_each")
        if inner is None:
            return None
        for key in given.said - {"id", "type", "description", "when", "for_each"}:
            given.say(key, f"`{key}` belongs inside `for_each` here, beside `items`")
        if "when" in given:
            inner.values = {**inner.values, "when": given["when"]}
        given, found = inner, None
    key = "items" if found is None else "for_each"
    found = given.get("items") if found is None else found
    if found is None:
        if not {"items", "for_each"} & given.said:
            plan.page.say(given.path, "a `for_each` needs `items`", 'a list, or an expression: "{{ context.files }}"')
        return None
    if isinstance(found, str):
        return given, found
    text = _literal(found)
    if text is None or not plan.page.template(given.at(key), text):
        if text is None:
            hint = "use one expression for the whole list"
            given.say(key, "a list that is written out holds only plain values", hint)
        return None
    return given, text


def _literal(value: list[Any]) -> str | None:
    """A written-out list as an expression; None when its texts hold expressions of their own."""

    def spelled(part: Any) -> str:
        if isinstance(part, list):
            return "[" + ", ".join(map(spelled, part)) + "]"
        if isinstance(part, dict):
            return "{" + ", ".join(f"{spelled(key)}: {spelled(inner)}" for key, inner in part.items()) + "}"
        if isinstance(part, str):
            if any(mark in part for mark in (*MARKS, "}}")):
                raise ValueError(part)
            return "'" + part.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n") + "'"
        return "none" if part is None else str(part).lower()

    try:
        return "{{ " + spelled(value) + " }}"
    except ValueError:
        return None


def _branches(plan: MachinePlan, path: Route, value: Any, state: str, depth: int) -> Iterable[Branch]:
    """Branches by name, or a list of them in which each may say its name, as `id` or as `name`."""
    if isinstance(value, list):
        named = [(_branch_name(one, number), one, (*path, number - 1)) for number, one in enumerate(value, 1)]
    elif isinstance(value, dict):
        named = [(name, one, (*path, name)) for name, one in value.items()]
    else:
        plan.page.say(path, "`branches` must be a mapping from names to lists of actions")
        return
    if len(named) > BRANCHES_MAX:
        plan.page.say(path, f"more than {BRANCHES_MAX} branches", "use `for_each` to go through a list")
        return
    seen: set[str] = set()
    for name, one, place in named:
        if not check_name(plan.page, place, name, "the branch", at_key=isinstance(value, dict)):
            continue
        if name in seen:
            plan.page.say(place, f"the branch `{name}` is there twice")
            continue
        seen.add(name)
        found = _branch(plan, place, one, name, state, depth)
        if found:
            yield Branch(name, found)


def _branch_name(value: Any, number: int) -> Any:
    said = [value[key] for key in NAMING if key in value] if isinstance(value, dict) else []
    return said[0] if said else f"branch_{number}"


def _branch(plan: MachinePlan, path: Route, value: Any, name: str, state: str, depth: int) -> tuple[Action, ...]:
    """A branch is a list of actions, or a small workflow with states of its own."""
    if isinstance(value, dict):
        for key in NAMING if "id" in value else ():
            if value.get(key, name) != name:
                both = f"the branch is called both `{name}` and `{cut(value[key])}`"
                plan.page.say((*path, key), both, "one name is enough")
        value = {key: inner for key, inner in value.items() if key not in NAMING}
        if "states" in value:
            return _compile_nested(plan, path, value, name)
        if set(value) != {"actions"}:
            plan.page.say(path, f"the branch `{name}` must be a list of actions, or have `actions` or `states`")
            return ()
        path, value = (*path, "actions"), value["actions"]
    found = actions(plan, path, value, state, depth + 1)
    if not found and not value:
        plan.page.say(path, f"the branch `{name}` has nothing to do")
    return found


def _compile_nested(plan: MachinePlan, path: Route, value: dict[str, Any], name: str) -> tuple[Action, ...]:
    """States inside a branch run as a child that begins with our context; what it has changed there comes back."""
    made = plan.nest(plan, path, value, name)
    if made is None:
        return ()
    machine, inner = made
    plan.actions.setdefault(name, path)
    child = Action(name, "child", input={"machine": json.loads(machine.to_json()), "input": "{{ context }}"})
    back = []
    for written in inner.written:
        gave = f"result.{name}.output.{written}"
        changed = f"{{{{ {gave} != context.{written} }}}}"
        back.append(assignment(plan, f"{name}_{written}", written, f"{{{{ {gave} }}}}", changed))
    return (child, *back)
