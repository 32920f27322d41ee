"""The view that an agent of another package brings, in a real browser."""

import json
import subprocess
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.agents.guest import install, make_logs
from tests.web.conftest import Look
from tests.web.kit import DETENT, Stage, missing, shown


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A server where the package is installed."""
    if missing():
        pytest.skip(missing())
    site = install(tmp_path_factory.mktemp("guest"))
    made = Stage(tmp_path_factory.mktemp("stage"), PYTHONPATH=str(site))
    make_logs(made.folder / "logs")
    yield made
    made.close()


def detent(stage: Stage, *words: str) -> str:
    """The run that a command in the stage's folder is about."""
    command = [str(DETENT), *words, "--json"]
    done = subprocess.run(command, cwd=stage.folder, env=stage.environment, capture_output=True, text=True, check=False)
    return str(json.loads(done.stdout)["run_id"])


def test_the_view_of_a_guest_is_the_first_tab_of_its_runs(stage: Stage, look: Look) -> None:
    run_id = detent(stage, "tidy", "logs")
    page, chinese = look().go(f"#/runs/{run_id}"), look(locale="zh-CN").go(f"#/runs/{run_id}")
    shown(page.get_by_role("tab", name="Old files", selected=True))
    shown(chinese.get_by_role("tab", name="旧文件", selected=True))
    row = page.get_by_role("listitem").filter(has_text="a.log")
    expect(row).to_contain_text("found")
    assert detent(stage, "approve", run_id) == run_id
    expect(row).to_contain_text("removed")
    other = stage.start("flows.py:JOURNEY", {"parcel": "A-17"})
    shown(look().go(f"#/runs/{other}").get_by_role("tab", name="Now", selected=True))
