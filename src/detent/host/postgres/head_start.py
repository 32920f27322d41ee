"""A head start: calls that may be made again are begun in the moment their jobs are taken, all in two messages.

What must not be made twice is begun by itself, right before it is called, and waits for the disk. So a job that is lost
between being taken and being worked on never leaves a doubt.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import psycopg
from procrastinate.jobs import Job

from detent.core.contract import Contract
from detent.core.effect_type import Effect
from detent.core.events import RULES
from detent.core.status import Status
from detent.host.parts.loaded_run import LoadedRun
from detent.host.postgres.connection import join_messages
from detent.host.postgres.job_delivery import Beginning, Delivery, ask_to_begin


class BegunCall(NamedTuple):
    """A run as it stands, the contract if it is to be carried out, and who is to do that."""

    live: LoadedRun
    contract: Contract | None = None
    queue: str = ""  # of those who can, where this worker cannot
    beginning: Beginning = Beginning(False)


class RunLoader(Protocol):
    """What a head start needs of the host."""

    def load_all(self, run_ids: Sequence[str], connection: psycopg.Connection) -> Sequence[LoadedRun | None]:
        """Several runs as they stand now, asked for in one message."""

    def effect(self, live: LoadedRun, name: str) -> Effect | None:
        """The effect of that name."""


def _find_wanted(worker: int, jobs: Sequence[Job]) -> Sequence[Delivery]:
    """What the jobs point at; one of each run, so that whoever stops several waits for no other lock of ours."""
    given: list[tuple[int, dict[str, Any]]] = [
        (job.id or 0, {**job.task_kwargs}) for job in jobs if job.task_name == "perform"
    ]
    return tuple({one["run_id"]: Delivery(**one, worker=worker, job=job_id) for job_id, one in given}.values())


class HeadStart:
    """The calls that were begun ahead and that nobody has worked on yet."""

    def __init__(self, host: RunLoader) -> None:
        self._host = host
        self._begun: dict[Delivery, BegunCall | None] = {}  # None: on its way; written by the thread that takes jobs

    def list_begun(self) -> tuple[Delivery, ...]:
        """What was begun, or is about to be, and not worked on yet."""
        return tuple(self._begun)

    def take(self, wanted: Delivery) -> BegunCall | None:
        """Work on what was begun ahead; None where it was not."""
        return self._begun.pop(wanted, None)

    def begin(self, connection: psycopg.Connection, worker: int, jobs: Sequence[Job]) -> None:
        """Begin what may be called again; what cannot be, or is anybody else's, is looked at by itself later."""
        for gone in [one for one in self.list_begun() if one.worker != worker]:
            self._begun.pop(gone, None)  # the database went away before it was worked on
        try:
            self._begin(connection, _find_wanted(worker, jobs))
        except psycopg.errors.DeadlockDetected:
            return
        except psycopg.Error:
            raise  # then nobody knows what was begun, and this worker starts anew under another number
        except Exception:  # noqa: BLE001  # what is wrong with one of them is told when it is worked on
            return

    def _begin(self, connection: psycopg.Connection, deliveries: Sequence[Delivery]) -> None:
        runs = self._host.load_all([wanted.run_id for wanted in deliveries], connection)
        calls = {
            wanted: BegunCall(live, contract, beginning=Beginning(True))
            for wanted, live in zip(deliveries, runs, strict=True)
            if live is not None and (contract := self._find_repeatable(live, wanted)) is not None
        }
        if not calls:
            return
        self._begun |= dict.fromkeys(calls)  # from now on it can be told to stop
        is_kept = False
        try:
            with join_messages(connection, len(calls)):
                asked = [ask_to_begin(connection, wanted, is_lazy=True) for wanted in calls]
            found = [cursor.fetchone() is not None for cursor in asked]
            is_kept = True
        finally:
            for (wanted, call), is_ours in zip(calls.items(), found if is_kept else [False] * len(calls), strict=True):
                if is_ours:
                    self._begun[wanted] = call
                else:
                    del self._begun[wanted]

    def _find_repeatable(self, live: LoadedRun, wanted: Delivery) -> Contract | None:
        """The contract, where this worker can make its call, now and again."""
        contract = live.run.contract(wanted.contract_id)
        if contract is None or contract.status is not Status.RUNNING or live.run.rules > RULES:
            return None
        if contract.is_irreversible or contract.effect == "child":
            return None
        effect = self._host.effect(live, contract.effect)
        return contract if effect is not None and not effect.is_local else None
