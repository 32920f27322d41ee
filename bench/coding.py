"""The price of the lifecycle itself: one task, without its worker, its checks and the making of the workspace."""

import asyncio
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from bench.figure import Figure, best
from detent.agents.coding.effects import effects
from detent.agents.coding.job import job_of
from detent.agents.coding.machine import CODING
from detent.agents.coding.settings import PlannerSettings, Settings, WorkerSettings
from detent.core.events import ContractMoved
from detent.effects import builtin
from detent.host.embedded.host import EmbeddedHost

TASKS = 20
BAR_MS = 200.0


def measure() -> Iterator[Figure]:
    """Twenty tasks on a small repository; the worker appends a line."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for number in range(50):
            (root / f"f{number}.txt").write_text(str(number))
        subprocess.run(["git", "init", "-q"], cwd=root, check=True)
        plan = "# Many\n\n## Tasks\n" + "".join(f"- [ ] T-{n:03d} (P1) Task {n}\n" for n in range(1, TASKS + 1))
        (root / "plan.md").write_text(plan)
        seconds, worker_s = asyncio.run(_job(root))
        status = ["git", "status", "--porcelain"]
        floor = best(lambda: subprocess.run(status, cwd=root, check=True, capture_output=True)) * 1000
    value = (seconds - worker_s) / TASKS * 1000
    yield Figure(
        "coding", "overhead per task", round(value, 1), "ms", round(floor, 1), round(value / floor, 1),
        f"<= {BAR_MS:g} ms on a quiet machine", value <= BAR_MS,
    )  # fmt: skip


async def _job(root: Path) -> tuple[float, float]:
    command = ["sh", "-c", "echo $DETENT_TASK >> f0.txt"]
    settings = Settings(worker=WorkerSettings(command=command), planner=PlannerSettings("file", file="plan.md"))
    async with EmbeddedHost(root / ".detent", {**effects(), **builtin()}) as host:
        given = {"root": str(root), "settings": msgspec.to_builtins(settings)}
        await host.start(CODING, given, run_id="bench")
        await host.signal("bench", "USER_INPUT_REQUIREMENT", {"requirement": "Many"})
        plan = job_of((await host.settled("bench")).context).plan
        assert plan is not None
        begun = time.perf_counter()
        await host.signal("bench", "USER_CONFIRM", {"plan": plan.digest})
        run = await host.settled("bench")
        seconds = time.perf_counter() - begun
        making = _find_duration(host, "/baseline/")
    job = job_of(run.context)
    assert job.outcome == "archived", job.blocked
    return seconds - making, sum(progress.seconds for progress in job.tasks.values())


def _find_duration(host: EmbeddedHost, action: str) -> float:
    """How long an action took: here that one in which the workspace is made."""
    moments = [
        entry.event.at
        for entry in host.reader.entries("bench")
        if isinstance(entry.event, ContractMoved) and action in entry.event.contract_id
    ]
    return max(moments) - min(moments)


GROUPS = {"coding": measure}
