"""The editor in a real browser: writing, seeing what it means, saving beside others, drafts, runs that are moved."""

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.web.conftest import Look
from tests.web.kit import ROOT, Looker, Stage, gone, shown, until

PARCEL = """\
name: parcel
states:
  packed: {type: initial}
  sent: {}
  home: {type: final}
transitions:
  - {from: packed, to: sent, on: PICKED}
  - {from: sent, to: home, on: BROUGHT}
"""
CASES = """\
- id: arrives
  workflow: parcel.yaml
  script: [{event: PICKED}, {event: BROUGHT}]
  expect: {status: completed, state: home}
"""


@pytest.fixture
def file(stage: Stage) -> Path:
    """A workflow file with a case, as it is before anybody edits it."""
    (stage.folder / "parcel.test.yaml").write_text(CASES)
    path = stage.folder / "parcel.yaml"
    path.write_text(PARCEL)
    return path


def opened(looker: Looker, query: str = "") -> Page:
    """The page of the editor, when the text is there."""
    page = looker.go(f"#/edit/parcel.yaml{query}")
    shown(page.locator(".cm-content"))
    return page


def write(page: Page, text: str) -> None:
    """Write at the end of the text."""
    page.locator(".cm-content").click()
    page.keyboard.press("Control+End")
    page.keyboard.insert_text(text)


def test_what_is_written_is_drawn_checked_played_and_saved(file: Path, look: Look) -> None:
    page = opened(look())
    shown(page.locator(".machine [data-state=sent]"))
    write(page, "  - {from: packed, to: lost, on: DROPPED}\n")
    shown(page.get_by_role("status").filter(has_text="1 error"))
    page.get_by_role("tab", name="Problems").click()
    shown(page.get_by_role("button", name="lost").first).click()
    shown(page.locator(".cm-lintRange-error"))
    expect(page.locator(".cm-activeLine")).to_contain_text("DROPPED")
    shown(page.get_by_role("button", name="Save with errors"))
    page.locator(".cm-content").click()
    page.keyboard.press("Control+Z")
    write(page, "  - {from: packed, to: home, on: DROPPED}\n")
    shown(page.get_by_role("status").filter(has_text="no errors"))
    page.get_by_role("tab", name="Cases").click()
    shown(page.get_by_text("1 passed, 0 failed"))
    page.get_by_role("button", name="Show its way").click()
    shown(page.locator(".machine .seen[data-state=home]"))
    page.get_by_role("tab", name="Dry run").click()
    page.get_by_role("tabpanel").get_by_role("button", name="Dry run").click()
    shown(page.get_by_text("would wait for a signal:"))
    assert file.read_text() == PARCEL, "nothing is saved by itself"
    page.locator(".cm-content").click()
    page.keyboard.press("Control+s")
    until(lambda: "DROPPED" in file.read_text())
    shown(page.get_by_role("status").filter(has_text="saved").first)


def test_a_draft_outlives_the_page_and_a_change_elsewhere_is_shown_before_it_is_lost(file: Path, look: Look) -> None:
    looker = look()
    looker.may_be_refused = True  # a save that comes second
    page = opened(looker)
    write(page, "# mine\n")
    shown(page.get_by_text("not saved; kept as a draft"))
    page.reload()
    shown(page.get_by_text("There is a draft of yours"))
    file.write_text(PARCEL + "# theirs\n")
    page.get_by_role("button", name="Go on with it").click()
    expect(page.locator(".cm-content")).to_contain_text("# mine")
    page.get_by_role("button", name="Save", exact=True).click()
    dialog = page.get_by_role("dialog", name="The file has been changed meanwhile")
    expect(dialog.locator(".removed")).to_contain_text("# theirs")
    expect(dialog.locator(".added")).to_contain_text("# mine")
    assert file.read_text() == PARCEL + "# theirs\n"
    dialog.get_by_role("button", name="Save mine over it").click()
    gone(dialog)
    until(lambda: file.read_text() == PARCEL + "# mine\n")
    page.reload()
    shown(page.locator(".cm-content"))
    gone(page.get_by_text("There is a draft of yours"))


def test_runs_of_an_earlier_version_are_compared_and_moved(file: Path, stage: Stage, look: Look) -> None:
    run_id = stage.start("parcel.yaml")
    page = opened(look(), "?tab=runs")
    shown(page.get_by_text("This is what the file says now."))
    write(page, "  - {from: packed, to: home, on: LOST}\n")
    page.get_by_role("button", name="Save", exact=True).click()
    page.get_by_role("button", name="Compare with the text").click()
    shown(page.get_by_text("packed LOST home"))
    page.get_by_role("button", name="Move them here…").click()
    dialog = page.get_by_role("dialog", name="Move runs to the saved file")
    dialog.get_by_role("button", name="Move 1 run").click()
    shown(dialog.get_by_text("1 of 1 done."))
    dialog.get_by_role("button", name="Close").click()
    shown(page.get_by_text("This is what the file says now."))
    stage.tell(run_id, "LOST")
    until(lambda: stage.status(run_id) == "completed")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everybody_can_use_it(file: Path, look: Look, pictures: Path, scheme: str) -> None:
    is_dark = scheme == "dark"
    looker = look(color_scheme=scheme, locale="zh-CN" if is_dark else "en-US",
                  viewport={"width": 390, "height": 844} if is_dark else {"width": 1280, "height": 860})  # fmt: skip
    page = opened(looker)
    write(page, "  - {from: packed, to: lost}\n")
    shown(page.locator(".cm-lintRange-error"))
    page.evaluate((ROOT / "web" / "node_modules" / "axe-core" / "axe.min.js").read_text())
    for name in ("picture", "problems", "cases", "rehearsal", "runs"):
        page.locator(f"#tab-{name}").click()
        page.wait_for_function("() => !document.querySelector('main .skeleton')")
        found = page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
        found = [one for one in found["violations"] if one["impact"] in ("serious", "critical")]
        assert [(one["id"], [node["html"] for node in one["nodes"]]) for one in found] == [], name
    page.screenshot(path=pictures / f"edit-{scheme}.png")
    if not is_dark:
        page.locator(".cm-content").click()
        page.keyboard.press("?")  # a letter of the text, and no shortcut of the page
        expect(page.locator("dialog[open]")).to_have_count(0)
        page.keyboard.press("Tab")
        assert page.evaluate("() => document.activeElement.closest('.text-editor') === null")
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
