"""Everything one process needs to carry out notebook runs: their books, kernels, advisers and effects.

async with Notebooks(home) as notebooks:
    async with EmbeddedHost(home, notebooks.effects()) as host: …
"""

import asyncio
import importlib
import importlib.util
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from detent.agents.notebook.act_effect import Acting, confirm, go_on, record
from detent.agents.notebook.action import registry as every_action
from detent.agents.notebook.effect_declaration import DECLARED
from detent.agents.notebook.generate_effect import generate
from detent.agents.notebook.kernel_session import Bench, NeedsConsent
from detent.agents.notebook.notebook_file import publish
from detent.agents.notebook.notebook_state import NotebookState
from detent.agents.notebook.plan_effect import Planning
from detent.agents.notebook.port import Advisers
from detent.agents.notebook.registry import ActionRegistry
from detent.core.contract import Contract
from detent.core.effect_type import Effect, EffectFailed, Outcome
from detent.core.status import Status
from detent.errors import Refused
from detent.host.opening import open_reader
from detent.kit.agent import Surroundings

if TYPE_CHECKING:
    from detent.agents.notebook.jupyter import Kernels
    from detent.host.port import Reader

SOURCES = {
    "builtin:analysis": "detent.agents.notebook.analysis:analyst",
    "builtin:script": "detent.agents.notebook.script_planner:advise_by_script",
    "http": "detent.agents.notebook.http_planner:remote",
    "llm": "detent.agents.notebook.model_planner:advise_by_model",
}
SWEEP_S = 2.0
KEEP_VARIABLE = "DETENT_KEEP_KERNELS_S"
KEEP_S = 30 * 60.0  # how long the kernel of a run that waits for a person stays when its detent leaves
Source = Callable[[dict[str, Any]], Advisers]


class BookAtWork(NotebookState):
    """A run's book for its own effects: nobody else lets it read on while one of them is at work."""


class Notebooks:
    """The notebook runs of one home; with a reader that somebody else closes, or one of its own."""

    def __init__(
        self,
        home: Path,
        *,
        reader: "Reader | None" = None,
        registry: ActionRegistry | None = None,
        sources: dict[str, Source] | None = None,
        kernels: "Kernels | None" = None,
        keep_s: float = 0.0,
    ) -> None:
        self.home = home
        self.registry = registry or every_action()
        self.bench = Bench(str(home.absolute()), kernels, keep_s)
        self._sources = dict(sources or {})
        self._reader: Reader = reader or open_reader(home)
        self._is_reader_ours = reader is None
        self._advisers: dict[str, Advisers] = {}
        self._loaded: set[str] = set()
        self._driven: set[str] = set()  # runs that had work done here, and whose end may still come
        self._sweeper: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End every kernel and let go of the reader."""
        if self._sweeper is not None:
            self._sweeper.cancel()
            await asyncio.gather(self._sweeper, return_exceptions=True)
        await self._publish()
        for run_id in self.bench.runs:
            summary = self._reader.summary(run_id)
            if summary is not None and summary.status is Status.WAITING:
                await self.bench.leave(self.book(run_id))
            elif summary is not None and summary.status.is_terminal and summary.state != "error":
                self.bench.files.forget(run_id)
        await self.bench.close()
        if self._is_reader_ours:
            self._reader.close()

    def effects(self) -> dict[str, Effect]:
        """The effects of the notebook machine, by name."""
        made = {
            "notebook.plan": self._plan,
            "notebook.generate": self._generate,
            "notebook.act": self._act,
            "notebook.once": self._act,
            "notebook.record": self._record,
            "notebook.next": self._next,
            "notebook.confirm": self._confirm,
        }
        return {name: Effect(name, made[name], declared) for name, declared in DECLARED.items()}

    # books

    def book(self, run_id: str) -> NotebookState:
        """A run's book, read on to where its journal ends."""
        return self._reader.project(run_id, BookAtWork)

    def is_agreed(self, book: NotebookState) -> bool:
        """Whether a change of the plan needs nobody's word: by policy, or because there is no plan to change."""
        policy = book.given_input.get("confirm") or "first"
        return policy == "all" or (policy == "first" and (book.plan is None or book.plan.is_default))

    def advisers(self, book: NotebookState) -> Advisers:
        """Who this run asks."""
        return self._resolve(book.run.id, book.given_input.get("planner") or {"use": "builtin:analysis"})

    def fallback(self, book: NotebookState) -> Advisers | None:
        """Who is asked when the planner cannot be reached."""
        settings = book.given_input.get("fallback")
        return self._resolve(f"{book.run.id} fallback", settings) if isinstance(settings, dict) else None

    def _resolve(self, key: str, settings: dict[str, Any]) -> Advisers:
        if key not in self._advisers:
            use = str(settings.get("use") or "")
            self._advisers[key] = (self._sources.get(use) or source(use))(settings)
        return self._advisers[key]

    # effects

    async def _plan(self, contract: Contract) -> Outcome:
        return await self._with(contract, lambda book: Planning(self, book, contract).perform())

    async def _generate(self, contract: Contract) -> Outcome:
        return await self._with(contract, lambda book: generate(self, book, contract))

    async def _act(self, contract: Contract) -> Outcome:
        return await self._with(contract, lambda book: Acting(self, book, contract).perform())

    async def _record(self, contract: Contract) -> Outcome:
        return await self._with(contract, record)

    async def _next(self, contract: Contract) -> Outcome:
        return await self._with(contract, go_on)

    async def _confirm(self, contract: Contract) -> Outcome:
        return await self._with(contract, lambda book: confirm(self, book, contract))

    async def _with(self, contract: Contract, work: Callable[[NotebookState], Awaitable[Outcome]]) -> Outcome:
        if self._sweeper is None:
            self._sweeper = asyncio.get_running_loop().create_task(self._sweep())
        try:
            book = self.book(str(contract.input["run_id"]))
            self._driven.add(book.run.id)
            self._load_actions(str(book.given_input.get("actions") or ""))
            return await work(book)
        except NeedsConsent as error:
            return Outcome(question=error.question)
        except Refused as error:
            raise EffectFailed(str(error), type="validation_error") from error

    def _load_actions(self, path: str) -> None:
        """Let a user's file register its actions, once."""
        if not path or path in self._loaded:
            return
        spec = importlib.util.spec_from_file_location(f"detent_actions_{len(self._loaded)}", path)
        if spec is None or spec.loader is None:
            raise Refused(f"{path} is not a Python file")
        module = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            raise Refused(f"{path} cannot be loaded: {type(error).__name__}: {error}") from error
        self._loaded.add(path)
        found = getattr(module, "registry", None)
        if isinstance(found, ActionRegistry):
            self.registry.join(found)

    async def _publish(self) -> None:
        """Leave the notebooks of runs that are over on disk, whoever let them come to their end."""
        for run_id in [*self._driven]:
            summary = self._reader.summary(run_id)
            if summary is not None and summary.status.is_terminal:
                self._driven.discard(run_id)
                await asyncio.to_thread(publish, self.book(run_id))

    async def _sweep(self) -> None:
        """End the kernels of runs that are over, however they ended."""
        while True:
            await asyncio.sleep(SWEEP_S)
            await self._publish()
            for run_id in self.bench.runs:
                summary = self._reader.summary(run_id)
                if summary is not None and summary.status.is_terminal and summary.state != "error":
                    await self.bench.drop(run_id)
                    await asyncio.to_thread(self.bench.files.forget, run_id)


def source(use: str) -> Source:
    """The function that makes advisers of that name."""
    place = SOURCES.get(use)
    if place is None:
        raise Refused(f"there is no planner `{use}`; there are {', '.join(SOURCES)}")
    module, _, name = place.partition(":")
    found: Source = getattr(importlib.import_module(module), name)
    return found


def open_effects(around: Surroundings) -> dict[str, Effect]:
    """The agent's effects for one host; its kernels are closed with it."""
    keep_s = float(os.environ.get(KEEP_VARIABLE) or KEEP_S)
    if around.reader is not None:
        around.reader.attend()  # every cell reads its book: from memory, and not once more from the file
    notebooks = Notebooks(around.home, reader=around.reader, keep_s=keep_s)
    around.closing.push_async_callback(notebooks.close)
    return notebooks.effects()
