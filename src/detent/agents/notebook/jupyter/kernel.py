"""A Jupyter kernel that runs cells one at a time and always comes back.

A cell over its time limit is interrupted; one that ignores the interrupt is killed with its kernel, and a new kernel
starts at once. Each step has a bound, so `execute` is back within `timeout_s + grace_s` whatever the cell does. One
that dies by itself is reported and stays dead until somebody restarts it: its variables are gone, and only the caller
knows what to run again.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

from detent.agents.notebook.jupyter import kernel_launch
from detent.agents.notebook.jupyter.cell_request import CellExecution, CellRequest, State
from detent.agents.notebook.jupyter.kept_kernel import (
    INTERRUPTED,
    MARKS,
    KeptLink,
    KernelRecord,
    keeper_words,
    marks_of,
)
from detent.agents.notebook.jupyter.kernel_process import Link
from detent.agents.notebook.jupyter.output import OnOutput, Outputs
from detent.agents.notebook.jupyter.variable import VariableTable, ask_memory, installation, read_answer
from detent.core import EffectFailed, progress
from detent.core.value import scrub
from detent.effects.orphan_process import marks
from detent.effects.sandbox import NO_WISH, SandboxWish

TIMEOUT_S = 300.0
GRACE_S = 5.0
AGAIN = 40  # an interrupt that came too early for the kernel is repeated so often
START_S = 60.0
ATTACH_S = 10.0
POLITE_S = 2.0
LOOK_S = 5.0  # for a look of its own, after a cell that failed
MEMORY_S = 120.0  # for writing all variables to a file, or reading them
KILL_S = 0.25  # of the grace is kept for the killing itself


class AskingCell(NamedTuple):
    """A cell at work, or one that waits for input."""

    link: Link
    cell: CellRequest
    code: str
    inputs: list[str]  # what it has been given so far
    question: dict[str, str]


class Kernel:
    """One kernel: `async with Kernel() as kernel: await kernel.execute("1 + 1")`.

    `home` marks the process as ours, so that a later detent finds it should this one die.
    """

    def __init__(
        self,
        name: str = "python3",
        *,
        cwd: str = ".",
        env: Mapping[str, str] | None = None,
        home: str = "",
        wish: SandboxWish = NO_WISH,
        stays: bool = False,
    ) -> None:
        self._wish = wish
        self._stays = stays  # whether it can be left to the next detent
        self.executed_before = 0  # cells of the journal that it had run when an earlier detent left it
        self.name = name
        self.generation = 0  # how many processes there have been
        self.looks = True  # whether cells are followed by a look at the variables
        self._cwd = cwd
        self._env = dict(env or {})
        self._home = home
        self._link: Link | None = None
        self._table = VariableTable()
        self._turn = asyncio.Lock()
        self._renewal: asyncio.Task[None] | None = None
        self._is_interrupted = False
        self._asking: AskingCell | None = None
        self._endings = 0  # how many are waiting to end the process

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.shutdown()

    @property
    def is_alive(self) -> bool:
        """Whether there is a process that could run a cell."""
        return self._link is not None and not self._link.ended.is_set()

    @property
    def is_asking(self) -> bool:
        """Whether a cell waits in it for input."""
        return self._asking is not None and self._asking.link is self._link and self.is_alive

    @property
    def language_info(self) -> dict[str, Any]:
        """What the kernel says of its language."""
        return self._link.language_info if self._link is not None else {}

    @property
    def pid(self) -> int:
        """The kernel's process, 0 if there is none."""
        return self._link.pid if self._link is not None else 0

    @property
    def link(self) -> Link | None:
        """The process with its channels, while there is one."""
        return self._link

    @property
    def can_stay(self) -> bool:
        """Whether it can go on without this process: nothing is at work in it."""
        return self._link is not None and self._link.can_stay and not self._turn.locked() and self._asking is None

    async def attach(self, record: KernelRecord) -> None:
        """Go on with a process that an earlier detent left; where that fails there is none, as before."""
        link = KeptLink(record)
        try:
            await link.open(ATTACH_S)
        except EffectFailed:
            await link.close()
            return
        except BaseException:  # we are stopped ourselves: the next one may go on with it
            await link.leave(max(1, int(record.until - time.time())))
            raise
        self._link, self.executed_before = link, record.executed
        self.generation += 1

    async def leave(self, keep_s: int) -> None:
        """Leave the process to its keeper."""
        async with self._turn:
            link, self._link = self._link, None
            if link is not None:
                await link.leave(keep_s)

    async def start(self, within_s: float = START_S) -> None:
        """Start the process; nothing happens if it already runs."""
        async with self._turn:
            await self._wait_renewed()
            if not self.is_alive:
                await self._replace(within_s)

    async def restart(self, within_s: float = START_S) -> None:
        """A new process in place of the old one, which is killed with all it started; a cell at work ends as dead."""
        async with self._last_turn():
            await self._replace(within_s)

    async def shutdown(self, polite_s: float = POLITE_S) -> None:
        """End the process: politely if it is idle, at once if it is not."""
        async with self._last_turn():
            link, self._link = self._link, None
            if link is not None:
                await link.close(polite_s)

    @contextlib.asynccontextmanager
    async def _last_turn(self) -> AsyncIterator[None]:
        """The turn of somebody who ends the process: whatever is at work or waits before us gives way."""
        self._endings += 1
        try:
            if self._renewal is not None:
                self._renewal.cancel()
            if self._turn.locked() and self._link is not None:
                self._link.kill_group()
            async with self._turn:
                await self._wait_renewed()
                yield
        finally:
            self._endings -= 1

    async def interrupt(self) -> None:
        """Interrupt the cell at work; nothing happens if there is none."""
        if self._turn.locked() and self._link is not None:
            self._is_interrupted = True
            await self._link.interrupt(again=AGAIN)

    async def execute(
        self,
        code: str,
        *,
        timeout_s: float = TIMEOUT_S,
        grace_s: float = GRACE_S,
        on_output: OnOutput | None = None,
        silent: bool = False,
        expressions: Mapping[str, str] | None = None,
        strategies: Mapping[str, str] | None = None,
        inputs: Sequence[str] | None = None,
    ) -> CellExecution:
        """Run a cell, look at the variables, evaluate the expressions (label: source); never later than limit + grace.

        `strategies` asks for details of single variables: {name: shape_only | describe_only | head_only | last_N_only}.
        `inputs` is what its calls of `input()` are given; one more is answered as `asking`, and the same call with one
        more input goes on there. Without them, `input()` raises.
        """
        async with self._turn:
            await self._wait_renewed()
            self._is_interrupted = False
            asking, self._asking = self._asking, None
            if asking is not None and asking.link is self._link and not asking.link.ended.is_set():
                if asking.code == code and inputs is not None and [*inputs[:-1]] == asking.inputs:
                    return await self._go_on(asking, str(inputs[-1]), timeout_s, grace_s)
                await self._abandon(asking.link, asking.cell, grace_s)
                await self._wait_renewed()
            outputs = Outputs(on_output)
            link = self._link
            if self._endings or link is None or link.ended.is_set():
                return _dead(outputs, "the kernel is not running; restart it")
            progress.note("sandbox", link.sandbox.note)
            code = scrub(code)
            question = (
                self._table.question(code, strategies or {}, expressions or {}) if link.can_look and self.looks else {}
            )
            (link.folder / MARKS).unlink(missing_ok=True)  # they were about cells that have ended
            cell = await link.send(code, outputs, question, silent, inputs)
            return await self._follow(AskingCell(link, cell, code, [*(inputs or ())], question), timeout_s, grace_s)

    async def _go_on(self, asking: "AskingCell", value: str, timeout_s: float, grace_s: float) -> CellExecution:
        """Give a waiting cell its input and follow it on."""
        asking.inputs.append(value)
        asking.cell.go_on()
        await asking.link.give_input(value)
        return await self._follow(asking, timeout_s, grace_s)

    async def _follow(self, at_work: "AskingCell", timeout_s: float, grace_s: float) -> CellExecution:
        link, cell = at_work.link, at_work.cell
        try:
            status = await self._wait_ended(link, cell, timeout_s, grace_s)
            if status == "asking":
                self._asking = at_work
                return CellExecution("asking", outputs=cell.outputs.all(), asks=cell.asks)
            link.release(cell)
            if status == "dead":
                return _dead(cell.outputs, f"the kernel {link.farewell()}", cell, _read_marks(link, at_work.code))
            return await self._complete(link, cell, status, (timeout_s, at_work.question))
        except asyncio.CancelledError:
            await self._abandon(link, cell, grace_s)
            raise
        finally:
            if self._asking is None:
                link.release(cell)

    async def look(
        self, *, expressions: Mapping[str, str] | None = None, strategies: Mapping[str, str] | None = None
    ) -> CellExecution:
        """Look at the variables without running a cell."""
        return await self.execute("", timeout_s=LOOK_S, silent=True, expressions=expressions, strategies=strategies)

    async def save(self, path: str, bytes_max: int, within_s: float = MEMORY_S) -> dict[str, Any] | None:
        """Let the kernel write its variables to a file; what it says of that, None if it says nothing."""
        return await self._ask_memory(f"save({path!a}, {bytes_max})", within_s)

    async def load(self, path: str, within_s: float = MEMORY_S) -> dict[str, Any] | None:
        """Let the kernel read variables from a file that one before it has written."""
        return await self._ask_memory(f"load({path!a})", within_s)

    async def _ask_memory(self, call: str, within_s: float) -> dict[str, Any] | None:
        async with self._turn:
            await self._wait_renewed()
            link = self._link
            if self._endings or link is None or link.ended.is_set() or not link.can_look:
                return None
            return read_answer(await self._quietly(link, "", ask_memory(call), within_s))

    @property
    def folder(self) -> Path | None:
        """A folder that this process and the kernel's can both write to, as long as the kernel runs."""
        return self._link.folder if self._link is not None else None

    # How a cell ends

    async def _wait_ended(self, link: Link, cell: CellRequest, timeout_s: float, grace_s: float) -> State:
        """Climb the ladder: wait, interrupt, kill."""
        if not await cell.wait_paused(timeout_s):
            with contextlib.suppress(TimeoutError):  # all of it within the grace: a kernel may be slow to begin
                async with asyncio.timeout(max(0.0, grace_s - min(KILL_S, grace_s / 2))):
                    await link.interrupt(again=AGAIN)
                    await cell.over(None)
            if not cell.is_over:
                await link.kill()
            if link.ended.is_set() or not cell.is_over:
                self._renew()
            return "timeout"
        if not cell.is_over:
            return "asking"
        if cell.is_dead:
            return "dead"
        if cell.error is None:
            return "ok"
        mark = link.folder / INTERRUPTED  # somebody may interrupt it from another terminal too
        is_marked = mark.exists()
        mark.unlink(missing_ok=True)
        return "interrupted" if self._is_interrupted or is_marked else "error"

    async def _complete(
        self, link: Link, cell: CellRequest, status: State, asked: tuple[float, dict[str, str]]
    ) -> CellExecution:
        """The finished cell with what is known of the variables."""
        timeout_s, question = asked
        duration_s = cell.duration_s
        is_killed = link is not self._link or link.ended.is_set()
        error = _overdue(cell, timeout_s, is_killed) if status == "timeout" else cell.error
        self._table.deeds = ()
        found = self._table.take_reply(cell.reply) if question else {}
        if found is None and self._renewal is None:
            found = await self._look_again(link, question)
        if found is None and self._renewal is None:
            self._table.forget()
            cell.outputs.note("the variables could not be read after this cell")
        return CellExecution(
            status=status,
            outputs=cell.outputs.all(),
            execution_count=cell.execution_count,
            error=error,
            variables=self._table.all() if self._renewal is None else {},
            has_all_variables=self._table.is_complete,
            expressions=found or {},
            duration_s=duration_s,
            is_restarted=self._renewal is not None,
            displays=cell.outputs.displays,
            updates=cell.outputs.updates,
            deeds=self._table.deeds if self._renewal is None else (),
        )

    async def _abandon(self, link: Link, cell: CellRequest, grace_s: float) -> None:
        """The caller has gone: the cell must not go on with nobody who knows of it; a second cancel kills at once."""
        try:
            await link.interrupt()
            if await cell.over(grace_s) and not cell.is_dead:
                return
        finally:
            if not cell.is_over or cell.is_dead:
                link.kill_group()
                self._renew()

    # Looking at variables

    async def _look_again(self, link: Link, question: dict[str, str]) -> dict[str, Any] | None:
        """A look of its own: the cell failed, or its reply was lost, or somebody removed the probe."""
        found = self._table.take_reply(await self._quietly(link, "", question))
        if found is None and self._renewal is None and not link.ended.is_set():
            await self._quietly(link, installation(), {})
            found = self._table.take_reply(await self._quietly(link, "", question))
        return found

    async def _quietly(
        self, link: Link, code: str, question: dict[str, str], within_s: float = LOOK_S
    ) -> dict[str, Any] | None:
        """A silent request of our own; its reply, or None if there is none to be had."""
        if link.ended.is_set():
            return None
        cell = await link.send(code, Outputs(), question, is_silent=True)
        try:
            if not await cell.over(within_s):
                await link.interrupt()
                if not await cell.over(within_s / 5):
                    await link.kill()
                    self._renew()
        finally:
            link.release(cell)
        return cell.reply

    # Replacing the process

    def _renew(self) -> None:
        if self._renewal is None:
            self._renewal = asyncio.get_running_loop().create_task(self._replace(START_S))

    async def _wait_renewed(self) -> None:
        """Wait for a restart that is under way; what went wrong with it goes to whoever needs the kernel next."""
        renewal = self._renewal
        if renewal is not None:
            try:
                await asyncio.shield(renewal)
            except asyncio.CancelledError:
                if not renewal.cancelled():  # not the restart was cancelled, but we
                    raise
            except EffectFailed:
                self._renewal = None
                if not self._endings:
                    raise
            self._renewal = None

    async def _replace(self, within_s: float) -> None:
        old, self._link = self._link, None
        if old is not None:
            await old.close()
        self._table, self.executed_before = VariableTable(), 0
        folder = kernel_launch.private_folder() if self._stays else None
        keeper = keeper_words(folder) if folder is not None else ()
        link = Link(self.name, self._cwd, self._env, marks(self._home), self._wish, folder=folder, keeper=keeper)
        try:
            await link.open(within_s)
            if link.language == "python":
                await self._install(link, within_s)
        except BaseException:
            await link.close()
            raise
        self._link = link
        self.generation += 1

    async def _install(self, link: Link, within_s: float) -> None:
        """Place the probe; a kernel that is not IPython may refuse it, and then nobody looks."""
        cell = await link.send(installation(), Outputs(), {}, is_silent=True)
        is_over = await cell.over(within_s)
        link.release(cell)
        if not is_over or cell.is_dead:
            raise EffectFailed(f"the kernel `{self.name}` started, but it did not run its first cell")
        link.can_look = cell.error is None


def _read_marks(link: Link, code: str) -> list[str]:
    """What a cell was about to do to the world before its kernel died."""
    try:
        return marks_of((link.folder / MARKS).read_text(encoding="utf-8", errors="replace"), code)
    except OSError:
        return []


def _dead(outputs: Outputs, sentence: str, cell: CellRequest | None = None, deeds: Sequence[str] = ()) -> CellExecution:
    outputs.error("KernelDied", sentence, [])
    return CellExecution(
        status="dead",
        outputs=outputs.all(),
        execution_count=cell.execution_count if cell else None,
        error={"ename": "KernelDied", "evalue": sentence, "traceback": []},
        duration_s=cell.duration_s if cell else 0.0,
        deeds=tuple(deeds),
    )


def _overdue(cell: CellRequest, timeout_s: float, is_killed: bool) -> dict[str, Any]:
    """What is said of a cell over its limit; the interrupt's own traceback, if there is one, stays before it."""
    trace = cell.outputs.errors()[-1]["traceback"] if cell.outputs.errors() else []
    how = (
        "it ignored the interrupt, so the kernel was killed and its variables are gone"
        if is_killed
        else "it was interrupted"
    )
    sentence = f"the cell had not ended after {timeout_s:g} s; {how}"
    cell.outputs.error("TimeLimit", sentence, [])
    return {"ename": "TimeLimit", "evalue": sentence, "traceback": trace}
