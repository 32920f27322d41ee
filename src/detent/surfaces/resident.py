"""The agents that live in this process: their effects, known to every host it opens and loaded when first called.

A run of an agent may be moved by any verb (`detent approve`, `detent resume`), so every host must know its effects.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from detent.agents.notebook.declared import DECLARED
from detent.core.contract import Contract
from detent.core.deed import Declared, Effect, Outcome

if TYPE_CHECKING:
    from detent.agents.notebook.service import Notebooks


class _Resident:
    """The notebook agent of a home, made when its first effect is called."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._notebooks: Notebooks | None = None

    def effect(self, name: str, declared: Declared) -> Effect:
        """An effect that loads its agent when it is called."""

        async def perform(contract: Contract) -> Outcome:
            from detent.agents.notebook.service import Notebooks

            if self._notebooks is None:
                self._notebooks = Notebooks(self._home)
            done = await self._notebooks.effects()[name].perform(contract)
            return done if isinstance(done, Outcome) else Outcome(done)

        return Effect(name, perform, declared)

    async def close(self) -> None:
        """Let go of kernels and journal."""
        if self._notebooks is not None:
            await self._notebooks.close()


@asynccontextmanager
async def agents_of(home: Path) -> AsyncIterator[dict[str, Effect]]:
    """The effects of every agent, by name; what they hold open is let go at the end."""
    resident = _Resident(home)
    try:
        yield {name: resident.effect(name, declared) for name, declared in DECLARED.items()}
    finally:
        await resident.close()
