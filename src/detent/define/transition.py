"""The transitions of a workflow file as rows of the table."""

from typing import Any

from detent.core.machine import Await, Transition
from detent.define.builtin_action import steps
from detent.define.compile_context import items
from detent.define.document import Route
from detent.define.grammar import ERROR, RETRY
from detent.define.key_check import Fields, fields
from detent.define.machine_builder import MachinePlan


def transitions(plan: MachinePlan, path: Route, value: Any) -> None:
    """Add a row for every transition, in the order of the file."""
    for number, (place, inner) in enumerate(items(plan.page, path, value, "`transitions`"), 1):
        given = fields(plan.page, place, inner, "transition", f"transition {number}")
        if given is not None:
            _transition(plan, given)


def _transition(plan: MachinePlan, given: Fields) -> None:
    source = plan.source(given.at("from"), given["from"]) if "from" in given else ""
    target = plan.target(given.at("to"), given["to"], may_retry=True) if "to" in given else ""
    then = steps(plan, given.at("on_transition"), given["on_transition"]) if "on_transition" in given else ()
    event, when = given.get("on", ""), given.get("condition", "")
    is_for_failures = event == ERROR
    if is_for_failures:
        event = ""
        _check_error(plan, given, source)
    if event:
        plan.events[event] = None
    is_broken = ("condition" in given.said and not when) or ("on" in given.said and "on" not in given)
    if not source or not target or is_broken:
        return
    is_retry = target == RETRY and RETRY not in plan.types
    if is_retry and source == "*":
        given.say("to", "`retry` enters the source again, and `*` is not a state", "name the state")
        return
    if event and plan.types.get(source) == "wait" and "duration" not in plan.states[source].said:
        when = _await_event(plan, source, event, when)
        event = ""
        is_open = False
    else:
        is_open = not event and (bool(when) or is_for_failures)  # without a condition it is for success
    row = Transition(
        source=source,
        target=source if is_retry else target,
        on=event,
        when="" if when == "true" else when,
        priority=given.get("priority", 0),
        then=then,
        even_failed=is_open,
        only_failed=is_for_failures,
        is_retry=is_retry,
    )
    plan.add(row, given.path)


def _check_error(plan: MachinePlan, given: Fields, source: str) -> None:
    """`on: error` takes failures; an event that is called `error` as well is asked for by its name."""
    if ERROR in plan.named_events.get(source, ()):
        hint = f"for the event write `condition: \"{{{{ result.{source}.event == 'error' }}}}\"`"
        plan.page.warn(given.at("on"), "`on: error` takes failures, not the event `error`", hint)


def _await_event(plan: MachinePlan, state: str, event: str, when: str) -> str:
    """A wait state takes the event itself, so that it is kept as the state's result; the row asks which one it was."""
    if event not in plan.named_events.get(state, ()):  # what `for` says of an event stands
        plan.awaited.setdefault(state, []).append(Await(event, when))
    asked = f"result.{state}.event == '{event}'"
    return f"{{{{ {asked} and ({inner(when)}) }}}}" if when else f"{{{{ {asked} }}}}"


def inner(condition: str) -> str:
    """A condition without its braces."""
    text = condition.strip()
    return text[2:-2].strip() if text.startswith("{{") and text.endswith("}}") else text
