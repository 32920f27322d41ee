"""One verb for many runs: looked at first, then done one after the other, each with an entry of its own.

A preview and the deed ask the same question of each run, so that what was shown is what is tried. What was looked at
is told by a mark; a run that has moved on to something else meanwhile is refused alone and says why.
"""

import hashlib
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from detent.core.identity import By, identity_of
from detent.core.machine import Machine
from detent.errors import DetentError
from detent.host.port import Host, Reader
from detent.host.reading import Calling, Summary
from detent.host.system_run import HOUSEKEEPING
from detent.kit.run_index import FoundRuns, RunFilter, RunIndex
from detent.surfaces.doubt_settlement import Doubt, choose_doubts, settle

BULK_MAX = 500
PAUSE_S = 0.005  # between two runs: others want to be heard as well
BulkVerb = Literal["cancel", "retry", "signal", "pause", "resume", "settle", "migrate"]


class BulkPlan(NamedTuple):
    """What is to be done to each run."""

    verb: BulkVerb
    reason: str = ""  # of a cancel; of a settlement, the comment
    signal: str = ""
    data: dict[str, Any] = {}  # noqa: RUF012  # never changed
    outcome: str = ""  # of every open doubt: happened, not_happened, give_up
    machine: Machine | None = None  # to migrate to
    state: str = ""  # what the present state is called there
    key: str = ""  # makes each signal and each retry count once
    channel: str = "http"


class BulkLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """What becomes of one run; `problem`: why it does not."""

    run_id: str
    machine: str
    state: str
    status: str
    is_done: bool = False
    problem: str = ""
    mark: str = ""  # what the deed is about, as it was looked at; another one then is refused
    calls: list[Calling] = []  # of a settlement: the calls in doubt


class Look(NamedTuple):
    """What a verb would meet in a run: why it cannot be done, if so, and what it is about."""

    problem: str
    mark: str = ""
    doubts: Sequence[Doubt] = ()


MOVED = "it has moved on since it was looked at"


def select_runs(index: RunIndex, wanted: RunFilter) -> FoundRuns:
    """The runs that a query finds, as many as one request may touch; detent's own records never."""
    return index.search(wanted._replace(without=() if wanted.name else HOUSEKEEPING, limit=BULK_MAX))


def look_at(reader: Reader, plan: BulkPlan, summary: Summary) -> Look:
    """A run as the verb would meet it now."""
    try:
        if plan.verb == "settle":
            doubts, _ = choose_doubts(reader, [summary.run_id], "")
            return Look("" if doubts else "it has no open doubt", _mark_of(doubts), doubts)
        standing = reader.standing(summary.run_id)
    except DetentError as error:
        return Look(str(error))
    can, run = standing.can, standing.run
    if plan.verb == "signal":
        return Look("" if plan.signal in can.signal else f"it takes no `{plan.signal}` now", run.state)
    if plan.verb == "migrate":
        return Look(_check_migration(plan, run.state, run.machine, is_over=run.ended is not None), run.state)
    mark = run.state if plan.verb == "retry" else ""  # to stop or to pause means the run, wherever it is
    return Look("" if getattr(can, plan.verb) else f"`{plan.verb}` makes no sense for it now", mark)


def _mark_of(doubts: Sequence[Doubt]) -> str:
    about = "\n".join(f"{one.run_id} {one.contract_id} {one.call_hash} {one.since}" for one in doubts)
    return hashlib.sha256(about.encode()).hexdigest()


def line_of(summary: Summary, look: Look, problem: str, *, is_done: bool = False) -> BulkLine:
    """One run in a report."""
    calls = [Calling(one.effect, one.input) for one in look.doubts]
    return BulkLine(
        summary.run_id, summary.name, summary.state, summary.status.value, is_done, problem, look.mark, calls
    )


def _check_migration(plan: BulkPlan, state: str, digest: str, *, is_over: bool) -> str:
    machine = plan.machine
    if machine is None or is_over:
        return "it has ended; only a waiting run can go on elsewhere"
    if machine.digest == digest:
        return "it is on this definition already"
    there = plan.state or state
    return "" if there in machine.states else f"the new definition has no state `{there}`"


async def act_on_run(host: Host, plan: BulkPlan, by: By, run_id: str, doubts: Sequence[Doubt] = ()) -> str:
    """The verb itself; why it was refused, or nothing. Only the doubts that were looked at are settled."""
    key = f"bulk {plan.key}" if plan.key else ""
    try:
        if plan.verb == "cancel":
            await host.cancel(run_id, by=by, reason=plan.reason)
        elif plan.verb == "retry":
            await host.retry(run_id, by=by, id=key)
        elif plan.verb == "signal":
            await host.signal(run_id, plan.signal, plan.data, id=key, by=by)
        elif plan.verb == "pause":
            await host.hold(run_id, by=by)
        elif plan.verb == "settle":
            return await _settle(host, plan, by, doubts)
        elif plan.verb == "migrate" and plan.machine is not None:
            await host.migrate(run_id, plan.machine, state=plan.state, by=by)
            await host.recover(run_id)
        else:
            await host.recover(run_id)
            await host.release(run_id, by=by)
    except DetentError as error:
        return str(error)
    return ""


async def _settle(host: Host, plan: BulkPlan, by: By, doubts: Sequence[Doubt]) -> str:
    said = {"outcome": plan.outcome, "by": identity_of(by).name, "channel": plan.channel}
    found = await settle(host, doubts, {**said, **({"comment": plan.reason} if plan.reason else {})}, by)
    return next((one.problem for one in found if not one.is_settled), "")
