"""The inbox in a real browser: everything that waits, decided by mouse, by keyboard, by two people at once."""

import re

import pytest
from playwright.sync_api import Route, expect

from tests.surfaces.disguises import FALSE, MASKED, PLAIN
from tests.web.conftest import Look
from tests.web.kit import Stage, gone, press, shown, told, until


def test_an_approval_shows_the_exact_call_and_what_follows(stage: Stage, look: Look) -> None:
    stage.clear()
    run_id = stage.start("flows.py:RELEASE", {"version": "3.1.0", "notes": "two fixes"})
    page = look().go("#/inbox")
    card = shown(page.get_by_role("article", name="Publish 3.1.0 to everybody?"))
    for text in ("release.publish", "two fixes", "started by mira", "cannot be taken back", "412 tests passed"):
        expect(card).to_contain_text(text)
    expect(card.locator(".follow").nth(0)).to_contain_text("announce")
    expect(card.locator(".follow").nth(1)).to_contain_text("refused")
    card.get_by_role("button", name="Approve").click()
    told(page, "Approved.")
    gone(card)
    until(lambda: stage.status(run_id) == "completed")


def test_a_question_appears_and_is_decided_elsewhere_without_a_reload(stage: Stage, look: Look) -> None:
    stage.clear()
    page = look().go("#/inbox")
    shown(page.get_by_text("Nothing waits for you"))
    page.evaluate("window.mark = 1")
    run_id = stage.start("expense.yaml", {"what": "chairs", "amount": 900})
    shown(page.get_by_role("article", name="Spend 900 on chairs?"))
    expect(page.get_by_role("link", name="Inbox")).to_contain_text("1")
    stage.ask(f"/api/runs/{run_id}/contracts/large/sign/1/answer", {"approved": False})
    card = shown(page.get_by_role("article", name="Spend 900 on chairs?"))
    expect(card).to_contain_text(re.compile(r"tester rejected this at \d\d:\d\d:\d\d\."))
    expect(card.get_by_role("button", name="Approve")).to_have_count(0)
    card.get_by_role("button", name="Next question").click()  # nothing moves on but by the person's own action
    shown(page.get_by_text("Nothing waits for you"))
    assert page.evaluate("window.mark") == 1


def test_a_rejection_carries_its_reason(stage: Stage, look: Look) -> None:
    stage.clear()
    run_id = stage.start("expense.yaml", {"what": "a yacht", "amount": 90000})
    page = look().go("#/inbox")
    page.get_by_role("button", name="Reject…").click()
    page.get_by_label("Why not?").fill("too large for us")
    page.get_by_role("button", name="Reject", exact=True).click()
    told(page, "Rejected.")
    until(lambda: stage.status(run_id) == "failed")
    assert "too large for us" in str(stage.ask(f"/api/runs/{run_id}/log"))


def test_edited_arguments_are_checked_and_carried_out(stage: Stage, look: Look) -> None:
    stage.clear()
    stage.start("flows.py:RELEASE", {"version": "3.2.0", "notes": "draft"})
    page = look().go("#/inbox")
    page.get_by_role("button", name="Edit…").click()
    page.get_by_label("channel").fill("Beta 2")
    page.get_by_role("button", name="Approve with these arguments").click()
    expect(page.get_by_text("channel must match")).to_be_visible()
    expect(page.get_by_label("channel")).to_be_focused()
    page.get_by_label("channel").fill("beta")
    press(page.get_by_role("button", name="Approve with these arguments"))
    told(page, "Approved with your arguments.")
    until(lambda: "3.2.0" in (stage.folder / "outbox.txt").read_text())
    assert "beta" in str(stage.ask("/api/runs?limit=1")["runs"]) or "beta" in str(
        stage.ask(f"/api/runs/{stage.ask('/api/runs?limit=1')['runs'][0]['run_id']}/contracts")
    )


def test_a_form_is_checked_before_it_is_sent(stage: Stage, look: Look) -> None:
    stage.clear()
    run_id = stage.start("flows.py:BOOKING")
    page = look().go("#/inbox")
    shown(page.get_by_label("Name of the group"))
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_text("Name of the group is needed")).to_be_visible()
    page.get_by_label("Name of the group").fill("choir")
    page.get_by_label("seats").fill("200")
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_text("must be at most 80")).to_be_visible()
    page.get_by_label("seats").fill("24")
    page.get_by_label("meal").select_option("lunch")
    page.get_by_role("button", name="Send").click()
    until(lambda: stage.status(run_id) == "completed")
    assert '"seats": 24' in str(stage.ask(f"/api/runs/{run_id}/log")).replace("'", '"')


def test_a_deed_in_doubt_is_settled_by_a_person(stage: Stage, look: Look) -> None:
    stage.clear()
    run_id = stage.start("flows.py:PAYMENT", {"to": "bob", "amount": 12})
    page = look().go("#/inbox")
    expect(page.get_by_role("article")).to_contain_text("may already have happened")
    expect(page.get_by_role("article")).not_to_contain_text("k-123456")  # what looks secret is covered
    page.get_by_label("If it did happen").fill("{not json")
    page.get_by_role("button", name="It happened").click()
    shown(page.locator(".wrong"))
    page.get_by_label("If it did happen").fill('{"receipt": 7}')
    page.get_by_role("button", name="It happened").click()
    until(lambda: stage.status(run_id) == "completed")


def test_the_second_decision_is_refused_politely(stage: Stage, look: Look) -> None:
    stage.clear()
    stage.start("expense.yaml", {"what": "lamps", "amount": 300})
    first, second = look(), look()
    second.may_be_refused = True
    second.page.route("**/api/events", lambda route: route.abort())  # it does not hear of the first decision
    one, two = first.go("#/inbox"), second.go("#/inbox")
    shown(one.get_by_role("button", name="Approve"))
    shown(two.get_by_role("button", name="Approve"))
    one.get_by_role("button", name="Approve").click()
    shown(one.get_by_text("Nothing waits for you"))
    two.get_by_role("button", name="Approve").click()
    told(two, "tester has approved this already, at")


@pytest.mark.parametrize("first", [0, 1])
def test_of_two_who_decide_in_the_same_moment_exactly_one_wins(first: int, stage: Stage, look: Look) -> None:
    stage.clear()
    run_id = stage.start("expense.yaml", {"what": "a race", "amount": 700 + first})
    lookers = [look(), look()]
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    for looker in lookers:
        looker.may_be_refused = True
        looker.page.route("**/answer", hold)
        shown(looker.go("#/inbox").get_by_role("button", name="Approve"))
    one, two = (looker.page for looker in lookers)
    one.get_by_role("button", name="Approve").click()
    two.get_by_role("button", name="Reject…").click()
    two.get_by_role("button", name="Reject", exact=True).click()
    while len(held) < 2:  # both have decided, and neither is heard yet
        one.wait_for_timeout(5)
    for route in (held[first], held[1 - first]):
        route.continue_()
    said = [told(page, "") for page in (one, two)]
    assert sum(text in ("Approved.", "Rejected.") for text in said) == 1, said
    (late,) = (text for text in said if text not in ("Approved.", "Rejected."))
    won = "approved" if said[0] == "Approved." else "rejected"
    assert re.fullmatch(rf"tester has {won} this already, at \d\d:\d\d:\d\d; nothing was changed\.", late), late
    until(lambda: stage.status(run_id) == ("completed" if won == "approved" else "failed"))
    moves = [entry["event"].get("trigger") for entry in stage.ask(f"/api/runs/{run_id}/log")["entries"]]
    assert moves.count("resume") == 1
    lost = two if won == "approved" else one
    card = lost.get_by_role("article", name=f"Spend {700 + first} on a race?")
    expect(card).to_contain_text(f"tester {won} this at")  # on the page of whoever decided, it is gone
    gone((one if lost is two else two).get_by_role("article", name=f"Spend {700 + first} on a race?"))


def test_a_question_that_somebody_else_decides_stays_and_says_who_decided_what(stage: Stage, look: Look) -> None:
    stage.clear()
    stage.start("expense.yaml", {"what": "desks", "amount": 301})
    stage.start("expense.yaml", {"what": "shelves", "amount": 302})
    one, two = look().go("#/inbox"), look().go("#/inbox")
    card = shown(two.get_by_role("article", name="Spend 301 on desks?"))
    shown(one.get_by_role("article", name="Spend 301 on desks?")).get_by_role("button", name="Approve").click()
    shown(one.get_by_role("article", name="Spend 302 on shelves?"))  # the next in order, after one's own decision
    expect(card).to_contain_text("tester approved this at")
    expect(two.get_by_role("article")).to_have_count(1)
    expect(two.get_by_role("link", name="Spend 301 on desks? approved")).to_be_visible()
    expect(two.get_by_role("link", name="Inbox")).to_contain_text("1")
    two.get_by_role("button", name="Next question").click()
    shown(two.get_by_role("article", name="Spend 302 on shelves?"))
    two.get_by_role("button", name="Clear 1 decided").click()
    gone(two.get_by_role("link", name="Spend 301 on desks?"))


def test_letters_that_deceive_are_made_visible(stage: Stage, look: Look) -> None:
    stage.clear()
    text = "desk \u202egnp.exe\u200b <img src=x onerror=alert(1)> p\u0430ypal.com "
    text += "bank.com\u2215evil 1\u03360 a" + "\u0301" * 9
    stage.start("expense.yaml", {"what": text, "amount": 480})
    page = look().go("#/inbox")
    card = shown(page.get_by_role("article"))
    expect(card).to_contain_text("U+202E")
    expect(card).to_contain_text("U+200B")
    expect(card).to_contain_text("U+0430")
    for written in ("U+2215", "U+0336", "U+0301"):
        expect(card).to_contain_text(written)
    expect(card).to_contain_text("<img src=x onerror=alert(1)>")
    expect(card).to_contain_text("They are marked.")
    assert page.locator("article img").count() == 0
    marks = "async (texts) => { const m = await import('./disguise.js'); return texts.map((t) => m.disguised(t).size) }"
    assert all(page.evaluate(marks, [*FALSE, *MASKED]))
    assert not any(page.evaluate(marks, list(PLAIN))), "ordinary words are not suspected"


def test_everything_is_decided_with_the_keyboard_alone(stage: Stage, look: Look) -> None:
    stage.clear()
    first = stage.start("expense.yaml", {"what": "ink", "amount": 110})
    second = stage.start("expense.yaml", {"what": "paper", "amount": 120})
    third = stage.start("flows.py:RELEASE", {"version": "4.0.0", "notes": "keys"})
    page = look().go("#/inbox")
    shown(page.get_by_role("article", name="Spend 110 on ink?"))
    page.keyboard.press("?")
    shown(page.get_by_role("dialog", name="Keyboard"))
    page.keyboard.press("Escape")
    gone(page.get_by_role("dialog", name="Keyboard"))
    page.keyboard.press("j")
    shown(page.get_by_role("article", name="Spend 120 on paper?"))
    page.keyboard.press("k")
    shown(page.get_by_role("article", name="Spend 110 on ink?"))
    page.keyboard.press("a")
    approve = page.get_by_role("button", name="Approve")
    expect(approve).to_be_focused()
    expect(approve).to_be_enabled()  # a card that has just come takes nothing for a moment
    page.keyboard.press("Enter")
    until(lambda: stage.status(first) == "completed")
    shown(page.get_by_role("article", name="Spend 120 on paper?"))
    page.keyboard.press("r")
    expect(page.get_by_label("Why not?")).to_be_focused()
    page.keyboard.type("enough of it")
    expect(page.get_by_role("button", name="Reject", exact=True)).to_be_enabled()
    page.keyboard.press("Enter")
    until(lambda: stage.status(second) == "failed")
    shown(page.get_by_role("article", name="Publish 4.0.0 to everybody?"))
    page.keyboard.press("e")
    expect(page.get_by_label("channel")).to_be_focused()
    page.keyboard.press("Escape")
    page.keyboard.press("a")
    approve = page.get_by_role("button", name="Approve")
    expect(approve).to_be_focused()
    expect(approve).to_be_enabled()  # a card that has just come takes nothing for a moment
    page.keyboard.press("Enter")
    until(lambda: stage.status(third) == "completed")


# What has the focus: its role and name, and whether somebody who looks sees that it has it.
FOCUS = """() => { const one = document.activeElement, look = getComputedStyle(one), box = one.getBoundingClientRect();
  return {name: (one.getAttribute("aria-label") || one.textContent || "").trim(), tag: one.tagName,
    isSeen: one === document.body || (look.outlineStyle !== "none" && parseFloat(look.outlineWidth) > 0)
      || look.boxShadow !== "none", isThere: one === document.body || (box.bottom > 0 && box.top < innerHeight)}; }"""


def test_tab_and_enter_alone_lead_through_a_whole_approval(stage: Stage, look: Look) -> None:
    stage.clear()
    first = stage.start("expense.yaml", {"what": "ink", "amount": 130})
    second = stage.start("expense.yaml", {"what": "wax", "amount": 140})
    page = look().go("#/runs")
    shown(page.locator("main table, main .card").first)

    def reach(name: str, tag: str) -> None:
        """Press Tab until something has the focus; all that has it on the way can be seen to have it."""
        for _ in range(60):
            page.keyboard.press("Tab")
            found = page.evaluate(FOCUS)
            assert found["isSeen"], found
            assert found["isThere"], found
            if found["tag"] == tag and found["name"].startswith(name):
                return
        raise AssertionError(f"no {tag} {name} in sixty steps")

    page.keyboard.press("Tab")
    reach("Inbox", "A")
    page.keyboard.press("Enter")
    shown(page.get_by_role("article", name="Spend 130 on ink?"))
    expect(page.locator(".answering:not(.dead)")).to_have_count(1)
    reach("Approve", "BUTTON")
    page.keyboard.press("Enter")
    until(lambda: stage.status(first) == "completed")
    shown(page.get_by_role("article", name="Spend 140 on wax?"))
    expect(page.locator(".answering:not(.dead)")).to_have_count(1)
    reach("Reject", "BUTTON")
    page.keyboard.press("Enter")
    expect(page.get_by_label("Why not?")).to_be_focused()
    page.keyboard.type("enough")
    reach("Reject", "BUTTON")
    expect(page.locator(".answering:not(.dead)")).to_have_count(1)
    page.keyboard.press("Enter")
    until(lambda: stage.status(second) == "failed")
    shown(page.get_by_text("Nothing waits for you"))


def test_a_page_in_the_background_notifies_once(stage: Stage, look: Look) -> None:
    stage.clear()
    looker = look(permissions=["notifications"])
    looker.context.add_init_script(
        """window.told = []; window.isAway = false;
        window.Notification = class {
          constructor(title, more) { window.told.push(`${title}: ${more.body}`); window.note = this; }
          close() {}
          static permission = "granted"; };
        Object.defineProperty(document, "hidden", {get: () => window.isAway});"""
    )
    page = looker.go("#/inbox")
    shown(page.get_by_text("Nothing waits for you"))
    page.evaluate("window.isAway = true; document.dispatchEvent(new Event('visibilitychange'))")
    run_id = stage.start("flows.py:RELEASE", {"version": "5.0.0", "notes": ""})
    page.wait_for_function("() => window.told.length > 0")
    assert page.evaluate("window.told") == ["Release to everybody asks: Publish 5.0.0 to everybody?"]
    page.evaluate("window.note.onclick()")
    expect(page).to_have_url(f"{stage.address}/#/inbox/{run_id}/publish%2Fpublish%2F1")
    shown(page.get_by_role("article", name="Publish 5.0.0 to everybody?"))


def test_a_call_that_may_still_land_says_until_when_and_a_no_waits_for_it(stage: Stage, look: Look) -> None:
    stage.clear()
    run_id = stage.start("flows.py:ORDER", {"paper": "DE0001"})
    page = look().page
    page.clock.install()
    page.goto(f"{stage.address}/#/inbox")
    card = shown(page.get_by_role("article"))
    for text in ("Why nobody knows", "502 Bad Gateway", "upstream timed out", "The call may still land until"):
        expect(card).to_contain_text(text)
    no = card.get_by_role("button", name="It did not; do it")
    expect(no).to_be_disabled()
    page.clock.fast_forward(3_700_000)  # an hour later, with nothing touched
    expect(no).to_be_enabled()
    expect(card).to_contain_text("nothing of the call can be under way")
    page.get_by_label("If it did happen").fill('{"order": 12}')
    card.get_by_role("button", name="It happened").click()
    until(lambda: stage.status(run_id) == "completed")


def test_a_repeat_shows_what_was_done_before_and_uses_its_result(stage: Stage, look: Look) -> None:
    stage.clear()
    first = stage.start("flows.py:DEPLOY", {"site": "used"}, by="ann")
    run_id = stage.start("flows.py:DEPLOY", {"site": "used"})
    page = look().go("#/inbox")
    card = shown(page.get_by_role("article"))
    for text in ("Done before", "started by ann", "https://used.example/", "Do it again"):
        expect(card).to_contain_text(text)
    assert first in str(card.get_by_role("link", name=f"run {first}").get_attribute("href"))
    card.get_by_role("button", name="Use that result").click()
    told(page, "Answered.")
    until(lambda: stage.status(run_id) == "completed")
    assert stage.ask(f"/api/runs/{run_id}")["output"] == {"release": 41}


def test_a_deed_that_failed_on_its_way_is_stopped_or_done_again(stage: Stage, look: Look) -> None:
    stage.clear()
    stage.start("flows.py:DEPLOY", {"site": "broken"})
    stopped = stage.start("flows.py:DEPLOY", {"site": "broken"})
    page = look().go("#/inbox")
    card = shown(page.get_by_role("article"))
    for text in ("Perhaps done before", "tool_failure.exit", "311 of 412", "no space left on device"):
        expect(card).to_contain_text(text)
    card.get_by_role("button", name="Stop…").click()
    page.get_by_label("Why not?").fill("clean up first")
    press(page.get_by_role("button", name="Stop", exact=True))
    told(page, "Stopped.")
    until(lambda: stage.status(stopped) == "rejected")
    again = stage.start("flows.py:DEPLOY", {"site": "broken"})
    shown(page.get_by_role("button", name="Do it again")).click()
    until(lambda: stage.status(again) == "failed")
    assert "tool_failure.exit" in str(stage.ask(f"/api/runs/{again}")["error"])
