"""What the parts of a host need of it: each knows what it needs, and none of them knows the host."""

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Protocol

from detent.core.artefact import ArtefactStore
from detent.core.contract import Contract
from detent.core.effect_type import Effect
from detent.core.events import ContractMoved, Event
from detent.core.identity import By
from detent.core.machine import Machine
from detent.core.progress import OffLimits
from detent.core.run import Run
from detent.host.embedded.journal import Journal
from detent.host.parts.clock import Clock
from detent.host.parts.idempotency_claim import Claims
from detent.host.parts.loaded_run import LoadedRun
from detent.host.parts.progress_listener import Onlookers
from detent.host.parts.secret_box import SecretKeeper


class Mover(Protocol):
    """Reads runs and moves them."""

    @property
    def clock(self) -> Clock:
        """What time it is."""

    @property
    def journal(self) -> Journal:
        """The journal, for reading."""

    def load(self, run_id: str) -> LoadedRun:
        """The run, read from the journal if it is not in memory."""

    def fold(self, live: LoadedRun, event: Event, *, follow: Sequence[Event] = ()) -> None:
        """Fold an event and what follows from it at once, hand it to the writer, and act when it is on disk."""

    async def take_slots(self, run_id: str) -> None:
        """Tell a run when those of its calls may begin whose rate all runs share."""

    def own(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Give a coroutine that belongs to no run an owner."""

    def report(self, run_id: str, error: Exception) -> None:
        """Something went wrong with one run while nobody was asking; the others go on."""


class Performer(Mover, Protocol):
    """Knows effects, and owns what they have under way."""

    @property
    def claims(self) -> Claims:
        """Who holds which key."""

    def effect(self, live: LoadedRun, name: str) -> Effect | None:
        """The effect of that name: the run's own file first, then the host's."""

    def find_effect(self, live: LoadedRun, contract: Contract) -> Effect | None:
        """The effect of a contract, with the probe that its definition names."""

    @property
    def secret_box(self) -> SecretKeeper:
        """Where the secrets are that runs were given."""

    def spawn(self, live: LoadedRun, contract_id: str, work: Coroutine[Any, Any, None]) -> None:
        """Give a coroutine an owner."""


class ChildHost(Performer, Protocol):
    """Begins and ends the runs that contracts stand for, and puts down what is at work."""

    @property
    def tasks(self) -> asyncio.TaskGroup:
        """Who owns what is under way."""

    @property
    def ground(self) -> OffLimits:
        """What effects must keep off: the home, and files elsewhere that say what they may do."""

    @property
    def artefacts(self) -> ArtefactStore:
        """Where files are kept with their runs."""

    def least_sandbox(self, live: LoadedRun, contract: Contract) -> str:
        """The weakest sandbox that the policy allows a call."""

    def live(self, run_id: str) -> LoadedRun | None:
        """The run, if it is in memory."""

    def all_live(self) -> tuple[LoadedRun, ...]:
        """Every run in memory."""

    async def all_written(self) -> None:
        """Return when everything handed to the writer so far is on disk, or has failed to get there."""

    def overheard(self, run_id: str, contract_id: str, data: Mapping[str, Any]) -> None:
        """An effect said something: pass it on."""

    @property
    def onlookers(self) -> Onlookers:
        """Who hears what effects say."""

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

    async def cancel(self, run_id: str, *, by: By = "", reason: str = "") -> Run:
        """Stop a run and everything it has under way."""

    async def retry_child(self, run_id: str, id: str) -> bool:
        """Let a child that has failed go on, for its parent."""


class ContractPerformer(Protocol):
    """Carries out contracts, and tells what comes of them."""

    def broke(self, live: LoadedRun, contract_id: str, error: Exception) -> None:
        """End that contract, so that its run does not wait for ever."""

    def is_at_work(self, live: LoadedRun, contract_id: str) -> bool:
        """Whether an effect is under way for that contract."""

    def tell(self, live: LoadedRun, moved: ContractMoved, follow: Sequence[ContractMoved] = ()) -> None:
        """Fold what came of a contract."""
