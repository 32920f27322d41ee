"""`sandbox`, `paths` and `network` of an action: what they compile to, and what is said of those that make no sense."""

import pytest

from detent.define.document import read_document
from detent.define.workflow import compile_document
from detent.errors import DefinitionError

FLOW = """
name: boxed
version: 1
states:
  a:
    type: initial
    actions:
      - {{id: step, {action}}}
  b: {{type: final}}
transitions:
  - {{from: a, to: b}}
"""


def compiled(action: str) -> dict[str, object]:
    machine = compile_document(read_document(FLOW.format(action=action), "flow.yaml")).machine
    return dict(machine.work["a"][0].input)


def test_they_are_part_of_the_call() -> None:
    found = compiled("tool: shell, params: {argv: [make]}, sandbox: folder, paths: {write: [out], read: [/srv]}")
    assert found == {"argv": ["make"], "sandbox": "folder", "paths": {"write": ["out"], "read": ["/srv"]}}
    found = compiled('python: "tools:clean", params: {n: 1}, sandbox: strict, network: true')
    assert found == {"function": "tools:clean", "args": {"n": 1}, "sandbox": "strict", "network": True}


@pytest.mark.parametrize(
    ("action", "problem"),
    [
        ("tool: shell, params: {argv: [make]}, sandbox: tight", "tight"),
        ("tool: http, params: {url: x}, sandbox: folder", "is for `shell` and `python`"),
        ("tool: shell, params: {argv: [make]}, sandbox: folder, paths: {reed: [x]}", "knows no `reed`"),
        ("tool: shell, params: {argv: [make]}, sandbox: folder, paths: {read: x}", "must be a list of paths"),
        ("tool: shell, params: {argv: [make], sandbox: home}, sandbox: folder", "under `params`"),
    ],
)
def test_what_makes_no_sense_is_told(action: str, problem: str) -> None:
    with pytest.raises(DefinitionError, match=problem):
        compiled(action)
