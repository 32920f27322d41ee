"""One call of an effect by a real host in a folder of its own, and what the journal says of it."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import detent
from detent.core import Action, Machine, Run, Status, table
from detent.core.effect_type import Kind
from detent.core.policy import Policy


class Called(NamedTuple):
    """What came of a call: the run, its error and result, and at which level its program ran."""

    run: Run
    error: str
    result: dict[str, Any]
    sandbox: str


def machine(effect: str, input: Mapping[str, Any], kind: Kind = "idempotent") -> Machine:
    """One state that makes one call."""
    return Machine(
        name="call",
        initial="calling",
        work={"calling": (Action("call", effect, dict(input), kind),)},
        transitions=table("calling DONE over"),
        ends={"over": "completed"},
    )


async def call(
    folder: Path, effect: str, input: Mapping[str, Any], policy: Policy | str | None = None, kind: Kind = "idempotent"
) -> Called:
    """Make a call with the home in a folder; the run waits afterwards, or has failed."""
    async with detent.open(folder / ".detent", policy=policy) as host:
        run = await host.settled((await host.start(machine(effect, input, kind))).id)
        levels = [""]
        following = aiter(host.watch(run.id))
        for _ in range(run.seq):
            entry = await asyncio.wait_for(anext(following), 30)
            levels.append(getattr(entry.event, "sandbox", ""))
    found = run.results.get("call", {}) if isinstance(run.results.get("call"), dict) else {}
    problem = found.get("error") or (run.error and {"message": run.error.message}) or {}
    if run.status is Status.WAITING and run.waiting:
        problem = {"message": run.waiting[0].question.text if run.waiting[0].question else ""}
    return Called(run, str(problem.get("message", "")), found, max(levels))
