"""The kernels of notebook runs: one per run, brought back to where its journal says it was whenever it is new.

A new kernel knows nothing. Before the first cell it runs for us, it is given a checkpoint of the variables and the pure
cells that came after it (`kernel_restore`).
"""

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from detent.agents.notebook.cell import Output
from detent.agents.notebook.cell_text import plain_text
from detent.agents.notebook.checkpoint import BYTES_MAX, NAMES_MAX, CheckpointFiles
from detent.agents.notebook.kernel_restore import RestorePlan, ask_way, plan_restore
from detent.agents.notebook.notebook_state import NotebookState
from detent.core.question import Question
from detent.effects.arguments import Arguments
from detent.effects.sandbox import KNOWN, read_wish

if TYPE_CHECKING:
    from detent.agents.notebook.jupyter import CellExecution, Kernel, Kernels

TIMEOUT_S = 300.0
GRACE_S = 5.0
EFFECT_MAX = 4_000  # characters of one output that a planner is told
CHECKPOINT_AFTER_S = 30.0  # of work in cells: what would take longer to do again than to write down
Say = Callable[[Mapping[str, Any]], None]


class CellLimits(NamedTuple):
    """How long a cell may take, and how long it then has to give in."""

    timeout_s: float
    grace_s: float


class NeedsConsent(Exception):
    """A person must say something before the kernel can go on."""

    def __init__(self, question: Question) -> None:
        super().__init__(question.text)
        self.question = question


class Bench:
    """Kernels by run, and which process of each has been told what; `kernels` may be somebody's own."""

    def __init__(self, home: str, kernels: "Kernels | None" = None, keep_s: float = 0.0) -> None:
        self._home = home
        self._keep_s = keep_s
        self._kernels = kernels
        self._ready: dict[str, int] = {}  # run: the generation of its kernel that has everything
        self._begun: set[str] = set()
        self._worked_s: dict[str, float] = {}  # run: how long its cells have worked since the last checkpoint
        self.files = CheckpointFiles(Path(home))

    async def _all(self) -> "Kernels":
        if self._kernels is None:
            from detent.agents.notebook.jupyter import Kernels  # noqa: PLC0415  # jupyter_client takes a while to load

            self._kernels = Kernels(self._home, keep_s=self._keep_s)
            await self._kernels.__aenter__()
        return self._kernels

    async def begin(self, book: NotebookState) -> None:
        """Let a run's kernel start while something else is being done."""
        kernels = await self._all()
        self._begun.add(book.run.id)
        kernels.begin(book.run.id, **_settings(book))

    async def ready(self, book: NotebookState, say: Say, way: str = "") -> tuple["Kernel", list[str]]:
        """The run's kernel with everything in it that the journal says; what is to be told about that.

        `way` is a person's answer where a cell that touched the world would have to run again.
        """
        kernels = await self._all()
        run_id = book.run.id
        running = kernels.running(run_id)
        if running is not None and self._ready.get(run_id) == running.generation:
            return running, []
        self._begun.add(run_id)
        kernel = await kernels.get(run_id, **_settings(book))
        if not kernel.is_alive:
            await kernel.restart()
        if run_id not in self._ready and kernels.count_executed(run_id) == len(book.executed) > 0:
            self._ready[run_id] = kernel.generation  # it was kept for us, and has run what the journal says
            say({"attached": kernel.pid})
        if self._ready.get(run_id) == kernel.generation:
            return kernel, []
        if kernels.count_executed(run_id):
            await kernel.restart()  # it knows something, but not what the journal says
        told = await self._restore(kernel, book, say, way)
        self._ready[run_id] = kernel.generation
        kernels.note(run_id, len(book.executed))  # a new process: whoever comes after a crash looks into its folder
        return kernel, told

    async def find_marks(self, book: NotebookState, code: str) -> list[str]:
        """What this cell was about to do to the world when its kernel and its detent died."""
        return (await self._all()).list_marks(book.run.id, code)

    async def forget_marks(self, book: NotebookState) -> None:
        """What was marked has been dealt with."""
        (await self._all()).forget_marks(book.run.id)

    def plan(self, book: NotebookState) -> RestorePlan:
        """What a new kernel of this run would be given."""
        return plan_restore(book, self.files.has(book.run.id, book.checkpoint))

    async def _restore(self, kernel: "Kernel", book: NotebookState, say: Say, way: str) -> list[str]:
        plan, problem = self.plan(book), ""
        if plan.checkpoint and (problem := await self._load(kernel, book, plan.checkpoint, say)):
            plan = plan_restore(book, has_file=False)
        if plan.unknown and not way:
            raise NeedsConsent(ask_way(plan))
        told = await self._replay(kernel, book, plan.rows(way), say)
        if problem:
            told.append(f"⚠️ replay: the kept variables could not be read: {problem}")
        stays = [*plan.stands, *(plan.unknown if way == "without" else ())]
        if stays:
            told.append(f"⚠️ replay: not run again: {', '.join(dict.fromkeys(row['cell_id'] for row in stays))}")
        if plan.lost:
            told.append(f"⚠️ replay: not kept: {', '.join(f'{name} ({why})' for name, why in plan.lost.items())}")
        return told

    async def _load(self, kernel: "Kernel", book: NotebookState, checkpoint: dict[str, Any], say: Say) -> str:
        """Give a new kernel the variables of a checkpoint; why not, where that cannot be done."""
        if kernel.folder is None:
            return "the kernel has no folder"
        say({"restoring": len(checkpoint.get("names", ()))})
        path = kernel.folder / "checkpoint.pickle"
        try:
            if not await asyncio.to_thread(self.files.fetch, book.run.id, checkpoint["hash"], path):
                return "the file is gone, or is not the one that was written"
            answer = await kernel.load(str(path))
        finally:
            path.unlink(missing_ok=True)
        if answer is None or not answer.get("is_loaded"):
            await kernel.restart()  # whatever was read of it must not stay
            return str((answer or {}).get("why") or "the kernel gave no answer")
        return ""

    async def checkpoint(
        self, book: NotebookState, kernel: "Kernel", at: int, *, worked_s: float, is_due: bool
    ) -> dict[str, Any]:
        """Keep the variables as they are after `at` cells, if it is time; what the journal is to say of it."""
        run_id = book.run.id
        self._worked_s[run_id] = self._worked_s.get(run_id, 0.0) + worked_s
        limit = (book.given_input.get("kernel") or {}).get("checkpoint_bytes", BYTES_MAX)
        is_due = is_due or self._worked_s[run_id] >= CHECKPOINT_AFTER_S
        if not is_due or not limit or not kernel.is_alive or kernel.folder is None:
            return {}
        self._worked_s[run_id] = 0.0
        path = kernel.folder / "checkpoint.pickle"
        try:
            answer = await kernel.save(str(path), int(limit)) or {"lost": {"*": "the kernel did not write them"}}
            if not answer.get("is_kept"):
                return {"problem": str(answer.get("lost", {}).get("*", ""))}
            kept = await asyncio.to_thread(self.files.keep, run_id, path, str(book.checkpoint.get("hash", "")))
        except OSError as error:
            return {"problem": str(error)}
        finally:
            path.unlink(missing_ok=True)
        found = {"hash": kept.hash, "bytes": kept.size, "at": at, "names": answer["names"][:NAMES_MAX]}
        return {**found, "lost": answer["lost"]} if answer["lost"] else found

    async def _replay(self, kernel: "Kernel", book: NotebookState, todo: list[dict[str, Any]], say: Say) -> list[str]:
        told: list[str] = []
        limit = limits(book)
        for number, cell in enumerate(todo, 1):
            say({"replaying": number, "of": len(todo), "cell_id": cell["cell_id"]})
            done = await kernel.execute(
                cell["code"], timeout_s=limit.timeout_s, grace_s=limit.grace_s, inputs=cell.get("inputs", ())
            )
            if done.status != cell["ran"]:
                told.append(f"⚠️ replay: the cell {cell['cell_id']} ended as {done.status}, before as {cell['ran']}")
            if not kernel.is_alive:
                await kernel.restart()
        return told

    async def look(
        self, book: NotebookState, expressions: Mapping[str, str], strategies: Mapping[str, str], way: str = ""
    ) -> "CellExecution":
        """Look into a run's kernel without running a cell."""
        kernel, _ = await self.ready(book, lambda _: None, way)
        return await kernel.look(expressions=expressions, strategies=strategies)

    def is_asking(self, run_id: str) -> bool:
        """Whether the run's kernel waits in a cell for input."""
        return self._kernels is not None and self._kernels.is_asking(run_id)

    @property
    def runs(self) -> tuple[str, ...]:
        """The runs that have a kernel."""
        return tuple(self._begun)

    async def drop(self, run_id: str) -> None:
        """End a run's kernel."""
        self._ready.pop(run_id, None)
        self._begun.discard(run_id)
        if self._kernels is not None:
            await self._kernels.drop(run_id)

    async def leave(self, book: NotebookState) -> None:
        """Leave a waiting run's kernel for the next detent, if it has all that the journal says."""
        run_id = book.run.id
        if self._kernels is not None and run_id in self._ready:
            await self._kernels.leave(run_id, len(book.executed))

    async def close(self) -> None:
        """End every kernel that was not left."""
        if self._kernels is not None:
            await self._kernels.shutdown()
            self._kernels = None


def _settings(book: NotebookState) -> dict[str, Any]:
    given = book.given_input.get("kernel") or {}
    threads = given.get("threads")
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
    env = dict.fromkeys(names, str(threads)) if threads else {}
    env |= {name: os.environ[name] for name in given.get("env") or () if name in os.environ}
    wanted = {name: given[name] for name in ("sandbox", "paths", "network") if name in given}
    wish = read_wish(Arguments("kernel", wanted, KNOWN))
    return {"name": str(given.get("name") or ""), "cwd": str(given.get("cwd") or ""), "env": env, "wish": wish}


def limits(book: NotebookState) -> CellLimits:
    """How long a cell of this run may take."""
    given = book.given_input.get("kernel") or {}
    return CellLimits(float(given.get("timeout_s") or TIMEOUT_S), float(given.get("grace_s") or GRACE_S))


def outputs_of(rows: list[dict[str, Any]], number: int | None) -> tuple[Output, ...]:
    """A kernel's outputs as the notebook keeps them, under the cell's number."""
    return tuple(_output(row, number) for row in rows)


def _output(row: dict[str, Any], number: int | None) -> Output:
    trace = tuple(str(line) for line in row.get("traceback", ()))
    return Output(
        output_type=str(row["output_type"]),
        content=_content(row),
        text=str(row.get("text", "")),
        name=str(row.get("name", "")),
        data=row.get("data", {}),
        metadata=row.get("metadata", {}),
        execution_count=number if row["output_type"] == "execute_result" else None,
        ename=str(row.get("ename", "")),
        evalue=str(row.get("evalue", "")),
        traceback=trace,
    )


def _content(row: dict[str, Any]) -> str:
    """One output as one text; what cannot be read is named."""
    if row["output_type"] == "stream":
        return cut(plain_text(str(row.get("text", ""))))
    if row["output_type"] == "error":
        last = plain_text("\n".join(row.get("traceback", ())))
        return cut(last or f"{row.get('ename')}: {row.get('evalue')}")
    data = row.get("data", {})
    if "text/plain" in data and not any(mime.startswith("image/") for mime in data):
        return cut(plain_text(str(data["text/plain"])))
    pictures = [mime for mime in data if mime.startswith("image/")]
    return f"<{pictures[0]}>" if pictures else f"<{next(iter(data), 'nothing')}>"


def cut(text: str) -> str:
    """A text short enough to be told: its beginning and its end."""
    if len(text) <= EFFECT_MAX:
        return text
    half = EFFECT_MAX // 2
    return f"{text[:half]}\n… {len(text) - EFFECT_MAX:,} characters left out …\n{text[-half:]}"


def variable_changes(book: NotebookState, execution: "CellExecution") -> dict[str, Any]:
    """What a cell did to the variables."""
    now = {name: variable.value for name, variable in execution.variables.items()}
    new = {name: value for name, value in now.items() if name not in book.variables or book.variables[name] != value}
    gone = [name for name in book.variables if name not in now] if execution.has_all_variables else []
    return {"set": new, "gone": gone} if new or gone else {}


def questions(acceptance: Iterable[str]) -> dict[str, str]:
    """What to ask the kernel so that acceptance expressions can be judged: each one's value, and whether it holds."""
    asked: dict[str, str] = {}
    for number, source in enumerate(acceptance):
        asked[f"value {number}"] = source
        # A frame has no truth of its own: that such a name is there is what is meant.
        is_name = source.strip().isidentifier()
        holds = f"({source.strip()}) is not None and ({source.strip()}) is not False"
        asked[f"holds {number}"] = holds if is_name else f"bool({source.strip()})"
    return asked


def judge_acceptance(acceptance: Iterable[str], answers: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Acceptance expressions with what the kernel found: whether each holds, its value or its error."""
    found: dict[str, Any] = {}
    for number, source in enumerate(acceptance):
        value, holds = answers.get(f"value {number}"), answers.get(f"holds {number}")
        if value is None or holds is None:
            found[source] = {"holds": False, "error": "the kernel gave no answer"}
        elif "error" in value or "error" in holds:
            error = value.get("error") or holds["error"]
            found[source] = {"holds": False, "error": f"{error.get('ename')}: {error.get('evalue')}"}
        else:
            found[source] = {"holds": holds.get("value") is True, "value": value.get("value")}
    return found


def describe_effects(execution: "CellExecution", outputs: tuple[Output, ...]) -> list[str]:
    """The effects of a cell: what it really put out."""
    texts = [output.content for output in outputs if output.content.strip()]
    if execution.error is not None and not any(output.output_type == "error" for output in outputs):
        texts.append(f"{execution.error['ename']}: {execution.error['evalue']}")
    return texts
