"""One request on its way through a kernel, and what became of it.

A request is over when its reply and the kernel's idle have both come, or one of them has and the other stays away, or
the process has ended. No single message can keep it open.
"""

import asyncio
import time
from typing import Any, Literal

import msgspec

from detent.agents.notebook.jupyter.output import Outputs
from detent.agents.notebook.jupyter.output_sanitiser import plain
from detent.agents.notebook.jupyter.variable import Variable
from detent.core.value import scrub

STRAY_S = 1.0  # of silence, once idle has come: then we go on without the reply
OUTPUT_S = 3.0  # of silence, once the reply has come: a busy machine may take long to send what was put out

State = Literal["ok", "error", "timeout", "dead", "interrupted", "asking"]  # asking: it waits for input


class CellExecution(msgspec.Struct, frozen=True):
    """How a cell went."""

    status: State
    outputs: list[dict[str, Any]] = []
    execution_count: int | None = None
    error: dict[str, Any] | None = None  # ename, evalue, traceback
    variables: dict[str, Variable] = {}  # all of the user's variables as they stand after the cell
    has_all_variables: bool = True  # false: there are too many, or there was no time to look at all
    expressions: dict[str, dict[str, Any]] = {}  # per label {"value", "type", "is_whole"} or {"error": {ename, evalue}}
    duration_s: float = 0.0
    is_restarted: bool = False  # the kernel had to be killed: its variables are gone
    displays: dict[str, list[int]] = {}  # display id: which outputs show it
    updates: dict[str, dict[str, Any]] = {}  # display id of an earlier cell: its new data and metadata
    deeds: tuple[str, ...] = ()  # what the kernel's audit hook saw it do to the world
    asks: str | None = None  # asking: the prompt


class CellRequest:
    """A request that has been sent; the kernel's channels feed it until it is over."""

    def __init__(self, msg_id: str, outputs: Outputs, is_silent: bool = False) -> None:
        self.msg_id = msg_id
        self.outputs = outputs
        self._is_silent = is_silent
        self.reply: dict[str, Any] | None = None
        self.is_idle = False
        self.is_dead = False
        self.begun = time.monotonic()
        self.execution_count: int | None = None
        self._loop = asyncio.get_running_loop()
        self._taken_up = asyncio.Event()
        self._over: asyncio.Future[None] = self._loop.create_future()
        self._stray: asyncio.TimerHandle | None = None
        self._heard_at = self.begun
        self.inputs: list[str] = []  # what the cell is given when it calls input()
        self.may_ask = False  # whether somebody can be asked for more
        self.asks: str | None = None  # the prompt it waits at
        self._paused: asyncio.Future[None] = self._loop.create_future()  # one future for both: no task waits for either

    def ask(self, prompt: str) -> None:
        """The cell waits for input that nobody has given."""
        self.asks = prompt
        self._pause()

    async def wait_paused(self, within_s: float | None) -> bool:
        """Wait until the cell is over or asks for input; whether one of the two came in time."""
        if not self._paused.done():
            await asyncio.wait((self._paused,), timeout=within_s)
        return self._paused.done()

    def go_on(self) -> None:
        """Its input has been given."""
        self.asks = None
        if not self.is_over:
            self._paused = self._loop.create_future()
        self.begun = time.monotonic()

    def take_reply(self, content: dict[str, Any]) -> None:
        """The shell channel's answer."""
        self.reply = content
        count = content.get("execution_count")
        self.execution_count = count if isinstance(count, int) else self.execution_count
        self._progress()

    def put_out(self, kind: str, content: dict[str, Any]) -> None:
        """A message of the output channel."""
        self._heard_at = time.monotonic()
        if kind != "status" or self._is_silent:
            self._taken_up.set()
        if kind == "status":
            if content.get("execution_state") == "idle":
                self.is_idle = True
                self._progress()
        elif kind == "execute_input":
            count = content.get("execution_count")
            self.execution_count = count if isinstance(count, int) else self.execution_count
        else:
            self.outputs.take(kind, content)

    def end_dead(self) -> None:
        """The process has ended."""
        self.is_dead = True
        self._end()

    def _progress(self) -> None:
        if self.reply is not None and self.is_idle:
            self._end()
        elif self._stray is None:
            self._heard_at = time.monotonic()
            self._stray = self._loop.call_later(self._patience_s, self._end_stray)

    @property
    def _patience_s(self) -> float:
        return STRAY_S if self.is_idle else OUTPUT_S

    def _end_stray(self) -> None:
        silence_s = time.monotonic() - self._heard_at  # a flood of output may still be coming in
        if silence_s < self._patience_s:
            self._stray = self._loop.call_later(self._patience_s - silence_s + 0.01, self._end_stray)
        else:
            self._end()

    def _end(self) -> None:
        if self._stray is not None:
            self._stray.cancel()
        if not self._over.done():
            self._over.set_result(None)
        self._pause()

    def _pause(self) -> None:
        if not self._paused.done():
            self._paused.set_result(None)

    async def over(self, within_s: float | None) -> bool:
        """Wait for the end; whether it came in time."""
        if not self._over.done():
            await asyncio.wait((self._over,), timeout=within_s)
        return self._over.done()

    @property
    def is_taken_up(self) -> bool:
        """Whether the kernel has begun with it."""
        return self._taken_up.is_set()

    async def wait_begun(self, within_s: float) -> None:
        """Wait until the kernel has begun with it: it repeats the code of a cell, or says something."""
        if not self._taken_up.is_set() and not self.is_over:
            waiting = asyncio.ensure_future(self._taken_up.wait())
            try:
                await asyncio.wait((waiting, self._over), timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
            finally:
                waiting.cancel()

    @property
    def is_over(self) -> bool:
        """Whether the end has come."""
        return self._over.done()

    def close(self) -> None:
        """Let go of the timer, however it ended."""
        self._end()

    @property
    def duration_s(self) -> float:
        """Seconds since the request was sent."""
        return time.monotonic() - self.begun

    @property
    def error(self) -> dict[str, Any] | None:
        """The exception of the cell, from what it put out or from the reply; a lost reply is one too."""
        reply = self.reply or {
            "ename": "ReplyLost",
            "evalue": "the kernel gave no reply: the cell may not have run whole",
        }
        if reply.get("status") == "ok":
            return None
        if not self.outputs.errors():
            trace = [str(line) for line in plain(reply.get("traceback") or [])]
            self.outputs.error(
                scrub(str(reply.get("ename") or "Aborted")), scrub(str(reply.get("evalue") or "")), trace
            )
        said = self.outputs.errors()[-1]
        return {key: said[key] for key in ("ename", "evalue", "traceback")}
