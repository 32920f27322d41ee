"""One walk through the house, counted: approving a mail from the page, until the answer is back.

A fold is a call of `advance`; a call is any call of a Python function, in whatever thread, from the first byte of the
request to the last one of the answer. Neither depends on how fast the machine is.
"""

import asyncio
import http.client
import json
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from bench.figure import Figure
from detent.core.engine import advance

FLOW = """
from detent import Action, Machine, Question, Status, effect, table


@effect("mail.send", settle_s=0.0)
async def send(contract):
    return {"id": 7}


MAIL = Machine(
    "mail",
    "writing",
    table("writing SEND sending\\nsending - done\\nsending !approval_rejected writing"),
    work={"sending": (Action("send", "mail.send", {"to": "{{ context.to }}"}, ask=Question("May I send it?")),)},
    ends={"done": Status.COMPLETED},
)
"""
BEGIN, END = "data_received", "on_response_complete"  # of uvicorn: the first byte came, the last one is on its way
FOLDS_MAX = 2
CALLS_MAX = 1300


class Tally:
    """Counts what Python calls while it is told to; to be set before the threads begin."""

    def __init__(self) -> None:
        self.is_awaited = False  # the request that counts is the next one
        self.is_on = False
        self.folds = 0
        self.calls = 0
        self.own: dict[str, int] = {}  # by function, for whoever wants to know where they are

    def __call__(self, frame: FrameType, what: str, _: Any) -> None:
        """One thing that Python does."""
        code = frame.f_code
        if what != "call" or not (self.is_on or self.is_awaited):
            return
        if self.is_awaited:
            self.is_on = code.co_name == BEGIN
            self.is_awaited = not self.is_on
        elif code.co_name == END:
            self.is_on = False
        if not self.is_on:
            return
        self.calls += 1
        self.folds += code is advance.__code__
        name = f"{code.co_filename.rpartition('/site-packages/')[2]}:{code.co_name}"
        self.own[name] = self.own.get(name, 0) + 1


def asked(at: http.client.HTTPConnection, method: str, path: str, body: Any = None) -> Any:
    """One request of the page, and its answer."""
    content = None if body is None else json.dumps(body)
    at.request(method, path, content, {"Content-Type": "application/json"} if content else {})
    return json.loads(at.getresponse().read())


@contextmanager
def looking_on(address: str, path: str) -> Iterator[None]:
    """A stream that has said something, open while the block goes on."""
    with closing(http.client.HTTPConnection(address)) as at:
        at.request("GET", path)
        with at.getresponse() as stream:
            stream.readline()
            yield


def approve(address: str, tally: Tally) -> None:
    """Open the page of a run that asks, and say yes."""
    with closing(http.client.HTTPConnection(address)) as page:
        begun = asked(page, "POST", "/api/runs", {"definition": "mail", "input": {"to": "kim@example.org"}})
        run = f"/api/runs/{begun['run_id']}"
        asked(page, "POST", f"{run}/signals", {"name": "SEND"})
        with looking_on(address, "/api/events"), looking_on(address, f"{run}/events"):
            (question,) = asked(page, "GET", run)["waiting"]
            said = {"approved": True, "call_hash": question["call_hash"]}
            tally.is_awaited = True
            asked(page, "POST", f"{run}/contracts/{question['contract_id']}/answer", said)


async def walked(folder: Path, tally: Tally) -> None:
    """Serve a folder and walk through it once unseen, so that everything is imported, and once counted."""
    from detent.kit.effect_source import Sources
    from detent.surfaces.server.service import ServePlan, serving
    from detent.surfaces.server.setting import ServerSettings

    (folder / "flow.py").write_text(FLOW)
    plan = ServePlan(folder / ".detent", folder, port=0, definitions=("flow.py:MAIL",), user="kim")
    loop = asyncio.get_running_loop()
    async with Sources(plan.home, print) as sources, serving(plan, ServerSettings(), {}, sources.find) as served:
        for one in (Tally(), tally):
            done: asyncio.Future[None] = loop.create_future()

            def walk(tally: Tally = one, done: "asyncio.Future[None]" = done) -> None:
                sys.setprofile(None)
                try:
                    approve(served.address.removeprefix("http://"), tally)
                finally:
                    loop.call_soon_threadsafe(done.set_result, None)

            threading.Thread(target=walk, daemon=True).start()
            await done


def count() -> Tally:
    """Walk once, and say what it took."""
    tally = Tally()
    threading.setprofile(tally)
    sys.setprofile(tally)
    try:
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(walked(Path(folder), tally))
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return tally


def walk() -> Iterator[Figure]:
    """Folds and calls of one approval, against the most they may be."""
    tally = count()
    for name, value, most in (("folds", tally.folds, FOLDS_MAX), ("calls", tally.calls, CALLS_MAX)):
        yield Figure("walk", name, value, name, most, round(value / most, 2), f"≤ {most}", value <= most)


GROUPS = {"walk": walk}
