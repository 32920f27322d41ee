"""The reference page of workflow files says what the grammar's table says."""

from pathlib import Path
from typing import get_args

from detent.core.expression.filter import FILTERS
from detent.core.expression.step_filter import STEP_FILTERS
from detent.define.grammar import SHAPES, Kind
from detent.testing.case import CASE, EXPECT, STEP
from tests.define.reference import FILTER_WORDS, TITLES, WORDS, renewed

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "workflows.md"


def test_every_kind_and_shape_has_its_words() -> None:
    assert set(WORDS) | {"choice"} == set(get_args(Kind))
    assert set(TITLES) == set(SHAPES)


def test_every_filter_has_its_words() -> None:
    assert set(FILTER_WORDS) == set(FILTERS) - set(STEP_FILTERS)


def test_the_page_is_up_to_date() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == renewed(page), "write it anew: PAGE.write_text(renewed(PAGE.read_text()))"


def test_the_page_names_every_key_of_a_case() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert [key for key in (*CASE, *EXPECT) if f"`{key}`" not in page] == []
    assert [verb for verb in STEP if f"{{{verb}:" not in page] == []
