"""The calls of Task states: which tool, with what, and how often."""

import re
from typing import Any, Protocol

from detent.define.value_check import mend_name

Place = tuple[str | int, ...]


class TaskPlace(Protocol):
    """What a call needs of the translation around it."""

    tools: set[str]

    def note(self, place: Place, message: str) -> None:
        """Tell what could not be carried over."""

    def error_types(self, given: dict[str, Any], place: Place) -> list[str]:
        """Error types by their names here."""

    def find_given(self, state: dict[str, Any], place: Place) -> Any:
        """What a state is given."""


def make_task(work: TaskPlace, state: dict[str, Any], name: str, place: Place) -> list[dict[str, Any]]:
    """The call of a Task, under the care it asks for."""
    tool, params = _tool(work, state, place)
    action: dict[str, Any] = {"id": name, "tool": tool}
    if params not in ({}, None):
        action["params"] = params
    if isinstance(state.get("TimeoutSeconds"), int):
        action["timeout"] = state["TimeoutSeconds"]
    retries = state.get("Retry") or []
    if retries:
        action |= {"effect": "idempotent", "retry": _retry(work, retries, place)}
    return [action]


def _retry(work: TaskPlace, retries: list[dict[str, Any]], place: Place) -> dict[str, Any]:
    first = retries[0]
    types = work.error_types(first, (*place, "Retry", 0))
    made: dict[str, Any] = {"max_retries": first.get("MaxAttempts", 3), **({"on": types} if types else {})}
    made |= {"delay": first.get("IntervalSeconds", 1), "factor": first.get("BackoffRate", 2.0)}
    if "MaxDelaySeconds" in first:
        made["max_delay"] = first["MaxDelaySeconds"]
    if len(retries) > 1:
        work.note((*place, "Retry"), "an action has one `retry`; only the first of these is kept")
    work.note((*place, "Retry"), "it is repeated after a failure, so its call is declared idempotent: check that")
    return made


def _tool(work: TaskPlace, state: dict[str, Any], place: Place) -> tuple[str, Any]:
    resource, params = str(state.get("Resource", "")), work.find_given(state, place)
    if "waitForTaskToken" in resource:
        work.note((*place, "Resource"), "it waits for a token: make that a wait state and a signal")
    function = re.search(r":(?:function|activity):([\w-]+)", resource)
    if "lambda:invoke" in resource and isinstance(params, dict) and "FunctionName" in params:
        called = str(params["FunctionName"])
        function = re.search(r"(?::function:)?([\w-]+)(?::[\w$-]+)?$", called)
        params = params.get("Payload", {})
    if "http:invoke" in resource and isinstance(params, dict) and "ApiEndpoint" in params:
        request = {"method": params.get("Method", "GET"), "url": params["ApiEndpoint"]}
        return "http", {**request, **({"json": params["RequestBody"]} if "RequestBody" in params else {})}
    tail = re.sub(r"\.(sync(:\d)?|waitForTaskToken)$", "", resource).rpartition(":::")[2] or resource
    tool = mend_name((function[1] if function else tail).replace("-", "_"))
    work.tools.add(tool)
    return tool, params
