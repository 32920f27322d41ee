"""The desk in a real browser: a click reaches what it was aimed at or nothing, and any number of questions is shown."""

import json
import os
import random
import re
import threading
import time
from contextlib import suppress
from pathlib import Path

from playwright.sync_api import Page, Request, expect

from tests.effort import examples
from tests.surfaces.server.workflows import SIGN, write_loop
from tests.web.conftest import Look
from tests.web.kit import Stage, gone, shown, told, until

# The run whose question is on the page and where its main button stands, in one look; nothing while it takes no answer.
AIM = """() => {
  const found = [...document.querySelectorAll(".answering:not(.dead) .main")];
  if (found.length !== 1) return null;
  const box = found[0].getBoundingClientRect();
  return [location.hash.split("/")[2] || "", box.x + box.width / 2, box.y + box.height / 2]; }"""
AIM_OR_DECIDED = f"() => ({AIM})() || document.querySelector('.deciding.decided')"
HEARD = "(was) => location.hash.split('/')[2] !== was || document.querySelector('.deciding.decided')"
# A page that goes on by itself may already be elsewhere when `n` is pressed: then what it shows can be aimed at.
GONE_ON = f"(was) => location.hash.split('/')[2] !== was || ({AIM})()"


def aim(page: Page) -> tuple[str, float, float]:
    """An open question on the page, and where a hand must press to say yes to it."""
    while True:
        page.wait_for_function(AIM_OR_DECIDED)
        found = page.evaluate(AIM)
        if found:
            run_id, x, y = found
            return run_id, x, y
        if page.locator(".deciding.decided").count():
            was = page.evaluate("location.hash.split('/')[2]")
            page.keyboard.press("n")
            page.wait_for_function(GONE_ON, arg=was)


def meddle(stage: Stage, chance: random.Random, run_id: str) -> None:
    """Somebody else decides this question or another one, or a new one comes; at any moment."""
    time.sleep(chance.random() * 0.12)  # no synchronisation: the moment is what is tried
    with suppress(AssertionError):  # it was decided already, by the click
        if chance.random() < 0.75:
            stage.ask(f"/api/runs/{run_id}/contracts/large/sign/1/answer", {"approved": chance.random() < 0.5})
        else:
            begin(stage, chance.randrange(10**9))


def begin(stage: Stage, number: int) -> str:
    body = {"definition": "expense.yaml", "input": {"what": f"thing {number}", "amount": 500 + number % 500}}
    return str(stage.ask("/api/runs", body)["run_id"])


def test_a_click_reaches_the_question_it_was_aimed_at_or_none(stage: Stage, look: Look) -> None:
    """`DETENT_EXAMPLES=100 ./run test tests/web/test_desk.py -k aimed` makes a thousand clicks of it."""
    stage.clear()
    chance = random.Random(int(os.environ.get("DETENT_SEED", "19")))
    looker = look()
    looker.may_be_refused = True  # a click that comes second is told so
    sent: list[str] = []

    def hear(request: Request) -> None:
        if request.method == "POST" and request.url.endswith("/answer"):
            sent.append(request.url.split("/api/runs/")[1].split("/")[0])
            assert json.loads(request.post_data or "{}")["shown"]

    looker.page.on("request", hear)
    for number in range(6):
        begin(stage, number)
    page = looker.go("#/inbox")
    reached = 0
    for number in range(examples(10)):
        begin(stage, number)
        run_id, x, y = aim(page)
        page.mouse.move(x, y)
        if chance.random() < 0.3:
            page.evaluate("document.querySelector('.answering .main')?.focus()")
        other = threading.Thread(target=meddle, args=(stage, chance, run_id))
        other.start()
        for _ in range(chance.choice((1, 1, 2, 3))):  # also the second click of somebody who is impatient
            page.wait_for_timeout(chance.random() * 120)
            if chance.random() < 0.2:
                page.keyboard.press("Enter")
            else:
                page.mouse.click(x, y)
        other.join()
        page.wait_for_timeout(50)
        if stage.status(run_id) != "waiting":  # decided: the page hears of it, sooner or later
            page.wait_for_function(HEARD, arg=run_id)
        assert set(sent) <= {run_id}, f"click {number} was aimed at {run_id} and reached {sent}"
        reached += bool(sent)
        sent.clear()
    assert reached, "no click reached anything: nothing was tried"


def test_any_number_of_questions_is_listed_and_a_new_one_costs_no_request(stage: Stage, look: Look) -> None:
    stage.clear()
    runs = [begin(stage, number) for number in range(230)]
    until(lambda: stage.ask("/api/inbox/lines?limit=0")["total"] == 230)
    looker = look()
    page = looker.go("#/inbox")
    shown(page.get_by_text("230 waiting for a decision"))
    assert page.locator(".roll li").count() < 60
    page.locator(".roll").evaluate("(box) => box.scrollTo(0, box.scrollHeight)")
    last = page.locator(f'.roll a[href*="{runs[-1]}"]')
    shown(last).click()
    expect(shown(page.get_by_role("article"))).to_contain_text("Spend 729 on thing 229?")
    asked = len(looker.requests)
    latest = begin(stage, 230)
    expect(page.get_by_role("link", name="Inbox")).to_contain_text("231")
    shown(page.locator(f'.roll a[href*="{latest}"]'))
    assert looker.requests[asked:] == []
    # In groups, and back into one of them; the filter is in the address, so a link shows what its sender saw.
    page.get_by_label("Group by").select_option("effect")
    shown(page.get_by_role("link", name="ask 231")).click()
    expect(page).to_have_url(re.compile(r"#/inbox(/.*)?\?effect=ask$"))  # with the first one opened
    page.get_by_label("Search the questions").fill("thing 17")
    shown(page.get_by_text("11 of 231 waiting for a decision"))
    again = look().go(page.url.partition("/#")[2] and f"#{page.url.partition('/#')[2]}")
    shown(again.get_by_text("11 of 231 waiting for a decision"))


def test_many_are_approved_side_by_side(stage: Stage, look: Look) -> None:
    stage.clear()
    for version in ("7.1.0", "7.2.0", "7.3.0"):
        stage.start("flows.py:RELEASE", {"version": version, "notes": "the usual"})
    page = look().go("#/inbox")
    shown(page.get_by_role("link", name="Approve many: 3 ask the same")).click()
    table = shown(page.locator("table.many"))
    expect(table.locator("thead")).to_contain_text("version")
    expect(table).not_to_contain_text("the usual")  # what is the same in all stands above, once
    expect(page.locator(".facts")).to_contain_text("the usual")
    page.get_by_role("button", name="Choose all 3").click()
    page.get_by_role("checkbox").nth(1).uncheck()
    page.get_by_role("button", name="Approve 2").click()
    told(page, "2 of 2 approved.")
    expect(table.locator(".taken")).to_have_count(2)
    until(lambda: stage.ask("/api/inbox/lines?limit=0")["total"] == 1)
    expect(page.get_by_role("navigation", name="Main")).to_contain_text("1")
    sent = (stage.folder / "outbox.txt").read_text()
    assert ("7.1.0" in sent, "7.2.0" in sent, "7.3.0" in sent) == (True, False, True)
    gone(page.get_by_role("button", name="Approve 2"))


NOTICE = """\
name: notice
input: {number: integer}
states:
  post:
    type: initial
    actions:
      - id: post
        tool: files.write
        params: {path: notice.txt, text: closed on Friday}
        approval: {question: "Put up notice {{ context.number }}?"}
  done: {type: final}
transitions: [{from: post, to: done}]
"""


def test_after_the_same_answer_again_and_again_a_rule_is_offered(stage: Stage, look: Look) -> None:
    stage.clear()
    (stage.folder / "notice.yaml").write_text(NOTICE)
    for number in range(7):
        stage.start("notice.yaml", {"number": number})
    page = look().go("#/inbox")
    for number in range(5):
        card = shown(page.get_by_role("article", name=f"Put up notice {number}?"))
        expect(card).to_contain_text("There is no undo")
        card.get_by_role("button", name="Approve").click()
    shown(page.get_by_role("article", name="Put up notice 5?"))
    offer = shown(page.get_by_role("region", name="A rule that people's answers suggest"))
    expect(offer).to_contain_text("decision: allow")
    expect(offer).to_contain_text("questions it would have spared")


POLICY = "rules:\n  - {name: careful, decision: ask, tool: release.publish}\n"


def test_the_card_says_what_the_policy_will_say_before_anybody_presses(look: Look, tmp_path: Path) -> None:
    (tmp_path / "detent.policy.yaml").write_text(POLICY)
    stage = Stage(tmp_path)
    try:
        run_id = stage.start("flows.py:RELEASE", {"version": "6.1.0", "notes": "policy"})
        looker = look(stage)
        page = looker.go("#/inbox")
        card = shown(page.get_by_role("article", name="Publish 6.1.0 to everybody?"))
        expect(card).to_contain_text(re.compile("policy.*careful"))
        # The rules change while the question is open: what is shown when somebody looks is what will be said.
        stage.close()
        (tmp_path / "detent.policy.yaml").write_text(POLICY.replace("decision: ask", "decision: deny"))
        stage.open()
        looker.may_be_refused = True
        page = looker.go(f"#/inbox/{run_id}")
        card = shown(page.get_by_role("article", name="Publish 6.1.0 to everybody?"))
        expect(card).to_contain_text("The policy denies this call: careful")
        expect(card).to_contain_text("A yes would not make it go through.")
        (tmp_path / "packing.yaml").write_text(write_loop(SIGN))
        page = looker.go(f"#/inbox/{stage.start('packing.yaml', {'items': ['cups']})}")
        card = shown(page.get_by_role("article", name="Pack cups?"))
        expect(card).to_contain_text("The policy decides about each call that follows")
        page.goto("about:blank")
    finally:
        stage.close()
