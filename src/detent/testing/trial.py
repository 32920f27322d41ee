"""Cases on trial: the real engine and host in a folder of their own, with made-up tools, people and time.

A step of the script happens when only somebody outside can move the run, or when all that is at work hangs. Time runs
on by itself while a call is at work or is to be tried again; otherwise only `advance` moves it. Once a script has
moved it, calls that hang are left hanging. Afterwards every journal is replayed and must give the same run.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from detent.core.history import Entry
from detent.core.machine import Machine
from detent.core.policy import Policy
from detent.core.run import Run
from detent.define.document import read_document, read_file
from detent.define.policy import compile_policy
from detent.define.workflow import Workflow, compile_document, load_workflow
from detent.errors import DefinitionError, Refused
from detent.host.embedded.reader import entries, verify
from detent.testing.case import Case, Step, Tools, differences, read_cases
from detent.testing.world import MortalHost, Stuck, World, simulate

RUN = "case"
INITIATOR = "initiator"  # who starts the run of a case
SOMEBODY = "somebody"  # who answers when a script does not say who
MOMENT_S = 0.001  # a timer that is due at the very end of `advance` fires
CASE_ROUNDS = 40_000  # of the loop: thousands of events, more than a case with the usual limits can need
HOSTS_OWN = frozenset({"child", "ask", "wait"})


class Verdict(NamedTuple):
    """What came of a case; `actual` has what was expected as it really came."""

    id: str
    about: str
    where: str
    expected: dict[str, Any]
    actual: dict[str, Any]
    differs: tuple[str, ...]
    refused: tuple[str, ...]  # what the script said in vain
    problem: str = ""  # why it fails whatever was expected

    @property
    def ok(self) -> bool:
        """Whether everything came as expected."""
        return not self.differs and not self.problem


class Told(NamedTuple):
    """Everything that a played run did."""

    run: Run
    path: tuple[str, ...]
    calls: tuple[str, ...]  # the tools called, in order
    inputs: tuple[dict[str, Any], ...]
    keys: tuple[str, ...]
    cancelled: tuple[str, ...]
    pending: tuple[str, ...]
    logs: tuple[tuple[str, Any], ...]  # (level, message)
    refused: tuple[str, ...]
    problem: str


def try_cases(path: str | Path) -> list[Verdict]:
    """Play every case of a file; raises DefinitionError where the file itself is wrong."""
    return [try_case(case) for case in read_cases(path)]


def try_case(case: Case) -> Verdict:
    """Play one case and compare."""
    try:
        workflow = _workflow(case)
        policy = compile_policy(case.policy) if case.policy is not None else None
    except DefinitionError as error:
        return _verdict(case, {"load_error": str(error)}, ())
    try:
        told = simulate(play(workflow.machine, case.tools, case.script, case.input, policy), CASE_ROUNDS)
    except Stuck as error:
        return _verdict(case, {}, (), str(error))
    except Refused as error:  # nothing was begun: the input is not what the workflow wants
        return _verdict(case, {"load_error": str(error)}, ())
    return _verdict(case, _actual(case, workflow, told), told.refused, told.problem)


def _workflow(case: Case) -> Workflow:
    if case.file is not None and case.merge is None:
        return load_workflow(case.file, fragment=case.is_fragment)
    if case.file is not None:
        document, folder = read_document(read_file(case.file), str(case.file)), case.file.parent
    else:
        assert case.definition is not None
        document, folder = case.definition, case.folder
    if case.merge is not None and isinstance(document.value, dict):
        document = document.merged(case.merge)
    return compile_document(document, folder=folder, fragment=case.is_fragment)


def _verdict(case: Case, actual: Mapping[str, Any], refused: tuple[str, ...], problem: str = "") -> Verdict:
    is_refused = "load_error" in actual and "load_error" not in case.expect
    shown = {key: actual.get(key) for key in case.expect} | ({"load_error": actual["load_error"]} if is_refused else {})
    differs = differences(case.expect, shown) + (("load_error",) if is_refused else ())
    return Verdict(case.id, case.about, case.where, case.expect, shown, differs, refused, problem)


def _actual(case: Case, workflow: Workflow, told: Told) -> dict[str, Any]:
    """What was expected, as it really came."""
    run, expect = told.run, case.expect
    plain: dict[str, Any] = {
        "status": run.status.value,
        "state": run.state,
        "path": list(told.path),
        "calls": {
            name: told.calls.count(name) or (None if want is None else 0) for name, want in _asked(case, "calls")
        },
        "error": run.error.type if run.error else None,
        "pending": list(told.pending),
        "context": {name: run.context.get(name) for name, _ in _asked(case, "context")},
        "unique_keys": len(set(told.keys)),
    }
    lists: dict[str, list[Any]] = {
        "notes": [message for level, message in told.logs if level == "notify"],
        "logs": [message for level, message in told.logs if level != "notify"],
        "warnings": [str(warning) for warning in workflow.warnings],
        "cancelled": list(told.cancelled),
    }
    for key, value in lists.items():
        want = expect.get(key)
        plain[key] = bool(value) if isinstance(want, bool) else len(value) if isinstance(want, int) else value
    return plain


def _asked(case: Case, key: str) -> list[tuple[str, Any]]:
    return list(case.expect.get(key, {}).items())


async def play(
    machine: Machine,
    tools: Tools,
    script: Sequence[Step] = (),
    input: Mapping[str, Any] | None = None,
    policy: Policy | None = None,
) -> Told:
    """Start a run, let the script happen to it, and tell what it did."""
    refused: list[str] = []
    lives = _lives(script)
    is_timed = any(step.verb == "advance" for step in script)
    with World(policy=policy) as world:
        stub(world, machine, tools)
        for number, steps in enumerate(lives):
            is_last = number == len(lives) - 1
            async with world.host() as host:
                if number:
                    await host.recover()
                else:
                    await host.start(machine, input or {}, run_id=RUN, by=INITIATOR)
                for step in steps:
                    await host.rest(is_patient=False)
                    await _happen(host, step, refused)
                await host.rest(is_patient=is_last and not is_timed)
                if is_last:
                    return await _told(world, host, machine, refused)
                world.is_dead = True
    raise Stuck("the script has no end")


def _lives(script: Sequence[Step]) -> list[list[Step]]:
    """The script, cut where the process dies."""
    lives: list[list[Step]] = [[]]
    for step in script:
        if step.verb == "crash":
            lives.append([])
        else:
            lives[-1].append(step)
    return lives


def stub(world: World, machine: Machine, tools: Tools) -> None:
    """Make an effect for everything the machine calls; one without answers gives an empty mapping."""
    every = called(machine)
    if "*" in every:  # a tool that an expression names can have any name
        world.effect("*", kind="pure", timeout_s=60)
    for name in sorted((every - {"*"}) | tools.keys()):
        world.effect(name, kind="pure", answers=tools.get(name) or ({},), timeout_s=60)


def called(machine: Machine) -> set[str]:
    """The effects that a machine and its children call by name; `*` if an expression names one."""
    found = set(machine.chart.effects) - HOSTS_OWN
    for actions in machine.work.values():
        pending = list(actions)
        while pending:
            action = pending.pop()
            pending += [inner for branch in action.branches for inner in branch.actions]
            if action.effect == "child" and isinstance(action.input.get("machine"), dict):
                found |= called(Machine.from_json(json.dumps(action.input["machine"])))
    return found


async def _happen(host: MortalHost, step: Step, refused: list[str]) -> None:
    """One step of the script; what the host refuses changes nothing and is remembered."""
    try:
        if step.verb in ("approve", "reject"):
            await _answer(host, step)
        elif step.verb == "event":
            await host.signal(RUN, step.name, step.said["data"], id=step.said["id"])
        elif step.verb == "cancel":
            await host.cancel(RUN)
        else:
            await asyncio.sleep(step.seconds + MOMENT_S)
    except Refused as error:
        refused.append(f"{step.verb} {step.name}".rstrip() + f": {error}")


async def _answer(host: MortalHost, step: Step) -> None:
    found = [(run, contract) for run in await _runs(host) for contract in run.waiting if contract.action == step.name]
    if not found:
        waiting = ", ".join(c.action for run in await _runs(host) for c in run.waiting) or "nothing"
        raise Refused(f"`{step.name}` does not wait for an answer; waiting: {waiting}")
    run, contract = found[0]
    await host.answer(run.id, contract.id, {"by": SOMEBODY, **step.said})


async def _runs(host: MortalHost) -> list[Run]:
    """The run of the case, and then its children in the order of their beginning."""
    listed = [one.run_id for one in await host.list(limit=10_000)]
    return [await host.show(run_id) for run_id in [RUN, *(one for one in reversed(listed) if one != RUN)]]


async def _told(world: World, host: MortalHost, machine: Machine, refused: list[str]) -> Told:
    runs = await _runs(host)
    history = {run.id: list(entries(host.journal, run.id)) for run in runs}
    taken = [one for told in history.values() for entry in told for one in entry.taken]
    path = [one.target for entry in history[RUN] for one in entry.taken if one.kind == "transition"]
    tools = {contract.id: contract.effect for contract in world.calls}
    ended = [
        one.subject for one in taken if one.kind == "contract" and (one.source, one.target) == ("running", "cancelled")
    ]
    return Told(
        run=runs[0],
        path=(machine.initial, *path),
        calls=tuple(contract.effect for contract in world.calls),
        inputs=tuple(contract.input for contract in world.calls),
        keys=tuple(contract.key for contract in world.calls),
        cancelled=tuple(tools[subject] for subject in ended if subject in tools),
        pending=tuple(contract.action for run in runs for contract in run.waiting),
        logs=tuple((one.event, one.value) for one in taken if one.kind == "log"),
        refused=tuple(refused),
        problem=next((problem for run in runs if (problem := _replayed(host, run, history[run.id]))), ""),
    )


def _replayed(host: MortalHost, run: Run, history: list[Entry]) -> str:
    """What is wrong with the journal of a run; nothing if it gives the same run again."""
    proof = verify(host.journal, run.id)
    if proof.problem:
        return f"the journal does not replay: {proof.problem}"
    return "" if history[-1].run == run else "the journal replays to another run"
