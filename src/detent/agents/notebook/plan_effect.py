"""The effect `notebook.plan`: what the planner's answer means where the run stands.

The planner is asked where the table says so; what remains of the plan is walked without a call. An answer that is no
directive fails, and "achieved" is believed only when the kernel finds every acceptance expression true.
"""

from typing import TYPE_CHECKING, Any

import msgspec

from detent.agents.notebook.kernel_restore import way_given
from detent.agents.notebook.kernel_session import judge_acceptance, questions
from detent.agents.notebook.machine import PLANNER_FAILED
from detent.agents.notebook.notebook_plan import default_template
from detent.agents.notebook.notebook_state import NotebookState
from detent.agents.notebook.observation import feedback, goal, observe
from detent.agents.notebook.planning_response import Advice
from detent.agents.notebook.port import PlannerFailed
from detent.core.contract import Contract
from detent.core.effect_type import EffectFailed, Outcome
from detent.core.progress import say
from detent.core.question import Question

if TYPE_CHECKING:
    from detent.agents.notebook.service import Notebooks

TRIES = 3
BEHAVIORS_MAX = 20  # per step, unless the run says otherwise
BEHAVIORS_MAX_MODEL = 5  # where every one of them costs money


class Planning:
    """One planning call and what follows from it."""

    def __init__(self, notebooks: "Notebooks", book: NotebookState, contract: Contract) -> None:
        self.notebooks, self.book, self.contract = notebooks, book, contract
        self.changes: dict[str, Any] = {}
        self.patch: dict[str, Any] = {}
        self.usage: dict[str, float] = {}

    async def perform(self) -> Outcome:
        """Decide which event comes next."""
        decide = {
            "stage_running": self._stage_running,
            "step_running": self._step_running,
            "behavior_completed": self._behavior_completed,
            "step_completed": self._step_completed,
            "stage_completed": self._stage_completed,
        }[self.book.state]
        raised = await decide()
        if isinstance(raised, Question):
            return Outcome(question=raised, usage=self.usage)
        return Outcome(
            {"success": True, "event": raised, "changes": self.changes},
            raises=raised,
            patch=self.patch,
            usage=self.usage,
        )

    # state by state

    async def _stage_running(self) -> str | Question:
        book = self.book
        if (book.given_input.get("kernel") or {}).get("eager", True):
            await self.notebooks.bench.begin(book)  # it starts while the planner thinks
        if book.plan is None:
            agreed = book.proposals.get(self.contract.id) if self.contract.answers else None
            if agreed is not None:
                self.changes["plan"] = {"updates": agreed["update"]}
                return "START_STEP"
            advice = await self._ask()
            if advice.template is not None and not self.notebooks.is_agreed(book):
                return consent(book, advice.updates)
            if advice.template is not None:
                self._adopt(advice)
            else:
                template = msgspec.to_builtins(default_template(goal(book)))
                self.changes["plan"] = {"is_default": True, "template": template}
            return "START_STEP"
        if book.location.remaining("steps", book.plan):
            return "START_STEP"
        return await self._nothing_left("steps", "START_STEP", "COMPLETE_STAGE")

    async def _step_running(self) -> str:
        advice = await self._ask()
        if advice.updates:
            self._insert(advice)
            return "START_BEHAVIOR"
        if advice.is_achieved and await self._is_accepted(advice):
            return "COMPLETE_STEP"
        return "START_BEHAVIOR"

    async def _behavior_completed(self) -> str:
        book = self.book
        advice = await self._ask(feedback(book))
        if advice.continues:
            self._may_go_on()
            if advice.updates:
                self._insert(advice, is_only=False)
            return "NEXT_BEHAVIOR"
        if advice.updates:
            self._may_go_on()
            self._insert(advice)
            return "NEXT_BEHAVIOR"
        if advice.is_achieved or book.is_phase_ended:
            if await self._is_accepted(advice):
                return "COMPLETE_STEP"
            self._may_go_on()
            return "NEXT_BEHAVIOR"
        further = int(book.given_input.get("further_behaviors") or 0)
        if book.further < further:
            self.changes.setdefault("set", {})["further"] = book.further + 1
            return "NEXT_BEHAVIOR"
        error = f"; the last action ended as {book.last_result}" if book.last_result != "success" else ""
        raise self._fail("no_directive", f"the planner gave no directive after {book.location.behavior_id}{error}")

    async def _step_completed(self) -> str | Question:
        if self.book.location.remaining("steps", self.book.plan):
            return "NEXT_STEP"
        return await self._nothing_left("steps", "NEXT_STEP", "COMPLETE_STAGE")

    async def _stage_completed(self) -> str | Question:
        if self.book.location.remaining("stages", self.book.plan):
            return "NEXT_STAGE"
        return await self._nothing_left("stages", "NEXT_STAGE", "COMPLETE_WORKFLOW")

    async def _nothing_left(self, level: str, onward: str, done: str) -> str | Question:
        """Nothing of the plan remains on this level: only now is the planner asked."""
        agreed = self.book.proposals.get(self.contract.id) if self.contract.answers else None
        if agreed is not None:
            self.changes["plan"] = {"updates": agreed["update"]}
            return onward
        advice = await self._ask()
        if advice.updates and self._adds(advice, level):
            if not self.notebooks.is_agreed(self.book):
                return consent(self.book, advice.updates)
            self._adopt(advice)
            return onward
        if level == "stages":
            self.patch = await self._judge_goal(advice)
            return done
        if advice.is_achieved:
            return done
        raise self._fail("no_directive", "no step is left, and the planner neither adds one nor calls it achieved")

    async def _judge_goal(self, advice: Advice) -> dict[str, Any]:
        """Whether the goal is met: true, false, or null where nothing was measured that could say so."""
        book = self.book
        is_met: bool | None = advice.is_achieved and await self._is_accepted(advice)
        checked = self.changes.get("set", {}).get("acceptance")
        is_script = (book.given_input.get("planner") or {}).get("use") == "builtin:script"
        if is_met and is_script and (book.failed or not book.given_input.get("goal")):
            is_met = not book.failed  # a script wants its cells to run, and that was seen here; a goal says more
        elif is_met and (not advice.is_measurable or not (checked or book.borne_out)):
            is_met = None  # a planner's word alone is no evidence
        said = [advice.reason] if advice.reason else []
        if book.failed:
            said.append(f"{len(book.failed)} cells failed: {', '.join(book.failed[:5])}")
        return {"achieved": is_met, "reason": "; ".join(said), "cells": len(book.cells)}

    # parts

    async def _ask(self, said: dict[str, Any] | None = None) -> Advice:
        book = self.book
        say(self.contract, {"asking": "planner", "state": book.state})
        response = await ask_planner(self.notebooks, book, self.contract, said, self.changes)
        advice = Advice(response, book.todo, book.given)
        settings = {**self.changes.get("set", {}), **advice.changes.get("set", {})}
        self.changes.update(advice.changes)
        if settings:
            self.changes["set"] = settings
        self.usage = advice.usage
        for warning in advice.warnings:
            say(self.contract, {"warning": warning})
        return advice

    def _insert(self, advice: Advice, is_only: bool = True) -> None:
        """Updates are legal only among actions: they become the head of the next queue."""
        self.changes["inserted"] = {"actions": advice.updates, "is_only": is_only}

    def _adopt(self, advice: Advice) -> None:
        self.changes["plan"] = {"updates": advice.updates}

    def _adds(self, advice: Advice, level: str) -> bool:
        done = {*self.book.location.list_done(level)}
        place = self.book.location
        if level == "steps":
            current = {*done, place.step_id}
            steps = advice.steps[1] if advice.steps and advice.steps[0] == place.stage_id else ()
            if advice.template is not None:
                stage = advice.template.stage(place.stage_id)
                steps = stage.steps if stage else ()
            return any(step.step_id not in current for step in steps)
        stages = advice.template.stages if advice.template else ()
        return any(stage.id not in {*done, place.stage_id} for stage in stages)

    async def _is_accepted(self, advice: Advice) -> bool:
        """Whether the kernel bears out that the goal is reached."""
        book = self.book
        step = book.plan.step(book.location.stage_id, book.location.step_id) if book.plan else None
        asked = [*(step.acceptance if step else ()), *book.acceptance_asked, *advice.acceptance]
        asked = list(dict.fromkeys(asked))
        if not asked:
            return True
        looked = await self.notebooks.bench.look(book, questions(asked), {}, way_given(self.contract))
        found = judge_acceptance(asked, looked.expressions)
        self.changes.setdefault("set", {})["acceptance"] = found
        refused = [(source, one) for source, one in found.items() if not one["holds"]]
        for source, one in refused:
            why = one.get("error") or f"it is {one.get('value')!r}"
            text = f"⚠️ REFUSED: called achieved, but `{source}` does not hold: {why}"
            self.changes.setdefault("effects", []).append(text)
            say(self.contract, {"refused": source, "why": why})
        return not refused

    def _may_go_on(self) -> None:
        given = self.book.given_input
        is_model = (given.get("planner") or {}).get("use") == "llm"
        most = int(given.get("max_behaviors") or (BEHAVIORS_MAX_MODEL if is_model else BEHAVIORS_MAX))
        if self.book.location.iteration >= most:
            refused = [source for source, one in self.book.acceptance.items() if not one["holds"]]
            why = f"; not borne out: {', '.join(refused)}" if refused else ""
            raise self._fail("no_progress", f"the step took {most} behaviors and is not done{why}")

    def _fail(self, kind: str, message: str) -> EffectFailed:
        return EffectFailed(message, type=f"tool_failure.{kind}", result={"changes": self.changes})


async def ask_planner(
    notebooks: "Notebooks",
    book: NotebookState,
    contract: Contract,
    said: dict[str, Any] | None,
    changes: dict[str, Any],
) -> dict[str, Any]:
    """The planner's answer; after its last try, the fallback's for the rest of the step, if there is one."""
    observation = observe(book)
    fallback = notebooks.fallback(book)
    if fallback is not None and book.is_fallback:
        return await fallback.planner.plan(observation, said)
    try:
        return await notebooks.advisers(book).planner.plan(observation, said)
    except PlannerFailed as error:
        if fallback is not None and contract.attempt >= TRIES:
            say(contract, {"warning": f"the planner failed ({error}); the fallback is asked"})
            changes.setdefault("set", {})["is_fallback"] = True
            return await fallback.planner.plan(observation, said)
        raise failure_of(error) from error


def failure_of(error: PlannerFailed) -> EffectFailed:
    """What a planner's failure is to the machine: worth another try, or not."""
    return EffectFailed(str(error), type=PLANNER_FAILED if error.is_passing else "tool_failure.answer")


def consent(book: NotebookState, updates: list[dict[str, Any]]) -> Question:
    """The question whether the plan may change, with what would change."""
    lines = []
    for update in updates:
        if update["action"] == "update_workflow":
            stages = update["updated_workflow"].get("stages", [])
            lines.append("The planner proposes another workflow:")
            lines += [f"  {stage['id']}: {', '.join(_names(stage)) or '(no steps)'}" for stage in stages]
        else:
            lines.append(f"The planner proposes other steps for stage {update.get('stage_id')}:")
            lines.append(f"  {', '.join(str(step.get('step_id')) for step in update['updated_steps'])}")
    lines.append("May the plan change?")
    now = [stage.id for stage in book.plan.stages] if book.plan else []
    return Question("\n".join(lines), "approval", data={"update": updates, "stages_now": now})


def _names(stage: dict[str, Any]) -> list[str]:
    return [str(step.get("step_id") or step.get("id")) for step in stage.get("steps", [])]
