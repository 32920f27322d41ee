"""A call that its tool would refuse is found in the file, before it is made."""

import pytest

from detent.define.problem import BrokenDefinition
from detent.define.workflow import read_workflow
from detent.effects.registry import builtin

FILE = """
states:
  a: {{type: initial, actions: [{{id: act, {action}}}]}}
  done: {{type: final}}
transitions: [{{from: a, to: done}}]
"""


def find_problems(action: str) -> list[str]:
    try:
        read_workflow(FILE.format(action=action), "flow.yaml", known_effects=builtin())
    except BrokenDefinition as error:
        return [one.message for one in error.problems]
    return []


@pytest.mark.parametrize(
    ("action", "said"),
    [
        ("tool: shell, params: {command: pay}", ["`shell` needs `argv`", "`shell` knows no `command`"]),
        ("tool: shell", ["`shell` needs `argv`"]),
        ("tool: http, params: {uri: 'http://bank'}", ["`http` needs `url`", "`http` knows no `uri`"]),
        ("tool: files.write, params: {text: b}", ["`files.write` needs `path`"]),
        ("tool: files.read, params: {path: a, text: b}", ["`files.read` knows no `text`"]),
    ],
)
def test_an_argument_that_a_tool_does_not_know_or_lacks_is_named(action: str, said: list[str]) -> None:
    found = find_problems(action)
    assert len(found) == len(said)
    assert all(any(one.startswith(start) for one in found) for start in said), found


@pytest.mark.parametrize(
    "action",
    [
        "tool: shell, params: {argv: [pay], env: {A: b}}, sandbox: strict",
        "tool: shell, params: '{{ context.call }}'",
        "tool: '{{ context.tool }}', params: {anything: 1}",
        "tool: http, params: {url: '{{ context.url }}'}, ok_status: [404]",
        "tool: files.append, params: {path: a, text: b}",
        "python: 'bank:pay', params: {amount: 1}",
    ],
)
def test_what_a_tool_takes_or_what_only_a_run_knows_is_no_problem(action: str) -> None:
    assert find_problems(action) == []
