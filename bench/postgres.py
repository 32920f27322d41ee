"""The host on PostgreSQL: against native DBOS and the bare queue library, on one durable server, taking turns.

    ./run bench postgres [throughput | scaling | redelivery | storage | long-run | approval]

The server is started for this, on a disk and with its usual settings. Every contender has two processes for the steps
and a third one that begins them; the clock runs from the word to begin until the tables say that all is done.
"""

import asyncio
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import psycopg

from bench.contender import commit_worker
from bench.contender.detent_worker import make_pay
from bench.engine import DOOR, folder, noop
from bench.figure import Figure
from detent import Action, Question, Signalled
from detent.host.embedded import EmbeddedHost
from detent.host.parts.loaded_run import LoadedRun, load
from detent.host.port import Host
from detent.host.postgres import PostgresHost
from detent.host.postgres.connection import Database
from detent.host.postgres.schema import init
from detent.testing.conformance import one
from tests.agents.coding.fetch import obtained
from tests.postgres import Server, running, why_not

RUNS, LENGTH = 200, 10
ROUNDS = 3
FETCH_S = 600.0
PATIENCE_S = 300.0
DBOS_LEAST, QUEUE_LEAST = 1.2, 0.4
SCALING_LEAST = 2.0
BYTES_MAX = 1536
APPROVALS, APPROVAL_MOST = 100, 3
IDLE_S = commit_worker.IDLE_S  # nobody has had anything to do for so long
REDELIVERED_S, SETTLE_S = 10.0, 1.0  # the latter as `pay` of the contender says
_server: list[Server] = []


def _find_server() -> Server:
    """One server for all parts of a run, stopped at its end."""
    if not _server:
        if problem := why_not():
            raise SystemExit(problem)
        stack = contextlib.ExitStack()
        _server.append(stack.enter_context(running(is_durable=True)))
        import atexit

        atexit.register(stack.close)
    return _server[0]


class Contender(NamedTuple):
    """Who does the steps: how its database is made, its processes, and the question whether all is done."""

    name: str
    prepare: Callable[[str], object]
    work: Callable[[str, int], list[str]]  # the command of the n-th worker
    begin: Callable[[str], list[str]]
    left: str  # SQL: how much is still to be done


@contextlib.contextmanager
def _processes(commands: Sequence[list[str]]) -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that have said that they are ready; killed at the end."""
    started = [
        subprocess.Popen(one, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path.cwd())
        for one in commands
    ]
    try:
        for process in started:
            assert process.stdout is not None
            assert process.stdout.readline().strip() == "ready", process.args
        yield started
    finally:
        for process in started:
            process.kill()
            process.communicate()


def _wait_until_none(address: str, left: str) -> None:
    """Ask the tables until nothing is left."""
    until = time.monotonic() + PATIENCE_S
    with psycopg.connect(address, autocommit=True) as db:
        while (row := db.execute(left).fetchone()) != (0,):
            if time.monotonic() > until:
                raise TimeoutError(f"{row} left: {left}")
            time.sleep(0.02)


def _time(contender: Contender, workers: int = 2) -> float:
    """Seconds for all the steps, in a database of its own."""
    server = _find_server()
    name = server.create()
    address = server.address(name)
    contender.prepare(address)
    with (
        _processes([contender.work(address, number) for number in range(workers)]),
        _processes([contender.begin(address)]) as (beginning,),
    ):
        begun = time.perf_counter()
        assert beginning.stdin is not None
        beginning.stdin.write("\n")
        beginning.stdin.flush()
        assert beginning.wait(PATIENCE_S) == 0
        _wait_until_none(address, contender.left)
        taken = time.perf_counter() - begun
    server.drop(name)
    return taken


def _make_detent(effect_name: str = "noop", runs: int = RUNS, length: int = LENGTH, slots: int = 100) -> Contender:
    program = [sys.executable, "-m", "bench.contender.detent_worker"]
    home = tempfile.mkdtemp(prefix="detent-bench-")
    return Contender(
        "detent",
        _init,
        lambda address, _: [*program, "work", address, home, str(slots)],
        lambda address: [*program, "begin", address, home, str(runs), str(length), effect_name],
        "select count(*) from detent.runs where status <> 'completed'",
    )


def _init(address: str) -> None:
    database = Database(address)
    init(database)
    database.close()


def _make_queue() -> Contender:
    program = [sys.executable, "-m", "bench.contender.queue_worker"]
    return Contender(
        "procrastinate",
        lambda address: subprocess.run([*program, "prepare", address], check=True),
        lambda address, _: [*program, "work", address],
        lambda address: [*program, "begin", address, str(RUNS), str(LENGTH)],
        "select count(*) from procrastinate_jobs",
    )


def _make_dbos() -> Contender:
    program = [obtained("dbos", FETCH_S), str(Path(__file__).parent / "contender" / "dbos_worker.py")]
    return Contender(
        "DBOS",
        lambda _: None,  # its first worker makes the tables
        lambda address, number: [*program, "work", address, f"worker{number}"],
        lambda address: [*program, "begin", address, str(RUNS), str(LENGTH)],
        "select count(*) from dbos.workflow_status where status <> 'SUCCESS'",
    )


def throughput() -> Iterator[Figure]:
    """200 runs of 10 steps with two workers: against DBOS, and against one job for each step."""
    contenders = (_make_detent(), _make_dbos(), _make_queue())
    rounds = [[RUNS * LENGTH / _time(one) for one in contenders] for _ in range(ROUNDS)]
    if os.environ.get("BENCH_ROUNDS"):
        print(rounds, file=sys.stderr)
    for number, least in ((1, DBOS_LEAST), (2, QUEUE_LEAST)):
        ratio = statistics.median(rates[0] / rates[number] for rates in rounds)
        ours, theirs = (statistics.median(rates[place] for rates in rounds) for place in (0, number))
        yield Figure("throughput", f"against {contenders[number].name}", round(ours), "steps/s", round(theirs),
                     round(ratio, 2), f"≥ {least}×", ratio >= least)  # fmt: skip


def scaling() -> Iterator[Figure]:
    """Steps that wait 50 ms, four at once in a worker: three workers against one, taking turns."""
    contender = _make_detent("pause", runs=60, length=5, slots=4)
    rounds = [(_time(contender, 1), _time(contender, 3)) for _ in range(ROUNDS)]
    ratio = statistics.median(one / three for one, three in rounds)
    alone, many = (statistics.median(300 / column for column in taken) for taken in zip(*rounds, strict=True))
    yield Figure("scaling", "3 workers against 1", round(many), "steps/s", round(alone), round(ratio, 2),
                 f"≥ {SCALING_LEAST}×", ratio >= SCALING_LEAST)  # fmt: skip


def redelivery() -> Iterator[Figure]:
    """kill -9 over a call that may have left: when another worker has it in hand, and when the question is asked."""
    server = _find_server()
    name = server.create()
    address = server.address(name)
    _init(address)
    taken, asked = [], []
    with tempfile.TemporaryDirectory() as home, psycopg.connect(address, autocommit=True) as db:
        work = [sys.executable, "-m", "bench.contender.detent_worker", "work", address, home, "4"]
        for number in range(ROUNDS):
            with _processes([work]) as (first,):
                asyncio.run(_begin_paying(address, Path(home), f"r{number}"))
                worker = _await_row(db, f"select worker from detent.work where worker is not null {_OF}", number)
                with _processes([work]):
                    first.kill()
                    begun = time.perf_counter()
                    moved = f"select 1 from detent.work where worker is not null and worker <> {worker} {_OF}"
                    _await_row(db, moved, number)
                    taken.append(time.perf_counter() - begun)
                    _await_row(db, f"select 1 from detent.runs where waiting <> '[]' and run_id = 'r{number}'", number)
                    asked.append(time.perf_counter() - begun - taken[-1])
    server.drop(name)
    yield Figure("redelivery", "after kill -9", round(max(taken), 2), "s", REDELIVERED_S,
                 round(max(taken) / REDELIVERED_S, 2), f"≤ {REDELIVERED_S} s", max(taken) <= REDELIVERED_S)  # fmt: skip
    yield Figure("redelivery", "question after it", round(max(asked), 2), "s", SETTLE_S,
                 round(max(asked) / SETTLE_S, 2), f"≤ {SETTLE_S} s + 0.5 s", max(asked) <= SETTLE_S + 0.5)  # fmt: skip


_OF = "and run in (select no from detent.runs where run_id = %s)"


def _await_row(db: "psycopg.Connection[tuple[int]]", query: str, number: int) -> int:
    until = time.monotonic() + 60
    while (row := db.execute(query, (f"r{number}",) if "%s" in query else ()).fetchone()) is None:
        if time.monotonic() > until:
            raise TimeoutError(query)
        time.sleep(0.01)
    return int(row[0])


async def _begin_paying(address: str, home: Path, run_id: str) -> None:
    machine = one(Action("pay", "pay", {"key": run_id}))
    async with PostgresHost(Database(address), home, [make_pay(home / "ledger")], is_working=False) as host:
        await host.start(machine, run_id=run_id)


def storage() -> Iterator[Figure]:
    """Bytes that a step leaves in the database, with every index and the queue's tables."""
    server, contender = _find_server(), _make_detent(runs=RUNS, length=LENGTH)
    name = server.create()
    address = server.address(name)
    contender.prepare(address)
    size = (
        "select sum(pg_total_relation_size(c.oid))::bigint from pg_class c"
        " join pg_namespace n on n.oid = c.relnamespace where n.nspname = 'detent' and c.relkind = 'r'"
    )
    with psycopg.connect(address, autocommit=True) as db:
        (empty,) = db.execute(size).fetchone() or (0,)
        with _processes([contender.work(address, 0)]), _processes([contender.begin(address)]) as (beginning,):
            beginning.communicate("\n")
            _wait_until_none(address, contender.left)
        (now,) = db.execute(size).fetchone() or (0,)
    server.drop(name)
    each = (now - empty) / (RUNS * LENGTH)
    yield Figure("storage", "of a step", round(each), "bytes", BYTES_MAX, round(each / BYTES_MAX, 2),
                 f"≤ {BYTES_MAX} bytes", each <= BYTES_MAX)  # fmt: skip


def long_run() -> Iterator[Figure]:
    """Opening a run of 100,000 events against one of 100."""
    server = _find_server()
    name = server.create()
    address = server.address(name)
    _init(address)
    with tempfile.TemporaryDirectory() as home:
        taken = asyncio.run(_open_long(address, Path(home)))
    server.drop(name)
    ratio = taken[1] / taken[0]
    yield Figure("long-run", "100,000 events", round(taken[1] * 1e3, 2), "ms", round(taken[0] * 1e3, 2),
                 round(ratio, 2), "≤ 2× of 100", ratio <= 2)  # fmt: skip


async def _tell(host: PostgresHost, live: LoadedRun, events: list[Signalled]) -> None:
    await host.fold(live, lambda _: events)


async def _open_long(address: str, home: Path) -> tuple[float, float]:
    async with PostgresHost(Database(address), home, [], is_working=False, grace_s=0.0) as host:
        for count in (100, 100_000):
            run = await host.start(DOOR, run_id=f"r{count}")
            live = await host.look(run.id)
            told = [Signalled(("OPEN", "CLOSE")[number % 2], at=1.0) for number in range(count - 1)]
            for first in range(0, len(told), 1000):  # many in a transaction: it is about reading them
                await _tell(host, live, told[first : first + 1000])

        def reopen(count: int) -> float:
            begun = time.perf_counter()
            assert load(host.journal, f"r{count}").run.seq == count
            return time.perf_counter() - begun

        rounds = [(reopen(100), reopen(100_000)) for _ in range(40)]
    return min(short for short, _ in rounds), min(long for _, long in rounds)


def approval() -> Iterator[Figure]:
    """From an answer to the end of the step behind it, against the embedded host, taking turns.

    Another process carries out the step, or the one that was told the answer. The floor is what two processes need that
    only tell each other and commit one row each, without anything of ours.
    """
    server = _find_server()
    names = [server.create() for _ in range(3)]
    other, own, bare = (server.address(name) for name in names)
    _init(other)
    _init(own)
    commit_worker.prepare(bare)
    work = [_make_detent().work(other, 0), [sys.executable, "-m", "bench.contender.commit_worker", bare]]
    with folder() as home, _processes(work):
        rounds = asyncio.run(_approve_all((other, own, bare), home.resolve()))
    for name in names:
        server.drop(name)
    elsewhere, here, embedded, floor = (sorted(column)[int(0.95 * APPROVALS)] for column in zip(*rounds, strict=True))
    for label, taken in (("by another process", elsewhere), ("by the same process", here)):
        ratio = taken / embedded
        yield Figure("approval", f"next step {label}, p95", round(taken * 1e3, 2), "ms", round(embedded * 1e3, 2),
                     round(ratio, 2), f"≤ {APPROVAL_MOST}× embedded", ratio <= APPROVAL_MOST)  # fmt: skip
    yield Figure("approval", "two commits and two words, p95", round(floor * 1e3, 2), "ms", round(embedded * 1e3, 2),
                 round(floor / embedded, 2), "none: the floor", True)  # fmt: skip


async def _approve_all(addresses: tuple[str, str, str], home: Path) -> list[tuple[float, float, float, float]]:
    other, own, bare = addresses
    async with (
        PostgresHost(Database(other), home / "front", [noop], is_working=False, grace_s=0.0) as front,
        PostgresHost(Database(own), home / "alone", [noop], grace_s=0.0) as alone,
        EmbeddedHost(home / "embedded", [noop]) as embedded,
    ):
        alone.work()
        await alone.queue.ready()
        with commit_worker.Front(bare) as floor:
            return [
                (await _approve(front), await _approve(alone), await _approve(embedded), floor.ask(number))
                for number in range(APPROVALS)
            ]


async def _approve(host: Host) -> float:
    """One answer, and how long it takes until the step behind it is done."""
    run = await host.start(ASKING)
    waiting = run.waiting[0].id
    done = asyncio.Event()

    async def look() -> None:
        async for entry in host.watch(run.id):
            if entry.run.ended is not None:
                done.set()
                return

    watching = asyncio.create_task(look())
    await asyncio.sleep(IDLE_S)  # whoever looks has begun to
    begun = time.perf_counter()
    await host.answer(run.id, waiting, {"approved": True})
    await done.wait()
    taken = time.perf_counter() - begun
    await watching
    return taken


ASKING = one(Action("step", "noop", ask=Question("Go on?")))
GROUPS = {
    "throughput": throughput,
    "scaling": scaling,
    "redelivery": redelivery,
    "storage": storage,
    "long-run": long_run,
    "approval": approval,
}
