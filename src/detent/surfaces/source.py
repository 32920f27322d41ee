"""Where a run's effects are found again: in its definition file, with the agent it belongs to, or with both.

A source is the path of a file, `agent:NAME`, or `agent:NAME FILE` for an agent that was given tools of a file. Any verb
may move a run of an agent (`detent approve`, `detent resume`), so every host can find its effects; an agent's modules
are imported when the first of its runs is driven, not before.
"""

from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Self

from detent.core.deed import Effect
from detent.define import find_effects

if TYPE_CHECKING:
    from detent.agents.notebook.service import Notebooks
    from detent.host.port import Reader

AGENT = "agent:"


def of_agent(name: str, file: str = "") -> str:
    """The source of an agent's run."""
    return f"{AGENT}{name} {file}".rstrip()


class Sources:
    """Finds the effects of runs for one host, and lets go at the end of what the agents held open."""

    def __init__(self, home: Path, warn: Callable[[str], object], reader: "Reader | None" = None) -> None:
        self._home, self._warn, self._reader = home, warn, reader
        self._notebooks: Notebooks | None = None
        self._open = AsyncExitStack()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._open.aclose()

    def find(self, source: str) -> dict[str, Effect]:
        """The effects of a run that was begun from this source."""
        if not source.startswith(AGENT):
            return find_effects(source, self._warn)
        name, _, file = source.removeprefix(AGENT).partition(" ")
        return {**(find_effects(file, self._warn) if file else {}), **self._agent(name)}

    def _agent(self, name: str) -> dict[str, Effect]:
        if name == "assistant":
            from detent.surfaces.assistant import agent_effects

            return agent_effects(self._home)
        if name == "coding":
            from detent.agents.coding.effects import effects

            return effects()
        return self._notebook() if name == "notebook" else {}

    def _notebook(self) -> dict[str, Effect]:
        if self._notebooks is None:
            from detent.agents.notebook.service import Notebooks

            self._notebooks = Notebooks(self._home, reader=self._reader)
            self._open.push_async_callback(self._notebooks.close)
        return self._notebooks.effects()
