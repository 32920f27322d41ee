"""The machine against the table of the coding lifecycle, row for row."""

import pytest

from detent.agents.coding.machine import ADDED, CODING, CONCLUDED, OPERATIONS, SEED
from detent.core.machine import Machine
from detent.core.status import Status

# The protocol: trigger, source, target.
TRIGGERS = [
    ("USER_INPUT_REQUIREMENT", "IDLE", "PLANNING"),
    ("PRD_GENERATED", "PLANNING", "CONFIRMING"),
    ("USER_CONFIRM", "CONFIRMING", "EXECUTING"),
    ("USER_CANCEL", "CONFIRMING", "IDLE"),
    ("USER_CANCEL", "PLANNING", "IDLE"),
    ("ERROR_DETECTED", "EXECUTING", "AUTO_FIX"),
    ("FIX_SUCCESS", "AUTO_FIX", "EXECUTING"),
    ("FIX_FAILED_3X", "AUTO_FIX", "BLOCKED"),
    ("HUMAN_INTERVENTION", "BLOCKED", "EXECUTING"),
    ("ROLLBACK", "BLOCKED", "IDLE"),
    ("ALL_TASKS_DONE", "EXECUTING", "ARCHIVING"),
    ("ARCHIVE_COMPLETE", "ARCHIVING", "IDLE"),
]
# The transitions that the surrounding documents add.
FURTHER = [
    ("USER_MODIFY", "CONFIRMING", "PLANNING"),
    ("PLAN_FAILED", "PLANNING", "BLOCKED"),
    ("TASK_VERIFIED", "EXECUTING", "EXECUTING"),
    ("FIX_ATTEMPT_FAILED", "AUTO_FIX", "AUTO_FIX"),
    ("BREAKER_OPEN", "EXECUTING", "BLOCKED"),
    ("BREAKER_OPEN", "AUTO_FIX", "BLOCKED"),
    ("FORCE_STOP", "PLANNING", "BLOCKED"),
    ("FORCE_STOP", "EXECUTING", "BLOCKED"),
    ("FORCE_STOP", "AUTO_FIX", "BLOCKED"),
    ("RETRY_TASK", "BLOCKED", "EXECUTING"),
    ("SKIP_TASK", "BLOCKED", "EXECUTING"),
    ("BUDGET_EXTENDED", "BLOCKED", "EXECUTING"),
    ("ANSWER", "BLOCKED", "EXECUTING"),
    ("ARCHIVE_FAILED", "ARCHIVING", "BLOCKED"),
]
STATES = {"IDLE", "PLANNING", "CONFIRMING", "EXECUTING", "AUTO_FIX", "BLOCKED", "ARCHIVING"}


def test_the_table_is_the_seeds_row_for_row() -> None:
    assert [(row.on, row.source, row.target) for row in SEED] == TRIGGERS
    assert [(row.on, row.source, row.target) for row in ADDED] == FURTHER


def test_the_machine_has_the_seven_states_and_every_row() -> None:
    assert set(CODING.states) == STATES
    assert CODING.initial == "IDLE"
    assert CODING.ends == {"IDLE": Status.COMPLETED}
    carried = {(row.on, row.source, row.target) for row in CODING.transitions}
    assert {*TRIGGERS, *FURTHER} <= carried


def test_no_row_leads_from_executing_to_idle() -> None:
    assert not [row for row in CODING.transitions if row.source == "EXECUTING" and row.target == "IDLE"]


def test_a_machine_is_plain_data() -> None:
    assert Machine.from_json(CODING.to_json()) == CODING


@pytest.mark.parametrize("row", CODING.transitions, ids=lambda row: f"{row.source}-{row.on or row.error}-{row.target}")
def test_what_an_effect_concludes_is_guarded(row: object) -> None:
    assert (row.on in CONCLUDED) <= (row.when == f"context.verdict == '{row.on}'")  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("state", "operations"),
    [
        ("IDLE", {"start", "history"}),
        ("PLANNING", {"cancel", "pause", "stop"}),
        ("CONFIRMING", {"confirm", "revise", "cancel"}),
        ("EXECUTING", {"pause", "progress", "stop"}),
        ("AUTO_FIX", {"errors", "stop"}),
        (
            "BLOCKED",
            {"fix", "rollback", "skip", "retry", "extend", "answer", "revise", "approve", "abandon", "include"},
        ),
        ("ARCHIVING", {"review"}),
    ],
)
def test_each_state_allows_its_operations_and_no_others(state: str, operations: set[str]) -> None:
    assert set(OPERATIONS[state]) == operations
