"""What is to be done when a batch of events is on disk, and only then."""

import asyncio
from typing import Protocol, TypeVar

from detent.core.run import Run
from detent.errors import JournalError
from detent.host.parts.fold import FoldPlan
from detent.host.parts.journal_query import Batch
from detent.host.parts.loaded_run import LoadedRun

T = TypeVar("T")


class WritingHost(Protocol):
    """Who goes on when a batch is on disk."""

    def act_on_written(self, deeds: "Aftermath", error: JournalError | None) -> None:
        """A batch is on disk, or failed to get there."""


class Aftermath(FoldPlan):
    """What to do when a batch is on disk, and whom to tell."""

    __slots__ = ("done", "host", "machine", "run")

    def __init__(self, host: "WritingHost", live: LoadedRun, batch: Batch, done: "asyncio.Future[Run] | None") -> None:
        super().__init__(live, batch)
        self.host, self.done = host, done
        # A later migration may change the machine before this is on disk.
        self.run, self.machine = live.run, live.machine

    def __call__(self, error: JournalError | None) -> None:
        self.host.act_on_written(self, error)


def settle_future(done: "asyncio.Future[T]", result: T, error: JournalError | None) -> None:
    """Tell whoever waits for a write how it went."""
    if error is None and not done.done():
        done.set_result(result)
    elif error is not None and not done.done():
        done.set_exception(error)
