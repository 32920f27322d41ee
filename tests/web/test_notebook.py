"""A notebook that is really run, by the command beside the server, in a real browser: live, with plots and tables."""

import subprocess
from pathlib import Path

import pytest
from playwright.sync_api import Page, Route, expect

from tests.effort import PATIENCE_S
from tests.web.conftest import Look
from tests.web.kit import DETENT, HERE, Stage, shown, until

BOOK = HERE / "book" / "flowers.yaml"
WAITING = 12  # events, when the slow cell is at work: started, begun, two plans, the actions, seven of them done


def large_but_in_view(page: Page) -> None:
    """A machine that is larger than its frame can be read, shows its lit state, and can be seen as a whole."""
    frame, picture = page.locator(".diagram"), page.locator(".diagram svg.machine")
    room = frame.bounding_box()
    lit = picture.locator(".lit .box").bounding_box()
    assert room is not None
    assert lit is not None
    assert room["x"] <= lit["x"]
    assert lit["x"] + lit["width"] <= room["x"] + room["width"]
    assert room["y"] <= lit["y"]
    assert lit["y"] + lit["height"] <= room["y"] + room["height"]
    scale = "(svg) => svg.getBoundingClientRect().width / svg.viewBox.baseVal.width"
    first = picture.evaluate(scale)
    assert 0.599 < first <= 1
    page.get_by_role("button", name="Larger").click()
    assert picture.evaluate(scale) == pytest.approx(first * 1.25, rel=0.01)
    was = frame.evaluate("(box) => box.scrollTop")
    page.mouse.move(room["x"] + 100, room["y"] + 100)
    page.mouse.down()
    page.mouse.move(room["x"] + 100, room["y"] + 160)
    page.mouse.up()
    assert frame.evaluate("(box) => box.scrollTop") == pytest.approx(was - 60, abs=2)
    page.get_by_role("button", name="Whole").click()
    assert frame.evaluate("(box) => box.scrollHeight <= box.clientHeight && box.scrollWidth <= box.clientWidth")
    page.get_by_role("button", name="Whole").click()


def as_it_was(stage: Stage, route: Route) -> None:
    """Tell the page an early past, and late: what happened meanwhile it has heard, and must not forget."""
    told = route.fetch().json()
    told["entries"], told["next"] = told["entries"][:3], None
    until(lambda: bool(stage.ask("/api/runs/flowers")["seq"] >= WAITING))
    route.fulfill(json=told)


def test_a_notebook_is_seen_while_it_is_made(stage: Stage, look: Look, pictures: Path, tmp_path: Path) -> None:
    word = tmp_path / "word"
    command = [str(DETENT), "notebook", "run", str(BOOK), "--id", "flowers", "-p", f"word={word}"]
    running = subprocess.Popen(command, cwd=stage.folder, env=stage.environment, stdout=subprocess.DEVNULL)
    try:
        until(lambda: any(line["run_id"] == "flowers" for line in stage.ask("/api/runs")["runs"]))
        looker = look()
        looker.page.route("**/log?after=0&limit=200", lambda route: as_it_was(stage, route), times=1)
        page = looker.go("#/runs/flowers")
        page.evaluate("window.mark = 1")
        expect(page.locator(".steps [aria-current=step]")).to_contain_text("Load the table")
        slow = page.locator(".cell.code").filter(has_text="while not Path")
        expect(slow).to_contain_text("waiting for the word")  # while the cell is at work
        expect(slow).to_contain_text("running")
        expect(page.locator(".steps .good")).to_have_count(0)
        expect(page.locator(".cell.thinking")).to_contain_text("A table first, then a picture.")
        table = page.locator(".cell.code").filter(has_text="import pandas")
        expect(table).to_contain_text("3 rows <b>not bold</b>")  # as text, without the colours of a terminal
        frame = table.locator("iframe")
        assert frame.get_attribute("sandbox") == ""
        expect(page.frame_locator(".cell iframe").locator("td").filter(has_text="virginica")).to_be_visible()
        word.touch()
        shown(page.locator(".cell.code img"))
        assert page.evaluate("document.querySelector('.cell.code img').naturalWidth") > 200
        expect(page.locator(".steps .good")).to_have_count(3)
        expect(page.locator(".run-head .pill")).to_contain_text("completed")
        expect(page.locator(".cell .md li")).to_have_text(["petals", "kinds"])
        expect(page.locator(".cell .md td")).to_have_text(["setosa", "1.4"])
        assert "owned" not in page.title()
        assert page.evaluate("window.mark") == 1
        page.locator("#travel").fill("4")  # the notebook as it was
        expect(page.locator(".cell.code img")).to_have_count(0)
        page.get_by_role("button", name="Back to now").click()
        shown(page.locator(".cell.code img"))
        large_but_in_view(page)
        page.screenshot(path=pictures / "notebook-real.png", full_page=True)
    finally:
        word.touch()
        running.wait(timeout=PATIENCE_S)
