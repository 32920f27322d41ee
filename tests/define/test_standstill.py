"""Where `validate` says that a run may stand for ever, and where it says nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detent import Machine, Status, Transition
from detent.define.standstill import find_standstill
from detent.define.workflow import read_workflow

CIRCLE = """
states:
  a: {type: initial, actions: [{id: look, tool: http, params: {url: "https://example.org"}}]}
  b: {type: wait, duration: 5s}
  c: {type: wait, duration: 5s}
  z: {type: final}
transitions:
  - {from: a, to: z, condition: "{{ result.look.json.ready }}"}
  - {from: a, to: b, condition: "{{ true }}"}
  - {from: b, to: c}
  - {from: c, to: %s}
"""

WAITING = """
%s
states:
  a: {type: initial}
  w: {type: wait, for: paid%s}
  z: {type: final}
transitions: [{from: a, to: w}, {from: w, to: z}%s]
"""


def test_states_that_lead_only_to_each_other_are_told_at_their_lines() -> None:
    found = read_workflow(CIRCLE % "b")
    assert found.proof.standstill.no_way_out == ("b", "c")
    told = [str(one) for one in found.warnings if "no end can be reached" in str(one)]
    assert [one.split(":", 1)[1].split(":")[0] for one in told] == ["4", "5"]


def test_a_circle_with_a_way_out_is_none() -> None:
    assert read_workflow(CIRCLE % "a").proof.standstill.no_way_out == ()


@pytest.mark.parametrize(
    ("top", "more", "rows"),
    [
        ("", ", timeout: 7d", ""),
        ("limits: {max_duration: 30d}", "", ""),
        ("", ", endless: customers may take a year", ""),
    ],
)
def test_a_wait_ends_by_itself_or_says_why_not(top: str, more: str, rows: str) -> None:
    found = read_workflow(WAITING % (top, more, rows))
    assert (found.advice, found.proof.standstill.waits, found.proof.standstill.unexplained) == ((), 1, ())


def test_a_wait_for_an_event_that_may_never_come_is_told() -> None:
    (advice,) = read_workflow(WAITING % ("", "", "")).advice
    assert "`w` waits for ever if nothing comes; give it a `timeout`" in str(advice)
    assert advice.line == 5
    by_signal = "states: {a: {type: initial}, w: {type: wait}, z: {type: final}}\n"
    by_signal += "transitions: [{from: a, to: w}, {from: w, to: z, on: PAID}]"
    (advice,) = read_workflow(by_signal).advice
    assert "`w` waits for ever" in str(advice)


def test_a_machine_without_ends_is_meant_to_go_on() -> None:
    rows = [Transition("open", "closed", on="CLOSE"), Transition("closed", "open", on="OPEN")]
    assert find_standstill(Machine("door", "open", rows)).no_way_out == ()


states = st.integers(0, 5).map("s{}".format)


@given(st.lists(st.tuples(states, states), max_size=12, unique=True), st.sets(states, min_size=1, max_size=2))
def test_exactly_the_states_without_a_way_to_an_end_are_named(rows: list[tuple[str, str]], ends: set[str]) -> None:
    ends = ends - {"s0"}
    table = [Transition(one, other, on=f"{one}_{other}") for one, other in rows if one not in ends]
    machine = Machine(
        "m",
        "s0",
        table,
        work={f"s{n}": () for n in range(6) if f"s{n}" not in ends},
        ends=dict.fromkeys(ends, Status.COMPLETED),
    )

    def follow(state: str) -> set[str]:
        seen, pending = {state}, [state]
        while pending:
            here = pending.pop()
            more = {row.target for row in table if row.source == here} - seen
            seen |= more
            pending.extend(more)
        return seen

    stuck = {one for one in follow("s0") if not follow(one) & ends and any(row.source == one for row in table)}
    assert set(find_standstill(machine).no_way_out) == (stuck if ends else set())
