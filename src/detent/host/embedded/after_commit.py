"""What is to be done when a batch of events is on disk, and only then."""

import asyncio
from typing import Protocol, TypeVar

from detent.core.machine import Machine
from detent.core.run import Run
from detent.errors import JournalError
from detent.host.parts.fold import FoldPlan

T = TypeVar("T")


class WritingHost(Protocol):
    """Who goes on when a batch is on disk."""

    def act_on_written(self, deeds: "Aftermath", error: JournalError | None) -> None:
        """A batch is on disk, or failed to get there."""


class Aftermath(FoldPlan, eq=False, kw_only=True):
    """What to do when a batch is on disk, and whom to tell."""

    host: WritingHost
    done: "asyncio.Future[Run] | None"
    run: Run
    machine: Machine  # a later migration may change that of the run before this is on disk

    def __call__(self, error: JournalError | None) -> None:
        self.host.act_on_written(self, error)


def settle_future(done: "asyncio.Future[T]", result: T, error: JournalError | None) -> None:
    """Tell whoever waits for a write how it went."""
    if error is None and not done.done():
        done.set_result(result)
    elif error is not None and not done.done():
        done.set_exception(error)
