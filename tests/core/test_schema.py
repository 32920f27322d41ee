"""Checking a form's data: every problem at once, as sentences a person can act on."""

from typing import Any

import pytest

from detent.core.schema import problems

PERSON = {
    "type": "object",
    "required": ["name", "age"],
    "properties": {
        "name": {"type": "string", "minLength": 2, "maxLength": 5},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "tags": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 2},
        "kind": {"enum": ["a", "b"]},
    },
    "additionalProperties": False,
}


def test_data_that_fits_has_no_problems() -> None:
    assert problems(PERSON, {"name": "bob", "age": 7, "tags": ["x"], "kind": "a"}) == []
    assert problems({}, {"anything": [1, None]}) == []


def test_every_problem_is_told_at_once() -> None:
    data = {"name": "x", "tags": [1, "y", "z"], "kind": "c", "extra": 1}
    assert problems(PERSON, data) == [
        "data.age is missing",
        "data.name must be at least 2 characters",
        "data.tags must be at most 2 items",
        "data.tags[0] must be string, not integer",
        "data.kind must be one of 'a', 'b'",
        "data.extra is not expected; known: name, age, tags, kind",
    ]


@pytest.mark.parametrize(
    ("schema", "value", "problem"),
    [
        ({"type": "integer"}, True, "data must be integer, not boolean"),
        ({"type": "integer"}, 1.5, "data must be integer, not number"),
        ({"type": "number"}, "1", "data must be number, not string"),
        ({"type": "boolean"}, 1, "data must be boolean, not integer"),
        ({"type": "null"}, 0, "data must be null, not integer"),
        ({"type": ["string", "null"]}, 5, "data must be string or null, not integer"),
        ({"type": "object"}, [], "data must be object, not array"),
        ({"type": "array"}, {}, "data must be array, not object"),
        ({"type": "string"}, None, "data must be string, not null"),
        ({"minimum": 3}, 2, "data must be at least 3"),
        ({"maximum": 3}, 3.5, "data must be at most 3"),
        ({"maxLength": 1}, "ab", "data must be at most 1 characters"),
        ({"const": "yes"}, "no", "data must be 'yes'"),
        ({"const": 1}, True, "data must be 1"),
        ({"enum": [0, 1]}, False, "data must be one of 0, 1"),
        ({"minItems": 1}, [], "data must be at least 1 items"),
        ({"additionalProperties": False}, {"x": 1}, "data.x is not expected; known: nothing"),
    ],
)
def test_a_problem_says_what_would_be_right(schema: dict[str, Any], value: Any, problem: str) -> None:
    assert problems(schema, value) == [problem]


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "integer"}, 3.0),
        ({"type": "number"}, 3),
        ({"type": ["string", "null"]}, None),
        ({"type": "unheard of"}, 1),
        ({"enum": [1]}, 1.0),
        ({"const": None}, None),
        ({"minimum": "three"}, 1),
        ({"properties": {"a": {"type": "string"}}}, {"b": 1}),
    ],
)
def test_what_a_schema_does_not_forbid_is_fine(schema: dict[str, Any], value: Any) -> None:
    assert problems(schema, value) == []


@pytest.mark.parametrize(
    "schema",
    [
        {"type": 5},
        {"type": {"a": 1}},
        {"enum": 5},
        {"required": 5},
        {"properties": []},
        {"properties": {"a": 5}},
        {"items": [1]},
        {"required": [1]},
    ],
)
def test_a_schema_that_is_none_does_not_break_the_check(schema: dict[str, Any]) -> None:
    for value in (1, "x", [1], {"a": 1}):
        assert isinstance(problems(schema, value), list)
