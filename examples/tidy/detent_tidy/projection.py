"""The sheet: what a run found and what became of it, made of the run's entries."""

from typing import Any, ClassVar

from detent import ContractMoved, Entry


class Sheet:
    """Takes a run's entries one after the other; the same for an answer of the API, a line of a report and a test."""

    name: ClassVar[str] = "tidy"
    version: ClassVar[int] = 1
    reach: ClassVar[int] = 0

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.found: list[dict[str, Any]] = []
        self.removed: list[str] = []
        self.changed: list[str] = []

    def take(self, entry: Entry) -> None:
        """Keep what the two calls gave."""
        if isinstance(entry.event, ContractMoved) and isinstance(entry.event.result, dict):
            self.found = entry.event.result.get("files", self.found)
            self.removed = entry.event.result.get("removed", self.removed)
            self.changed = entry.event.result.get("changed", self.changed)

    @property
    def bytes_freed(self) -> int:
        """How much room there is now that there was not before."""
        return sum(file["bytes"] for file in self.found if file["name"] in self.removed)
