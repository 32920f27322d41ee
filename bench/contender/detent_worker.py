"""detent on PostgreSQL: `work ADDRESS FOLDER SLOTS`, or `begin ADDRESS FOLDER RUNS LENGTH EFFECT`."""

import asyncio
import sys
from pathlib import Path

from bench.engine import chain, noop
from detent import Contract, Effect, Outcome, effect
from detent.host.postgres import PostgresHost
from detent.host.postgres.connection import Database

WAIT_S = 0.05


@effect("pause", kind="pure")
async def pause(contract: Contract) -> Outcome:
    """Wait for somebody else's answer, as most steps do."""
    await asyncio.sleep(WAIT_S)
    return Outcome()


def make_pay(ledger: Path) -> Effect:
    """An irreversible call that takes its time, and writes down when it is made."""

    @effect("pay", kind="irreversible", settle_s=1.0)
    async def pay(contract: Contract) -> Outcome:
        with ledger.open("a") as lines:
            lines.write(f"{contract.action}\n")
        await asyncio.sleep(3600)
        return Outcome()

    return pay


async def work(address: str, folder: Path, slots: int) -> None:
    """A worker, until it is killed."""
    effects = [noop, pause, make_pay(folder / "ledger")]
    async with PostgresHost(Database(address), folder, effects, slots=slots) as host:
        await host.recover()
        await host.queue.ready()
        print("ready", flush=True)
        await asyncio.Event().wait()


async def begin(address: str, folder: Path, runs: int, length: int, name: str) -> None:
    """Begin the runs, when told to."""
    machine = chain(length, name)
    async with PostgresHost(Database(address), folder, [noop, pause], is_working=False, grace_s=0.0) as host:
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        await asyncio.gather(*(host.start(machine) for _ in range(runs)))


if __name__ == "__main__":
    given = sys.argv[2:]
    if sys.argv[1] == "work":
        asyncio.run(work(given[0], Path(given[1]), int(given[2])))
    else:
        asyncio.run(begin(given[0], Path(given[1]), int(given[2]), int(given[3]), given[4]))
