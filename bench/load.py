"""A desk under load: 500 streams and 100 signals a second that come whether or not the last one was answered.

A closed loop is kind to a server that is slow: it waits. Here every signal has its planned time, and how old it is
counts from then. `DETENT_LOAD_S` says how long; two minutes by default.
"""

import asyncio
import json
import os
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.engine import folder
from bench.figure import Figure
from bench.server import CONFIG, SWING, Looker, called, served
from detent.host.embedded import EmbeddedHost
from detent.kit.run_index import RunFilter, RunIndex
from detent.surfaces.server.question_index import DeskFilter, QuestionDesk

RUNS, LISTS, PER_SECOND, HANDS = 495, 5, 100, 40
DELIVERY_MS, QUESTIONS, BUILD_S = 250.0, 10_000, 10.0
ASK = """\
name: ask
input: {n: integer}
states:
  ask: {type: initial, actions: [{id: sign, tool: ask, approval: {question: "Number {{ context.n }}?"}}]}
  done: {type: final}
transitions: [{from: ask, to: done}]
"""


class Hand:
    """One connection that sends signals, one after the other."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def signal(self, run_id: str) -> int:
        """Tell a run to go; the status of the answer."""
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        body = json.dumps({"name": "GO"}).encode()
        head = f"POST /api/runs/{run_id}/signals HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        length = next(
            int(line.partition(b":")[2]) for line in answer.split(b"\r\n") if line.lower().startswith(b"content-length")
        )
        await reader.readexactly(length)
        return int(answer.split(b" ", 2)[1])


async def press(address: str, runs: list[str], seconds: float) -> dict[str, Any]:
    """Send signals at their times while everybody looks on."""
    port, loop = int(address.rpartition(":")[2]), asyncio.get_running_loop()
    ages: list[float] = []
    lookers = []
    for path in [*(f"/api/runs/{run_id}/events?after=1" for run_id in runs), *["/api/events"] * LISTS]:
        _, one = await loop.create_connection(lambda path=path: Looker(path, 10**9, ages), "127.0.0.1", port)  # type: ignore[misc]
        lookers.append(one)
    await asyncio.gather(*(one.opened for one in lookers))
    hands: asyncio.Queue[Hand] = asyncio.Queue()
    for _ in range(HANDS):
        hands.put_nowait(Hand(port))
    late: list[float] = []
    statuses: list[int] = []

    async def send(at: float, run_id: str) -> None:
        hand = await hands.get()
        statuses.append(await hand.signal(run_id))
        hands.put_nowait(hand)
        late.append(time.perf_counter() - at)

    begun, count = time.perf_counter(), int(seconds * PER_SECOND)
    async with asyncio.TaskGroup() as tasks:
        for number in range(count):
            at = begun + number / PER_SECOND
            await asyncio.sleep(max(0.0, at - time.perf_counter()))
            tasks.create_task(send(at, runs[number % len(runs)]))
    took = time.perf_counter() - begun
    async with asyncio.timeout(60):
        while sum(len(one.seen) for one in lookers[:RUNS]) < count:  # noqa: ASYNC110  # a figure, no test
            await asyncio.sleep(0.05)
    wrong = sum(one.seen != list(range(2, 2 + len(one.seen))) for one in lookers[:RUNS])
    for one in lookers:
        one.transport.close()
    return {"ages": ages, "late": late, "wrong": wrong, "took": took, "refused": sum(one != 200 for one in statuses)}


def worked_s(pid: int) -> float:
    """What a process has taken of the processors so far: unlike the clock, it says little about who else is at work."""
    taken = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return sum(map(int, taken)) / os.sysconf("SC_CLK_TCK")


def open_loop() -> Iterator[Figure]:
    """500 streams, and signals that do not wait for each other."""
    seconds = float(os.environ.get("DETENT_LOAD_S", "120"))
    with folder() as home:
        (home / "swing.py").write_text(SWING)
        (home / "detent.serve.yaml").write_text(CONFIG)
        pids: list[int] = []
        with served(home, "swing.py:SWING", pids=pids) as address:
            runs = [called(address, "/api/runs", {"definition": "swing"})["run_id"] for _ in range(RUNS)]
            before_s = worked_s(pids[0])
            found = asyncio.run(press(address, runs, seconds))
            cost_ms = (worked_s(pids[0]) - before_s) / len(found["late"]) * 1000
    delivered = statistics.quantiles(found["ages"], n=20)[18] * 1000
    answered = statistics.quantiles(found["late"], n=20)[18] * 1000
    yield Figure(
        "load", "delivery p95", round(delivered, 1), "ms", 0, 0, f"< {DELIVERY_MS:g} ms", delivered < DELIVERY_MS
    )
    yield Figure("load", "answer p95", round(answered, 1), "ms", 0, 0, f"< {DELIVERY_MS:g} ms", answered < DELIVERY_MS)
    yield Figure("load", "streams out of order", found["wrong"], f"of {RUNS}", 0, 0, "= 0", found["wrong"] == 0)
    yield Figure("load", "signals refused", found["refused"], "", 0, 0, "= 0", found["refused"] == 0)
    yield Figure("load", "signals", round(len(found["late"]) / found["took"], 1), "/s", 0, 0, "(for information)", True)
    yield Figure("load", "server CPU a signal", round(cost_ms, 2), "ms", 0, 0, "(for information)", True)


async def ask_many(home: Path) -> dict[str, float]:
    """Ten thousand open questions: how long the desk and the index take to be made, and a page of each."""
    from detent.define import load

    (home / "ask.yaml").write_text(ASK)
    machine = load(str(home / "ask.yaml")).machine
    async with EmbeddedHost(home / ".detent", sync="off") as host:
        for at in range(0, QUESTIONS, 500):
            await asyncio.gather(*(host.start(machine, {"n": at + n}, by="bench") for n in range(500)))
        taken = {}
        desk = QuestionDesk(host.reader)
        index = RunIndex(host.reader, home / ".detent")
        for name, work in (
            ("desk made", lambda: desk.read(DeskFilter())),
            ("desk page", lambda: desk.read(DeskFilter(), offset=5000)),
            ("index made", lambda: index.search(RunFilter(text="4711"))),
            ("index asked", lambda: index.search(RunFilter(text="4711"))),
        ):
            begun = time.perf_counter()
            work()
            taken[name] = time.perf_counter() - begun
        return taken


def questions() -> Iterator[Figure]:
    """Ten thousand of them."""
    with folder() as home:
        for name, seconds in asyncio.run(ask_many(home)).items():
            yield Figure("load", name, round(seconds * 1000, 1), "ms", 0, 0, f"< {BUILD_S:g} s", seconds < BUILD_S)


def load_figures() -> Iterator[Figure]:
    """All of them."""
    yield from questions()
    yield from open_loop()


GROUPS = {"load": load_figures}
