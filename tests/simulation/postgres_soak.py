"""The long crash test on PostgreSQL: everything that can go wrong, at once; then the tables and the ledger are read.

    ./run soak --postgres [--keys 1000] [--faults 52] [--workers 4] [--seed 1]
    ./run soak --postgres --load 10    ten minutes of full load without a fault: nobody may be taken for dead

Workers are killed and stopped, their clocks are off, their connections fall silent and are cut at a commit, the
database is killed and started again, jobs are handed out twice, two runs want two keys in opposite order, children end
before their parents wait for them, and runs are cancelled while they begin. Afterwards questions are answered by what
the ledger says. `postgres_check.py` judges, without our fold.
"""

import argparse
import asyncio
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import psycopg

from detent.core import Action, Branch, Contract, Effect, Machine, Outcome, effect
from detent.errors import DetentError, JournalError, Unknown
from detent.host.postgres import PostgresHost
from detent.host.postgres.connection import Database
from detent.host.postgres.job_queue import STALLED_S
from detent.host.postgres.schema import init
from detent.testing.conformance import one, parent_of
from tests.postgres import Server, running, why_not
from tests.simulation.cutting_proxy import CuttingProxy
from tests.simulation.postgres_check import check, check_chains

PAY = Action("pay", "pay", {"key": "{{ context.amount }}"})
PAYING = one(Action("look", "look", {"key": "{{ context.amount }}"}), PAY, name="soak")
LOOKING = one(Action("look", "look", {"key": "{{ context.amount }}"}), name="quick")
PATIENCE_S = 300.0
SKEWS_S = (0, 3600, -7200, 90)
AGAIN = (
    "select procrastinate_defer_jobs_v1(array_agg((queue_name, task_name, 0, null, null, args, null)"
    "::procrastinate_job_to_defer_v1)) from (select * from procrastinate_jobs where task_name = 'perform'"
    " order by random() limit 3) jobs having count(*) > 0"
)
HAND_BACK = (
    "update procrastinate_jobs set status = 'todo' where id in"
    " (select id from procrastinate_jobs where status = 'doing' order by random() limit 2 for update skip locked)"
)


def make_effects(ledger: Path) -> list[Effect]:
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


def make_pair(first: str, second: str) -> Machine:
    """Two deeds at once, whose keys are taken in this order; another run may have done them."""
    lines = [
        Branch(f"b{n}", (Action("pay", "pay", {"key": key}, on_repeat="refuse"),))
        for n, key in enumerate((first, second))
    ]
    return one(Action("both", "branches", branches=tuple(lines)), name="pair")


async def work(address: str, folder: Path, ledger: Path, slots: int) -> None:
    """A worker, until it is killed."""
    async with PostgresHost(Database(address), folder, make_effects(ledger), slots=slots) as host:
        await host.recover()
        await asyncio.Event().wait()


def build_skew(folder: Path) -> str:
    """The library that puts a worker's clock off; empty where it cannot be built."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None or not sys.platform.startswith("linux"):
        print("no compiler: all clocks are right")
        return ""
    made = folder / "skew.so"
    source = Path(__file__).with_name("skew.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", made, source, "-ldl"], check=True)
    return str(made)


class Crowd:
    """The workers of the test, each with a way to the database of its own, and what is done to them."""

    def __init__(self, folder: Path, ledger: Path, skew: str, slots: int = 4) -> None:
        self._folder, self._ledger, self._skew, self._slots = folder, ledger, skew, slots
        self.proxies: list[CuttingProxy] = []
        self.workers: list[subprocess.Popen[bytes]] = []
        self._addresses: list[str] = []
        self._hurt: set[int] = set()  # who is stopped or cut off just now
        self._healing: set[asyncio.Task[None]] = set()

    async def start(self, server: Server, database: str, count: int) -> None:
        for number in range(count):
            proxy = CuttingProxy(server.port)
            await proxy.start()
            self.proxies.append(proxy)
            address = server.address(database).replace(f":{server.port}", f":{proxy.port}")
            self._addresses.append(f"{address}?sslmode=disable&gssencmode=disable")
            self.workers.append(self._spawn(number))

    def _spawn(self, number: int) -> subprocess.Popen[bytes]:
        env = dict(os.environ)
        if self._skew:
            env |= {"LD_PRELOAD": self._skew, "SKEW_S": str(SKEWS_S[number % len(SKEWS_S)])}
        given = [self._addresses[number], str(self._folder), str(self._ledger), str(self._slots)]
        return subprocess.Popen(
            [sys.executable, "-m", "tests.simulation.postgres_soak", "--worker", *given],
            env=env,
            stderr=(self._folder / "workers").open("ab"),
        )

    def kill(self, chance: random.Random) -> str:
        number = chance.randrange(len(self.workers))
        self.workers[number].kill()
        self.workers[number].wait()
        self.workers[number] = self._spawn(number)
        return "kill -9"

    def stop(self, chance: random.Random) -> str:
        """Stop a worker for longer than its lease."""
        return "SIGSTOP" if self._hurt_one(chance, self._stop) else ""

    def part(self, chance: random.Random) -> str:
        """Let a worker's connections fall silent for longer than its lease."""
        return "partition" if self._hurt_one(chance, self._part) else ""

    def cut(self, chance: random.Random) -> None:
        """Cut the next commits of a worker."""
        chance.choice(self.proxies).cuts += [True, False]

    def _hurt_one(self, chance: random.Random, how: Callable[[int], Coroutine[Any, Any, None]]) -> bool:
        well = [number for number in range(len(self.workers)) if number not in self._hurt]
        if len(well) < 2:  # somebody has to go on
            return False
        number = chance.choice(well)
        self._hurt.add(number)
        task = asyncio.create_task(how(number))
        self._healing.add(task)
        task.add_done_callback(self._healing.discard)
        task.add_done_callback(lambda _: self._hurt.discard(number))
        return True

    async def _stop(self, number: int) -> None:
        worker = self.workers[number]
        worker.send_signal(signal.SIGSTOP)
        await asyncio.sleep(STALLED_S + 3)
        worker.send_signal(signal.SIGCONT)

    async def _part(self, number: int) -> None:
        await self.proxies[number].fall_silent(is_cut=bool(random.getrandbits(1)))

    async def heal(self) -> None:
        for proxy in self.proxies:
            proxy.cuts.clear()
        await asyncio.gather(*self._healing)

    async def end(self) -> None:
        for worker in self.workers:
            worker.kill()
            worker.wait()
        for proxy in self.proxies:
            await proxy.close()


class Chaos:
    """What is done to the workers, the database and the queue, one after the other."""

    def __init__(self, server: Server, database: str, crowd: Crowd, seed: int) -> None:
        self._server, self._crowd, self.chance = server, crowd, random.Random(seed)
        self._address = server.address(database)
        self.done: Counter[str] = Counter()

    async def run(self, faults: int) -> None:
        """So many kills and stops, and all the rest between them."""
        turn = 0
        while self.done["kill -9"] + self.done["SIGSTOP"] < faults:
            turn += 1
            await asyncio.sleep(self.chance.random() * 3)
            hurt = self._crowd.kill if self.chance.random() < 0.5 else self._crowd.stop
            self._count(hurt(self.chance))
            if turn % 3 == 0:
                self._crowd.cut(self.chance)
            if turn % 6 == 0:
                self._count(self._crowd.part(self.chance))
            if turn % 20 == 10:
                await self._restart_database()
            await self._hand_out_again()

    def _count(self, what: str) -> None:
        if what:
            self.done[what] += 1

    async def _restart_database(self) -> None:
        await asyncio.to_thread(self._server.stop, "immediate")
        await asyncio.sleep(self.chance.random() * 3)
        await asyncio.to_thread(self._server.start, is_durable=True)
        self.done["database killed"] += 1

    async def _hand_out_again(self) -> None:
        """Put jobs into the queue a second time, and hand out again those that are in somebody's hands."""
        options = "-c search_path=detent"
        async with await psycopg.AsyncConnection.connect(self._address, options=options, autocommit=True) as db:
            if (await db.execute(AGAIN)).rowcount:
                self.done["duplicates"] += 3
            self.done["handed out twice"] += (await db.execute(HAND_BACK)).rowcount


class Story:
    """The runs that are begun, and the answers that are given."""

    def __init__(self, host: PostgresHost, ledger: Path, answers: Path, keys: int) -> None:
        self._host, self._ledger, self._answers, self._keys = host, ledger, answers, keys

    async def begin_all(self, pause_s: float) -> None:
        for number in range(self._keys):
            await self._begin(number, "kkkkkkpedc"[number % 10])
            await asyncio.sleep(pause_s)

    async def _begin(self, number: int, kind: str) -> None:
        name = f"{kind}{number}"
        if kind == "d":
            pairs = ((f"{name}x", make_pair(f"{name}a", f"{name}b")), (f"{name}y", make_pair(f"{name}b", f"{name}a")))
            await asyncio.gather(*(self._start(machine, run_id, {}) for run_id, machine in pairs))
        elif kind == "c":
            await asyncio.gather(self._start(PAYING, name, {"amount": name}), self._cancel(name))
        else:
            machine = {"p": parent_of(one(PAY, name="child")), "e": parent_of(LOOKING)}.get(kind, PAYING)
            await self._start(machine, name, {"amount": name})

    async def _start(self, machine: Machine, run_id: str, input: dict[str, str]) -> None:
        while True:
            try:
                await self._host.start(machine, input, run_id=run_id)
                return
            except JournalError:
                await asyncio.sleep(0.5)  # the database is away

    async def _cancel(self, run_id: str) -> None:
        await asyncio.sleep(random.random() * 0.3)
        while True:
            try:
                await self._host.cancel(run_id, by="kim")
                return
            except Unknown:
                await asyncio.sleep(0.002)
            except JournalError:
                await asyncio.sleep(0.5)
            except DetentError:
                return  # it was quicker

    async def answer_truthfully(self) -> int:
        """Answer what is asked about calls in doubt by what the ledger says; how many runs have not ended."""
        open_runs = [one for one in await self._host.list(limit=100_000) if not one.status.is_terminal]
        done = set(self._ledger.read_text().split())
        for summary in open_runs:
            run = (await self._host.look(summary.run_id)).run
            for contract in run.waiting:
                if contract.question is None or contract.question.reason != "outcome_unknown":
                    continue
                key = str(contract.input["key"])
                said = {"outcome": "happened", "result": {}} if key in done else {"outcome": "not_happened"}
                try:
                    await self._host.answer(run.id, contract.id, {**said, "by": "ann"})
                except DetentError as error:  # late evidence was quicker
                    print("not taken:", error)
                    continue
                with self._answers.open("a") as lines:
                    lines.write(json.dumps([run.id, contract.id]) + "\n")
        return len(open_runs)

    async def finish(self) -> None:
        """Answer until all have ended."""
        until = time.monotonic() + PATIENCE_S
        while left := await self.answer_truthfully():
            if time.monotonic() > until:
                return
            print("left:", left, flush=True)
            await asyncio.sleep(2)
        await asyncio.sleep(3)


async def soak(server: Server, keys: int, faults: int, workers: int, seed: int) -> list[str]:
    """One round: begin runs, let things go wrong, answer, look."""
    with tempfile.TemporaryDirectory() as name:
        folder, database = Path(name), server.create()
        ledger, answers = folder / "ledger", folder / "answers"
        ledger.touch()
        answers.touch()
        own = Database(server.address(database))
        init(own)
        crowd = Crowd(folder, ledger, build_skew(folder))
        chaos = Chaos(server, database, crowd, seed)
        await crowd.start(server, database, workers)
        try:
            async with PostgresHost(own, folder, make_effects(ledger), is_working=False, grace_s=0.0) as host:
                story = Story(host, ledger, answers, keys)
                beginning = asyncio.create_task(story.begin_all(faults * 2.0 / keys))
                await chaos.run(faults)
                await crowd.heal()
                await beginning
                await asyncio.sleep(STALLED_S + 5)  # whoever was taken for dead has handed in what there was
                await story.finish()
        finally:
            await crowd.end()
        cuts: Counter[str] = sum((Counter(proxy.made) for proxy in crowd.proxies), Counter())
        answered = len(answers.read_text().splitlines())
        print("faults:", dict(chaos.done + cuts), "questions answered:", answered, "seed:", seed)
        return check(server.address(database), ledger, answers, keys)


async def bear_load(server: Server, minutes: float, workers: int) -> list[str]:
    """Full load without a fault: no worker may be taken for dead, so nothing is asked and nothing is tried again."""
    with tempfile.TemporaryDirectory() as name:
        folder, database = Path(name), server.create()
        ledger = folder / "ledger"
        ledger.touch()
        own = Database(server.address(database))
        init(own)
        crowd = Crowd(folder, ledger, "", slots=100)
        await crowd.start(server, database, workers)
        until, number = time.monotonic() + 60 * minutes, 0
        try:
            async with PostgresHost(own, folder, make_effects(ledger), is_working=False, grace_s=0.0) as host:
                while time.monotonic() < until:
                    left = await host.database.aside(host.journal.rows, "select count(*) from work", ())
                    if left[0][0] < 300:  # always more than they can do
                        names = [f"k{n}" for n in range(number, number + 50)]
                        number += 50
                        await asyncio.gather(*(host.start(PAYING, {"amount": one}, run_id=one) for one in names))
                    else:
                        await asyncio.sleep(0.05)
                while (await host.database.aside(host.journal.rows, "select count(*) from work", ()))[0][0]:
                    await asyncio.sleep(0.2)
        finally:
            await crowd.end()
        return check_load(server.address(database), ledger, number)


def check_load(address: str, ledger: Path, keys: int) -> list[str]:
    done = Counter(ledger.read_text().split())
    wrong = [f"{key} was done {count} times" for key, count in done.items() if count != 1]
    with psycopg.connect(address, options="-c search_path=detent") as db:
        for word in (b"outcome_unknown", b'"recovery"'):
            asked = "select count(*) from events where position(%s::bytea in body) > 0"
            (count,) = db.execute(asked, (word,)).fetchone() or (0,)
            if count:
                wrong.append(f"{count} events speak of {word.decode()}")
        wrong += check_chains(db)
        ended = db.execute("select count(*) from runs where status = 'completed'").fetchone()
        (swept,) = db.execute("select value from meta where name = 'swept'").fetchone() or ("",)
    print("runs:", keys, "completed:", ended, "deeds:", len(done), "swept:", swept)
    return wrong if ended == (keys,) and len(done) == keys else [*wrong, "not all have ended"]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--worker", nargs=4)
    parser.add_argument("--keys", type=int, default=1000)
    parser.add_argument("--faults", type=int, default=52)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--load", type=float, default=0.0, metavar="MINUTES")
    given = parser.parse_args(argv)
    if given.worker:
        address, folder, ledger, slots = given.worker
        asyncio.run(work(address, Path(folder), Path(ledger), int(slots)))
        return 0
    if problem := why_not():
        print(problem)
        return 2
    with running() as server:
        server.stop()
        server.start(is_durable=True)  # in memory, but as careful as on a disk: it is killed
        if given.load:
            wrong = asyncio.run(bear_load(server, given.load, given.workers))
        else:
            wrong = asyncio.run(soak(server, given.keys, given.faults, given.workers, given.seed))
    print("\n".join(wrong[:50]) or "nothing was done twice, nothing is lost, nothing is stuck")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
