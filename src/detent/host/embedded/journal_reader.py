"""Reading one home's journal: its file, beside whoever writes it."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from detent.errors import DetentError, JournalError
from detent.host.embedded.artefact_folder import ArtefactFolder
from detent.host.embedded.journal import Journal, open_journal
from detent.host.embedded.journal_marker import check, check_missing
from detent.host.embedded.schema import VERSION
from detent.host.parts.run_reader import RunReader
from detent.host.reading import StoreCheck

IDLE_MAX = 4  # connections kept for the next question
POLL_S = 0.015  # how often the file is looked at while somebody follows and another process writes
TROUBLE_S = 1.0


class JournalReader(RunReader):
    """The reading half of the port, for an embedded journal."""

    def __init__(self, home: Path, *, is_inline: bool = False) -> None:
        super().__init__(home, is_inline=is_inline)
        self.artefact_store = ArtefactFolder(home)
        self._idle: list[Journal] = []
        self._lock = threading.Lock()

    def close(self) -> None:
        """Let go of the file; whoever follows comes to an end."""
        super().close()
        with self._lock:
            idle, self._idle = self._idle, []
        for journal in idle:
            journal.close()

    @contextmanager
    def journal(self) -> Iterator[Journal]:
        """A connection of one's own while the block goes on."""
        with self._lock:
            journal = self._idle.pop() if self._idle else None
        if journal is None:
            journal = open_journal(self.home)
        try:
            yield journal
        finally:
            with self._lock:
                is_kept = not self._is_closed and len(self._idle) < IDLE_MAX
                if is_kept:
                    self._idle.append(journal)
            if not is_kept:
                journal.close()

    def has_runs(self) -> bool:
        """Whether anything was ever written here."""
        if (self.home / "journal.db").exists():
            return True
        check_missing(self.home)
        return False

    def check(self) -> StoreCheck:
        """Whether the file itself is sound."""
        with self.journal() as journal:
            problems = list(journal.check())
            if not problems:
                try:
                    check(self.home, journal.connection)
                except JournalError as error:
                    problems.append(str(error))
            return StoreCheck(tuple(problems), VERSION, journal.path.stat().st_size)

    async def _poll(self) -> None:
        version = -1
        while self.tail.followers and not self._is_closed:
            try:
                with self.journal() as journal:
                    while self.tail.followers and not self.tail.is_fed and not self._is_closed:
                        now = journal.data_version()
                        if now != version:
                            version = now
                            self.tail.ring_all()
                        await asyncio.sleep(POLL_S)
                    if self.tail.is_fed:
                        self.tail.ring_all()
                        return
            except DetentError:
                await asyncio.sleep(TROUBLE_S)  # the file cannot be read now; the next look begins where this did
                version = -1
