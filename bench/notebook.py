"""Notebook figures: what a durable cell costs beside a bare one, and whether actions get dearer over time."""

import asyncio
import importlib.util
import json
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from bench.figure import Figure
from bench.kernel import _undisturbed, bare
from detent.agents.notebook.brief import Brief, KernelBrief
from detent.agents.notebook.checkpoint import CheckpointFiles
from detent.agents.notebook.jupyter import Kernel
from detent.agents.notebook.machine import NOTEBOOK
from detent.agents.notebook.script_planner import complete_script
from detent.agents.notebook.service import Notebooks
from detent.host.embedded.host import EmbeddedHost
from detent.host.embedded.journal_reader import JournalReader

CELLS = 150
TURNS = 3
ACTIONS = 10_000
SLICE = 1_000
LOOKS_MAX = 20


def brief(actions: list[dict[str, Any]]) -> Brief:
    """A script run of these actions."""
    script = complete_script({"actions": actions}, "bench")
    return Brief(planner={"use": "builtin:script", "script": script}, kernel=KernelBrief(eager=False))


async def timed(home: Path, actions: list[dict[str, Any]]) -> list[float]:
    """When each action's entry was written, by the journal's own clock."""
    reader = JournalReader(home)  # one for both, as the command has it
    reader.attend()
    async with (
        Notebooks(home, reader=reader) as notebooks,
        EmbeddedHost(home, notebooks.effects(), reader=reader) as host,
    ):
        await host.start(NOTEBOOK, brief(actions).input(), run_id="run")
        await host.signal("run", "START_WORKFLOW")
        run = await host.settled("run")
        assert run.state == "workflow_completed", run.error
        record = host.journal.record("run")
        assert record is not None
        moments = [(event.at, getattr(event, "contract_id", "")) for _, event, _, _ in host.journal.events(record.no)]
    return [at for at, contract_id in moments if contract_id.startswith("action_running/act/")]


def fsync_s(folder: Path) -> float:
    """One commit of a kilobyte to the same disk, as SQLite's log does it: write and fdatasync."""
    taken = []
    with (folder / "raw").open("wb") as file:
        for _ in range(100):
            begun = time.perf_counter()
            file.write(b"x" * 4096)
            file.flush()
            os.fdatasync(file.fileno())
            taken.append(time.perf_counter() - begun)
    return _undisturbed(taken)


async def durable() -> tuple[float, float, float]:
    """Seconds of a durable cell, of a bare one, and of one raw commit; they take turns, and the calmest turn counts."""
    code = "x = {n}\nprint({n})"
    names = [f"c{number}" for number in range(CELLS)]
    made = [
        {"action": "add", "shot_type": "action", "content": code.format(n=number), "store_id": name}
        for number, name in enumerate(names)
    ]
    actions = [*made, *({"action": "exec", "codecell_id": name} for name in names)]
    ours, base, raw = [], [], []
    for _ in range(TURNS):
        with tempfile.TemporaryDirectory(prefix="bench-notebook-") as folder:
            ran = (await timed(Path(folder), actions))[CELLS + 10 :]
            ours.append(_undisturbed([after - before for before, after in pairwise(ran)]))
            raw.append(fsync_s(Path(folder)))
        taken = []
        async with bare() as run:
            for number in range(CELLS):
                begun = time.perf_counter()
                await run(code.format(n=number))
                taken.append(time.perf_counter() - begun)
        base.append(_undisturbed(taken[10:]))
    return min(ours), min(base), min(raw)


async def growing() -> tuple[float, float]:
    """Seconds per action at the beginning and at the end of one behaviour of ten thousand."""
    actions = [{"action": "add", "content": f"text {n}"} for n in range(ACTIONS)]
    with tempfile.TemporaryDirectory(prefix="bench-notebook-") as folder:
        at = await timed(Path(folder), actions)
    steps = [after - before for before, after in pairwise(at)]
    return statistics.median(steps[100:SLICE]), statistics.median(steps[-SLICE:])


async def kept() -> tuple[float, float]:
    """Seconds to write a gigabyte of variables to a checkpoint, and to bring it back into a new kernel."""
    make = "import numpy\nblocks = [numpy.random.default_rng(n).random(1 << 24) for n in range(8)]\nagain = blocks"
    with tempfile.TemporaryDirectory(prefix="bench-notebook-") as home:
        files = CheckpointFiles(Path(home))
        async with Kernel() as kernel:
            assert (await kernel.execute(make)).status == "ok"
            assert kernel.folder is not None
            path = kernel.folder / "checkpoint"
            begun = time.perf_counter()
            saved = await kernel.save(str(path), 2 << 30)
            found = files.keep("run", path)
            writing_s = time.perf_counter() - begun
            assert saved is not None
            assert saved["is_kept"]
            await kernel.restart()
            path = kernel.folder / "checkpoint"
            begun = time.perf_counter()
            assert files.fetch("run", found.hash, path)
            loaded = await kernel.load(str(path))
            restoring_s = time.perf_counter() - begun
            assert loaded is not None
            assert loaded["is_loaded"]
    return writing_s, restoring_s


async def restored(book: Path) -> tuple[int, int, dict[str, str]]:
    """How many variables a notebook leaves, how many a new kernel is given from a checkpoint, and which are lost."""
    cells = [cell for cell in json.loads(book.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    async with Kernel(cwd=str(book.parent), env={"MPLBACKEND": "agg"}) as kernel:
        for cell in cells:
            await kernel.execute("".join(cell["source"]), inputs=["yes"])
        before = (await kernel.look()).variables
        assert kernel.folder is not None
        path = kernel.folder / "checkpoint"
        saved = await kernel.save(str(path), 2 << 30) or {}
        content = path.read_bytes() if saved.get("is_kept") else b""
        await kernel.restart()
        path = kernel.folder / "checkpoint"
        path.write_bytes(content)
        loaded = await kernel.load(str(path)) if content else None
        looked = await kernel.look()
        for _ in range(LOOKS_MAX):  # a look has a quarter of a second: what it did not come to is there all the same
            looked = looked if looked.has_all_variables else await kernel.look()
        after = looked.variables if loaded and loaded.get("is_loaded") else {}
    same = [name for name, was in before.items() if name in after and after[name].type == was.type]
    reasons = {"*": (loaded or {}).get("why", "not there"), **saved.get("lost", {}), **(loaded or {}).get("lost", {})}
    lost = {name: str(reasons.get(name, reasons["*"])) for name in before if name not in same}
    return len(before), len(same), lost


def restores() -> Iterator[Figure]:
    """Variables of the notebooks that `./run bench survey` has left, brought back after a kernel is gone."""
    whole = kept = 0
    for book in sorted(Path(".bench-survey").glob("*/report.ipynb")):
        count, same, lost = asyncio.run(restored(book))
        whole, kept = whole + count, kept + same
        told = ", ".join(f"{name}: {why}" for name, why in lost.items()) or "all of them"
        share = same / max(1, count)
        yield Figure("restored", book.parent.name, same, "variables", count, round(share, 3), told, share >= 0.9)
    if whole:
        share = kept / whole
        yield Figure("restored", "all notebooks", kept, "variables", whole, round(share, 3), "≥ 95 %", share >= 0.95)


def notebooks() -> Iterator[Figure]:
    """(n) durable notebooks; nothing to measure where the `notebook` extra is not installed."""
    if any(importlib.util.find_spec(name) is None for name in ("jupyter_client", "ipykernel")):
        return
    first, last = asyncio.run(growing())
    yield _figure("action 10,000 of one", last, first, last / first, "≤ 1.5× the first", last <= 1.5 * first)
    ours, base, raw = asyncio.run(durable())
    ratio = ours / (base + raw)
    yield _figure("durable cell", ours, base + raw, ratio, "≤ 1.15× cell + fsync", ratio <= 1.15)
    writing, restoring = asyncio.run(kept())
    ratio = restoring / writing
    yield _figure("restore of 1 GB", restoring, writing, ratio, "≤ 3× writing it", ratio <= 3)


def _figure(name: str, value: float, floor: float, ratio: float, bar: str, ok: bool) -> Figure:
    return Figure("notebook", name, round(value * 1e3, 3), "ms", round(floor * 1e3, 3), round(ratio, 2), bar, ok)


GROUPS = {"notebook": notebooks, "restored": restores}
