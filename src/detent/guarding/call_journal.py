"""Where calls of guarded functions are journalled: begun or joined, waited for, offered once more.

`JournalDesk` has the journal of a home at hand. A program that knows only the address of a running server has a desk
there (`remote_call_journal`), which is this one behind a few addresses.
"""

import asyncio
import contextlib
import re
import time
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from detent.core.call_budget import CallBudget
from detent.core.identity import By
from detent.core.machine import Machine
from detent.core.run import Run
from detent.core.status import Status
from detent.core.value import digest
from detent.effects.remote_function import CALLER_MARK, GONE, CallPlace
from detent.effects.remote_function_socket import ProgramSocket
from detent.errors import CallNotDone, DetentError, Refused
from detent.guarding.tool_machine import ToolTerms
from detent.host.port import Host
from detent.host.reading import Query
from detent.host.run_id import new_run_id

COUNTED_MAX = 10_000  # calls that a budget looks back on
COUNTED = tuple(one for one in Status if one not in (Status.REJECTED, Status.CANCELLED))


class CallOrder(NamedTuple):
    """A call to be made: of which tool, with what, and who asks for it."""

    terms: ToolTerms
    machine: Machine
    input: dict[str, Any]
    settle_s: float
    session: str
    call_id: str
    by: By
    is_blocking: bool
    run_id: str = ""  # of a call that was begun before

    @property
    def tool(self) -> str:
        """The name of the tool."""
        return self.terms.name

    @property
    def is_deed(self) -> bool:
        """Whether it cannot be taken back."""
        return self.terms.kind == "irreversible"

    @property
    def known_run_id(self) -> str:
        """The run of this call, where the order itself says it."""
        if self.run_id:
            return self.run_id
        if self.call_id:
            return f"{self.slug}-{digest([self.session, self.tool, self.call_id])[:16]}"
        return "" if self.is_deed else new_run_id()

    @property
    def slug(self) -> str:
        """How ids of its runs begin."""
        return re.sub(r"[^A-Za-z0-9_.]", "-", self.tool)[:40]


class CallDesk(Protocol):
    """What a program with guarded functions needs of a journal."""

    async def find_run_id(self, order: CallOrder) -> str:
        """The run of a call: the one that has it under way in this session, else a new one."""

    async def begin(self, run_id: str, order: CallOrder) -> Run:
        """Begin a run, or join the one that is there."""

    async def await_settled(self, run_id: str) -> Run:
        """Wait until a run has ended, or waits."""

    async def await_move(self, run: Run) -> None:
        """Wait until something more has happened to a run."""

    async def probe(self, run_id: str, contract_id: str) -> bool:
        """Have an approved call made now, or a doubt cleared by who knows; whether that was possible."""

    async def answer(self, run_id: str, contract_id: str, answer: Mapping[str, Any], by: By) -> None:
        """Answer what a call waits for."""

    async def leave(self, run_id: str) -> None:
        """This program has not made that run's call, and does not wait for it any more; or all is over."""


class JournalDesk:
    """A desk with the journal at hand, for the program that is reached at `socket`."""

    def __init__(self, host: Host, socket: ProgramSocket) -> None:
        self._host, self._socket = host, socket
        self._counting: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)  # by tool with a budget

    async def take_up_own(self) -> None:
        """What a program that died has left at work: people are asked about it now, and not when it is wanted next."""
        reader = self._host.reader
        if not reader.has_runs():
            return
        self._socket.drop_marks(self._is_over)
        for summary in reader.list(Query(status=(Status.RUNNING,), limit=1000)).runs:
            if summary.source.startswith(CALLER_MARK):
                with contextlib.suppress(DetentError):
                    await self._host.recover(summary.run_id)

    def _is_over(self, run_id: str) -> bool:
        summary = self._host.reader.summary(run_id)
        return summary is not None and summary.status.is_terminal

    async def find_run_id(self, order: CallOrder) -> str:
        """The run of a call: the one that has it under way in this session, else a new one."""
        if known := order.known_run_id:
            return known
        reader = self._host.reader
        stem = f"{order.slug}-{digest([order.session, order.tool, order.input['args']])[:16]}-"
        found = reader.find_all(stem) if reader.has_runs() else ()
        numbers = [int(one.run_id.removeprefix(stem)) for one in found if one.run_id.removeprefix(stem).isdigit()]
        if not numbers:
            return f"{stem}1"
        last = max(numbers)
        return f"{stem}{last + 1}" if self._is_over(f"{stem}{last}") else f"{stem}{last}"

    async def begin(self, run_id: str, order: CallOrder) -> Run:
        """Begin a run, or join the one that is there."""
        reader = self._host.reader
        is_fresh = not (order.run_id or order.call_id or order.is_deed)  # nobody else can have that id
        known = None if is_fresh or not reader.has_runs() else reader.summary(run_id)
        if known is None and order.run_id:
            raise Refused(f"there is no call {order.run_id} to go on with")
        if known is not None and not known.source.startswith(f"{CALLER_MARK}{order.tool} "):
            raise Refused(f"run {run_id} is not a call of `{order.tool}`")
        if known is None:
            run = await self._start(run_id, order)
        else:
            self._socket.mark(run_id)
            run = await self._join(run_id)
        if not order.run_id and run.context.get("args") != order.input["args"]:
            raise Refused(f"call `{order.call_id}` of `{order.tool}` was made with other arguments before")
        return run

    async def _start(self, run_id: str, order: CallOrder) -> Run:
        place = CallPlace(order.tool, run_id, self._socket.name, order.settle_s)
        if order.terms.budget is None:
            return await self._start_run(run_id, order, place)
        async with self._counting[order.tool]:  # two at once must not both be the last one
            self._check_budget(order, order.terms.budget)
            return await self._start_run(run_id, order, place)

    async def _start_run(self, run_id: str, order: CallOrder, place: CallPlace) -> Run:
        return await self._host.start(order.machine, order.input, run_id=run_id, by=order.by, session=order.session,
                                      source=place.encode())  # fmt: skip

    def _check_budget(self, order: CallOrder, budget: CallBudget) -> None:
        """Refuse a call that would exceed the tool's budget; the journal knows what was spent, whoever spent it."""
        reader, made = self._host.reader, []
        if reader.has_runs():
            since = time.time() - budget.per_s
            found = reader.list(Query(COUNTED, order.machine.name, since=since, limit=COUNTED_MAX)).runs
            own = [one.run_id for one in found if one.source.startswith(f"{CALLER_MARK}{order.tool} ")]
            made = [self._read_arguments(one) if budget.total else {} for one in own]
        if excess := budget.find_excess(made, order.input["args"]):
            said = f"`{order.tool}` has used up its budget of {excess} in {budget.per_s:g} seconds; nothing was called"
            raise CallNotDone(said, type="budget_exceeded")

    def _read_arguments(self, run_id: str) -> dict[str, Any]:
        args = self._host.reader.standing(run_id).run.context.get("args")
        return args if isinstance(args, dict) else {}

    async def _join(self, run_id: str) -> Run:
        run = await self._host.show(run_id)
        if run.ended is Status.FAILED and run.error is not None and run.error.type == GONE:
            return await self._host.retry(run_id, id=f"again {run.seq}")
        if run.ended is None:
            await self._host.recover(run_id)
        return run

    async def await_settled(self, run_id: str) -> Run:
        """Wait until a run has ended, or waits."""
        return await self._host.settled(run_id)

    async def await_move(self, run: Run) -> None:
        """Wait until something more has happened to a run."""
        async for entry in self._host.watch(run.id, run.seq):
            if entry.seq > run.seq:
                return

    async def probe(self, run_id: str, contract_id: str) -> bool:
        """Have an approved call made now, or a doubt cleared by who knows; whether that was possible."""
        return await self._host.probe(run_id, contract_id)

    async def answer(self, run_id: str, contract_id: str, answer: Mapping[str, Any], by: By) -> None:
        """Answer what a call waits for."""
        await self._host.answer(run_id, contract_id, answer, by=by)

    async def leave(self, run_id: str) -> None:
        """This program has not made that run's call, and does not wait for it any more; or all is over."""
        self._socket.unmark(run_id)
