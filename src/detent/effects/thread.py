"""Calling a blocking function off the event loop.

Not `asyncio.to_thread`: a call that never returns would occupy one of its few threads and hang the exit. Here a call
has a thread to itself for as long as it takes, and the process does not wait for it. A thread that is done stays for
a while, because waking one costs less than starting one.
"""

import _thread
import asyncio
import contextlib
import contextvars
import os
import queue
from collections.abc import Callable
from typing import Any

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


async def in_thread(function: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """Call a blocking function in a thread that a cancelled caller leaves behind."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()
    context = contextvars.copy_context()

    def settle(result: Any, error: BaseException | None) -> None:
        if not done.done():
            done.set_result((result, error))

    def call() -> Callable[[], object]:
        result, failed = None, None
        try:
            result = context.run(function, *args, **named)
        except BaseException as error:  # noqa: BLE001  # it is raised again where it is awaited
            failed = error

        def tell() -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(settle, result, failed)

        return tell

    try:
        worker = _idle.pop()
    except IndexError:
        worker = _Worker()
    worker.calls.put(call)
    result, error = await done
    if error is None:
        return result
    if isinstance(error, Exception | SystemExit) and not isinstance(error, StopIteration):
        raise error
    raise RuntimeError(f"it ended with {type(error).__name__}: {error}") from error
