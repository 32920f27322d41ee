"""The port every host fulfils: seven verbs, the same on every surface.

A verb returns when its event is on disk. `Refused` means that nothing was changed.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from detent.core.history import Entry
from detent.core.machine import Machine
from detent.core.run import Run
from detent.core.status import Status


class Summary(msgspec.Struct, frozen=True):
    """One line of the list of runs, kept beside the journal so that listing folds nothing."""

    run_id: str
    name: str
    machine: str
    state: str
    status: Status
    seq: int
    started_at: float
    updated_at: float
    wake_at: float = 0.0
    waiting: tuple[dict[str, Any], ...] = ()
    by: str = ""
    session: str = ""
    parent: str = ""
    cost_usd: float = 0.0
    checkpoint: str = ""
    source: str = ""
    error: dict[str, str] | None = None  # why it has not ended well: type and message
    alarms: tuple[str, ...] = ()  # what somebody must look into: deeds that may have been done twice
    no: int = 0  # grows with every run; `list(before=no)` gives the page after this one


class Host(Protocol):
    """Start, signal, answer, cancel, show, list, watch."""

    async def start(
        self,
        machine: Machine,
        input: Mapping[str, Any] | None = None,
        *,
        run_id: str = "",
        by: str = "",
        session: str = "",
        source: str = "",
    ) -> Run:
        """Begin a run; the same `run_id` twice gives the run that is already there."""

    async def signal(
        self, run_id: str, name: str, data: Mapping[str, Any] | None = None, *, id: str = "", by: str = ""
    ) -> Run:
        """Tell a run that something happened."""

    async def answer(self, run_id: str, contract_id: str, answer: Mapping[str, Any]) -> Run:
        """Answer a waiting contract's question."""

    async def cancel(self, run_id: str, *, by: str = "", reason: str = "") -> Run:
        """Stop a run and everything it has under way."""

    async def retry(self, run_id: str, *, by: str = "", id: str = "") -> Run:
        """Let a run that has failed go on from what failed."""

    async def show(self, run_id: str) -> Run:
        """Where a run stands."""

    async def list(
        self, *, status: Sequence[Status] = (), name: str = "", limit: int = 100, before: int = 0
    ) -> Sequence[Summary]:
        """The runs, newest first."""

    def watch(self, run_id: str, after: int = 0) -> AsyncIterator[Entry]:
        """The run's events as they come, until it ends."""
