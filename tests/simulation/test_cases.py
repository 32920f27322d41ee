"""Every case of every rule with a death at every moment: it ends the same, and replays to the same run."""

from pathlib import Path

import pytest

from detent.define.workflow import read_workflow
from detent.testing import CaseStep, crash_case, play, read_cases, simulate
from tests.surfaces.command import Detent

ROOT = Path(__file__).parents[2]
CASES = sorted((ROOT / "tests" / "define" / "cases").glob("*.test.yaml"))
SHIPPED = [*sorted((ROOT / "examples").rglob("*.test.yaml"))]
DEATHS_MAX = 12  # of a case, spread evenly over its moments; `./run soak` has them all

FLOW = """
states:
  a: {type: initial, actions: [{id: look, tool: look}, {id: pay, tool: pay, side_effect: true}]}
  z: {type: final}
transitions: [{from: a, to: z, condition: "{{ result.pay.n == 7 }}"}]
"""


@pytest.mark.parametrize("path", [*CASES, *SHIPPED], ids=lambda path: path.name)
def test_a_case_ends_the_same_wherever_the_process_dies(path: Path) -> None:
    for case in read_cases(path):
        verdict = crash_case(case, DEATHS_MAX)
        assert verdict.ok, f"{case.where}: {case.id}: {verdict.problem} {verdict.differs} {verdict.actual}"


def test_a_death_is_really_a_death_and_a_deed_is_done_once() -> None:
    machine = read_workflow(FLOW).machine
    script = [CaseStep("approve", "pay", {"approved": True})]
    tools = {"look": ({"n": 1}, {"n": 2}), "pay": ({"n": 7}, {"n": 8})}
    whole = simulate(play(machine, tools, script))
    assert {"look begins", "look is done", "pay begins", "pay is done", "before a write"} <= set(whole.moments)
    for at, moment in enumerate(whole.moments, 1):
        told = simulate(play(machine, tools, script, die_at=[at]))
        assert (told.run.state, told.calls, told.repeats) == ("z", ("look", "pay"), ()), moment
        if moment.endswith(("begins", "is done")):
            assert told.run.seq > whole.run.seq, f"{moment}: recovery leaves its trace"


def test_two_deaths_are_survived_too() -> None:
    machine = read_workflow(FLOW).machine
    script = [CaseStep("approve", "pay", {"approved": True})]
    for first in range(1, 14, 2):
        for second in range(first + 1, 18, 3):
            told = simulate(play(machine, {"pay": ({"n": 7}, {"n": 8})}, script, die_at=[first, second]))
            assert (told.run.state, told.calls, told.repeats) == ("z", ("look", "pay"), ()), (first, second)


def test_a_user_can_ask_for_it(tmp_path: Path) -> None:
    detent = Detent(tmp_path)
    cases = ROOT / "examples" / "approval" / "approval.test.yaml"
    assert "6 passed, 0 failed" in detent("test", "--crash", str(cases)).out
