"""A worker that is killed by the kernel at its n-th statement, for every n: `ADDRESS FOLDER LEDGER [EVERY]`.

Each life is a fork of this process: it begins a run, carries it out and dies on the way. The first that lives to the
end of its run ends the story; what was printed is how many died.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import psycopg

from detent.core import Action, Contract, Effect, Outcome, effect
from detent.host.postgres import PostgresHost
from detent.host.postgres.connection import Database
from detent.testing.conformance import one

PAYING = one(Action("look", "look"), Action("pay", "pay", {"key": "{{ context.key }}"}), name="paying")


class KilledConnection(psycopg.Connection[Any]):
    """Counts what this process asks for; what came before has reached the server when it dies."""

    left = -1

    def execute(self, query: Any, *args: Any, **given: Any) -> Any:
        kind = KilledConnection
        if kind.left == 0:
            if self._pipeline is not None:
                self._pipeline.sync()
            os.kill(os.getpid(), signal.SIGKILL)
        kind.left -= 1
        return super().execute(query, *args, **given)


def make_effects(ledger: Path) -> list[Effect]:
    @effect("look", kind="pure")
    async def look(_: Contract) -> Outcome:
        return Outcome({})

    @effect("pay", kind="irreversible", settle_s=0.0)
    async def pay(contract: Contract) -> Outcome:
        with ledger.open("a") as lines:
            lines.write(f"{contract.input['key']}\n")
        return Outcome({})

    return [look, pay]


async def live(address: str, folder: Path, ledger: Path, number: int) -> None:
    """One life: it dies at its n-th statement after the host was opened, or sees the end of its run."""
    database = Database(address)
    database._pool.connection_class = KilledConnection
    async with PostgresHost(database, folder, make_effects(ledger), grace_s=0.0) as host:
        await host.queue.ready()
        KilledConnection.left = number
        run = await host.start(PAYING, {"key": f"r{number}"}, run_id=f"r{number}")
        async for entry in host.watch(run.id):
            if entry.run.ended is not None:
                return


def main(address: str, folder: Path, ledger: Path, every: int = 1) -> None:
    number = 0
    while True:
        child = os.fork()
        if not child:
            asyncio.run(live(address, folder, ledger, number))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            assert os.waitstatus_to_exitcode(status) == 0, status
            sys.stdout.write(f"{number}\n")
            return
        number += every


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), *map(int, sys.argv[4:]))
