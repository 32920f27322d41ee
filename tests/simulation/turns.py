"""Many runs of one group, whose drivers are killed with SIGKILL at random moments: in order, and never two at once.

    python -m tests.simulation.turns RUNS KILLS [SEED]

Each run writes down that it begins and that it ends. A kill may let it write that again; it never lets another one
write in between.
"""

import asyncio
import json
import os
import random
import signal
import sys
import tempfile
from itertools import groupby
from pathlib import Path

from detent import Action, Contract, Effect, Machine, Outcome, Status, effect, table
from detent.core.machine import Group
from detent.host.embedded import EmbeddedHost
from detent.host.embedded.journal import Journal
from detent.host.parts.replay import verify
from detent.testing.conformance.fixtures import until
from tests.simulation.sigkill import exit_within

WORDS = ("begin", "end")
MACHINE = Machine(
    name="turn",
    initial="work",
    transitions=table("work - done"),
    work={"work": tuple(Action(word, "write", {"line": f"{{{{ run.id }}}} {word}"}) for word in WORDS)},
    ends={"done": Status.COMPLETED},
    group=Group("one"),
)


def ledger(home: Path) -> Effect:
    """Writes a line to a file, once more if nobody knows that it did."""

    @effect("write", kind="idempotent")
    async def write(contract: Contract) -> Outcome:
        with (home / "ledger.txt").open("a") as file:
            file.write(contract.input["line"] + "\n")
        await asyncio.sleep(0)
        return Outcome({})

    return write


async def live(home: Path, names: list[str], said: int) -> None:
    """One life: begin the runs that nobody has begun, in their order, and stay until all have ended."""
    async with EmbeddedHost(home, [ledger(home)]) as host:
        os.write(said, b"+")
        await host.recover()
        for name in names:
            if host.reader.summary(name) is None:
                await host.start(MACHINE, run_id=name)
        for name in names:
            await until(host, name, lambda run: run.ended is not None)


def spawn(home: Path, names: list[str]) -> tuple[int, int]:
    """Fork a life; its pid, and the pipe on which it says that it has begun."""
    heard, said = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            asyncio.run(live(home, names, said))
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    os.close(said)
    return pid, heard


def take_turns(runs: int, kills: int, seed: int, home: Path) -> dict[str, object]:
    """Kill that many lives, let one finish, and say what the ledger and the journal tell."""
    draw, names, killed = random.Random(seed), [f"r{number:04}" for number in range(runs)], 0
    for _ in range(kills):
        pid, heard = spawn(home, names)
        os.read(heard, 1)
        if exit_within(pid, draw.random() * 16 * runs / 1000 / kills + 0.01) is None:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            killed += 1
        os.close(heard)
    pid, heard = spawn(home, names)
    _, status = os.waitpid(pid, 0)
    os.close(heard)
    lines = [line.split() for line in (home / "ledger.txt").read_text().splitlines()]
    turns = [name for name, _ in groupby(name for name, _ in lines)]
    journal = Journal(home / "journal.db")
    broken = [found.problem for found in (verify(journal, name) for name in names) if found.problem]
    journal.close()
    return {
        "runs": runs, "killed": killed, "seed": seed, "last_exit": status, "in_order": turns == names,
        "whole": all({word for one, word in lines if one == name} == set(WORDS) for name in names[:: runs // 20 or 1]),
        "again": len(lines) - len(WORDS) * runs, "broken": broken,
    }  # fmt: skip


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="detent-turns-") as folder:
        seed = int(sys.argv[3]) if len(sys.argv) > 3 else random.randrange(2**32)
        print(json.dumps(take_turns(int(sys.argv[1]), int(sys.argv[2]), seed, Path(folder))))
