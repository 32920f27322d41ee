"""Words on the screen while they come: however an answer is cut into pieces, each of them is shown once."""

import json
import re
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detent.agents.assistant.attachment import attach, attach_named
from detent.agents.assistant.commands.answer_text import AnswerText
from detent.agents.assistant.commands.call_line import bare_result
from detent.agents.assistant.commands.file_change import render_change
from detent.agents.assistant.commands.markdown_stream import MarkdownStream
from detent.effects.llm import read_answer
from detent.errors import Refused
from detent.kit.safe_text import wide
from tests.effort import examples

WORDS = st.text(st.sampled_from(' {}`"\\:,\nab\u4f60\U0001f600*|-#'), max_size=60)
FENCES = ("{}", "```json\n{}\n```", "```\n{}\n```")


def write_object(text: str, has_more: bool, fence: str) -> str:
    """An answer that is one object."""
    said = {"emotion": {"primary": "happy"}, "response": text} if has_more else {"response": text}
    return fence.format(json.dumps(said, ensure_ascii=has_more))


OBJECTS = st.builds(write_object, WORDS, st.booleans(), st.sampled_from(FENCES))


def cut(text: str, places: list[int]) -> list[str]:
    """A text in pieces."""
    ends = sorted({place % (len(text) + 1) for place in places} | {0, len(text)})
    return [text[start:end] for start, end in pairwise(ends)]


@settings(max_examples=examples(150))
@given(WORDS | OBJECTS, st.lists(st.integers(0, 200), max_size=12))
def test_whatever_the_pieces_the_answer_is_shown_once(answer: str, places: list[int]) -> None:
    heard = AnswerText()
    shown = "".join(heard.add(piece) for piece in cut(answer, places))
    response = read_answer(answer).response
    assert (shown + heard.rest(response)).strip() == response.strip()


@settings(max_examples=examples(100))
@given(st.text(st.sampled_from("aab  *_`#|-\n>1.\u4f60"), max_size=120), st.lists(st.integers(0, 200), max_size=12))
def test_a_drawing_does_not_depend_on_the_pieces(text: str, places: list[int]) -> None:
    whole, parts = MarkdownStream(COLUMNS), MarkdownStream(COLUMNS)
    last = on_screen(whole.add(text) + whole.end())
    assert all(wide(row) <= COLUMNS for row in last)
    assert on_screen("".join(map(parts.add, cut(text, places))) + parts.end()) == last


COLUMNS = 40


def on_screen(written: str) -> list[str]:
    """What stands on a terminal after all of this was written to it; a wide letter takes two cells."""
    rows, at, column = list[list[str]]([[]]), 0, 0
    for count, command, letter in re.findall(r"\x1b\[(\d*)([A-Za-z])|(.|\n)", written):
        if command == "A":
            at -= int(count)
        elif command == "J":
            rows[at:] = [rows[at][:column]]
        elif letter == "\r":
            column = 0
        elif letter == "\n" or (letter and column + wide(letter) > COLUMNS):
            at, column = at + 1, 0
            rows += [[] for _missing in range(at + 1 - len(rows))]
        if letter and letter not in "\r\n":
            rows[at][column:] = [letter, ""][: wide(letter)]
            column += wide(letter)
    return ["".join(row).rstrip() for row in rows]


@pytest.mark.parametrize("begin", ["`code` and ", "{braces} and ", "~ten and ", "plain words and ", "你好"])
def test_words_are_written_before_their_line_has_ended(begin: str) -> None:
    heard, drawn = AnswerText(), MarkdownStream(COLUMNS)
    written = "".join(drawn.add(heard.add(letter)) for letter in begin)
    assert on_screen(written) == [begin.rstrip()]


def test_a_table_is_aligned_and_no_wider_than_the_terminal() -> None:
    drawn = MarkdownStream(COLUMNS)
    rows = [
        "| who | sum | note |",
        "|:--|--:|---|",
        "| ann | 5 | **fine** |",
        "| 王小明 | 1234 | more than one \\| line |",
    ]
    assert on_screen(drawn.add("\n".join([*rows, ""])) + drawn.end())[:-1] == [
        "┌────────┬──────┬──────────────────────┐",
        "│ who    │  sum │ note                 │",
        "├────────┼──────┼──────────────────────┤",
        "│ ann    │    5 │ fine                 │",
        "│ 王小明 │ 1234 │ more than one | line │",
        "└────────┴──────┴──────────────────────┘",
    ]
    rows[2] = "| ann | 5 | it goes on where there is room |"
    assert on_screen(drawn.add("\n".join([*rows, ""])) + drawn.end())[3:5] == [
        "│ ann    │    5 │ it goes on where     │",
        "│        │      │ there is room        │",
    ]


def test_nothing_of_a_model_reaches_the_terminal_as_a_command() -> None:
    drawn = MarkdownStream(80)
    written = drawn.add("# \x1b[2J\x1b]0;title\x07\n`\x1b[1A`\n```\n\x9b2J\n```\n| \u202e | b |\n") + drawn.end()
    assert not re.search(r"\x1b\[2J|\x1b\]|\x9b|\x07|\x1b\[1A|\u202e", written)


def test_files_go_with_a_message(tmp_path: Path) -> None:
    (tmp_path / "a b.txt").write_text("fog")
    (tmp_path / "pic.png").write_bytes(b"\x89PNG\r\n\x1a\n...")
    (tmp_path / "raw.bin").write_bytes(b"\xff\xfe\x00")
    found = attach('look at @"a b.txt", @pic.png and me@example.com, @nobody', tmp_path)
    assert found.message.endswith("File a b.txt:\n```\nfog\n```")
    assert [image["media_type"] for image in found.images] == ["image/png"]
    assert len(found.names) == 2
    assert "a b.txt" in attach("@.", tmp_path).message
    with pytest.raises(Refused, match="neither text nor an image"):
        attach("@raw.bin", tmp_path)
    assert attach_named("look", [str(tmp_path / "pic.png")]).images == found.images
    with pytest.raises(Refused, match="no file `nobody`"):
        attach_named("look", ["nobody"])


def test_a_change_is_shown_as_a_diff(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    written = {"effect": "files.write", "input": {"path": "a.txt", "root": str(tmp_path), "text": "one\nTWO\n"}}
    added = {"effect": "files.append", "input": {"path": "a.txt", "root": str(tmp_path), "text": "three\n"}}
    edited = {"effect": "edit", "input": {"path": "x", "old_text": "a\x1b", "new_text": "b"}}
    lines = [[line.strip() for line, _colour in render_change(call)] for call in (written, added, edited)]
    assert lines[0][-3:] == ["one", "-two", "+TWO"]
    assert lines[1][-1] == "+three"
    assert lines[2][-2:] == ["-a␛", "+b"]
    assert list(render_change({"effect": "email.send", "input": {"to": "bob"}})) == []


def test_what_an_mcp_tool_gave_is_told_as_people_read_it() -> None:
    picture = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
    assert (
        bare_result({"success": True, "text": "seen", "truncated": False, "structured": {"result": "seen"}}) == "seen"
    )
    assert bare_result({"success": True, "text": "", "content": [picture]}) == "[image/png]"
    assert bare_result({"success": True, "text": "", "structured": {"a": 1}}) == {"a": 1}
    assert bare_result({"success": True, "id": 7}) == 7
