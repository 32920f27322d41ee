"""`./run matrix` finds Pythons that really run, and says what it cannot find."""

import os
import sys
from pathlib import Path

import pytest

from tests import matrix


def fake(folder: Path, version: str, says: str, code: int = 0) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / f"python{version}"
    program.write_text(f"#!/bin/sh\necho {says}\nexit {code}\n")
    program.chmod(0o755)


def test_the_oldest_of_a_version_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    versions = tmp_path / "pyenv" / "versions"
    fake(tmp_path / "shims", "3.12", "not installed", code=1)
    fake(tmp_path / "bin", "3.12", "3 12 9 /bin/a")
    fake(versions / "3.12.1" / "bin", "3.12", "3 12 1 /bin/b")
    fake(versions / "3.13.0" / "bin", "3.13", "3 13 0 /bin/c")
    monkeypatch.setenv("PATH", os.pathsep.join([str(tmp_path / "shims"), str(tmp_path / "bin"), os.environ["PATH"]]))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    found = matrix.oldest("3.12")
    assert found is not None
    assert found.version <= (3, 12, 1)
    assert matrix.oldest("3.99") is None


def test_what_is_not_there_is_said_and_is_no_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(matrix, "oldest", lambda _version: None)
    assert matrix.main(["3.14"]) == 0
    assert "3.14: not found" in capsys.readouterr().out
    assert matrix.main(["2.7"]) == 2


def test_the_python_that_runs_this_is_one_of_them() -> None:
    assert f"{sys.version_info[0]}.{sys.version_info[1]}" in matrix.VERSIONS
