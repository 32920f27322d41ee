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
from detent.define.asl.state_keys import ERRORS, EVERYWHERE, KEYS, SPLIT, TYPES, WHY
from detent.define.asl.task_call import Place, make_task
from detent.define.steps.reference import quote
from detent.define.value_check import mend_name
from detent.errors import DefinitionError

DONE, START = "done", "start"
PASSING = ("Choice", "Wait", "Succeed")
NOTHING = {"type": "log", "message": "{{ item | tojson }}"}
NAMES = re.compile(r"\$((?:\.[A-Za-z]\w*)+)")


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
        raise DefinitionError("this is not a state machine: it needs `StartAt` and `States`", name)
    if document.get("QueryLanguage") == "JSONata":
        raise DefinitionError("this machine is written in JSONata; only JSONPath can be carried over", name)
    work = _Translation(document)
    made: dict[str, Any] = {"name": mend_name(name)}
    if document.get("Comment"):
        made["description"] = str(document["Comment"])
    if isinstance(document.get("TimeoutSeconds"), int):
        made["limits"] = {"max_duration": document["TimeoutSeconds"]}
    made |= work.machine(document, (), "{{ context }}")
    if work.paths.root != "context":
        made["output"] = brace(work.paths.root)
    whole = json.loads(json.dumps(made))  # no value stands at two places: YAML would write an alias
    return Translated(whole, tuple(work.notes), tuple(sorted(work.tools)))


class _Translation:
    def __init__(self, document: dict[str, Any]) -> None:
        self.paths = Paths("context.doc" if any(_replaces(state) for state in _all_states(document)) else "context")
        self.notes: list[AslNote] = []
        self.tools: set[str] = set()
        self.ids: set[str] = set()

    def note(self, place: Place, message: str) -> None:
        self.notes.append(AslNote("$" + "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in place), message))

    def machine(self, document: dict[str, Any], place: Place, begins_with: Any) -> dict[str, Any]:
        """States and transitions of a machine or of a branch; `begins_with` is its document, where that is its own."""
        given: dict[str, Any] = document.get("States") or {}
        names = _names(given)
        own = [_set(self._root_name(), begins_with)] if self._root_name() else []
        states: dict[str, Any] = {START: {"type": "initial", **({"actions": own} if own else {})}}
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

    def _root_name(self) -> str:
        """The variable that holds the document; none where that is the context itself."""
        return self.paths.root.partition(".")[2]

    def _state(
        self, state: dict[str, Any], name: str, names: dict[str, str], rows: list[dict[str, Any]], place: Place
    ) -> dict[str, Any]:
        made: dict[str, Any] = {"description": state["Comment"]} if state.get("Comment") else {}
        self._check_keys(state, place)
        then: list[dict[str, Any]] = []  # what is set on the way out, where there are no actions
        match state["Type"]:
            case "Succeed":
                cut = self._pass_on(state, place)
                return {"type": "final", **made, **({"actions": cut} if cut else {})}
            case "Fail":
                return {"type": "error", **made, **self._fail(state, place)}
            case "Choice":
                self._choice(state, name, names, rows, place)
                return made
            case "Wait":
                made |= {"type": "wait", **self._wait(state, place)}
                then = self._pass_on(state, place)
            case "Pass":
                made["actions"] = [*self._pass(state, place), *self._narrow(state, place)]
            case "Task":
                kept = self._keep(state, _find_result(state, name), place)
                made["actions"] = [*make_task(self, state, name, place), *kept, *self._narrow(state, place)]
            case "Parallel":
                branches, then = self._parallel(state, name, place)
                made |= {"type": "parallel", "branches": branches}
                then += self._narrow(state, place)
            case "Map":
                made["actions"] = [*self._map(state, name, place), *self._narrow(state, place)]
        self._leave(state, name, names, rows, place, then)
        return {key: value for key, value in made.items() if value not in ([], {})}

    def _check_keys(self, state: dict[str, Any], place: Place) -> None:
        for key in state:
            if key not in EVERYWHERE | KEYS[state["Type"]]:
                self.note((*place, key), WHY.get(key, f"`{key}` is not carried over"))

    def _fail(self, state: dict[str, Any], place: Place) -> dict[str, Any]:
        said = []
        for key in ("Error", "Cause"):
            path = state.get(f"{key}Path")
            found = self._guard(lambda path=path: self.paths.expression(str(path)), place, f"{key}Path") if path else ""
            said += [brace(found)] if found else [str(state[key])] if state.get(key) else []
        return {"actions": [{"type": "log", "level": "error", "message": ": ".join(said)}]} if said else {}

    def _leave(
        self, state: dict[str, Any], name: str, names: dict[str, str], rows: list[dict[str, Any]], place: Place,
        then: list[dict[str, Any]],
    ) -> None:  # fmt: skip
        for number, catch in enumerate(state.get("Catch") or ()):
            row = self._catch(catch, name, names, (*place, "Catch", number), is_split=state.get("Type") in SPLIT)
            rows.append(row)
        target = DONE if state.get("End") else names.get(str(state.get("Next")))
        if target is None:
            self.note((*place, "Next"), f"there is no state `{state.get('Next')}`")
        else:
            rows.append({"from": name, "to": target, **({"on_transition": _on_the_way(then)} if then else {})})

    def _catch(
        self, catch: dict[str, Any], name: str, names: dict[str, str], place: Place, *, is_split: bool
    ) -> dict[str, Any]:
        wanted: list[str] = catch.get("ErrorEquals") or []
        own = [one for one in wanted if one not in ERRORS]
        types = self.error_types({"ErrorEquals": [one for one in wanted if one in ERRORS]}, place)
        if own:
            why = f"{', '.join(own)}: a name of the tool's, taken where the error's message has it"
            self.note((*place, "ErrorEquals"), why)
        if is_split and "tool_failure" in types:
            types.append("branch_failed")  # what a branch or an item failed with is inside of that
        row: dict[str, Any] = {"from": name, "to": names.get(str(catch.get("Next")), DONE), "on": "error"}
        if (types or own) and "States.ALL" not in wanted:
            said = [f"error.type == '{one}' or '{one}.' in error.type" for one in types]
            row["condition"] = brace(" or ".join([*said, *(f"{quote(one)} in error.message" for one in own)]))
        path = catch.get("ResultPath", "$")
        if path is not None and (variable := self._variable(str(path), (*place, "ResultPath"))):
            told = {"Error": "{{ error.type }}", "Cause": "{{ error.message }}"}
            row["on_transition"] = _on_the_way([_set(variable, told)])
        return row

    def error_types(self, given: dict[str, Any], place: Place) -> list[str]:
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
        """The variable that a ResultPath means; nothing after a note, and where the whole context is meant."""
        if path == "$":
            return self._root_name()
        found = NAMES.fullmatch(path)
        if found is None:
            self.note(place, f"a result is not kept at `{path}`; it is `result.NAME` of its action")
            return ""
        is_bare = self.paths.root == "context" and "." not in found[1][1:]
        return found[1][1:] if is_bare else f"{self.paths.root}{found[1]}"

    def _keep(self, state: dict[str, Any], source: Paths, place: Place) -> list[dict[str, Any]]:
        """What is done with a result: chosen from, and kept in the document."""
        path = state.get("ResultPath", "$")
        if path is None:
            return []
        name = self._variable(str(path), (*place, "ResultPath"))
        return [_set(name, self._select(state, source, place))] if name else []

    def _select(self, state: dict[str, Any], source: Paths, place: Place) -> Any:
        """What ResultSelector makes of a result."""
        if "ResultSelector" not in state:
            return source.whole()
        return self._template(source, state["ResultSelector"], (*place, "ResultSelector"))

    def _narrow(self, state: dict[str, Any], place: Place) -> list[dict[str, Any]]:
        """What OutputPath leaves of the document."""
        path = state.get("OutputPath", "$")
        return [] if path == "$" else self._cut(self.paths, path, place)

    def _pass_on(self, state: dict[str, Any], place: Place) -> list[dict[str, Any]]:
        """What a state that has no result leaves of the document."""
        if state.get("InputPath", "$") == "$":
            return self._narrow(state, place)
        return self._cut(self._inside(state, place), state.get("OutputPath", "$"), place)

    def _cut(self, paths: Paths, path: Any, place: Place) -> list[dict[str, Any]]:
        if path is None or not (paths.root or paths.parts):
            return [_set(self._root_name(), {})]
        found = self._guard(lambda: paths.expression(str(path)), place, "OutputPath")
        return [_set(self._root_name(), brace(found))] if found is not None else []

    def _guard(self, make: Any, place: Place, key: str | int) -> Any:
        try:
            return make()
        except NotCarried as error:
            self.note((*place, key), str(error))
            return None

    def _template(self, paths: Paths, value: Any, place: Place) -> Any:
        return paths.template(value, lambda key, why: self.note((*place, key), why))

    def _inside(self, state: dict[str, Any], place: Place) -> Paths:
        """What InputPath makes of the document."""
        path = state.get("InputPath", "$")
        if path == "$":
            return self.paths
        found = self._guard(lambda: self.paths.expression(str(path)), place, "InputPath") if path is not None else ""
        return Paths(found) if found else Paths("", {})

    def find_given(self, state: dict[str, Any], place: Place) -> Any:
        """What a state is given: its parameters, or the document as far as InputPath takes it."""
        inside = self._inside(state, place)
        if "Parameters" in state:
            return self._template(inside, state["Parameters"], (*place, "Parameters"))
        return self._guard(inside.whole, place, "InputPath")

    def _pass(self, state: dict[str, Any], place: Place) -> list[dict[str, Any]]:
        if not state.keys() & {"Result", "Parameters", "InputPath"} or state.get("ResultPath", "$") is None:
            return []
        value = state["Result"] if "Result" in state else self.find_given(state, place)
        variable = self._variable(str(state.get("ResultPath", "$")), (*place, "ResultPath"))
        return [_set(variable, value)] if variable else []

    def _wait(self, state: dict[str, Any], place: Place) -> dict[str, Any]:
        if isinstance(state.get("Seconds"), int):
            return {"duration": state["Seconds"]}
        if "SecondsPath" in state:
            inside = self._inside(state, place)
            found = self._guard(lambda: inside.expression(str(state["SecondsPath"])), place, "SecondsPath")
            return {"duration": brace(found) if found else 0}
        self.note(place, "it waits for a moment of the calendar; expressions have no clock, so it does not wait")
        return {"duration": 0}

    def _choice(
        self, state: dict[str, Any], name: str, names: dict[str, str], rows: list[dict[str, Any]], place: Place
    ) -> None:
        inside, cut = self._inside(state, place), self._pass_on(state, place)
        then = {"on_transition": _on_the_way(cut)} if cut else {}
        if "Timestamp" in str(state.get("Choices")):
            why = "moments are compared as texts: write all of them alike, as 2026-01-31T08:00:00Z"
            self.note((*place, "Choices"), why)
        for number, rule in enumerate(state.get("Choices") or ()):
            said = self._guard(lambda rule=rule: condition(rule, inside), (*place, "Choices"), number)
            target = names.get(str(rule.get("Next")))
            if target is None:
                self.note((*place, "Choices", number, "Next"), f"there is no state `{rule.get('Next')}`")
            elif said:
                rows.append({"from": name, "to": target, "condition": brace(said), **then})
        if state.get("Default") in names:
            rows.append({"from": name, "to": names[state["Default"]], "condition": "{{ true }}", **then})

    def _parallel(self, state: dict[str, Any], name: str, place: Place) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """The branches, each with a document of its own, and what is done with what they give."""
        given, branches, roots, outer = self.find_given(state, place), {}, [], self.paths
        for number, branch in enumerate(state.get("Branches") or (), 1):
            own = self._new_id(f"{name}_{number}")
            self.paths = Paths(f"context.{own}")
            branches[f"branch_{number}"] = self.machine(branch, (*place, "Branches", number - 1), given)
            roots.append(self.paths.root)
        self.paths = outer
        if "ResultSelector" not in state and state.get("ResultPath", "$") is not None:
            variable = self._variable(str(state.get("ResultPath", "$")), (*place, "ResultPath"))
            return branches, [_set(variable, [brace(root) for root in roots])] if variable else []
        return branches, self._keep(state, Paths(f"[{', '.join(roots)}]"), place)

    def _new_id(self, name: str) -> str:
        made = name
        while made in self.ids:
            made += "_"
        self.ids.add(made)
        return made

    def _map(self, state: dict[str, Any], name: str, place: Place) -> list[dict[str, Any]]:
        key = "ItemProcessor" if "ItemProcessor" in state else "Iterator"
        inside = self._inside(state, place)
        items = self._guard(lambda: inside.expression(str(state.get("ItemsPath", "$"))), place, "ItemsPath")
        selector = next((one for one in ("ItemSelector", "Parameters") if one in state), "")
        parts = self._template(inside, state[selector], (*place, selector)) if selector else None
        outer, self.paths = self.paths, Paths("item") if parts is None else Paths("", parts)
        self.ids.add(name)
        try:
            actions = list(self._sequence(state.get(key) or {}, (*place, key)))
            if not actions or self.paths.parts is not None or self.paths.root != f"result.{actions[-1]['id']}":
                why = "what an item gives is the result of its last task; a loop keeps nothing else"
                self.note((*place, key), why)
        finally:
            self.paths = outer
        loop: dict[str, Any] = {
            "id": name,
            "type": "for_each",
            "items": brace(items or "[]"),
            "actions": actions or [NOTHING],
        }
        for said, meant in (("MaxConcurrency", "concurrency"), ("ToleratedFailureCount", "tolerate")):
            if state.get(said):
                loop[meant] = state[said]
        return [loop, *self._keep(state, Paths(f"result.{name}.items"), place)]

    def _sequence(self, machine: dict[str, Any], place: Place) -> Iterator[dict[str, Any]]:
        """The tasks of an iterator, one after the other; only a plain line of them can be done for each item."""
        states: dict[str, Any] = machine.get("States") or {}
        name, seen = machine.get("StartAt"), set()
        while name in states and name not in seen:
            seen.add(name)
            state, here = states[name], (*place, "States", name)
            if state.get("Type") in ("Task", "Pass", "Succeed"):
                self._check_keys(state, here)
            if state.get("Type") == "Task":
                id = self._new_id(mend_name(str(name)))
                yield from make_task(self, state, id, here)
                self.paths = self._after(state, self._select(state, _find_result(state, id), here), here)
                if "Catch" in state:
                    why = "inside a loop a failure ends the item; `tolerate` lets the others go on"
                    self.note((*here, "Catch"), why)
            elif state.get("Type") == "Pass":
                if state.keys() & {"Result", "Parameters", "InputPath"}:
                    value = state["Result"] if "Result" in state else self.find_given(state, here)
                    self.paths = self._after(state, value, here)
            elif state.get("Type") != "Succeed":
                why = f"a `{state.get('Type')}` inside a Map has no counterpart; make it a workflow of its own"
                self.note(here, why)
            path = state.get("OutputPath", "$")
            find = lambda path=path: self.paths.expression(str(path))  # noqa: E731
            if path != "$" and (found := self._guard(find, here, "OutputPath")):
                self.paths = Paths(found)
            name = None if state.get("End") else state.get("Next")

    def _after(self, state: dict[str, Any], value: Any, place: Place) -> Paths:
        """What `$` means after a state of an iterator that gave this."""
        path = state.get("ResultPath", "$")
        if path is None:
            return self.paths
        found = NAMES.fullmatch(str(path))
        if found is not None and "." not in found[1][1:]:
            return Paths(self.paths.root, {**(self.paths.parts or {}), found[1][1:]: value})
        if path == "$" and isinstance(value, dict):
            return Paths("", value)
        if path == "$" and isinstance(value, str) and value.startswith("{{ "):
            return Paths(value[3:-3])
        self.note((*place, "ResultPath"), f"inside a loop a result is not kept at `{path}`")
        return self.paths


def _find_result(state: dict[str, Any], id: str) -> Paths:
    """What a task gives; that of an invoked function lies under `Payload`, and the tool gives only that."""
    result = f"result.{id}"
    is_invoked = "lambda:invoke" in str(state.get("Resource"))
    return Paths("", {"Payload": brace(result)}) if is_invoked else Paths(result)


def _set(name: str, value: Any) -> dict[str, Any]:
    return {"type": "set_variable", "name": name, "value": value}


def _on_the_way(steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same as steps of `on_transition`."""
    return [{"action": "set_variable", "variable": one["name"], "value": one["value"]} for one in steps]


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


def _replaces(state: dict[str, Any]) -> bool:
    """Whether a state puts something else in the place of the whole document."""
    kind = state.get("Type")
    makes = kind == "Pass" and state.keys() & {"Result", "Parameters", "InputPath"}
    gives = kind in ("Task", "Map", "Parallel") or makes
    is_cut = kind in PASSING and state.get("InputPath", "$") != "$"
    is_cut = is_cut or kind == "Parallel" or state.get("OutputPath", "$") != "$"
    return bool(is_cut or (gives and state.get("ResultPath", "$") == "$"))


def read_asl(text: str, name: str) -> Any:
    """The document of a file; JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DefinitionError(f"this is not JSON: {error}", name) from None
