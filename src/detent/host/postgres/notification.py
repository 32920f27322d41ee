"""Hints for other processes: which runs have moved, which effects are to stop, and that there are jobs.

Nobody needs them: whoever follows or works looks by himself after a while. They are sent after the commit, because
PostgreSQL lets commits that notify wait for each other, with the disk.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, NamedTuple
from uuid import uuid4

import msgspec
import psycopg

from detent.errors import JournalError
from detent.host.postgres.connection import GONE
from detent.host.postgres.job_queue import CHANNEL as JOBS
from detent.host.postgres.job_queue import HINT as JOBS_HINT

MOVED = "detent_moved"  # the channel on which whoever writes says which runs have moved
ABORTED = "detent_abort"  # the channel on which contracts are named whose effects are to stop
NOTIFY_S = 0.02  # hints that come closer together are sent as one
HINT_MAX = 7000  # bytes of one notification
TOLD_MAX = 50  # notifications of one statement
LAZILY = "set_config('synchronous_commit', 'off', true)"


class Hint(NamedTuple):
    """What others may like to know."""

    moved: Sequence[str] = ()  # runs
    stops: Sequence[tuple[str, str]] = ()  # runs and their contracts
    has_jobs: bool = False


def make_mark() -> str:
    """What a process puts before the runs it has moved, so that it knows its own hints; no run has such an id."""
    return f"@{uuid4().hex}"


def read_moved(payload: str, mark: str) -> Sequence[str]:
    """The runs that others have moved."""
    said = payload.split()
    return () if said[:1] == [mark] else said[1:]


class HintSender:
    """Sends hints: the first one at once, on the connection that has just committed, and the next ones together."""

    def __init__(self, mark: str, own: Callable[[Coroutine[Any, Any, None]], object], ask: Callable[..., Any]) -> None:
        self.mark, self._own, self._ask = mark, own, ask
        self._moved: set[str] = set()
        self._stops: set[tuple[str, str]] = set()
        self._has_jobs = False
        self._timer: asyncio.TimerHandle | None = None
        self._sent_at = 0.0

    def send_now(self, connection: psycopg.Connection, hint: Hint) -> bool:
        """Send a hint from the thread that has just committed, unless one was sent a moment ago; whether it was."""
        now = time.monotonic()
        if self._timer is not None or now < self._sent_at + NOTIFY_S:
            return False
        self._sent_at = now
        with suppress(psycopg.Error):
            send_hint(connection, self.mark, hint)
        return True

    def add(self, hint: Hint) -> None:
        """Send a hint together with others that come in the same moment."""
        self._moved.update(hint.moved)
        self._stops.update(hint.stops)
        self._has_jobs |= hint.has_jobs
        if self._timer is None:
            left_s = self._sent_at + NOTIFY_S - time.monotonic()
            self._timer = asyncio.get_running_loop().call_later(max(0.0, left_s), self._send)

    def close(self) -> None:
        """Send nothing more."""
        if self._timer is not None:
            self._timer.cancel()

    def _send(self) -> None:
        self._timer, self._sent_at = None, time.monotonic()
        hint = Hint(sorted(self._moved), sorted(self._stops), self._has_jobs)
        self._moved, self._stops, self._has_jobs = set(), set(), False
        self._own(self._notify(hint))

    async def _notify(self, hint: Hint) -> None:
        with suppress(*GONE, JournalError):
            await self._ask(send_hint, self.mark, hint)


def send_hint(connection: psycopg.Connection, mark: str, hint: Hint) -> None:
    """Tell others, in one statement that does not wait for the disk."""
    told = [(JOBS, JOBS_HINT)] if hint.has_jobs else []
    line = mark
    for run_id in [*hint.moved, ""]:
        if line != mark and (not run_id or len(line) + len(run_id) > HINT_MAX):
            told.append((MOVED, line))
            line = mark
        line = f"{line} {run_id}"
    told += [(ABORTED, msgspec.json.encode([stop]).decode()) for stop in hint.stops]
    for first in range(0, len(told), TOLD_MAX):
        some = told[first : first + TOLD_MAX]
        query = f"select {LAZILY}{', pg_notify(%s, %s)' * len(some)}"
        connection.execute(query, [word for pair in some for word in pair])
