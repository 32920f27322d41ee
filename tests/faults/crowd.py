"""Several processes on one home: whoever drives, whoever hands over, whoever reads; stopped, killed, with clocks apart.

    python -m tests.faults.crowd ROUNDS [SEED] [LIBRARY]

A conductor gives the word to one process after the other, in an order that its seed decides, and stops, wakes and kills
them meanwhile. Nobody sleeps: a step is a byte in a pipe. Afterwards one undisturbed process finishes what is open, and
the checker reads what is left.
"""

import asyncio
import ctypes
import json
import os
import random
import select
import signal
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from detent.errors import DetentError
from detent.host.embedded.shared_host import open_host
from tests.faults.checker import check
from tests.faults.story import MACHINE, acknowledge, answer_honestly, ledger_effect

WORKERS = 4
FILES_MAX = 256
STEPS = 100  # decisions of the conductor in one round
CLOCKS_S = (0, 0, -7200, 86400, 3)


class Worker:
    """A process that does one thing for each byte it is given, and says so with a byte."""

    def __init__(self, home: Path, world: Path, seed: int, library: str) -> None:
        heard, self.word = os.pipe()
        self.done, said = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            for pipe in {*range(3, FILES_MAX)} - {heard, said}:
                with suppress(OSError):
                    os.close(pipe)  # ends of the others' pipes among them: nobody would see them close
            _work(home, world, seed, library, heard, said)
        os.close(heard)
        os.close(said)
        self.is_busy, self.is_stopped = True, False  # it says when it has opened the home

    def end(self, number: int) -> None:
        """Kill it, or let it go, and wait for its end."""
        if number:
            os.kill(self.pid, number)
        for pipe in (self.word, self.done):
            os.close(pipe)
        os.waitpid(self.pid, 0)


def _work(home: Path, world: Path, seed: int, library: str, heard: int, said: int) -> None:
    code = 1
    try:
        draw = random.Random(seed)
        if library:
            ctypes.CDLL(library).clock_shift(draw.choice(CLOCKS_S))
        asyncio.run(_steps(home, world, draw, heard, said))
        code = 0
    except BaseException as error:
        print(f"worker {seed}: {error!r}", file=sys.stderr, flush=True)
    finally:
        os._exit(code)


async def _steps(home: Path, world: Path, draw: random.Random, heard: int, said: int) -> None:
    loop = asyncio.get_running_loop()
    async with open_host(home, [ledger_effect(home, world)], grace_s=0.0) as host:
        os.write(said, b"+")
        while await loop.run_in_executor(None, os.read, heard, 1):
            with suppress(DetentError):  # refused, or whoever had the journal is gone: the caller was told
                await _step(host, home, world, draw)
            with suppress(BrokenPipeError):  # the conductor has left
                os.write(said, b"+")


async def _step(host: Any, home: Path, world: Path, draw: random.Random) -> None:
    """One thing that a person at a terminal might do."""
    match draw.choice(["start", "answer", "answer", "answer", "list", "recover"]):
        case "start":
            acknowledge(home, world, await host.start(MACHINE, run_id=f"r{draw.randrange(10**9)}"))
        case "answer":
            waiting = [one.run_id for one in await host.list(limit=100) if one.waiting]
            if waiting:
                run = await host.show(draw.choice(waiting))
                if run.waiting:
                    acknowledge(home, world, await host.answer(run.id, *answer_honestly(world, run)))
        case "list":
            await host.list(limit=10)
        case _:
            await host.recover()


def conduct(home: Path, world: Path, seed: int, library: str) -> dict[str, Any]:
    """One round; what was done to whom."""
    draw = random.Random(seed)
    crowd = [Worker(home, world, draw.randrange(2**32), library) for _ in range(WORKERS)]
    told = {"stopped": 0, "killed": 0, "steps": 0}
    for _ in range(STEPS):
        _hear(crowd, is_waiting=all(one.is_busy for one in crowd))
        one = draw.choice(crowd)
        match draw.choice(["go", "go", "go", "go", "stop", "wake", "kill"]):
            case "stop" if not one.is_stopped:
                os.kill(one.pid, signal.SIGSTOP)
                one.is_stopped, told["stopped"] = True, told["stopped"] + 1
            case "wake" if one.is_stopped:
                _wake(one)
            case "kill" if draw.random() < 0.3:
                one.end(signal.SIGKILL)
                crowd[crowd.index(one)] = Worker(home, world, draw.randrange(2**32), library)
                told["killed"] += 1
            case _ if idle := [other for other in crowd if not other.is_busy]:
                one = draw.choice(idle)
                os.write(one.word, b".")
                one.is_busy, told["steps"] = True, told["steps"] + 1
    for one in crowd:
        _wake(one)  # all of them first: one may wait for another
    for one in crowd:
        one.end(signal.SIGKILL if draw.random() < 0.3 else 0)
    return told


def _wake(one: Worker) -> None:
    os.kill(one.pid, signal.SIGCONT)
    one.is_stopped = False


def _hear(crowd: list[Worker], *, is_waiting: bool) -> None:
    """Take in who is done; when everybody is busy, wake those who sleep and wait for one of them."""
    if is_waiting:
        for one in crowd:
            _wake(one)
    ready, _, _ = select.select([one.done for one in crowd], [], [], None if is_waiting else 0)
    for one in crowd:
        if one.done in ready and os.read(one.done, 1):
            one.is_busy = False


async def finish(home: Path, world: Path) -> None:
    """Take up everything and see it to its end, as somebody who looks before answering."""
    async with open_host(home, [ledger_effect(home, world)]) as host:
        await host.recover()
        for summary in await host.list(limit=1000):
            while (run := await host.settled(summary.run_id)).ended is None:
                acknowledge(home, world, await host.answer(run.id, *answer_honestly(world, run)))


def play(seed: int, library: str, folder: Path) -> dict[str, Any]:
    """One home, one round, and the checker's word on it."""
    home, world = folder / "home", folder / "world"
    world.mkdir(parents=True)
    told = conduct(home, world, seed, library)
    asyncio.run(finish(home, world))
    ledger = world / "ledger"
    wrong = check(home / "journal.db", ledger, world / "acknowledged")
    return {
        "seed": seed,
        **told,
        "deeds": len(ledger.read_text().splitlines()) if ledger.exists() else 0,
        "wrong": wrong,
    }


if __name__ == "__main__":
    first = int(sys.argv[2]) if len(sys.argv) > 2 and sys.argv[2] else random.randrange(2**32)
    for number in range(int(sys.argv[1])):
        with tempfile.TemporaryDirectory(prefix="detent-crowd-") as scratch:
            print(json.dumps(play(first + number, sys.argv[3] if len(sys.argv) > 3 else "", Path(scratch))), flush=True)
