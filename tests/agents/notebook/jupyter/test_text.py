"""The sanitiser: whatever comes in, what goes out can be encoded and kept."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as some

from detent.agents.notebook.jupyter.output_sanitiser import plain
from detent.core.value import plain as kept
from detent.core.value import scrub
from tests.effort import examples

anything = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats() | some.text(some.characters(codec=None)),
    lambda inner: some.lists(inner) | some.dictionaries(some.text(some.characters(codec=None)), inner),
)


def test_half_characters_are_replaced_and_halves_that_belong_together_are_joined() -> None:
    assert scrub("a\ud800b") == "a\ufffdb"
    assert scrub("\udc00\ud800") == "\ufffd\ufffd"
    assert scrub("\ud83d\ude42") == "🙂"
    assert scrub("漢字 é") == "漢字 é"


def test_numbers_that_json_lacks_become_texts() -> None:
    assert plain({"a": [float("nan"), float("-inf"), 2**70, -(2**63)]}) == {
        "a": ["nan", "-inf", "0x400000000000000000", -(2**63)]
    }


def test_what_is_nested_too_deep_is_cut() -> None:
    deep: Any = []
    for _ in range(200):
        deep = [deep]
    assert json.dumps(plain(deep)).endswith('"..."' + "]" * 48)


@settings(max_examples=examples(60))
@given(anything)
def test_whatever_comes_in_the_journal_can_keep_what_goes_out(value: Any) -> None:
    clean = plain(value)
    json.dumps(clean, ensure_ascii=False, allow_nan=False).encode()
    assert kept(clean) == clean
    assert plain(clean) == clean
