"""What a workflow wants to be given is checked before anything begins."""

from pathlib import Path

import pytest

from tests.surfaces.command import Detent

FLOW = """\
input:
  order: integer
  kind: {type: string, enum: [big, small], default: small, description: How large it is}
states: {a: {type: initial}, z: {type: final}}
transitions: [{from: a, to: z}]
"""
PARENT = """\
states:
  a: {type: initial, actions: [{id: kid, workflow: flow.yaml, input: {order: "{{ context.order }}"}}]}
  z: {type: final}
transitions: [{from: a, to: z, condition: "{{ result.kid.success }}"}]
"""


@pytest.fixture
def detent(tmp_path: Path) -> Detent:
    (tmp_path / "flow.yaml").write_text(FLOW)
    (tmp_path / "parent.yaml").write_text(PARENT)
    return Detent(tmp_path)


def test_input_that_does_not_fit_is_refused_and_nothing_is_journalled(detent: Detent) -> None:
    said = detent("run", "flow.yaml", "--set", "kind=huge", code=2)
    assert "input.order is missing" in said.err
    assert "(give --set order=…, or --input JSON)" in said.err
    assert "input.kind must be one of 'big', 'small'" in said.err
    assert detent("list", "--json").json["runs"] == []
    detent("run", "flow.yaml", "--dry-run", code=2)


def test_defaults_are_part_of_what_the_run_was_given(detent: Detent) -> None:
    assert detent("run", "flow.yaml", "--set", "order=7", "--json").json["output"] == {"order": 7, "kind": "small"}
    assert '"kind": "small"' in detent("log", "last").out


def test_a_child_is_given_what_it_wants_or_fails_with_a_validation_error(detent: Detent) -> None:
    detent("run", "parent.yaml", "--set", "order=7")
    said = detent("run", "parent.yaml", "--set", "order=many", "--json", code=1).json
    assert said["error"]["type"] == "validation_error"
