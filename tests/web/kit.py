"""A real server in a project of its own, and a real browser looking at it; both are told what went wrong on the way."""

import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Locator, Page, TimeoutError, expect

from detent.surfaces.server.request_gate import is_guarded
from tests.effort import PATIENCE_S

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
DETENT = Path(sys.executable).parent / "detent"
FLOWS = ("RELEASE", "JOURNEY", "PAYMENT", "ORDER", "DEPLOY", "BOOKING", "WEATHER", "STATIONS", "NOTEBOOK", "ASSISTANT")
# The headless shell is the same engine without a browser's windows, at half of the cost.
CHROMIUM = next(filter(None, map(shutil.which, ("chromium-headless-shell", "chromium", "chromium-browser"))), "")

# What the page says and takes away again after a moment is written down, for a machine may be busy in that moment.
HEARD = """
() => { if (!window.heard) { window.heard = [];
new MutationObserver((changes) => {
  for (const node of changes.flatMap((change) => [...change.addedNodes]))
    for (const one of node.querySelectorAll ? [node, ...node.querySelectorAll("*")] : [])
      if (one.matches(".toast")) window.heard.push(one.textContent);
}).observe(document, {childList: true, subtree: true}); } }
"""


# What belongs to an agent is begun by it, and not over the API: this stands for one.
BEGIN = """
import asyncio, json, sys
import detent
from detent.define import load
agent, definition, given = sys.argv[1:]
async def main():
    async with detent.open() as host:
        source = f"agent:{agent} {definition}"
        print((await host.start(load(definition).machine, json.loads(given), by="mira", source=source)).id)
asyncio.run(main())
"""


@functools.cache
def missing() -> str:
    """Why no browser test can run here; empty when they can."""
    if not CHROMIUM:
        return "no chromium on the PATH: `./run browser`, as root, installs what browser tests need"
    if not (ROOT / "web" / "dist" / "index.html").is_file():
        return "the page is not built: ./run web"
    driver = subprocess.run(
        [sys.executable, "-m", "playwright", "--version"], capture_output=True, text=True, check=False
    )
    if driver.returncode:
        why = driver.stderr.strip().splitlines() or ["it says nothing"]
        return f"playwright's driver does not start ({why[-1]}): `./run browser`, as root, installs what it needs"
    return ""


class Stage:
    """A project folder with machines, and `detent serve` in it."""

    def __init__(self, folder: Path, *, token: str = "", **more: str) -> None:
        self.folder, self.token, self.more = folder, token, more
        shutil.copytree(HERE / "stage", folder, dirs_exist_ok=True)
        self.port = 0
        self.address = ""
        self.process: subprocess.Popen[str] | None = None
        self.open()

    @property
    def environment(self) -> dict[str, str]:
        """What the server, and a command beside it, find around them."""
        own = {"DETENT_LANG": "en", "DETENT_HOME": str(self.folder / ".detent"), "USER": "tester"}
        return {**os.environ, **own, "DETENT_MODEL": "builtin:rules", "DETENT_TOOLS": "tools.py", **self.more}

    def open(self) -> None:
        """Serve, on the same port as before."""
        files = [f"flows.py:{name}" for name in FLOWS]
        command = [str(DETENT), "serve", "--json", "--port", str(self.port), *files]
        if self.token:
            (self.folder / "token").write_text(self.token)
            command += ["--token-file", "token"]
        self.process = subprocess.Popen(
            command, cwd=self.folder, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self.process.stdout is not None
        told = json.loads(self.process.stdout.readline())
        self.address = told["address"]
        self.port = int(self.address.rpartition(":")[2])

    def close(self) -> None:
        """Stop serving."""
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            self.process.communicate(timeout=PATIENCE_S)
            self.process = None

    def ask(self, path: str, body: Any = None) -> Any:
        """One call of the API."""
        content = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        if content:
            headers["Content-Type"] = "application/json"
        request = urllib.request.Request(f"{self.address}{path}", content, headers)  # noqa: S310  # our own server
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:  # noqa: S310
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{path}: {error.code} {error.read().decode()}") from None

    def start(self, definition: str, given: dict[str, Any] | None = None, by: str = "mira") -> str:
        """Begin a run and wait until it waits or has ended."""
        run_id = str(self.ask("/api/runs", {"definition": definition, "input": given or {}, "by": by})["run_id"])
        until(lambda: self.status(run_id) != "running")
        return run_id

    def start_as(self, agent: str, definition: str, given: dict[str, Any] | None = None) -> str:
        """Begin a run that belongs to an agent, and wait until it waits or has ended."""
        words = [sys.executable, "-c", BEGIN, agent, definition, json.dumps(given or {})]
        done = subprocess.run(words, cwd=self.folder, capture_output=True, text=True, check=True)
        run_id = done.stdout.strip()
        until(lambda: self.status(run_id) != "running")
        return run_id

    def status(self, run_id: str) -> str:
        """What has become of a run."""
        return str(self.ask(f"/api/runs/{run_id}")["status"])

    def tell(self, run_id: str, name: str, data: dict[str, Any] | None = None) -> None:
        """Send a signal."""
        self.ask(f"/api/runs/{run_id}/signals", {"name": name, "data": data or {}})

    def talk(self, message: str) -> str:
        """Say something to the assistant in a conversation of its own, and wait until it waits or has ended."""
        content = json.dumps({"message": message}).encode()
        request = urllib.request.Request(  # noqa: S310  # our own server
            f"{self.address}/chat", content, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:  # noqa: S310
            told = answer.read().decode()
        return str(json.loads(told.partition("data: ")[2].partition("\n")[0])["session_id"])

    def clear(self) -> None:
        """Nothing waits for anybody any more."""
        while runs := self.ask("/api/runs?status=waiting&status=running&limit=200")["runs"]:
            for line in runs:
                with suppress(AssertionError):  # it has ended by itself
                    self.ask(f"/api/runs/{line['run_id']}/cancel", {"reason": "swept"})
        until(lambda: not self.ask("/api/inbox")["items"])


def until(check: Callable[[], bool]) -> None:
    """Wait for something that is asked of the server."""
    end = time.monotonic() + PATIENCE_S
    while not check():
        assert time.monotonic() < end, "it did not come to that in time"
        time.sleep(0.03)


class Looker:
    """Somebody in front of a browser, and everything that browser complained about."""

    def __init__(self, browser: Browser, stage: Stage, **options: Any) -> None:
        # Without a graphics card an endless animation takes a whole core: those who look at motion ask for it.
        still = {"viewport": {"width": 1280, "height": 860}, "locale": "en-US", "reduced_motion": "reduce"}
        given = {**still, **options}
        self.stage = stage
        self.context: BrowserContext = browser.new_context(**given)
        self.context.set_default_timeout(PATIENCE_S * 1000)
        self.page: Page = self.context.new_page()
        self.complaints: list[str] = []
        self.unanswered: list[tuple[str, str]] = []  # complaints about requests, with where they went to
        self.failed: set[str] = set()  # where requests went to that nobody answered
        self.requests: list[str] = []
        self.may_be_refused = False  # whether this looker's requests may fail: the browser then complains of them
        self.page.on("console", self._hear)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("requestfailed", lambda request: self.failed.add(request.url))
        self.page.on("request", lambda request: self.requests.append(request.url))

    def _hear(self, said: ConsoleMessage) -> None:
        # Of a request that failed the browser says where it went to; of all else, which of our files is to blame.
        is_request = is_guarded(urlsplit(said.location["url"]).path)
        if said.type == "error" and not self.may_be_refused:
            self.complaints.append(f"{said.text} {said.location.get('url')}")
        elif said.type == "error" and not is_request:  # one of our own files, which nobody was there to give
            self.unanswered.append((said.location["url"], said.text))

    def go(self, place: str) -> Page:
        """Open a place of the page."""
        self.page.goto(f"{self.stage.address}/{place}")
        self.page.evaluate(HEARD)  # not as a script of every document: frames that may run nothing would complain of it
        return self.page

    def leave(self) -> None:
        """Close the browser window; nothing bad may have been heard."""
        self.context.close()
        mine = (self.stage.address, "data:", "blob:")
        assert [url for url in self.requests if not url.startswith(mine)] == [], "the page asked somebody else"
        self.complaints += [f"{text} {url}" for url, text in self.unanswered if url not in self.failed]
        assert self.complaints == [], f"the console shows errors: {self.complaints}"


def shown(place: Locator) -> Locator:
    """A part of the page, once it can be seen."""
    expect(place).to_be_visible(timeout=PATIENCE_S * 1000)
    return place


def told(page: Page, text: str) -> str:
    """What the page has said for a moment, once it has; whole."""
    page.wait_for_function("(text) => window.heard.some((one) => one.includes(text))", arg=text)
    return next(str(one) for one in page.evaluate("window.heard") if text in one)


def press(button: Locator) -> None:
    """Press until it is taken: what has just come, changed or moved takes no decision for a moment."""
    while button.count():
        with suppress(TimeoutError):
            button.click(timeout=1000)
        button.page.wait_for_timeout(500)  # a press in vain makes it last longer


def gone(place: Locator) -> None:
    """A part of the page has gone away."""
    expect(place).to_have_count(0, timeout=PATIENCE_S * 1000)
