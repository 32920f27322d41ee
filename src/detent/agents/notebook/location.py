"""Where a notebook run stands: stage, step, behaviour, and what each level has produced.

Everything here follows from the transitions taken and the plan in force; nothing is set by hand.
"""

from dataclasses import dataclass, field
from typing import Any

from detent.agents.notebook.notebook_plan import WorkflowTemplate

TAKEN_MAX = 100  # action names told per finished behaviour
DONE_MAX = 500  # finished behaviours told per step


@dataclass(slots=True)
class Tracked:
    """The outputs of one level: expected, produced, in progress; the last two never share a name."""

    expected: list[str] = field(default_factory=list)
    produced: list[str] = field(default_factory=list)
    in_progress: list[str] = field(default_factory=list)

    def produce(self, *names: str) -> None:
        """These names are there now."""
        for name in names:
            if name not in self.produced:
                self.produced.append(name)
            if name in self.in_progress:
                self.in_progress.remove(name)

    def update(self, given: dict[str, list[str]]) -> None:
        """Replace what is given; a name that is produced is not in progress."""
        for name, names in given.items():
            setattr(self, name, list(dict.fromkeys(names)))
        self.in_progress = [name for name in self.in_progress if name not in self.produced]

    @property
    def missing(self) -> list[str]:
        """What was expected and is not there."""
        return [name for name in self.expected if name not in self.produced]

    def wire(self) -> dict[str, list[str]]:
        """As observations show it."""
        return {"expected": [*self.expected], "produced": [*self.produced], "in_progress": [*self.in_progress]}


@dataclass(slots=True)
class Level:
    """One of stages, steps, behaviors."""

    completed: list[dict[str, Any]] = field(default_factory=list)
    focus: str = ""
    outputs: Tracked = field(default_factory=Tracked)


def _levels() -> dict[str, Level]:
    return {"stages": Level(), "steps": Level(), "behaviors": Level()}


@dataclass(slots=True)
class Location:
    """Stage, step, behaviour and iteration, moved by transitions."""

    stage_id: str | None = None
    step_id: str | None = None
    behavior_id: str | None = None
    iteration: int = 0
    levels: dict[str, Level] = field(default_factory=_levels)
    next_stage_id: str = ""
    actions_taken: list[str] = field(default_factory=list)
    artifacts: list[dict[str, Any]] = field(default_factory=list)  # registered in this behaviour

    def move(self, event: str, plan: WorkflowTemplate | None) -> list[str]:
        """Follow one transition; what is to be told about it."""
        match event:
            case "START_WORKFLOW":
                self._begin(plan)
            case "NEXT_STAGE":
                self._enter_stage(self.next_stage(plan))
            case "START_STEP" | "NEXT_STEP":
                self._enter_step(self.next_step(plan))
            case "START_BEHAVIOR" | "NEXT_BEHAVIOR":
                self._enter_behavior(plan)
            case "COMPLETE_BEHAVIOR":
                return self._end_behavior(plan)
            case "COMPLETE_STEP":
                self._end_step(plan)
            case "COMPLETE_STAGE":
                self._end_stage(plan)
            case "RESET":
                self.__init__()  # type: ignore[misc]  # a reset run stands where a new one stands
        return []

    def _begin(self, plan: WorkflowTemplate | None) -> None:
        self.__init__()  # type: ignore[misc]
        if plan is not None and plan.stages:
            self._enter_stage(plan.stages[0].id)

    def take_plan(self, plan: WorkflowTemplate) -> None:
        """A first plan has come while the run already stands in its first stage."""
        if self.stage_id is None and plan.stages:
            self._enter_stage(plan.stages[0].id)

    def _enter_stage(self, stage_id: str | None) -> None:
        self.stage_id, self.step_id, self.behavior_id, self.iteration = stage_id, None, None, 0
        self.next_stage_id = ""
        self.levels["steps"], self.levels["behaviors"] = Level(), Level()
        self.levels["stages"].outputs = Tracked()

    def _enter_step(self, step_id: str | None) -> None:
        self.step_id, self.behavior_id, self.iteration = step_id, None, 0
        self.levels["behaviors"] = Level()
        self.levels["steps"].outputs = Tracked()

    def _enter_behavior(self, plan: WorkflowTemplate | None) -> None:
        if self.stage_id is None and plan is not None:  # restarted after an error before there was a step
            self._enter_stage(self.next_stage(plan))
        if self.step_id is None:
            self._enter_step(self.next_step(plan))
        self.iteration += 1
        self.behavior_id = f"behavior_{self.iteration:03d}"
        self.levels["behaviors"].outputs = Tracked()
        step = plan.step(self.stage_id, self.step_id) if plan else None
        if step is not None:
            expected = self.levels["steps"].outputs.expected
            self.levels["steps"].outputs.expected = list(dict.fromkeys([*expected, *step.expected]))
        self.actions_taken, self.artifacts = [], []

    def _end_behavior(self, plan: WorkflowTemplate | None) -> list[str]:
        level = self.levels["behaviors"]
        outputs = level.outputs
        missing = outputs.missing
        level.completed.append(
            {
                "behavior_id": self.behavior_id,
                "goal": level.focus or self._goal(plan),
                "actions_taken": self.actions_taken[:TAKEN_MAX],
                "outputs_produced": {"variables": [*outputs.produced], "artifacts": [*self.artifacts]},
            }
        )
        del level.completed[:-DONE_MAX]
        self.levels["steps"].outputs.produce(*outputs.produced)
        outputs.in_progress = []
        return [f"⚠️ WARN: expected output '{name}' was not produced by {self.behavior_id}" for name in missing]

    def _end_step(self, plan: WorkflowTemplate | None) -> None:
        outputs = self.levels["steps"].outputs
        taken = [name for entry in self.levels["behaviors"].completed for name in entry["actions_taken"]]
        self.levels["steps"].completed.append(
            {
                "step_id": self.step_id,
                "goal": self._goal(plan),
                "actions_taken": taken[:TAKEN_MAX],
                "outputs_produced": {"variables": [*outputs.produced], "artifacts": [*self.artifacts]},
            }
        )
        outputs.in_progress = []
        self.levels["stages"].outputs.produce(*outputs.produced)

    def _end_stage(self, plan: WorkflowTemplate | None) -> None:
        outputs = self.levels["stages"].outputs
        stage = plan.stage(self.stage_id) if plan else None
        self.levels["stages"].completed.append(
            {
                "stage_id": self.stage_id,
                "goal": stage.description if stage else "",
                "actions_taken": [entry["step_id"] for entry in self.levels["steps"].completed],
                "outputs_produced": {"variables": [*outputs.produced], "artifacts": []},
            }
        )

    def _goal(self, plan: WorkflowTemplate | None) -> str:
        step = plan.step(self.stage_id, self.step_id) if plan else None
        return step.description if step else ""

    def list_done(self, level: str) -> list[str]:
        """The ids finished on a level."""
        key = {"stages": "stage_id", "steps": "step_id", "behaviors": "behavior_id"}[level]
        return [str(entry[key]) for entry in self.levels[level].completed]

    def remaining(self, level: str, plan: WorkflowTemplate | None) -> list[str]:
        """The ids of the plan that are neither finished nor current."""
        if plan is None:
            return []
        done = {*self.list_done(level), self.stage_id if level == "stages" else self.step_id}
        if level == "stages":
            ids = [stage.id for stage in plan.stages if stage.id not in done]
            return sorted(ids, key=lambda one: one != self.next_stage_id) if self.next_stage_id in ids else ids
        stage = plan.stage(self.stage_id)
        return [step.step_id for step in stage.steps if step.step_id not in done] if stage else []

    def next_stage(self, plan: WorkflowTemplate | None) -> str | None:
        """The stage to go to."""
        return next(iter(self.remaining("stages", plan)), None)

    def next_step(self, plan: WorkflowTemplate | None) -> str | None:
        """The step to go to."""
        return next(iter(self.remaining("steps", plan)), None)
