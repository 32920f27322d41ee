"""What the steps of a `steps:` file gave, as references and conditions read it: values in, values out."""

from typing import Any

import pytest

from detent.core.expression.step_filter import STEP_FILTERS, item_record, last_output, last_value, record

step, at, text = STEP_FILTERS["step"], STEP_FILTERS["step_at"], STEP_FILTERS["step_text"]
FAILED = {"success": False, "error": {"message": "no disk"}}
ITEM = {"index": 1, "error": "odd"}
REJECTED = {"approved": False, "error": True, "errorMessage": "rejected"}


@pytest.mark.parametrize(
    ("result", "answer", "made"),
    [
        (None, None, {"skipped": True}),
        ({"stdout": "hi\n"}, None, {"stdout": "hi\n"}),
        ({"stdout": '{"a": 1}'}, None, {"stdout": '{"a": 1}', "json": {"a": 1}}),
        ({"stdout": "NaN"}, None, {"stdout": "NaN"}),
        ({"stdout": "x", "json": [1]}, None, {"stdout": "x", "json": [1]}),
        ({"approved": True, "by": "ann"}, None, {"approved": True, "approvedBy": "ann"}),
        ({"stdout": "x"}, {"approved": False}, {**REJECTED, "stdout": "x"}),
        (FAILED, None, {"error": True, "errorMessage": "no disk"}),
        ({"success": False, "error": {"type": "timeout"}}, None, {"error": True, "errorMessage": "timeout"}),
        ({"success": False, "branches": {"b": FAILED}}, None, {"error": True, "errorMessage": "branch b: no disk"}),
        ({"success": False, "failed": [ITEM]}, None, {"error": True, "errorMessage": "item 1: odd"}),
        ({"items": [{"value": 1}, 2], "failed": []}, None, {"stdout": "[1,null]", "json": [1, None]}),
        ({"output": [{"n": 5.0}]}, None, {"stdout": '{"n":5}', "json": {"n": 5.0}}),
        ({"output": []}, None, {"stdout": "", "json": []}),
        ({"data": {"n": 1}}, None, {"response": {"n": 1}}),
        ({"value": "7"}, None, {"stdout": "7", "json": 7}),
        ({"value": None}, None, {}),
        ({}, None, {}),
    ],
)  # fmt: skip
def test_a_result_by_the_names_of_its_references(result: Any, answer: Any, made: dict[str, Any]) -> None:
    assert record(result, answer) == made


def test_branches_have_the_ids_of_the_file_and_one_of_many_speaks_for_all() -> None:
    both = {"branches": {"a1": {"stdout": "1"}, "b": {"stdout": "2"}}}
    assert record(both, ids={"a1": "a"}) == {"stdout": '{"a":1,"b":2}', "json": {"a": 1, "b": 2}}
    first = {"branches": {"a": None, "b": {"stdout": "2"}}}
    assert record(first)["stdout"] == "2"


@pytest.mark.parametrize(
    ("value", "path", "found"),
    [({"a": [1, {"b": 2}]}, "a.1.b", 2), ([1], "1", None), ([1], "x", None), ({"a": 1}, "a.b", None), (3, "", 3)],
)
def test_a_path_finds_what_is_there_and_null_elsewhere(value: Any, path: str, found: Any) -> None:
    assert at(value, path) == found


def test_a_question_is_read_with_what_it_was_about() -> None:
    assert step({"data": {"ok": 1}}, "response.ok") == 1
    assert step({"approved": True}, "subject", None, {"value": "5"}) == "5"
    assert step({"approved": True}, "json", None, {"value": "5"}) == 5


def test_the_environment_has_every_argument_and_what_is_put_over_it() -> None:
    made = STEP_FILTERS["step_env"]({"my-name": "ann", "n": 5.0, "none": None, "--": 1}, {"X": 2, "GONE": None})
    whole = made.pop("LOBSTER_ARGS_JSON")
    assert whole == '{"my-name":"ann","n":5,"none":null,"--":1}'
    assert made == {"LOBSTER_ARG_MY_NAME": "ann", "LOBSTER_ARG_N": "5", "LOBSTER_ARG_NONE": "null", "X": "2"}
    assert STEP_FILTERS["step_env"](None) == {"LOBSTER_ARGS_JSON": "{}"}


def test_texts_conditions_and_costs() -> None:
    assert [text(None), text("a\n"), text("a\n", True), text([1.0])] == ["", "a\n", "a", "[1]"]
    values: list[Any] = [[], {}, "", 0, None, "0"]
    assert [STEP_FILTERS["step_true"](one) for one in values] == [True, True, False, False, False, True]
    compare = STEP_FILTERS["step_compare"]
    assert [compare("Infinity", ">", 5), compare("-Infinity", ">", 5)] == [True, False]
    assert [compare(1, sign, "1") for sign in ("<", "<=", ">", ">=")] == [False, True, False, True]
    assert [compare(1, "<", 2), compare(3, ">", 2), compare(True, "<", 2), compare("x", "<", 2)] == [
        True,
        True,
        False,
        False,
    ]
    assert (
        STEP_FILTERS["step_cost"]({"a": {"cost_usd": 0.5}, "b": None, "c": {"cost_usd": "?"}, "d": {"cost_usd": 2}})
        == 2.5
    )
    assert STEP_FILTERS["step_cost"](None) == 0.0


def test_the_last_step_that_ran_and_did_not_fail_is_the_output() -> None:
    results = {"a": {"stdout": "[1, 2]"}, "b": FAILED, "c": None}
    assert last_output(results, ["a", "b", "c"]) == [1, 2]
    assert last_value(results, ["a", "b", "c"]) == [1, 2]
    assert last_output({"a": {"stdout": "text"}}, ["a"]) == ["text"]
    assert last_output({"a": {"approved": True}, "a__subject": {"value": "3"}}, ["a"]) == [3]
    assert last_output({}, ["a"]) == []
    assert last_value(None, None) is None


def test_an_item_of_a_loop_keeps_what_its_steps_gave() -> None:
    assert item_record({"item": 1}, {"a": {"stdout": "2"}, "b": None, "c": {"approved": True}}) == {
        "item": 1, "a": 2, "c": {"approved": True},
    }  # fmt: skip


def test_a_question_shows_what_the_file_says_or_what_the_step_asks_for() -> None:
    request = STEP_FILTERS["step_request"]
    asked = {"requiresApproval": {"prompt": "Go?", "items": [1], "required_approver": "ann"}}
    assert request(asked, {"prompt": "?"}) == {"prompt": "Go?", "items": [1], "requiredApprover": "ann"}
    assert request("[1]", {"prompt": "?"}) == {"items": [1], "prompt": "?", "preview": "[1]"}
    assert request(" plain ", None) == {"items": [], "preview": "plain"}
    assert request(None, {"items": [3]}) == {"items": [3]}
