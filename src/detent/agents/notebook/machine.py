"""The machine of a notebook run: 14 states and 45 transitions, the protocol's own table.

TABLE is the whole protocol; a test compares it row for row with the specification. A failure of a state's work is that
state's FAIL, and a person's no is its REJECTED: the rows below the table say so in the engine's words and lead nowhere
the table does not lead.
"""

from typing import Any

from detent.core.machine import Action, Machine, Retry, Transition, table
from detent.core.status import Status

TABLE = table("""
    idle                     START_WORKFLOW             stage_running
    stage_running            START_STEP                 step_running
    stage_running            COMPLETE_STAGE             stage_completed
    step_running             START_BEHAVIOR             behavior_running
    step_running             COMPLETE_STEP              step_completed
    behavior_running         START_ACTION               action_running
    behavior_running         COMPLETE_BEHAVIOR          behavior_completed
    action_running           COMPLETE_ACTION            action_completed
    action_completed         NEXT_ACTION                action_running
    action_completed         COMPLETE_BEHAVIOR          behavior_completed
    behavior_completed       NEXT_BEHAVIOR              behavior_running
    behavior_completed       COMPLETE_STEP              step_completed
    step_completed           NEXT_STEP                  step_running
    step_completed           COMPLETE_STAGE             stage_completed
    stage_completed          NEXT_STAGE                 stage_running
    stage_completed          COMPLETE_WORKFLOW          workflow_completed
    workflow_completed       RESET                      idle

    action_running           UPDATE_WORKFLOW            workflow_update_pending
    action_running           UPDATE_STEP                step_update_pending
    workflow_update_pending  UPDATE_WORKFLOW_CONFIRMED  action_completed
    workflow_update_pending  UPDATE_WORKFLOW_REJECTED   action_completed
    workflow_update_pending  COMPLETE_ACTION            workflow_update_pending
    step_update_pending      UPDATE_STEP_CONFIRMED      action_completed
    step_update_pending      UPDATE_STEP_REJECTED       error

    stage_running            FAIL                       error
    stage_running            CANCEL                     cancelled
    step_running             FAIL                       error
    step_running             CANCEL                     cancelled
    behavior_running         FAIL                       error
    behavior_running         CANCEL                     cancelled
    action_running           FAIL                       error
    action_running           CANCEL                     cancelled
    action_completed         FAIL                       error
    action_completed         CANCEL                     cancelled
    behavior_completed       FAIL                       error
    behavior_completed       CANCEL                     cancelled
    step_completed           FAIL                       error
    step_completed           CANCEL                     cancelled
    stage_completed          CANCEL                     cancelled
    workflow_update_pending  CANCEL                     cancelled
    step_update_pending      CANCEL                     cancelled

    error                    RESET                      idle
    error                    START_WORKFLOW             stage_running
    error                    START_BEHAVIOR             behavior_running
    cancelled                RESET                      idle
""")

# The same rows again for what the engine tells in its own words: (source, event of the table, error type).
_TOLD = [(row.source, "FAIL", "*") for row in TABLE if row.on == "FAIL"] + [
    ("workflow_update_pending", "UPDATE_WORKFLOW_REJECTED", "approval_rejected"),
    ("step_update_pending", "UPDATE_STEP_REJECTED", "approval_rejected"),
    # There is no FAIL here: a planner that cannot say whether the goal is met leaves it as not met.
    ("stage_completed", "COMPLETE_WORKFLOW", "*"),
]
TARGET = {(row.source, row.on): row.target for row in TABLE}
ERROR_ROWS = tuple(Transition(source, TARGET[source, on], error=error) for source, on, error in _TOLD)
EVENT_OF = {(source, TARGET[source, on]): on for source, on, _ in _TOLD}

PLANNER_FAILED = "tool_failure.planner"  # may pass: tried again
_RETRY = Retry(limit=2, on=(PLANNER_FAILED,), delay_s=1.0, factor=2.0)
_WHERE: dict[str, Any] = {"run_id": "{{ run.id }}"}

PLAN = (Action("plan", "notebook.plan", input=_WHERE, retry=_RETRY),)
CONFIRM = (Action("confirm", "notebook.confirm", input=_WHERE),)
WORK = {
    "stage_running": PLAN,
    "step_running": PLAN,
    "behavior_running": (Action("generate", "notebook.generate", input=_WHERE, retry=_RETRY),),
    "action_running": (
        # The door depends on the cell: one that must not run twice goes through `notebook.once`.
        Action("act", "{{ context.door }}", input={**_WHERE, "call": "{{ context.call }}"}),
        # Only where a person's word stands in for a result: what they said is entered into the notebook.
        Action("record", "notebook.record", input=_WHERE, when="result.act.changes == null"),
    ),
    "action_completed": (Action("next", "notebook.next", input=_WHERE),),
    "behavior_completed": PLAN,
    "step_completed": PLAN,
    "stage_completed": PLAN,
    "workflow_update_pending": CONFIRM,
    "step_update_pending": CONFIRM,
}

NOTEBOOK = Machine(
    name="notebook",
    initial="idle",
    transitions=TABLE + ERROR_ROWS,
    work=WORK,
    ends={
        "workflow_completed": Status.COMPLETED,
        "error": Status.FAILED,
        "cancelled": Status.CANCELLED,
    },
    output={"achieved": "{{ context.achieved }}", "reason": "{{ context.reason }}", "cells": "{{ context.cells }}"},
    title="A notebook made by a planner, a generator and a kernel",
)


def canonical(state: str) -> str:
    """A state's name in lower case; the protocol's documents use both cases."""
    return state.strip().lower()


MACHINES = (NOTEBOOK,)
