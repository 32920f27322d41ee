"""Programs that must not leave anybody behind: a supervisor of ours keeps each, with every process it starts.

`process.run` kills a process group; a daemon is in none of ours. The supervisor is the daemon's subreaper, so it finds
and ends it too, before this module says that the program is done, and also when detent itself is killed with -9. What
it cannot reach: processes of another user, those that a service of the machine starts on request (cron, systemd, a
container engine), and anybody after the program has killed its supervisor, which runs as the same user. On systems
other than Linux it reaches the program's process group only.
"""

import contextlib
import os
import sys

import msgspec

from detent.effects import process, supervisor
from detent.effects.process import DEAF, Ears, NotStarted
from detent.effects.sandbox import OPEN, Sandbox

PATIENCE_S = supervisor.POLITE_S + supervisor.SURE_S + 2.0
REPORT_BYTES = 4096
KILLED = -9


class Space(msgspec.Struct, frozen=True):
    """What a program may do to the disk: how much it may fill (one file, or all in all), what it must leave; 0: any."""

    growth_bytes: int = 0
    reserve_bytes: int = 0


ANY = Space()


class Contained(msgspec.Struct, frozen=True):
    """How a program ended, what it wrote, how many of its processes had to be ended, and what could not be done."""

    exit: int
    stdout: str
    stderr: str
    is_cut: bool
    swept: int = 0
    problem: str = ""
    disk: str = ""  # why it was ended: what it did to the disk


async def run(  # noqa: PLR0913, PLR0917  # most have the right default
    argv: list[str], env: dict[str, str], cwd: str, stdin: str | None, key: str, ears: Ears = DEAF,
    space: Space = ANY, sandbox: Sandbox = OPEN, fds: tuple[int, ...] = (),
) -> Contained:  # fmt: skip
    """Run a program to its end; when this returns or is cancelled, nobody who came from it is left.

    `ears.born` hears the supervisor's number before the program exists. In a sandbox the supervisor is inside too.
    `fds` are open for the program.
    """
    with contextlib.ExitStack() as pipes:
        pulse, lifeline = _pipe(pipes)
        said, report = _pipe(pipes)

        def born(pid: int) -> None:
            if ears.born is not None:
                ears.born(pid)
            os.write(lifeline, b"g")

        bounds = (pulse, report, space.growth_bytes, space.reserve_bytes)
        keeper = [sys.executable, "-I", "-S", supervisor.__file__, *map(str, bounds)]
        hearing = Ears(born, ears.stdout, ears.stderr)
        open_for_it = (pulse, report, *fds)
        done = await process.run([*keeper, *argv], env, cwd, stdin, key, hearing, open_for_it, PATIENCE_S, sandbox)
        os.set_blocking(said, False)
        try:
            word, *numbers = os.read(said, REPORT_BYTES).decode().split()
        except (BlockingIOError, ValueError):
            problem = "the supervisor of the program was killed; processes without our mark may be left"
            return Contained(KILLED, done.stdout, done.stderr, done.is_cut, problem=problem)
    if word == "failed":
        code = int(numbers[0])
        raise NotStarted from OSError(code, os.strerror(code), argv[0])
    code, swept, left = map(int, numbers[:3])
    problem = f"{left} of its processes could not be ended" if left else ""
    return Contained(code, done.stdout, done.stderr, done.is_cut, swept, problem, _trouble(numbers[3:], space))


def _trouble(told: list[str], space: Space) -> str:
    """What a program did to the disk, in a sentence."""
    if not told:
        return ""
    count = int(told[1])
    return {
        "grown": f"the disk has {count:,} bytes less than when it began; it may use {space.growth_bytes:,}",
        "scarce": f"only {count:,} bytes are left on the disk",
        "files": f"the disk has room for only {count:,} more files",
    }.get(told[0], told[0])


def _pipe(fds: contextlib.ExitStack) -> tuple[int, int]:
    reader, writer = os.pipe()
    fds.callback(os.close, reader)
    fds.callback(os.close, writer)
    return reader, writer
