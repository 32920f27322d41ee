"""The open doubts of a journal, and settling many of them at once: each is answered, and recorded, on its own."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from detent.core.identity import By
from detent.errors import Refused
from detent.host.port import Host, Reader
from detent.host.reading import Summary

AT_ONCE = 16  # answers under way; those of one moment are written together
UNTOLD = "its probe cannot tell, or it has none"


class Cause(msgspec.Struct, frozen=True):
    """Why nobody knows whether a call happened."""

    type: str
    message: str = ""


class Doubt(msgspec.Struct, frozen=True, omit_defaults=True):
    """A call of which nobody knows whether it happened; without a cause, the process that made it died."""

    run_id: str
    machine: str
    contract_id: str
    effect: str
    input: dict[str, Any]
    call_hash: str
    since: float
    cause: Cause | None = None
    result: Any = None  # what came back all the same
    lands_until: float | None = None  # before that moment nobody can say that it did not happen


class Settled(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of one doubt that was to be settled."""

    run_id: str
    contract_id: str
    effect: str
    is_settled: bool
    problem: str = ""
    status: str = ""  # of the run, afterwards


def open_doubts(reader: Reader) -> list[Doubt]:
    """Every open doubt, oldest runs first."""
    return [doubt for summary in reader.waiting() for doubt in _doubts(summary)]


def choose_doubts(reader: Reader, runs: Sequence[str] = (), effect: str = "") -> tuple[list[Doubt], list[str]]:
    """The open doubts that are meant, and those of the runs that have none.

    Runs bring those of the runs they have started; an effect narrows the choice; without both, all are meant.
    """
    if not runs:
        return [one for one in open_doubts(reader) if effect in ("", one.effect)], []
    below = {run_id: _below(reader, run_id) for run_id in dict.fromkeys(runs)}
    kin = sorted(reader.summaries(set().union(*below.values())), key=lambda one: one.no)
    doubts = [one for summary in kin for one in _doubts(summary) if effect in ("", one.effect)]
    have = {one.run_id for one in doubts}
    return doubts, [run_id for run_id, members in below.items() if not members & have]


def _below(reader: Reader, run_id: str) -> set[str]:
    """A run and everything it has started."""
    found = {run_id}
    for one in reader.family(run_id):  # parents come before their children
        if one.parent.partition(" ")[0] in found:
            found.add(one.run_id)
    return found


def _doubts(summary: Summary) -> Iterator[Doubt]:
    for asked in summary.waiting:
        if asked.reason != "outcome_unknown":
            continue
        data = asked.data
        cause, until = data.get("cause"), data.get("lands_until")
        yield Doubt(
            run_id=summary.run_id,
            machine=summary.name,
            contract_id=asked.contract_id,
            effect=asked.call.effect,
            input=asked.call.input,
            call_hash=asked.call_hash,
            since=asked.since,
            cause=Cause(str(cause.get("type", "")), str(cause.get("message", ""))) if isinstance(cause, dict) else None,
            result=data.get("result"),
            lands_until=float(until) if isinstance(until, int | float) else None,
        )


async def settle(host: Host, doubts: Sequence[Doubt], said: Mapping[str, Any] | None, by: By = "") -> list[Settled]:
    """Answer each doubt with what was said, or ask its probe; one that is refused does not stop the others."""
    free = asyncio.Semaphore(AT_ONCE)

    async def one(doubt: Doubt) -> Settled:
        async with free:
            return await _settle(host, doubt, said, by)

    async with asyncio.TaskGroup() as tasks:
        begun = [tasks.create_task(one(doubt)) for doubt in doubts]
    return [task.result() for task in begun]


async def _settle(host: Host, doubt: Doubt, said: Mapping[str, Any] | None, by: By) -> Settled:
    problem = ""
    try:
        if said is None:
            problem = "" if await host.probe(doubt.run_id, doubt.contract_id) else UNTOLD
        else:
            await host.answer(doubt.run_id, doubt.contract_id, {**said, "call_hash": doubt.call_hash}, by=by)
    except Refused as error:
        problem = str(error)
    return Settled(doubt.run_id, doubt.contract_id, doubt.effect, not problem, problem)
