"""The outbox: messages to the people behind runs, written with the event that led to them and delivered afterwards.

No run waits for a delivery. A message is tried until its effect takes it, in this process or a later one, always with
the same key, so an effect that knows its keys sends it once.
"""

import asyncio
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from detent.core.consequence import Consequence
from detent.core.contract import Contract
from detent.core.effect_type import Effect
from detent.core.run import Run
from detent.core.status import Status
from detent.host.parts.clock import Clock
from detent.host.parts.journal_query import AnyJournal, Batch, Nobody
from detent.host.parts.outcome import describe_exception
from detent.host.reading import Note

FILE = "outbox.jsonl"
TRIES_MAX = 8  # by one process; the next one begins anew
DELAY_S, DELAY_S_MAX = 1.0, 60.0
PROBLEM_MAX = 500


class NotifyingHost(Protocol):
    """What delivering messages needs of a host."""

    @property
    def home(self) -> Path:
        """Where the journal is."""

    @property
    def clock(self) -> Clock:
        """What time it is."""

    @property
    def journal(self) -> AnyJournal:
        """The journal, for reading."""

    @property
    def effects(self) -> Mapping[str, Effect]:
        """The effects by name."""

    def own(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Give a coroutine that belongs to no run an owner."""

    def submit(self, batch: Batch) -> None:
        """Write what belongs to no run."""


class Outbox:
    """The messages of one journal that are on their way."""

    def __init__(self, host: NotifyingHost, effect: str) -> None:
        self._host, self._effect = host, effect
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._is_closing = False

    def take(self, batch: Batch, run: Run, machine: str, taken: Iterable[Consequence]) -> None:
        """Write the messages among what an event led to into its batch."""
        for number, one in enumerate(taken):
            if one.kind == "log" and one.event == "notify":
                message = {"to": run.by, "message": one.value, "state": run.state}
                key = f"notify:{run.id}/{run.seq}/{number}"
                batch.notes += (Note(key, run.id, {"machine": machine, **message}, run.at),)

    def post(self, notes: Sequence[Note]) -> None:
        """Deliver messages that are on disk."""
        if self._effect not in self._host.effects or self._is_closing:
            return  # they stay where they are, for a host that can
        for note in notes:
            if note.key not in self._tasks:
                self._tasks[note.key] = self._host.own(self._deliver(note))

    def load(self) -> None:
        """Take up what earlier processes have not delivered."""
        self.post([note for note in self._host.journal.notes() if not note.delivered_at])

    async def close(self, grace_s: float) -> None:
        """Let what is being delivered be delivered for a while; the rest is for later."""
        self._is_closing = True
        tasks = list(self._tasks.values())
        if tasks and grace_s > 0:
            await asyncio.wait(tasks, timeout=None if grace_s == float("inf") else grace_s)
        self.stop()

    def stop(self) -> None:
        """Deliver nothing more."""
        self._is_closing = True
        for task in self._tasks.values():
            task.cancel()

    async def _deliver(self, note: Note) -> None:
        try:
            for tries in range(1, TRIES_MAX + 1):
                problem = await self._try(note)
                self._keep(note._replace(tries=note.tries + tries, problem=problem))
                if not problem or self._is_closing:
                    return
                pause_s = min(DELAY_S_MAX, DELAY_S * 2 ** (tries - 1))
                await self._pause(pause_s)
        finally:
            self._tasks.pop(note.key, None)

    async def _pause(self, pause_s: float) -> None:
        clock = self._host.clock
        await clock.sleep_until(clock.now() + pause_s)

    async def _try(self, note: Note) -> str:
        """One try; what went wrong, or nothing."""
        effect = self._host.effects[self._effect]
        path = str((self._host.home / FILE).absolute())
        input = {"run_id": note.run_id, **note.message, "at": note.at, "outbox": path}
        contract = Contract(
            f"outbox/{note.key}", "notify_requester", effect.name, Status.RUNNING, "possible", "idempotent", input,
            key=note.key, timeout_s=effect.declared.timeout_s,
        )  # fmt: skip
        try:
            async with asyncio.timeout(effect.declared.timeout_s or None):
                await effect.perform(contract)
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001  # an effect may fail in any way; the message stays
            return describe_exception(error)[:PROBLEM_MAX]
        return ""

    def _keep(self, note: Note) -> None:
        batch = Batch(Nobody())
        at = 0.0 if note.problem else self._host.clock.now()
        batch.posted += (note._replace(delivered_at=at),)
        self._host.submit(batch)
