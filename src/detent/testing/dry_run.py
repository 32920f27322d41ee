"""A rehearsal: the real control flow with made-up answers and time, every question answered with yes.

It ends where the run ends, where only a signal can move it on, or where it would sleep a second time in one state.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, NamedTuple

from detent.core.consequence import Consequence
from detent.core.contract import Contract
from detent.core.effect_type import Effect
from detent.core.machine import Machine
from detent.core.policy import Policy
from detent.core.question import Question
from detent.core.run import Run
from detent.errors import Refused
from detent.host.concurrency_group import NAME as GROUP
from detent.host.parts.replay import entries
from detent.testing.case import Tools
from detent.testing.case_run import CASE_ROUNDS, INITIATOR, MOMENT_S, RUN, stub
from detent.testing.world import MortalHost, World, simulate

ROUNDS_MAX = 1000
SAMPLES: dict[str, Any] = {"string": "…", "integer": 1, "number": 1.0, "boolean": True, "array": [], "object": {}}


class Beat(NamedTuple):
    """One step of a dry run: a state entered, a decision of the policy, a call, a question, a sleep or a wait."""

    kind: str
    name: str
    detail: Any = None


class Rehearsal(NamedTuple):
    """The result of a dry run: what would happen, in order, and where the run would then stand."""

    run: Run
    beats: tuple[Beat, ...]


def rehearse(
    machine: Machine,
    tools: Tools | None = None,
    input: Mapping[str, Any] | None = None,
    *,
    policy: Policy | None = None,
    known: Mapping[str, Effect] | None = None,
    by: str = INITIATOR,
) -> Rehearsal:
    """Walk through a machine without touching anything, under a policy; `known` are the effects it would call."""
    return simulate(_walk(machine, tools or {}, input or {}, World(policy=policy), known, by), CASE_ROUNDS)


async def _walk(
    machine: Machine, tools: Tools, input: Mapping[str, Any], world: World, known: Mapping[str, Effect] | None, by: str
) -> Rehearsal:
    with world:
        stub(world, machine, tools, known)
        async with world.host() as host:
            await host.start(machine, input, run_id=RUN, by=by)
            walk = _Walk(world, host, machine)
            for _ in range(ROUNDS_MAX):
                await host.rest()
                await walk.look()
                if not await walk.go_on():
                    break
            await walk.look()
            return Rehearsal(await host.show(RUN), tuple(walk.beats))


class _Walk:
    """How far the rehearsal has come."""

    def __init__(self, world: World, host: MortalHost, machine: Machine) -> None:
        self._world, self._host, self._machine = world, host, machine
        self.beats: list[Beat] = [Beat("state", machine.initial)]
        self._seq: dict[str, int] = {}
        self._told: set[int] = set()
        self._contracts: dict[str, Contract] = {}
        self._slept: set[str] = set()
        self._allowed: dict[str, Beat] = {}  # by contract: told when its call is made

    async def _runs(self) -> list[Run]:
        listed = [one.run_id for one in await self._host.list(limit=10_000) if one.name != GROUP]
        return [await self._host.show(run_id) for run_id in sorted(listed, key=lambda one: one != RUN)]

    async def look(self) -> None:
        """Tell what has happened since: states entered, and calls made where they began."""
        calls = self._world.calls
        for run in await self._runs():
            for one in self._news(run):
                if one.kind == "transition" and run.id == RUN:
                    self.beats.append(Beat("state", one.target))
                elif one.kind == "note" and one.event == "left":
                    self.beats.append(Beat("left", one.subject, one.value))  # a call that cannot even be computed
                elif one.kind == "policy" and one.event != "allow":
                    self.beats.append(_ruling(one, self._contracts.get(one.subject)))
                elif one.kind == "contract" and one.target == "running":
                    self._call([n for n, contract in enumerate(calls) if contract.id == one.subject])
            self._seq[run.id] = run.seq

    def _news(self, run: Run) -> list[Consequence]:
        """What a run has done since, and which of its calls were allowed; such a ruling comes after the start."""
        found: list[Consequence] = []
        for entry in entries(self._host.journal, run.id, self._seq.get(run.id, 0)):
            self._contracts = {**self._contracts, **{contract.id: contract for contract in entry.run.contracts}}
            found += entry.taken
        for one in found:
            if one.kind == "policy" and one.event == "allow":
                self._allowed[one.subject] = _ruling(one, self._contracts.get(one.subject))
        return found

    def _call(self, numbers: list[int]) -> None:
        fresh = [number for number in numbers if number not in self._told]
        if fresh:
            self._told.add(fresh[0])
            contract = self._world.calls[fresh[0]]
            if contract.id in self._allowed:
                self.beats.append(self._allowed.pop(contract.id))
            self.beats.append(Beat("call", contract.effect, contract.input))

    async def go_on(self) -> bool:
        """Answer one question, or let time pass; False where the rehearsal ends."""
        runs = await self._runs()
        if runs[0].ended is not None:
            return False
        for run in runs:
            if run.waiting:
                return await self._agree(run, run.waiting[0])
        asleep = [(run, c) for run in runs for c in run.contracts if c.question and c.question.reason == "timer"]
        wakes = [run.wake_at for run, _ in asleep if run.wake_at]
        if wakes and runs[0].state not in self._slept:
            self._slept.add(runs[0].state)
            pause_s = max(0.0, min(wakes) - self._host.clock.now())
            self.beats.append(Beat("sleep", runs[0].state, round(pause_s, 3)))
            await asyncio.sleep(pause_s + MOMENT_S)
            return True
        if wakes:
            self.beats.append(Beat("again", runs[0].state))
        else:
            self.beats.append(Beat("wait", runs[0].state, list(self._machine.accepts(runs[0].state))))
        return False

    async def _agree(self, run: Run, contract: Contract) -> bool:
        question = contract.question or Question()
        self.beats.append(Beat("ask", contract.action, question.text))
        others = tuple(name for name in question.approvers if not (question.separate and name == run.by))
        names = others or tuple(f"approver-{number + 1}" for number in range(question.quorum))
        if len(names) < question.quorum:
            problem = f"{question.quorum} people must say yes, and only {', '.join(names)} may"
            self.beats.append(Beat("stop", contract.action, problem))
            return False
        said: dict[str, Any] = {"approved": True, "call_hash": contract.call_hash}
        if question.reason == "form":
            said["data"] = _sample(question.schema)
        try:
            for name in names[: question.quorum]:
                await self._host.answer(run.id, contract.id, {**said, "by": name})
        except Refused as error:
            self.beats.append(Beat("stop", contract.action, str(error)))
            return False
        return True


def _ruling(taken: Consequence, contract: Contract | None) -> Beat:
    said = {"decision": taken.event, "rule": taken.value}
    message = taken.values.get("message") if isinstance(taken.values, dict) else None
    if message:
        said["message"] = message
    return Beat(
        "rule", contract.effect if contract else taken.subject, said | {"input": contract.input if contract else {}}
    )


def _sample(schema: Mapping[str, Any]) -> Any:
    """A value that fits a simple schema, as well as that can be guessed."""
    if "default" in schema:
        return schema["default"]
    if schema.get("enum"):
        return schema["enum"][0]
    properties = schema.get("properties")
    if isinstance(properties, dict):
        return {name: _sample(inner) for name, inner in properties.items() if isinstance(inner, dict)}
    return SAMPLES.get(str(schema.get("type", "object")), {})
