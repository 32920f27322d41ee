"""The kernels of one detent: one per key, started when first asked for, shut down together."""

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from detent.agents.notebook.jupyter.kept_kernel import KernelRecords, record_of
from detent.agents.notebook.jupyter.kernel import POLITE_S, Kernel
from detent.agents.notebook.jupyter.kernel_launch import remove_leftovers
from detent.effects.orphan_process import kill_orphans
from detent.effects.sandbox import NO_WISH, SandboxWish


class Kernels:
    """A registry: `async with Kernels(home) as kernels: kernel = await kernels.get(run_id)`.

    Entering it first ends what a dead detent of the same home left running.
    """

    def __init__(
        self,
        home: str = "",
        *,
        name: str = "python3",
        cwd: str = ".",
        env: Mapping[str, str] | None = None,
        keep_s: float = 0.0,
    ) -> None:
        self.home = home
        self._keep_s = keep_s  # how long a kernel that was left waits for the next detent; 0: none is left
        self._records = KernelRecords(Path(home))
        self._name = name
        self._cwd = cwd
        self._env = dict(env or {})
        self._kernels: dict[str, tuple[Kernel, asyncio.Task[None]]] = {}
        self._unmarked: set[str] = set()  # whose marks were dealt with: a dead detent leaves no more of them

    async def __aenter__(self) -> Self:
        if self.home:
            await asyncio.to_thread(self._records.keep_marks)
            kept = {record.pid for record in self._records.all() if record.is_kept}
            await asyncio.to_thread(kill_orphans, self.home, spared=kept)
            await asyncio.to_thread(self._records.keep_marks)  # without a sandbox they outlive it till here
            await asyncio.to_thread(remove_leftovers)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.shutdown()

    def __contains__(self, key: object) -> bool:
        return key in self._kernels

    def is_asking(self, key: str) -> bool:
        """Whether the kernel of that key waits in a cell for input."""
        return key in self._kernels and self._kernels[key][0].is_asking

    def begin(
        self,
        key: str,
        *,
        name: str = "",
        cwd: str = "",
        env: Mapping[str, str] | None = None,
        wish: SandboxWish = NO_WISH,
    ) -> Kernel:
        """Let a kernel start while something else is being done; what differs from the registry's defaults is given."""
        if key not in self._kernels:
            env = {**self._env, **(env or {})}
            kernel = Kernel(
                name or self._name, cwd=cwd or self._cwd, env=env, home=self.home, wish=wish, stays=self._keep_s > 0
            )
            self._kernels[key] = kernel, asyncio.get_running_loop().create_task(self._start(key, kernel))
        return self._kernels[key][0]

    async def _start(self, key: str, kernel: Kernel) -> None:
        """Start a kernel; with one that was kept for this key, go on there."""
        record = self._records.read(key) if self._keep_s else None
        if record is not None and record.is_kept:
            await kernel.attach(record)
        await kernel.start()
        self.note(key, 0 if record is None else record.executed)

    def note(self, key: str, executed: int, until: float = 0.0) -> None:
        """Enter the kernel of that key into the home's records: which process it is, and how much it has run."""
        link = self._kernels[key][0].link if key in self._kernels else None
        if self.home and link is not None:
            self._records.write(record_of(key, link, executed, until))

    def list_marks(self, key: str, code: str) -> list[str]:
        """What a cell was about to do to the world when its kernel and its detent died."""
        return self._records.list_marks(key, code) if self.home and key not in self._unmarked else []

    def forget_marks(self, key: str) -> None:
        """What was marked has been dealt with."""
        if self.home and key not in self._unmarked:
            self._records.forget_marks(key)
            self._unmarked.add(key)

    def count_executed(self, key: str) -> int:
        """How many cells of the journal the kernel of that key has run, where it was kept for us; else 0."""
        kernel = self._kernels[key][0] if key in self._kernels else None
        return kernel.executed_before if kernel is not None else 0

    async def leave(self, key: str, executed: int) -> bool:
        """Leave a kernel to its keeper, so that the next detent goes on in it; false where it cannot stay."""
        if key not in self._kernels or not self._keep_s:
            return False
        kernel, starting = self._kernels[key]
        if not starting.done() or starting.cancelled() or starting.exception() is not None or not kernel.can_stay:
            return False
        self.note(key, executed, time.time() + self._keep_s)
        del self._kernels[key]
        await kernel.leave(int(self._keep_s))
        return True

    def running(self, key: str) -> Kernel | None:
        """The kernel of that key, where it has started and lives."""
        kernel, starting = self._kernels.get(key, (None, None))
        return kernel if kernel is not None and starting is not None and starting.done() and kernel.is_alive else None

    async def get(
        self,
        key: str,
        *,
        name: str = "",
        cwd: str = "",
        env: Mapping[str, str] | None = None,
        wish: SandboxWish = NO_WISH,
    ) -> Kernel:
        """The kernel of that key, started; one that could not start is forgotten, so that the next call tries again."""
        kernel = self.begin(key, name=name, cwd=cwd, env=env, wish=wish)
        starting = self._kernels[key][1]
        try:
            await asyncio.shield(starting)
        except Exception:
            self._kernels.pop(key, None)
            raise
        return kernel

    async def drop(self, key: str, polite_s: float = POLITE_S) -> None:
        """Shut the kernel of that key down, if there is one."""
        if key in self._kernels:
            kernel, starting = self._kernels.pop(key)
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
            await kernel.shutdown(polite_s)
            if self.home:
                self._records.remove(key)

    async def shutdown(self, polite_s: float = POLITE_S) -> None:
        """Shut every kernel down, all at once."""
        await asyncio.gather(*(self.drop(key, polite_s) for key in list(self._kernels)))
