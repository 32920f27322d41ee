"""Who can be hired: the workers by the name that `detent.code.yaml` uses, each imported when it is wanted."""

import importlib
from collections.abc import Callable

from detent.agents.coding.port import Worker
from detent.agents.coding.settings import WorkerSettings
from detent.core.machine import did_you_mean
from detent.errors import DefinitionError

# "module:function" that makes a worker of its settings.
WORKERS = {
    "shell": "detent.agents.coding.command_worker:hire",
    "builtin": "detent.agents.coding.model_worker:hire",
    **dict.fromkeys(("claude", "codex", "gemini", "opencode", "aider"), "detent.agents.coding.external_agent:hire"),
}


def hire(settings: WorkerSettings) -> Worker:
    """The worker these settings mean."""
    place = WORKERS.get(settings.use)
    if place is None:
        hint = did_you_mean(settings.use, WORKERS)
        raise DefinitionError(f"there is no worker `{settings.use}`{hint}; known: {', '.join(WORKERS)}", "worker.use")
    module, _, name = place.partition(":")
    make: Callable[[WorkerSettings], Worker] = getattr(importlib.import_module(module), name)
    return make(settings)


def missing(worker: Worker, root: str = "") -> str:
    """What must be there before a worker can begin here, in a sentence; empty: nothing, or nobody can tell."""
    look = getattr(worker, "missing_in", None)
    return str(look(root) if look is not None else getattr(worker, "missing", ""))
