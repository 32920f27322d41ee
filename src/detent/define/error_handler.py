"""The error handlers of a workflow file as rows for failures, and as further attempts of the actions that fail.

Order after a failure: handlers that name its type (the state's own before those for `*`), then the transitions, then
handlers without a type. The table keeps that order by itself: a row for `*` comes after a state's own rows.
"""

from typing import Any, NamedTuple

from msgspec.structs import replace

from detent.core.machine import Action, Retry, Transition
from detent.define.builtin_action import line
from detent.define.compile_context import items
from detent.define.document import Route
from detent.define.key_check import Fields, fields
from detent.define.machine_builder import MachinePlan
from detent.define.tool_call import backoff

HANDLERS_MAX = 200
LEVELS = {"log_error": "error", "notify_requester": "notify", "kill_workflow": "error"}
MESSAGE = "{{ run.state }}: {{ error.type }}: {{ error.message }}"


class Handler(NamedTuple):
    """One handler as it is meant."""

    state: str
    error: str  # "*": whatever nothing else takes
    action: str
    fallback: str
    then: tuple[Action, ...]
    retry: Retry | None
    path: Route

    def row(self, state: str) -> Transition:
        """The row for a state; one that leads nowhere else ends the run as failed where it is."""
        is_stuck = self.fallback in ("", state)
        target = state if is_stuck else self.fallback
        is_kill = is_stuck or self.action == "kill_workflow"
        return Transition(state, target, error=self.error, then=self.then, is_kill=is_kill)

    def takes(self, error: str) -> bool:
        """Whether it takes every error of this type."""
        return self.error in ("*", error) or error.startswith(self.error + ".")


def handlers(plan: MachinePlan, path: Route, value: Any) -> list[Handler]:
    """Read all handlers, and find out which actions are tried again."""
    found: list[Handler] = []
    if isinstance(value, list) and len(value) > HANDLERS_MAX:
        plan.page.say(path, f"more than {HANDLERS_MAX} error handlers")
        return []
    for number, (place, inner) in enumerate(items(plan.page, path, value, "`error_handlers`"), 1):
        given = fields(plan.page, place, inner, "handler", f"error handler {number}")
        handler = _handler(plan, given) if given is not None else None
        if handler is not None:
            found.append(handler)
    if any(handler.retry is not None for handler in found):
        for state in plan.busy:
            _again(plan, state, [h for h in found if h.state in (state, "*")])
    return found


def catch(plan: MachinePlan, found: list[Handler]) -> None:
    """Add the rows of all handlers."""
    for handler in found:
        if handler.state != "*":
            plan.add(handler.row(handler.state), handler.path)
    for is_typed in (True, False):
        _spread(plan, [h for h in found if h.state == "*" and (h.error != "*") is is_typed])


def _handler(plan: MachinePlan, given: Fields) -> Handler | None:
    state = _watched_state(plan, given)
    fallback = ""
    if "fallback_state" in given:
        fallback = plan.target(given.at("fallback_state"), given["fallback_state"])
    if not state or not given.type or ("error_type" in given.said and "error_type" not in given):
        return None
    level = LEVELS.get(given.type)
    message = given.get("message", MESSAGE)
    error = given.get("error_type", "*")
    is_retry = given.type == "retry_with_backoff"
    return Handler(
        state=state,
        error=error,
        action=given.type,
        fallback=fallback,
        then=(line(given.type, message, level),) if level else (),
        retry=backoff(plan, given, () if error == "*" else (error,)) if is_retry else None,
        path=given.path,
    )


def _watched_state(plan: MachinePlan, given: Fields) -> str:
    if "on_state" not in given.said:
        return "*"
    state = given.get("on_state", "")
    if state and plan.is_fragment and state != "*" and state not in plan.types:
        plan.page.warn(given.at("on_state"), f"`{state}` is not in this fragment; the handler is left out")
        return ""
    return plan.source(given.at("on_state"), state) if state else ""


def _spread(plan: MachinePlan, starred: list[Handler]) -> None:
    """Rows for `*`; a state for which one of them is special gets all of them by name, so that their order stays."""
    special = [s for s in plan.busy if any(handler.fallback in ("", s) for handler in starred)]
    for state in special:
        for handler in starred:
            plan.add(handler.row(state), handler.path)
    if len(special) < len(plan.busy):
        for handler in starred:
            plan.add(handler.row("*"), handler.path)


def _again(plan: MachinePlan, state: str, found: list[Handler]) -> None:
    """The further attempts of a state's actions: those of the handlers that come first for what they take."""
    in_order = sorted(found, key=lambda h: (h.error == "*", h.state == "*"))
    wanted: list[Retry] = []
    for place, handler in enumerate(in_order):
        if handler.retry is not None and not any(before.takes(handler.error) for before in in_order[:place]):
            wanted.append(replace(handler.retry, is_last=True) if handler.error == "*" else handler.retry)
    if wanted:
        plan.retries[state] = wanted[0] if len(wanted) == 1 else tuple(wanted)
