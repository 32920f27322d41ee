"""What the command line says where a newcomer would be misled: repeats, keys, deeds taken back, paused runs."""

from pathlib import Path

import pytest

from tests.surfaces.command import Detent

PAY = """
name: pay
states:
  a:
    type: initial
    actions:
      - {id: pay, tool: shell, effect: irreversible, key: k1, on_repeat: reuse, params: {argv: [echo, "7"]}}
  z: {type: final}
transitions: [{from: a, to: z}]
"""
SAGA = """
name: saga
states:
  a:
    type: initial
    actions:
      - id: book
        tool: shell
        effect: idempotent
        params: {argv: [echo, "1"]}
        undo: {tool: shell, effect: idempotent, params: {argv: [echo, "{{ result.book.stdout }}"]}}
      - id: rent
        tool: shell
        effect: idempotent
        params: {argv: [echo, "2"]}
        undo: {tool: shell, effect: idempotent, params: {argv: ["false"]}}
      - {id: pay, tool: shell, effect: idempotent, params: {argv: ["false"]}}
  z: {type: final}
transitions: [{from: a, to: z}]
"""
WAITS = """
name: waits
states: {a: {type: initial}, w: {type: wait, for: [go]}, z: {type: final}}
transitions: [{from: a, to: w}, {from: w, to: z}]
"""


@pytest.fixture
def detent(tmp_path: Path) -> Detent:
    for name, text in (("pay", PAY), ("other", PAY.replace('"7"', '"8"')), ("saga", SAGA), ("waits", WAITS)):
        (tmp_path / f"{name}.yaml").write_text(text)
    return Detent(tmp_path)


def test_a_result_that_is_used_again_is_not_told_as_a_question(detent: Detent) -> None:
    detent("run", "pay.yaml")
    said = detent("run", "pay.yaml")
    assert "Its result is used." in said.err
    assert "?" not in said.err + said.out


def test_no_retry_is_offered_that_would_make_the_same_call(detent: Detent) -> None:
    detent("run", "pay.yaml")
    said = detent("run", "other.yaml", "--id", "other", code=1).out
    assert "give it another key" in said
    assert "detent retry" not in said


def test_what_was_taken_back_is_said_and_what_was_not_is_an_alarm(detent: Detent) -> None:
    said = detent("run", "saga.yaml", code=1).out
    assert "taken back by: undo_book" in said
    assert "not taken back by: undo_rent" in said
    assert "ALARM: `undoing/undo_rent/1` failed, so what it takes back stands" in said


def test_the_list_has_the_word_that_show_has(detent: Detent) -> None:
    detent("run", "waits.yaml", "--id", "one", code=3)
    detent("pause", "one")
    assert "paused" in detent("show", "one", code=None).out
    assert "paused" in detent("list").out
    detent("resume", "one", code=None)
    assert "paused" not in detent("list").out


def test_quotes_inside_quotes_are_told_from_quotes_that_are_missing(detent: Detent) -> None:
    cases = {'"{{ context["x"] }}"': "write single ones", "[echo {{ context.x }}]": "the whole text around"}
    for text, hint in cases.items():
        (detent.folder / "q.yaml").write_text(f"name: q\ndescription: {text}\nstates: {{}}\n")
        assert hint in detent("validate", "q.yaml", code=None).err
