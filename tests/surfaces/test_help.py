"""Small helps of the command line: what was perhaps meant, what is not installed, and lists that fit."""

import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detent.core.status import Status
from detent.host.reading import Summary
from detent.kit.run_index import FoundRun
from detent.kit.safe_text import wide
from detent.surfaces.cli import main
from detent.surfaces.cli import missing_extra as extra_module
from detent.surfaces.cli.live_view import fit_list, list_found
from detent.surfaces.cli.missing_extra import find_missing_extras
from tests.surfaces.command import Detent


@pytest.fixture
def detent(tmp_path: Path) -> Detent:
    return Detent(tmp_path)


def test_a_command_that_is_not_there_names_those_that_sound_like_it(detent: Detent) -> None:
    said = detent("aprove", "last", code=2).err
    assert "there is no command `aprove`; did you mean `approve`" in said
    assert "did you mean" not in detent("xyzzy", code=2).err


def test_every_extra_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def distribution(name: str) -> str:
        if name in ("mcp", "openai", "nh3"):
            raise PackageNotFoundError(name)
        return name

    monkeypatch.setattr(extra_module, "distribution", distribution)
    assert find_missing_extras() == {"server": ["nh3"], "notebook": ["nh3"], "llm": ["openai"], "mcp": ["mcp"]}


OWN = [f"detent.surfaces.mcp{name}" for name in ("", ".stdio_server", ".mcp_server", ".gateway_entry")]


@pytest.mark.parametrize("command", ["mcp", "gateway"])
def test_mcp_without_its_extra_says_which(
    command: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    absent: dict[str, ModuleType | None] = dict.fromkeys(name for name in sys.modules if name.startswith("mcp"))
    for name in (*absent, "mcp", "mcp.server", *OWN):
        if name.startswith("detent"):
            monkeypatch.delitem(sys.modules, name, raising=False)
        else:
            monkeypatch.setitem(sys.modules, name, None)
    assert main(["--home", str(tmp_path / ".detent"), command]) == 2
    assert "pip install 'detent[mcp]'" in capsys.readouterr().err


LONG = "y" * 80
NAMES = st.text("abcdefgh-_ 漢", min_size=1, max_size=40)


@given(st.lists(st.tuples(NAMES, NAMES), min_size=1, max_size=6), st.integers(24, 140))
def test_a_list_fits_a_narrow_terminal(names: list[tuple[str, str]], width: int) -> None:
    runs = [
        Summary(
            f"run{n:09}", name, "digest", state, Status.FAILED, 3, 0.0, 0.0, error={"type": "x", "message": "y" * 80}
        )
        for n, (name, state) in enumerate(names)
    ]
    lines = list(fit_list(runs, width))
    assert all(wide(line) <= width for line, _ in lines)
    assert sum("run0000" in line for line, _ in lines) == len(runs)
    found = list(list_found([FoundRun(run, {"customer": "Nordwind"}) for run in runs], width))
    assert all(wide(line) <= width for line, _ in found)
    assert sum("Nordwind" in line for line, _ in found) == len(runs)
