"""Kernel figures: our execute against a bare jupyter_client round trip, the look at variables, start and death."""

import asyncio
import importlib
import importlib.util
import os
import signal
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

from bench.figure import Figure
from detent.agents.notebook.jupyter import CellExecution, Kernel

ROUNDS = 400
CELLS = ("x{n} = {i}", "print({i})", "x{n}", "sum(range({i}))\nfor k in range(20): print(k)")
VARIABLES = """
import math
v = {}
a, b, c, d, e = 1, 2.5, "text", None, True
f, g, h = list(range(1000)), {"k": [1, 2, {"z": 3}]}, "x" * 1000
class Thing: pass
i, j, k, l = Thing(), (1, 2), {1, 2, 3}, b"bytes"
m, n, o, p, q = [[1, 2], [3, 4]], 10**30, 1j, range(10), lambda: 1
r, s, t, u, w = [Thing()] * 50, {"a": Thing()}, "é" * 150, [1.5] * 30, {str(n): n for n in range(40)}
"""  # 23 variables of the kinds that notebooks hold

Run = Callable[[str], Awaitable[Any]]


@asynccontextmanager
async def bare() -> AsyncIterator[Run]:
    """A kernel as jupyter_client alone gives it: the same transport, history in memory, no probe."""
    manager_class = importlib.import_module("jupyter_client.manager").AsyncKernelManager
    with tempfile.TemporaryDirectory(prefix="bench-kernel-") as folder:
        manager = manager_class(transport="ipc", ip=f"{folder}/s", connection_file=f"{folder}/connection.json")
        await manager.start_kernel(extra_arguments=["--HistoryManager.hist_file=:memory:"])
        client = manager.client()
        client.start_channels(hb=False)
        await client.wait_for_ready(timeout=60)

        async def run(code: str) -> None:
            sent = client.execute(code)
            while (await client.get_shell_msg())["parent_header"].get("msg_id") != sent:
                pass
            while True:
                message = await client.get_iopub_msg()
                is_ours = message["parent_header"].get("msg_id") == sent
                if is_ours and message["content"].get("execution_state") == "idle":
                    return

        try:
            yield run
        finally:
            client.stop_channels()
            await manager.shutdown_kernel(now=True)


async def interleaved(*runs: Run) -> list[float]:
    """Seconds of each, averaged over the kinds of cells; they take turns, so that all meet the same noise."""
    taken: list[list[float]] = [[] for _ in runs]
    for turn in range(ROUNDS + 10):
        code = CELLS[turn % len(CELLS)].format(i=turn, n=turn % 4 if turn >= 4 else turn)
        order = list(enumerate(runs))
        for place, run in order if turn % 2 else reversed(order):
            begun = time.perf_counter()
            await run(code)
            taken[place].append(time.perf_counter() - begun)
    kinds = len(CELLS)
    return [statistics.mean(_undisturbed(times[10 + kind :: kinds]) for kind in range(kinds)) for times in taken]


def _undisturbed(times: list[float]) -> float:
    """A time that one cell in ten stays below: these machines are shared, and the rest of the times is theirs."""
    return sorted(times)[len(times) // 10]


async def measured() -> list[Figure]:
    """All figures; the kernels are shared, for starting them costs more than the cells."""
    figures = []
    async with bare() as floor, Kernel() as ours:

        async def alone_(code: str) -> CellExecution:
            ours.looks = False
            return await ours.execute(code)

        async def looked_(code: str) -> CellExecution:
            ours.looks = True
            return await ours.execute(code)

        await floor(VARIABLES)
        assert (await looked_(VARIABLES)).status == "ok"
        base, alone, looked = await interleaved(floor, alone_, looked_)
        for name, value, against, bar in (
            ("cell, without a look", alone, base, 1.15),
            ("cell with 23 variables", looked, base, 1.25),
            ("look, × cell alone", looked, alone, 1.25),
        ):
            ratio = value / against
            figures.append(_figure(name, value, against, ratio, f"≤ {bar:g}× floor", ratio <= bar))
    starts: dict[str, list[float]] = {"bare": [], "ours": []}
    for _ in range(3):
        begun = time.perf_counter()
        async with bare():
            starts["bare"].append(time.perf_counter() - begun)
        begun = time.perf_counter()
        async with Kernel() as kernel:
            starts["ours"].append(time.perf_counter() - begun)
            noticed = await death(kernel)
    base, started = min(starts["bare"]), min(starts["ours"])
    figures.append(_figure("start", started, base, started / base, "≤ 1.5× floor", started <= 1.5 * base))
    figures.append(_figure("death noticed", noticed, 0.3, noticed / 0.3, "≤ 300 ms", noticed <= 0.3))
    return figures


async def death(kernel: Kernel) -> float:
    """Seconds from the signal that kills a kernel inside a cell to the cell's end."""
    begun = asyncio.Event()
    code = "print('begun', flush=True)\nwhile True: pass"
    task = asyncio.create_task(kernel.execute(code, on_output=lambda _: begun.set()))
    await begun.wait()
    killed = time.perf_counter()
    os.kill(kernel.pid, signal.SIGKILL)
    done: CellExecution = await task
    assert done.status == "dead"
    return time.perf_counter() - killed


def _figure(name: str, value: float, floor: float, ratio: float, bar: str, ok: bool) -> Figure:
    return Figure("kernel", name, round(value * 1e3, 3), "ms", round(floor * 1e3, 3), round(ratio, 2), bar, ok)


def cells() -> Iterator[Figure]:
    """(k) cells in a real kernel; nothing to measure where the `notebook` extra is not installed."""
    if any(importlib.util.find_spec(name) is None for name in ("jupyter_client", "ipykernel")):
        return
    yield from asyncio.run(measured())


GROUPS = {"kernel": cells}

if __name__ == "__main__":
    for row in cells():
        print(row)
