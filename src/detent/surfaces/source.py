"""Where a run's effects are found again: in its definition file, or with the agent it belongs to (`agent:NAME`)."""

import importlib
from collections.abc import Callable

from detent.core.deed import Effect
from detent.define import find_effects as find_in_file

# Each module has a function `effects()`; it is imported when a run of that agent is driven.
AGENTS = {"agent:coding": "detent.agents.coding.effects"}


def find_effects(source: str, warn: Callable[[str], object] = lambda _: None) -> dict[str, Effect]:
    """The effects of a run that was begun from this source."""
    if source in AGENTS:
        found: dict[str, Effect] = importlib.import_module(AGENTS[source]).effects()
        return found
    return find_in_file(source, warn)
