"""The stage of the checks: a host to be opened, a clock moved by hand, an outside world, and a few machines.

A check gets `open_host(home, effects, clock)`: an async context manager that gives a host on the journal of `home`.
Leaving the block and opening again is a restart; what was at work then is cut off in the middle, as by a crash.
"""

import asyncio
import heapq
import itertools
import json
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Protocol

from detent.core import (
    Action,
    Contract,
    Effect,
    Machine,
    Outcome,
    Question,
    Run,
    Status,
    effect,
    table,
)
from detent.core.effect_type import Kind
from detent.errors import Refused
from detent.host.port import Host


class HandClock:
    """A clock that goes only when it is moved."""

    def __init__(self, at: float = 1_700_000_000.0) -> None:
        self._at = at
        self._alarms: list[tuple[float, int, _Alarm]] = []
        self._count = itertools.count()

    def now(self) -> float:
        return self._at

    def call_at(self, at: float, callback: Callable[[], object]) -> "_Alarm":
        alarm = _Alarm(callback)
        heapq.heappush(self._alarms, (at, next(self._count), alarm))
        return alarm

    async def sleep_until(self, at: float) -> None:
        if at > self._at:
            rung: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.call_at(at, lambda: None if rung.done() else rung.set_result(None))
            await rung

    def move(self, seconds: float) -> None:
        """Let that much time pass, and ring what is due on the way."""
        until = self._at + seconds
        while self._alarms and self._alarms[0][0] <= until:
            at, _, alarm = heapq.heappop(self._alarms)
            self._at = max(self._at, at)
            alarm.ring()
        self._at = until


class _Alarm:
    def __init__(self, callback: Callable[[], object]) -> None:
        self._callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        self._callback = None

    def ring(self) -> None:
        if self._callback is not None:
            self._callback()


class HostOpener(Protocol):
    def __call__(
        self, home: Path, effects: Sequence[Effect] = (), clock: HandClock | None = None
    ) -> AbstractAsyncContextManager[Host]: ...


Check = Callable[[HostOpener, Path], Awaitable[None]]


class Outside:
    """The world effects touch: what was done, and what goes on when somebody lets it."""

    def __init__(self) -> None:
        self.deeds: list[Contract] = []
        self.begun = asyncio.Semaphore(0)

    def effect(self, name: str = "do", kind: Kind = "irreversible", **declared: Any) -> Effect:
        """An effect that does what it is asked and says so."""

        async def perform(contract: Contract) -> Outcome:
            self.deeds.append(contract)
            return Outcome({"did": contract.input, "count": len(self.deeds)})

        return effect(name, kind=kind, **declared)(perform)

    def hanging(self, name: str = "hang", kind: Kind = "irreversible", **declared: Any) -> Effect:
        """An effect that begins and never comes back."""

        async def perform(contract: Contract) -> Outcome:
            self.deeds.append(contract)
            self.begun.release()
            await asyncio.get_running_loop().create_future()
            raise AssertionError

        return effect(name, kind=kind, **declared)(perform)


def one(*actions: Action, name: str = "story", **fields: Any) -> Machine:
    """A machine that does these actions and is done."""
    return Machine(
        name,
        "work",
        transitions=table("work - done"),
        work={"work": actions},
        ends={"done": Status.COMPLETED},
        **fields,
    )


DOOR = Machine(
    "door",
    "closed",
    transitions=table("""
        closed OPEN open
        open CLOSE closed
        closed BURN gone
    """),
    ends={"gone": Status.COMPLETED},
)
ASKING = one(Action("deed", "do", {"amount": "{{ context.amount }}"}, ask=Question("Do it?")))


async def until(host: Host, run_id: str, holds: Callable[[Run], bool]) -> Run:
    """The run as it was when this first held."""
    async for entry in host.watch(run_id):
        if holds(entry.run):
            return entry.run
    raise AssertionError(f"{run_id} ended before that")


async def refusal(kind: type[Refused], verb: Awaitable[object]) -> str:
    """What a verb says when it is refused, as it must be."""
    try:
        await verb
    except kind as error:
        return str(error)
    raise AssertionError(f"{kind.__name__} was expected")


def parent_of(child: Machine, **fields: Any) -> Machine:
    """A machine whose one action is a run of another."""
    given = {"machine": as_data(child), "input": {"amount": "{{ context.amount }}"}}
    return one(Action("sub", "child", given), name="parent", **fields)


def as_data(machine: Machine) -> dict[str, Any]:
    """A machine as it stands in another's definition."""
    return dict(json.loads(machine.to_json()))


DOING = one(
    Action("deed", "do", {"amount": "{{ context.amount }}"}), name="doing", output={"got": "{{ result.deed.did }}"}
)
