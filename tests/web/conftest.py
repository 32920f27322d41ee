"""One server and one browser for each module of browser tests.

Not for all of them: playwright keeps an event loop in this thread, and other tests begin their own.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from tests.effort import PATIENCE_S
from tests.web.kit import CHROMIUM, Looker, Stage, missing

Look = Callable[..., Looker]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's chromium."""
    why = missing()
    if why:
        pytest.skip(why)
    expect.set_options(timeout=PATIENCE_S * 1000)  # its own five seconds are few on a busy machine
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """The server all tests look at."""
    if missing():
        pytest.skip(missing())
    made = Stage(tmp_path_factory.mktemp("stage"))
    yield made
    made.close()


@pytest.fixture
def look(browser: Browser, stage: Stage) -> Iterator[Look]:
    """Open a browser window; what it complained about is told at the end."""
    lookers: list[Looker] = []

    def made(at: Stage | None = None, **options: Any) -> Looker:
        lookers.append(Looker(browser, at or stage, **options))
        return lookers[-1]

    yield made
    for looker in lookers:
        looker.leave()


@pytest.fixture
def pictures() -> Path:
    """Where screenshots go."""
    folder = Path(__file__).parents[2] / "build" / "screenshots"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
