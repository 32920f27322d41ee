"""Runs one workflow many times on the real host, in one process, and prints each journal without times and ids.

python -m tests.simulation.repeat FILE TIMES
"""

import asyncio
import hashlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from detent.core.run import Run
from detent.define import load
from detent.effects import builtin
from detent.host.embedded import EmbeddedHost

ANSWERS = (("right", "bob"), ("left", "bob"), ("pay", "bob"), ("pay", "eve"))  # in this order


async def told(file: str, home: Path) -> list[str]:
    """The bodies of a run's events as they were written, and of its children's, made comparable."""
    definition = load(file)
    async with EmbeddedHost(home, builtin(), sync="off") as host:
        run = await host.start(definition.machine, {"orders": [3, 1, 2], "z": {"b": 1, "a": 2}}, by="ann")
        for action, by in ANSWERS:
            waiting = await _asking(host, run.id)
            one = next(contract for contract in waiting.waiting if contract.action == action)
            await host.answer(run.id, one.id, {"approved": True, "by": by, "patch": {f"by_{action}": by}})
        await host.settled(run.id)
        await host.signal(run.id, "paid", {"amount": 11, "order": 7})
        run = await _ended(host, run.id)
        assert run.ended is not None
        assert run.ended.value == "completed", run
        ids = [one.run_id for one in reversed(await host.list())]
        bodies = [body for one in ids for _, _, body, _ in host.journal.events(_no(host, one))]
    return [_bare(body.decode(), run.id, str(Path(file).resolve())) for body in bodies]


def _no(host: EmbeddedHost, run_id: str) -> int:
    record = host.journal.record(run_id)
    assert record is not None
    return record.no


async def _asking(host: EmbeddedHost, run_id: str) -> Run:
    async for entry in host.watch(run_id):
        if entry.run.waiting and entry.seq == (await host.settled(run_id)).seq:
            return entry.run
    raise AssertionError("it never asked")


async def _ended(host: EmbeddedHost, run_id: str) -> Run:
    async for entry in host.watch(run_id):
        if entry.run.ended is not None:
            return entry.run
    raise AssertionError("it never ended")


def _bare(body: str, run_id: str, file: str) -> str:
    return json.dumps(_timeless(json.loads(body.replace(run_id, "RUN").replace(file, "FILE"))))


def _timeless(value: Any) -> Any:
    """Without times and the ids that hosts make; the order of keys is left as it was written."""
    if isinstance(value, dict):
        return {key: 0 if key == "at" else _timeless(inner) for key, inner in value.items()}
    return [_timeless(inner) for inner in value] if isinstance(value, list) else value


def main(file: str, times: int) -> None:
    """Print a digest for each time, and the first journal in full."""
    for number in range(times):
        with tempfile.TemporaryDirectory(prefix="detent-repeat-") as home:
            lines = asyncio.run(told(file, Path(home)))
        text = "\n".join(lines)
        told_of = {"sha256": hashlib.sha256(text.encode()).hexdigest(), "lines": [] if number else lines}
        sys.stdout.write(json.dumps(told_of) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
