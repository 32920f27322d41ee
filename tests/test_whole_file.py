"""A file is there whole or not at all."""

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from detent.whole_file import FOR_ALL, write_whole


@pytest.mark.parametrize("is_durable", [False, True])
def test_a_write_that_breaks_leaves_what_was_there_and_nothing_else(tmp_path: Path, is_durable: bool) -> None:
    path = tmp_path / "a.json"
    write_whole(path, b"old", mode=FOR_ALL, is_durable=is_durable)

    def pieces() -> Iterator[bytes]:
        yield b"half"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_whole(path, pieces(), is_durable=is_durable)
    assert [(one.name, one.read_bytes()) for one in tmp_path.iterdir()] == [("a.json", b"old")]
    assert stat.S_IMODE(path.stat().st_mode) == FOR_ALL
    write_whole(path, (b"n", b"ew"), is_durable=is_durable)
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600, "ours alone, unless somebody says otherwise"


def test_a_name_may_be_as_long_as_names_can_be(tmp_path: Path) -> None:
    path = tmp_path / ("a" * 255)
    write_whole(path, b"text")
    assert [one.name for one in tmp_path.iterdir()] == [path.name]
