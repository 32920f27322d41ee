"""A tool call: which tool, with what, and under which care."""

from typing import Any

from detent.core.machine import Action, Retry
from detent.define.approval import approval
from detent.define.grammar import ACTION, ERROR_TYPES
from detent.define.key_check import Fields, fields
from detent.define.machine_builder import MachinePlan, lean
from detent.define.rate import read_rate
from detent.define.tool import expand
from detent.define.value_check import Spot, numbers, seconds

TOLERANT = {"ok_exit": "shell", "ok_status": "http"}  # whose answers each widens
SANDBOX = ("sandbox", "paths", "network")
STARTS_PROGRAMS = ("shell", "python")
CARE = frozenset(
    {"side_effect", "approval", "when", "timeout", "retry", "key", "scope", "repeat", "on_repeat", "rate", "probe"}
)


def call(plan: MachinePlan, given: Fields, id: str, state: str) -> Action | None:
    """A tool call: which tool, with what, and under which care."""
    named = [key for key in ("tool", "python", "workflow") if key in given.said]
    if len(named) != 1:
        hint = f"it has {' and '.join(f'`{key}`' for key in named)}" if named else "the tool to call, by name"
        plan.page.say(given.path, "a `tool_call` needs one of `tool`, `python` and `workflow`", hint)
        return None
    if named[0] not in given:
        return None
    pace = ""
    if named[0] == "tool" and (tool := plan.page.tools.get(given["tool"])) is not None:
        own = given.values
        expanded = expand(given, tool)
        if expanded is None:
            return None
        plan.page.called.setdefault(id, set()).add(tool.name)
        given, named = expanded, ["python" if tool.kind == "python" else "tool"]
        pace = tool.name if "rate" in tool.care and "rate" not in own else ""
    effect, input = _target(plan, given, named[0])
    if not plan.retries and effect != "ask" and CARE.isdisjoint(given.values):
        kind = given.get("effect")  # most calls say no more than this
        return Action(id, effect, input, kind) if kind else Action(id, effect, input)
    rate, per_s = read_rate(given)
    return lean(
        Action,
        id=id,
        effect=effect,
        input=input,
        rate=rate,
        per_s=per_s,
        pace=f"tool {pace}" if pace else "",
        is_shared=bool(pace),
        probe=given.get("probe"),
        kind=given.get("effect", "irreversible" if given.get("side_effect") else ""),
        ask=approval(plan, given, id, state, is_needed=effect == "ask"),
        when=given.get("when", ""),
        timeout_s=seconds(plan.page, given.at("timeout"), given.get("timeout"), "timeout"),
        retry=_retry(plan, given) or (plan.retries.get(state) if effect != "ask" else None),
        key=_text(given, "key"),
        scope=given.get("scope", ""),
        repeat=_text(given, "repeat"),
        on_repeat=given.get("on_repeat", ""),
    )


def _target(plan: MachinePlan, given: Fields, key: str) -> tuple[str, Any]:
    params = given.get("params", {})
    if key == "tool":
        if "input" in given:
            given.say("input", "`input` is for a child workflow; a tool is given `params`")
        return str(given["tool"]), _add_sandbox(given, _tolerant(plan, given, params), str(given["tool"]))
    if key == "python":
        return "python", _add_sandbox(given, {"function": given["python"], "args": params}, "python")
    if "input" in given and "params" in given:
        given.say("input", "`input` and `params` are the same for a child workflow; write one of them")
    machine = plan.find_child(plan.page, given.at("workflow"), str(given["workflow"]))
    return "child", {"machine": machine or {}, "input": given.get("input", params)}


def _tolerant(plan: MachinePlan, given: Fields, params: Any) -> Any:
    """What the tool is given, with the answers that are no failures; these are checked wherever they stand."""
    for key, tool in TOLERANT.items():
        is_inside = isinstance(params, dict) and key in params
        if is_inside and given["tool"] == tool and not _is_expression(params[key]):
            spot = Spot(plan.page, (*given.at("params"), key), ACTION[key], key)
            numbers(spot, params[key])
        if key not in given:
            continue
        if given["tool"] != tool:
            given.say(key, f"`{key}` is for the tool `{tool}`")
        elif is_inside:
            given.say(key, f"`{key}` stands here and under `params`", "write it once")
        elif not isinstance(params, dict):
            given.say(key, "`params` is an expression here", f"let it give `{key}` too")
        else:
            params = {**params, key: given[key]}
    return params


def _add_sandbox(given: Fields, params: Any, tool: str) -> Any:
    """What the tool is given, with the sandbox that its program is to run in."""
    said = [key for key in SANDBOX if key in given]
    if not said:
        return params
    if tool not in STARTS_PROGRAMS:
        given.say(said[0], f"`{said[0]}` is for `shell` and `python`", f"`{tool}` starts no program of yours")
        return params
    if not isinstance(params, dict):
        given.say(said[0], "`params` is an expression here", f"let it give `{said[0]}` too")
        return params
    for key in said:
        if key in params:
            given.say(key, f"`{key}` stands here and under `params`", "write it once")
    _check_paths(given)
    return {**params, **{key: given[key] for key in said}}


def _check_paths(given: Fields) -> None:
    """Paths are texts in lists under `read` and `write`."""
    for name, places in given.get("paths", {}).items():
        if name not in ("read", "write"):
            given.say("paths", f"`paths` knows no `{name}`", "lists of paths under `read` and `write`")
        elif not isinstance(places, list) or not all(isinstance(place, str) and place for place in places):
            given.say("paths", f"`{name}` of `paths` must be a list of paths")


def _is_expression(value: Any) -> bool:
    return isinstance(value, str) and "{{" in value


def _text(given: Fields, key: str) -> str:
    """A text with expressions; a number will do where a text is wanted."""
    value: Any = given.get(key, "")
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return given.page.as_written(given.at(key))
    if isinstance(value, str):
        return value
    given.say(key, f"`{key}` must be a text")
    return ""


def _retry(plan: MachinePlan, given: Fields) -> Retry | None:
    if "retry" not in given:
        return None
    wanted = fields(plan.page, given.at("retry"), given["retry"], "retry", "`retry`")
    if wanted is None:
        return None
    for one in wanted.get("on", ()):
        if one.partition(".")[0] not in ERROR_TYPES:
            wanted.say("on", *plan.page.unknown("error type", one, ERROR_TYPES))
    return backoff(plan, wanted, wanted.get("on", ()))


def backoff(plan: MachinePlan, given: Fields, on: tuple[str, ...]) -> Retry:
    """Further attempts as a handler or an action wishes them."""
    page = plan.page
    return lean(
        Retry,
        limit=given.get("max_retries", 3),
        on=on,
        delay_s=seconds(page, given.at("delay"), given.get("delay", 1.0), "delay"),
        factor=float(given.get("factor", 2.0)),
        delay_s_max=seconds(page, given.at("max_delay"), given.get("max_delay", 60.0), "max_delay"),
    )
