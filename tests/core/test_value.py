"""Plain values: what may enter a machine, a journal or an expression, and how it is written down."""

import hashlib
from enum import IntEnum, StrEnum
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from detent.core.value import DEPTH_MAX, NODES_MAX, TEXT_MAX, canonical, digest, plain, sort_keys
from detent.errors import Refused

jsons = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


class Word(StrEnum):
    YES = "yes"


class Number(IntEnum):
    ONE = 1


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@given(jsons)
def test_a_plain_value_stays_as_it_is_and_survives_json(value: Any) -> None:
    kept = plain(value)
    assert kept == value
    assert msgspec.json.decode(msgspec.json.encode(kept)) == kept


@given(jsons)
def test_equal_values_have_equal_canonical_bytes_whatever_the_order_of_their_keys(value: Any) -> None:
    again = sort_keys(value)
    assert again == value
    assert canonical(again) == canonical(value) == msgspec.json.encode(again)
    assert digest(value) == hashlib.sha256(canonical(value)).hexdigest()


def test_canonical_json_is_sorted_and_has_no_blanks() -> None:
    assert canonical({"b": [1, {"d": None, "c": True}], "a": "ä"}) == '{"a":"ä","b":[1,{"c":true,"d":null}]}'.encode()


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ((1, (2, 3)), [1, [2, 3]]),
        (Word.YES, "yes"),
        ({"a": Number.ONE}, {"a": 1}),
        ({Word.YES: 1}, {"yes": 1}),
    ],
)
def test_what_is_nearly_plain_is_made_plain(value: Any, kept: Any) -> None:
    found = plain(value)
    assert found == kept
    assert msgspec.json.encode(found) == msgspec.json.encode(kept)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (float("nan"), "value is nan; JSON has no such number, use null or a text"),
        ({"a": [1, float("inf")]}, "value.a[1] is inf; JSON has no such number"),
        ({"a": {1, 2}}, "value.a is a set; only JSON values are kept"),
        (b"bytes", "value is a bytes"),
        ({"a": {1: 2}}, "value.a has the key 1; keys must be text"),
        (2**5000, "value is a whole number of more than 4,096 bits"),
        ([2**5000], "value[0] is a whole number of more than 4,096 bits"),
        (nested(DEPTH_MAX + 2), "levels"),
        ([0] * (NODES_MAX + 1), "value has more than 500,000 parts"),
        ("x" * (TEXT_MAX + 1), "value has 16,777,217 characters; at most 16,777,216 are kept"),
        (["x" * (TEXT_MAX + 1)], "value[0] has 16,777,217 characters"),
    ],
    ids=range(11),
)
def test_what_is_not_plain_is_refused_with_its_place(value: Any, problem: str) -> None:
    with pytest.raises(Refused) as refused:
        plain(value)
    assert problem in str(refused.value)


def test_a_refusal_names_what_was_given() -> None:
    with pytest.raises(Refused, match=r"input\.x is a object"):
        plain({"x": object()}, "input")


def test_half_a_character_is_replaced_because_no_journal_could_hold_it() -> None:
    assert plain("a\ud800b") == "a\ufffdb"
    assert plain({"k\udfff": 1}) == {"k\ufffd": 1}
    assert plain("\ud83d\ude00") == "😀"  # two halves are a whole
    assert plain("ä") == "ä"


def test_what_was_given_is_not_the_thing_that_is_kept() -> None:
    given_value = {"a": [1]}
    kept = plain(given_value)
    given_value["a"].append(2)
    assert kept == {"a": [1]}
