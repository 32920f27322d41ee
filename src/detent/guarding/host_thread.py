"""The journal's side of guarded functions: a host, which begins calls and stays with them, in a thread of its own.

A program that is nothing but an event loop has it there instead, without a hand-over between threads for every message.

One process of a home holds the journal, this one or another; functions are called here all the same. When the holder
dies while a function is at work, this process takes over or finds the next one, which asks here what came of it.
"""

import asyncio
import contextlib
import logging
import os
import secrets
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from detent.core.contract import Contract
from detent.core.run import Run
from detent.core.status import Status
from detent.effects.remote_function import Reply
from detent.effects.remote_function_socket import CallerSocket
from detent.errors import JournalError, Refused
from detent.guarding.call_journal import CallDesk, CallOrder, JournalDesk
from detent.guarding.call_mailbox import (
    CallBroken,
    CallMailbox,
    CallSettled,
    call_in_loop,
    find_running_loop,
    settle_reply,
)
from detent.home import open as open_home
from detent.host.address import find_address
from detent.host.embedded.shared_host import SharedHost

OpenDesk = Callable[["LocalProgram"], AbstractAsyncContextManager[tuple[CallDesk, SharedHost | None]]]
REMEMBERED = 10_000  # runs whose calls are kept for a holder that asks later
OFFERS_MAX = 3  # how often an approved call is offered to this process before it is told that it cannot be reached
T = TypeVar("T")
log = logging.getLogger("detent.guard")


class LocalProgram:
    """This process, as the holder of the journal sees it: the calls that wait here, and what came of those made."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._waiting: dict[str, list[CallMailbox]] = {}
        self._accepted: dict[tuple[str, str], asyncio.Future[Reply]] = {}
        self._made: OrderedDict[str, dict[str, asyncio.Future[Reply]]] = OrderedDict()  # by run, then by contract

    def attend(self, run_id: str, pending: CallMailbox) -> None:
        """Somebody here waits for a run."""
        self._waiting.setdefault(run_id, []).append(pending)

    def leave(self, run_id: str, pending: CallMailbox) -> None:
        """And does so no more."""
        left = [one for one in self._waiting.get(run_id, ()) if one is not pending]
        self._waiting[run_id] = left
        if not left:
            del self._waiting[run_id]
        pending.leave()

    def accept(self, run_id: str, contract: Contract) -> "asyncio.Future[Reply] | None":
        """Take a call, if somebody here waits for it."""
        if not any(not one.is_left for one in self._waiting.get(run_id, ())):
            return None
        outcome = self._accepted[run_id, contract.id] = self.loop.create_future()
        return outcome

    def go(self, run_id: str, contract: Contract) -> None:
        """Make a call that was taken."""
        mark = run_id, contract.id
        outcome = self._accepted.pop(mark)
        waiting = next((one for one in self._waiting.get(run_id, ()) if not one.is_left), None)
        if waiting is None:
            settle_reply(outcome, {"absent": 1})
            return
        self._made.setdefault(run_id, {})[contract.id] = outcome
        while len(self._made) > REMEMBERED:
            self._made.popitem(last=False)
        waiting.offer(contract, partial(call_in_loop, self.loop, self._settle, mark, outcome))

    def _settle(self, mark: tuple[str, str], outcome: "asyncio.Future[Reply]", reply: Reply) -> None:
        made = self._made.get(mark[0], {})
        if "absent" in reply and made.get(mark[1]) is outcome:
            del made[mark[1]]
        settle_reply(outcome, reply)

    def recall(self, run_id: str, contract: Contract) -> "asyncio.Future[Reply] | None":
        """What came of a call that was made here, or will."""
        return self._made.get(run_id, {}).get(contract.id)

    def has_made(self, run_id: str) -> bool:
        """Whether a call of that run was made here."""
        return bool(self._made.get(run_id))


class Background:
    """A desk and the calls that it is asked for, for all guarded functions of one home in this process."""

    def __init__(self, open_desk: OpenDesk) -> None:
        self._open = open_desk
        self._stop: asyncio.Event | None = None
        self._thread: threading.Thread | None = None
        self._begun: set[asyncio.Task[None]] = set()  # an event loop keeps no task alive by itself
        self.pid = os.getpid()

    def open_in_thread(self) -> None:
        """Begin, in a thread with an event loop of its own."""
        opened: Future[None] = Future()
        self._thread = threading.Thread(target=self._work, args=(opened,), name="detent.guard", daemon=True)
        self._thread.start()
        opened.result()

    def _work(self, opened: "Future[None]") -> None:
        async def serve() -> None:
            self._stop = asyncio.Event()
            async with self.open_in_loop():
                opened.set_result(None)
                await self._stop.wait()

        try:
            asyncio.run(serve())
        except BaseException as error:  # it is told to whoever opened it
            if opened.done():
                log.exception("the journal's side of the guard has ended")
            else:
                opened.set_exception(error)

    @contextlib.asynccontextmanager
    async def open_in_loop(self) -> AsyncIterator[None]:
        """Serve calls in the event loop that is running."""
        self.loop = asyncio.get_running_loop()
        self.program = LocalProgram(self.loop)
        async with self._open(self.program) as (desk, host):
            self.desk, self._host = desk, host
            yield

    @property
    def host(self) -> SharedHost:
        """The host whose journal it is, where that is on this machine."""
        if self._host is None:
            raise Refused("this guard knows the journal by a server's address only; ask that server")
        return self._host

    def close(self, grace_s: float | None = None) -> None:
        """Let go of the journal; calls that are under way finish first, or have so many seconds for it."""
        if self._thread is not None and self._stop is not None and self._thread.is_alive():
            if self._host is not None:
                self._host.grace_s = grace_s
            with contextlib.suppress(RuntimeError):
                self.loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()

    @property
    def is_here(self) -> bool:
        """Whether it is in the event loop that runs in this thread."""
        return find_running_loop() is self.loop

    def submit(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        """Have something done where the journal's side is, from another thread."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The same from any event loop."""
        return await (work if self.is_here else asyncio.wrap_future(self.submit(work)))

    def begin(self, order: CallOrder, pending: CallMailbox) -> "Future[None] | asyncio.Task[None]":
        """Begin a call, or join the one that is under way; what follows is posted to its caller."""
        if not self.is_here:
            return self.submit(self._stay(order, pending))
        task = self.loop.create_task(self._stay(order, pending))
        self._begun.add(task)
        task.add_done_callback(self._begun.discard)
        return task

    async def _stay(self, order: CallOrder, pending: CallMailbox) -> None:
        try:
            run_id = await self.desk.find_run_id(order)
            self.program.attend(run_id, pending)
            try:
                await self.desk.begin(run_id, order)
                run = await self._await_end(run_id, order.is_blocking)
            finally:
                self.program.leave(run_id, pending)
                if not self.program.has_made(run_id):
                    await self.desk.leave(run_id)
            if run.ended is not None:
                await self.desk.leave(run_id)
            pending.post(CallSettled(run))
        except BaseException as error:
            pending.post(CallBroken(error))
            if not isinstance(error, Exception):
                raise

    async def _await_end(self, run_id: str, is_blocking: bool) -> Run:
        """Stay with a run until it has ended, or waits and the caller does not want to."""
        desk, offers = self.desk, 0
        while True:
            run = await desk.await_settled(run_id)
            if run.ended is not None:
                return run
            if waiting := _find_awaiting(run):
                offers += 1
                if offers > OFFERS_MAX:
                    raise JournalError(f"the process that holds the journal cannot reach this one; see run {run_id}")
                await desk.probe(run_id, waiting)
            elif await self._clear_doubt(run):
                continue
            elif not is_blocking:
                return run
            else:
                _announce(run)
                await desk.await_move(run)

    async def _clear_doubt(self, run: Run) -> bool:
        """Whether the call in doubt was made here, and what came of it could be told."""
        for contract in run.waiting:
            outcome = self.program.recall(run.id, contract)
            if outcome is not None and contract.question is not None and contract.question.reason == "outcome_unknown":
                reply = await asyncio.shield(outcome)
                if "unknown" not in reply and await self.desk.probe(run.id, contract.id):
                    return True
        return False


@contextlib.asynccontextmanager
async def open_journal_desk(
    home: Path, policy: Any, program: LocalProgram
) -> AsyncIterator[tuple[CallDesk, SharedHost | None]]:
    """A desk with the journal of a home, which this process or another one holds."""
    if find_address(home):  # any machine may take up a call there, and only this one has the function
        raise Refused(
            f"the journal of {home.name} is in a database; start `detent serve` with that home, and give the guard its "
            "address"
        )
    async with open_home(home, policy=policy) as host:
        socket = CallerSocket(home, secrets.token_hex(8), program)
        await socket.open()
        try:
            desk = JournalDesk(host, socket)
            if host.is_holder:
                await desk.take_up_own()
            yield desk, host
        finally:
            await socket.close()


def _find_awaiting(run: Run) -> str:
    """The contract that is approved and waits for a program to make its call."""
    for contract in run.contracts:
        asked = contract.question if contract.status is Status.WAITING else None
        if asked is not None and asked.reason == "callback" and "caller" in asked.data:
            return contract.id
    return ""


def _announce(run: Run) -> None:
    for contract in run.waiting:
        text = contract.question.text if contract.question is not None else ""
        log.warning("waiting for an answer: %s (detent show %s)", text, run.id)
