"""A call that is under way: what passes between whoever made it and the journal.

The function runs where it was called: in the thread, or in the task, that waits here. The journal's side lives in a
thread of its own and puts its messages into the caller's mailbox.
"""

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from detent.core.contract import Contract
from detent.core.run import Run

Reply = dict[str, Any]


class MakeCall:
    """The journal says go. Whoever takes it first makes the call, or says that nobody is there to make it."""

    def __init__(self, contract: Contract, reply: Callable[[Reply], None]) -> None:
        self.contract, self.reply = contract, reply
        self._lock = threading.Lock()
        self._is_taken = False

    def take(self) -> bool:
        """Whether it is yours now."""
        with self._lock:
            is_first, self._is_taken = not self._is_taken, True
            return is_first


class CallSettled(NamedTuple):
    """There is nothing more to wait for: the run has ended, or asks somebody and the caller does not want to wait."""

    run: Run


class CallBroken(NamedTuple):
    """The journal could not take the call, or could not say what came of it."""

    error: BaseException


Message = MakeCall | CallSettled | CallBroken


class CallMailbox:
    """One caller's mailbox."""

    def __init__(self, put: Callable[[Message], None]) -> None:
        self._put = put
        self._offered: list[MakeCall] = []
        self.is_left = False

    def offer(self, contract: Contract, reply: Callable[[Reply], None]) -> None:
        """Tell the caller to make its call."""
        call = MakeCall(contract, reply)
        self._offered.append(call)
        self.post(call)

    def post(self, message: Message) -> None:
        """Tell the caller; one whose loop is closed is gone."""
        try:
            self._put(message)
        except RuntimeError:
            self.leave()

    def leave(self) -> None:
        """The caller does not wait any more: what it was offered and has not begun is not made here."""
        self.is_left = True
        for call in self._offered:
            if call.take():
                call.reply({"absent": 1})
        self._offered.clear()


def make_thread_mailbox() -> tuple[CallMailbox, Callable[[], Message]]:
    """A mailbox for a thread, and how it waits for the next message."""
    box: queue.SimpleQueue[Message] = queue.SimpleQueue()
    return CallMailbox(box.put), box.get


def make_task_mailbox() -> tuple[CallMailbox, Callable[[], Any]]:
    """A mailbox for a task, and how it waits for the next message."""
    loop = asyncio.get_running_loop()
    box: asyncio.Queue[Message] = asyncio.Queue()
    return CallMailbox(partial(call_in_loop, loop, box.put_nowait)), box.get


def find_running_loop() -> asyncio.AbstractEventLoop | None:
    """The event loop that runs in this thread, if there is one."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def call_in_loop(loop: asyncio.AbstractEventLoop, function: Callable[..., object], *args: Any) -> None:
    """Call a function in an event loop: now, where that is the one of this thread, else as soon as it can."""
    if find_running_loop() is loop:
        function(*args)
    else:
        loop.call_soon_threadsafe(function, *args)


def settle_reply(outcome: "asyncio.Future[Reply]", reply: Reply) -> None:
    """Say what came of a call, unless nobody can hear it any more."""
    with contextlib.suppress(asyncio.InvalidStateError):
        if not outcome.done():
            outcome.set_result(reply)
