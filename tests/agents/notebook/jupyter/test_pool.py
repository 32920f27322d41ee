"""Several kernels under one roof, and those that a dead detent left behind."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from detent.agents.notebook.jupyter import Kernel, Kernels, kernel_launch, kill_orphans
from detent.agents.notebook.jupyter.kept_kernel import KernelRecords
from detent.core import EffectFailed
from detent.effects.process_census import identity
from tests.agents.notebook.jupyter.kit import is_running, needs_kernel, until, values

pytestmark = needs_kernel


async def test_one_kernel_per_key_started_when_asked_for(tmp_path: Path) -> None:
    async with Kernels(str(tmp_path), env={"SHARED": "1"}) as kernels:
        assert "a" not in kernels
        kernels.begin("b", env={"OWN": "b"})
        one, same, other = await asyncio.gather(kernels.get("a"), kernels.get("a"), kernels.get("b"))
        assert one is same
        assert one is not other
        await one.execute("x = 1")
        done = await other.execute("import os\nfound = [os.environ['SHARED'], os.environ['OWN']]")
        assert values(done) == {"found": ["1", "b"]}
        pids = [one.pid, other.pid]
        await kernels.drop("a")
        await kernels.drop("a")
        assert "a" not in kernels
        assert not is_running(pids[0])
        assert is_running(pids[1])
    assert not any(map(is_running, pids))


async def test_a_kernel_that_could_not_start_is_tried_again_next_time() -> None:
    async with Kernels() as kernels:
        with pytest.raises(EffectFailed):
            await kernels.get("a", name="nosuch")
        assert (await kernels.get("a")).is_alive


async def test_a_waiter_that_leaves_does_not_take_the_start_with_it() -> None:
    async with Kernels() as kernels:
        waiter = asyncio.create_task(kernels.get("a"))
        await asyncio.sleep(0)
        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter
        kernel = await kernels.get("a")
        assert kernel.generation == 1
        await kernels.drop("b")


async def test_leaving_while_a_kernel_starts_ends_it() -> None:
    async with Kernels() as kernels:
        kernel = kernels.begin("a")
        await asyncio.sleep(0)
    assert not kernel.is_alive


HOST = """
import asyncio, sys
from detent.agents.notebook.jupyter import Kernel
async def main():
    kernel = Kernel(home=sys.argv[1])
    await kernel.start()
    code = "import time\\nprint('at work', flush=True)\\ntime.sleep(300)"
    await kernel.execute(code, on_output=lambda _: print(kernel.pid, flush=True))
asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="orphans are found through /proc")
async def test_kernels_of_a_dead_host_are_found_and_killed(tmp_path: Path) -> None:
    home = str(tmp_path)
    env = {**os.environ, "PYTHONPATH": ":".join(sys.path)}
    with subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, "-c", HOST, home], stdout=subprocess.PIPE, env=env, text=True
    ) as host:
        assert host.stdout is not None
        pid = int(await asyncio.to_thread(host.stdout.readline))
        assert kill_orphans(home) == 0, "a living host's kernel is no orphan"
        assert is_running(pid)
        own = kernel_launch.private_folder()
        folders = list(own.parent.glob(f"detent-kernel-{identity(host.pid)}-*"))
        assert len(folders) == 1
        os.kill(pid, signal.SIGSTOP)  # so that it cannot notice by itself that its parent has gone
        host.kill()
        host.wait()
        assert is_running(pid)
        assert kill_orphans(str(tmp_path / "another home")) == 0
        async with Kernels(home):
            await until(lambda: not is_running(pid), "the orphan is gone")
            assert not folders[0].exists()
            assert own.exists(), "that of a living detent stays"
        kernel_launch.remove(own)
    assert kill_orphans(home) == 0


async def test_who_is_stopped_while_going_on_with_a_kept_kernel_leaves_it_as_it_was(tmp_path: Path) -> None:
    async with Kernels(str(tmp_path), keep_s=60) as kernels:
        await (await kernels.get("a")).execute("x = 1")
        assert await kernels.leave("a", 1)
    record = KernelRecords(tmp_path).read("a")
    assert record is not None
    kernel = Kernel(home=str(tmp_path), stays=True)
    try:
        for turns in range(1, 40, 6):
            going = asyncio.create_task(kernel.attach(record))
            for _ in range(turns):
                await asyncio.sleep(0)
            going.cancel()
            await asyncio.wait((going,))
            await kernel.leave(60)
        await kernel.attach(record)
        assert kernel.pid == record.pid
        assert values(await kernel.execute("y = x")) == {"x": 1, "y": 1}
    finally:
        await kernel.shutdown()
