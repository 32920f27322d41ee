"""The rules: which step follows, which candidate is tried next, and when to stop.

Everything is read from the observation, so any process can answer the next question; see `facts` for how the
figures get from the kernel into it.
"""

import re
from collections.abc import AsyncIterator, Iterable
from pathlib import PurePath
from typing import Any

from detent.agents.notebook.analysis.analysis_template import Candidate, CellRecipe, StepRecipe, fill_slots, recipe
from detent.agents.notebook.analysis.data_file_check import LARGE_BYTES, kinds_of
from detent.agents.notebook.analysis.goal import (
    HOLDS,
    Goal,
    Measure,
    Target,
    columns_named_in,
    nearest,
    read_goal,
    target_of,
)
from detent.agents.notebook.analysis.kernel_figure import Facts
from detent.agents.notebook.analysis.narrative import comment, explain_candidate, title
from detent.agents.notebook.analysis.report import outcome, summary
from detent.agents.notebook.analysis.words import PLOT_WORDS
from detent.agents.notebook.port import Advisers, NotebookAction, Observation, PlannerFailed, PlanningResponse

COLUMNS_SHOWN = 30
EXTRAS = {  # which extra brings what the kernel lacks
    **dict.fromkeys(("", "pandas", "python_calamine"), "'detent[analysis]'"),
    **dict.fromkeys(("pyarrow", "duckdb"), "'detent[tables]'"),
}
NO_DATA = (
    "builtin:analysis needs a data file: detent notebook run DATA.csv --goal TEXT, or `data_file` in the observation's "
    "context.variables"
)


def analyst(settings: dict[str, Any]) -> Advisers:  # noqa: ARG001  # there is nothing to set
    """The offline planner and generator."""
    analysis = Analysis()
    return Advisers(analysis, analysis)


class Analysis:
    """The offline planner and generator."""

    async def plan(self, observation: Observation, feedback: dict[str, Any] | None = None) -> PlanningResponse:
        """Decide by rule."""
        view = _View(observation)
        if not view.data_file:
            raise PlannerFailed(NO_DATA, is_passing=False)
        if view.step_id is None:
            return _plan(view)
        if feedback is not None:
            return _judge_behaviour(view, feedback)
        state = observation["context"]["FSM"]["state"]
        if state == "step_running":
            return _begin_step(view)
        if state == "stage_completed":
            return _answer_goal(view)
        return _directive(is_achieved=True)

    async def generate(self, observation: Observation) -> AsyncIterator[NotebookAction]:
        """The actions of the next behaviour of the current step."""
        view = _View(observation)
        if not view.data_file:
            raise PlannerFailed(NO_DATA, is_passing=False)
        for action in _actions(view):
            yield action


class _View:
    """What the rules look at."""

    def __init__(self, observation: Observation) -> None:
        location, context = observation["location"], observation["context"]
        current = location["current"]
        self.step_id: str | None = current["step_id"] if current["stage_id"] is not None else None
        self.iteration: int = current["behavior_iteration"] or 0
        variables = context.get("variables") or {}
        self.data_file = str(variables.get("data_file") or "")
        several = variables.get("data_files")
        self.data_files = [str(one) for one in several] if isinstance(several, list) and several else [self.data_file]
        large = variables.get("large_bytes")
        self.large_bytes = int(large) if isinstance(large, int | float) else LARGE_BYTES
        self.joins_unasked = bool(variables.get("join_unasked"))
        told = (location.get("goals") or {}).get("workflow") or variables.get("problem_description")
        self.goal: Goal = read_goal(str(told or variables.get("user_goal") or ""))
        self.facts = Facts((context.get("notebook") or {}).get("cells") or [])
        self.acceptance: dict[str, Any] = context.get("acceptance") or {}

    @property
    def step(self) -> StepRecipe:
        found = recipe().step(self.step_id or "")
        if found is None:
            raise PlannerFailed(
                f"builtin:analysis does not know the step `{self.step_id}`; it knows its own plan only",
                is_passing=False,
            )
        return found

    @property
    def task(self) -> str:
        return str(self.facts.get("task") or "")

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        return self.step.candidates.get(self.task, ())

    @property
    def target(self) -> Target:
        return target_of(self.goal, self.facts.get("columns") or [], self.facts.get("roles") or {})

    @property
    def is_met(self) -> bool:
        """Whether some trial reaches every figure of the goal."""
        return any(reaches(row, self.goal.measures) for row in self.facts.get("scores") or [])


def reaches(row: dict[str, Any], measures: Iterable[Measure]) -> bool:
    """Whether the figures of one trial are what was asked for; asked for nothing, nothing is reached."""
    asked = list(measures)
    return bool(asked) and all(
        row.get(one.metric) is not None and HOLDS[one.relation](row[one.metric], one.value) for one in asked
    )


def _directive(*, is_achieved: bool, continues: bool = False, **more: Any) -> PlanningResponse:
    flags = {"continue_behaviors": continues, "target_achieved": is_achieved}
    return {"targetAchieved": is_achieved, "transition": flags, **more}


def _plan(view: _View) -> PlanningResponse:
    workflow = {"workflowTemplate": recipe().wire(view.goal.language)}
    wanted = [measure.wire() for measure in view.goal.measures]
    return _directive(
        is_achieved=False,
        context_update={"workflow_update": workflow, "variables": {"goal_measures": wanted}},
    )


def _begin_step(view: _View) -> PlanningResponse:
    focus = {"level": "steps", "focus": view.step.description.say(view.goal.language)}
    return _directive(is_achieved=False, context_update={"progress_update": focus})


def _judge_behaviour(view: _View, feedback: dict[str, Any]) -> PlanningResponse:
    """After a behaviour: on to the next candidate, done, or no way on."""
    step, is_failed = view.step, feedback.get("last_action_result") == "error"
    if step.step_id == "load" and not is_failed and view.target.how == "missing":
        raise PlannerFailed(_no_such_column(view), is_passing=False)
    refused = [source for source, one in view.acceptance.items() if not one.get("holds")]
    if refused and step.must:
        raise PlannerFailed(f"the step `{step.step_id}` did not do its work: {_why(view, refused)}", is_passing=False)
    if refused:
        return _directive(is_achieved=True)
    if len(view.candidates) > view.iteration and not view.is_met:
        return _directive(is_achieved=False, continues=True)
    if not is_failed:
        return _directive(is_achieved=True, acceptance=[*step.acceptance])
    if step.must:
        said = view.facts.error.partition("\n")[0].removeprefix("ValueError: ")
        name = PurePath(view.data_file).name
        what = f"{name} could not be read" if step.step_id == "load" else f"the step `{step.step_id}` failed"
        raise PlannerFailed(f"{what}: {said}{_way_out(view)}", is_passing=False)
    return _directive(is_achieved=True)


def _no_such_column(view: _View) -> str:
    columns = [str(name) for name in view.facts.get("columns") or []]
    shown = ", ".join(columns[:COLUMNS_SHOWN]) + (" …" if len(columns) > COLUMNS_SHOWN else "")
    near = nearest(view.target.said, columns)
    hint = f" (did you mean `{near}`?)" if near else ""
    return (
        f"the goal asks to predict `{view.target.said}`, and the file has no such column{hint}. "
        f"It has: {shown}. Start again with a goal that names one of them."
    )


def _way_out(view: _View) -> str:
    if not view.facts.error.startswith(("ModuleNotFoundError", "ImportError")):
        return ""
    found = re.search(r"(?:named|dependency|using:) '([\w.]+)'", view.facts.error)
    name = found[1].partition(".")[0] if found else ""
    package = EXTRAS.get(name, name)
    return f"; the kernel's environment needs it: pip install {package}"


def _why(view: _View, refused: list[str]) -> str:
    return f"`{refused[0]}` does not hold" + (f" ({view.facts.error})" if view.facts.error else "")


def _answer_goal(view: _View) -> PlanningResponse:
    """The answer to the goal, for the kernel to bear out."""
    reason = outcome(view.goal, view.facts)
    if not any(one.get("measured") is not None for one in view.facts.get("verdict") or []):
        return _directive(is_achieved=True, reason=reason, measurable=False)
    met, whole = bool(view.facts.get("goal_met")), not view.goal.unread  # of a goal half read nobody says it is met
    return _directive(is_achieved=met, acceptance=["goal_met is True"], reason=reason, measurable=whole)


def _actions(view: _View) -> Iterable[NotebookAction]:
    step, language = view.step, view.goal.language
    if view.iteration <= 1:
        yield from _opening(view)
        if step.step_id == "summary":
            yield {"action": "add", "shot_type": "dialogue", "content": summary(view.goal, view.facts)}
        kinds = kinds_of(view.data_files)
        for cell in step.cells:
            if (not cell.only or view.task in cell.only) and (not cell.kinds or kinds & {*cell.kinds}):
                yield from _cell(view, cell, {})
    if 0 < view.iteration <= len(view.candidates):
        candidate = view.candidates[view.iteration - 1]
        text = explain_candidate(
            view.goal, view.facts, candidate.title.say(language), view.iteration, len(view.candidates)
        )
        yield {"action": "is_thinking", "thinking_text": text, "agent_name": "builtin:analysis"}
        yield {"action": "finish_thinking"}
        if candidate.code:
            yield from _cell(view, CellRecipe(candidate.id, candidate.code), {})
        elif step.trial is not None:
            own = CellRecipe(f"{step.trial.id}-{candidate.id}", step.trial.code)
            yield from _cell(view, own, candidate.slots)


def _opening(view: _View) -> Iterable[NotebookAction]:
    """What the step before has shown, then the headings."""
    step, language = view.step, view.goal.language
    before = recipe().before(step.step_id)
    if not before:
        yield {"action": "update_title", "title": title(view.goal, view.data_file)}
    said = comment(before, view.goal, view.facts) if before else ""
    if said:
        yield {"action": "add", "shot_type": "dialogue", "content": said}
    stage = recipe().opens(step.step_id)
    if stage is not None:
        yield {"action": "new_chapter", "content": stage.title.say(language)}
    yield {"action": "new_section", "content": step.title.say(language)}


def _cell(view: _View, cell: CellRecipe, pieces: dict[str, str]) -> Iterable[NotebookAction]:
    measures = [measure.wire() for measure in view.goal.measures]
    values = {
        "data_files": view.data_files,
        "large_bytes": view.large_bytes,
        "auto_join": view.joins_unasked,
        "goal": view.goal.text,
        "target": view.target.column,
        "task": view.goal.task or ("description" if view.target.how == "unasked" else ""),
        "named": columns_named_in(view.goal, view.facts.get("columns") or []),
        "is_forecast": view.goal.is_forecast,
        "horizon": view.goal.horizon,
        "stem": PurePath(view.data_file).name.partition(".")[0] or "data",
        "measures": measures,
        "labels": PLOT_WORDS if view.goal.language == "zh" else {},
        "lead": view.goal.measures[0].metric if view.goal.measures else "",
    }
    code = fill_slots(cell.code, values, pieces)
    yield {"action": "add", "shot_type": "action", "content": code, "store_id": cell.id}
    yield {"action": "exec", "codecell_id": "lastAddedCellId", **({"auto_debug": True} if cell.auto_debug else {})}
