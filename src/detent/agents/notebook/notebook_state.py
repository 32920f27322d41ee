"""A notebook run told from its journal: cells, variables, effects, plan, queue and place, as one fold of its events.

What an effect of this agent has done is in its result under `changes`; where the run stands follows from the
transitions. A Book is never written to by anybody else: it reads on, so it cannot disagree with the journal.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import msgspec
from msgspec.structs import replace

from detent.agents.notebook.cell import Cell, Notebook
from detent.agents.notebook.location import Location
from detent.agents.notebook.machine import EVENT_OF
from detent.agents.notebook.notebook_plan import WorkflowTemplate, steps_of, template_of
from detent.core.events import ContractMoved, Started
from detent.core.history import Entry
from detent.core.run import Run
from detent.core.value import digest

HISTORY_MAX = 50  # effects kept from earlier behaviours
FSM_MAX = 200  # transitions an observation can tell
WARNINGS_MAX = 200
SHOWN = ("plan", "generate")  # what shows the notebook to a planner


@dataclass
class NotebookState:
    """Everything one notebook run has come to so far; a projection of the run."""

    name: ClassVar[str] = "notebook"
    version: ClassVar[int] = 2  # another one when the fields below, or what they mean, have changed
    reach: ClassVar[int] = 0

    run_id: str = ""
    run: Run = field(default_factory=lambda: Run(id=""))
    title: str = ""
    cells: list[Cell] = field(default_factory=list)
    place: dict[str, int] = field(default_factory=dict)  # cell id: where it is in `cells`
    alias: dict[str, str] = field(default_factory=dict)  # an id a planner gave: the id the cell has
    updated: set[str] = field(default_factory=set)  # cells changed since a planner last saw the notebook
    last_added: str = ""
    last_code: str = ""
    execution_count: int = 0
    chapters: int = 0
    sections: int = 0
    # cell_id, code, repeat, ran, names it made, deeds it was seen to do, inputs it was given: for a new kernel
    executed: list[dict[str, Any]] = field(default_factory=list)
    checkpoint: dict[str, Any] = field(default_factory=dict)  # the last one of the variables: hash, bytes, at, names
    kernel_language: dict[str, Any] = field(default_factory=dict)  # what the kernel says of its language; {}: Python
    variables: dict[str, Any] = field(default_factory=dict)
    given: dict[str, Any] = field(default_factory=dict)  # what the person and the planner said, apart from the kernel's
    current: list[str] = field(default_factory=list)  # effects of this behaviour
    past: list[str] = field(default_factory=list)
    todo: list[Any] = field(default_factory=list)
    section_progress: dict[str, Any] = field(default_factory=dict)
    artifacts: list[dict[str, Any]] = field(default_factory=list)
    acceptance: dict[str, Any] = field(default_factory=dict)
    acceptance_asked: tuple[str, ...] = ()  # the planner's own, for the current step
    plan: WorkflowTemplate | None = None
    location: Location = field(default_factory=Location)
    filter: dict[str, Any] | None = None
    queue: list[dict[str, Any]] = field(default_factory=list)
    position: int = 0
    inserted: list[dict[str, Any]] = field(default_factory=list)  # updates of the plan for the next behaviour
    is_update_only: bool = False
    actions_done: int = 0
    counts: dict[str, int] = field(default_factory=lambda: {"succeeded": 0, "sections": 0})
    last_result: str = "success"
    is_phase_ended: bool = False
    borne_out: int = 0  # how often the kernel has found every acceptance expression true
    is_fallback: bool = False  # the planner has used up its tries in this step
    further: int = 0  # behaviours granted to a planner that gave no directive
    transitions: list[dict[str, Any]] = field(default_factory=list)
    transitions_all: int = 0
    proposals: dict[str, dict[str, Any]] = field(default_factory=dict)  # by contract: what an open question is about
    warnings: list[str] = field(default_factory=list)

    def dump(self) -> bytes:
        """Everything, for the next process."""
        return msgspec.json.encode(self)

    @classmethod
    def load(cls, _run_id: str, body: bytes) -> Self:
        """What another process has dumped."""
        return msgspec.json.decode(body, type=cls)

    @property
    def state(self) -> str:
        """The state of the machine."""
        return self.run.state

    @property
    def given_input(self) -> dict[str, Any]:
        """What the run was started with."""
        return self.run.context

    def read(self, entries: Iterable[Entry]) -> None:
        """Take what has happened since."""
        for entry in entries:
            self.take(entry)

    def take(self, entry: Entry) -> None:
        """Fold one event: first what it brought, then where it led."""
        event, self.run = entry.event, entry.run
        if type(event) is Started:
            self._begin(event)
        changes = self._take_event(event) if type(event) is ContractMoved else {}
        is_shown = bool(changes) and event.contract_id.split("/")[1] in SHOWN  # type: ignore[union-attr]
        # A planner speaks about what comes next, so its words count after the move; only the plan itself leads there.
        self.change({"plan": changes.pop("plan")} if is_shown and "plan" in changes else {} if is_shown else changes)
        for taken in entry.taken:
            if taken.kind == "transition":
                self._follow_move(taken.source, taken.event, taken.target, event.at)
        if is_shown:
            self.updated.clear()
            self.change(changes)

    def _begin(self, event: Started) -> None:
        given = event.input
        self.title = str(given.get("title") or "")
        self.given = dict(given.get("variables") or {})
        self.todo = list(given.get("todo") or [])
        if given.get("plan"):
            self.plan = msgspec.convert(given["plan"], WorkflowTemplate)

    def _take_event(self, event: ContractMoved) -> dict[str, Any]:
        """The changes an effect of ours has brought."""
        if event.trigger == "suspend" and event.question is not None and "update" in event.question.data:
            self.proposals[event.contract_id] = event.question.data
        changes = event.result.get("changes") if isinstance(event.result, dict) else None
        return dict(changes) if isinstance(changes, dict) and event.trigger in ("succeed", "fail") else {}

    def _follow_move(self, source: str, event: str, target: str, at: float) -> None:
        event = event or EVENT_OF.get((source, target), "")
        if event in ("UPDATE_WORKFLOW_CONFIRMED", "UPDATE_STEP_CONFIRMED"):
            self.adopt(self.pending)
        elif event == "UPDATE_WORKFLOW_REJECTED":
            self.current.append("⚠️ the proposed workflow was rejected; the plan stays as it is")
        self.current += self.location.move(event, self.plan)
        if event == "START_ACTION":  # only now: whoever writes the next actions sees what the last cells put out
            self.past, self.current = [*self.past, *self.current][-HISTORY_MAX:], []
        elif event in ("START_BEHAVIOR", "NEXT_BEHAVIOR"):
            self.queue, self.position = [], 0
            self.counts = {"succeeded": 0, "sections": 0}
            self.last_result, self.is_phase_ended = "success", False
        elif event in ("START_STEP", "NEXT_STEP"):
            self.acceptance, self.acceptance_asked, self.further, self.is_fallback = {}, (), 0, False
        elif event in ("RESET", "START_WORKFLOW"):
            self.queue, self.position, self.inserted, self.filter = [], 0, [], None
        self.transitions_all += 1
        self.transitions.append(
            {"from": source, "event": event, "to": target, "timestamp": at, "stage_id": self.location.stage_id,
             "step_id": self.location.step_id, "behavior_counter": self.location.iteration,
             "action_counter": self.actions_done}
        )  # fmt: skip
        if len(self.transitions) > 2 * FSM_MAX:
            del self.transitions[:-FSM_MAX]

    @property
    def pending(self) -> dict[str, Any]:
        """The update of the plan that waits for consent: the action done last."""
        return self.queue[self.position - 1] if 0 < self.position <= len(self.queue) else {}

    def adopt(self, update: dict[str, Any]) -> None:
        """Change the plan as an agreed update says."""
        if update.get("action") == "update_workflow":
            self.plan = template_of(update["updated_workflow"])
            self.location.next_stage_id = str(update.get("next_stage_id") or "")
            self.location.take_plan(self.plan)
        elif self.plan is not None and update.get("action") == "update_stage_steps":
            stage_id, steps = update.get("stage_id") or self.location.stage_id, steps_of(update["updated_steps"])
            stages = [replace(stage, steps=steps) if stage.id == stage_id else stage for stage in self.plan.stages]
            self.plan = replace(self.plan, stages=tuple(stages))

    def change(self, changes: dict[str, Any]) -> None:
        """Apply what one effect has done."""
        for name, value in changes.items():
            CHANGES[name](self, value)

    def put(self, cell: Cell) -> None:
        """Add a cell, or put it in the place of the one with its id."""
        if cell.id in self.place:
            self.cells[self.place[cell.id]] = cell
        else:
            self.place[cell.id] = len(self.cells)
            self.cells.append(cell)
            self.last_added = cell.id
            if cell.store_id:
                self.alias[cell.store_id] = cell.id
            if cell.type == "code":
                self.last_code = cell.id
            if cell.metadata.is_chapter:
                self.chapters += 1
            if cell.metadata.is_section:
                self.sections += 1
        if cell.execution_count:
            self.execution_count = max(self.execution_count, cell.execution_count)
        self.updated.add(cell.id)

    @property
    def failed(self) -> list[str]:
        """The cells whose last run did not end well."""
        return [cell.id for cell in self.cells if cell.type == "code" and cell.ran not in ("", "ok", "skipped")]

    def cell(self, cell_id: str) -> Cell | None:
        """The cell of that id."""
        at = self.place.get(self.alias.get(cell_id, cell_id))
        return None if at is None else self.cells[at]

    @property
    def notebook(self) -> Notebook:
        """The notebook as it stands."""
        given = self.given_input
        cells = tuple(replace(cell, is_update=True) if cell.id in self.updated else cell for cell in self.cells)
        language = str(self.kernel_language.get("name") or "python")
        if language != "python":
            cells = tuple(replace(cell, language=language) if cell.type == "code" else cell for cell in cells)
        notebook_id = str(given.get("notebook_id") or digest(self.run.id)[:32])
        kernel = given.get("kernel")
        metadata = {
            "run_id": self.run.id,
            "goal": given.get("goal", ""),
            "planner": (given.get("planner") or {}).get("use", ""),
            "achieved": given.get("achieved"),
            "reason": given.get("reason", ""),
            "state": self.state,
        }
        return Notebook(
            notebook_id=notebook_id,
            title=self.title,
            cells=cells,
            execution_count=self.execution_count,
            language=language,
            language_info=self.kernel_language,
            kernel=str((kernel or {}).get("name") or "python3"),
            metadata=metadata,
        )

    # what changes mean

    def _cells(self, cells: list[dict[str, Any]]) -> None:
        for cell in cells:
            self.put(msgspec.convert(cell, Cell))

    def _variables(self, found: dict[str, Any]) -> None:
        for name in found.get("gone", ()):
            self.variables.pop(name, None)
        new = found.get("set", {})
        outputs = self.location.levels["behaviors"].outputs
        outputs.produce(*(name for name in new if name in outputs.expected))
        step = self.location.levels["steps"].outputs
        outputs.produce(*(name for name in new if name in step.expected))
        self.variables.update(new)

    def _kernel_gone(self, _: Any) -> None:
        self.variables.clear()

    def _effects(self, found: list[str]) -> None:
        self.current += found

    def _effects_set(self, found: dict[str, Any]) -> None:
        self.current, self.past = list(found["current"]), list(found["history"])[-HISTORY_MAX:]

    def _focus(self, found: dict[str, str]) -> None:
        for level, text in found.items():
            self.location.levels[level].focus = text

    def _outputs(self, found: dict[str, dict[str, list[str]]]) -> None:
        for level, outputs in found.items():
            self.location.levels[level].outputs.update(outputs)

    def _plan(self, found: dict[str, Any]) -> None:
        if found.get("is_default"):
            self.plan = msgspec.convert(found["template"], WorkflowTemplate)
            self.location.take_plan(self.plan)
        else:
            for update in found["updates"]:
                self.adopt(update)

    def _queue(self, found: dict[str, Any]) -> None:
        self.queue, self.position = list(found["actions"]), 0
        self.inserted, self.filter, self.is_update_only = [], None, False

    def _take_inserted(self, found: dict[str, Any]) -> None:
        self.inserted += found["actions"]
        self.is_update_only = bool(found.get("is_only"))

    def _take_done(self, found: dict[str, Any]) -> None:
        self.position += 1
        self.actions_done += 1
        self.location.actions_taken.append(found["action"])
        self.last_result = found["result"]
        self.counts["succeeded"] += found["result"] == "success"
        self.counts["sections"] += bool(found.get("is_section"))
        self.is_phase_ended = self.is_phase_ended or found["action"] == "end_phase"

    def _take_executed(self, found: list[dict[str, Any]]) -> None:
        self.executed += found

    def _take_checkpoint(self, found: dict[str, Any]) -> None:
        self.checkpoint = found

    def _artifact(self, found: dict[str, Any]) -> None:
        self.artifacts.append(found)
        self.location.artifacts.append(found)
        outputs = self.location.levels["behaviors"].outputs
        outputs.in_progress = [name for name in outputs.in_progress if name != found["source"]]
        outputs.produce(found["variable_name"])

    def _take_warnings(self, found: list[str]) -> None:
        self.warnings = [*self.warnings, *found][-WARNINGS_MAX:]

    def _set(self, found: dict[str, Any]) -> None:
        """Values that simply replace others."""
        for name, value in found.items():
            setattr(self, name, tuple(value) if name == "acceptance_asked" else value)
        checked = found.get("acceptance") or {}
        self.borne_out += bool(checked) and all(one["holds"] for one in checked.values())


CHANGES: dict[str, Callable[[NotebookState, Any], None]] = {
    "cells": NotebookState._cells,
    "variables": NotebookState._variables,
    "kernel_gone": NotebookState._kernel_gone,
    "effects": NotebookState._effects,
    "effects_set": NotebookState._effects_set,
    "focus": NotebookState._focus,
    "outputs": NotebookState._outputs,
    "plan": NotebookState._plan,
    "queue": NotebookState._queue,
    "inserted": NotebookState._take_inserted,
    "done": NotebookState._take_done,
    "executed": NotebookState._take_executed,
    "checkpoint": NotebookState._take_checkpoint,
    "artifact": NotebookState._artifact,
    "warned": NotebookState._take_warnings,
    "set": NotebookState._set,
}
