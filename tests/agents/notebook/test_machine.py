"""The machine is the protocol's table, and nothing else moves it."""

from collections import deque
from pathlib import Path

import pytest

from detent.agents.notebook.brief import Brief
from detent.agents.notebook.machine import ERROR_ROWS, NOTEBOOK, TABLE
from detent.core.effect_type import Declared
from detent.core.engine import advance
from detent.core.events import Signalled, Started
from detent.core.machine import Machine
from detent.core.run import Run
from detent.errors import EventRefused

ROWS = [tuple(line.split(" | ")) for line in (Path(__file__).parent / "protocol.md").read_text().splitlines()]
EVENTS = sorted({event for _, event, _ in ROWS})


def test_the_table_is_the_protocols_row_for_row() -> None:
    assert [(row.source, row.on, row.target) for row in TABLE] == ROWS
    assert (len(TABLE), len(NOTEBOOK.states)) == (45, 14)
    assert not any(row.when or row.error for row in TABLE)


def test_the_engines_own_rows_lead_nowhere_the_table_does_not() -> None:
    ways = {(source, target) for source, _, target in ROWS}
    assert all((row.source, row.target) in ways for row in ERROR_ROWS)
    assert set(NOTEBOOK.transitions) == {*TABLE, *ERROR_ROWS}


def begun() -> Run:
    given = {**Brief().input(), "door": "notebook.act"}
    effects = {f"notebook.{name}": Declared(kind="idempotent") for name in ("act", "plan", "generate")}
    event = Started(machine=NOTEBOOK.digest, input=given, effects=effects, at=1.0)
    return advance(NOTEBOOK, Run(id="r"), event)[0]


def everywhere() -> dict[str, Run]:
    """A run in every state, brought there by signals alone."""
    found = {"idle": begun()}
    todo = deque(found.values())
    while todo:
        run = todo.popleft()
        for source, event, target in ROWS:
            if source == run.state and target not in found:
                found[target] = advance(NOTEBOOK, run, Signalled(event, at=2.0))[0]
                todo.append(found[target])
    return found


def test_every_row_can_be_taken_and_every_other_pair_is_refused_without_trace() -> None:
    places = everywhere()
    assert set(places) == set(NOTEBOOK.states)
    table = {(source, event): target for source, event, target in ROWS}
    refused = 0
    for state, run in places.items():
        for event in [*EVENTS, "NO_SUCH_EVENT"]:
            if (state, event) in table:
                assert advance(NOTEBOOK, run, Signalled(event, at=3.0))[0].state == table[state, event]
            else:
                with pytest.raises(EventRefused):
                    advance(NOTEBOOK, run, Signalled(event, at=3.0))
                refused += 1
    assert refused == 14 * (len(EVENTS) + 1) - 45


def test_the_machine_survives_its_own_json() -> None:
    assert Machine.from_json(NOTEBOOK.to_json()) == NOTEBOOK
