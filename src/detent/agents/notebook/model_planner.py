"""`llm`: a language model as planner, generator and debugger, through the effect `llm`.

What the model says is checked twice: its answers against a schema before they are used, and its "achieved" against the
kernel. Its code is read before it runs. Lines that are no actions go back to it at most twice.
"""

import json
from collections.abc import AsyncIterator
from typing import Any

from detent.agents.notebook.action import BESIDES, PROTOCOL
from detent.agents.notebook.cell_text import action_of
from detent.agents.notebook.http_planner import ActionLines
from detent.agents.notebook.port import Advisers, PlannerFailed
from detent.core.contract import Contract
from detent.core.effect_type import EffectFailed, Outcome

CELLS_SHOWN = 5
ACTIONS_MAX = 50
CORRECTIONS_MAX = 2
NEEDED = {
    "add": "content",
    "exec": "codecell_id",
    "new_chapter": "content",
    "new_section": "content",
    "update_title": "title",
    "update_workflow": "updated_workflow",
    "update_stage_steps": "updated_steps",
}
_TEXTS = {"type": "array", "items": {"type": "string"}}
PLANNING_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "targetAchieved": {"type": "boolean"},
        "transition": {
            "type": "object",
            "properties": {"continue_behaviors": {"type": "boolean"}, "target_achieved": {"type": "boolean"}},
        },
        "acceptance": _TEXTS,
        "reason": {"type": "string"},
        "measurable": {"type": "boolean"},
        "context_update": {"type": "object"},
        "context_filter": {"type": "object"},
    },
    "required": ["targetAchieved"],
}
REPAIR_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"code": {"type": "string"}, "why": {"type": "string"}},
    "required": ["code"],
}
PLANNING = """You plan a data notebook that another program carries out in a real Jupyter kernel.
You are shown an observation: where the run stands (location), and what is known (context). Answer with one JSON object:
- targetAchieved: whether the goal of the place where the run stands is reached;
- transition.continue_behaviors: true when the step needs another behaviour after the one that has just ended;
- acceptance: Python expressions over the kernel's variables that must be true before the step counts as done;
- context_update.workflow_update.workflowTemplate: {name, stages: [{id, title, description, steps: [{step_id, title,
  description, acceptance, expected}]}]}; send it when location.current.stage_id is null, else only to change the plan;
  A plan that exists is changed by the same key, or by context_update.stage_steps_update {stage_id, steps}; a person may
  be asked before it counts, and a step that is done is not done again;
- reason: one sentence.
acceptance is evaluated in the kernel: `len(df) > 0`, `rmse < 25`. A step is done only when every expression is true,
and the whole goal counts as met only where some expression was checked. A goal that names nothing measurable gets
"measurable": false. context.FSM.state says where you are asked: stage_running and no stage_id (send the plan),
step_running (begin), behavior_completed (go on or done), step_completed (no step of the stage is left: is it done? if
not, send more steps), stage_completed (is the goal met?).
Never claim what the observation does not show."""
GENERATING = """You write the actions of one behaviour of a data notebook: one JSON object per line and nothing else.
{"action": "new_chapter"|"new_section", "content": "Title"}
{"action": "add", "shot_type": "dialogue", "content": "Markdown"}
{"action": "add", "shot_type": "action", "content": "Python code", "store_id": "a-short-id"}
{"action": "exec", "codecell_id": "a-short-id", "auto_debug": true}
{"action": "is_thinking", "thinking_text": "…"} {"action": "finish_thinking"} {"action": "end_phase"}
A cell may say "repeat": "replay" (the default: it runs again when the kernel must be brought back), "once" (never again
without asking; cells that start programs, use the network or write elsewhere are that anyway, and a person is asked
before they run) or "skip". Keep such a deed in a cell of its own, apart from computations.
Put code into cells that do one thing each, use the variables that are there, and print what the planner must know."""
REPAIRING = "A cell of a notebook failed. Answer with one JSON object: code (the whole repaired cell) and why."


def advise_by_model(settings: dict[str, Any]) -> Advisers:
    """A model in all three parts."""
    model = Modelled(str(settings.get("model") or ""), int(settings.get("max_actions") or ACTIONS_MAX))
    return Advisers(model, model, model)


class Modelled:
    """Asks a model, and believes only what fits."""

    def __init__(self, model: str = "", actions_max: int = ACTIONS_MAX) -> None:
        self._model, self._actions_max = model, actions_max

    async def plan(self, observation: dict[str, Any], feedback: dict[str, Any] | None = None) -> dict[str, Any]:
        """One planning answer."""
        asked = {"observation": brief(observation), "behavior_feedback": feedback}
        outcome = await self._ask([_system(PLANNING), _user(asked)], schema=PLANNING_SCHEMA)
        answer = outcome.result.get("json")
        if not isinstance(answer, dict):
            raise PlannerFailed(f"the model gave no plan: {str(outcome.result.get('text'))[:200]}")
        return {**answer, "usage": outcome.usage}

    async def generate(self, observation: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        """The actions of one behaviour; wrong lines are sent back with what is wrong with them."""
        messages = [_system(GENERATING), _user({"observation": brief(observation)})]
        usage: dict[str, float] = {}
        for turn in range(CORRECTIONS_MAX + 1):
            outcome = await self._ask(messages)
            for name, amount in outcome.usage.items():
                usage[name] = usage.get(name, 0.0) + amount
            text = str(outcome.result.get("text") or "")
            actions, problems = check_actions(text, self._actions_max)
            if actions and not problems:
                for action in actions:
                    yield action
                yield {"usage": usage}
                return
            wrong = "; ".join(problems[:5]) or "there is no action in it"
            if turn == CORRECTIONS_MAX:
                raise PlannerFailed(f"the model's actions are still wrong: {wrong}", is_passing=False)
            again = f"These lines are wrong: {wrong}. Send all lines again, corrected, and nothing else."
            messages += [{"role": "assistant", "content": text}, {"role": "user", "content": again}]

    async def repair(self, failure: dict[str, Any]) -> dict[str, Any] | None:
        """Better code for a cell that failed."""
        error = failure.get("error") or {}
        shown = {**failure, "error": {"ename": error.get("ename"), "evalue": error.get("evalue")}}
        try:
            outcome = await self._ask([_system(REPAIRING), _user(shown)], schema=REPAIR_SCHEMA)
        except PlannerFailed:
            return None
        better = outcome.result.get("json")
        return better if isinstance(better, dict) else None

    async def _ask(self, messages: list[dict[str, Any]], schema: dict[str, Any] | None = None) -> Outcome:
        from detent.effects.llm import llm  # noqa: PLC0415  # a client library may come with it

        given: dict[str, Any] = {"messages": messages, "schema": schema, "model": self._model or None}
        try:
            outcome = await llm.perform(Contract(id="llm", action="llm", effect="llm", input=given))
        except EffectFailed as error:
            is_passing = not error.type.startswith("validation_error")
            raise PlannerFailed(f"the model did not answer: {error}", is_passing=is_passing) from error
        if not isinstance(outcome, Outcome):
            raise PlannerFailed("the model gave nothing")
        return outcome


def check_actions(text: str, most: int) -> tuple[list[dict[str, Any]], list[str]]:
    """The actions in a model's text, and what is wrong with the lines that are none."""
    lines = ActionLines()
    kept = "\n".join(line for line in text.splitlines() if not line.strip().startswith("```"))
    found = [*lines.feed(kept.encode("utf-8", "replace")), *lines.end()]
    actions, problems = [], []
    for number, given in enumerate(found, 1):
        action = action_of(given)
        name = action.get("action")
        if "warning" in given or not name:
            problems.append(str(given.get("warning") or f"object {number} names no action"))
        elif name not in PROTOCOL and name not in BESIDES:
            problems.append(f"object {number}: there is no action `{name}`")
        elif name in NEEDED and not action.get(NEEDED[name]):
            problems.append(f"object {number}: `{name}` needs `{NEEDED[name]}`")
        else:
            actions.append(action)
    if len(actions) > most:
        problems.append(f"{len(actions)} actions are too many; at most {most}")
    return actions, problems


def brief(observation: dict[str, Any]) -> dict[str, Any]:
    """An observation as a model can read it: the latest cells only, of the machine where it stands."""
    context = dict(observation["context"])
    machine = context.pop("FSM", None)
    if isinstance(machine, dict):
        context["FSM"] = {name: machine.get(name) for name in ("state", "last_transition")}
    notebook = context.get("notebook")
    if isinstance(notebook, dict):
        context["notebook"] = {**notebook, "cells": [_cell(cell) for cell in notebook.get("cells", [])[-CELLS_SHOWN:]]}
    return {"location": observation["location"], "context": context}


def _cell(cell: dict[str, Any]) -> dict[str, Any]:
    outputs = [str(output.get("content"))[:1000] for output in cell.get("outputs", [])]
    return {"id": cell["id"], "type": cell["type"], "content": cell["content"], "outputs": outputs}


def _system(text: str) -> dict[str, Any]:
    return {"role": "system", "content": text}


def _user(value: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": json.dumps(value, ensure_ascii=False, default=str)}
