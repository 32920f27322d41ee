"""The writer: the only writing connection, with commits grouped across runs.

What one round of the event loop submits is written as one group; so a thousand runs share one fsync. While the disk is
quick, the loop writes it itself: two threads that both run Python only take turns, and handing over costs more than the
commit. On a slow disk a thread writes, and the next group gathers meanwhile.
"""

import asyncio
import queue
import threading
import time
from collections.abc import Callable

from detent.errors import JournalError
from detent.host.embedded.journal import Journal
from detent.host.parts.journal_query import Batch, Nobody

Done = Callable[[JournalError | None], None]
Group = list[tuple[Batch, Done]]
Results = list[tuple[Done, JournalError | None]]
QUICK_S = 0.002  # how long a commit may hold up the loop,
BATCH_S = 0.00005  # and how much longer for every batch in it
HERE_MAX = 1000  # batches; more of them would hold it up for too long on any disk
CAREFUL = 20  # once they are slow, this many go through the thread before the next try
SMOOTH = 4  # one slow commit among quick ones says little about the disk
TRAIL_S = 1.0  # so long may what trails be missing on the disk


class Writer:
    """Takes batches in order and calls back on the loop when each is on disk."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._loop = asyncio.get_running_loop()
        self._gathered: Group = []
        self._handed_over = 0  # groups the thread has not reported yet
        self._careful = 0
        self._is_reporting = False  # whoever is told of a write first may not be told of the next before the others
        self._pace_s = 0.0  # what a commit takes of late, without its batches
        self._is_sync_due = self._is_closed = False
        self._queue: queue.SimpleQueue[Group | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="detent-writer", daemon=True)
        self._thread.start()

    def submit(self, batch: Batch, done: Done, is_alone: bool = False) -> None:
        """Write this after everything submitted before; `is_alone`: there is nobody to share the commit with."""
        if not self._gathered:
            is_careful = self._careful and not batch.is_trailing
            if is_alone and not (self._handed_over or is_careful or self._is_reporting):
                self._write_here([(batch, done)])
                return
            self._loop.call_soon(self._flush)
        self._gathered.append((batch, done))

    @property
    def is_at_rest(self) -> bool:
        """Whether the thread has nothing to do: then the loop may use the writing connection, which knows its pages."""
        return not self._handed_over

    async def close(self) -> None:
        """Write what is left and stop."""
        self._is_closed = True
        self._flush()
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)

    def _flush(self) -> None:
        group, self._gathered = self._gathered, []
        is_careful = self._careful and not all(batch.is_trailing for batch, _ in group)
        if 0 < len(group) <= HERE_MAX and not self._handed_over and not is_careful:
            self._write_here(group)
        elif group:
            self._handed_over += 1
            self._careful = max(0, self._careful - 1)
            self._queue.put(group)

    def _write_here(self, group: Group) -> None:
        begun = time.perf_counter()
        results = self._commit(group) if len(group) > 1 else [(group[0][1], write_batch(self._journal, group[0][0]))]
        self._pace_s += (time.perf_counter() - begun - len(group) * BATCH_S - self._pace_s) / SMOOTH
        if self._pace_s > QUICK_S:
            self._careful, self._pace_s = CAREFUL, QUICK_S / 2
        self._report(results)

    def _sync(self) -> None:
        """Wait for the disk, if nobody has since; beside the commits, which need not wait for it."""
        self._is_sync_due = False
        if self._journal.is_behind and not self._is_closed:
            self._loop.run_in_executor(None, self._journal.sync)

    def _work(self) -> None:
        while (group := self._queue.get()) is not None:
            handed_over = 1
            is_last = False
            while not self._queue.empty() and not is_last:
                more = self._queue.get()
                is_last = more is None
                if more is not None:
                    group += more
                    handed_over += 1
            results = self._commit(group)
            try:
                self._loop.call_soon_threadsafe(self._report_written, results, handed_over)
            except RuntimeError:
                return  # the loop is gone; what was written is written
            if is_last:
                return

    def _report_written(self, results: Results, handed_over: int) -> None:
        self._handed_over -= handed_over
        self._report(results)

    def _report(self, results: Results) -> None:
        if self._journal.is_behind and not self._is_sync_due:
            self._is_sync_due = True
            self._loop.call_later(TRAIL_S, self._sync)
        self._is_reporting = len(results) > 1
        for done, error in results:
            try:
                done(error)
            except Exception as problem:  # noqa: BLE001  # whoever comes next in the group must hear of its own write
                told = {"message": "a run could not go on after its event was written", "exception": problem}
                self._loop.call_exception_handler(told)
        self._is_reporting = False

    def _commit(self, group: Group) -> Results:
        if not any(batch.owner.is_broken for batch, _ in group):
            try:
                self._journal.commit([batch for batch, _ in group])
                return [(done, None) for _, done in group]
            except JournalError:
                pass  # one bad batch must not fail the others
        return [(done, write_batch(self._journal, batch)) for batch, done in group]


def write_batch(journal: Journal, batch: Batch) -> JournalError | None:
    """Write one batch; once one of an owner's batches has failed, none of its later ones may be written."""
    if batch.owner.is_broken:
        return JournalError("an earlier event of this run could not be written")
    try:
        journal.commit([batch])
    except JournalError as error:
        batch.owner.is_broken = True
        return error
    return None


async def flush(writer: "Writer | InlineWriter") -> None:
    """Return when everything submitted so far is on disk, or has failed to get there."""
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    writer.submit(Batch(Nobody()), lambda _: None if done.done() else done.set_result(None))
    await done


class InlineWriter:
    """The same without a thread: commits at once, for simulations that must be deterministic."""

    is_at_rest = True

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._loop = asyncio.get_running_loop()

    def submit(self, batch: Batch, done: Done, is_alone: bool = False) -> None:  # noqa: ARG002
        """Write now, call back in the loop's next round."""
        self._loop.call_soon(done, write_batch(self._journal, batch))

    async def close(self) -> None:
        """Nothing is ever left over."""
