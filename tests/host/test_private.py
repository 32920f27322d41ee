"""A home is for its owner alone, whoever makes it first."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from detent.agents.coding.effects import effects
from detent.effects import builtin
from detent.effects.mcp.catalogue import make_folder as make_mcp_folder
from detent.host.embedded import EmbeddedHost
from examples.demo.stage import make_folder as make_demo_folder
from tests.agents.coding.world import Office, configured, project, worker


@pytest.fixture(autouse=True)
def usual_mask() -> Iterator[None]:
    """Most systems let others read what is made without a word."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(folder: Path) -> int:
    return stat.S_IMODE(folder.stat().st_mode)


def test_by_the_demo(tmp_path: Path) -> None:
    make_demo_folder(tmp_path / ".detent" / "demo")
    assert mode(tmp_path / ".detent") == 0o700


def test_by_the_log_of_an_mcp_server(tmp_path: Path) -> None:
    make_mcp_folder(tmp_path / ".detent" / "mcp")
    assert mode(tmp_path / ".detent") == 0o700


async def test_by_a_host(tmp_path: Path) -> None:
    async with EmbeddedHost(tmp_path / "deep" / ".detent"):
        assert mode(tmp_path / "deep" / ".detent") == 0o700


@pytest.mark.parametrize("is_git", [True, False], ids=["git", "no git"])
async def test_by_a_coding_job_whose_own_home_is_elsewhere(tmp_path: Path, is_git: bool) -> None:
    root = project(tmp_path, is_git=is_git)
    async with EmbeddedHost(tmp_path / "home", {**effects(), **builtin()}) as host:
        await Office(host, root, "job").go(configured(worker(tmp_path, "calc.write_text(GOOD + '#')")))
    assert mode(root / ".detent") == 0o700
