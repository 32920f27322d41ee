"""The kernels of one detent: one per key, started when first asked for, shut down together."""

import asyncio
from collections.abc import Mapping
from typing import Self

from detent.agents.notebook.jupyter.kernel import POLITE_S, Kernel
from detent.agents.notebook.jupyter.spec import remove_leftovers
from detent.effects.orphan import kill_orphans
from detent.effects.sandbox import NO_WISH, SandboxWish


class Kernels:
    """A registry: `async with Kernels(home) as kernels: kernel = await kernels.get(run_id)`.

    Entering it first ends what a dead detent of the same home left running.
    """

    def __init__(
        self, home: str = "", *, name: str = "python3", cwd: str = ".", env: Mapping[str, str] | None = None
    ) -> None:
        self.home = home
        self._name = name
        self._cwd = cwd
        self._env = dict(env or {})
        self._kernels: dict[str, tuple[Kernel, asyncio.Task[None]]] = {}

    async def __aenter__(self) -> Self:
        if self.home:
            await asyncio.to_thread(kill_orphans, self.home)
            await asyncio.to_thread(remove_leftovers)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.shutdown()

    def __contains__(self, key: object) -> bool:
        return key in self._kernels

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
            kernel = Kernel(name or self._name, cwd=cwd or self._cwd, env=env, home=self.home, wish=wish)
            self._kernels[key] = kernel, asyncio.get_running_loop().create_task(kernel.start())
        return self._kernels[key][0]

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

    async def shutdown(self, polite_s: float = POLITE_S) -> None:
        """Shut every kernel down, all at once."""
        await asyncio.gather(*(self.drop(key, polite_s) for key in list(self._kernels)))
