"""The two questions a notebook run asks: what is to be decided (Planner), and what is to be done (Generator).

Both know nothing of hosts, journals or kernels: an observation comes in, plain JSON goes out. They must not keep what
matters between two calls: after a crash the next call may come to another process. Everything an answer depends on is
in the observation, and an answer is journalled before anybody acts on it.

An observation (`view.observe`):

    location
      current   stage_id, step_id, behavior_id, behavior_iteration
      progress  stages | steps | behaviors: completed[], current, remaining[], iteration, focus,
                current_outputs {expected[], produced[], in_progress[]}
      goals     workflow (the person's own words), stage, step, behavior
    context
      variables  name: JSON value, or a line such as `DataFrame(1460×79)`; among them what the person gave:
                 problem_description, data_file, and everything of --custom-context
      effects    current[], history[]: what cells printed and showed, tracebacks, and detent's own warnings
      notebook   notebook_id, title, cells[], cell_count, execution_count, last_cell_type, last_output
      FSM        state, last_transition, timestamp, history[], transition[]
      toDoList, section_progress, acceptance {expression: {holds, value | error}}

A planning response: `targetAchieved`, `transition {continue_behaviors, target_achieved}`, `context_update`,
`context_filter`, and detent's own `acceptance`: expressions that the kernel must find true before "achieved" is
believed. `measurable: false` says that the goal names nothing that could be measured: the run then ends with `achieved`
null, as it does where no acceptance expression was ever checked. A step of a workflow template may carry `acceptance`
and `expected` as well. `usage` (`tokens`, `cost_usd`) is counted against the run's limits.
"""

from collections.abc import AsyncIterator
from typing import Any, NamedTuple, Protocol

Observation = dict[str, Any]
PlanningResponse = dict[str, Any]
NotebookAction = dict[str, Any]


class PlannerFailed(Exception):
    """The planner or the generator could not answer; `is_passing` means that trying again may help."""

    def __init__(self, message: str, *, is_passing: bool = True) -> None:
        super().__init__(message)
        self.is_passing = is_passing


class Planner(Protocol):
    """Decides whether a goal is reached and which way to go on."""

    async def plan(self, observation: Observation, feedback: dict[str, Any] | None = None) -> PlanningResponse:
        """Judge where the run stands; `feedback` says how the behaviour that has just ended went."""


class Generator(Protocol):
    """Writes the actions of one behaviour."""

    def generate(self, observation: Observation) -> AsyncIterator[NotebookAction]:
        """The actions in the protocol's form (`{"action": "add", …}`), one after the other."""


class Debugger(Protocol):
    """Repairs code that failed; offline by rules, or with a model."""

    async def repair(self, failure: dict[str, Any]) -> dict[str, Any] | None:
        """Better code for a failed cell, as `{"code", "why"}`, or None.

        `failure` has `code`, `error` {ename, evalue, traceback}, `attempt` (from 1), `variables` and `repairs`.
        """


class Advisers(NamedTuple):
    """Who a run asks. A source of advisers is a function of its settings: `analyst(settings) -> Advisers`."""

    planner: Planner
    generator: Generator
    debugger: Debugger | None = None
