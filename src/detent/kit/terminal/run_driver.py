"""Staying with a run until it ends or only a person or a signal can move it, telling what happens meanwhile."""

import asyncio
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, suppress
from math import inf
from types import TracebackType
from typing import TYPE_CHECKING, Any

from detent.core.run import Run
from detent.core.status import Status
from detent.errors import DetentError, JournalError, ReplayError
from detent.host.reading import Family, Query
from detent.host.standing import ASK_WITHIN_S, children_of, settle_time
from detent.host.system_run import HOUSEKEEPING
from detent.kit.language import _
from detent.kit.safe_text import clock, duration, visible
from detent.kit.terminal.caller import Caller, has_colour
from detent.kit.terminal.option import is_left
from detent.kit.terminal.run_story import Narrator
from detent.kit.terminal.run_view import RunReport, is_for_people

if TYPE_CHECKING:
    from detent.host.port import OpenHost

WAITING_MAX = 100_000
GATHER_S = 0.02  # what comes so close together is told together: waking up for each step would slow the run down
OVERDUE_S = 5.0  # how long to wait for a timer that should have rung already


Tell = Callable[[Caller, str, int], AbstractAsyncContextManager[None]]  # what is told while a run is at work


@asynccontextmanager
async def telling(
    caller: Caller, run_id: str, after: int = 0, *, host: "OpenHost", narrator: Narrator | None = None
) -> AsyncIterator[None]:
    """Tell a run's events while the block is at work, and the last of them when it is done."""
    if caller.is_json:
        yield
        return
    teller = narrator or Narrator(run_id)
    with host.reader.following(run_id, after) as place, LiveLine(teller) as live:

        def tell() -> None:
            while entries := place.more():
                for entry in entries:
                    teller.take(entry)
                live.lines(caller, teller.news())

        caller.catch_up = tell
        try:
            async with on_every_ring(tell, place.wait):
                yield
        finally:
            caller.catch_up = lambda: None


@asynccontextmanager
async def on_every_ring(tell: Callable[[], None], wait: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Tell what is new while the block is at work, and the last of it when it is done."""

    async def keep_telling() -> None:
        while True:
            tell()
            await wait()
            await asyncio.sleep(GATHER_S)

    task = asyncio.create_task(keep_telling())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # a journal that cannot be read says so again below
        tell()


class LiveLine:
    """On a terminal, one line at the bottom that says what is under way and for how long."""

    def __init__(self, narrator: Narrator) -> None:
        self._narrator = narrator
        self._live: Any = None
        self._spinner: Any = None

    def __enter__(self) -> "LiveLine":
        if has_colour(sys.stderr):
            from rich.console import Console
            from rich.live import Live
            from rich.spinner import Spinner

            console = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
            self._spinner = Spinner("dots")
            self._live = Live(console=console, transient=True, refresh_per_second=8, get_renderable=self._draw)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trail: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def lines(self, caller: Caller, lines: Iterable[tuple[str, str]]) -> None:
        """Lines with their colours, above the live one."""
        if self._live is None:
            caller.notes(lines)
            return
        for text, colour in lines:
            self._live.console.print(visible(text), style=colour or None)

    def _draw(self) -> Any:
        at_work = [
            f"{name} {_('{count} s', count=int(time.time() - at))}" for name, _effect, at in self._narrator.at_work
        ]
        self._spinner.update(text=", ".join(at_work))
        return self._spinner if at_work else ""


async def drive(caller: Caller, host: "OpenHost", run_id: str, after: int = 0, tell: Tell | None = None) -> Run:
    """Stay with a run; on Ctrl-C say at once that it is being put down."""
    try:
        async with tell(caller, run_id, after) if tell else telling(caller, run_id, after, host=host):
            return await _wait_settled(caller, host, run_id)
    except asyncio.CancelledError:
        caller.interrupted, caller.is_driven_elsewhere = run_id, not host.is_holder
        if host.is_holder:
            caller.is_stopping = True
            caller.note(_("Stopping: calls under way get a moment to finish; Ctrl-C again stops at once."))
        raise


async def move(caller: Caller, run_id: str, after: int, verb: Callable[["OpenHost"], Awaitable[object]]) -> int:
    """Do a verb to a run and stay with it, or leave the rest to whoever drives it; returns the exit code."""
    async with caller.host() as host:
        await verb(host)
        is_driven = not is_left()
        if is_driven:
            await host.recover(run_id)
            await drive(caller, host, run_id, after)
        is_here = host.is_holder
    if is_driven:  # only now: an agent writes its files when its host is closed
        return give(caller, run_id)
    standing = RunReport(caller, run_id)
    if not is_here:
        caller.note(_("journalled; the process that holds the journal continues the run"))
    elif standing.run.ended is None and (standing.run.held_by == "host" or not is_for_people(standing.run)):
        command = caller.command("resume", run_id)
        note = _(
            "journalled; no process drives the run now: `{command}` or `detent serve` continues it", command=command
        )
        caller.note(note)
    return standing.give()


def give(caller: Caller, run_id: str) -> int:
    """Show a run, and to people also the one its family began with; returns the exit code, which is the run's own."""
    code = RunReport(caller, run_id).give()
    first = caller.reader.first_of(run_id)
    if first != run_id and not caller.is_json and readable(caller, first):
        RunReport(caller, first).tell()
    return code


async def _wait_settled(caller: Caller, host: "OpenHost", run_id: str) -> Run:
    """Return when everything of the run's family has ended or waits for somebody, its timers included."""
    is_told = False
    while True:
        kin = await _at_rest(caller, host, run_id)
        ended = {one.run_id for one in kin.members if one.has_ended}
        limits = {run.id: limit for run in kin.waiting if (limit := _patience(run, ended))}
        asleep = [run.wake_at for run in kin.waiting if limits.get(run.id) == inf]
        if asleep and not is_told:
            caller.catch_up()
            caller.note(_("  sleeps until {clock}; Ctrl-C is safe", clock=clock(min(asleep))), "dim")
            is_told = True
        if not limits or not await _wait_event(caller, kin, max(limits.values())):
            return await host.settled(run_id)


async def _at_rest(caller: Caller, host: "OpenHost", run_id: str) -> Family:
    """The family of a moment when none of it is at work; damaged relatives are told, and left out."""
    damaged: set[str] = set()
    stranded: set[str] = set()  # what goes on only when another worker comes
    while True:
        now = caller.reader.family_now(run_id)
        kin = now._replace(members=[one for one in now.members if one.run_id not in damaged])
        at_work = [one.run_id for one in kin.members if one.status in (Status.RUNNING, Status.PENDING)]
        at_work = [one for one in at_work if one not in stranded]
        if not at_work:
            return kin
        for one in at_work:
            try:
                if (await host.settled(one)).status is Status.RUNNING:
                    stranded.add(one)
            except (JournalError, ReplayError) as error:
                if one == run_id:
                    raise
                caller.warn(str(error))
                damaged.add(one)


def readable(caller: Caller, run_id: str) -> Run | None:
    """A run of the journal; None for a damaged one, which must not keep the others from going on."""
    try:
        return caller.reader.standing(run_id).run
    except DetentError:
        return None


def _patience(run: Run, ended: set[str]) -> float:
    """How many seconds to stay with a run that is at rest: none if it waits for somebody."""
    inner = children_of(run)
    if run.is_held:
        return 0.0
    if inner:
        return OVERDUE_S if ended.intersection(inner) else 0.0  # who is still open speaks for itself
    if run.wake_at and run.wake_at <= time.time():
        return OVERDUE_S
    return inf if run.wake_at and not is_for_people(run) else 0.0


async def _wait_event(caller: Caller, kin: Family, limit_s: float) -> bool:
    """Wait for the next event of any of a family; false when none came."""
    known = {one.run_id: one.seq for one in kin.members}
    with suppress(TimeoutError):
        async with asyncio.timeout(limit_s if limit_s < inf else None), aclosing(_steps(caller, kin.cursor)) as steps:
            async for run_id, seq in steps:
                if seq > known.get(run_id, seq):
                    return True
    return False


async def _steps(caller: Caller, after: int) -> AsyncGenerator[tuple[str, int], None]:
    """The events of all runs after a place, as they come."""
    async for steps in caller.reader.follow_all(after):
        for step in steps:
            yield step.run_id, step.seq


async def recover(caller: Caller, host: "OpenHost", run_id: str = "") -> list[str]:
    """Take up what the last process left, one run or all; a doubt that holds back before it asks is told."""
    found = list(await host.recover(run_id))
    for one in found if host.is_holder else ():
        run = caller.reader.standing(one).run
        for contract in run.contracts:
            is_cut_off = (
                contract.status is Status.RUNNING and contract.effect_state == "possible" and contract.is_irreversible
            )
            left = settle_time(run, contract, time.time()) - time.time() if is_cut_off else 0.0
            if 1 < left <= ASK_WITHIN_S:
                what = {"name": visible(contract.effect), "time": duration(left)}
                caller.note(_("`{name}` was cut off and may have happened; asking in {time}", **what))
    return found


async def take_up(caller: Caller, host: "OpenHost") -> list[str]:
    """Put everything back to work that the last process left; what sleeps or has overslept counts too.

    Whoever holds the journal is at work on whatever runs: pauses before a next attempt, and runs that just got a place.
    """
    found = await recover(caller, host)
    for summary in caller.reader.list(Query((Status.WAITING, Status.RUNNING), limit=WAITING_MAX)).runs:
        run = readable(caller, summary.run_id)
        if run is None or run.ended is not None or run.is_held:
            continue
        if run.status is Status.RUNNING:
            found += [run.id] if host.is_holder and summary.name not in HOUSEKEEPING else []
        elif run.wake_at and (run.wake_at <= time.time() or not is_for_people(run)):
            found.append(run.id)
    return list(dict.fromkeys(found))
