"""What a sandbox costs a process: `true` without one and at each level, and an empty folder beside it."""

import asyncio
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.figure import Figure
from detent.core import Contract, progress
from detent.effects import process, sandbox

ROUNDS = 5
EACH = 40


def figures() -> Iterator[Figure]:
    """Milliseconds a process, the best of a few rounds taken in turn, so that a loaded machine tells a ratio all the same."""
    times = asyncio.run(_measured())
    plain = times.pop("off")
    yield Figure("process without a sandbox", plain, "ms")
    for level, taken in times.items():
        yield Figure(f"sandbox {level}, more a process", taken - plain, "ms")
        yield Figure(f"sandbox {level}, ratio", taken / plain, "×")


async def _measured() -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder, ".detent")
        home.mkdir()
        Path(folder, "detent.policy.yaml").write_text("rules: []\n")
        about = progress.Attempt(Contract("c", "a", "shell"), "r", lambda *_: None, str(home))
        progress.attempt.set(about)
        levels = ["off", *(level for level, problem in sandbox.abilities().items() if not problem)]
        best = dict.fromkeys(levels, float("inf"))
        for _ in range(ROUNDS):
            for level in levels:
                begun = time.perf_counter()
                for _ in range(EACH):
                    box = await sandbox.enter(sandbox.SandboxWish(level), folder)
                    await process.run(["true"], dict(os.environ), folder, None, "", sandbox=box)
                best[level] = min(best[level], (time.perf_counter() - begun) / EACH * 1000)
        return best
