"""The page in Firefox ESR, as Debian has it: every view is shown, nothing is too wide, a question is answered."""

from pathlib import Path

import pytest

from tests.web.kit import Stage, until
from tests.web.marionette import FIREFOX, firefox

needs_firefox = pytest.mark.skipif(not FIREFOX, reason="no firefox-esr: `./run browser`, as root, installs it")
WATCH = "window.wrong = []; addEventListener('error', (event) => window.wrong.push(event.message)); return true"


@needs_firefox
def test_every_view_is_shown_and_a_question_answered(stage: Stage, tmp_path: Path) -> None:
    stage.clear()
    run_id = stage.start("flows.py:RELEASE", {"version": "9.0.0", "notes": "from a fox"})
    own = f"#/runs/{run_id}"
    places = (own, f"{own}?tab=waterfall", "#/runs", "#/figures", "#/definitions/expense.yaml", "#/chat", "#/inbox")
    with firefox(tmp_path / "profile") as browser:
        browser.go(f"{stage.address}/#/inbox")
        browser.run(WATCH)
        for place in places:
            browser.run("location.hash = arguments[0]; return true", place)
            browser.until(
                "return document.querySelector('main h1') && document.querySelector('main .card, main .queue')"
            )
            assert browser.run("return document.documentElement.scrollWidth <= innerWidth"), place
        button = "[...document.querySelectorAll('article button.main')].find((one) => !one.disabled)"
        # A card that has just come takes no decision for a moment.
        browser.until(f"return !document.querySelector('.answering.dead') && {button}")
        browser.run(f"{button}.click(); return true")
        until(lambda: stage.status(run_id) == "completed")
        assert browser.run("return window.wrong") == []
