"""`detent test --coverage`: what no case goes through is named."""

from pathlib import Path

from tests.surfaces.command import Detent

FLOW = """
name: flow
group: {key: "{{ context.repo }}"}
states: {a: {type: initial, actions: [{id: x, tool: shell, params: {argv: [true]}}]}, b: {}, z: {type: final}}
transitions: [{from: a, to: z}, {from: a, to: b, on: error}, {from: b, to: z}]
"""
CASE = """
- {id: fine, workflow: flow.yaml, input: {repo: r}, expect: {status: completed, path: [a, z]}}
"""
FAILS = """
- {id: fails, workflow: flow.yaml, input: {repo: r}, tools: {shell: [{raise: no}]}, expect: {path: [a, b, z]}}
"""


def test_what_no_case_goes_through_is_named(tmp_path: Path) -> None:
    detent = Detent(tmp_path)
    (tmp_path / "flow.yaml").write_text(FLOW)
    (tmp_path / "flow.test.yaml").write_text(CASE)
    said = detent("test", "flow.test.yaml", "--coverage").out
    assert "2 of 3 states entered, 1 of 3 transitions taken" in said
    assert "never entered: b" in said
    assert "never taken: b → z" in said
    (tmp_path / "flow.test.yaml").write_text(CASE + FAILS)
    assert "3 of 3 states entered, 3 of 3 transitions taken" in detent("test", "flow.test.yaml", "--coverage").out
    (seen,) = detent("test", "flow.test.yaml", "--coverage", "--json").json["coverage"]
    assert seen["states"] == {"a": 2, "b": 1, "z": 2}
    assert [row["count"] for row in seen["transitions"]] == [1, 1, 1]


SAGA = """
name: saga
finally: [{id: clean, type: log, message: over}]
states:
  a:
    type: initial
    actions:
      - {id: book, tool: shell, params: {argv: [true]}, undo: {tool: shell, params: {argv: [false]}}}
      - {id: pay, tool: shell, params: {argv: [true]}}
  z: {type: final}
transitions: [{from: a, to: z}]
"""


def test_taking_back_and_what_comes_last_count_as_entered_when_they_were(tmp_path: Path) -> None:
    detent = Detent(tmp_path)
    (tmp_path / "saga.yaml").write_text(SAGA)
    (tmp_path / "saga.test.yaml").write_text("- {id: fine, workflow: saga.yaml, expect: {status: completed}}\n")
    said = detent("test", "saga.test.yaml", "--coverage").out
    assert "3 of 4 states entered" in said
    assert "never entered: undoing" in said, "no case takes anything back"
    fails = (
        "- {id: fails, workflow: saga.yaml, tools: {shell: [{output: {}}, {raise: no}]}, expect: {status: failed}}\n"
    )
    with (tmp_path / "saga.test.yaml").open("a") as file:
        file.write(fails)
    assert "4 of 4 states entered, 1 of 1 transitions taken" in detent("test", "saga.test.yaml", "--coverage").out


OWN_TOOL = """
name: own
group: {key: "{{ context.repo or 'x' }}"}
tools: {check: {shell: [./check], effect: pure, ok_exit: [0, 3]}}
states: {a: {type: initial, actions: [{id: c, tool: check}]}, z: {type: final}, bad: {type: error}}
transitions: [{from: a, to: z}, {from: a, to: bad, on: error}]
"""
OWN_CASES = """
- {id: none, workflow: own.yaml, expect: {status: completed}}
- {id: allowed, workflow: own.yaml, tools: {check: [{output: {exit: 3}}]}, expect: {status: completed}}
- {id: fails, workflow: ./own.yaml, tools: {check: [{output: {exit: 1}}]}, expect: {error: tool_failure.exit}}
"""


def test_a_stub_of_a_tool_of_the_file_fails_as_it_would_and_the_file_counts_once(tmp_path: Path) -> None:
    detent = Detent(tmp_path)
    (tmp_path / "own.yaml").write_text(OWN_TOOL)
    (tmp_path / "own.test.yaml").write_text(OWN_CASES)
    (seen,) = detent("test", "own.test.yaml", "--coverage", "--json").json["coverage"]
    assert seen["states"] == {"a": 3, "z": 2, "bad": 1}


def test_a_case_of_a_file_with_a_group_holds_through_every_death(tmp_path: Path) -> None:
    detent = Detent(tmp_path)
    (tmp_path / "own.yaml").write_text(OWN_TOOL)
    (tmp_path / "own.test.yaml").write_text(OWN_CASES)
    assert "3 passed, 0 failed" in detent("test", "own.test.yaml", "--crash").out
