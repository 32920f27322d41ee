"""What a sandbox costs a process: `true` without one and at each level, beside a home and a policy."""

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
MORE_MS_MAX = 6.0


def levels() -> Iterator[Figure]:
    """Milliseconds a process, the best of a few rounds taken in turn; the bar is for what a sandbox adds."""
    times = asyncio.run(_measured())
    plain = times.pop("off")
    for level, taken in times.items():
        more, ratio = round(taken - plain, 2), round(taken / plain, 2)
        bar = f"at most {MORE_MS_MAX:g} ms more"
        yield Figure("sandbox", level, more, "ms more", round(plain, 2), ratio, bar, more <= MORE_MS_MAX)


async def _measured() -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder, ".detent")
        home.mkdir()
        Path(folder, "detent.policy.yaml").write_text("rules: []\n")
        progress.attempt.set(progress.Attempt(Contract("c", "a", "shell"), "r", lambda *_: None, str(home)))
        wanted = ["off", *(level for level, problem in sandbox.abilities().items() if not problem)]
        best = dict.fromkeys(wanted, float("inf"))
        for _ in range(ROUNDS):
            for level in wanted:
                begun = time.perf_counter()
                for _ in range(EACH):
                    box = await sandbox.enter(sandbox.SandboxWish(level), folder)
                    await process.run(["true"], dict(os.environ), folder, None, "", sandbox=box)
                best[level] = min(best[level], (time.perf_counter() - begun) / EACH * 1000)
        return best


GROUPS = {"sandbox": levels}
