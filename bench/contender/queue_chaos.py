"""Bare queue libraries under chaos, without anything of ours: what do they lose, hand out twice, and when again?

    PYTHON -m bench.contender.queue_chaos drive pgqueuer|procrastinate [SEED]

PYTHON has both libraries: `pip install pgqueuer asyncpg procrastinate "psycopg[binary,pool]"`. A job is a pointer, as
it is in our host: it writes a line when it begins and one when it is done. Some pointers are in the queue twice.
"""

import asyncio
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.postgres import Server, running
from tests.simulation.cutting_proxy import CuttingProxy

JOBS, TWICE, WORKERS, SLOTS = 1000, 20, 4, 4
KILLS, STOPS, CUTS, SILENCES, OUTAGES = 32, 20, 10, 4, 3
STOPPED_S, TIMEOUT_S = 11.0, 8.0
QUIET_S = 60.0  # with nobody disturbed for so long, what is not done is stuck
PGQUEUER, PROCRASTINATE = "pgqueuer", "procrastinate"


def note(ledger: str, word: str, number: int) -> None:
    """Write a line that is there whatever becomes of the process."""
    with Path(ledger).open("a", encoding="ascii") as lines:
        lines.write(f"{time.monotonic():.3f} {word} {number} {os.getpid()}\n")


async def work_on(ledger: str, number: int) -> None:
    """A job."""
    note(ledger, "begin", number)
    await asyncio.sleep(1.0 + 1.5 * random.Random(number).random())
    note(ledger, "done", number)


async def work_pgqueuer(address: str, ledger: str) -> None:
    import asyncpg
    from pgqueuer.db import AsyncpgDriver
    from pgqueuer.qm import QueueManager
    from pgqueuer.queries import Queries

    manager = QueueManager(Queries(AsyncpgDriver(await asyncpg.connect(address))))

    @manager.entrypoint("job")
    async def job(given: Any) -> None:
        await work_on(ledger, int(given.payload))

    await manager.run(
        dequeue_timeout=timedelta(seconds=2), batch_size=SLOTS // 2, max_concurrent_tasks=SLOTS,
        heartbeat_timeout=timedelta(seconds=TIMEOUT_S),
    )  # fmt: skip


def make_app(address: str) -> Any:
    import procrastinate

    return procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=address, min_size=1, max_size=4))


async def work_procrastinate(address: str, ledger: str) -> None:
    app = make_app(address)

    @app.task(name="job")
    async def job(number: int) -> None:
        await work_on(ledger, number)

    async def put_back() -> None:  # the recipe of its documentation
        while True:
            await asyncio.sleep(2)
            with suppress(Exception):
                for stalled in await app.job_manager.get_stalled_jobs(seconds_since_heartbeat=TIMEOUT_S):
                    await app.job_manager.retry_job(stalled)

    async with app.open_async():
        putting_back = asyncio.create_task(put_back())
        await app.run_worker_async(
            concurrency=SLOTS, delete_jobs="always", install_signal_handlers=False, fetch_job_polling_interval=2,
            update_heartbeat_interval=2, stalled_worker_timeout=10 * TIMEOUT_S,
        )  # fmt: skip
        putting_back.cancel()


async def put_in(name: str, address: str) -> None:
    """Make the tables and put the jobs into the queue."""
    numbers = [*range(JOBS), *range(TWICE)]
    if name == PGQUEUER:
        import asyncpg
        from pgqueuer.db import AsyncpgDriver
        from pgqueuer.queries import Queries

        queries = Queries(AsyncpgDriver(await asyncpg.connect(address)))
        await queries.install()
        await queries.enqueue(["job"] * len(numbers), [str(one).encode() for one in numbers], [0] * len(numbers))
        return
    app = make_app(address)
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        await app.configure_task("job", allow_unknown=True).batch_defer_async(*({"number": one} for one in numbers))


LEFT = {
    PGQUEUER: "select count(*) from pgqueuer",
    PROCRASTINATE: "select count(*) from procrastinate_jobs where status in ('todo', 'doing')",
}


class Chaos:
    """Workers behind proxies, and what happens to them."""

    def __init__(self, name: str, seed: int, server: Server, ledger: Path) -> None:
        self.name, self.server, self.ledger, self.random = name, server, ledger, random.Random(seed)
        self.database = server.create()
        self.workers: list[subprocess.Popen[bytes]] = []
        self.proxies: list[CuttingProxy] = []
        self.killed: dict[int, float] = {}  # when, by process
        self.stopped: dict[int, list[tuple[float, float]]] = defaultdict(list)
        self.ended = 0  # workers that ended by themselves
        self.done: Counter[str] = Counter()
        self.is_over = False

    def _start(self, place: int) -> subprocess.Popen[bytes]:
        address = f"postgresql://postgres@127.0.0.1:{self.proxies[place].port}/{self.database}"
        command = [sys.executable, "-m", "bench.contender.queue_chaos", "work", self.name, address, str(self.ledger)]
        log = self.ledger.with_suffix(".log").open("ab")
        plain = {"PGSSLMODE": "disable", "PGGSSENCMODE": "disable"}  # the proxy reads what is said
        return subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, **plain})

    async def keep(self) -> None:
        """Start again whatever has ended."""
        while not self.is_over:
            for place, worker in enumerate(self.workers):
                if worker.poll() is not None:
                    self.ended += worker.pid not in self.killed
                    self.workers[place] = self._start(place)
            await asyncio.sleep(0.5)

    async def stop(self, worker: subprocess.Popen[bytes]) -> None:
        begun = time.monotonic()
        worker.send_signal(signal.SIGSTOP)
        await asyncio.sleep(STOPPED_S)
        worker.send_signal(signal.SIGCONT)
        self.stopped[worker.pid].append((begun, time.monotonic()))

    async def disturb(self) -> None:
        """Everything in a mixed order."""
        faults = ["kill"] * KILLS + ["stop"] * STOPS + ["cut"] * CUTS + ["silence"] * SILENCES + ["outage"] * OUTAGES
        self.random.shuffle(faults)
        going: list[asyncio.Task[None]] = []
        for fault in faults:
            await asyncio.sleep(1.0 + 2.0 * self.random.random())
            place = self.random.randrange(WORKERS)
            worker, proxy = self.workers[place], self.proxies[place]
            self.done[fault] += 1
            if fault == "kill":
                self.killed[worker.pid] = time.monotonic()
                worker.kill()
            elif fault == "stop":
                going.append(asyncio.create_task(self.stop(worker)))
            elif fault == "cut":
                for writer in tuple(proxy._writers):
                    writer.transport.abort()
            elif fault == "silence":
                going.append(asyncio.create_task(proxy.fall_silent(is_cut=self.random.random() < 0.5)))
            else:
                await asyncio.to_thread(self.server.stop, "immediate")
                await asyncio.to_thread(self.server.start, is_durable=True)
        await asyncio.gather(*going)

    def count_left(self) -> int:
        import psycopg

        with psycopg.connect(self.server.address(self.database), autocommit=True) as db:
            row = db.execute(LEFT[self.name]).fetchone()
        return row[0] if row else 0

    async def drive(self) -> None:
        await put_in(self.name, self.server.address(self.database))
        for _ in range(WORKERS):
            proxy = CuttingProxy(self.server.port)
            await proxy.start()
            self.proxies.append(proxy)
        self.workers = [self._start(place) for place in range(WORKERS)]
        keeping = asyncio.create_task(self.keep())
        begun = time.monotonic()
        await self.disturb()
        disturbed_s = time.monotonic() - begun
        until = time.monotonic() + QUIET_S
        left = previous = await asyncio.to_thread(self.count_left)
        while left and time.monotonic() < until:
            await asyncio.sleep(1)
            left = await asyncio.to_thread(self.count_left)
            if left != previous:
                previous, until = left, time.monotonic() + QUIET_S
        taken_s = time.monotonic() - begun
        self.is_over = True
        await keeping
        for worker in self.workers:
            worker.kill()
            worker.wait()
        for proxy in self.proxies:
            await proxy.close()
        self.tell(left, disturbed_s, taken_s)

    def tell(self, left: int, disturbed_s: float, taken_s: float) -> None:
        """Read the ledger, and say what came of it."""
        begun: dict[int, list[tuple[float, int]]] = defaultdict(list)
        done: dict[int, list[tuple[float, int]]] = defaultdict(list)
        for line in self.ledger.read_text().splitlines():
            said_at, word, said, process = line.split()
            (begun if word == "begin" else done)[int(said)].append((float(said_at), int(process)))
        again: list[float] = []
        explained = alive = 0
        for number, deliveries in begun.items():
            finished = {pid: at for at, pid in done[number]}
            extra = deliveries[2:] if number < TWICE else deliveries[1:]
            for at, _ in extra:
                before = [one for one in deliveries if one[0] < at]
                last_pid = before[-1][1]
                killed_at = self.killed.get(last_pid)
                if killed_at is not None and killed_at <= at and finished.get(last_pid, at + 1) > killed_at:
                    again.append(at - killed_at)
                    explained += 1
                elif not any(first <= at <= last + 1 for first, last in self.stopped.get(last_pid, ())):
                    alive += finished.get(last_pid, at + 1) > at
        lost = [number for number in range(JOBS) if not done[number]]
        twice = sum(len(done[number]) > (2 if number < TWICE else 1) for number in range(JOBS))
        print(f"{self.name}: {dict(self.done)} in {disturbed_s:.0f} s, all over after {taken_s:.0f} s")
        print(f"  jobs never done {len(lost)}, left in the queue {left}, done more often than asked {twice}")
        extra_count = sum(len(one) - 1 - (number < TWICE) for number, one in begun.items())
        print(f"  handed out again {extra_count}, of these after a kill {explained}")
        print(f"  handed out beside one that was neither dead nor stopped (it may have been cut off) {alive}")
        if again:
            again.sort()
            print(f"  after a kill: median {statistics.median(again):.1f} s, longest {again[-1]:.1f} s")
        print(f"  workers that ended by themselves {self.ended}")


def main() -> None:
    word, name, *given = sys.argv[1:]
    if word == "work":
        asyncio.run((work_pgqueuer if name == PGQUEUER else work_procrastinate)(*given))
        return
    with tempfile.TemporaryDirectory() as folder, running(is_durable=True) as server:
        asyncio.run(Chaos(name, int(given[0]) if given else 1, server, Path(folder) / "ledger").drive())


if __name__ == "__main__":
    main()
