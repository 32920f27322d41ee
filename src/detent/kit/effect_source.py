"""Where a run's effects are found again: in its definition file, with the agent it belongs to, or with both.

A source is the path of a file, `agent:NAME`, `agent:NAME FILE` for an agent that was given tools of a file, or
`caller:…` for a function of somebody's program (`detent.guard`). Any verb may move a run of an agent (`detent
approve`, `detent resume`), so every host can find its effects; an agent's modules are imported when the first of its
runs is driven, not before.
"""

from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Self

from msgspec.structs import replace

from detent.core.effect_type import Effect
from detent.define import find_effects
from detent.effects.remote_function import CALLER_MARK, make_caller_effect
from detent.errors import DefinitionError, Refused
from detent.kit.agent import MARK, Surroundings, find_agent

if TYPE_CHECKING:
    from detent.host.port import Reader


class Sources:
    """Finds the effects of runs for one host, and lets go at the end of what the agents held open."""

    def __init__(self, home: Path, warn: Callable[[str], object], reader: "Reader | None" = None) -> None:
        self._home, self._warn, self._reader = home, warn, reader
        self._opened: dict[str, Mapping[str, Effect]] = {}
        self._open = AsyncExitStack()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close what the agents have opened."""
        await self._open.aclose()

    def find(self, source: str) -> dict[str, Effect]:
        """The effects of a run that was begun from this source; an agent that is not here is an error (`Refused`)."""
        if source.startswith(CALLER_MARK):
            found = make_caller_effect(self._home, source)
            return {found.name: found}
        if not source.startswith(MARK):
            return find_effects(source, self._warn)
        name, _, file = source.removeprefix(MARK).partition(" ")
        return {**(find_effects(file, self._warn) if file else {}), **self._agent(name)}

    def _agent(self, name: str) -> Mapping[str, Effect]:
        if name not in self._opened:
            try:
                agent = find_agent(name)
                open_effects = agent.load("effects")
            except DefinitionError as error:  # its run is kept as it is, like one whose agent is not here
                raise Refused(f"{error}; its runs are kept as they are until it works") from error
            surroundings = Surroundings(self._home, self._open, self._reader)
            found = {} if open_effects is None else open_effects(surroundings)
            if agent.is_local:
                found = {one: replace(effect, is_local=True) for one, effect in found.items()}
            self._opened[name] = found
        return self._opened[name]
