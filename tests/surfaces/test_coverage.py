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
