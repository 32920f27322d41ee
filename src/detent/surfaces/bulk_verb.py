"""One verb for many runs: looked at first, then done one after the other, each with an entry of its own.

A preview and the deed ask the same question of each run, so that what was shown is what is tried. What has moved
meanwhile is refused alone and says why.
"""

from typing import Any, Literal, NamedTuple

import msgspec

from detent.core.identity import By, identity_of
from detent.core.machine import Machine
from detent.errors import DetentError
from detent.host.port import Host, Reader
from detent.host.reading import Summary
from detent.host.system_run import HOUSEKEEPING
from detent.kit.run_index import FoundRuns, RunFilter, RunIndex
from detent.surfaces.doubt_settlement import choose_doubts, settle

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


def select_runs(index: RunIndex, wanted: RunFilter) -> FoundRuns:
    """The runs that a query finds, as many as one request may touch; detent's own records never."""
    return index.search(wanted._replace(without=() if wanted.name else HOUSEKEEPING, limit=BULK_MAX))


def find_obstacle(reader: Reader, plan: BulkPlan, summary: Summary) -> str:
    """Why this cannot be done to a run as it stands; nothing when it can."""
    try:
        if plan.verb == "settle":
            doubts, _ = choose_doubts(reader, [summary.run_id], "")
            return "" if doubts else "it has no open doubt"
        standing = reader.standing(summary.run_id)
    except DetentError as error:
        return str(error)
    can = standing.can
    if plan.verb == "signal":
        return "" if plan.signal in can.signal else f"it takes no `{plan.signal}` now"
    if plan.verb == "migrate":
        return _check_migration(plan, standing.run.state, standing.run.machine, is_over=standing.run.ended is not None)
    return "" if getattr(can, plan.verb) else f"`{plan.verb}` makes no sense for it now"


def _check_migration(plan: BulkPlan, state: str, digest: str, *, is_over: bool) -> str:
    machine = plan.machine
    if machine is None or is_over:
        return "it has ended; only a waiting run can go on elsewhere"
    if machine.digest == digest:
        return "it is on this definition already"
    there = plan.state or state
    return "" if there in machine.states else f"the new definition has no state `{there}`"


async def act_on_run(host: Host, plan: BulkPlan, by: By, run_id: str) -> str:
    """The verb itself; why it was refused, or nothing."""
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
            return await _settle(host, plan, by, run_id)
        elif plan.verb == "migrate" and plan.machine is not None:
            await host.migrate(run_id, plan.machine, state=plan.state, by=by)
            await host.recover(run_id)
        else:
            await host.recover(run_id)
            await host.release(run_id, by=by)
    except DetentError as error:
        return str(error)
    return ""


async def _settle(host: Host, plan: BulkPlan, by: By, run_id: str) -> str:
    doubts, _ = choose_doubts(host.reader, [run_id], "")
    said = {"outcome": plan.outcome, "by": identity_of(by).name, "channel": plan.channel}
    found = await settle(host, doubts, {**said, **({"comment": plan.reason} if plan.reason else {})}, by)
    return next((one.problem for one in found if not one.is_settled), "")
