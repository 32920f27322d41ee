"""The tasks that carry out attempts: one goes on with whatever comes next, instead of a new task for each.

An attempt that takes its time keeps its task, and the others find another one. Every attempt sees the context variables
as they were when the host was opened: a task in which one was changed is not used again.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextvars import copy_context

from detent.core.contract import Contract
from detent.host.parts.loaded_run import LoadedRun

TURN_S = 0.002  # how long a task goes on with what was not yet there when it began

Task = asyncio.Task[None]


class TaskPool:
    """Attempts in the order they began, and whoever is about to take the next one."""

    def __init__(
        self, tasks: asyncio.TaskGroup, carry_out: Callable[[LoadedRun, Contract, Task], Awaitable[None]]
    ) -> None:
        self._tasks = tasks
        self._carry_out = carry_out
        self._context = copy_context()
        self._queue: deque[tuple[LoadedRun, Contract]] = deque()
        self._at_hand: Task | None = None  # one of us, awake, that looks at the queue next
        self._coming: Task | None = None  # a new one that has not begun yet

    def take(self, live: LoadedRun, contract: Contract) -> Task:
        """Have a contract carried out; the task that will most likely do it."""
        self._queue.append((live, contract))
        return self._at_hand or self._summon()

    def at_hand(self, task: Task) -> None:
        """This task of ours is done with its attempt but for saying so, and takes the next one then."""
        self._at_hand = task

    def clear(self) -> None:
        """Forget what has not been begun."""
        self._queue.clear()

    def _summon(self) -> Task:
        if self._coming is None or self._coming.done():
            self._coming = self._tasks.create_task(self._work(), context=self._context.copy())
        return self._coming

    async def _work(self) -> None:
        task, self._coming = self._coming, None
        if task is None:
            return  # nobody called for it
        due, until = len(self._queue), time.monotonic() + TURN_S
        try:
            while self._queue and (due > 0 or time.monotonic() < until):
                due -= 1
                self._at_hand = None
                live, contract = self._queue.popleft()
                if self._queue:
                    self._summon()  # should this one take its time
                await self._carry_out(live, contract, task)
                if task.cancelling() or copy_context() != self._context:
                    break
        finally:
            if self._at_hand is task:
                self._at_hand = None
            if self._queue:
                self._summon()
