"""A workflow played on the real engine and host, in virtual time, with scripted tools and people."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from detent.core.consequence import Consequence
from detent.core.machine import Machine
from detent.core.run import Run
from detent.define.workflow import Workflow, load_workflow, read_workflow
from detent.host.parts.replay import entries, verify
from detent.testing import World, simulate

FILES = Path(__file__).parent / "files"


class Played(NamedTuple):
    """What came of it."""

    run: Run
    calls: tuple[str, ...]  # the tools called, in order
    inputs: tuple[dict[str, Any], ...]
    keys: tuple[str, ...]
    path: tuple[str, ...]  # the states entered, in order
    logs: tuple[tuple[str, Any], ...]  # (level, message)
    taken: tuple[Consequence, ...]

    @property
    def status(self) -> str:
        return self.run.status.value

    @property
    def error(self) -> str:
        return self.run.error.type if self.run.error else ""

    @property
    def pending(self) -> tuple[str, ...]:
        return tuple(contract.action for contract in self.run.waiting)


def approve(action: str, **said: Any) -> tuple[str, str, dict[str, Any]]:
    return "approve", action, {"approved": True, "by": "somebody", **said}


def reject(action: str, **said: Any) -> tuple[str, str, dict[str, Any]]:
    return "approve", action, {"approved": False, "by": "somebody", **said}


def event(name: str, id: str = "", **data: Any) -> tuple[str, str, dict[str, Any]]:
    return "event", name, {"id": id, "data": data}


def later(seconds: float) -> tuple[str, str, dict[str, Any]]:
    return "later", "", {"seconds": seconds}


def play(
    workflow: str | Path | Machine | Workflow,
    tools: Mapping[str, Sequence[Any]] | None = None,
    script: Sequence[tuple[str, str, dict[str, Any]]] = (),
    input: Mapping[str, Any] | None = None,
    *,
    by: str = "",
    kind: Any = "pure",
    fragment: bool = False,
) -> Played:
    """Start a run, follow the script, and tell what happened; a tool without answers gives an empty mapping."""
    machine = made(workflow, fragment)
    return simulate(_play(machine, tools or {}, script, input or {}, by, kind))


def made(workflow: str | Path | Machine | Workflow, fragment: bool = False) -> Machine:
    if isinstance(workflow, Machine):
        return workflow
    if isinstance(workflow, Workflow):
        return workflow.machine
    if isinstance(workflow, Path):
        return load_workflow(workflow, fragment=fragment).machine
    return read_workflow(workflow, fragment=fragment).machine


def _tools(machine: Machine) -> set[str]:
    found = set(machine.chart.effects) - {"*", "child", "ask", "wait"}
    for actions in machine.work.values():
        pending = list(actions)
        while pending:
            action = pending.pop()
            pending += [inner for branch in action.branches for inner in branch.actions]
            if action.effect == "child":
                found |= _tools(Machine.from_json(json.dumps(action.input["machine"])))
    return found


async def _play(
    machine: Machine,
    tools: Mapping[str, Sequence[Any]],
    script: Sequence[tuple[str, str, dict[str, Any]]],
    input: Mapping[str, Any],
    by: str,
    kind: Any,
) -> Played:
    with World() as world:
        for name in _tools(machine) | tools.keys():
            world.effect(name, kind=kind, answers=tools.get(name, ({},)), timeout_s=60)
        async with world.host() as host:
            run = await host.start(machine, input, run_id="played", by=by)
            await _rest(host)
            for verb, name, said in script:
                await _follow(host, verb, name, said)
                await _rest(host)
            run = await host.settled(run.id)
            told = list(entries(host.journal, run.id))
            proof = verify(host.journal, run.id)
            assert not proof.problem, proof.problem
        taken = tuple(one for entry in told for one in entry.taken)
        moves = [one.target for one in taken if one.kind == "transition"]
        calls = tuple(world.calls)
        return Played(
            run=run,
            calls=tuple(contract.effect for contract in calls),
            inputs=tuple(contract.input for contract in calls),
            keys=tuple(contract.key for contract in calls),
            path=(machine.initial, *moves),
            logs=tuple((one.event, one.value) for one in taken if one.kind == "log"),
            taken=taken,
        )


async def _rest(host: Any) -> None:
    """Until only somebody outside can move the run or one of its children."""
    before = None
    while (now := [(one.run_id, one.seq) for one in await host.list()]) != before:
        before = now
        for run_id, _ in now:
            await host.settled(run_id)


async def _follow(host: Any, verb: str, name: str, said: dict[str, Any]) -> None:
    run = await host.show("played")
    if verb == "approve":
        runs = ["played", *[one.run_id for one in await host.list() if one.parent]]
        found = [(run_id, c) for run_id in runs for c in (await host.show(run_id)).waiting if c.action == name]
        assert found, f"`{name}` is not waiting; waiting: {[c.action for c in run.waiting]}"
        await host.answer(found[0][0], found[0][1].id, said)
    elif verb == "event":
        await host.signal("played", name, said["data"], id=said["id"])
    elif verb == "later":
        await asyncio.sleep(said["seconds"])
    else:
        await host.cancel("played")
