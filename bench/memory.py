"""How many megabytes 10,000 waiting runs add to a host; prints the number."""

import asyncio
import resource

from bench.engine import DOOR, folder, noop
from detent.host.embedded import EmbeddedHost


async def grown_mb() -> float:
    """Start them, and look at the highest mark the process has reached."""
    with folder() as home:
        async with EmbeddedHost(home, [noop], sync="off") as host:
            await host.start(DOOR)
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            for _ in range(10):
                await asyncio.gather(*(host.start(DOOR) for _ in range(1000)))
            return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


if __name__ == "__main__":
    print(asyncio.run(grown_mb()))
