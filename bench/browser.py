"""The page in a real browser: how long a state change takes to its light, and a list of runs to its first line."""

import shutil
import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

LOADS = 9
PAINTED = """
new MutationObserver((_, watch) => {
  if (!document.querySelector(".runs tbody tr")) return;
  watch.disconnect();
  requestAnimationFrame(() => { window.painted = performance.now(); });
}).observe(document, {childList: true, subtree: true});
"""


@contextmanager
def looking() -> Iterator[Any]:
    """Open windows of Debian's chromium; nothing where there is none."""
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "chromium-headless-shell"))), None)
    if path is None:
        yield None
        return
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


def painted_ms(browser: Any, address: str) -> float:
    """From opening the list of runs to its first line on the screen, with a warm cache: the median of some loads."""
    context = browser.new_context()
    context.add_init_script(PAINTED)
    page = context.new_page()
    taken = []
    for _ in range(LOADS):
        page.goto("about:blank")
        page.goto(f"{address}/#/runs")
        taken.append(page.wait_for_function("() => window.painted").json_value())
    context.close()
    return float(statistics.median(taken[1:]))


def lit_ms(browser: Any, address: str, run_id: str, moves: int, move: Callable[[], object]) -> float:
    """From hearing of an event to the lit state in the picture, as the page itself measures it: the median."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{address}/#/runs/{run_id}")
    page.wait_for_selector("svg.machine .lit")
    count = "performance.getEntriesByName('detent:lit').length"
    for number in range(moves):
        move()
        page.wait_for_function(f"(wanted) => {count} >= wanted", arg=number + 1)
    taken = page.evaluate("performance.getEntriesByName('detent:lit').map((one) => one.duration)")
    context.close()
    return float(statistics.median(taken))
