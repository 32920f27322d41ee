"""State machines of Amazon States Language become workflows that do the same, and what they cannot say is told."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from detent.define.asl import translate_asl
from detent.define.workflow import read_workflow
from detent.errors import DefinitionError
from tests.surfaces.command import Detent

ORDER: dict[str, Any] = json.loads((Path(__file__).parent / "files" / "order.asl.json").read_text())
CASES = """
- id: small
  workflow: order.yaml
  input: {order: 7, day: mon}
  tools: {find_order: [{output: {total: 3, country: DE, lines: [{sku: a}, {sku: b}]}}], pack: [{output: {ok: 1}}]}
  script: [{advance: 5}]
  expect: {status: completed, state: Fine, calls: {find_order: 1, pack: 2}}
- id: big
  workflow: order.yaml
  input: {order: 7, day: mon}
  tools: {find_order: [{output: {total: 300, country: DE, lines: []}}]}
  expect: {status: completed, state: Fine, calls: {mail: 1}}
- id: broken
  workflow: order.yaml
  input: {order: 7, day: mon}
  tools: {find_order: [{raise: no}]}
  expect: {status: failed, state: Broken}
"""


def machine(**states: dict[str, Any]) -> dict[str, Any]:
    return {"StartAt": next(iter(states)), "States": states}


def test_an_imported_file_is_kept_tried_and_never_overwritten(tmp_path: Path) -> None:
    detent = Detent(tmp_path)
    (tmp_path / "order.asl.json").write_text(json.dumps(ORDER))
    said = detent("import", "order.asl.json", "--output", "order.yaml")
    assert "provide the tool `pack`" in said.err
    (tmp_path / "order.test.yaml").write_text(CASES)
    assert "3 passed" in detent("test", "order.test.yaml").out
    assert "not overwritten" in detent("import", "order.asl.json", "--output", "order.yaml", code=2).err


@pytest.mark.parametrize(
    ("state", "told"),
    [
        ({"Type": "Task", "Resource": "x", "End": True, "OutputPath": "$..a"}, "more than one value"),
        ({"Type": "Pass", "End": True, "Parameters": {"a.$": "States.Hash($.b, 'MD5')"}}, "the hash"),
        (
            {"Type": "Task", "Resource": "x", "End": True, "Catch": [{"ErrorEquals": ["Mine"], "Next": "one"}]},
            "message has it",
        ),
        ({"Type": "Task", "Resource": "x", "End": True, "HeartbeatSeconds": 3}, "heartbeat"),
        ({"Type": "Task", "Resource": "arn:aws:states:::sqs:sendMessage.waitForTaskToken", "End": True}, "token"),
        ({"Type": "Wait", "Timestamp": "2026-01-01T00:00:00Z", "End": True}, "calendar"),
        ({"Type": "Task", "Resource": "x", "End": True, "Parameters": {"a.$": "$..b"}}, "more than one value"),
        ({"Type": "Task", "Resource": "x", "End": True, "Parameters": {"a.$": "States.UUID()"}}, "no counterpart"),
        ({"Type": "Task", "Resource": "x", "Next": "nowhere"}, "no state `nowhere`"),
        ({"Type": "Dance", "End": True}, "`Dance`"),
        (
            {"Type": "Task", "Resource": "x", "End": True, "Retry": [{"ErrorEquals": ["A"]}, {"ErrorEquals": ["B"]}]},
            "first",
        ),
    ],
)
def test_what_cannot_be_carried_over_is_told_with_its_place(state: dict[str, Any], told: str) -> None:
    made = translate_asl(machine(one=state), "m")
    assert any(told in note.message and note.place.startswith("$.States.one") for note in made.notes), made.notes


def test_a_document_that_is_replaced_is_kept_apart() -> None:
    made = translate_asl(
        machine(
            a={"Type": "Task", "Resource": "arn:aws:lambda:x:1:function:f", "Next": "b"},
            b={"Type": "Choice", "Choices": [{"Variable": "$.n", "NumericEquals": 1, "Next": "z"}], "Default": "y"},
            y={"Type": "Fail"},
            z={"Type": "Succeed"},
        ),
        "m",
    )
    rows = made.workflow["transitions"]
    assert {"from": "b", "to": "z", "condition": "{{ context.doc.n == 1 }}"} in rows
    read_workflow(yaml.safe_dump(made.workflow), "m")


FLOW = machine(
    check={"Type": "Task", "Resource": "a:function:check", "InputPath": "$.order", "Parameters": {"id.$": "$.id"},
           "ResultSelector": {"ok.$": "$.Payload.valid"}, "ResultPath": "$.seen.check", "Next": "gift",
           "Catch": [{"ErrorEquals": ["States.ALL"], "ResultPath": "$.why", "Next": "bad"}]},
    gift={"Type": "Pass", "Result": {"wrapped": True}, "ResultPath": "$.gift", "Next": "both"},
    both={"Type": "Parallel", "ResultPath": "$.both", "Next": "each", "Branches": [
        machine(l={"Type": "Task", "Resource": "a:function:left", "End": True}),
        machine(r={"Type": "Pass", "Parameters": {"n.$": "$.order.id"}, "ResultPath": "$.right", "End": True})]},
    each={"Type": "Map", "InputPath": "$.order", "ItemsPath": "$.lines", "ResultPath": "$.sent", "Next": "cut",
          "ItemSelector": {"line.$": "$$.Map.Item.Value", "at.$": "$$.Map.Item.Index", "who.$": "$.who"},
          "ToleratedFailureCount": 1, "ItemProcessor": machine(
              pack={"Type": "Task", "Resource": "a:function:pack", "ResultPath": "$.box", "Next": "send"},
              send={"Type": "Task", "Resource": "a:function:send", "End": True,
                    "Parameters": {"box.$": "$.box.no", "who.$": "$.who", "sku.$": "$.line.sku"}})},
    cut={"Type": "Pass", "Parameters": {"all.$": "$", "n.$": "States.ArrayLength($.sent)"}, "Next": "end",
         "OutputPath": "$.all"},
    end={"Type": "Succeed"},
    bad={"Type": "Fail", "ErrorPath": "$.why.Error", "Cause": "no"},
)  # fmt: skip
FLOW_CASES = """
- id: as-the-original-would
  workflow: flow.yaml
  input: {order: {id: 7, who: kim, lines: [{sku: a}, {sku: b}]}}
  tools:
    check: [{output: {Payload: {valid: true}}}]
    left: [{output: {l: 1}}]
    pack: [{output: {no: 5}}]
    send: [{output: {to: x}}]
  expect:
    status: completed
    calls: {pack: 2, send: 2}
    context:
      doc:
        order: {id: 7, who: kim, lines: [{sku: a}, {sku: b}]}
        seen: {check: {ok: true}}
        gift: {wrapped: true}
        both:
          - {l: 1, success: true}
          - order: {id: 7, who: kim, lines: [{sku: a}, {sku: b}]}
            seen: {check: {ok: true}}
            gift: {wrapped: true}
            right: {n: 7}
        sent: [{to: x, success: true}, {to: x, success: true}]
- id: what-failed-is-told
  workflow: flow.yaml
  input: {order: {id: 7}}
  tools: {check: [{raise: no such order}]}
  expect: {status: failed, state: bad, logs: ["tool_failure: no"]}
"""


def test_data_flows_as_the_original_lets_it_flow(tmp_path: Path) -> None:
    """InputPath, ResultSelector, ResultPath, OutputPath, what branches and items are given and give."""
    made = translate_asl(FLOW, "flow")
    assert made.notes == ()
    (tmp_path / "flow.yaml").write_text(yaml.safe_dump(made.workflow, sort_keys=False))
    (tmp_path / "flow.test.yaml").write_text(FLOW_CASES)
    said = Detent(tmp_path)("test", "flow.test.yaml", code=None)
    assert "2 passed" in said.out, said.out
    *_, send = made.workflow["states"]["each"]["actions"][0]["actions"]
    assert send["params"] == {
        "box": "{{ result.pack.no }}", "who": "{{ context.doc.order.who }}", "sku": "{{ item.sku }}",
    }  # fmt: skip


def test_every_key_that_is_left_out_is_told() -> None:
    made = translate_asl(machine(one={"Type": "Map", "End": True, "ItemBatcher": {}, "Retry": [], "Assign": {}}), "m")
    assert {note.place for note in made.notes} == {
        f"$.States.one.{key}" for key in ("ItemBatcher", "Retry", "Assign", "Iterator")
    }


@pytest.mark.parametrize(
    "document", [[], {}, {"States": {}}, {"StartAt": "a", "States": {}, "QueryLanguage": "JSONata"}]
)
def test_what_is_no_state_machine_is_refused(document: Any) -> None:
    with pytest.raises(DefinitionError):
        translate_asl(document, "m")


INVOKE = "arn:aws:states:::lambda:invoke"
CHOICE = {"Variable": "$.s", "StringMatches": "log-*.txt", "Next": "y"}
FOUND = {"y": {"Type": "Pass", "Result": "yes", "End": True}, "n": {"Type": "Pass", "Result": "no", "End": True}}
# What each gives was seen with another interpreter of the language (aws-local-stepfunctions).
NAMES = machine(a={"Type": "Choice", "Choices": [CHOICE], "Default": "n"}, **FOUND)
GIVEN: dict[str, tuple[dict[str, Any], dict[str, Any], Any]] = {
    "a result at the end": (machine(a={"Type": "Pass", "Result": {"x": 1}, "End": True}), {"q": 1}, {"x": 1}),
    "a task without parameters": (machine(a={"Type": "Task", "Resource": "add", "End": True}), {"n": 1}, {"n": 2}),
    "a function that is invoked": (
        machine(a={"Type": "Task", "Resource": INVOKE, "OutputPath": "$.Payload", "End": True,
                   "Parameters": {"FunctionName": "add", "Payload.$": "$"}}), {"n": 1}, {"n": 2}),
    "what is chosen from it": (
        machine(a={"Type": "Task", "Resource": INVOKE, "ResultSelector": {"m.$": "$.Payload.n"}, "ResultPath": "$.r",
                   "Parameters": {"FunctionName": "add", "Payload": {"n.$": "$.n"}}, "End": True}),
        {"n": 1}, {"n": 1, "r": {"m": 2}}),
    "an output that is cut": (machine(a={"Type": "Pass", "OutputPath": "$.o", "End": True}), {"o": {"z": 2}}, {"z": 2}),
    "no output": (machine(a={"Type": "Pass", "OutputPath": None, "End": True}), {"o": 1}, {}),
    "an end that cuts": (machine(a={"Type": "Succeed", "InputPath": "$.a", "OutputPath": "$.b"}), {"a": {"b": 3}}, 3),
    "a choice that cuts": (
        machine(a={"Type": "Choice", "InputPath": "$.o", "OutputPath": "$.u", "Default": "e",
                   "Choices": [{"Variable": "$.s", "NumericEquals": 1, "Next": "e"}]}, e={"Type": "Succeed"}),
        {"o": {"s": 1, "u": {"k": 1}}}, {"k": 1}),
    "branches beside a document": (
        machine(a={"Type": "Parallel", "ResultPath": "$.r", "End": True, "Parameters": {"n.$": "$.n"}, "Branches": [
            machine(x={"Type": "Task", "Resource": "add", "End": True}),
            machine(y={"Type": "Pass", "Result": "y", "End": True})]}), {"n": 1}, {"n": 1, "r": [{"n": 2}, "y"]}),
    "items": (
        machine(a={"Type": "Map", "ItemsPath": "$.xs", "End": True, "ItemProcessor": machine(
            x={"Type": "Task", "Resource": "add", "ResultPath": "$.m", "Next": "y"},
            y={"Type": "Task", "Resource": "add", "InputPath": "$.m", "End": True})}),
        {"xs": [{"n": 1}, {"n": 5}]}, [{"n": 3}, {"n": 7}]),
    "all of a list": (
        machine(a={"Type": "Pass", "End": True, "Parameters": {"r.$": "$.a[*].n", "s.$": "$.a[0:1]"}}),
        {"a": [{"n": 1}, {"n": 2}]}, {"r": [1, 2], "s": [{"n": 1}]}),
    "a pattern": (NAMES, {"s": "log-7.txt"}, "yes"),
    "another name": (NAMES, {"s": "log-.tx"}, "no"),
    "a brace in a text": (
        machine(a={"Type": "Pass", "End": True, "Parameters": {"r.$": "States.Format('it\\'s {} \\{x\\}', $.a)"}}),
        {"a": 1}, {"r": "it's 1 {x}"}),
}  # fmt: skip


@pytest.mark.parametrize("name", GIVEN)
def test_an_imported_machine_gives_what_the_original_gives(name: str, tmp_path: Path) -> None:
    document, given, output = GIVEN[name]
    detent = Detent(tmp_path)
    (tmp_path / "own.py").write_text("def add(n, **more):\n    return {'n': n + 1}\n")
    (tmp_path / "detent.tools.yaml").write_text("add: {python: 'own:add', effect: pure}\n")
    (tmp_path / "flow.json").write_text(json.dumps(document))
    detent("import", "flow.json", "--output", "flow.yaml")
    said = detent("run", "flow.yaml", "--input", json.dumps(given), "--json").json["output"]
    assert without_success(said) == output


def without_success(value: Any) -> Any:
    """A result has `success` beside what its tool gave."""
    if isinstance(value, dict):
        return {key: without_success(inner) for key, inner in value.items() if key != "success"}
    return [without_success(one) for one in value] if isinstance(value, list) else value
