"""Calling a blocking function off the event loop.

Not `asyncio.to_thread`: a call that never returns would occupy one of its few threads and hang the exit. Here a call
has a thread to itself for as long as it takes, and the process does not wait for it. A thread that is done stays for
a while, because waking one costs less than starting one.

Nothing can stop such a call. An effect that is given up in the middle of one says so (`StillRunning`), and what comes
of it is evidence still.
"""

import _thread
import asyncio
import contextlib
import contextvars
import os
import queue
from collections.abc import Callable, Generator
from typing import Any, TypeVar

from detent.core.effect_type import Outcome, StillRunning

T = TypeVar("T")
IDLE_MAX = 8
IDLE_S = 10.0


class _Worker:
    """A thread that makes one call after another, and goes away when nobody has wanted it for a while."""

    __slots__ = ("calls",)

    def __init__(self) -> None:
        self.calls: queue.SimpleQueue[Callable[[], Callable[[], object]]] = queue.SimpleQueue()
        _thread.start_new_thread(self._work, ())  # a `Thread` would make the loop wait until it has begun

    def _work(self) -> None:
        while True:
            try:
                tell = self.calls.get(timeout=IDLE_S)()
            except queue.Empty:
                try:
                    _idle.remove(self)
                except ValueError:
                    continue  # somebody has just taken this thread: the call is on its way
                return
            is_kept = len(_idle) < IDLE_MAX
            if is_kept:
                _idle.append(self)  # before it is told, so that the next call finds it
            tell()
            del tell  # what came of the call must not live as long as the thread
            if not is_kept:
                return


_idle: list[_Worker] = []
os.register_at_fork(after_in_child=_idle.clear)  # a child has the list, but not the threads


class ThreadCall:
    """A blocking function at work in a thread. Who awaits it may give up, and await it again: the call goes on."""

    __slots__ = ("_loop", "_outcome", "_waiting")

    def __init__(self, function: Callable[..., Any], *args: Any, **named: Any) -> None:
        self._loop = asyncio.get_running_loop()
        self._outcome: tuple[Any, BaseException | None] | None = None
        self._waiting: asyncio.Future[None] | None = None
        context = contextvars.copy_context()

        def call() -> Callable[[], object]:
            result, failed = None, None
            try:
                result = context.run(function, *args, **named)
            except BaseException as error:  # noqa: BLE001  # it is raised again where it is awaited
                failed = error

            def tell() -> None:
                with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                    self._loop.call_soon_threadsafe(self._settle, result, failed)

            return tell

        try:
            worker = _idle.pop()
        except IndexError:
            worker = _Worker()
        worker.calls.put(call)

    def _settle(self, result: Any, error: BaseException | None) -> None:
        self._outcome = result, error
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def __await__(self) -> Generator[Any, None, Any]:
        """What the function returns, or raise as it does; one caller may wait at a time."""
        if self._outcome is None:
            self._waiting = self._loop.create_future()
            yield from self._waiting
        assert self._outcome is not None  # noqa: S101 - nothing else wakes us
        result, error = self._outcome
        if error is None:
            return result
        if isinstance(error, Exception) and not isinstance(error, StopIteration):
            raise error
        raise RuntimeError(f"it ended with {type(error).__name__}: {error}") from error  # it may not end the host


async def in_thread(function: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """Call a blocking function in a thread that a cancelled caller leaves behind."""
    return await ThreadCall(function, *args, **named)


async def perform_in_thread(name: str, function: Callable[[], T], late: Callable[[T], Outcome]) -> T:
    """Call the blocking function of an effect; given up, it goes on, and `late` is what its result means then."""
    call = ThreadCall(function)
    try:
        result: T = await call
    except asyncio.CancelledError:
        raise StillRunning(f"`{name}` goes on in its thread", _Late(call, late)) from None
    return result


class _Late:
    """What comes in the end of a call that was given up; nothing is lost if nobody wants to know."""

    def __init__(self, call: ThreadCall, late: Callable[[Any], Outcome]) -> None:
        self._call, self._late = call, late

    def __await__(self) -> Generator[Any, None, Outcome]:
        """The outcome, or raise as the effect itself would have."""
        return self._late((yield from self._call.__await__()))
