"""`builtin:script`: a fixed list of actions, from YAML, NDJSON or an existing notebook.

The file is read once, when the run starts; what was read is part of the run. A script is a job: a cell that fails ends
it, and after a repair START_BEHAVIOR goes on with the first action that has not succeeded.
"""

import json
import keyword
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from detent.agents.notebook.cell_text import action_of
from detent.agents.notebook.notebook_plan import template_of, wire
from detent.agents.notebook.port import Advisers
from detent.define.document import read_document, read_file
from detent.define.problem import refuse
from detent.errors import DefinitionError, Refused

ACTIONS_MAX = 100_000
POLICIES = ("once", "skip")


def advise_by_script(settings: dict[str, Any]) -> Advisers:
    """The planner and generator of a script."""
    script = Script(settings["script"], is_tolerant=settings.get("tolerant") is True)
    return Advisers(script, script)


class Script:
    """A script that answers as a planner and as a generator."""

    def __init__(self, script: dict[str, Any], *, is_tolerant: bool = False) -> None:
        self.script, self._is_tolerant = script, is_tolerant
        self._steps = {
            (stage["id"], step["step_id"]): step["actions"] for stage in script["stages"] for step in stage["steps"]
        }

    async def plan(self, observation: dict[str, Any], feedback: dict[str, Any] | None = None) -> dict[str, Any]:
        """Achieved when every action has been done."""
        current = observation["location"]["current"]
        if current["stage_id"] is None:
            return {"context_update": {"workflow_update": {"workflowTemplate": wire(template_of(self.script))}}}
        if feedback is not None:
            is_done = feedback["actions_executed"] == feedback["actions_planned"]
            return _directive(is_done and (self._is_tolerant or feedback["last_action_result"] != "error"))
        if observation["context"]["FSM"]["state"] == "step_running":
            return _directive(not self._actions(observation))
        return _directive(True)

    async def generate(self, observation: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        """The actions of the current step that have not succeeded yet."""
        cells = {cell["id"]: cell for cell in observation["context"].get("notebook", {}).get("cells", [])}
        is_again = observation["location"]["current"]["behavior_iteration"] > 1
        for action in self._actions(observation):
            if not is_again or not _is_done(action, cells):
                yield action

    def _actions(self, observation: dict[str, Any]) -> list[dict[str, Any]]:
        current = observation["location"]["current"]
        found: list[dict[str, Any]] = self._steps.get((current["stage_id"], current["step_id"]), [])
        return found


def _directive(is_achieved: bool) -> dict[str, Any]:
    return {"targetAchieved": is_achieved, "transition": {"continue_behaviors": False, "target_achieved": is_achieved}}


def _is_done(action: dict[str, Any], cells: Mapping[str, dict[str, Any]]) -> bool:
    if action["action"] == "exec":
        cell = cells.get(str(action.get("codecell_id")))
        failed = cell is not None and any(output["output_type"] == "error" for output in cell["outputs"])
        return cell is not None and cell["execution_count"] is not None and not failed
    return bool(action.get("store_id")) and action["store_id"] in cells


# reading


def read_script(path: Path, parameters: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A script file as a run keeps it: title and stages with the actions of each step."""
    ending = path.suffix.lower()
    if ending == ".ipynb":
        script = _from_notebook(path, dict(parameters or {}))
        parameters = {}
    elif ending in (".ndjson", ".jsonl"):
        script = {"title": path.stem, "actions": _from_lines(path)}
    elif ending in (".yaml", ".yml", ".json"):
        document = read_document(read_file(path), str(path))
        refuse(document.problems)
        script = document.value
    else:
        raise DefinitionError("a script is a .yaml, .ndjson or .ipynb file", str(path))
    return complete_script(script, str(path), parameters)


def complete_script(script: Any, where: str, parameters: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A script checked and with all its parts in place."""
    if not isinstance(script, dict):
        raise DefinitionError("a script is a mapping with `actions` or `stages`", where)
    stages = script.get("stages")
    if stages is None:
        step = {"step_id": "cells", "title": "Cells", "actions": script.get("actions")}
        title = str(script.get("title") or "Script")
        stages = [{"id": "script", "title": title, "description": title, "steps": [step]}]
    try:
        template_of({"stages": stages})
    except Refused as error:
        raise DefinitionError(str(error), where) from None
    given = {**_mapping(script.get("parameters")), **(parameters or {})}
    made = [_stage(stage, where) for stage in stages]
    if given:
        first = made[0]["steps"][0]["actions"]
        first[:0] = _pair("parameters", parameter_code(given, where), "replay")
    return {"title": str(script.get("title") or ""), "stages": made}


def _stage(stage: dict[str, Any], where: str) -> dict[str, Any]:
    stage_id = str(stage.get("id") or stage.get("stage_id"))
    steps = []
    for step in stage.get("steps") or []:
        step_id = str(step.get("step_id") or step.get("id"))
        place = f"{where}, step `{step_id}`"
        steps.append({**step, "step_id": step_id, "actions": _actions(step.get("actions"), step_id, place)})
    if not steps:
        raise DefinitionError(f"stage `{stage_id}` has no steps", where)
    return {**stage, "id": stage_id, "steps": steps}


def _actions(given: Any, step_id: str, where: str) -> list[dict[str, Any]]:
    if not isinstance(given, list) or len(given) > ACTIONS_MAX:
        raise DefinitionError(f"`actions` must be a list of at most {ACTIONS_MAX:,}", where)
    found: list[dict[str, Any]] = []
    last_code = ""
    for number, one in enumerate(given):
        action = action_of(one)
        if not action:
            raise DefinitionError(f"action {number + 1} is not an object with `action`", where)
        if action["action"] in ("add", "new_chapter", "new_section", "is_thinking") and not action.get("store_id"):
            action["store_id"] = f"{step_id}-{number + 1}"
        if action["action"] == "add" and action.get("shot_type") == "action":
            last_code = str(action["store_id"])
        if action["action"] == "exec" and action.get("codecell_id") in ("lastAddedCellId", None) and last_code:
            action["codecell_id"] = last_code
        found.append(action)
    return found


def _pair(name: str, code: str, repeat: str) -> list[dict[str, Any]]:
    cell = {"action": "add", "shot_type": "action", "content": code, "store_id": name}
    run = {"action": "exec", "codecell_id": name}
    return [cell, run] if repeat == "replay" else [{**cell, "repeat": repeat}, run]


def parameter_code(parameters: Mapping[str, Any], where: str = "parameters") -> str:
    """Parameters as assignments; values are JSON data, written as Python literals."""
    lines = ["# parameters"]
    for name, value in parameters.items():
        if not name.isidentifier() or keyword.iskeyword(name):
            raise DefinitionError(f"`{name}` cannot be the name of a parameter", where)
        lines.append(f"{name} = {value!r}")
    return "\n".join(lines)


def _from_lines(path: Path) -> list[dict[str, Any]]:
    found = []
    for number, line in enumerate(read_file(path).splitlines(), 1):
        if not line.strip():
            continue
        try:
            found.append(msgspec.json.decode(line))
        except msgspec.DecodeError as error:
            raise DefinitionError(f"line {number} is not JSON: {error}", str(path)) from None
    return found


def _from_notebook(path: Path, parameters: dict[str, Any]) -> dict[str, Any]:
    try:
        notebook = json.loads(path.read_text(encoding="utf-8"))
        cells = notebook["cells"]
        metadata = _mapping(notebook.get("metadata"))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DefinitionError(f"not a notebook of format 4: {error}", str(path)) from None
    actions: list[dict[str, Any]] = []
    is_set = not parameters
    for number, cell in enumerate(cells, 1):
        actions += _from_cell(_mapping(cell), number)
        if not is_set and "parameters" in _tags(_mapping(cell)):
            actions += _pair("injected-parameters", parameter_code(parameters, str(path)), "replay")
            is_set = True
    if not is_set:
        actions[:0] = _pair("injected-parameters", parameter_code(parameters, str(path)), "replay")
    return {"title": str(metadata.get("title") or path.stem), "actions": actions}


def _from_cell(cell: dict[str, Any], number: int) -> list[dict[str, Any]]:
    source = cell.get("source", "")
    text = "".join(source) if isinstance(source, list) else str(source)
    if not text.strip():
        return []
    name = str(cell.get("id") or f"cell-{number}")
    if cell.get("cell_type") != "code":
        return [{"action": "add", "shot_type": "dialogue", "content": text, "store_id": name}]
    own = _mapping(_mapping(cell.get("metadata")).get("detent")).get("repeat")
    tagged = next((tag for tag in _tags(cell) if tag in POLICIES), "replay")
    return _pair(name, text, str(own or tagged))


def _tags(cell: dict[str, Any]) -> list[str]:
    tags = _mapping(cell.get("metadata")).get("tags")
    return [str(tag) for tag in tags] if isinstance(tags, list) else []


def _mapping(given: Any) -> dict[str, Any]:
    return given if isinstance(given, dict) else {}
