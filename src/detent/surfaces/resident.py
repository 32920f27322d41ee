"""The agents that live in this process: their effects, known to every host it opens.

A run of an agent may be moved by any verb (`detent approve`, `detent resume`), so every host must know its effects.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from detent.core.deed import Effect


@asynccontextmanager
async def agents_of(home: Path) -> AsyncIterator[dict[str, Effect]]:
    """The effects of every agent, by name; what they hold open is let go at the end."""
    from detent.agents.notebook.service import Notebooks

    async with Notebooks(home) as notebooks:
        yield notebooks.effects()
