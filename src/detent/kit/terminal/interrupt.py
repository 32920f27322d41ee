"""Ctrl-C: the first asks a command to put its work down, the next one stops it at once.

A signal handler runs in the middle of whatever the main thread is doing, perhaps of a print, so it must not print
itself. Ours only wakes the loop, which does what is wanted between two of its callbacks.
"""

import asyncio
import os
import signal
import threading
from collections.abc import Coroutine
from typing import Any, NoReturn, TypeVar

from detent.kit.terminal.caller import Caller
from detent.kit.terminal.exit_code import INTERRUPTED
from detent.kit.terminal.terminal_error import report_interrupt

UNHEEDED_MAX = 2  # presses in a row that a loop may owe an answer; with one more it counts as stuck

Result = TypeVar("Result")


def run(main: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine to its end, as `asyncio.run` does; raises KeyboardInterrupt when Ctrl-C has ended it."""
    is_ours = threading.current_thread() is threading.main_thread()
    if not is_ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return asyncio.run(main)  # whoever started us wants Ctrl-C to do nothing, or something else
    try:
        with asyncio.Runner() as runner:
            presses = Presses(runner.get_loop())
            signal.signal(signal.SIGINT, presses.note)
            try:
                return runner.run(presses.heeding(main))
            except asyncio.CancelledError:
                if presses.heeded:
                    raise KeyboardInterrupt from None
                raise
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def end(is_json: bool) -> int:
    """Say how to go on after a Ctrl-C; from here on another one ends the process without a word."""
    signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    caller = Caller.current
    if caller is not None and caller.answered is not None:
        return caller.answered  # it was over before the key was heard, and one answer is enough
    return report_interrupt(is_json)


class Presses:
    """How often Ctrl-C was pressed while a loop is at work, and how often it has been heeded."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._task: asyncio.Task[Any] | None = None
        self._unheeded = 0
        self.heeded = 0

    async def heeding(self, main: Coroutine[Any, Any, Result]) -> Result:
        """Run it as a task that the first press cancels."""
        self._task = asyncio.current_task()
        if self.heeded:
            main.close()
            raise asyncio.CancelledError
        return await main

    def note(self, *_: object) -> None:
        """The signal handler."""
        self._unheeded += 1
        if self._unheeded > UNHEEDED_MAX:
            os._exit(INTERRUPTED)  # something keeps the loop, and the journal survives a kill by design
        if self._loop.is_closed():
            raise KeyboardInterrupt
        self._loop.call_soon_threadsafe(self._heed)

    def _heed(self) -> None:
        self._unheeded = 0
        self.heeded += 1
        if self._task is None:
            return
        caller = Caller.current
        is_told = caller is not None and caller.is_stopping
        if is_told or self._task.done() or self.heeded > 2:
            stop_at_once()
        self._task.cancel()


def stop_at_once() -> NoReturn:
    """Like a kill, which the journal survives by design."""
    caller = Caller.current
    os._exit(report_interrupt(caller is not None and caller.is_json))
