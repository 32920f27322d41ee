"""Processes that a step has left behind and that this process has adopted: somebody must take leave of them."""

import asyncio
import contextlib
import os

from detent.host.process_origin import dead_children

BURIAL_S = 30.0


async def bury_orphans() -> None:
    """Take leave of those that have ended; whoever started one itself has done so long before."""
    seen = set[int]()
    while True:
        await asyncio.sleep(BURIAL_S)
        dead = dead_children()
        for pid in dead & seen:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)  # noqa: ASYNC222  # it does not wait
        seen = dead - seen
