"""A state machine in Amazon States Language as a workflow of `states:`, with a note for all that it cannot say.

`$` is the run's context where results are only added to it; where a state replaces the whole document, the document is
kept in `context.doc`.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from detent.define.asl.choice_rule import condition
from detent.define.asl.path_expression import NotCarried, Paths, brace
from detent.define.value_check import mend_name
from detent.errors import DefinitionError

TYPES = ("Pass", "Task", "Choice", "Wait", "Succeed", "Fail", "Parallel", "Map")
ERRORS = {
    "States.ALL": "",
    "States.TaskFailed": "tool_failure",
    "States.Timeout": "timeout",
    "States.HeartbeatTimeout": "timeout",
    "States.Permissions": "tool_failure",
    "States.NoChoiceMatched": "no_transition",
    "States.BranchFailed": "branch_failed",
}
DONE, START = "done", "start"
Place = tuple[str | int, ...]


class AslNote(NamedTuple):
    """Something that could not be carried over, or is not quite the same, and where it stands."""

    place: str
    message: str


class Translated(NamedTuple):
    """The workflow as data, and what there is to say of it."""

    workflow: dict[str, Any]
    notes: tuple[AslNote, ...]
    tools: tuple[str, ...]  # that somebody must provide


def translate_asl(document: Any, name: str) -> Translated:
    """Translate a whole state machine."""
    if not isinstance(document, dict) or "States" not in document or "StartAt" not in document:
        raise DefinitionError("this is no state machine: it needs `StartAt` and `States`", name)
    if document.get("QueryLanguage") == "JSONata":
        raise DefinitionError("this machine is written in JSONata; only JSONPath can be carried over", name)
    work = _Translation(document)
    made: dict[str, Any] = {"name": mend_name(name)}
    if document.get("Comment"):
        made["description"] = str(document["Comment"])
    if isinstance(document.get("TimeoutSeconds"), int):
        made["limits"] = {"max_duration": document["TimeoutSeconds"]}
    made |= work.machine(document, ())
    if work.root != "context":
        made["states"][START]["actions"] = [{"type": "set_variable", "name": "doc", "value": "{{ context }}"}]
        made["output"] = brace(work.root)
    return Translated(made, tuple(work.notes), tuple(sorted(work.tools)))


class _Translation:
    def __init__(self, document: dict[str, Any]) -> None:
        self.root = "context.doc" if any(_replaces(state) for state in _all_states(document)) else "context"
        self.paths = Paths(self.root)
        self.notes: list[AslNote] = []
        self.tools: set[str] = set()
        self.ids: set[str] = set()

    def note(self, place: Place, message: str) -> None:
        self.notes.append(AslNote("$" + "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in place), message))

    def machine(self, document: dict[str, Any], place: Place) -> dict[str, Any]:
        """States and transitions of a machine, of a branch or of an iterator."""
        given: dict[str, Any] = document.get("States") or {}
        names = _names(given)
        states: dict[str, Any] = {START: {"type": "initial"}}
        rows: list[dict[str, Any]] = []
        if document.get("StartAt") in names:
            rows.append({"from": START, "to": names[document["StartAt"]]})
        else:
            self.note((*place, "StartAt"), f"there is no state `{document.get('StartAt')}`")
        for name, state in given.items():
            here = (*place, "States", name)
            if not isinstance(state, dict) or state.get("Type") not in TYPES:
                self.note(here, f"the type `{state.get('Type') if isinstance(state, dict) else state}` is not known")
                continue
            states[names[name]] = self._state(state, names[name], names, rows, here)
        if any(row["to"] == DONE for row in rows):
            states[DONE] = {"type": "final"}
        return {"states": states, "transitions": rows}

    def _state(
        self, state: dict[str, Any], name: str, names: dict[str, str], rows: list[dict[str, Any]], place: Place
    ) -> dict[str, Any]:
        made: dict[str, Any] = {"description": state["Comment"]} if state.get("Comment") else {}
        self._check_keys(state, place)
        match state["Type"]:
            case "Succeed":
                return {"type": "final", **made}
            case "Fail":
                said = ": ".join(str(state[key]) for key in ("Error", "Cause") if state.get(key))
                logged = [{"type": "log", "level": "error", "message": said}] if said else []
                return {"type": "error", **made, **({"actions": logged} if logged else {})}
            case "Choice":
                self._choice(state, name, names, rows, place)
                return made
            case "Wait":
                made |= {"type": "wait", **self._wait(state, place)}
            case "Pass":
                made["actions"] = self._pass(state, place)
            case "Task":
                made["actions"] = [*self._task(state, name, place), *self._keep(state, f"result.{name}", place)]
            case "Parallel":
                made |= self._parallel(state, name, place)
            case "Map":
                made["actions"] = self._map(state, name, place)
        self._leave(state, name, names, rows, place)
        return {key: value for key, value in made.items() if value not in ([], {})}

    def _check_keys(self, state: dict[str, Any], place: Place) -> None:
        if state.get("OutputPath", "$") != "$":
            self.note((*place, "OutputPath"), "the document is not cut down to a part of it")
        if "HeartbeatSeconds" in state or "HeartbeatSecondsPath" in state:
            self.note((*place, "HeartbeatSeconds"), "there is no heartbeat; `timeout` bounds the whole call")
        if "Credentials" in state:
            self.note((*place, "Credentials"), "credentials are the tool's own business")

    def _leave(
        self, state: dict[str, Any], name: str, names: dict[str, str], rows: list[dict[str, Any]], place: Place
    ) -> None:
        for number, catch in enumerate(state.get("Catch") or ()):
            self._catch(catch, name, names, rows, (*place, "Catch", number))
        target = DONE if state.get("End") else names.get(str(state.get("Next")))
        if target is None:
            self.note((*place, "Next"), f"there is no state `{state.get('Next')}`")
        else:
            rows.append({"from": name, "to": target})

    def _catch(
        self, catch: dict[str, Any], name: str, names: dict[str, str], rows: list[dict[str, Any]], place: Place
    ) -> None:
        types = self._errors(catch, place)
        row: dict[str, Any] = {"from": name, "to": names.get(str(catch.get("Next")), DONE), "on": "error"}
        if types:
            dotted = " or ".join(f"error.type == '{one}' or '{one}.' in error.type" for one in types)
            row["condition"] = brace(dotted)
        path = catch.get("ResultPath")
        if isinstance(path, str) and (variable := self._variable(path, (*place, "ResultPath"))):
            row["on_transition"] = [{"action": "set_variable", "variable": variable, "value": "{{ error }}"}]
        rows.append(row)

    def _errors(self, given: dict[str, Any], place: Place) -> list[str]:
        """Error types by their names here; none for all of them."""
        types: list[str] = []
        for one in given.get("ErrorEquals") or ():
            if one == "States.ALL":
                return []
            if one not in ERRORS:
                self.note((*place, "ErrorEquals"), f"`{one}` is a name of the tool's; every `tool_failure` is taken")
            types.append(ERRORS.get(one, "tool_failure"))
        return list(dict.fromkeys(types))

    def _variable(self, path: str, place: Place) -> str:
        """The variable that a ResultPath means; nothing after a note."""
        inside = "doc." if self.root != "context" else ""
        if path == "$":
            return inside.rstrip(".")
        found = re.fullmatch(r"\$\.([A-Za-z]\w*)", path)
        if found is None or inside:
            self.note(place, f"a result is not kept at `{path}`; it is `result.NAME` of its action")
            return ""
        return found[1]

    def _keep(self, state: dict[str, Any], source: str, place: Place) -> list[dict[str, Any]]:
        """What is done with a result: chosen from, and kept in the document."""
        path = state.get("ResultPath", "$")
        if path is None:
            return []
        value: Any = brace(source)
        if "ResultSelector" in state:
            value = self._guard(lambda: self.paths.template(state["ResultSelector"], source), place, "ResultSelector")
        name = self._variable(str(path), (*place, "ResultPath"))
        return [{"type": "set_variable", "name": name, "value": value}] if name else []

    def _guard(self, make: Any, place: Place, key: str) -> Any:
        try:
            return make()
        except NotCarried as error:
            self.note((*place, key), str(error))
            return None

    def _find_given(self, state: dict[str, Any], place: Place) -> Any:
        """What a task is given: its parameters, or the document as far as InputPath takes it."""
        for key in ("Parameters", "ItemSelector", "Arguments"):
            if key in state:
                return self._guard(lambda key=key: self.paths.template(state[key]), place, key) or {}
        path = state.get("InputPath", "$")
        if path is None:
            return {}
        found = self._guard(lambda: self.paths.expression(str(path)), place, "InputPath")
        return brace(found) if found else {}

    def _task(self, state: dict[str, Any], name: str, place: Place) -> list[dict[str, Any]]:
        tool, params = self._tool(state, place)
        action: dict[str, Any] = {"id": name, "tool": tool}
        if params not in ({}, None):
            action["params"] = params
        if isinstance(state.get("TimeoutSeconds"), int):
            action["timeout"] = state["TimeoutSeconds"]
        elif "TimeoutSecondsPath" in state:
            self.note((*place, "TimeoutSecondsPath"), "a time-out must be known when the file is loaded")
        retries = state.get("Retry") or []
        if retries:
            action |= {"effect": "idempotent", "retry": self._retry(retries, place)}
        return [action]

    def _retry(self, retries: list[dict[str, Any]], place: Place) -> dict[str, Any]:
        first = retries[0]
        types = self._errors(first, (*place, "Retry", 0))
        made: dict[str, Any] = {"max_retries": first.get("MaxAttempts", 3), **({"on": types} if types else {})}
        made |= {"delay": first.get("IntervalSeconds", 1), "factor": first.get("BackoffRate", 2.0)}
        if "MaxDelaySeconds" in first:
            made["max_delay"] = first["MaxDelaySeconds"]
        if len(retries) > 1:
            self.note((*place, "Retry"), "an action has one `retry`; only the first of these is kept")
        self.note((*place, "Retry"), "it is repeated after a failure, so its call is declared idempotent: check that")
        return made

    def _tool(self, state: dict[str, Any], place: Place) -> tuple[str, Any]:
        resource, params = str(state.get("Resource", "")), self._find_given(state, place)
        if "waitForTaskToken" in resource:
            self.note((*place, "Resource"), "it waits for a token: make that a wait state and a signal")
        function = re.search(r":function:([\w-]+)", resource)
        if "lambda:invoke" in resource and isinstance(params, dict) and "FunctionName" in params:
            called = str(params["FunctionName"])
            function = re.search(r"(?::function:)?([\w-]+)(?::[\w$-]+)?$", called)
            params = params.get("Payload", {})
        if "http:invoke" in resource and isinstance(params, dict) and "ApiEndpoint" in params:
            request = {"method": params.get("Method", "GET"), "url": params["ApiEndpoint"]}
            return "http", {**request, **({"json": params["RequestBody"]} if "RequestBody" in params else {})}
        tail = re.sub(r"\.(sync(:\d)?|waitForTaskToken)$", "", resource).rpartition(":::")[2] or resource
        tool = mend_name((function[1] if function else tail).replace("-", "_"))
        self.tools.add(tool)
        return tool, params

    def _pass(self, state: dict[str, Any], place: Place) -> list[dict[str, Any]]:
        if "Result" not in state and "Parameters" not in state:
            return []
        value = state["Result"] if "Result" in state else self._find_given(state, place)
        path = str(state.get("ResultPath", "$"))
        variable = self._variable(path, (*place, "ResultPath")) if state.get("ResultPath", "$") is not None else ""
        return [{"type": "set_variable", "name": variable, "value": value}] if variable else []

    def _wait(self, state: dict[str, Any], place: Place) -> dict[str, Any]:
        if isinstance(state.get("Seconds"), int):
            return {"duration": state["Seconds"]}
        if "SecondsPath" in state:
            found = self._guard(lambda: self.paths.expression(str(state["SecondsPath"])), place, "SecondsPath")
            return {"duration": brace(found) if found else 0}
        self.note(place, "it waits for a moment of the calendar; expressions have no clock, so it does not wait")
        return {"duration": 0}

    def _choice(
        self, state: dict[str, Any], name: str, names: dict[str, str], rows: list[dict[str, Any]], place: Place
    ) -> None:
        for number, rule in enumerate(state.get("Choices") or ()):
            here = (*place, "Choices", number)
            said = self._guard(lambda rule=rule: condition(rule, self.paths), here, "Variable")
            target = names.get(str(rule.get("Next")))
            if said and target:
                rows.append({"from": name, "to": target, "condition": brace(said)})
        if state.get("Default") in names:
            rows.append({"from": name, "to": names[state["Default"]], "condition": "{{ true }}"})

    def _parallel(self, state: dict[str, Any], name: str, place: Place) -> dict[str, Any]:
        branches = {}
        for number, branch in enumerate(state.get("Branches") or ()):
            branches[f"branch_{number + 1}"] = self.machine(branch, (*place, "Branches", number))
        kept = self._keep(state, f"result.{name}.branches | values", place)
        if kept:
            self.note(place, f"its results are `result.{name}.branches`, by name, and are not put into the document")
        return {"type": "parallel", "branches": branches}

    def _map(self, state: dict[str, Any], name: str, place: Place) -> list[dict[str, Any]]:
        inner = state.get("ItemProcessor") or state.get("Iterator") or {}
        items = self._guard(lambda: self.paths.expression(str(state.get("ItemsPath", "$"))), place, "ItemsPath")
        outer, self.paths = self.paths, Paths("item")
        try:
            actions = list(self._sequence(inner, (*place, "ItemProcessor" if "ItemProcessor" in state else "Iterator")))
        finally:
            self.paths = outer
        loop: dict[str, Any] = {"id": name, "type": "for_each", "items": brace(items or "[]"), "actions": actions}
        if state.get("MaxConcurrency"):
            loop["concurrency"] = state["MaxConcurrency"]
        if "ItemReader" in state or "ResultWriter" in state:
            self.note(place, "items are read from and written to the document only")
        return [loop, *self._keep(state, f"result.{name}.items", place)]

    def _sequence(self, machine: dict[str, Any], place: Place) -> Iterator[dict[str, Any]]:
        """The tasks of an iterator, one after the other; only a plain line of them can be done for each item."""
        states: dict[str, Any] = machine.get("States") or {}
        name, seen = machine.get("StartAt"), set()
        while name in states and name not in seen:
            seen.add(name)
            state, here = states[name], (*place, "States", name)
            if state.get("Type") == "Task":
                yield from self._task(state, mend_name(str(name)), here)
                if "Catch" in state:
                    self.note(
                        (*here, "Catch"), "inside a loop a failure ends the item; `tolerate` lets the others go on"
                    )
            elif state.get("Type") not in ("Pass", "Succeed"):
                self.note(
                    here, f"a `{state.get('Type')}` inside a Map has no counterpart; make it a workflow of its own"
                )
            name = None if state.get("End") else state.get("Next")


def _names(states: dict[str, Any]) -> dict[str, str]:
    """Every state's name as it can stand in a workflow file."""
    names: dict[str, str] = {}
    taken = {START, DONE, "retry", "error", "error_state"}
    for name in states:
        made = mend_name(name)
        while made in taken:
            made += "_"
        taken.add(made)
        names[name] = made
    return names


def _all_states(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for state in (document.get("States") or {}).values():
        if isinstance(state, dict):
            yield state
            for branch in state.get("Branches") or ():
                yield from _all_states(branch)


def _replaces(state: dict[str, Any]) -> bool:
    """Whether a state puts its result in the place of the whole document."""
    gives = state.get("Type") in ("Task", "Map") or (state.get("Type") == "Pass" and "Result" in state)
    return gives and state.get("ResultPath", "$") == "$" and not state.get("End")


def read_asl(text: str, name: str) -> Any:
    """The document of a file; JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DefinitionError(f"this is not JSON: {error}", name) from None
