"""The bare queue library, one job for each step: `work ADDRESS`, or `begin ADDRESS RUNS LENGTH`.

A job does nothing but to put the next one of its chain into the queue: nothing of what it did is written down.
"""

import asyncio
import sys

import procrastinate
from procrastinate.worker import Worker

SLOTS = 100


def make_app(address: str) -> procrastinate.App:
    """The library's own set-up."""
    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=address, min_size=1, max_size=8))

    @app.task(name="step")
    async def step(left: int) -> None:
        if left > 1:
            await app.configure_task("step").defer_async(left=left - 1)

    return app


async def work(address: str) -> None:
    """A worker, until it is killed."""
    app = make_app(address)
    async with app.open_async():
        worker = Worker(app, concurrency=SLOTS, delete_jobs="always", install_signal_handlers=False)
        going = asyncio.create_task(worker.run())  # type: ignore[no-untyped-call]  # the library's
        while worker.worker_id is None:  # noqa: ASYNC110  # the library rings no bell
            await asyncio.sleep(0.001)
        print("ready", flush=True)
        await going


async def begin(address: str, runs: int, length: int) -> None:
    """Hand out the first step of each run, when told to."""
    app = make_app(address)
    async with app.open_async():
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        await asyncio.gather(*(app.configure_task("step").defer_async(left=length) for _ in range(runs)))


async def prepare(address: str) -> None:
    """Make the library's tables."""
    app = make_app(address)
    async with app.open_async():
        await app.schema_manager.apply_schema_async()


if __name__ == "__main__":
    if sys.argv[1] == "work":
        asyncio.run(work(sys.argv[2]))
    elif sys.argv[1] == "prepare":
        asyncio.run(prepare(sys.argv[2]))
    else:
        asyncio.run(begin(sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
