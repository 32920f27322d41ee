"""A story of irreversible deeds on a disk that fails at its n-th call, for every n; see `disk.c`.

    LD_PRELOAD=disk.so DISK_FOLDER=… python -m tests.faults.story LIBRARY FOLDER KIND [EVERY]

One process imports detent once and forks a life for every fault, so that the whole costs seconds. After each life an
undisturbed one finishes what is open as somebody who looks before answering, and the checker reads what is left.
"""

import asyncio
import ctypes
import errno
import json
import os
import sys
import traceback
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from detent import Action, Contract, Effect, Machine, Outcome, Question, Run, Status, effect, table
from detent.errors import DetentError, JournalError
from detent.host.embedded import EmbeddedHost
from tests.faults.checker import check, head_at, look

FAULTS = {"full": errno.ENOSPC, "io": errno.EIO, "short": 0}
RUN = "r1"
DEEDS = ("one", "two", "three")
STOPPED, BROKEN = 3, 4  # exit codes of a life: it stopped with a sentence; it raised something else


def _deed(name: str) -> Action:
    """One irreversible deed; the second of them is asked about first."""
    ask = Question("Do it?") if name == "two" else None
    return Action("do", "do", {"deed": f"{{{{ run.id }}}} {name}"}, ask=ask)


MACHINE = Machine(
    name="deeds",
    initial="one",
    transitions=table("one - two\ntwo - three\nthree - done"),
    work={deed: (_deed(deed),) for deed in DEEDS},
    ends={"done": Status.COMPLETED},
)


def ledger_effect(home: Path, world: Path) -> Effect:
    """A deed in the outside world: looks at the journal with its own eyes, then writes one line."""

    @effect("do", settle_s=0.0)
    async def do(contract: Contract) -> Outcome:
        run_id = contract.input["deed"].partition(" ")[0]
        seen = look(home / "journal.db", run_id, contract.key)
        line = {
            "key": contract.key,
            "run_id": run_id,
            "contract_id": contract.id,
            "deed": contract.input["deed"],
            **seen,
        }
        append(world / "ledger", line)
        return Outcome({"deed": contract.input["deed"]})

    return do


def append(file: Path, line: dict[str, Any]) -> None:
    """One line, in one call, to a file outside the failing disk."""
    code = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(code, (json.dumps(line) + "\n").encode())
    os.close(code)


def acknowledge(home: Path, world: Path, run: Run) -> None:
    """A verb came back: what it said must last."""
    head = head_at(home / "journal.db", run.id, run.seq)
    append(world / "acknowledged", {"run_id": run.id, "seq": run.seq, "head": head})


def answer_honestly(world: Path, run: Run) -> tuple[str, dict[str, Any]]:
    """What somebody answers who looks into the ledger before a doubt is settled."""
    contract = run.waiting[0]
    assert contract.question is not None
    if contract.question.reason == "approval":
        return contract.id, {"approved": True, "by": "kim"}
    done = f'"deed": "{contract.input["deed"]}"' in (
        (world / "ledger").read_text() if (world / "ledger").exists() else ""
    )
    result = {"deed": contract.input["deed"]}
    said = {"outcome": "happened", "result": result} if done else {"outcome": "not_happened"}
    return contract.id, {**said, "by": "kim"}


async def live(home: Path, world: Path, disk: Any) -> None:
    """Start a run if it is not there, and see everything to its end."""
    async with EmbeddedHost(home, [ledger_effect(home, world)], grace_s=0.0) as host:
        try:
            await drive(host, home, world)
        except JournalError:
            if disk.disk_failed() in (b"fsync", b"fdatasync"):
                await assert_refused(host)
            raise
        if not disk.disk_failed():
            (world / "closing").touch()  # whatever fails now, everything that counts is on disk


async def assert_refused(host: EmbeddedHost) -> None:
    """A disk that could not keep what it had is not believed when it says yes the next time."""
    try:
        await host.start(MACHINE, run_id="later")
    except JournalError:
        return
    raise AssertionError("the journal was written to after it could not be synced")


async def drive(host: EmbeddedHost, home: Path, world: Path) -> None:
    """The story: one run from its start to its end."""
    await host.recover()
    if not await host.list():
        acknowledge(home, world, await host.start(MACHINE, run_id=RUN))
    for summary in await host.list():
        while (run := await host.settled(summary.run_id)).ended is None:
            acknowledge(home, world, await host.answer(run.id, *answer_honestly(world, run)))


def lived(life: Coroutine[Any, Any, None], log: Path) -> int:
    """Run a life and turn its end into an exit code."""
    try:
        asyncio.run(life)
    except BaseExceptionGroup as group:
        (log).write_text("".join(traceback.format_exception(group)))
        return STOPPED if group.split(DetentError)[1] is None else BROKEN
    except DetentError as error:
        log.write_text(str(error))
        return STOPPED
    except BaseException as error:
        log.write_text("".join(traceback.format_exception(error)))
        return BROKEN
    return 0


def forked(home: Path, world: Path, disk: Any, at: int, fault: int, lasting: bool) -> tuple[int, int, str]:
    """A life in a process of its own: its end, how many calls it made, and which of them failed."""
    heard, said = os.pipe()
    pid = os.fork()
    if pid == 0:
        disk.disk_arm(at, fault, int(lasting))
        code = lived(live(home, world, disk), world / "end")
        os.write(said, f"{disk.disk_count()} {disk.disk_failed().decode()}".encode())
        os._exit(code)
    os.close(said)
    with os.fdopen(heard) as pipe:
        count, _, failed = pipe.read().partition(" ")
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), int(count or 0), failed


def play(library: str, folder: Path, kind: str, every: int) -> dict[str, Any]:
    """Every fault of a kind, once and lasting; what came of it."""
    disk = ctypes.CDLL(library)
    disk.disk_failed.restype = ctypes.c_char_p
    disk.disk_count.restype = ctypes.c_long
    home, world = folder / "home" / "0", folder / "world" / "0"
    world.mkdir(parents=True)
    code, count, _ = forked(home, world, disk, 0, 0, lasting=False)
    found: dict[str, Any] = {"calls": count, "clean": [code, *verdict(home, world)], "wrong": [], "ends": {}}
    for number in range(1, count + 1, every):
        for lasting in (False, True) if kind != "short" else (False,):
            mark = f"{number}{'+' if lasting else ''}"
            home, world = folder / "home" / mark, folder / "world" / mark
            world.mkdir(parents=True)
            code, _, failed = forked(home, world, disk, number, FAULTS[kind], lasting)
            first = (world / "end").read_text() if (world / "end").exists() else ""
            after, _, _ = forked(home, world, disk, 0, 0, lasting=False)
            wrong = verdict(home, world)
            is_believed = failed in ("fsync", "fdatasync") and not code and not (world / "closing").exists()
            if after or wrong or code not in (0, STOPPED) or is_believed:
                last = (world / "end").read_text()[-600:] if (world / "end").exists() else ""
                found["wrong"].append([mark, failed, code, first[-900:], after, last, wrong])
            end = f"{failed} {'stopped' if code else 'went on'}"
            found["ends"][end] = found["ends"].get(end, 0) + 1
    return found


def verdict(home: Path, world: Path) -> list[str]:
    """What the checker says, and whether everything was done."""
    done = (world / "ledger").read_text() if (world / "ledger").exists() else ""
    missing = [deed for deed in DEEDS if f'"{RUN} {deed}"' not in done]
    return check(home / "journal.db", world / "ledger", world / "acknowledged") + [
        f"never done: {one}" for one in missing
    ]


if __name__ == "__main__":
    print(json.dumps(play(sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]))))
