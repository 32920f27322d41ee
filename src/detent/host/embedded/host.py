"""The embedded host: the verbs, over the engine room that keeps one SQLite file."""

import asyncio
from collections.abc import Sequence
from typing import Self

from detent.core.events import Started
from detent.core.run import Run
from detent.core.status import Status
from detent.errors import DetentError, JournalError
from detent.host.concurrency_group import reconcile
from detent.host.embedded.contract_executor import Attempts
from detent.host.embedded.recovery import take_up
from detent.host.embedded.run_engine import SECRETS_GO, Drive
from detent.host.parts.claim_check import differences, repair, right_holders
from detent.host.parts.journal_query import Batch, Nobody
from detent.host.parts.loaded_run import LoadedRun
from detent.host.parts.restore_gap import Gap
from detent.host.parts.verbs import Verbs
from detent.host.reading import Summary


class EmbeddedHost(Drive, Verbs):
    """Drives every run of one journal; use it as an async context manager."""

    async def __aenter__(self) -> Self:
        """Take the journal and begin to drive."""
        await super().__aenter__()
        self.attempts = Attempts(self)
        return self

    async def fetch(self, run_id: str) -> LoadedRun:
        """The run as it stands now."""
        return self.load(run_id)

    async def _find(self, run_id: str) -> LoadedRun | None:
        return self.load(run_id) if run_id in self._live or self.journal.record(run_id) else None

    async def _begin(self, live: LoadedRun, event: Started) -> Run:
        live.no = self._next_no
        self._next_no += 1
        self._live[live.run.id] = live
        try:
            return await self._tell(live, event)
        except BaseException:
            if live.is_new:
                self._live.pop(live.run.id, None)
            raise

    async def _has(self, live: LoadedRun, event_id: str) -> bool:
        return self._knows(live, event_id)

    async def _ring_first(self, live: LoadedRun) -> bool:
        return self.timers.ring_first(live.run)

    def is_lingering(self, run_id: str, contract_id: str) -> bool:
        """Whether a call that was given up goes on here."""
        return self.attempts.doubts.is_lingering(run_id, contract_id)

    @property
    def gap(self) -> Gap | None:
        """What a restored journal does not know."""
        return self.claims.gap

    @gap.setter
    def gap(self, gap: Gap | None) -> None:
        self.claims.gap = gap

    async def list(
        self, *, status: Sequence[Status] = (), name: str = "", limit: int = 100, before: int = 0
    ) -> Sequence[Summary]:
        """The runs, newest first."""
        found = [record.summary for record in self.journal.runs(status, name, limit, before)]
        self.problems.update(self.journal.damaged)
        return found

    async def settled(self, run_id: str) -> Run:
        """Return when the run has ended or can only be moved from outside."""
        live = self.load(run_id)
        while live.run.status is Status.RUNNING or live.unwritten:
            if run_id in self.stopped and live.is_adrift:
                raise JournalError(f"{self.stopped[run_id]}; nobody drives run {run_id} until it is recovered")
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            live.waiters.append(waiter)
            await waiter
        return live.run

    def has_heard(self, run_id: str, event_id: str) -> bool:
        """Whether the run has an event of that id."""
        return self._knows(self.load(run_id), event_id)

    async def probe(self, run_id: str, contract_id: str) -> bool:
        """Ask the effect itself whether a deed in doubt happened; whether that settled it."""
        live = self.load(run_id)
        is_settled = await self.attempts.doubts.probe(live, contract_id)
        await self._on_disk(live)
        return is_settled

    async def pass_place_on(self, run: Run) -> None:
        """A run of a group has ended: the next one goes on. What is not written now is made up for by `recover`."""
        try:
            await self.leave_group(run)
        except DetentError as error:
            self.report(run.id, error)

    async def repair_claims(self) -> tuple[str, ...]:
        """Write the claims anew where they are not what the events say; what was wrong, as sentences."""
        await self.all_written()
        found = differences(self.journal)
        if found:
            batch = Batch(Nobody())
            repair(batch, found, right_holders(self.journal, found))
            await self.write(batch)
        return tuple(one.problem for one in found)

    def _needs_secrets(self, run_id: str) -> bool | None:
        known = self.journal.record(run_id)
        return None if known is None else known.summary.status not in SECRETS_GO

    async def recover(self, run_id: str = "") -> tuple[str, ...]:
        """Take up what the last process left, all of it or one run's family; the runs that had something under way."""
        await reconcile(self, self.clock.now(), entering=self.entering)
        taken_up = take_up(self, run_id)
        self.secret_box.sweep(self._needs_secrets)
        self.timers.load()
        self.outbox.load()
        return taken_up
