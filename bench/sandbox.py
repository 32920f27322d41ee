"""What a sandbox costs a process: `true` without one and at each level, beside a home and a policy.

Beside each level stands bubblewrap alone, with the same words and nothing of ours around it: what it costs cannot be
less, and the rest is ours.
"""

import asyncio
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.figure import Figure
from detent.core import Contract, progress
from detent.effects import process, sandbox

ROUNDS = 200
MORE_MS_MAX = 6.0


def levels() -> Iterator[Figure]:
    """Milliseconds more than without a sandbox, the least of many processes taken in turn; the bar is for ours."""
    times = asyncio.run(_measured())
    plain, bare = times.pop("off"), times.pop("bare off")
    for level, taken in times.items():
        base = bare if level.startswith("bare ") else plain
        more, ratio = round(taken - base, 2), round(taken / base, 2)
        is_ours = base is plain
        bar = f"at most {MORE_MS_MAX:g} ms more" if is_ours else "bubblewrap alone"
        yield Figure("sandbox", level, more, "ms more", round(base, 2), ratio, bar, not is_ours or more <= MORE_MS_MAX)


async def _measured() -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder, ".detent")
        home.mkdir()
        Path(folder, "detent.policy.yaml").write_text("rules: []\n")
        ground = progress.OffLimits(str(home))
        progress.attempt.set(progress.Attempt(Contract("c", "a", "shell"), "r", lambda *_: None, ground))
        wanted = ["off", *(level for level, problem in sandbox.abilities().items() if not problem)]
        best: dict[str, float] = {}
        for _ in range(ROUNDS):
            for level in wanted:
                begun = time.perf_counter()
                box = await sandbox.enter(sandbox.SandboxWish(level), folder)
                await process.run(["true"], dict(os.environ), folder, None, "", sandbox=box)
                between = time.perf_counter()
                subprocess.run(box.command(["true"]), check=True, cwd=folder, stdin=subprocess.DEVNULL)  # noqa: ASYNC221
                ended = time.perf_counter()
                for name, taken in ((level, between - begun), (f"bare {level}", ended - between)):
                    best[name] = min(best.get(name, taken * 1000), taken * 1000)
        return best


GROUPS = {"sandbox": levels}
