"""The page in front of a database: it says that nobody can go on with a run, and takes answers for workers."""

import pytest
from playwright.sync_api import Browser

from tests.effort import PATIENCE_S
from tests.host.test_postgres import databases, server  # noqa: F401  # fixtures
from tests.postgres import why_not
from tests.surfaces.server.test_service import until
from tests.surfaces.test_many_machines import Machines, machines, worker  # noqa: F401  # fixtures
from tests.surfaces.test_many_servers import serve
from tests.web.kit import gone, press, shown

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not())


def test_a_run_that_nobody_can_go_on_with_says_so_until_a_worker_comes(browser: Browser, machines: Machines) -> None:  # noqa: F811
    with serve(machines("front", DETENT_SLOTS="0")) as front:
        run_id = front.post("/api/runs", {"definition": "steps"})["run_id"]
        page = browser.new_page()
        page.set_default_timeout(PATIENCE_S * 1000)
        page.goto(f"{front.address}/#/runs/{run_id}")
        note = page.get_by_text("It does not go on: no worker")
        shown(note)
        with worker(machines("far"), "far"):
            press(shown(page.get_by_role("button", name="Approve")))
            gone(note)
            until(lambda: front.get(f"/api/runs/{run_id}")["status"] == "completed")
            shown(page.get_by_text("completed").first)
        page.close()
    assert machines.log("far") == "1\n2\n"
