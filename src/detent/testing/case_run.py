"""Cases on trial: the real engine and host in a folder of their own, with made-up tools, people and time.

A step of the script happens when only somebody outside can move the run, or when all that is at work hangs. Time runs
on by itself while a call is at work or is to be tried again. In a script that has `advance` only that moves it, and a
step happens when nothing more can happen at that moment. In the end every journal is replayed, to the same run.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from detent.core.consequence import Consequence
from detent.core.effect_type import Declared, Effect, OutcomeUnknown, PartialFailure
from detent.core.history import Entry
from detent.core.machine import Machine
from detent.core.policy import Policy
from detent.core.run import Run
from detent.core.status import Status
from detent.define.document import read_document, read_file
from detent.define.irreversible_call import BUILTIN
from detent.define.policy import compile_policy
from detent.define.tool import NamedTool
from detent.define.workflow import Workflow, compile_document, load_workflow
from detent.errors import DefinitionError, Refused
from detent.host.concurrency_group import NAME as GROUP
from detent.host.parts.replay import entries, verify
from detent.testing.case import Case, CaseStep, Tools, differences, read_cases
from detent.testing.coverage import Way
from detent.testing.stub_answer import judge_answers
from detent.testing.world import MortalHost, Stuck, VirtualLoop, World, simulate

RUN = "case"
INITIATOR = "initiator"  # who starts the run of a case
SOMEBODY = "somebody"  # who answers when a script does not say who
MOMENT_S = 0.001  # a timer that is due at the very end of `advance` fires
CASE_ROUNDS = 40_000  # of the loop: thousands of events, more than a case with the usual limits can need
HOSTS_OWN = frozenset({"child", "ask", "wait"})


class CaseVerdict(NamedTuple):
    """The outcome of a case: whether it held, what was expected, and what came instead (`actual`)."""

    id: str
    about: str
    where: str
    expected: dict[str, Any]
    actual: dict[str, Any]
    differs: tuple[str, ...]
    refused: tuple[str, ...]  # what the script said in vain
    problem: str = ""  # why it fails whatever was expected
    machine: Machine | None = None  # what was played
    file: str = ""  # from which it came, unless the case has changed it
    path: tuple[str, ...] = ()  # the states it entered
    ways: tuple[Way, ...] = ()  # and how it came from one to the other
    last: tuple[str, ...] = ()  # the states that no transition leads to: taking back, and what is done at every end

    @property
    def ok(self) -> bool:
        """Whether everything came as expected."""
        return not self.differs and not self.problem


class Told(NamedTuple):
    """Everything a played run did: its states, calls, notifications, logs and end."""

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
    moments: tuple[str, ...]  # at which the process could have died
    repeats: tuple[tuple[str, int], ...]  # keys of irreversible deeds that were done more than once
    ways: tuple[Way, ...] = ()  # from state to state, with the event of each
    last: tuple[str, ...] = ()  # states that no transition leads to


def try_cases(path: str | Path) -> list[CaseVerdict]:
    """Play every case of a file. Raises DefinitionError if it is no case file; a case with mistakes fails."""
    return [try_case(case) for case in read_cases(path)]


def try_case(case: Case) -> CaseVerdict:
    """Play one case and compare what came with what it expects."""
    return _try_case(case)[0]


def crash_case(case: Case, most: int = 0) -> CaseVerdict:
    """Play a case, and then again with a death at every write and inside every call: its end must be the same.

    `most` deaths at most, spread evenly; 0: all of them. The first that leads elsewhere is the verdict's problem.
    """
    verdict, undisturbed = _try_case(case)
    if not verdict.ok or undisturbed is None:
        return verdict
    points = undisturbed.moments
    step = max(1.0, len(points) / most) if most else 1.0
    for number in range(int(len(points) / step)):
        point = int(number * step) + 1
        disturbed, told = _try_case(case, (point,))
        where = f"after a death at moment {point} of {len(points)} ({points[point - 1]})"
        if not disturbed.ok:
            return disturbed._replace(problem=f"{where}: {disturbed.problem or 'it ends otherwise'}")
        if told is not None and (differs := _strays(undisturbed, told)):
            return disturbed._replace(problem=f"{where}: {differs}")
    return verdict


def _try_case(case: Case, die_at: Sequence[int] = ()) -> tuple[CaseVerdict, Told | None]:
    if case.problems:
        return _verdict(case, {}, (), "\n".join(map(str, case.problems)))._replace(differs=()), None
    try:
        workflow = _workflow(case)
        policy = compile_policy(case.policy) if case.policy is not None else None
    except DefinitionError as error:
        return _verdict(case, {"load_error": str(error)}, ()), None
    try:
        told = simulate(
            play(workflow.machine, case.tools, case.script, case.input, policy, die_at, workflow.stubbed), CASE_ROUNDS
        )
    except Stuck as error:
        return _verdict(case, {}, (), str(error)), None
    except Refused as error:  # nothing was begun: the input is not what the workflow wants
        return _verdict(case, {"load_error": str(error)}, ()), None
    verdict = _verdict(case, _actual(case, workflow, told), told.refused, told.problem)
    file = str(case.file.resolve()) if case.file is not None and case.merge is None else ""
    return verdict._replace(machine=workflow.machine, file=file, path=told.path, ways=told.ways, last=told.last), told


def _strays(undisturbed: Told, told: Told) -> str:
    """What a death has changed of a run that it must not; nothing when all is the same."""
    for what in ("path", "calls", "pending", "logs"):
        before, after = getattr(undisturbed, what), getattr(told, what)
        if sorted(map(str, before)) != sorted(map(str, after)) or (what == "path" and before != after):
            return f"{what} was {before}, is {after}"
    for what in ("state", "status", "context", "variables", "local", "results", "output", "failures", "visits"):
        before, after = getattr(undisturbed.run, what), getattr(told.run, what)
        if before != after:
            return f"{what} was {before}, is {after}"
    again = [f"{key} was done {n} times" for key, n in told.repeats if (key, n) not in undisturbed.repeats]
    return ", ".join(again)


def _workflow(case: Case) -> Workflow:
    stubs = {*case.tools, *(case.expect.get("calls") or {})}  # a tool of the file that is counted is called by its name
    if case.file is not None and case.merge is None:
        return load_workflow(case.file, fragment=case.is_fragment, stubs=stubs)
    if case.file is not None:
        document, folder = read_document(read_file(case.file), str(case.file)), case.file.parent
    else:
        assert case.definition is not None
        document, folder = case.definition, case.folder
    if case.merge is not None and isinstance(document.value, dict):
        document = document.merge(case.merge)
    return compile_document(document, folder=folder, fragment=case.is_fragment, stubs=stubs)


def _verdict(case: Case, actual: Mapping[str, Any], refused: tuple[str, ...], problem: str = "") -> CaseVerdict:
    is_refused = "load_error" in actual and "load_error" not in case.expect
    shown = {key: actual.get(key) for key in case.expect} | ({"load_error": actual["load_error"]} if is_refused else {})
    differs = differences(case.expect, shown) + (("load_error",) if is_refused else ())
    return CaseVerdict(case.id, case.about, case.where, case.expect, shown, differs, refused, problem)


def _actual(case: Case, workflow: Workflow, told: Told) -> dict[str, Any]:
    """What was expected, as it really came."""
    run, expect = told.run, case.expect
    plain: dict[str, Any] = {
        "status": run.status.value,
        "state": run.state,
        "path": list(told.path),
        "calls": {
            name: told.calls.count(name) or (None if want is None else 0)
            for name, want in _list_expected(case, "calls")
        },
        "error": run.error.type if run.error else None,
        "pending": list(told.pending),
        "context": {name: run.context.get(name) for name, _ in _list_expected(case, "context")},
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


def _list_expected(case: Case, key: str) -> list[tuple[str, Any]]:
    return list(case.expect.get(key, {}).items())


async def play(
    machine: Machine,
    tools: Tools,
    script: Sequence[CaseStep] = (),
    input: Mapping[str, Any] | None = None,
    policy: Policy | None = None,
    die_at: Sequence[int] = (),
    stubbed: Mapping[str, NamedTool] | None = None,
) -> Told:
    """Start a run, let the script happen to it, and tell what it did; the process dies at these moments, too."""
    with World(die_at=die_at, is_steady=True, policy=policy) as world:
        stub(world, machine, tools, stubbed=stubbed)
        stage = _Stage(world, machine, script, input or {})
        for _ in range(len(script) + len(die_at) + 1):
            async with world.host() as host:
                told = await world.unless_dead(stage.live(host))
                if told is not None:
                    return told
                world.is_dead = True
    raise Stuck("the script has no end")


class _Stage:
    """A script in the making: where it is, through every life of the host."""

    def __init__(self, world: World, machine: Machine, script: Sequence[CaseStep], input: Mapping[str, Any]) -> None:
        self._world, self._machine, self._script, self._input = world, machine, script, input
        self._is_timed = any(step.verb == "advance" for step in script)
        self._at = 0  # the step that is next, or under way
        self._until: float | None = None  # when the `advance` under way is over
        self._is_cut: bool | None = None  # whether a death that is not in the script ended the last life
        self._doubts: set[tuple[str, str]] = set()  # irreversible calls which that death has cut off
        self._known: set[tuple[str, str]] = set()  # and those that the script itself has put in doubt
        self._refused: dict[int, str] = {}

    async def live(self, host: MortalHost) -> Told | None:
        """Go on until the script is done, or until it says that the process dies."""
        was_cut, self._is_cut = self._is_cut, True
        has_begun = host.journal.record(RUN) is not None
        await host.start(self._machine, self._input, run_id=RUN, by=INITIATOR)
        if was_cut is not None:
            self._doubts = await _under_way(host) - self._known if was_cut and has_begun else set()
            await host.recover()
        while self._at < len(self._script):
            step = self._script[self._at]
            await self._rest(host, is_patient=False)
            if step.verb == "crash":
                self._at += 1
                self._is_cut = False
                self._known |= await _under_way(host)
                self._world.forgive()
                return None
            await self._happen(host, step)
            self._at, self._until = self._at + 1, None
        await self._rest(host, is_patient=True)
        refused = [self._refused[at] for at in sorted(self._refused)]
        return await _collect_told(self._world, host, self._machine, refused)

    async def _rest(self, host: MortalHost, *, is_patient: bool) -> None:
        """Wait until only somebody outside, or time, can move the run; what our death has put in doubt is settled."""
        while True:
            if self._is_timed:
                await _loop().quiet()
            else:
                await host.rest(is_patient=is_patient)
            if not await self._settle(host):
                return

    async def _settle(self, host: MortalHost) -> bool:
        """Say truly what became of one call that a death of ours cut off; false when none is in doubt."""
        for run in await _runs(host):
            for contract in run.waiting:
                if (run.id, contract.id) not in self._doubts:
                    continue
                self._doubts.remove((run.id, contract.id))
                if isinstance(self._world.owed(contract), OutcomeUnknown):
                    continue  # this doubt belongs to the case
                done = self._world.done(contract.key)
                said = {"outcome": "happened", "result": done[-1].result} if done else {"outcome": "not_happened"}
                await host.answer(run.id, contract.id, {**said, "by": SOMEBODY})
                return True
        return False

    async def _happen(self, host: MortalHost, step: CaseStep) -> None:
        """One step of the script; what the host refuses changes nothing and is remembered."""
        mark = step.said.get("id") or f"step-{self._at}"  # a step cut off by a death happens once all the same
        try:
            if step.verb in ("approve", "reject", "settle"):
                await _answer(host, step, mark)
            elif step.verb == "event":
                await host.signal(RUN, step.name, step.said["data"], id=mark)
            elif step.verb == "cancel":
                await host.cancel(RUN, id=mark)
            else:
                now = _loop().time()
                self._until = now + step.seconds + MOMENT_S if self._until is None else self._until
                await asyncio.sleep(max(0.0, self._until - now))
        except Refused as error:
            self._refused[self._at] = f"{step.verb} {step.name}".rstrip() + f": {error}"


def _loop() -> VirtualLoop:
    """The loop in which a case is played."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop), "a case is played by `simulate`"
    return loop


def stub(
    world: World,
    machine: Machine,
    tools: Tools,
    known: Mapping[str, Effect] | None = None,
    stubbed: Mapping[str, NamedTool] | None = None,
) -> None:
    """Make an effect for everything the machine calls; one without answers gives an empty mapping.

    Each is of the kind that the effect of its name in `known` declares; what is not there is pure, unless one of its
    answers comes after a deed. Then it is what the real tool of its name would be, irreversible if there is none.
    """
    known = known or {}
    every = list_called(machine)
    if "*" in every:  # a tool that an expression names can have any name
        world.effect("*", kind="pure", timeout_s=60)
        every |= known.keys()
    for name in sorted((every - {"*"}) | tools.keys()):
        found = known.get(name)
        made = world.effect(name, kind="pure", answers=tools.get(name) or ({},), timeout_s=60)
        declared = found.declared if found is not None else None
        if declared is None and any(isinstance(one, OutcomeUnknown | PartialFailure) for one in tools.get(name, ())):
            declared = BUILTIN.get(name, Declared())
        if declared is not None:
            made = replace(made, declared=replace(declared, timeout_s=60.0, settle_s=0.0))
        if found is not None:
            made = replace(made, facts=found.facts)
        own = (stubbed or {}).get(name)
        world.effects[name] = judge_answers(made, *((own.kind, own.care) if own is not None else ()))


def list_called(machine: Machine) -> set[str]:
    """The effects that a machine and its children call by name; `*` if an expression names one."""
    found = set(machine.chart.effects) - HOSTS_OWN
    for actions in machine.work.values():
        pending = list(actions)
        while pending:
            action = pending.pop()
            pending += [inner for branch in action.branches for inner in branch.actions]
            if action.effect == "child" and isinstance(action.input.get("machine"), dict):
                found |= list_called(Machine.from_json(json.dumps(action.input["machine"])))
    return found


async def _answer(host: MortalHost, step: CaseStep, mark: str) -> None:
    if any(host.has_heard(run.id, mark) for run in await _runs(host)):
        return
    found = [(run, contract) for run in await _runs(host) for contract in run.waiting if contract.action == step.name]
    if not found:
        waiting = ", ".join(c.action for run in await _runs(host) for c in run.waiting) or "nothing"
        raise Refused(f"`{step.name}` does not wait for an answer; waiting: {waiting}")
    run, contract = found[0]
    await host.answer(run.id, contract.id, {"by": SOMEBODY, **step.said}, id=mark)


async def _under_way(host: MortalHost) -> set[tuple[str, str]]:
    """The irreversible calls that had left when the process died."""
    return {
        (run.id, contract.id)
        for run in await _runs(host)
        for contract in run.contracts
        if contract.status is Status.RUNNING and contract.is_irreversible and contract.effect_state == "possible"
    }


async def _runs(host: MortalHost) -> list[Run]:
    """The run of the case, and then its children in the order of their beginning."""
    listed = [one.run_id for one in await host.list(limit=10_000) if one.name != GROUP]
    return [await host.show(run_id) for run_id in [RUN, *(one for one in reversed(listed) if one != RUN)]]


async def _collect_told(world: World, host: MortalHost, machine: Machine, refused: list[str]) -> Told:
    runs = await _runs(host)
    history = {run.id: list(entries(host.journal, run.id)) for run in runs}
    taken = [one for told in history.values() for entry in told for one in entry.taken]
    moves = [one for entry in history[RUN] for one in entry.taken if one.kind == "transition"]
    tools = {contract.id: contract.effect for contract in world.calls}
    ended = [
        one.subject for one in taken if one.kind == "contract" and (one.source, one.target) == ("running", "cancelled")
    ]
    once = {contract.key for contract in world.calls if contract.is_irreversible}
    return Told(
        run=runs[0],
        path=(machine.initial, *(one.target for one in moves)),
        calls=tuple(contract.effect for contract in world.calls),
        inputs=tuple(contract.input for contract in world.calls),
        keys=tuple(contract.key for contract in world.calls),
        cancelled=tuple(tools[subject] for subject in ended if subject in tools),
        pending=tuple(contract.action for run in runs for contract in run.waiting),
        logs=tuple((one.event, one.value) for one in taken if one.kind == "log"),
        refused=tuple(refused),
        problem=next((problem for run in runs if (problem := _check_replay(host, run, history[run.id]))), ""),
        moments=tuple(world.moments),
        repeats=tuple((key, len(world.done(key))) for key in sorted(once) if len(world.done(key)) > 1),
        ways=tuple((one.source, one.event, one.target) for one in moves),
        last=tuple(one.subject for entry in history[RUN] for one in entry.taken if _begins_last(machine, one)),
    )


def _begins_last(machine: Machine, one: Consequence) -> bool:
    """Whether a run begins to take back, or what is done at every end."""
    is_last = one.subject and one.subject in (machine.on_failure, machine.at_end)
    return bool(is_last) and one.kind == "note" and str(one.value).startswith("before the run ends")


def _check_replay(host: MortalHost, run: Run, history: list[Entry]) -> str:
    """What is wrong with the journal of a run; nothing if it gives the same run again."""
    proof = verify(host.journal, run.id)
    if proof.problem:
        return f"the journal does not replay: {proof.problem}"
    return "" if history[-1].run == run else "the journal replays to another run"
