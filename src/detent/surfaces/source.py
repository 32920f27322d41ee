"""Where a run's effects are found again: in its definition file, with the agent it belongs to, or with both.

A source is the path of a file, `agent:NAME`, or `agent:NAME FILE` for an agent that was given tools of a file.
"""

from collections.abc import Callable
from pathlib import Path

from detent.core.deed import Effect
from detent.define import find_effects as find_in_file

AGENT = "agent:"

# Imported when a run of that agent is driven.


def _assistant(home: Path) -> dict[str, Effect]:
    from detent.surfaces.assistant import agent_effects

    return agent_effects(home)


def _coding(_home: Path) -> dict[str, Effect]:
    from detent.agents.coding.effects import effects

    return effects()


AGENTS: dict[str, Callable[[Path], dict[str, Effect]]] = {"assistant": _assistant, "coding": _coding}


def of_agent(name: str, file: str = "") -> str:
    """The source of an agent's run."""
    return f"{AGENT}{name} {file}".rstrip()


def find_effects(source: str, warn: Callable[[str], object] = lambda _: None, home: Path = Path()) -> dict[str, Effect]:
    """The effects of a run that was begun from this source."""
    name, _, file = source.removeprefix(AGENT).partition(" ") if source.startswith(AGENT) else ("", "", source)
    own = AGENTS[name](home) if name in AGENTS else {}
    return {**(find_in_file(file, warn) if file else {}), **own}
