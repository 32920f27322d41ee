"""Real processes killed with SIGKILL at random moments, over one journal with fsync on.

    python -m tests.simulation.sigkill ROUNDS [SEED]

A round starts one run of three irreversible deeds (lines appended to a file) beside whatever earlier rounds left
behind, and is killed in the middle. Afterwards one undisturbed process finishes everything, and the file is compared
with what the journal says.
"""

import asyncio
import json
import os
import random
import select
import signal
import sys
import tempfile
from collections import Counter
from pathlib import Path

from detent import Action, Contract, Effect, Machine, Outcome, Question, Run, Status, effect, table
from detent.host.embedded import EmbeddedHost
from detent.host.embedded.journal import Journal
from detent.host.parts.replay import verify

DEEDS = ("one", "two", "three")


def append_of(deed: str) -> Action:
    """One irreversible deed; the second of them is asked about first."""
    question = Question("Append?") if deed == "two" else None
    return Action("append", "append", input={"line": f"{{{{ run.id }}}} {deed}"}, ask=question)


MACHINE = Machine(
    name="deeds",
    initial="look",
    transitions=table("""
        look   -  one
        one    -  two
        two    -  three
        three  -  done
    """),
    work={"look": (Action("look", "look"),), **{deed: (append_of(deed),) for deed in DEEDS}},
    ends={"done": Status.COMPLETED},
)


def effects(home: Path) -> list[Effect]:
    """A pure look and an irreversible append, the latter with pauses in which death may come."""

    @effect("look", kind="pure")
    async def look(contract: Contract) -> Outcome:
        await asyncio.sleep(random.random() * 0.004)
        return Outcome({})

    @effect("append", settle_s=0)
    async def append(contract: Contract) -> Outcome:
        await asyncio.sleep(random.random() * 0.004)
        with (home / "deeds.txt").open("a") as file:
            file.write(contract.input["line"] + "\n")
        await asyncio.sleep(random.random() * 0.004)
        return Outcome({"appended": contract.input["line"]})

    return [look, append]


def answer(home: Path, run: Run) -> tuple[str, dict[str, object]]:
    """What an honest operator says: look into the file before answering a doubt."""
    contract = run.waiting[0]
    assert contract.question is not None
    if contract.question.reason == "approval":
        return contract.id, {"approved": True, "by": "operator"}
    done = (
        contract.input["line"] in (home / "deeds.txt").read_text().splitlines()
        if (home / "deeds.txt").exists()
        else False
    )
    return contract.id, {"outcome": "happened" if done else "not_happened", "by": "operator"}


async def finish(host: EmbeddedHost, home: Path, run_id: str) -> None:
    """Drive one run to its end."""
    while (run := await host.settled(run_id)).ended is None:
        await host.answer(run_id, *answer(home, run))


async def live(home: Path, run_id: str, said: int) -> None:
    """One life: take up what is open, start one run, tell the parent, and go on until killed or done."""
    async with EmbeddedHost(home, effects(home)) as host:
        os.write(said, b"+")
        await host.recover()
        left = [s.run_id for s in await host.list(status=[Status.RUNNING, Status.WAITING], limit=1000)]
        if run_id:
            await host.start(MACHINE, run_id=run_id)
            (home / "started.txt").open("a").write(run_id + "\n")
            left.append(run_id)
        await asyncio.gather(*(finish(host, home, one) for one in left))


def spawn(home: Path, run_id: str) -> tuple[int, int]:
    """Fork a life; returns its pid and the pipe on which it says that it has begun."""
    heard, said = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(heard)
            asyncio.run(live(home, run_id, said))
        except BaseException as error:
            print(f"{run_id}: {error!r}", file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    os.close(said)
    return pid, heard


def rounds(count: int, seed: int, home: Path) -> dict[str, object]:
    """Kill that many lives, then let one finish, then count."""
    draw = random.Random(seed)
    killed = failed = 0
    for number in range(count):
        pid, heard = spawn(home, f"r{number}")
        os.read(heard, 1)
        delay = draw.random() * 0.05
        ready = exit_within(pid, delay)
        if ready is None:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            killed += 1
        elif ready != 0:
            failed += 1
        os.close(heard)
    pid, heard = spawn(home, "")
    _, status = os.waitpid(pid, 0)
    os.close(heard)
    return count_up(home) | {"rounds": count, "killed": killed, "failed": failed, "last_exit": status, "seed": seed}


def exit_within(pid: int, delay_s: float) -> int | None:
    """The life's exit status if it ends within that time."""
    pidfd = os.pidfd_open(pid)
    try:
        if select.select([pidfd], [], [], delay_s)[0]:
            return os.waitpid(pid, 0)[1]
        return None
    finally:
        os.close(pidfd)


def count_up(home: Path) -> dict[str, object]:
    """Compare the world with the journal."""
    lines = Counter((home / "deeds.txt").read_text().splitlines())
    acknowledged = set((home / "started.txt").read_text().split())
    journal = Journal(home / "journal.db")
    runs = {r.summary.run_id: r.summary for r in journal.runs(limit=100_000)}
    wanted = {f"{run_id} {deed}" for run_id in runs for deed in DEEDS}
    found = {
        "runs": len(runs),
        "duplicates": [line for line, times in lines.items() if times > 1],
        "missing": sorted(wanted - set(lines)),
        "lost": sorted(acknowledged - set(runs)),
        "unfinished": [run_id for run_id, s in runs.items() if s.status is not Status.COMPLETED],
        "broken": [p.problem for p in (verify(journal, run_id) for run_id in runs) if p.problem],
    }
    journal.close()
    return found


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="detent-sigkill-") as folder:
        seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(2**32)
        print(json.dumps(rounds(int(sys.argv[1]), seed, Path(folder))))
