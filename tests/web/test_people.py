"""Three people at one page: who may answer is shown before the click, and nobody answers for another."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

from detent.kit.login_link import make_link
from detent.kit.people_file import PeopleFile
from detent.surfaces.server.notice_message import path_of_question
from tests.surfaces.server.people import PAY, token_of, write_people
from tests.web.conftest import Look
from tests.web.kit import Looker, Stage, gone, missing, shown, told, until


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A server whose home has people; what the test itself asks, opal asks."""
    if missing():
        pytest.skip(missing())
    folder = tmp_path_factory.mktemp("people")
    write_people(folder / ".detent")
    (folder / "pay.yaml").write_text(PAY)
    (folder / "detent.serve.yaml").write_text("login: {os_user: false}\n")
    made = Stage(folder, token=token_of("opal"))
    yield made
    made.close()


def begin(stage: Stage) -> str:
    """Opal starts a run that asks two people."""
    return str(stage.ask("/api/runs", {"definition": "pay.yaml", "input": {}})["run_id"])


def enter(looker: Looker, name: str) -> Page:
    """Log in with a token that is typed in."""
    page = looker.go("#/inbox")
    page.get_by_label("Token").fill(token_of(name))
    page.get_by_role("button", name="Log in").click()
    shown(page.get_by_role("group", name="Who you are"))
    return page


def ask_as(page: Page, path: str, body: Any) -> Any:
    """A request of the page's own browser, past the buttons."""
    return page.evaluate(
        """async ([path, body]) => {
            const answer = await fetch(path, {method: "POST", headers: {"Content-Type": "application/json"},
                                              body: JSON.stringify(body)});
            return [answer.status, await answer.json()];
        }""",
        [path, body],
    )


def attempts(stage: Stage, run_id: str) -> list[tuple[str, str]]:
    """Who tried what they may not, as the run's log says."""
    entries = [entry["event"] for entry in stage.ask(f"/api/runs/{run_id}/log?limit=500")["entries"]]
    tried = [one for one in entries if one.get("name") in ("@attempt", "ATTEMPTED")]
    return [(one.get("spoken_by") or one["by"], one["data"]["verb"]) for one in tried]


def test_two_of_three_people_meet_a_quorum_and_the_third_can_only_look(stage: Stage, look: Look) -> None:
    stage.clear()
    run_id = begin(stage)
    lookers = {name: look() for name in ("ann", "bob", "kim")}
    for looker in lookers.values():
        looker.may_be_refused = True
    ann, bob, kim = [enter(looker, name) for name, looker in lookers.items()]
    cards = [shown(page.get_by_role("article", name="Pay?")) for page in (ann, bob, kim)]
    expect(cards[0]).to_contain_text("You may answer")
    expect(cards[0]).to_contain_text("also: bob")
    expect(cards[2]).to_contain_text("You cannot answer this.")
    expect(cards[2]).to_contain_text("`kim` is viewer")
    expect(cards[2]).to_contain_text("can answer: ann, bob")
    for name in ("Approve", "Reject…"):
        expect(cards[2].get_by_role("button", name=name)).to_be_disabled()
    path = f"/api/runs/{run_id}/contracts/pay/pay/1/answer"
    assert ask_as(kim, path, {"approved": True})[0] == 403
    assert ask_as(kim, path, {"approved": True, "by": "ann"})[0] == 403
    cards[0].get_by_role("button", name="Approve").click()
    told(ann, "Approved.")
    expect(cards[0]).to_contain_text("`ann` has already approved")
    expect(cards[0].get_by_role("button", name="Approve")).to_be_disabled()
    expect(cards[1]).to_contain_text("Approved: ann")
    expect(cards[1]).to_contain_text("1 of 2 have approved")
    assert ask_as(ann, path, {"approved": True})[0] == 403
    cards[1].get_by_role("button", name="Approve").click()
    for card in (cards[0], cards[2]):
        expect(card).to_contain_text("bob approved this at")
    gone(cards[1])  # whoever decided goes on to the next
    until(lambda: stage.status(run_id) == "completed")
    assert attempts(stage, run_id) == [("kim", "answer"), ("kim", "answer"), ("ann", "answer")]  # one for each reason


def test_somebody_answers_for_another_where_that_is_allowed(stage: Stage, look: Look) -> None:
    stage.clear()
    write_people(stage.folder / ".detent", speaks_for={"kim": ("ann",)})
    try:
        run_id = begin(stage)
        kim, bob = look(), look()
        cards = [
            shown(enter(one, name).get_by_role("article", name="Pay?")) for one, name in ((kim, "kim"), (bob, "bob"))
        ]
        expect(cards[1].get_by_label("Answer as")).to_have_count(0)
        expect(cards[0].get_by_label("Answer as")).to_have_value("ann")
        expect(cards[0].get_by_label("Answer as")).to_contain_text("kim for ann")
        cards[0].get_by_role("button", name="Approve").click()
        expect(cards[1]).to_contain_text("Approved: kim for ann")
        expect(cards[0]).to_contain_text("You cannot answer this.")
        cards[1].get_by_role("button", name="Approve").click()
        until(lambda: stage.status(run_id) == "completed")
    finally:
        write_people(stage.folder / ".detent")


def test_a_viewer_sees_everything_and_can_do_nothing(stage: Stage, look: Look) -> None:
    stage.clear()
    run_id = begin(stage)
    page = enter(look(), "kim")
    expect(page.get_by_role("group", name="Who you are")).to_contain_text("viewer")
    page.evaluate("(run) => { location.hash = `#/runs/${run}`; }", run_id)
    shown(page.get_by_role("heading", name="Why it is here"))
    for name in ("Stop…", "Pause", "Fork…", "Signal…"):
        expect(page.get_by_role("button", name=name)).to_have_count(0)
    page.evaluate("location.hash = '#/definitions/expense.yaml'")
    expect(shown(page.get_by_role("button", name="Start", exact=True))).to_be_disabled()


def test_after_a_log_out_an_old_cookie_is_refused_and_the_page_asks_again(stage: Stage, look: Look) -> None:
    stage.clear()
    looker, thief = look(), look()
    thief.may_be_refused = looker.may_be_refused = True
    page = enter(looker, "bob")
    page_in_another_tab = looker.context.new_page()
    page_in_another_tab.goto(f"{stage.address}/#/runs")
    shown(page_in_another_tab.get_by_role("group", name="Who you are"))
    cookies = looker.context.cookies()
    assert [one["httpOnly"] and one["sameSite"] == "Strict" for one in cookies] == [True]
    page.get_by_role("button", name="Log out").click()
    shown(page.get_by_role("heading", name="Log in"))
    shown(page_in_another_tab.get_by_role("heading", name="Log in"))  # its stream has ended
    assert looker.context.cookies() == []
    thief.context.add_cookies(cookies)  # type: ignore[arg-type]  # as they came
    stolen = thief.go("#/inbox")
    shown(stolen.get_by_role("heading", name="Log in"))
    assert ask_as(stolen, "/api/runs", {"definition": "pay.yaml"})[0] == 401
    until(lambda: ("bob", "log in") in attempts(stage, "detent_people"))


def test_a_link_asks_first_and_logs_in_once(stage: Stage, look: Look) -> None:
    people = PeopleFile(stage.folder / ".detent").current()
    assert people is not None
    link = make_link(stage.folder / ".detent", people.by_name["ann"])
    page = look().go(f"#login={link}")
    shown(page.get_by_role("heading", name="Log in as ann?"))
    assert link not in page.url
    page.get_by_role("button", name="Log in").click()
    expect(shown(page.get_by_role("group", name="Who you are"))).to_contain_text("ann")
    second = look()
    second.may_be_refused = True
    page = second.go(f"#login={link}")
    page.get_by_role("button", name="Log in").click()
    shown(page.get_by_text("this link was used already"))


def test_a_token_that_is_renewed_ends_what_is_open(stage: Stage, look: Look) -> None:
    looker = look()
    looker.may_be_refused = True
    page = enter(looker, "ada")
    write_people(stage.folder / ".detent", ada=2)
    try:
        shown(page.get_by_role("heading", name="Log in"))
        page.get_by_label("Token").fill(token_of("ada"))
        page.get_by_role("button", name="Log in").click()
        shown(page.get_by_text("This token is nobody's."))
        page.get_by_label("Token").fill(token_of("ada", 2))
        page.get_by_role("button", name="Log in").click()
        shown(page.get_by_role("group", name="Who you are"))
    finally:
        write_people(stage.folder / ".detent")


PHONE: dict[str, Any] = {
    "viewport": {"width": 390, "height": 844},
    "has_touch": True,
    "is_mobile": True,
    "color_scheme": "dark",
    "locale": "zh-CN",
}


@pytest.mark.parametrize(("kind", "options"), [("desk", {}), ("phone", PHONE)], ids=["desk", "phone"])
def test_how_it_looks(kind: str, options: dict[str, Any], stage: Stage, look: Look, pictures: Path) -> None:
    stage.clear()
    run_id = begin(stage)
    looker = look(**options)
    page = looker.go("#/inbox")
    shown(page.locator("main.token form"))
    page.screenshot(path=pictures / f"login-{kind}.png")
    page.locator("#token").fill(token_of("kim"))
    page.locator("main.token button").click()
    where = f"#/inbox/{run_id}/pay%2Fpay%2F1"
    page.evaluate("(place) => { location.hash = place; }", where)
    shown(page.locator("article.question .standing"))
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]  # type: ignore[index]
    page.screenshot(path=pictures / f"people-viewer-{kind}.png", full_page=True)
    other = look(**options)
    page = other.go("#/inbox")
    page.locator("#token").fill(token_of("ann"))
    page.locator("main.token button").click()
    page.evaluate("(place) => { location.hash = place; }", where)
    shown(page.locator("article.question .standing"))
    page.screenshot(path=pictures / f"people-approver-{kind}.png", full_page=True)


def test_the_link_of_a_notice_shows_nothing_before_the_login_and_then_the_very_question(
    stage: Stage, look: Look
) -> None:
    stage.clear()
    begin(stage)
    run_id = begin(stage)
    looker = look()
    looker.may_be_refused = True
    page = looker.go(path_of_question(run_id, "pay/pay/1"))
    shown(page.get_by_label("Token"))
    assert "Pay?" not in page.content()
    asked = [urlsplit(url).path for url in looker.requests if urlsplit(url).path.startswith("/api/")]
    assert set(asked) == {"/api/me"}
    page.get_by_label("Token").fill(token_of("ann"))
    page.get_by_role("button", name="Log in").click()
    shown(page.get_by_role("article", name="Pay?"))
    assert run_id in page.url
    assert run_id in page.get_by_role("article", name="Pay?").inner_html()
