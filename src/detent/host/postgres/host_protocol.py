"""What the parts of this host need of it: each knows what it needs, and none of them knows the host."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

import psycopg

from detent.core.artefact import ArtefactStore
from detent.core.contract import Contract
from detent.core.effect_type import Effect
from detent.core.events import Event
from detent.core.identity import By
from detent.core.machine import Machine
from detent.core.progress import OffLimits
from detent.core.run import Run
from detent.host.parts.clock import Clock
from detent.host.parts.loaded_run import LoadedRun
from detent.host.parts.progress_listener import Onlookers
from detent.host.parts.secret_box import SecretKeeper
from detent.host.postgres.connection import Database
from detent.host.postgres.fold_transaction import Make
from detent.host.postgres.job_queue import JobQueue
from detent.host.postgres.journal import PostgresJournal
from detent.host.postgres.remembered_run import Held

Q = ParamSpec("Q")
R = TypeVar("R")


class PostgresMover(Protocol):
    """Looks at runs and moves them."""

    clock: Clock
    database: Database
    is_closing: bool
    is_own_time: bool
    journal: PostgresJournal
    queue: JobQueue

    def load(self, run_id: str, connection: psycopg.Connection | None = None) -> LoadedRun:
        """The run as it stands now, from any thread; on a connection, where one is at hand."""

    def load_all(self, run_ids: Sequence[str], connection: psycopg.Connection) -> Sequence[LoadedRun | None]:
        """Several runs as they stand now, asked for in one message; None for one that is not there."""

    async def look(self, run_id: str) -> LoadedRun:
        """The run as it stands now."""

    async def fold(
        self, live: LoadedRun, make: Make, *, machine: Machine | None = None, patience_s: float = ..., about: Held = ...
    ) -> Run:
        """Fold what `make` says while the run is locked; `live` is the run as it is then."""

    async def take_slots(self, run_id: str) -> None:
        """Tell a run when those of its calls may begin whose rate all runs share."""

    async def surely(self, ask: Callable[[], Awaitable[R]]) -> R:
        """Ask until the database answers, however long it is away."""

    async def ask(self, do: Callable[Concatenate[psycopg.Connection, Q], R], /, *args: Q.args, **given: Q.kwargs) -> R:
        """Do something on a connection of one's own, in a thread."""

    def own(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Give a coroutine an owner."""

    def report(self, run_id: str, error: Exception) -> None:
        """Something went wrong with one run while nobody was asking; the others go on."""


class PlaceKeeper(Protocol):
    """Knows which queues this worker serves."""

    def leave(self, queue_name: str) -> None:
        """This worker turned out not to have what a queue needs."""


class PostgresPerformer(PostgresMover, Protocol):
    """Knows effects, and begins the runs that contracts stand for."""

    ground: OffLimits
    onlookers: Onlookers
    place: str

    @property
    def places(self) -> "PlaceKeeper":
        """What this worker says of its place and does about others."""

    async def end_child(self, run_id: str) -> None:
        """A contract was stopped that had begun this run."""

    def forget_source(self, source: str) -> None:
        """Look anew for what a source brings."""

    def effect(self, live: LoadedRun, name: str) -> Effect | None:
        """The effect of that name: the run's own file first, then the host's."""

    def find_effect(self, live: LoadedRun, contract: Contract) -> Effect | None:
        """The effect of a contract, with the probe that its definition names."""

    @property
    def artefacts(self) -> ArtefactStore:
        """Where files are kept with their runs."""

    @property
    def secret_box(self) -> SecretKeeper:
        """Where the secrets are that runs were given."""

    def least_sandbox(self, live: LoadedRun, contract: Contract) -> str:
        """The weakest sandbox that the policy allows a call."""

    def overheard(self, run_id: str, contract_id: str, data: Mapping[str, Any]) -> None:
        """An effect said something: pass it on."""

    async def tell(self, live: LoadedRun, event: Event) -> Run:
        """Fold an event; returns the run when that is on disk."""

    async def retry_child(self, run_id: str, id: str) -> bool:
        """Let a child that has failed go on, for its parent."""

    async def start(
        self,
        machine: Machine,
        input: Mapping[str, Any] | None = None,
        *,
        run_id: str = "",
        by: By = "",
        session: str = "",
        source: str = "",
        parent: str = "",
    ) -> Run:
        """Begin a run."""
