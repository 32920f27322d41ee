"""The writer: one thread owns the only writing connection and groups commits across runs.

While one commit waits for the disk, the next group gathers; so a thousand runs share one fsync.
"""

import asyncio
import queue
import threading
from collections.abc import Callable

from detent.errors import JournalError
from detent.host.embedded.journal import Batch, Journal

Done = Callable[[JournalError | None], None]
GROUP_MAX = 2000


class Writer:
    """Takes batches in order and calls back on the loop when each is on disk."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._loop = asyncio.get_running_loop()
        self._broken: list[object] = []
        self._queue: queue.SimpleQueue[tuple[Batch, Done] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="detent-writer", daemon=True)
        self._thread.start()

    def submit(self, batch: Batch, done: Done) -> None:
        """Write this after everything submitted before."""
        self._queue.put((batch, done))

    async def close(self) -> None:
        """Write what is left and stop."""
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)

    def _work(self) -> None:
        while True:
            item = self._queue.get()
            group = []
            while item is not None:
                group.append(item)
                if len(group) >= GROUP_MAX:
                    break
                try:
                    item = self._queue.get_nowait()
                except queue.Empty:
                    break
            if group:
                results = self._commit(group)
                try:
                    self._loop.call_soon_threadsafe(_report, results)
                except RuntimeError:
                    return  # the loop is gone; what was written is written
            if item is None:
                return

    def _commit(self, group: list[tuple[Batch, Done]]) -> list[tuple[Done, JournalError | None]]:
        try:
            if self._broken:
                raise JournalError("an earlier write failed")
            self._journal.commit([batch for batch, _ in group])
        except JournalError:
            return [(done, self._alone(batch)) for batch, done in group]  # one bad batch must not fail the others
        return [(done, None) for _, done in group]

    def _alone(self, batch: Batch) -> JournalError | None:
        if any(batch.owner is broken for broken in self._broken):
            return JournalError("an earlier event of this run could not be written")
        try:
            self._journal.commit([batch])
        except JournalError as error:
            self._broken.append(batch.owner)
            return error
        return None


def _report(results: list[tuple[Done, JournalError | None]]) -> None:
    for done, error in results:
        done(error)


class InlineWriter:
    """The same without a thread: commits at once, for simulations that must be deterministic."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._loop = asyncio.get_running_loop()

    def submit(self, batch: Batch, done: Done) -> None:
        """Write now, call back in the loop's next round."""
        try:
            self._journal.commit([batch])
        except JournalError as error:
            self._loop.call_soon(done, error)
        else:
            self._loop.call_soon(done, None)

    async def close(self) -> None:
        """Nothing is ever left over."""
