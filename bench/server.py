"""The server's figures: what 500 streams see of 200 runs at work, what 1,000 idle ones cost, how soon a state is lit in
the browser, and the list's first page with 100,000 runs, as an answer and as paint."""

import asyncio
import functools
import json
import re
import resource
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.browser import lit_ms, looking, painted_ms
from bench.engine import folder
from bench.figure import Figure
from detent import Machine, Status, table
from detent.host.embedded import EmbeddedHost

RUNS, RUN_STREAMS, LIST_STREAMS = 200, 400, 100
STATES = 12
DELIVERY_MS = 250.0
LIT_MS = 50.0
IDLE_STREAMS, IDLE_LISTS, IDLE_MB = 1000, 5, 30.0
SETTLED_S = 20.0  # until every stream waits, and has given its first sign of life
DEADLINE_S = 120.0
FLOW = f"""
from detent import Action, Machine, Status, Wait, table

STATES = {STATES}
rows = ["idle GO s0", *(f"s{{n}} - s{{n + 1}}" for n in range(STATES)), f"s{{STATES}} - done"]
NAP = (Action("nap", "wait", wait=Wait(duration_s=0.5)),)
WALK = Machine("walk", "idle", table("\\n".join(rows)), work={{f"s{{n}}": NAP for n in range(STATES + 1)}},
               ends={{"done": Status.COMPLETED}})
"""
CONFIG = "limits: {streams: 2000, connections: 4000, requests_per_second: 100000, requests_burst: 1000000}\n"
_ID = re.compile(rb"^id: (\d+)$", re.MULTILINE)
_AT = re.compile(rb'"at":([0-9.e+]+)')


@contextmanager
def served(home: Path, *argv: str, pids: list[int] | None = None) -> Iterator[str]:
    """`detent serve` as a process of its own; its address."""
    script = str(Path(sys.executable).with_name("detent"))
    process = subprocess.Popen([script, "serve", "--json", "--port", "0", *argv], cwd=home, stdout=subprocess.PIPE)
    if pids is not None:
        pids.append(process.pid)
    try:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["address"]
    finally:
        process.terminate()
        process.wait(20)
        if process.stdout is not None:
            process.stdout.close()


def called(address: str, path: str, body: Any = None) -> Any:
    """One request."""
    content = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address + path, content, {"Content-Type": "application/json"})  # noqa: S310
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
        return json.load(answer)


@functools.lru_cache(512)
def told(part: bytes) -> tuple[list[tuple[str, int]], float]:
    """The events of a message of the list, read once for all who get it, and when the newest of them was."""
    said = json.loads(part[part.index(b"data: ") + 6 :].partition(b"\n")[0])
    return [tuple(one) for one in said["events"]], max(line["updated_at"] for line in said["runs"])


class Looker(asyncio.Protocol):
    """One stream: keeps what came and how old it was when it came."""

    def __init__(self, path: str, total: int, ages: list[float]) -> None:
        self._path, self._total, self._ages = path, total, ages
        self._rest = b""
        self.seen: list[Any] = []
        self.opened = asyncio.get_running_loop().create_future()
        self.done = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        """Ask for the stream."""
        self.transport = transport
        transport.write(f"GET {self._path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())

    def data_received(self, data: bytes) -> None:
        """Take in whole messages."""
        now = time.time()
        if not self.opened.done():
            self.opened.set_result(None)
        *whole, self._rest = (self._rest + data).split(b"\n\n")
        for part in whole:
            if b"event: entry" in part:
                self._took(int(_ID.findall(part)[0]), now - float(_AT.findall(part)[0]))
            elif b"event: runs" in part:
                events, newest = told(part)
                for one in events:
                    self._took(one, now - newest)
        if len(self.seen) >= self._total and not self.done.done():
            self.done.set_result(None)

    def _took(self, what: Any, age: float) -> None:
        self.seen.append(what)
        self._ages.append(age)


async def looked(address: str, runs: list[str]) -> tuple[list[float], int, float]:
    """Open all streams, let the runs go, and wait until everybody has seen everything: ages, faults, seconds."""
    port = int(address.rpartition(":")[2])
    ages: list[float] = []
    events = STATES + 4  # the start, the signal, and one for each nap
    loop = asyncio.get_running_loop()
    lookers: list[tuple[Looker, str]] = []
    for number in range(RUN_STREAMS):
        run_id = runs[number % len(runs)]
        path = f"/api/runs/{run_id}/events?after=1"
        _, one = await loop.create_connection(lambda path=path: Looker(path, events - 2, ages), "127.0.0.1", port)  # type: ignore[misc]
        lookers.append((one, run_id))
    for _ in range(LIST_STREAMS):
        _, one = await loop.create_connection(
            lambda: Looker("/api/events", (events - 2) * len(runs), ages), "127.0.0.1", port
        )
        lookers.append((one, ""))
    await asyncio.gather(*(one.opened for one, _ in lookers))
    begun = time.perf_counter()
    for run_id in runs:
        await asyncio.to_thread(called, address, f"/api/runs/{run_id}/signals", {"name": "GO"})
    async with asyncio.timeout(DEADLINE_S):
        await asyncio.gather(*(one.done for one, _ in lookers))
    took = time.perf_counter() - begun
    wanted = list(range(2, events))
    faults = 0
    for one, run_id in lookers:
        if run_id:
            faults += one.seen != wanted
        else:
            faults += any([seq for of, seq in one.seen if of == run] != wanted for run in runs)
        one.transport.close()
    return ages, faults, took


def streams() -> Iterator[Figure]:
    """500 open streams while 200 runs progress: how old an event is when it arrives, and does each come once?"""
    with folder() as home:
        (home / "flows.py").write_text(FLOW)
        (home / "detent.serve.yaml").write_text(CONFIG)
        with served(home, "flows.py:WALK") as address:
            runs = [called(address, "/api/runs", {"definition": "walk"})["run_id"] for _ in range(RUNS)]
            ages, faults, took = asyncio.run(looked(address, runs))
    p95 = statistics.quantiles(ages, n=20)[18] * 1000
    yield Figure("server", "delivery p95", round(p95, 1), "ms", 0, 0, f"< {DELIVERY_MS:g} ms", p95 < DELIVERY_MS)
    yield Figure("server", "streams at fault", faults, f"of {RUN_STREAMS + LIST_STREAMS}", 0, 0, "= 0", faults == 0)
    rate = len(ages) / took
    yield Figure("server", "messages", round(rate), "/s", 0, 0, "(for information)", True)


IDLE = Machine("idle", "on", table("on STOP off"), ends={"off": Status.COMPLETED})


async def fill(home: Path, count: int) -> None:
    """A journal with so many runs."""
    async with EmbeddedHost(home / ".detent", sync="off") as host:
        for at in range(0, count, 1000):
            await asyncio.gather(*(host.start(IDLE, {"n": at + n}, by="bench") for n in range(1000)))
        for run in (await host.list(limit=count))[::2]:
            await host.signal(run.run_id, "STOP")


def listing() -> Iterator[Figure]:
    """The first page of the list with 1,000 and with 100,000 runs in the journal."""
    taken = {}
    for count in (1_000, 100_000):
        with folder() as home:
            asyncio.run(fill(home, count))
            with served(home) as address, looking() as browser:
                if browser is not None:
                    taken["list painted", count] = painted_ms(browser, address)
                for name, path in (("first page", "/api/runs"), ("waiting page", "/api/runs?status=waiting&top=true")):
                    times = []
                    for _ in range(40):
                        begun = time.perf_counter()
                        assert len(called(address, path)["runs"]) == 50
                        times.append(time.perf_counter() - begun)
                    taken[name, count] = statistics.median(times) * 1000
    for name in dict.fromkeys(name for name, _ in taken):
        small, large = taken[name, 1_000], taken[name, 100_000]
        ratio = large / small
        yield Figure("server", name, round(large, 2), "ms", round(small, 2), round(ratio, 2), "<= 2x", ratio <= 2.0)


SWING = """
from detent import Machine, table

SWING = Machine("swing", "left", table("left GO right\\nright GO left"))
"""


def lights() -> Iterator[Figure]:
    """From an event to the lit state, in the browser."""
    with folder() as home, looking() as browser:
        if browser is None:
            return
        (home / "swing.py").write_text(SWING)
        with served(home, "swing.py:SWING") as address:
            run_id = called(address, "/api/runs", {"definition": "swing"})["run_id"]
            move = functools.partial(called, address, f"/api/runs/{run_id}/signals", {"name": "GO"})
            taken = lit_ms(browser, address, run_id, 30, move)
    yield Figure("server", "lit state", round(taken, 1), "ms", 0, 0, f"< {LIT_MS:g} ms", taken < LIT_MS)


def idle() -> Iterator[Figure]:
    """What a thousand streams on which nothing happens cost in memory, each on a run of its own but for five on the
    list, and whether somebody else is still answered."""
    with folder() as home:
        pids: list[int] = []
        (home / "swing.py").write_text(SWING)
        (home / "detent.serve.yaml").write_text(CONFIG)
        with served(home, "swing.py:SWING", pids=pids) as address:
            host, _, port = address.removeprefix("http://").rpartition(":")
            begin = functools.partial(called, address, "/api/runs", {"definition": "swing"})
            runs = [begin()["run_id"] for _ in range(IDLE_STREAMS - IDLE_LISTS)]
            before = resident(pids[0])
            paths = [*(f"/api/runs/{run_id}/events?after=1" for run_id in runs), *["/api/events"] * IDLE_LISTS]
            streams = [socket.create_connection((host, int(port))) for _ in paths]
            for stream, path in zip(streams, paths, strict=True):
                stream.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            for stream in streams:
                assert stream.recv(15).endswith(b"200 OK")
            time.sleep(SETTLED_S)
            assert called(address, "/api/runs")["runs"]
            cost = (resident(pids[0]) - before) / 1e6
            for stream in streams:
                stream.close()
    yield Figure("server", "1,000 idle streams", round(cost, 1), "MB", 0, 0, f"< {IDLE_MB:g} MB", cost < IDLE_MB)


def resident(pid: int) -> float:
    """What a process holds in memory, in bytes."""
    return float(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize())


def server() -> Iterator[Figure]:
    """All of them."""
    yield from streams()
    yield from lights()
    yield from idle()
    yield from listing()


GROUPS = {"server": server}
