"""`./run tour [--questions N] [--runs N] [--events N]`: a walk through the page of a busy team, with pictures.

Three people are at it at once: what one decides, the others see on the card they have open. Every view is taken in
the light and in the dark, in English and in Chinese, on a desk and on a phone, into build/tour; what took how long is
told, and whatever is wider than its window, slower than it may be or complained of in the console ends it with 1.
"""

import argparse
import asyncio
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, expect, sync_playwright

from detent.define import load
from detent.effects import builtin
from detent.host.embedded import EmbeddedHost
from tests.effort import PATIENCE_S
from tests.surfaces.server.people import token_of, write_people
from tests.surfaces.server.workflows import SIGN, write_large, write_loop
from tests.web.kit import CHROMIUM, ROOT, Looker, Stage, missing, shown

OUT = ROOT / "build" / "tour"
AT_ONCE = 500
MOMENT_MS = 200.0  # any moment of a long run
MOMENT = """async (seq) => {
  const begun = performance.now();
  const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
  location.hash = `#/runs/wheel?at=${seq}`;
  while (document.querySelector(".card.seen")?.dataset.seq !== String(seq)) await frame();
  await frame();
  return performance.now() - begun; }"""
DESK, PHONE = {"width": 1280, "height": 860}, {"width": 390, "height": 844}

REFUND = """\
name: refund
description: Refunds
input: {customer: string, amount: number, order: string}
attributes: {customer: "{{ context.customer }}", amount: "{{ context.amount }}"}
states:
  check: {type: initial}
  pay:
    actions:
      - id: pay
        tool: files.append
        side_effect: true
        params: {path: paid.txt, text: "{{ context.order }} {{ context.amount }}\\n"}
        approval: {question: "Refund {{ context.amount }} EUR to {{ context.customer }} for order {{ context.order }}?"}
  paid: {type: final}
  refused: {type: error}
transitions:
  - {from: check, to: pay}
  - {from: pay, to: paid}
  - {from: pay, to: refused, on: error}
"""
COUNT = """\
name: count
description: Nightly count
input: {n: integer}
states:
  count: {type: initial}
  done: {type: final}
  broken: {type: error}
transitions:
  - {from: count, to: broken, condition: "{{ context.n % 17 == 0 }}"}
  - {from: count, to: done}
"""
WHEEL = """\
name: wheel
description: A wheel that turns and turns
states: {north: {type: initial}, east: {}, south: {}, west: {}, stopped: {type: final}}
transitions:
  - {from: north, to: east, on: TURN}
  - {from: east, to: south, on: TURN}
  - {from: south, to: west, on: TURN}
  - {from: west, to: north, on: TURN}
  - {from: north, to: stopped, on: STOP}
limits: {max_transitions: 1000000}
"""
LONG = f"""\
name: {"verylongmachinename" * 5}
input: {{word: string}}
states:
  {"averylongstatename" * 5}:
    type: initial
    actions:
      - id: {"averylongactionname" * 5}
        tool: ask
        approval: {{question: "Is {{{{ context.word }}}} right?"}}
  done: {{type: final}}
transitions: [{{from: {"averylongstatename" * 5}, to: done}}]
"""
PARTS = ("fetch", "clean", "join", "train", "check", "ship", "tell", "bill", "audit", "close")

FILES = {
    "refund.yaml": REFUND,
    "count.yaml": COUNT,
    "wheel.yaml": WHEEL,
    "packing.yaml": write_loop(SIGN),
    "long.yaml": LONG,
}


async def fill(folder: Path, questions: int, runs: int, events: int) -> None:
    """Questions, runs that have ended, and one long run."""
    machines = {name: load(str(folder / name)).machine for name in FILES}
    async with EmbeddedHost(folder / ".detent", builtin(), sync="off") as host:
        turning = await host.start(machines["wheel.yaml"], run_id="wheel", by="mira")
        for _ in range(events - turning.seq):
            await host.signal("wheel", "TURN")
        await host.start(machines["long.yaml"], {"word": "unbroken" * 40}, run_id="long", by="mira")
        await host.start(machines["long.yaml"], {"word": "unbroken" * 40}, run_id="asked", by="mira")
        items = [f"crate {n}" for n in range(200)]
        await host.start(machines["packing.yaml"], {"items": items}, run_id="packing", by="mira")
        for at in range(0, questions, AT_ONCE):
            given = [
                {"customer": f"Customer {n % 900} Ltd", "amount": 5 + n % 480, "order": f"A-{100_000 + n}"}
                for n in range(at, min(questions, at + AT_ONCE))
            ]
            await asyncio.gather(*(host.start(machines["refund.yaml"], one, by="mira") for one in given))
        for at in range(0, runs, AT_ONCE):
            many = range(at, min(runs, at + AT_ONCE))
            await asyncio.gather(*(host.start(machines["count.yaml"], {"n": n}, by="cron") for n in many))


class Tour:
    """One server, and those who look at it."""

    def __init__(self, stage: Stage, browser: Browser) -> None:
        self._stage, self._browser = stage, browser
        self.wrong: list[str] = []

    def enter(self, name: str, **options: Any) -> tuple[Looker, Page]:
        """Somebody logs in."""
        looker = Looker(self._browser, self._stage, **options)
        page = looker.go("#/inbox")
        page.locator("input").first.fill(token_of(name))
        page.keyboard.press("Enter")
        shown(page.locator(".rail"))
        return looker, page

    def time(self, what: str, begun: float, most_ms: float = 0.0) -> None:
        """Say how long something took."""
        ms = (time.perf_counter() - begun) * 1000
        print(f"{what}: {ms:,.0f} ms", flush=True)
        if most_ms and ms > most_ms:
            self.wrong.append(f"{what} took {ms:.0f} ms, and may take {most_ms:.0f}")

    def decide_together(self, questions: int) -> None:
        """Ann approves what bob has open and kim may only look at; ann goes on to the next."""
        (ann, hers), (bob, his), (kim, theirs) = (self.enter(name) for name in ("ann", "bob", "kim"))
        begun = time.perf_counter()
        shown(hers.locator("article.question"))
        self.time(f"a card of {questions:,}", begun)
        place = hers.url.partition("/#")[2]
        for page in (his, theirs):
            page.goto(f"{self._stage.address}/#{place}")
            shown(page.locator("article.question"))
        hers.screenshot(path=OUT / "1-ann-before.png")
        theirs.screenshot(path=OUT / "1-kim-may-only-look.png")
        expect(hers.locator(".answering:not(.dead)")).to_have_count(1)
        begun = time.perf_counter()
        hers.locator(".answering .main").click()
        expect(his.locator(".deciding.decided")).to_contain_text("ann approved this")
        self.time("a decision until somebody else sees it", begun)
        his.screenshot(path=OUT / "2-bob-sees-who-decided.png")
        hers.wait_for_function("(was) => location.hash !== `#${was}`", arg=place)
        hers.screenshot(path=OUT / "2-ann-has-the-next.png")
        hers.locator(".roll").evaluate("(box) => box.scrollTo(0, box.scrollHeight)")
        begun = time.perf_counter()
        shown(hers.get_by_text(f"A-{100_000 + questions - 1}"))
        self.time("the end of the list", begun)
        hers.get_by_label("Search the questions").fill("Customer 77 ")
        begun = time.perf_counter()
        expect(hers.locator(".roll li").first).to_contain_text("Customer 77 ")
        self.time("a search among the questions", begun)
        hers.screenshot(path=OUT / "3-ann-searches.png")
        for looker in (ann, bob, kim):
            self.leave(looker)

    def travel(self, events: int) -> None:
        """Through the past of the long run."""
        looker, page = self.enter("ann")
        begun = time.perf_counter()
        page.goto(f"{self._stage.address}/#/runs/wheel")
        shown(page.locator("svg.machine .lit"))
        self.time(f"the first picture of {events:,} events", begun)
        page.screenshot(path=OUT / "4-long-run-at-once.png")
        self.tell_moments("while its way is drawn", page, events, 0.0)
        page.goto(f"{self._stage.address}/#/runs/wheel")
        page.wait_for_function("() => !document.querySelector('.travel .loading')", timeout=PATIENCE_S * 1000)
        self.tell_moments("when it is drawn", page, events, 0.003)
        begun = time.perf_counter()
        for share in (0.2, 0.6):
            self._stage.ask(f"/api/runs/wheel/at/{int(events * share)}")
        self.time("two moments, as the server answers", begun, 2 * MOMENT_MS)
        page.screenshot(path=OUT / "5-long-run-past.png")
        begun = time.perf_counter()
        page.goto(f"{self._stage.address}/#/runs/wheel?tab=waterfall")
        shown(page.locator(".bar-row").first)
        self.time(f"the first bars of {events:,} events", begun)
        page.screenshot(path=OUT / "6-waterfall-at-once.png")
        page.wait_for_function("() => !document.querySelector('.waterfall .loading')", timeout=PATIENCE_S * 1000)
        self.time("all bars", begun)
        page.screenshot(path=OUT / "7-waterfall-whole.png")
        self.leave(looker)

    def tell_moments(self, when: str, page: Page, events: int, by: float) -> None:
        """How long a moment of the past takes from the wish to the paint."""
        taken = [page.evaluate(MOMENT, int(events * (share + by))) for share in (0.5, 0.1, 0.9, 0.33, 0.77, 0.02)]
        median = statistics.median(taken)
        print(f"a moment of the past, {when}: median {median:,.0f} ms, at most {max(taken):,.0f} ms", flush=True)
        if median > MOMENT_MS:
            self.wrong.append(f"a moment {when} took {median:.0f} ms, and may take {MOMENT_MS:.0f}")

    def look_around(self) -> None:
        """Every view, in every look."""
        places = {
            "inbox": "#/inbox", "groups": "#/inbox?group=machine", "runs": "#/runs",
            "found": "#/runs?where=amount%20%3E%20470",
            "wheel": "#/runs/wheel", "timeline": "#/runs/wheel?tab=timeline&at=50000", "packing": "#/runs/packing",
            "long": "#/runs/long", "asked": "#/inbox/asked", "nothing": "#/inbox?text=nowhere",
            "contracts": "#/runs/packing?tab=contracts", "waterfall": "#/runs/packing?tab=waterfall", "chat": "#/chat",
            "definitions": "#/definitions", "large": "#/definitions/large.yaml", "figures": "#/figures",
        }  # fmt: skip
        for options, name in _looks():
            looker, page = self.enter("ann", **options)
            for view, place in places.items():
                page.evaluate("(place) => { location.hash = place; }", place)
                page.wait_for_function("() => document.querySelector('main .card, main .queue, main table')")
                page.wait_for_function(
                    "() => !document.querySelector('main .skeleton, main .stale')", timeout=PATIENCE_S * 1000
                )
                page.wait_for_timeout(300)  # thumbs and fonts; a picture, no test
                page.screenshot(path=OUT / f"{view}-{name}.png")
                width = options["viewport"]["width"]
                if page.evaluate("document.documentElement.scrollWidth") > width:
                    self.wrong.append(f"{view}-{name} is wider than its window")
            self.leave(looker)

    def leave(self, looker: Looker) -> None:
        """Somebody closes the window; what the console said is wrong."""
        looker.may_be_refused = True
        try:
            looker.leave()
        except AssertionError as error:
            self.wrong.append(str(error))


def _looks() -> Iterator[tuple[dict[str, Any], str]]:
    for locale in ("en-US", "zh-CN"):
        for scheme in ("light", "dark"):
            yield {"locale": locale, "color_scheme": scheme, "viewport": DESK}, f"{locale[:2]}-{scheme}-desk"
            phone = {"locale": locale, "color_scheme": scheme, "viewport": PHONE, "has_touch": True, "is_mobile": True}
            yield phone, f"{locale[:2]}-{scheme}-phone"


def main() -> int:
    """Make a home, serve it, walk through it."""
    asked = argparse.ArgumentParser(description=__doc__)
    for name, count in (("questions", 10_000), ("runs", 5_000), ("events", 100_000)):
        asked.add_argument(f"--{name}", type=int, default=count)
    given = asked.parse_args()
    if missing():
        sys.exit(missing())
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    expect.set_options(timeout=PATIENCE_S * 1000)
    with tempfile.TemporaryDirectory(prefix="detent-tour-") as name:
        folder = Path(name)
        for file, text in FILES.items():
            (folder / file).write_text(text)
        begun = time.perf_counter()
        asyncio.run(fill(folder, given.questions, given.runs, given.events))
        print(f"a home of {given.questions:,} questions, {given.runs:,} runs and one of {given.events:,} events: "
              f"{time.perf_counter() - begun:.0f} s", flush=True)  # fmt: skip
        back = [(at, at - 15) for at in range(20, 200, 23)]
        (folder / "large.yaml").write_text(write_large([f"{part}_" for part in PARTS], 20, back))
        (folder / "detent.serve.yaml").write_text("login: {os_user: false}\n")
        write_people(folder / ".detent")
        stage = Stage(folder, token=token_of("opal"))
        try:
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
                tour = Tour(stage, browser)
                tour.decide_together(given.questions)
                tour.travel(given.events)
                tour.look_around()
                browser.close()
        finally:
            stage.close()
    print(f"pictures: {OUT.relative_to(ROOT)} ({len(list(OUT.glob('*.png')))})")
    for one in tour.wrong:
        print(f"WRONG: {one}")
    return bool(tour.wrong)


if __name__ == "__main__":
    sys.exit(main())
