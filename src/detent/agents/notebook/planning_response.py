"""A planning response taken apart: flags, changes of the context, updates of the plan, what to accept.

Hostile or careless input is normal here: what does not fit is left out and said so; nothing of it raises.
"""

from typing import Any

import msgspec

from detent.agents.notebook.notebook_plan import WorkflowTemplate, expressions_of, steps_of, template_of, texts_of
from detent.agents.notebook.observation import LEVELS
from detent.errors import Refused

OUTPUT_FIELDS = {"expected", "produced", "in_progress"}


class Advice:
    """What a planner's answer means."""

    def __init__(self, response: Any, todo: list[Any], given: dict[str, Any]) -> None:
        answer = response if isinstance(response, dict) else {}
        self.warnings: list[str] = [] if isinstance(response, dict) else ["the planner's answer is not an object"]
        transition = _mapping(answer.get("transition"))
        inner = _either(transition, "target_achieved", "targetAchieved")
        said = _either(answer, "targetAchieved", "target_achieved")
        if isinstance(said, bool) and isinstance(inner, bool) and said is not inner:
            told = "`targetAchieved` is {} and `transition.target_achieved` {}; the first decides"
            self.warnings.append(told.format(*(str(one).lower() for one in (said, inner))))
        self.is_achieved = (said if isinstance(said, bool) else inner) is True
        self.is_measurable = answer.get("measurable") is not False
        self.continues = _either(transition, "continue_behaviors", "continueBehaviors") is True
        self.acceptance = expressions_of(answer.get("acceptance"))
        usage = _mapping(answer.get("usage"))
        self.usage = {k: float(v) for k, v in usage.items() if isinstance(v, int | float) and not isinstance(v, bool)}
        self.reason = str(answer.get("reason") or "")
        self.updates: list[dict[str, Any]] = []  # of the plan, as internal actions
        self.template: WorkflowTemplate | None = None
        self.next_stage_id = ""
        self.steps: tuple[str, tuple[Any, ...]] | None = None
        self.changes: dict[str, Any] = {}
        self._context(_mapping(_either(answer, "context_update", "contextUpdate")), todo, given)
        wanted = _either(answer, "context_filter", "contextFilter")
        if isinstance(wanted, dict):
            self._filter(wanted)
        if self.acceptance:
            self.changes.setdefault("set", {})["acceptance_asked"] = [*self.acceptance]
        if self.warnings:
            self.changes["warned"] = [*self.warnings]

    def _filter(self, wanted: dict[str, Any]) -> None:
        self.changes.setdefault("set", {})["filter"] = wanted
        tracked = _mapping(wanted.get("outputs_tracking"))
        expected = texts_of(tracked.get("expected_variables"))
        if expected:
            outputs = self.changes.setdefault("outputs", {}).setdefault("behaviors", {})
            outputs.setdefault("expected", []).extend(expected)
        self.acceptance += texts_of(tracked.get("validation_required"))

    def _context(self, update: dict[str, Any], todo: list[Any], given: dict[str, Any]) -> None:
        for name, value in update.items():
            handle = KINDS.get(name)
            if handle is None:
                self.warnings.append(f"context_update: `{name}` is not known and was left out")
            else:
                handle(self, value)
        if "variables" in update and isinstance(update["variables"], dict):
            self.changes.setdefault("set", {})["given"] = {**given, **update["variables"]}
        if "todo_list_update" in update:
            self._todo(update["todo_list_update"], todo)

    def _variables(self, value: Any) -> None:
        if not isinstance(value, dict):
            self.warnings.append("context_update.variables is not an object and was left out")

    def _progress(self, value: Any) -> None:
        for one in value if isinstance(value, list) else [value]:
            level = _mapping(one).get("level")
            text = _mapping(one).get("focus")
            if level not in LEVELS or not isinstance(text, str):
                self.warnings.append(
                    "context_update.progress_update needs a `level` (stages, steps, behaviors) and a `focus` text"
                )
            else:
                self.changes.setdefault("focus", {})[level] = text

    def _outputs(self, value: Any) -> None:
        for one in value if isinstance(value, list) else [value]:
            level, outputs = _mapping(one).get("level"), _mapping(one).get("outputs")
            is_fit = isinstance(outputs, dict) and set(outputs) <= OUTPUT_FIELDS
            if level not in LEVELS or not is_fit or not isinstance(outputs, dict):
                self.warnings.append("context_update.outputs_update has unknown keys or no level; all of it is dropped")
                continue
            fields = {name: [*texts_of(names)] for name, names in outputs.items()}
            self.changes.setdefault("outputs", {})[level] = fields

    def _effects(self, value: Any) -> None:
        found = _mapping(value)
        if not isinstance(found.get("current", []), list) or not isinstance(found.get("history", []), list):
            self.warnings.append("context_update.effects_update needs lists")
            return
        self.changes["effects_set"] = {
            "current": [str(text) for text in found.get("current", [])],
            "history": [str(text) for text in found.get("history", [])],
        }

    def _workflow(self, value: Any) -> None:
        try:
            self.template = template_of(value)
        except Refused as error:
            self.warnings.append(f"context_update.workflow_update was left out: {error}")
            return
        self.next_stage_id = str(_mapping(value).get("nextStageId") or _mapping(value).get("next_stage_id") or "")
        self.updates.append(
            {
                "action": "update_workflow",
                "updated_workflow": msgspec.to_builtins(self.template),
                "next_stage_id": self.next_stage_id,
            }
        )

    def _stage_steps(self, value: Any) -> None:
        found = _mapping(value)
        stage_id = found.get("stage_id") or found.get("stageId")
        try:
            if not isinstance(stage_id, str):
                raise Refused("it names no `stage_id`")
            steps = steps_of(_either(found, "steps", "updated_steps"))
        except Refused as error:
            self.warnings.append(f"context_update.stage_steps_update was left out: {error}")
            return
        self.steps = stage_id, steps
        self.updates.append(
            {"action": "update_stage_steps", "stage_id": stage_id, "updated_steps": msgspec.to_builtins(steps)}
        )

    def _todo(self, value: Any, todo: list[Any]) -> None:
        found = _mapping(value)
        items, operation = found.get("items"), found.get("operation", "replace")
        if not isinstance(items, list) or operation not in ("add", "remove", "replace"):
            self.warnings.append("context_update.todo_list_update needs an `operation` and `items`")
            return
        new = {
            "add": lambda: [*todo, *(item for item in items if item not in todo)],
            "remove": lambda: [item for item in todo if item not in items],
            "replace": lambda: [*items],
        }[operation]()
        self.changes.setdefault("set", {})["todo"] = new

    def _sections(self, value: Any) -> None:
        if isinstance(value, dict):
            self.changes.setdefault("set", {})["section_progress"] = value
        else:
            self.warnings.append("context_update.section_progress is not an object and was left out")

    def _ignore(self, value: Any) -> None:
        """Handled where more is known."""


KINDS = {
    "variables": Advice._variables,
    "progress_update": Advice._progress,
    "outputs_update": Advice._outputs,
    "effects_update": Advice._effects,
    "workflow_update": Advice._workflow,
    "stage_steps_update": Advice._stage_steps,
    "todo_list_update": Advice._ignore,
    "section_progress": Advice._sections,
    "workflow_progress": Advice._ignore,
}


def _either(found: dict[str, Any], first: str, second: str) -> Any:
    return found.get(first, found.get(second))


def _mapping(given: Any) -> dict[str, Any]:
    return given if isinstance(given, dict) else {}
