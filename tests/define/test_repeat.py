"""Where `validate` says that a call is the same in every run, and where it has nothing to say."""

import pytest

from detent import Action, Machine, Question, effect, table
from detent.define.repeated_call import constant_calls
from detent.define.workflow import read_workflow

FILE = """
variables: {{to: ann, night: 0}}
states:
  a: {{type: initial, actions: [{{id: act, {action}}}]}}
  done: {{type: final}}
transitions: [{{from: a, to: done, on_transition: [{{action: increment_variable, variable: variables.night}}]}}]
"""
POST = "tool: http, params: {method: POST, url: 'http://bank/pay'"
SAME = [
    f"{POST}}}",
    f"{POST}, json: '{{{{ variables.to }}}}'}}",
    f"{POST}}}, key: rent",
    f"{POST}, json: '{{{{ context.x }}}}'}}, key: rent",
    f"{POST}}}, key: 'try {{{{ attempt }}}}'",
    "tool: shell, params: {argv: [pay]}, side_effect: true",
    "tool: shell, params: {argv: [pay]}, effect: irreversible",
    "python: 'bank:pay', approval: true",
    "tool: files.append, params: {path: a, text: b}",
    "tool: mail, side_effect: true",
]
DIFFERENT = [
    f"{POST}, json: '{{{{ context.order }}}}'}}",
    f"{POST}, json: '{{{{ variables.night }}}}'}}",
    f"{POST}}}, key: 'rent {{{{ context.date }}}}'",
    f"{POST}}}, key: '{{{{ run.id }}}}'",
]
NO_DEEDS = [
    "tool: http, params: {url: 'http://bank'}",
    "tool: http, params: {method: PUT, url: 'http://bank'}",
    f"{POST}}}, effect: idempotent",
    "tool: shell, params: {argv: [make, test]}",
    "tool: files.write, params: {path: a, text: b}",
]
SAID = [f"{POST}}}, on_repeat: {word}" for word in ("ask", "allow", "refuse", "reuse")]
SAID += [f"{POST}}}, scope: run", f"{POST}}}, repeat: 'it is due'"]


@pytest.mark.parametrize("action", SAME)
def test_a_call_without_a_part_that_can_differ_between_runs_is_named_with_the_way_out(action: str) -> None:
    workflow = read_workflow(FILE.format(action=action), "pay.yaml")
    (advice,) = workflow.advice
    assert str(advice).startswith("pay.yaml:4:32: advice: `act` is the same irreversible call in every run")
    assert 'key: "{{ context.date }}"' in str(advice)
    assert advice not in workflow.warnings, "it is right as it stands"


@pytest.mark.parametrize("action", [*DIFFERENT, *NO_DEEDS, *SAID])
def test_nothing_is_said_of_a_call_that_can_differ_or_is_no_deed_or_says_what_then(action: str) -> None:
    assert read_workflow(FILE.format(action=action), "pay.yaml").advice == ()


def test_a_machine_in_python_is_looked_through_as_well() -> None:
    async def pay(contract: object) -> None: ...

    tools = {
        "pay": effect("pay")(pay),
        "look": effect("look", kind="pure")(pay),
        "own": effect("own", scope="run")(pay),
    }
    actions = [Action("p", "pay", {"n": 1}), Action("d", "pay", {"n": "{{ context.n }}"}), Action("l", "look"),
               Action("o", "own"), Action("q", "ask", ask=Question("?"))]  # fmt: skip
    machine = Machine("m", "a", table("a - z"), work={"a": actions}, ends={"z": "completed"})
    assert [one.id for one in constant_calls(machine, tools)] == ["p"]
