"""Time limits, interrupts, death and restarts: a kernel always comes back, or says that it cannot."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from detent.agents.notebook.jupyter import CellExecution, Kernel
from tests.agents.notebook.jupyter.kit import (
    Heard,
    check_notebook,
    is_running,
    kernel,
    kinds,
    needs_kernel,
    text,
    until,
    values,
)
from tests.effort import PATIENCE_S

pytestmark = needs_kernel

SWALLOWS = """
import time
words = ["begun"]
while True:
    try:
        while words:
            print(words.pop(), flush=True)
        time.sleep(100)
    except KeyboardInterrupt:
        print("ignored", flush=True)
"""
SLEEPS = "import time\nprint('begun', flush=True)\ntime.sleep(100)"


async def test_a_cell_over_its_limit_is_interrupted_and_keeps_its_kernel() -> None:
    async with kernel() as it:
        await it.execute("kept = 1")
        pid = it.pid
        done, limit_s = await overdue(it, SLEEPS, 0.5, grace_s=PATIENCE_S)
        assert (done.status, done.is_restarted, text(done)) == ("timeout", False, "begun\n")
        assert done.error is not None
        assert done.error["ename"] == "TimeLimit"
        assert f"{limit_s:g} s; it was interrupted" in done.error["evalue"]
        assert [row["ename"] for row in done.outputs[1:]] == ["KeyboardInterrupt", "TimeLimit"]
        assert done.duration_s >= limit_s
        assert values(done)["kept"] == 1
        assert it.pid == pid
        assert (await it.execute("kept")).outputs[0]["data"] == {"text/plain": "1"}
        check_notebook(done)


LIMIT_S, GRACE_S = 0.3, 0.7


async def overdue(it: Kernel, code: str, limit_s: float, grace_s: float) -> tuple[CellExecution, float]:
    """A cell over its limit that had begun by then, and the limit; slow machines get a longer one."""
    while True:
        done = await it.execute(code, timeout_s=limit_s, grace_s=grace_s)
        if "begun" in text(done):
            return done, limit_s
        limit_s *= 2
        assert limit_s < PATIENCE_S, done
        await it.start()


async def swallow(times: int) -> None:
    """A cell that ignores interrupts is ended with its kernel, so many times."""
    async with kernel() as it:
        for _ in range(times):
            await it.start()
            generation = it.generation
            done, _limit_s = await overdue(it, SWALLOWS, LIMIT_S, GRACE_S)
            assert (done.status, done.is_restarted, done.variables) == ("timeout", True, {})
            assert "begun\nignored\n".startswith(text(done))
            await it.start()
            assert it.generation > generation


async def test_a_cell_that_ignores_interrupts_is_ended_20_of_20_times() -> None:
    await asyncio.gather(swallow(10), swallow(10))


async def test_a_killed_kernel_is_noticed_and_its_output_kept() -> None:
    async with kernel() as it:
        heard = Heard()
        for code in (SLEEPS, "print('begun', flush=True)\nwhile True: pass"):
            task = asyncio.create_task(it.execute(code, on_output=heard))
            await heard.word("begun")
            heard = Heard()
            os.kill(it.pid, signal.SIGKILL)
            done = await task
            assert (done.status, text(done), kinds(done)) == ("dead", "begun\n", ["stream", "error"])
            assert (done.error or {})["evalue"] == "the kernel was ended by SIGKILL"
            assert not it.is_alive
            again = await it.execute("1")
            assert (again.status, (again.error or {})["evalue"]) == ("dead", "the kernel is not running; restart it")
            await it.restart()
            assert (await it.execute("1")).status == "ok"
            check_notebook(done)


async def test_a_kernel_that_ends_itself_says_how() -> None:
    async with kernel() as it:
        done = await it.execute("import os\nos.write(1, b'last words')\nos._exit(3)")
        assert (done.status, text(done)) == ("dead", "last words")
        assert (done.error or {})["evalue"] == "the kernel ended with exit code 3"
        await it.start()
        assert it.is_alive
        crashed = await it.execute("import ctypes\nctypes.string_at(0)")
        assert (crashed.error or {})["evalue"] == "the kernel was ended by SIGSEGV"
        assert "Segmentation fault" in text(crashed, "stderr"), "where it crashed is said"


async def test_an_interrupt_from_outside_ends_the_cell_only() -> None:
    async with kernel() as it:
        heard = Heard()
        await it.interrupt()
        task = asyncio.create_task(it.execute(SLEEPS, on_output=heard))
        await heard.word("begun")
        await it.interrupt()
        done = await task
        assert (done.status, (done.error or {})["ename"]) == ("interrupted", "KeyboardInterrupt")
        assert (await it.execute("2")).status == "ok"
        for turns in range(6):  # however early the interrupt comes, it is not lost
            task = asyncio.create_task(it.execute("import time\ntime.sleep(100)", timeout_s=PATIENCE_S))
            for _ in range(turns):
                await asyncio.sleep(0)
            await asyncio.sleep(0)
            await it.interrupt()
            assert (await task).status == "interrupted"
        own = await it.execute("raise KeyboardInterrupt")
        assert own.status == "error", "nobody interrupted it"


async def test_a_stopped_process_is_killed_after_limit_and_grace() -> None:
    async with kernel() as it:
        os.kill(it.pid, signal.SIGSTOP)
        done = await it.execute("1", timeout_s=0.3, grace_s=0.5)
        assert (done.status, done.is_restarted) == ("timeout", True)
        assert values(await it.execute("x = 1")) == {"x": 1}


async def test_a_cancelled_caller_stops_the_cell_and_the_kernel_goes_on() -> None:
    async with kernel() as it:
        pid = it.pid
        heard = Heard()
        task = asyncio.create_task(it.execute(SLEEPS, on_output=heard))
        await heard.word("begun")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert values(await it.execute("x = 1"))["x"] == 1
        assert it.pid == pid

        heard = Heard()
        task = asyncio.create_task(it.execute(SWALLOWS, grace_s=0.2, on_output=heard))
        await heard.word("begun")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: not is_running(pid), "the stubborn one is gone")
        assert (await it.execute("1")).status == "ok"
        assert it.generation == 2


async def test_a_restart_ends_the_cell_at_work_and_everything_it_started(tmp_path: Path) -> None:
    code = """
import subprocess
child = subprocess.Popen(['sleep', '300'])
print('begun', child.pid, flush=True)
child.wait()
"""
    async with kernel() as it:
        heard = Heard()
        task = asyncio.create_task(it.execute(code, on_output=heard))
        await heard.word("begun")
        child = int("".join(row.get("text", "") for row in heard.outputs).split()[1])
        assert is_running(child)
        await it.restart()
        assert (await task).status == "dead"
        await until(lambda: not is_running(child), "the child is gone")
        done = await it.execute("1")
        assert (done.status, done.variables, it.generation) == ("ok", {}, 2)


async def test_shutting_down_a_busy_kernel_does_not_wait_for_it() -> None:
    it = Kernel()
    await it.start()
    heard = Heard()
    task = asyncio.create_task(it.execute(SWALLOWS, on_output=heard))
    await heard.word("begun")
    await it.shutdown()  # the cell itself would never end
    assert (await task).status == "dead"
    before = len(os.listdir("/proc/self/fd"))
    async with kernel():
        pass
    assert len(os.listdir("/proc/self/fd")) == before, "nothing is left open"


async def test_nobody_who_waits_in_line_holds_up_the_end() -> None:
    it = Kernel()
    await it.start()
    done, *_ = await overdue(it, SWALLOWS, 0.1, grace_s=0.2)
    assert done.is_restarted
    waiting = [asyncio.create_task(it.execute(SWALLOWS)) for _ in range(3)]  # the new kernel is still starting
    await asyncio.sleep(0)
    await it.shutdown()
    assert [(await task).status for task in waiting] == ["dead"] * 3
    await it.start()
    heard = Heard()
    first, second = asyncio.create_task(it.execute(SWALLOWS, on_output=heard)), asyncio.create_task(it.execute("1"))
    await heard.word("begun")
    await it.restart()
    assert [(await first).status, (await second).status] == ["dead", "dead"]
    assert (await it.execute("1")).status == "ok"
    await it.shutdown()


async def test_a_start_that_is_cancelled_leaves_nothing(tmp_path: Path) -> None:
    for turns in (1, 3, 30):
        it = Kernel(home=str(tmp_path))
        task = asyncio.create_task(it.start())
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not it.is_alive
    await until(lambda: not marked(str(tmp_path)), "no process of ours is left")


def marked(home: str) -> list[str]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if f"DETENT_KERNEL={home}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                found.append(entry.name)
        except OSError:
            continue
    return found
