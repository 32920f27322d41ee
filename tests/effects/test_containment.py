"""Programs under a supervisor: whatever they start, nobody is left, not even when detent itself is killed."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from detent.effects import containment
from detent.effects.containment import Contained
from detent.effects.process import Ears, NotStarted

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has subreapers")

# A daemon by the book, which also forgets every mark it carries: new session, two forks, an empty environment.
DAEMON = """
import os, sys, time
BEAT = "import os, signal, time\\nsignal.signal(15, signal.SIG_IGN)\\n" \
       "while True:\\n    open('beat', 'a').write('x'); time.sleep(0.005)"
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2): os.dup2(null, fd)
        os.execve(sys.executable, [sys.executable, "-I", "-S", "-c", BEAT], {})
    os._exit(0)
while not os.path.exists("beat"): time.sleep(0.005)
"""
# A new child before every death: killing what is seen one by one never ends.
BOMB = """
import os, time
until = time.monotonic() + 15  # should the supervisor ever fail, the machine must not suffer for long
for _ in range(6):
    if os.fork() == 0:
        os.setsid()
        while time.monotonic() < until:
            if os.fork(): os._exit(0)
            time.sleep(0.002)
        os._exit(0)
time.sleep(0.1)
"""


async def run(script: str, cwd: Path, ears: Ears | None = None) -> Contained:
    argv = [sys.executable, "-I", "-S", "-c", script]
    return await containment.run(argv, dict(os.environ), str(cwd), None, f"k-{cwd}", ears or Ears())


def at_home(folder: Path) -> list[int]:
    """Who works in that folder."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdecimal() and (entry / "cwd").readlink() == folder:
                found.append(int(entry.name))
    return found


async def test_a_program_ends_as_it_would_without_a_supervisor(tmp_path: Path) -> None:
    done = await run("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)", tmp_path)
    assert done == Contained(3, "out\n", "err\n", False)
    assert (await run("import os; os.kill(os.getpid(), 11)", tmp_path)).exit == -11


async def test_a_program_that_is_not_there_says_so(tmp_path: Path) -> None:
    with pytest.raises(NotStarted) as caught:
        await containment.run(["no-such-program-here"], dict(os.environ), str(tmp_path), None, "")
    assert isinstance(caught.value.__cause__, FileNotFoundError)


async def test_a_daemon_without_marks_is_ended(tmp_path: Path) -> None:
    done = await run(DAEMON, tmp_path)
    assert (done.exit, done.swept, done.problem) == (0, 1, "")
    assert at_home(tmp_path) == []


async def test_one_who_forks_faster_than_it_is_killed_is_caught(tmp_path: Path) -> None:
    done = await run(BOMB, tmp_path)
    assert done.exit == 0
    assert done.swept >= 6
    assert done.problem == ""


async def test_a_cancelled_program_leaves_nobody(tmp_path: Path) -> None:
    going = asyncio.create_task(run(DAEMON + "\ntime.sleep(60)", tmp_path))
    while not (tmp_path / "beat").exists():  # noqa: ASYNC110  # another process makes it
        await asyncio.sleep(0.01)
    going.cancel()
    with pytest.raises(asyncio.CancelledError):
        await going
    assert at_home(tmp_path) == []


async def test_the_supervisor_is_known_before_the_program_exists(tmp_path: Path) -> None:
    def born(pid: int) -> None:
        assert Path(f"/proc/{pid}/cmdline").exists()
        (tmp_path / "known").write_text(str(pid))

    done = await run("assert open('known').read()", tmp_path, Ears(born))
    assert done.exit == 0


async def test_killed_supervisors_are_told_of(tmp_path: Path) -> None:
    done = await run("import os, time; os.kill(os.getppid(), 9); time.sleep(0.2)", tmp_path)
    assert "supervisor" in done.problem


def test_nobody_outlives_a_detent_that_is_killed(tmp_path: Path) -> None:
    driver = f"""
import asyncio, os
from detent.effects import containment
argv = [{sys.executable!r}, "-I", "-S", "-c", {DAEMON + "time.sleep(60)"!r}]
asyncio.run(containment.run(argv, dict(os.environ), {str(tmp_path)!r}, None, ""))
"""
    host = subprocess.Popen([sys.executable, "-c", driver])
    beat, until = tmp_path / "beat", time.monotonic() + 30
    while not beat.exists() and time.monotonic() < until:
        time.sleep(0.01)
    assert at_home(tmp_path)
    host.send_signal(signal.SIGKILL)
    host.wait()
    while at_home(tmp_path) and time.monotonic() < until:  # the supervisor has to notice first
        time.sleep(0.01)
    assert at_home(tmp_path) == []
