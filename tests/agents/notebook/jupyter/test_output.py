"""Outputs as they are collected, without a kernel."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from detent.agents.notebook.jupyter import output
from detent.agents.notebook.jupyter.output import Outputs, Text


def shown(outputs: Outputs) -> list[Any]:
    return [row.get("text") or row.get("data") or row.get("evalue") for row in outputs.all()]


def display(outputs: Outputs, value: str, display_id: str = "", kind: str = "display_data") -> None:
    outputs.take(kind, {"data": {"text/plain": value}, "metadata": {}, "transient": {"display_id": display_id}})


@given(some.lists(some.text(max_size=40), max_size=60), some.integers(2, 60))
def test_both_ends_of_a_text_are_kept_however_it_is_cut_into_pieces(pieces: list[str], cap: int) -> None:
    text = Text(cap)
    for piece in pieces:
        text.feed(piece)
    whole = "".join(pieces)
    half = cap // 2
    if len(whole) <= 2 * half:
        assert (text.text(), text.missing) == (whole, 0)
    else:
        assert text.missing == len(whole) - 2 * half
        assert text.text() == f"{whole[:half]}\n[{text.missing:,} characters are left out here]\n{whole[-half:]}"


def test_pieces_of_one_stream_become_one_output() -> None:
    outputs = Outputs()
    for name, text in (("stdout", "a"), ("stdout", "b"), ("stderr", "c"), ("stdout", "d")):
        outputs.take("stream", {"name": name, "text": text})
    assert [(row["name"], row["text"]) for row in outputs.all()] == [("stdout", "ab"), ("stderr", "c"), ("stdout", "d")]


def test_a_watcher_hears_each_piece_as_it_comes() -> None:
    heard: list[Any] = []
    outputs = Outputs(heard.append)
    outputs.take("stream", {"name": "stdout", "text": "a"})
    outputs.take("stream", {"name": "stdout", "text": "b"})
    display(outputs, "x", "d1")
    outputs.take("clear_output", {"wait": False})
    assert [(row["output_type"], row.get("text")) for row in heard] == [
        ("stream", "a"),
        ("stream", "b"),
        ("display_data", None),
        ("clear_output", None),
    ]
    assert heard[2]["display_id"] == "d1"


def test_a_failing_watcher_is_let_go_and_the_cell_goes_on() -> None:
    def fails(_: dict[str, Any]) -> None:
        raise ValueError("no \ud800")

    outputs = Outputs(fails)
    outputs.take("stream", {"name": "stdout", "text": "a"})
    outputs.take("stream", {"name": "stdout", "text": "b"})
    assert shown(outputs)[0] == "ab"
    assert "ValueError: no \ufffd" in str(shown(outputs)[1])


def test_displays_are_updated_and_those_of_earlier_cells_are_handed_on() -> None:
    outputs = Outputs()
    display(outputs, "one", "d1")
    display(outputs, "two", "d1")
    display(outputs, "new", "d1", kind="update_display_data")
    display(outputs, "elsewhere", "d0", kind="update_display_data")
    assert shown(outputs) == [{"text/plain": "new"}, {"text/plain": "new"}]
    assert outputs.displays == {"d1": [0, 1]}
    assert outputs.updates == {"d0": {"data": {"text/plain": "elsewhere"}, "metadata": {}}}


def test_clearing_happens_now_or_with_the_next_output() -> None:
    outputs = Outputs()
    display(outputs, "one", "d1")
    outputs.take("clear_output", {"wait": True})
    assert shown(outputs) == [{"text/plain": "one"}]
    display(outputs, "two", "d1")
    assert shown(outputs) == [{"text/plain": "two"}]
    assert outputs.displays == {"d1": [0]}
    outputs.take("clear_output", {"wait": False})
    assert shown(outputs) == []


def test_a_flood_of_outputs_is_counted_and_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "OUTPUTS_MAX", 10)
    outputs = Outputs()
    for number in range(25):
        display(outputs, str(number))
    outputs.error("ValueError", "the end", [])
    *rows, error, note = shown(outputs)
    assert rows == [{"text/plain": str(number)} for number in range(10)]
    assert error == "the end", "the error is always kept"
    assert note == {"text/plain": "[detent: 15 further outputs were left out]"}


def test_all_outputs_together_are_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "TOTAL_MAX", 100)
    outputs = Outputs()
    for _ in range(10):
        display(outputs, "x" * 40)
    assert len(outputs.all()) == 4
    assert "7 further outputs" in str(shown(outputs)[-1])


@pytest.mark.parametrize(
    ("mime", "size", "is_kept"),
    [
        ("image/png", 8 * 1024 * 1024 * 4 // 3, True),
        ("image/png", 8 * 1024 * 1024 * 4 // 3 + 8, False),
        ("text/html", 1024 * 1024, True),
        ("text/html", 1024 * 1024 + 1, False),
        ("image/svg+xml", 1024 * 1024 + 1, False),
    ],
)
def test_a_part_that_is_too_big_goes_whole_and_that_is_said(mime: str, size: int, is_kept: bool) -> None:
    outputs = Outputs()
    outputs.take("display_data", {"data": {mime: "A" * size, "text/plain": "stand-in"}, "metadata": {}})
    assert (mime in outputs.all()[0]["data"]) is is_kept
    assert outputs.all()[0]["data"]["text/plain"] == "stand-in"
    assert (len(outputs.all()) == 1) is is_kept
    if not is_kept:
        assert f"type {mime} had" in str(shown(outputs)[1])


def test_plain_text_is_cut_in_the_middle() -> None:
    outputs = Outputs()
    outputs.take("execute_result", {"data": {"text/plain": "x" * 3_000_000}, "metadata": {}, "execution_count": 3})
    row, note = outputs.all()
    assert len(row["data"]["text/plain"]) < 1024 * 1024 + 100
    assert row["execution_count"] == 3
    assert "1,951,424 characters" in note["metadata"]["detent"]["note"]


def test_strange_messages_do_no_harm() -> None:
    outputs = Outputs()
    outputs.take("display_data", {})
    outputs.take("display_data", {"data": {"text/plain": ["a", "b"], "application/json": {"\ud800": [float("nan")]}}})
    outputs.take("update_display_data", {"data": None})
    outputs.take("error", {"ename": None})
    outputs.take("comm_open", {"data": {}})
    outputs.take("stream", {})
    assert outputs.all()[1]["data"] == {"text/plain": "ab", "application/json": {"\ufffd": ["nan"]}}
