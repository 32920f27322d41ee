"""What a planner sees: the observation, the request around it, and the feedback on a behaviour.

Pure functions of a Book; the same journal always gives the same observation.
"""

from datetime import UTC, datetime
from typing import Any

import msgspec

from detent.agents.notebook.cell import Cell, Output
from detent.agents.notebook.notebook_plan import wire
from detent.agents.notebook.notebook_state import FSM_MAX, NotebookState

CONTEXT_MAX = 18_600  # characters of effects and variables together
VALUE_MAX = 200  # of a variable, once the context is too long
LAST_RESORT = 10  # effects left when nothing else helps
DEFAULT_GOAL = "Data Analysis Task"
LEVELS = ("stages", "steps", "behaviors")


def observe(book: NotebookState) -> dict[str, Any]:
    """Everything the two endpoints are shown."""
    return {"location": locate(book), "context": context(book)}


def locate(book: NotebookState) -> dict[str, Any]:
    """Where the run stands."""
    place, plan = book.location, book.plan
    current = {"stages": place.stage_id, "steps": place.step_id, "behaviors": place.behavior_id}
    progress: dict[str, Any] = {}
    for name in LEVELS:
        level = place.levels[name]
        progress[name] = {
            "completed": [*level.completed],
            "current": current[name],
            "focus": level.focus,
            "current_outputs": level.outputs.wire(),
        }
        if name == "behaviors":
            progress[name]["iteration"] = place.iteration
        else:
            progress[name]["remaining"] = place.remaining(name, plan)
    stage, step = (plan.stage(place.stage_id), plan.step(place.stage_id, place.step_id)) if plan else (None, None)
    return {
        "current": {
            "stage_id": place.stage_id,
            "step_id": place.step_id,
            "behavior_id": place.behavior_id,
            "behavior_iteration": place.iteration,
        },
        "progress": progress,
        "goals": {
            "workflow": goal(book),
            "stage": (stage.description or stage.title) if stage else None,
            "step": (step.description or step.title) if step else None,
            "behavior": place.levels["behaviors"].focus or None,
        },
    }


def goal(book: NotebookState) -> str:
    """The problem in the person's words."""
    given = book.given
    for text in (book.given_input.get("goal"), given.get("problem_description"), given.get("user_goal")):
        if isinstance(text, str) and text.strip():
            return text
    return DEFAULT_GOAL


def context(book: NotebookState) -> dict[str, Any]:
    """Variables, effects, notebook, machine and lists; cut to what a planner can be sent."""
    variables, current, history = _bound({**book.given, **book.variables}, book.current, book.past)
    return {
        "variables": variables,
        "effects": {"current": current, "history": history},
        "notebook": notebook(book),
        "FSM": machine(book),
        "toDoList": [*book.todo],
        "section_progress": book.section_progress,
        "acceptance": book.acceptance,
        "workflow": wire(book.plan) if book.plan else None,
        "warnings": [*book.warnings],
    }


def _bound(
    variables: dict[str, Any], current: list[str], history: list[str]
) -> tuple[dict[str, Any], list[str], list[str]]:
    """Cut the longest things first: old effects, big values, and as a last resort all but the newest effects."""
    if _size(variables, current, history) <= CONTEXT_MAX:
        return variables, [*current], [*history]
    while history and _size(variables, current, history) > CONTEXT_MAX:
        history = history[1:]
    if _size(variables, current, history) > CONTEXT_MAX:
        variables = {name: _short(value) for name, value in variables.items()}
    if _size(variables, current, history) > CONTEXT_MAX:
        room = max(VALUE_MAX, CONTEXT_MAX // LAST_RESORT)
        current = [text if len(text) <= room else text[:room] + "..." for text in current[-LAST_RESORT:]]
    return variables, [*current], [*history]


def _size(variables: dict[str, Any], *effects: list[str]) -> int:
    return len(msgspec.json.encode(variables)) + sum(len(text) for texts in effects for text in texts)


def _short(value: Any) -> Any:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return value if len(text) <= VALUE_MAX else text[:VALUE_MAX] + "..."


def notebook(book: NotebookState) -> dict[str, Any]:
    """The notebook in both of its documented forms at once."""
    last = book.cells[-1] if book.cells else None
    shown = book.notebook
    return {
        "notebook_id": shown.notebook_id,
        "title": shown.title,
        "cells": [cell_wire(cell) for cell in shown.cells],
        "execution_count": shown.execution_count,
        "cell_count": len(shown.cells),
        "last_cell_type": last.type if last else None,
        "last_output": last.outputs[-1].content if last and last.outputs else None,
        "metadata": shown.metadata,
    }


def cell_wire(cell: Cell) -> dict[str, Any]:
    """A cell with every field the protocol names; outputs the planner need not see are left out."""
    shown = {
        "id": cell.store_id or cell.id,
        "type": cell.type,
        "content": cell.content,
        "outputs": [output_wire(output) for output in cell.outputs] if cell.need_output else [],
        "enable_edit": cell.enable_edit,
        "description": cell.description,
        "metadata": {**{f: getattr(cell.metadata, f) for f in cell.metadata.__struct_fields__}},
        "language": cell.language,
        "could_visible_in_writing_mode": cell.could_visible_in_writing_mode,
        "isUpdate": cell.is_update,
        "phase_id": cell.phase_id,
        "execution_count": cell.execution_count,
    }
    if cell.type == "thinking":
        shown |= {
            "agent_name": cell.agent_name,
            "custom_text": cell.custom_text,
            "text_array": [*cell.text_array],
            "use_workflow_thinking": cell.use_workflow_thinking,
        }
    return shown


def output_wire(output: Output) -> dict[str, Any]:
    """An output with every field of the protocol; pictures are named, not sent."""
    data = {mime: part if _is_text(mime) else f"<{mime}>" for mime, part in output.data.items()}
    return {
        "output_type": output.output_type,
        "content": output.content,
        "text": output.text,
        "data": data,
        "execution_count": output.execution_count,
        "ename": output.ename,
        "evalue": output.evalue,
        "traceback": [*output.traceback],
    }


def _is_text(mime: str) -> bool:
    return mime.startswith("text/") or mime.endswith("json") or mime == "image/svg+xml"


def machine(book: NotebookState) -> dict[str, Any]:
    """The FSM record, in the documented shape and under the name that programs use."""
    history = [_transition(one) for one in book.transitions[-FSM_MAX:]]
    last = history[-1] if history else None
    return {
        "state": book.state,
        "last_transition": f"{last['event']} -> {last['to']}" if last else None,
        "timestamp": last["timestamp"] if last else _when(book.run.started_at),
        "history": history,
        "transition": history,
    }


def _transition(one: dict[str, Any]) -> dict[str, Any]:
    return {
        **one,
        "from_state": one["from"],
        "to_state": one["to"],
        "timestamp": _when(one["timestamp"]),
    }


def _when(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")


def feedback(book: NotebookState) -> dict[str, Any]:
    """How the behaviour that has just ended went, with honest counts."""
    return {
        "behavior_id": book.location.behavior_id,
        "actions_executed": book.position,
        "actions_succeeded": book.counts["succeeded"],
        "actions_planned": len(book.queue),
        "sections_added": book.counts["sections"],
        "last_action_result": book.last_result,
        "end_phase": book.is_phase_ended,
    }


def whole(given: dict[str, Any]) -> dict[str, Any]:
    """An observation from outside with every part in place, so that planners need not look for holes."""
    empty = observe(NotebookState())
    found: dict[str, Any] = _fill(empty, given)
    location, context = found["location"], found["context"]
    if isinstance(context["FSM"].get("state"), str):
        context["FSM"]["state"] = context["FSM"]["state"].lower()
    if not isinstance(location["current"].get("behavior_iteration"), int):
        location["current"]["behavior_iteration"] = 0
    return found


def _fill(empty: Any, given: Any) -> Any:
    """What is given, with the empty one's values where something is missing or of another shape."""
    if isinstance(empty, dict):
        found = {name: given[name] for name in given if name not in empty} if isinstance(given, dict) else {}
        source = given if isinstance(given, dict) else {}
        return {**{name: _fill(value, source.get(name)) for name, value in empty.items()}, **found}
    if isinstance(empty, list):
        return given if isinstance(given, list) else empty
    return empty if given is None else given
