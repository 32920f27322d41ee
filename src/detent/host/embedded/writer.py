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
        if not any(batch.owner.is_broken for batch, _ in group):
            try:
                self._journal.commit([batch for batch, _ in group])
                return [(done, None) for _, done in group]
            except JournalError:
                pass  # one bad batch must not fail the others
        return [(done, written(self._journal, batch)) for batch, done in group]


def written(journal: Journal, batch: Batch) -> JournalError | None:
    """Write one batch; once one of an owner's batches has failed, none of its later ones may be written."""
    if batch.owner.is_broken:
        return JournalError("an earlier event of this run could not be written")
    try:
        journal.commit([batch])
    except JournalError as error:
        batch.owner.is_broken = True
        return error
    return None


def _report(results: list[tuple[Done, JournalError | None]]) -> None:
    for done, error in results:
        try:
            done(error)
        except Exception as problem:  # noqa: BLE001  # whoever comes next in the group must hear of its own write
            told = {"message": "a run could not go on after its event was written", "exception": problem}
            asyncio.get_running_loop().call_exception_handler(told)


class _Nobody:
    is_broken = False


async def flushed(writer: "Writer | InlineWriter") -> None:
    """Return when everything submitted so far is on disk, or has failed to get there."""
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    writer.submit(Batch(_Nobody()), lambda _: None if done.done() else done.set_result(None))
    await done


class InlineWriter:
    """The same without a thread: commits at once, for simulations that must be deterministic."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._loop = asyncio.get_running_loop()

    def submit(self, batch: Batch, done: Done) -> None:
        """Write now, call back in the loop's next round."""
        self._loop.call_soon(done, written(self._journal, batch))

    async def close(self) -> None:
        """Nothing is ever left over."""
