"""The client's end of a call through the gateway: it hears of progress, and its user is asked what a tool asks.

An older client is asked on its open connection. A newer one gets the question as the result of its call and makes the
call again with the answer; meanwhile the call waits here, and ends with this process.
"""

import asyncio
import contextlib
import secrets
from collections import OrderedDict
from collections.abc import Coroutine
from typing import Any

from mcp import MCPError, types
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from detent.effects.mcp.tool_call import Ask

WAIT_S = 600.0  # a client that does not come back for so long has cancelled its question
OPEN_MAX = 100  # calls that wait for a client to come back
KEY = "answer"
NOT_NOW = types.ElicitResult(action="cancel")


class ClientLine:
    """A client that waits for what comes of its call."""

    def __init__(self, ctx: Any) -> None:
        self.ctx = ctx  # of the latest request: a client that was asked comes back with another one
        self._tasks: set[asyncio.Task[None]] = set()
        self._questions: asyncio.Queue[Any] = asyncio.Queue()
        self._answer: asyncio.Future[types.ElicitResult] | None = None

    @property
    def is_asked_by_result(self) -> bool:
        """Whether a question is the result of a call there."""
        return self.ctx.protocol_version in MODERN_PROTOCOL_VERSIONS

    @property
    def may_come_back(self) -> bool:
        """Whether its call may end with a question, and be made again with the answer."""
        able = getattr(self.ctx.session.client_capabilities, "elicitation", None)
        return self.is_asked_by_result and able is not None

    def can_be_asked(self, *, by_url: bool = False) -> bool:
        """Whether it shows its user such a question."""
        able = getattr(self.ctx.session.client_capabilities, "elicitation", None)
        if able is None or not (self.is_asked_by_result or self.ctx.session.can_send_request):
            return False
        return able.url is not None if by_url else able.form is not None or able.url is None

    def say(self, told: Any) -> None:
        """Tell it how far its call is."""
        said = self.ctx.session.report_progress(float(told.get("progress") or 0), told.get("total"), told.get("text"))
        task = asyncio.ensure_future(said)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def ask(self, params: Any) -> types.ElicitResult:
        """What its user says to a question; `cancel` where nobody can be asked, or nobody answers."""
        if not self.can_be_asked(by_url=isinstance(params, types.ElicitRequestURLParams)):
            return NOT_NOW
        try:
            async with asyncio.timeout(WAIT_S):
                return await (self._ask_by_result(params) if self.is_asked_by_result else self._ask_on_line(params))
        except (TimeoutError, MCPError):
            return NOT_NOW

    def ask_without(self, limit: asyncio.Timeout, limit_s: float) -> Ask:
        """Ask, while the time that a call may take stands still."""

        async def ask(params: Any) -> types.ElicitResult:
            limit.reschedule(None)
            try:
                return await self.ask(params)
            finally:
                with contextlib.suppress(RuntimeError):  # the call is over
                    limit.reschedule(asyncio.get_running_loop().time() + limit_s)

        return ask

    async def _ask_on_line(self, params: Any) -> types.ElicitResult:
        from mcp.shared.message import ServerMessageMetadata

        where = ServerMessageMetadata(related_request_id=self.ctx.request_id)
        reply: types.ElicitResult = await self.ctx.session.send_request(
            types.ElicitRequest(params=params), types.ElicitResult, metadata=where
        )
        return reply

    async def _ask_by_result(self, params: Any) -> types.ElicitResult:
        self._answer = asyncio.get_running_loop().create_future()
        self._questions.put_nowait(params)
        return await self._answer

    async def next_question(self) -> Any:
        """What is to be asked by a result."""
        return await self._questions.get()

    def take_answer(self, ctx: Any, reply: Any) -> None:
        """The client is back, with what its user said."""
        self.ctx = ctx
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(reply if isinstance(reply, types.ElicitResult) else NOT_NOW)


class PausedCalls:
    """Calls whose clients have been asked something, each by the mark that its client brings back."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, tuple[ClientLine, asyncio.Task[Any], Any]] = OrderedDict()

    async def begin(self, line: ClientLine, work: Coroutine[Any, Any, Any], call: Any) -> Any:
        """Do what a client wants, until it is done or the client is asked; `call` says which one it is."""
        return await self._follow(line, asyncio.ensure_future(work), call)

    def find(self, mark: str | None, call: Any) -> bool:
        """Whether a client has come back for this very call."""
        return mark is not None and mark in self._waiting and self._waiting[mark][2] == call

    async def go_on(self, ctx: Any, mark: str, replies: Any) -> Any:
        """Go on with a call whose client has come back."""
        line, task, call = self._waiting.pop(mark)
        line.take_answer(ctx, (replies or {}).get(KEY))
        return await self._follow(line, task, call)

    async def _follow(self, line: ClientLine, task: "asyncio.Task[Any]", call: Any) -> Any:
        asking = asyncio.ensure_future(line.next_question())
        try:
            await asyncio.wait({task, asking}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            task.cancel()  # the client has cancelled its call
            raise
        finally:
            asking.cancel()
        if task.done():
            return task.result()
        mark = secrets.token_hex(16)
        self._waiting[mark] = line, task, call
        while len(self._waiting) > OPEN_MAX:
            _, (_, oldest, _) = self._waiting.popitem(last=False)
            oldest.cancel()
        request = types.ElicitRequest(params=asking.result())
        return types.InputRequiredResult(input_requests={KEY: request}, request_state=mark)

    def close(self) -> None:
        """Nobody can come back any more."""
        for _, task, _ in self._waiting.values():
            task.cancel()
        self._waiting.clear()
