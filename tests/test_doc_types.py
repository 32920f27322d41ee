"""The programs in the documents please type checkers as they stand: mypy in its strict mode, and pyright."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests import doctext
from tests.test_docs import PLAYED, ROOT

BESIDE = [ROOT / "examples" / name for name in ("python_workflow", "tidy")]  # documents import from there


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every Python block of the documents as a file, in a folder for each document."""
    folder = tmp_path_factory.mktemp("programs")
    for number, document in enumerate(PLAYED):
        for block in doctext.blocks(document.read_text(encoding="utf-8")):
            if block.language == "python" and not block.skip:
                path = folder / f"document_{number}" / (block.file or f"document_{number}_line_{block.line}.py")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(f"# {document.name}:{block.line}\n{block.text}", encoding="utf-8")
    return folder


def test_the_programs_ignore_nothing(programs: Path) -> None:
    ignoring = [path for path in programs.rglob("*.py") if "type: ignore" in path.read_text(encoding="utf-8")]
    assert not ignoring


def _together(folders: list[Path]) -> list[list[Path]]:
    """Documents that a checker can take at once: no two of them save a file of one name."""
    groups: list[tuple[set[str], list[Path]]] = []
    for folder in folders:
        names = {path.relative_to(folder).parts[0] for path in folder.rglob("*.py")}
        known, group = next((one for one in groups if not one[0] & names), (set[str](), list[Path]()))
        if not group:
            groups.append((known, group))
        known |= names
        group.append(folder)
    return [group for _, group in groups]


def test_mypy_in_strict_mode_finds_nothing(programs: Path) -> None:
    found = ""
    for folders in _together(sorted(path for path in programs.iterdir() if path.name.startswith("document_"))):
        files = [str(path) for folder in folders for path in sorted(folder.rglob("*.py"))]
        check = [sys.executable, "-m", "mypy", "--strict", "--python-version", "3.11", "--config-file", "", *files]
        place = {"MYPYPATH": ":".join(map(str, (ROOT / "src", *BESIDE, *folders))), "PATH": "", "HOME": str(programs)}
        cache = f"--cache-dir={programs}/.mypy_cache"
        done = subprocess.run([*check, cache], env=place, cwd=programs, capture_output=True, text=True, check=False)
        found += done.stdout + done.stderr if done.returncode else ""
    assert not found, found


def test_pyright_finds_nothing(programs: Path) -> None:
    pyright = Path(sys.executable).with_name("pyright")
    if not pyright.exists():
        pytest.skip("pyright is not installed here")
    folders = sorted(programs.iterdir())
    places = [
        {"root": folder.name, "extraPaths": [str(ROOT / "src"), *map(str, BESIDE), str(folder)]}
        for folder in folders
        if folder.is_dir() and not folder.name.startswith(".")
    ]
    settings = {"pythonVersion": "3.11", "reportMissingModuleSource": "none", "executionEnvironments": places}
    (programs / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    done = subprocess.run(
        [pyright, "--project", programs, "--pythonpath", sys.executable], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
