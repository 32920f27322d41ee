"""The states of a workflow file: what is done in each, what it waits for, and where a run can end."""

from typing import Any

from detent.core.machine import Action, Await, Wait
from detent.define.action import actions, side_by_side
from detent.define.compile_context import kind_of
from detent.define.document import Route
from detent.define.grammar import IMPLICIT_ERRORS
from detent.define.key_check import Fields, fields
from detent.define.machine_builder import ENDS, MachinePlan
from detent.define.value_check import check_name, seconds

STATES_MAX = 2_000


def declare(plan: MachinePlan, path: Route, value: Any) -> None:
    """Find out which states there are, of which type, and where a run begins."""
    if not isinstance(value, dict):
        if value is not None:
            plan.page.say(path, f"`states` must be a mapping from names to states, not {kind_of(value)}")
        value = {}
    if not value and plan.page.is_sound:
        plan.page.say(path, "there are no states", "write at least `start: {type: initial}`")
    if len(value) > STATES_MAX:
        plan.page.say(path, f"more than {STATES_MAX:,} states", "let parts of it be workflows of their own")
        value = {}
    for name, inner in value.items():
        place = (*path, name)
        state = fields(plan.page, place, inner, "state", f"state `{name}`")
        if check_name(plan.page, place, name, "the state", at_key=True) and state is not None:
            plan.states[name] = state
            plan.types[name] = state.type or "normal"
            if name in IMPLICIT_ERRORS and state.type not in ("error", "final", ""):
                plan.page.warn(place, f"`{name}` is not an end here, as it is where it is not declared", at_key=True)
    _begin(plan, path)


def _begin(plan: MachinePlan, path: Route) -> None:
    initial = [state for state, type in plan.types.items() if type == "initial"]
    if len(initial) > 1:
        first = plan.page.places.key(plan.path_of(initial[0]))[0]
        for state in initial[1:]:
            message = f"a second initial state: `{initial[0]}` in line {first} is one already"
            plan.page.say((*plan.path_of(state), "type"), message, "only one state is where a run begins")
    elif not initial and plan.is_fragment and plan.types:
        initial = [next(iter(plan.types))]
    elif not initial and plan.types:
        plan.page.say(
            path, "no state is `type: initial`", "say where a run begins, or load it as a fragment (`--fragment`)"
        )
    plan.initial = initial[0] if initial else ""


def waits(plan: MachinePlan) -> None:
    """Read what the wait states wait for; transitions with `on` add to it later."""
    for name, state in plan.states.items():
        if state.type != "wait":
            continue
        plan.awaited[name] = list(_awaits(plan, state))
        plan.named_events[name] = {one.event for one in plan.awaited[name]}
        plan.events.update(dict.fromkeys(one.event for one in plan.awaited[name]))


def _awaits(plan: MachinePlan, state: Fields) -> list[Await]:
    if "for" not in state:
        return []
    value, path = state["for"], state.at("for")
    found = []
    for index, one in enumerate(value if isinstance(value, list) else [value]):
        place = (*path, index) if isinstance(value, list) else path
        given = fields(plan.page, place, {"event": one} if isinstance(one, str) else one, "await", "`for`")
        if given is not None and "event" in given:
            found.append(Await(given["event"], given.get("match", "")))
    if not found and isinstance(value, list) and not value:
        state.say("for", "`for` names no event")
    return found


def work(plan: MachinePlan) -> None:
    """Compile what is done in every state."""
    has_way = {row.source for row in plan.rows}
    for name, state in plan.states.items():
        if state.get("variables"):
            plan.local[name] = state["variables"]
        type = state.type or "normal"
        only = ("set_variable", "log") if type in ENDS else ()
        done = actions(plan, state.at("actions"), state.get("actions"), name, only=only)
        if type == "wait":
            done = (*done, *_wait(plan, name, state))
        elif type == "parallel":
            spread = side_by_side(plan, state, name, name, 0) if "branches" in state else None
            if "branches" not in state.said:
                plan.page.say(state.path, f"the parallel state `{name}` needs `branches`")
            done = (*done, spread) if spread is not None else done
        if type in ("wait", "parallel"):
            if name in [action.id for action in done[:-1]]:
                state.say("actions", f"the action id `{name}` is taken: the state's own result is kept under it")
            plan.actions.setdefault(name, state.path)
        if type not in ENDS and type != "wait" and "timeout" in state:
            plan.timeouts_s[name] = seconds(plan.page, state.at("timeout"), state["timeout"], "timeout")
        if done or (name not in has_way and type not in ENDS):
            plan.work[name] = done


def _wait(plan: MachinePlan, name: str, state: Fields) -> tuple[Action, ...]:
    """The wait itself: an action called like its state, so that what came is `result.STATE`."""
    events = tuple(plan.awaited.get(name, ()))
    has_exit = bool(plan.left_on & {name, "*"})
    if "duration" in state.said:
        if "for" in state.said or "timeout" in state.said:
            other = "for" if "for" in state.said else "timeout"
            state.say(other, f"a wait has `duration`, or `for` with a `timeout`, not `duration` and `{other}`")
        return (Action(name, "wait", wait=Wait(duration_s=state.get("duration") or 0.001)),)
    if not events:
        if "for" not in state.said and not has_exit:
            hint = "give it `for`, a `duration`, or a transition with `on`"
            plan.page.say(state.path, f"the wait state `{name}` waits for nothing", hint)
        if "timeout" in state:
            plan.timeouts_s[name] = seconds(plan.page, state.at("timeout"), state["timeout"], "timeout")
        return ()
    return (Action(name, "wait", wait=Wait(events=events, timeout_s=state.get("timeout", 0))),)
