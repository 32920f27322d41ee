"""The long crash test on PostgreSQL: workers are killed and stopped over irreversible calls; then the ledger is read.

    ./run soak --postgres [--keys 1000] [--faults 50] [--workers 4] [--seed 1]

What is checked is read from the tables and the ledger with plain SQL and hashes, not with the fold: no call was made
twice, every run has ended, no work and no job is left, every chain holds, and every key is claimed.
"""

import argparse
import asyncio
import hashlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import psycopg

from detent.core import Action, Contract, Outcome, effect
from detent.host.postgres import PostgresHost
from detent.host.postgres.connection import Database
from detent.host.postgres.job_queue import STALLED_S
from detent.host.postgres.schema import init
from detent.testing.conformance import one
from tests.postgres import Server, running, why_not

MACHINE = one(
    Action("look", "look", {"key": "{{ context.key }}"}),
    Action("pay", "pay", {"key": "{{ context.key }}"}),
    name="soak",
)
PATIENCE_S = 240.0


def make_effects(ledger: Path) -> list:  # type: ignore[type-arg]
    @effect("look", kind="pure")
    async def look(_: Contract) -> Outcome:
        return Outcome({})

    @effect("pay", kind="irreversible", settle_s=0.5)
    async def pay(contract: Contract) -> Outcome:
        await asyncio.sleep(random.random() * 0.1)
        line = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(line, f"{contract.input['key']}\n".encode())
            os.fsync(line)
        finally:
            os.close(line)
        await asyncio.sleep(random.random() * 0.1)
        return Outcome({"paid": True})

    return [look, pay]


async def work(address: str, folder: Path, ledger: Path) -> None:
    """A worker, until it is killed."""
    async with PostgresHost(Database(address), folder, make_effects(ledger), slots=4) as host:
        await host.recover()
        await asyncio.Event().wait()


class Crowd:
    """The workers of the test, and what is done to them."""

    def __init__(self, address: str, folder: Path, ledger: Path, count: int) -> None:
        self._call = [
            sys.executable,
            "-m",
            "tests.simulation.postgres_soak",
            "--worker",
            address,
            str(folder),
            str(ledger),
        ]
        self.workers = [self._spawn() for _ in range(count)]

    def _spawn(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self._call)

    async def hurt(self, chance: random.Random) -> str:
        """Kill a worker, or stop it for longer than its lease."""
        number = chance.randrange(len(self.workers))
        worker = self.workers[number]
        if chance.random() < 0.7:
            worker.kill()
            worker.wait()
            self.workers[number] = self._spawn()
            return "kill"
        worker.send_signal(signal.SIGSTOP)
        await asyncio.sleep(STALLED_S + 3)
        worker.send_signal(signal.SIGCONT)
        return "stop"

    def end(self) -> None:
        for worker in self.workers:
            worker.kill()
            worker.wait()


async def answer_truthfully(host: PostgresHost, ledger: Path) -> int:
    """Answer what is asked about calls in doubt by what the ledger says; how many runs have not ended."""
    open_runs = [one for one in await host.list(limit=100_000) if not one.status.is_terminal]
    for summary in open_runs:
        for question in summary.waiting:
            key = str((await host.look(summary.run_id)).run.context["key"])
            has_happened = key in ledger.read_text().split()
            said = {"outcome": "happened", "result": {}} if has_happened else {"outcome": "not_happened"}
            try:
                await host.answer(summary.run_id, question.contract_id, {**said, "by": "ann"})
            except Exception as error:  # late evidence was quicker
                print("not taken:", error)
    return len(open_runs)


def check(address: str, ledger: Path, keys: int) -> list[str]:
    """What is wrong, by the tables and the ledger alone."""
    done = Counter(ledger.read_text().split())
    wrong = [f"{key} was done {count} times" for key, count in done.items() if count > 1]
    if len(done) != keys:
        wrong.append(f"{len(done)} of {keys} keys were done")
    with psycopg.connect(address, options="-c search_path=detent") as db:
        for status, count in db.execute("select status, count(*) from runs group by 1"):
            if status != "completed":
                wrong.append(f"{count} runs are {status}")
        for table, expected in (("work", 0), ("procrastinate_jobs", 0), ("claims", keys)):
            (count,) = db.execute(f"select count(*) from {table}").fetchone() or (None,)
            if count != expected:
                wrong.append(f"{table} has {count} rows, not {expected}")
        for no, run_id, head in db.execute("select no, run_id, head from runs").fetchall():
            hashed = hashlib.sha256(run_id.encode()).digest()
            for body, kept in db.execute("select body, hash from events where run = %s order by seq", (no,)):
                hashed = hashlib.sha256(hashed + body).digest()
                if hashed != kept:
                    wrong.append(f"the chain of {run_id} is broken")
            if hashed != head:
                wrong.append(f"the chain of {run_id} does not end at its head")
        (swept,) = db.execute("select value from meta where name = 'swept'").fetchone() or ("",)
        print("swept:", swept)
    return wrong


async def soak(server: Server, keys: int, faults: int, workers: int, seed: int) -> list[str]:
    """One round: begin runs, hurt workers, answer, look."""
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        ledger, address = Path(folder) / "ledger", server.address(server.create())
        ledger.touch()
        database = Database(address)
        init(database)
        crowd = Crowd(address, Path(folder), ledger, workers)
        try:
            host = PostgresHost(database, Path(folder), make_effects(ledger), is_working=False, grace_s=0.0)
            async with host:
                starting = asyncio.create_task(begin_all(host, keys, faults))
                hurt: Counter[str] = Counter()
                for _ in range(faults):
                    await asyncio.sleep(chance.random() * 2)
                    hurt[await crowd.hurt(chance)] += 1
                await starting
                await asyncio.sleep(STALLED_S + 5)  # whoever was taken for dead has handed in what there was
                until = time.monotonic() + PATIENCE_S
                while left := await answer_truthfully(host, ledger):
                    if time.monotonic() > until:
                        break
                    print("left:", left, flush=True)
                    await asyncio.sleep(2)
                await asyncio.sleep(3)
            print("faults:", dict(hurt))
        finally:
            crowd.end()
        return check(address, ledger, keys)


async def begin_all(host: PostgresHost, keys: int, faults: int) -> None:
    """Begin the runs, spread over the time in which workers are hurt."""
    for number in range(keys):
        await host.start(MACHINE, {"key": f"k{number}"}, run_id=f"k{number}")
        await asyncio.sleep(faults * 1.5 / keys)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--worker", nargs=3)
    parser.add_argument("--keys", type=int, default=1000)
    parser.add_argument("--faults", type=int, default=50)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    if given.worker:
        address, folder, ledger = given.worker
        asyncio.run(work(address, Path(folder), Path(ledger)))
        return 0
    if problem := why_not():
        print(problem)
        return 2
    with running() as server:
        wrong = asyncio.run(soak(server, given.keys, given.faults, given.workers, given.seed))
    print("\n".join(wrong[:50]) or "nothing was done twice, nothing is lost, nothing is stuck")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
