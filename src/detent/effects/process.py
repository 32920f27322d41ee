"""Programs of this machine: started in a session of their own, never outliving a cancelled caller, found after a crash.

Each process carries marks in its environment, which its descendants inherit: `DETENT_CONTRACT` and `DETENT_KEY` (the
contract's idempotency key) and `DETENT_CALL` (which call of which detent process started it). Through them
`kill_leftovers` finds on Linux what a crashed detent left running. It spares what another living detent is doing.
"""

import asyncio
import contextlib
import errno
import glob
import itertools
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import msgspec

from detent.effects import process_census
from detent.effects.capture import Pipe
from detent.effects.process_census import carriers, identity, lives
from detent.effects.sandbox import OPEN, Sandbox, read_status

GRACE_S = 1.0  # between the polite and the final signal
LINGER_S = 0.5  # how long output may still come once the process itself has ended
REAP_S = 5.0
POLL_S = 0.02

_numbers = itertools.count(1)
_live: set[str] = set()  # the calls of this process that are at work now


class NotStarted(Exception):
    """The program could not even be started; the cause says why."""


class Finished(msgspec.Struct, frozen=True):
    """How a process ended: its exit code (minus the signal's number if one ended it) and what it wrote."""

    exit: int
    stdout: str
    stderr: str
    is_cut: bool


class Ears(msgspec.Struct, frozen=True):
    """Who wants to know of a process while it runs: its number when it is born, its output as it comes."""

    born: Callable[[int], None] | None = None
    stdout: Callable[[bytes], None] | None = None
    stderr: Callable[[bytes], None] | None = None


DEAF = Ears()


async def run(  # noqa: PLR0913, PLR0917  # most have the right default
    argv: list[str],
    env: dict[str, str],
    cwd: str,
    stdin: str | None,
    key: str,
    ears: Ears = DEAF,
    fds: tuple[int, ...] = (),
    patience_s: float = GRACE_S,
    sandbox: Sandbox = OPEN,
) -> Finished:
    """Run a program to its end; if the caller is cancelled, its whole process group is killed first.

    A background process that it leaves behind is left alone: we wait a moment for its output and then let go of it
    (`containment` does not). `fds` are open for the program too; `patience_s` is what it has to end by itself.
    """
    with (
        _output(ears.stdout) as stdout,
        _output(ears.stderr) as stderr,
        _call() as call,
        _open_status(sandbox) as status,
    ):
        if sandbox.prefix:
            _check_program(argv[0], env, cwd)
        held, fds = sandbox.command(argv, status.writer), (*fds, *status.fds)
        child = _start(held, {**env, **_marks(key, call)}, cwd, stdin, (stdout.writer, stderr.writer), fds)
        stdout.release()
        stderr.release()
        try:
            if ears.born is not None:
                ears.born(child.pid)
            await _wait_exit(child)
            child.wait()
            await _wait_pipes(stdout, stderr)
        except BaseException:
            await _kill(child, patience_s)
            raise
        is_cut = stdout.capture.is_cut or stderr.capture.is_cut
        if child.returncode > 0 and status.is_missing():
            raise NotStarted from OSError(errno.ECANCELED, f"its sandbox said: {stderr.capture.text().strip()[-300:]}")
        code = sandbox.exit_code(child.returncode)
        return Finished(code, stdout.capture.text(), stderr.capture.text(), is_cut)


class _Status:
    """What bubblewrap says of the program: whether it was started at all."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._reader, self.writer = os.pipe() if sandbox.is_bubble else (-1, -1)
        self.fds = (self.writer,) if sandbox.is_bubble else ()

    def is_missing(self) -> bool:
        """Whether the program was not started; it has ended when this is asked."""
        return self._reader >= 0 and not read_status(self._reader)

    def close(self) -> None:
        for fd in (self._reader, self.writer):
            if fd >= 0:
                os.close(fd)


@contextlib.contextmanager
def _open_status(sandbox: Sandbox) -> Iterator[_Status]:
    status = _Status(sandbox)
    try:
        yield status
    finally:
        status.close()


def _check_program(name: str, env: dict[str, str], cwd: str) -> None:
    """Refuse a program that cannot be started as the system would: what runs it in a sandbox says so less clearly."""
    places = [""] if "/" in name else os.get_exec_path(env)
    paths = [os.path.join(cwd, place, name) for place in places]
    if any(os.access(path, os.X_OK) and not os.path.isdir(path) for path in paths):
        return
    number = errno.EACCES if any(os.path.exists(path) for path in paths) else errno.ENOENT
    raise NotStarted from OSError(number, os.strerror(number), name)


def _start(
    argv: list[str], env: dict[str, str], cwd: str, stdin: str | None, outputs: tuple[int, int], fds: tuple[int, ...]
) -> subprocess.Popen[bytes]:
    # Not asyncio's own way: that one awaits in the middle, and a cancel at that moment would lose the process group.
    try:
        with _source(stdin) as source:
            return subprocess.Popen(  # noqa: S603
                argv,
                env=env,
                cwd=cwd,
                stdin=source,
                stdout=outputs[0],
                stderr=outputs[1],
                start_new_session=True,
                pass_fds=fds,
            )
    except (OSError, ValueError) as error:
        raise NotStarted from error


@contextlib.contextmanager
def _output(hear: Callable[[bytes], None] | None) -> Iterator[Pipe]:
    pipe = Pipe(hear)
    try:
        yield pipe
    finally:
        pipe.close()


@contextlib.contextmanager
def _call() -> Iterator[str]:
    call = f"{identity(os.getpid())}/{next(_numbers)}"
    _live.add(call)
    try:
        yield call
    finally:
        _live.discard(call)


@contextlib.contextmanager
def _source(text: str | None) -> Iterator[int | IO[bytes]]:
    """Standard input: nothing, or a file in memory (a pipe would need a writer, and the program may never read)."""
    if text is None:
        yield subprocess.DEVNULL
        return
    with os.fdopen(os.memfd_create("stdin"), "w+b") if sys.platform == "linux" else tempfile.TemporaryFile() as file:
        file.write(text.encode())
        file.seek(0)
        yield file


def _marks(key: str, call: str) -> dict[str, str]:
    return {"DETENT_CONTRACT": key, "DETENT_KEY": key, "DETENT_CALL": call} if key else {"DETENT_CALL": call}


async def _wait_exit(child: subprocess.Popen[bytes]) -> None:
    """Return when the process has ended."""
    if child.returncode is not None:
        return
    try:
        if sys.platform != "linux":
            raise OSError
        fd = os.pidfd_open(child.pid)
    except OSError:  # another system, or a very old kernel
        while child.poll() is None:  # noqa: ASYNC110  # there is nothing that would set an event
            await asyncio.sleep(POLL_S)
        return
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(fd, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(fd)
        os.close(fd)


async def _wait_pipes(*pipes: Pipe) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LINGER_S):
            for pipe in pipes:
                await pipe.ended.wait()
    for pipe in pipes:
        pipe.rest()


async def _kill(child: subprocess.Popen[bytes], patience_s: float) -> None:
    """End a process group: politely, then surely; a second cancel only shortens the politeness."""
    try:
        _signal_group(child.pid, signal.SIGTERM)
        async with asyncio.timeout(patience_s):
            await _wait_exit(child)
            while child.poll() is None or _signal_group(child.pid, 0):  # noqa: ASYNC110  # nobody tells us
                await asyncio.sleep(POLL_S)
    except TimeoutError:
        pass
    finally:
        _signal_group(child.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(REAP_S)  # blocks for a moment only: nobody survives that signal


def _signal_group(group: int, number: int) -> bool:
    """Signal a process group; whether there was one."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def first_child(pid: int) -> int:
    """The first process that another one has started and that still runs; the other one itself if there is none."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()[0])
    return pid


def signal_inside(pid: int, number: int) -> None:
    """Signal everybody that a process has started, and not itself."""
    todo = [pid]
    while todo:
        for path in glob.glob(f"/proc/{todo.pop()}/task/*/children"):
            with contextlib.suppress(OSError):
                found = [int(one) for one in Path(path).read_text(encoding="ascii").split()]
                todo += found
                for child in found:
                    os.kill(child, number)


def kill_leftovers(key: str) -> int:
    """Kill what an interrupted contract of this key left running on this machine; how many processes that were.

    Blocks until they are gone (a few seconds at most); where processes cannot be seen it finds nothing. A process
    that took the marks out of its environment and left its process group cannot be found.
    """
    seen: set[int] = set()
    begun = time.monotonic()
    while found := set(_leftovers(key)):
        waited_s = time.monotonic() - begun
        if waited_s > GRACE_S + REAP_S:
            break
        for pid in found if waited_s > GRACE_S else found - seen:
            _end_leftover(pid, signal.SIGKILL if waited_s > GRACE_S else signal.SIGTERM)
        seen |= found
        time.sleep(POLL_S)
    return len(seen)


def _leftovers(key: str) -> Iterator[int]:
    if not key:
        return
    for pid, found in carriers(f"DETENT_CONTRACT={key}"):
        if pid != os.getpid() and not _is_at_work(process_census.value(found, "DETENT_CALL")):
            yield pid


def _is_at_work(call: str) -> bool:
    """Whether the call that started a process still runs, here or in another living detent."""
    owner = call.partition("/")[0]
    return call in _live if owner == identity(os.getpid()) else lives(owner)


def _end_leftover(pid: int, number: int) -> None:
    with contextlib.suppress(OSError):
        group = os.getpgid(pid)
        if group != os.getpgrp():
            os.killpg(group, number)
        os.kill(pid, number)
