"""The engine's figures: pure advance, durable steps, group commit, opening long runs, memory, imports."""

import asyncio
import cProfile
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.figure import Figure, best
from detent import (
    Action,
    Contract,
    Machine,
    Outcome,
    Run,
    Signalled,
    Started,
    Status,
    Transition,
    advance,
    effect,
    table,
)
from detent.host.embedded import EmbeddedHost
from detent.host.embedded.journal import Journal
from detent.host.parts.loaded_run import load

STEP_MAX = 2.2  # of a raw commit into a grown log; 1.8 is what is wished for
STEP_GROWING_MAX = 1.8
CALLS_BEFORE = 142.3  # a step, before hosts had a port (decision 0110)
GROWN_PAGES = 2000  # more than a measurement writes before SQLite's next checkpoint

DOOR = Machine(
    name="door",
    initial="closed",
    transitions=table("""
        closed  OPEN   open
        open    CLOSE  closed
    """),
)


@effect("noop", kind="pure")
async def noop(contract: Contract) -> Outcome:
    """Do nothing, to see what everything around it costs."""
    return Outcome()


def chain(length: int, effect_name: str = "noop") -> Machine:
    """A machine of that many steps."""
    rows = tuple(Transition(f"s{i}", f"s{i + 1}") for i in range(length))
    work = {f"s{i}": (Action("step", effect_name),) for i in range(length)}
    return Machine(name="chain", initial="s0", transitions=rows, work=work, ends={f"s{length}": Status.COMPLETED})


@contextmanager
def folder() -> Iterator[Path]:
    """A folder on the disk this checkout is on, not in memory."""
    with tempfile.TemporaryDirectory(prefix=".bench-", dir=".") as name:
        yield Path(name)


def raw_commits(count: int, *, is_grown: bool = False) -> tuple[float, float]:
    """Seconds of wall and CPU for that many INSERT+COMMIT at the journal's settings.

    Into a log that is grown already: as any SQLite file is after its first thousand pages, and the honest floor. A log
    that grows makes every fsync commit the file system's own journal too, which ours does not (decision 0013).
    """
    with folder() as home:
        db = sqlite3.connect(home / "raw.db", isolation_level=None)
        db.execute("pragma journal_mode = wal")
        db.execute("pragma synchronous = full")
        db.execute("create table events (run integer, seq integer, body blob, primary key (run, seq))")
        body = b"x" * 120
        if is_grown:
            db.execute("insert into events values (0, 0, ?)", (bytes(GROWN_PAGES * 4096),))
            db.execute("pragma wal_checkpoint(restart)")
        wall, cpu = time.perf_counter(), time.process_time()
        for seq in range(count):
            db.execute("begin immediate")
            db.execute("insert into events values (1, ?, ?)", (seq, body))
            db.execute("commit")
        taken = time.perf_counter() - wall, time.process_time() - cpu
        db.close()
    return taken


def pure() -> Iterator[Figure]:
    """(a) advance on a plain signal against a bare dict walk with an appended history tuple."""
    count = 100_000
    rows = {("closed", "OPEN"): "open", ("open", "CLOSE"): "closed"}
    events = ["OPEN", "CLOSE"] * (count // 2)

    def floor() -> None:
        state: str = "closed"
        history: list[tuple[str, str, str]] = []
        for event in events:
            target = rows[state, event]
            history.append((state, event, target))
            state = target

    begun, _, _ = advance(DOOR, Run(id="r"), Started(machine=DOOR.digest, at=1.0))
    signals = [Signalled("OPEN", at=2.0), Signalled("CLOSE", at=3.0)] * (count // 2)

    def ours() -> None:
        run = begun
        history = []
        for event in signals:
            run, _, taken = advance(DOOR, run, event)
            history.append(taken)

    bare, mine = best(floor) / count, best(ours) / count
    rate = 1 / mine
    ratio = mine / bare
    yield Figure(
        "advance", "plain signal", round(rate), "events/s", round(1 / bare), round(ratio, 2), "≤ 6× floor", ratio <= 6
    )


def steps() -> Iterator[Figure]:
    """(b) durable no-op steps of one run, fsync on, against a raw loop of one INSERT+COMMIT a step."""
    length = 300
    machine = chain(length)

    async def ours() -> tuple[float, float]:
        with folder() as home:
            async with EmbeddedHost(home, [noop]) as host:
                await host.settled((await host.start(machine)).id)  # a host that has just opened is not what is asked
                wall, cpu = time.perf_counter(), time.process_time()
                await host.settled((await host.start(machine)).id)
                return time.perf_counter() - wall, time.process_time() - cpu

    rounds = [(raw_commits(length, is_grown=True), raw_commits(length), asyncio.run(ours())) for _ in range(7)]
    (grown, raw_cpu), (growing, _), (wall, cpu) = (
        [min(measured) / length for measured in zip(*column, strict=True)] for column in zip(*rounds, strict=True)
    )
    yield _step("wall, grown log", wall, grown, STEP_MAX)
    yield _step("wall, growing log", wall, growing, STEP_GROWING_MAX)
    yield Figure(
        "steps",
        "one run, CPU",
        round(cpu * 1e3, 4),
        "ms/step",
        round(raw_cpu * 1e3, 4),
        round(cpu / raw_cpu, 2),
        "≤ 0.25 ms",
        cpu <= 0.25e-3,
    )


def _step(name: str, wall: float, raw: float, most: float) -> Figure:
    ratio = wall / raw
    bar = f"≤ {most}× floor"
    return Figure(
        "steps", name, round(wall * 1e6, 1), "µs/step", round(raw * 1e6, 1), round(ratio, 2), bar, ratio <= most
    )


def concurrent() -> Iterator[Figure]:
    """(c) 1,000 runs of 10 steps at once: group commit must beat the raw loop."""
    runs, length = 1000, 10
    machine = chain(length)

    async def ours() -> tuple[float, float]:
        with folder() as home:
            async with EmbeddedHost(home, [noop]) as host:
                await host.settled((await host.start(machine)).id)
                wall, cpu = time.perf_counter(), time.process_time()
                started = await asyncio.gather(*(host.start(machine) for _ in range(runs)))
                await asyncio.gather(*(host.settled(run.id) for run in started))
                return time.perf_counter() - wall, time.process_time() - cpu

    pairs = [(raw_commits(2000)[0] / 2000, asyncio.run(ours())) for _ in range(3)]
    raw = min(raw for raw, _ in pairs)
    wall = min(wall for _, (wall, _) in pairs) / (runs * length)
    cpu = min(cpu for _, (_, cpu) in pairs) / (runs * length)
    gain = raw / wall
    yield Figure(
        "concurrent",
        "throughput",
        round(1 / wall),
        "steps/s",
        round(1 / raw),
        round(gain, 2),
        "≥ 1.5× floor",
        gain >= 1.5,
    )
    yield Figure(
        "concurrent", "CPU", round(cpu * 1e3, 4), "ms/step", 0.1, round(cpu * 1e3 / 0.1, 2), "≤ 0.1 ms", cpu <= 0.1e-3
    )


def counted() -> Iterator[Figure]:
    """Calls of a step of runs that go on at once: the same on any machine, however busy it is."""
    runs, length = 200, 10
    machine, profile = chain(length), cProfile.Profile()

    async def ours() -> None:
        with folder() as home:
            async with EmbeddedHost(home, [noop]) as host:
                await host.settled((await host.start(machine)).id)
                profile.enable()
                started = await asyncio.gather(*(host.start(machine) for _ in range(runs)))
                await asyncio.gather(*(host.settled(run.id) for run in started))
                profile.disable()

    asyncio.run(ours())
    calls = round(sum(row.callcount for row in profile.getstats()) / (runs * length), 1)
    ratio = round(calls / CALLS_BEFORE, 2)
    yield Figure("calls", "a step", calls, "calls", CALLS_BEFORE, ratio, "≤ 1.1× 0.1", ratio <= 1.1)


def opening() -> Iterator[Figure]:
    """(d) opening and advancing a run with 100,000 events against one with 100."""

    async def grow(home: Path, count: int) -> None:
        async with EmbeddedHost(home, [noop], sync="off") as host:
            run = await host.start(DOOR, run_id=f"r{count}")
            for _ in range((count - 2) // 2):
                for name in ("OPEN", "CLOSE"):
                    host.fold(host.load(run.id), Signalled(name, at=1.0))
            await host.signal(run.id, "OPEN")
            await host.settled(run.id)

    def reopen(home: Path, count: int) -> float:
        journal = Journal(home / "journal.db")

        def once() -> None:
            live = load(journal, f"r{count}")
            assert live.run.seq == count
            advance(live.machine, live.run, Signalled("CLOSE", at=2.0))

        taken = best(once, 30)
        journal.close()
        return taken

    with folder() as home:
        asyncio.run(grow(home, 100))
        asyncio.run(grow(home, 100_000))
        short, long = reopen(home, 100), reopen(home, 100_000)
    ratio = long / short
    yield Figure(
        "open",
        "100,000 events",
        round(long * 1e3, 3),
        "ms",
        round(short * 1e3, 3),
        round(ratio, 2),
        "≤ 2× floor",
        ratio <= 2,
    )


def memory() -> Iterator[Figure]:
    """(e) memory of 10,000 waiting runs, in a process of its own."""
    counted = subprocess.run([sys.executable, "-m", "bench.memory"], capture_output=True, text=True, check=True)
    grown = float(counted.stdout)
    yield Figure(
        "memory", "10,000 waiting runs", round(grown, 1), "MB", 100, round(grown / 100, 2), "< 100 MB", grown < 100
    )


def imports() -> Iterator[Figure]:
    """What the front door and the command line cost to open."""
    count = (
        "import sys, msgspec; old = set(sys.modules); from detent import advance; print(len(set(sys.modules) - old))"
    )
    loaded = int(subprocess.run([sys.executable, "-c", count], capture_output=True, text=True, check=True).stdout)
    yield Figure("import", "import detent", loaded, "modules", 60, round(loaded / 60, 2), "≤ 60", loaded <= 60)
    script = Path(sys.executable).parent / "detent"
    if script.exists():
        env = {**os.environ, "NO_COLOR": "1"}

        def run(*argv: str) -> float:
            return best(lambda: subprocess.run(argv, capture_output=True, check=True, env=env), 15)

        floor = run(sys.executable, "-c", "import click")
        ours = run(str(script), "--help")
        ratio = ours / floor
        yield Figure(
            "import",
            "detent --help",
            round(ours * 1e3, 1),
            "ms",
            round(floor * 1e3, 1),
            round(ratio, 2),
            "≤ 2× import click",
            ratio <= 2,
        )


GROUPS = {
    "advance": pure,
    "steps": steps,
    "concurrent": concurrent,
    "calls": counted,
    "open": opening,
    "memory": memory,
    "import": imports,
}
