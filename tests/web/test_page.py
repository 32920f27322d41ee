"""The rest of the page: lists, definitions, languages, phones, screen readers, and what it may not do."""

import re
import subprocess
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Request, expect

from tests.effort import TIMES
from tests.web.conftest import Look
from tests.web.kit import DETENT, ROOT, Stage, gone, press, shown, until

SOURCES = ROOT / "web" / "src"
SOMETHING = "main .card:visible, main .timeline:visible, main .queue:visible"
FIRST_LOAD_MAX = 700_000
FIRST_TEXTS_MAX = 120_000


def test_the_list_is_live_and_its_filter_is_in_the_address(stage: Stage, look: Look) -> None:
    looker = look()
    stage.start("expense.yaml", {"what": "tea", "amount": 8})
    page = looker.go("#/runs")
    shown(page.get_by_role("link", name="expense"))
    stage.start("flows.py:JOURNEY")
    shown(page.get_by_role("link", name="journey"))
    page.get_by_role("button", name="completed", exact=True).click()
    gone(page.get_by_role("link", name="journey"))
    assert page.url.endswith("#/runs?status=completed")
    page.reload()
    shown(page.get_by_role("link", name="expense").first)
    gone(page.get_by_role("link", name="journey"))
    page.get_by_role("button", name="completed", exact=True).click()
    page.get_by_label("Machine").select_option("journey")
    gone(page.get_by_role("link", name="expense"))
    page.get_by_label("Search text").fill("no such thing")
    shown(page.get_by_text("No run fits"))
    page.get_by_label("Search text").fill("packed")
    page.get_by_label("Time").select_option("last hour")
    page.get_by_role("button", name="waiting", exact=True).click()
    expect(page).to_have_url(f"{stage.address}/#/runs?machine=journey&text=packed&within=3600&status=waiting")
    page.reload()  # all of it is in the address
    expect(page.get_by_label("Machine")).to_have_value("journey")
    expect(page.get_by_label("Search text")).to_have_value("packed")
    expect(page.get_by_label("Time")).to_have_value("3600")
    expect(page.get_by_role("button", name="waiting", exact=True)).to_have_attribute("aria-pressed", "true")
    shown(page.get_by_role("link", name="journey")).click()
    shown(page.get_by_role("heading", name="Parcel on its way"))


PARCEL = """\
name: parcel
input: {customer: string, weight: integer, api_key: string}
attributes:
  customer: "{{ context.customer }}"
  weight: "{{ context.weight }}"
  api_key: "{{ context.api_key }}"
  z_long: "{{ context.customer }}unbrokenunbrokenunbrokenunbrokenunbrokenunbrokenunbrokenunbrokenunbrokenunbroken"
  z_longer: "unbrokenunbrokenunbrokenunbrokenunbrokenunbrokenunbrokenunbrokenunbrokenunbrokenunbrokenunbroken"
states:
  begin: {type: initial}
  held: {type: wait, for: [{event: go}], timeout: 7d}
  sent: {type: final}
  late: {type: error}
transitions: [{from: begin, to: held}, {from: held, to: sent}, {from: held, to: late, on: error}]
"""


def test_attributes_are_columns_that_sort_find_and_choose_runs(stage: Stage, look: Look) -> None:
    (stage.folder / "parcel.yaml").write_text(PARCEL)
    runs = {
        name: stage.start("parcel.yaml", {"customer": name, "weight": weight, "api_key": "k-12345"})
        for name, weight in (("Nordwind", 20), ("北风公司", 3), ("Ferris", 100))
    }
    page = look().go("#/runs?machine=parcel")
    column = page.locator("td.attribute").filter(has_text="customer")
    expect(column).to_have_text([re.compile("Ferris"), re.compile("北风公司"), re.compile("Nordwind")])
    page.get_by_role("button", name="weight").click()
    expect(page).to_have_url(re.compile("sort=weight"))
    expect(column).to_have_text([re.compile("北风公司"), re.compile("Nordwind"), re.compile("Ferris")])
    expect(page.get_by_role("columnheader", name="weight")).to_have_attribute("aria-sort", "ascending")
    expect(page.locator("main")).not_to_contain_text("k-12345")
    for width in (1024, 800, 390):
        page.set_viewport_size({"width": width, "height": 860})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.set_viewport_size({"width": 1280, "height": 860})
    page.get_by_label("Search text").fill("北风")
    expect(column).to_have_text([re.compile("北风公司")])
    page.get_by_label("Search text").fill("")
    page.get_by_label("Condition").fill("weight > 10")
    page.get_by_label("Condition").press("Enter")
    expect(page.locator(".lede")).to_have_text("2 found")
    # What is done to them is looked at first; what has moved on since is left as it is.
    page.get_by_role("button", name="Act on these…").click()
    page.get_by_label("What to do").select_option("signal")
    page.get_by_label("Name of the signal").fill("go")
    shown(page.get_by_role("button", name="Signal: 2 runs"))
    stage.tell(runs["Ferris"], "go")
    until(lambda: stage.status(runs["Ferris"]) == "completed")
    press(page.get_by_role("button", name="Signal: 2 runs"))
    expect(page.get_by_role("dialog")).to_contain_text("1 of 2 done.")
    assert [stage.status(runs[name]) for name in runs] == ["completed", "waiting", "completed"]
    page.keyboard.press("Escape")
    page.keyboard.press("Control+k")
    page.keyboard.type("Figures")
    shown(page.get_by_role("option", name="Go to Figures"))
    page.keyboard.press("Enter")
    shown(page.get_by_role("heading", name="Figures"))


def test_the_list_tells_age_state_question_and_cost(stage: Stage, look: Look) -> None:
    run_id = stage.start("flows.py:RELEASE", {"version": "5.5.0", "notes": "what it costs"})
    page = look().go("#/runs?machine=release")
    count = len(stage.ask("/api/runs?machine=release&limit=500")["runs"])
    expect(page.locator(".lede")).to_have_text(f"{count} found")
    row = page.get_by_role("row").filter(has_text=run_id)
    for text in ("waiting", "publish", "Publish 5.5.0 to everybody?", "started"):
        expect(row).to_contain_text(text)
    stage.ask(f"/api/runs/{run_id}/contracts/publish/publish/1/answer", {"approved": True})
    expect(row).to_contain_text("completed")
    expect(row).to_contain_text("$0.02")
    row.get_by_role("link").click()
    expect(page.locator(".run-head")).to_contain_text("1,840 tokens")


def test_everything_has_an_address_that_shows_it_to_somebody_else(stage: Stage, look: Look) -> None:
    stage.clear()
    stage.start("expense.yaml", {"what": "a desk", "amount": 310})
    run_id = stage.start("flows.py:RELEASE", {"version": "5.6.0", "notes": "links"})
    places = {
        f"#/inbox/{run_id}/publish%2Fpublish%2F1": 'article[aria-label="Publish 5.6.0 to everybody?"]',
        f"#/runs/{run_id}?tab=timeline&show=contracts": "button[aria-pressed=true]:has-text('contracts')",
        f"#/runs/{run_id}?tab=contracts&contract=validate%2Fvalidate%2F1": "article[aria-current] >> text=validate",
        f"#/runs/{run_id}?at=1": "svg.machine .lit[data-state=validate]",
        "#/definitions/expense.yaml?line=14": "#line-14[aria-current]",
        f"#/compare?left=run%3A{run_id}&right=flows.py%3ARELEASE": "text=Both are the same machine.",
    }
    for place, what in places.items():
        page = look().go(place)  # a browser that has never been here
        expect(page.locator(what).first).to_be_in_viewport()


def test_who_wants_no_motion_gets_none(stage: Stage, look: Look) -> None:
    run_id = stage.start("flows.py:JOURNEY", {"parcel": "quiet"})
    moving = "() => document.getAnimations().length"
    for wish, is_moving in (("no-preference", True), ("reduce", False)):
        page = look(reduced_motion=wish).go(f"#/runs/{run_id}")
        shown(page.locator("svg.machine .lit"))
        page.evaluate("document.querySelector('svg.machine').classList.add('running')")  # as while an effect is at work
        assert (page.evaluate(moving) > 0) is is_moving


def test_older_runs_come_page_by_page(stage: Stage, look: Look) -> None:
    for number in range(55):
        stage.ask("/api/runs", {"definition": "expense.yaml", "input": {"what": f"pen {number}", "amount": 1}})
    page = look().go("#/runs?machine=expense")
    rows = page.locator(".runs tbody tr")
    expect(rows).to_have_count(50)
    page.get_by_role("button", name="Show older").click()
    until(lambda: rows.count() >= 55)


def test_definitions_show_pictures_problems_at_lines_and_start_runs(stage: Stage, look: Look) -> None:
    page = look().go("#/definitions")
    shown(page.get_by_role("link", name="expense-simple").locator("svg.machine"))
    page.get_by_role("link", name="broken.yaml").click()
    expect(page.locator("#line-11 + .flaw")).to_contain_text("unknown state `finish`")
    expect(page.locator("#line-12 + .flaw")).to_contain_text("expected name or number")
    page.goto(f"{stage.address}/#/definitions/expense.yaml")
    page.get_by_role("button", name="Start", exact=True).click()
    shown(page.get_by_text("what is needed"))
    page.get_by_label("what").fill("a lamp")
    page.get_by_label("amount").fill("20")
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.locator("svg.machine .lit")).to_have_attribute("data-state", "booked")


def test_a_file_is_seen_as_it_is_written(stage: Stage, look: Look) -> None:
    page = look().go("#/definitions")
    shown(page.get_by_role("link", name="expense-simple"))
    file = stage.folder / "fresh.yaml"
    whole = (stage.folder / "expense-simple.yaml").read_text().replace("expense_simple", "fresh_one")
    file.write_text(whole)
    try:
        page.get_by_role("link", name="fresh.yaml").click()
        shown(page.locator(".diagram svg.machine"))  # not one of those beside the names
        file.write_text(whole.replace("transitions:", "transitoins:"))
        shown(page.locator(".flaw").first)
        file.write_text(whole)
        gone(page.locator(".flaw"))
        shown(page.locator("svg.machine"))
    finally:
        file.unlink()


NIGHTLY = """
name: nightly
triggers:
  night: {schedule: "30 2 * * *", timezone: Europe/Berlin}
states:
  count: {type: initial, actions: [{id: note, type: log, message: counted}]}
  counted: {type: final}
transitions: [{from: count, to: counted}]
"""
GATHER = """
name: gather
input:
  place: {type: string, enum: [cellar, attic], default: attic}
  days: {type: integer, default: 3, description: How far to look back}
  token: secret
states:
  look:
    type: initial
    actions:
      - id: write
        tool: shell
        params:
          argv: [sh, -c, 'echo "{{ context.place }} {{ context.days }} ${#TOKEN}" > found.txt']
          env: {TOKEN: "{{ context.token }}"}
      - {id: keep, tool: files.keep, params: {path: found.txt}}
  found: {type: final}
transitions: [{from: look, to: found}]
"""


def test_a_trigger_shows_its_times_and_is_fired_by_hand(stage: Stage, look: Look, pictures: Path) -> None:
    (stage.folder / "nightly.yaml").write_text(NIGHTLY)

    def tell(verb: str) -> None:
        command = [str(DETENT), "trigger", verb, "nightly.yaml"]
        subprocess.run(command, cwd=stage.folder, env=stage.environment, check=True, stdout=subprocess.DEVNULL)

    tell("add")
    try:
        page = look().go("#/definitions")
        card = shown(page.locator(".triggers"))
        row = card.get_by_role("row").filter(has_text="nightly.night")
        expect(row).to_contain_text("armed")
        expect(row.locator("time")).to_have_count(1)  # the next; there is no last one yet
        expect(card.locator(".calendar dd")).to_have_count(12)
        expect(card.locator(".calendar dd").first).to_contain_text("02:30")
        row.get_by_role("button", name="Fire now").click()
        expect(page).to_have_url(re.compile("#/runs/nightly-night-"))
        expect(page.locator("svg.machine .lit")).to_have_attribute("data-state", "counted")
        page.go_back()
        expect(row.locator("time")).to_have_count(2)
        page.screenshot(path=pictures / "triggers.png")
        page.set_viewport_size({"width": 390, "height": 844})
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        page.screenshot(path=pictures / "triggers-narrow.png")
    finally:
        tell("remove")
        (stage.folder / "nightly.yaml").unlink()


def test_a_form_has_choices_defaults_and_secrets_and_a_kept_file_is_fetched(
    stage: Stage, look: Look, pictures: Path
) -> None:
    (stage.folder / "gather.yaml").write_text(GATHER)
    try:
        page = look().go("#/definitions/gather.yaml")
        expect(page.get_by_label("place").locator("option:checked")).to_have_text("attic")
        expect(page.get_by_label("days")).to_have_value("3")
        page.get_by_label("place").select_option("cellar")
        expect(page.get_by_label("token")).to_have_attribute("type", "password")
        page.get_by_label("token").fill("open sesame")
        page.screenshot(path=pictures / "form.png")
        page.get_by_role("button", name="Start", exact=True).click()
        kept = shown(page.get_by_role("button", name="found.txt"))
        with page.expect_download() as fetched:
            kept.click()
        assert Path(fetched.value.path()).read_text() == "cellar 3 11\n"
        assert "open sesame" not in page.content()
        page.screenshot(path=pictures / "artefact.png")
    finally:
        (stage.folder / "gather.yaml").unlink()


def test_two_versions_are_compared(stage: Stage, look: Look) -> None:
    page = look().go("#/compare?left=expense-simple.yaml&right=expense.yaml")
    shown(page.get_by_text("differences"))
    assert page.locator(".change").filter(has_text="expired").count() >= 2
    shown(page.locator("svg.machine .node.added"))


def test_the_page_speaks_chinese_when_the_browser_does(stage: Stage, look: Look) -> None:
    stage.clear()
    stage.start("expense.yaml", {"what": "茶叶", "amount": 480})
    page = look(locale="zh-CN").go("#/inbox")
    card = shown(page.get_by_role("article", name="Spend 480 on 茶叶?"))
    expect(card.get_by_role("button", name="批准")).to_be_visible()
    assert page.evaluate("document.documentElement.lang") == "zh-CN"
    # Letters without a shape would all be the same box.
    drawn = page.evaluate(
        "() => ['批', '准'].map((letter) => { const canvas = document.createElement('canvas');"
        " const pen = canvas.getContext('2d'); pen.font = `40px ${getComputedStyle(document.body).fontFamily}`;"
        " pen.fillText(letter, 10, 60); return canvas.toDataURL(); })"
    )
    assert drawn[0] != drawn[1]
    lost = stage.start("flows.py:PAYMENT", {"to": "茶行", "amount": 480})
    shown(page.locator(".roll").get_by_text("`bank.pay` 可能已经发生。它发生了吗？"))  # what detent asks by itself
    stage.ask(f"/api/runs/{lost}/contracts/paying/pay/1/answer", {"outcome": "give_up"})
    page.get_by_role("button", name="English").click()
    shown(page.get_by_role("button", name="Approve"))
    page.reload()
    shown(page.get_by_role("button", name="Approve"))  # kept


def test_a_phone_shows_everything_without_scrolling_sideways_and_can_approve(stage: Stage, look: Look) -> None:
    stage.clear()
    run_id = stage.start("flows.py:RELEASE", {"version": "7.0.0", "notes": "x" * 300})
    looker = look(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    own = (
        f"#/runs/{run_id}",
        f"#/runs/{run_id}?tab=waterfall",
        f"#/runs/{run_id}?tab=compare&with={run_id}",
        "#/figures",
    )
    for place in ("#/runs", *own, "#/chat", "#/definitions/expense.yaml", "#/definitions", "#/inbox"):
        page = looker.go(place)
        shown(page.locator("main h1"))
        shown(page.locator(SOMETHING).first)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, place
    page.get_by_role("link", name="Publish 7.0.0 to everybody?").tap()
    page.get_by_role("button", name="Approve").tap()
    until(lambda: stage.status(run_id) == "completed")


LOOKS = [("light", "en-US"), ("dark", "zh-CN"), ("dark", "en-US"), ("light", "zh-CN")]


@pytest.mark.parametrize(("scheme", "locale"), LOOKS if TIMES > 1 else LOOKS[:2])
def test_nothing_stands_in_the_way_of_those_who_use_a_screen_reader_or_large_letters(
    scheme: str, locale: str, stage: Stage, look: Look
) -> None:
    """axe has nothing to say of any view, and at twice the size no view is wider than the window."""
    stage.clear()
    run_id = stage.start("flows.py:RELEASE", {"version": f"8.0.{len(scheme)}", "notes": "axe"})
    stage.start("flows.py:RELEASE", {"version": f"8.1.{len(scheme)}", "notes": "axe"})
    other = stage.start("flows.py:BOOKING")
    asked = stage.ask(f"/api/runs/{run_id}")["waiting"][0]["contract_id"]
    axe = (ROOT / "web" / "node_modules" / "axe-core" / "axe.min.js").read_text()
    looker = look(color_scheme=scheme, locale=locale)
    places = (
        "#/inbox",
        "#/runs",
        f"#/runs/{run_id}",
        f"#/runs/{run_id}?tab=timeline&at=1",
        f"#/runs/{run_id}?tab=contracts",
        f"#/runs/{run_id}?tab=waterfall",
        f"#/runs/{run_id}?tab=compare&with={other}",
        "#/figures",
        "#/chat",
        f"#/chat/{stage.talk(f'Send a mail to axe-{scheme}@example.com saying hello')}",
        f"#/many/{run_id}/{quote(asked, safe='')}",
        "#/definitions",
        "#/definitions/expense.yaml",
        "#/definitions/broken.yaml",
        "#/edit/expense.yaml",
        "#/inbox?group=machine",
        "#/nowhere",
        "#/compare?left=expense-simple.yaml&right=expense.yaml",
    )
    page = looker.go("#/inbox")
    page.evaluate(axe)
    found = []
    for place in places:
        page.evaluate("(place) => { location.hash = place; }", place)
        shown(page.locator(SOMETHING).first)
        page.wait_for_function("() => !document.querySelector('main .skeleton, .dead')")
        result = page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
        found += [f"{place}: {one['id']}: {one['nodes'][0]['html'][:160]}" for one in result["violations"]]
        page.set_viewport_size({"width": 640, "height": 430})  # a window of 1280 at 200 %
        if page.evaluate("document.documentElement.scrollWidth") > 640:
            found.append(f"{place}: wider than the window at 200 %")
        page.set_viewport_size({"width": 1280, "height": 860})
    for name in ("palette", "help", "fork", "many runs"):
        if name == "palette":
            page.keyboard.press("Control+k")
        elif name == "help":
            page.keyboard.press("?")
        elif name == "fork":
            page.evaluate("(place) => { location.hash = place; }", f"#/runs/{run_id}?at=1&fork=1")
        else:
            page.evaluate("() => { location.hash = '#/runs?machine=release'; }")
            page.get_by_role("button", name=re.compile("Act on these…|对这些操作…")).click()
        shown(page.get_by_role("dialog"))
        page.wait_for_function("() => !document.querySelector('.dead')")
        result = page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
        found += [f"{name}: {one['id']}: {one['nodes'][0]['html'][:160]}" for one in result["violations"]]
        page.keyboard.press("Escape")
        gone(page.get_by_role("dialog"))
    assert found == []


def test_a_first_visit_is_light_and_under_a_strict_policy(stage: Stage, look: Look) -> None:
    looker = look()
    sizes: list[int] = []
    texts: list[int] = []  # without the fonts

    def weigh(request: Request) -> None:
        sizes.append(request.sizes()["responseBodySize"])
        if not request.url.endswith(".woff2"):
            texts.append(sizes[-1])

    looker.page.on("requestfinished", weigh)
    answers: list[str] = []
    looker.page.on("response", lambda answer: answers.append(answer.headers.get("content-security-policy", "")))
    page = looker.go(f"#/runs/{stage.start('flows.py:JOURNEY')}")
    shown(page.locator("svg.machine .lit"))
    page.wait_for_load_state("load")
    assert 0 < sum(sizes) < FIRST_LOAD_MAX
    assert sum(texts) < FIRST_TEXTS_MAX
    assert all("default-src 'self'" in policy for policy in answers)


def test_a_token_is_asked_for_kept_in_the_tab_and_used_for_everything(look: Look, tmp_path: Path) -> None:
    stage = Stage(tmp_path, token="0123456789abcdefABCDEF")  # noqa: S106  # of this server only
    try:
        looker = look(stage)
        looker.may_be_refused = True
        page = looker.go("#/inbox")
        shown(page.get_by_role("heading", name="This server wants a token"))
        for token in ("not the token at all", stage.token):
            page.get_by_label("Token").fill(token)
            page.get_by_role("button", name="Go on").click()
        shown(page.get_by_text("Nothing waits for you"))
        run_id = stage.start("expense.yaml", {"what": "keys", "amount": 350})
        shown(page.get_by_role("article", name="Spend 350 on keys?"))  # the stream has the token too
        page.get_by_role("button", name="Approve").click()
        until(lambda: stage.status(run_id) == "completed")
        with page.expect_download() as journal:
            page.goto(f"{stage.address}/#/runs/{run_id}?tab=now")
            page.get_by_role("button", name="Journal").click()
        assert run_id in journal.value.path().read_text()
        link = look(stage).go(f"#token={stage.token}")  # as `detent serve` prints it
        shown(link.get_by_text("Nothing waits for you"))
        assert stage.token not in link.url
        for one in (page, link):
            one.goto("about:blank")
    finally:
        stage.close()


def test_no_address_leads_nowhere(stage: Stage, look: Look) -> None:
    looker = look()
    looker.may_be_refused = True
    page = looker.go("#/nothing/here")
    shown(page.get_by_text("There is no such page"))
    page.goto(f"{stage.address}/#/runs/unknown")
    shown(page.get_by_text("This run cannot be shown"))
    page.goto(f"{stage.address}/#/definitions/unknown.yaml")
    shown(page.get_by_text("This definition cannot be shown"))


def test_every_sentence_has_its_chinese() -> None:
    said: set[str] = set()
    for path in SOURCES.rglob("*.js"):
        said |= set(re.findall(r'\b_\("((?:[^"\\]|\\.)*)"', path.read_text()))
    known = dict(
        re.findall(r'^  "((?:[^"\\]|\\.)*)": "((?:[^"\\]|\\.)*)",$', (SOURCES / "words" / "zh.js").read_text(), re.M)
    )
    assert said - known.keys() == set()
    assert known.keys() - said == set()
    holes = {
        text: meant
        for text, meant in known.items()
        if set(re.findall(r"\{\w+\}", text)) != set(re.findall(r"\{\w+\}", meant))
    }
    assert holes == {}


def test_nothing_from_a_run_can_become_markup() -> None:
    for path in SOURCES.rglob("*.js"):
        text = path.read_text()
        assert not re.search(
            r"dangerouslySetInnerHTML|\.innerHTML\s*=|insertAdjacentHTML|document\.write|\beval\(", text
        ), path
