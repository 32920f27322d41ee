"""The plan of a notebook run: stages with steps, read from whatever shape a planner sends."""

from typing import Any

import msgspec

from detent.errors import Refused

STAGES_MAX, STEPS_MAX = 200, 500
PLANNING_STAGE, PLANNING_STEP = "chapter_0_planning", "section_1_workflow"


class PlanStep(msgspec.Struct, frozen=True, omit_defaults=True):
    """One step; its description is its goal, its acceptance what the kernel must find true before it counts as done."""

    step_id: str
    title: str = ""
    description: str = ""
    status: str = ""
    index: int = 0
    acceptance: tuple[str, ...] = ()
    expected: tuple[str, ...] = ()


class PlanStage(msgspec.Struct, frozen=True, omit_defaults=True):
    """One stage; its description is its goal."""

    id: str
    title: str = ""
    description: str = ""
    steps: tuple[PlanStep, ...] = ()


class WorkflowTemplate(msgspec.Struct, frozen=True, omit_defaults=True):
    """A whole workflow."""

    id: str = ""
    name: str = "Unnamed Workflow"
    description: str = ""
    stages: tuple[PlanStage, ...] = ()
    is_default: bool = False  # nobody's plan: only where the planner is asked for one

    def stage(self, stage_id: str | None) -> PlanStage | None:
        """The stage of that id."""
        return next((stage for stage in self.stages if stage.id == stage_id), None)

    def step(self, stage_id: str | None, step_id: str | None) -> PlanStep | None:
        """The step of that id in that stage."""
        stage = self.stage(stage_id)
        return next((step for step in stage.steps if step.step_id == step_id), None) if stage else None


def default_template(goal: str) -> WorkflowTemplate:
    """One stage with one step, in which a planner is expected to send the whole workflow."""
    step = PlanStep(PLANNING_STEP, title="Plan the workflow", description=goal)
    stage = PlanStage(PLANNING_STAGE, title="Planning", description=goal, steps=(step,))
    return WorkflowTemplate(id="default", name="Planning", stages=(stage,), is_default=True)


def template_of(given: Any) -> WorkflowTemplate:
    """A workflow as a planner may write it; raises Refused where it makes no sense."""
    if isinstance(given, dict) and isinstance(given.get("workflowTemplate", given.get("workflow_template")), dict):
        given = given.get("workflowTemplate", given.get("workflow_template"))
    if not isinstance(given, dict) or not isinstance(given.get("stages"), list | tuple) or not given["stages"]:
        raise Refused("a workflow needs `stages`, a list that is not empty")
    if len(given["stages"]) > STAGES_MAX:
        raise Refused(f"a workflow has at most {STAGES_MAX} stages, not {len(given['stages'])}")
    stages = tuple(_stage(stage, f"stages[{number}]") for number, stage in enumerate(given["stages"]))
    _distinct([stage.id for stage in stages], "stages")
    return WorkflowTemplate(
        id=_text(given.get("id")),
        name=_text(given.get("name") or given.get("title")) or "Unnamed Workflow",
        description=_text(given.get("description")),
        stages=stages,
    )


def _stage(given: Any, where: str) -> PlanStage:
    if not isinstance(given, dict):
        raise Refused(f"{where} is not an object")
    stage_id = _text(given.get("id") or given.get("stage_id"))
    if not stage_id:
        raise Refused(f"{where} has no `id`")
    return PlanStage(
        id=stage_id,
        title=_text(given.get("title") or given.get("name")) or stage_id,
        description=_text(given.get("description") or given.get("goal")),
        steps=steps_of(given.get("steps"), f"{where}.steps"),
    )


def steps_of(given: Any, where: str = "steps") -> tuple[PlanStep, ...]:
    """The steps of a stage; `id` and `step_id` are interchangeable, `name` stands in for `title`."""
    if given is None:
        return ()
    if not isinstance(given, list | tuple) or len(given) > STEPS_MAX:
        raise Refused(f"{where} must be a list of at most {STEPS_MAX} steps")
    steps = []
    for number, one in enumerate(given):
        if not isinstance(one, dict) or not (one.get("step_id") or one.get("id")):
            raise Refused(f"{where}[{number}] has no `step_id`")
        step_id = _text(one.get("step_id") or one.get("id"))
        index = one.get("index")
        steps.append(
            PlanStep(
                step_id=step_id,
                title=_text(one.get("title") or one.get("name")) or step_id,
                description=_text(one.get("description") or one.get("goal")),
                status=_text(one.get("status")),
                index=index if type(index) is int else number,
                acceptance=expressions_of(one.get("acceptance")),
                expected=texts_of(one.get("expected")),
            )
        )
    _distinct([step.step_id for step in steps], where)
    return tuple(steps)


def expressions_of(given: Any) -> tuple[str, ...]:
    """Acceptance expressions given as one text, a list, or a mapping of labels."""
    if isinstance(given, dict):
        given = list(given.values())
    return texts_of([given] if isinstance(given, str) else given)


def texts_of(given: Any) -> tuple[str, ...]:
    """The texts of a list; anything else in it is left out."""
    return tuple(text for text in given if isinstance(text, str) and text) if isinstance(given, list | tuple) else ()


def wire(template: WorkflowTemplate) -> dict[str, Any]:
    """The plan with both spellings of its ids and titles, so that any reader of the protocol finds its own."""

    def step(one: PlanStep) -> dict[str, Any]:
        return {**msgspec.to_builtins(one), "id": one.step_id, "name": one.title, "index": one.index}

    stages = [
        {**msgspec.to_builtins(stage), "name": stage.title, "steps": [step(one) for one in stage.steps]}
        for stage in template.stages
    ]
    return {**msgspec.to_builtins(template), "name": template.name, "stages": stages}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)


def _distinct(ids: list[str], where: str) -> None:
    for one in ids:
        if ids.count(one) > 1:
            raise Refused(f"{where} has the id `{one}` twice")
