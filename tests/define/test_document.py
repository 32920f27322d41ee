"""The strict reader of YAML: values by the words of YAML 1.2, places of everything, and no surprises."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from detent.define import document
from detent.define.document import DEPTH_MAX, SOURCE_MAX, decode, read_document, read_file
from detent.define.problem import BrokenDefinition
from detent.errors import DefinitionError
from tests.define.stage import FILES


def value(text: str) -> Any:
    read = read_document(text, "f.yaml")
    assert read.problems == []
    return read.value


TEXTS = """
on off yes no NO y n nil tRUE 0b11 1_000 1.2.3 12:30:45 190:20:30 1e 0x . .. = 中文 2001-12-14 2001-12-14t21:59:43Z
"""
WORDS: dict[str, Any] = {word: word for word in TEXTS.split()} | {
    "2001-12-14 21:59:43": "2001-12-14 21:59:43",
    "true": True,
    "True": True,
    "FALSE": False,
    "~": None,
    "null": None,
    "": None,
    "'12'": "12",
    '"true"': "true",
    "12": 12,
    "-3": -3,
    "+7": 7,
    "007": 7,
    "0777": 777,
    "08": 8,
    "0o17": 15,
    "0x1F": 31,
    "9" * 18: int("9" * 18),
    "1.5": 1.5,
    ".5": 0.5,
    "5.": 5.0,
    "1e3": 1000.0,
    "-1.5E-3": -0.0015,
}


@pytest.mark.parametrize(("text", "meant"), WORDS.items(), ids=repr)
def test_words_mean_what_yaml_1_2_says(text: str, meant: Any) -> None:
    found = value(f"a: {text}\n")["a"]
    assert found == meant
    assert type(found) is type(meant)


def test_keys_of_yaml_1_1_stay_text() -> None:
    assert value("on: 1\nno: 2\ny: 3\n") == {"on": 1, "no": 2, "y": 3}


def test_every_path_has_its_line_and_column() -> None:
    places = read_document('a: 1\nb:\n  - x: 2\n    "y z": [3, 4]\n', "f").places
    assert dict(places) == {
        (): (1, 1),
        ("a",): (1, 4),
        ("b",): (3, 3),
        ("b", 0): (3, 5),
        ("b", 0, "x"): (3, 8),
        ("b", 0, "y z"): (4, 12),
        ("b", 0, "y z", 0): (4, 13),
        ("b", 0, "y z", 1): (4, 16),
    }
    assert len(places) == 8
    assert places.key(("b", 0, "y z")) == (4, 5)
    assert places["b", 0, "nothing", "here"] == (3, 5), "the nearest that is there"


def test_columns_count_characters_and_not_bytes() -> None:
    assert read_document("名: {字: 1, 符: x}\n", "f").places["名", "符"] == (1, 14)


def test_texts_keep_their_lines() -> None:
    assert value("a: |\n  one\n  two\nb: >\n  three\n  four\n") == {"a": "one\ntwo\n", "b": "three four\n"}


def test_a_mark_at_the_beginning_is_no_part_of_the_text() -> None:
    assert read_document(decode(b"\xef\xbb\xbfa: 1\n", "f"), "f").value == {"a": 1}
    assert read_document("\ufeffa: 1\n", "f").value == {"a": 1}


def test_windows_lines_are_read_too() -> None:
    read = read_document("a: 1\r\nb: x\r\n", "f")
    assert (read.value, read.places["b",]) == ({"a": 1, "b": "x"}, (2, 4))


def test_a_key_that_is_there_twice_names_both_lines() -> None:
    (problem,) = read_document("a: 1\nb: 2\n'a': 3\n", "f").problems
    assert str(problem) == "f:3:1: the key `a` is there twice, in lines 1 and 3; it stands first in line 1, column 1"


def test_reading_goes_on_after_a_problem() -> None:
    problems = read_document("a: &x 1\nb: *x\nc: !t 2\n<<: {}\n3: x\n", "f").problems
    assert [problem.line for problem in problems] == [1, 2, 3, 4, 5]


def test_depth_is_counted_and_not_felt() -> None:
    assert value("[" * DEPTH_MAX + "]" * DEPTH_MAX) is not None
    for text in ("[" * (DEPTH_MAX + 1) + "]" * (DEPTH_MAX + 1), "[" * 400_000, "{a: " * 100_000, "- " * 400_000):
        with pytest.raises(BrokenDefinition, match="nested more than 64 deep"):
            read_document(text, "f")


def test_the_source_is_limited_in_a_file_and_in_a_text(tmp_path: Path) -> None:
    (tmp_path / "big.yaml").write_bytes(b"#" * (SOURCE_MAX + 1))
    with pytest.raises(DefinitionError, match="bytes"):
        read_file(tmp_path / "big.yaml")
    with pytest.raises(DefinitionError, match="characters"):
        read_document("#" * (SOURCE_MAX + 1), "f")


def test_a_file_that_is_none_is_a_clear_error(tmp_path: Path) -> None:
    for path, says in ((tmp_path, "folder"), (tmp_path / "no", "no such file"), (Path("/dev/zero"), "plain file")):
        with pytest.raises(DefinitionError, match=says):
            read_file(path)
    with pytest.raises(DefinitionError):
        read_file(Path("a\0b"))


def test_the_parser_in_python_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    files = sorted(FILES.glob("*.yaml"))
    fast = [read_document(file.read_text(), file.name) for file in files]
    monkeypatch.setattr(document, "_Parser", yaml.SafeLoader)
    slow = [read_document(file.read_text(), file.name) for file in files]
    assert [one.value for one in slow] == [one.value for one in fast]
    for one, other in zip(slow, fast, strict=True):
        assert [one.places.key(path) for path in one.places] == [other.places.key(path) for path in other.places]
    with pytest.raises(BrokenDefinition, match="nested more than 64 deep"):
        read_document("[" * 100_000, "f")
