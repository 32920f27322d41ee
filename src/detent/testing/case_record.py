"""A case made from a real run: what its tools answered, what people said and when, and what came of it.

Calls and what people said are taken from the journal in the order in which they happened, those of child runs among
them. Where a timer has moved the run, the case moves time itself: calls take none there, and a pause before another
attempt is as long as the case draws it. Whoever records a case plays it once to see that it comes to the same.
"""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from detent.core.compiled_machine import flat
from detent.core.contract import Contract
from detent.core.events import CANCEL, WAKE, ContractMoved, Signalled, Started
from detent.core.history import Entry
from detent.core.machine import Machine
from detent.core.run import Run
from detent.core.status import Status
from detent.testing.case import OUTCOMES, UNKNOWN_OUTCOME
from detent.testing.case_run import HOSTS_OWN, RUN

UNANSWERED = {"hang": True}
CLOCK_S = 0.01  # two things that lie closer together happened at the same time


class _OpenCall(NamedTuple):
    effect: str
    answers: list[dict[str, Any]]
    number: int


class CaseRecorder:
    """Reads the events of a run and its children, in order, and makes the case."""

    def __init__(self, machine: Machine) -> None:
        initial = machine.initial
        every = [one for place in machine.chart.places.values() for one in flat(place.work)]
        self._exact = {one.action.id for one in every if any(retry.is_exact for retry in one.retries)}
        self._lag = 0.0  # by how much the case is ahead of the run: what calls took, what it pauses less
        self.input: dict[str, Any] = {}
        self.tools: dict[str, list[dict[str, Any]]] = {}
        self.script: list[dict[str, Any]] = []
        self.path = [initial]
        self.calls: dict[str, int] = {}
        self._open: dict[tuple[str, str], _OpenCall] = {}
        self._before: dict[str, Run] = {}
        self._at = self._clock = 0.0
        self._steps: list[tuple[float, dict[str, Any] | None]] = []  # None: a timer has moved the run
        self._first = ""
        self._is_timed = False

    def take(self, run_id: str, entry: Entry) -> None:
        """One event more."""
        event, before = entry.event, self._before.get(run_id)
        if run_id == self._first and before is not None:
            self._keep_time(before, entry)
        if type(event) is Started and not self._first:
            self._first, self.input, self._at = run_id, event.input, event.at
            self._clock = event.at
        if before is not None:
            self._take_outcome(run_id, before, entry)
            self._take_step(run_id, before, entry)
        self._take_calls(run_id, before, entry)
        if run_id == self._first:
            self.path += [one.target for one in entry.taken if one.kind == "transition"]
        self._before[run_id] = entry.run

    def _keep_time(self, before: Run, entry: Entry) -> None:
        """Leave out what calls took, and draw the pauses before another attempt as the case will."""
        at = entry.event.at
        if any(one.status is Status.RUNNING and one.effect not in HOSTS_OWN for one in before.contracts):
            self._lag += at - self._clock
        self._clock = at
        if type(entry.event) is not Signalled or entry.event.name != WAKE:
            return
        for one in before.contracts:
            if one.attempt > 1 and one.status is Status.PENDING and 0 < one.due_at <= at:
                self._is_timed = True
                if one.action not in self._exact:
                    self._lag += (one.due_at - one.created_at) * (1 - _draw(RUN, one) / _draw(before.id, one))
                self._steps.append((at - self._lag, None))

    def _take_calls(self, run_id: str, before: Run | None, entry: Entry) -> None:
        """Calls that have begun: each has an answer to come, in the order of the calls of its tool."""
        for contract in entry.run.contracts:
            was = before.contract(contract.id) if before is not None else None
            is_new = contract.status is Status.RUNNING and (was is None or was.status is not Status.RUNNING)
            if is_new and contract.effect not in HOSTS_OWN:
                answers = self.tools.setdefault(contract.effect, [])
                answers.append(UNANSWERED)
                self.calls[contract.effect] = self.calls.get(contract.effect, 0) + 1
                self._open[run_id, contract.id] = _OpenCall(contract.effect, answers, len(answers) - 1)

    def _take_outcome(self, run_id: str, before: Run, entry: Entry) -> None:
        event = entry.event
        if type(event) is not ContractMoved:
            return
        was = before.contract(event.contract_id)
        call = self._open.get((run_id, event.contract_id))
        if call is None or was is None or was.status is not Status.RUNNING:
            return
        answer = _describe_outcome(event)
        if answer is not None:
            call.answers[call.number] = answer
        del self._open[run_id, event.contract_id]

    def _take_step(self, run_id: str, before: Run, entry: Entry) -> None:
        event = entry.event
        step: dict[str, Any] | None = None
        if type(event) is ContractMoved and event.trigger == "resume":
            step = _describe_answer(before.contract(event.contract_id), event)
        elif type(event) is Signalled and event.name == WAKE:
            if any(c.status is Status.WAITING and 0 < c.expires_at <= event.at for c in before.contracts) or (
                0 < (before.state_deadline or before.deadline) <= event.at
            ):
                self._is_timed = True
                self._steps.append((event.at - self._lag, None))
            return
        elif type(event) is Signalled and event.name == CANCEL and run_id == self._first:
            step = {"cancel": True}
        elif type(event) is Signalled and not event.name.startswith("@") and run_id == self._first:
            step = {"event": event.name} | ({"data": event.data} if event.data else {})
        if step is not None:
            self._steps.append((event.at - self._lag, step))

    def make(self, id: str, workflow: str) -> dict[str, Any]:
        """The case, as it is written down."""
        run = self._before[self._first]
        case: dict[str, Any] = {"id": id, "workflow": workflow}
        case |= {"input": self.input} if self.input else {}
        case |= {"tools": {name: _shorten(answers) for name, answers in self.tools.items()}} if self.tools else {}
        script = list(self._write_script())
        case |= {"script": script} if script else {}
        pending = [contract.action for contract in run.waiting]
        expect: dict[str, Any] = {"status": run.status.value, "state": run.state, "path": self.path}
        expect |= {"calls": self.calls} if self.calls else {}
        expect |= {"error": run.error.type} if run.error is not None and run.ended else {}
        expect |= {"pending": pending} if pending else {}
        return case | {"expect": expect}

    def _write_script(self) -> Iterable[dict[str, Any]]:
        at = self._at
        for moment, step in self._steps:
            if self._is_timed and moment - at > CLOCK_S:
                yield {"advance": round(moment - at + CLOCK_S, 2)}
                at = moment
            if step is not None:
                yield step


def _draw(run_id: str, contract: Contract) -> float:
    """The part of the longest pause that a run draws before this attempt, as the engine does."""
    head, _, number = contract.id.rpartition("/")
    drawn = hashlib.sha256(f"{run_id}:{head}/{int(number) - 1}".encode()).digest()  # of the attempt that failed
    return int.from_bytes(drawn[:4], "big") / 2**32 or 1.0


def _describe_outcome(event: ContractMoved) -> dict[str, Any] | None:
    if event.trigger == "succeed":
        return {"output": {} if event.result is None else event.result}
    if event.trigger == "fail" and event.error is not None:
        verb = "did_then_raise" if event.deed == "possible" else "raise"
        return {verb: event.error.message, "type": event.error.type}
    if event.trigger == "suspend" and event.question is not None and event.question.reason == "outcome_unknown":
        return {"raise": event.question.text, "type": UNKNOWN_OUTCOME}
    return None


def _describe_answer(contract: Contract | None, event: ContractMoved) -> dict[str, Any] | None:
    """What somebody said to a question, as a step of a script."""
    said = event.result
    if contract is None or not contract.is_asking or not isinstance(said, dict):
        return None
    common = {key: said[key] for key in ("by", "comment") if said.get(key)}
    if said.get("outcome") in OUTCOMES:
        result = {"result": said["result"]} if said.get("result") is not None else {}
        return {"settle": contract.action, "outcome": said["outcome"], **result, **common}
    if said.get("approved") is False:
        return {"reject": contract.action, **common}
    more = {"args": said.get("args"), "context": said.get("patch"), "data": said.get("data")}
    return {"approve": contract.action, **common, **{key: value for key, value in more.items() if value}}


def _shorten(answers: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Answers without the repetitions at the end: the last one repeats by itself."""
    kept = list(answers)
    while len(kept) > 1 and kept[-1] == kept[-2]:
        kept.pop()
    return kept


def record_case(
    machine: Machine, runs: Sequence[tuple[str, Sequence[Entry]]], id: str, workflow: str
) -> dict[str, Any]:
    """The case of a run, the first of these, and of the children that it began."""
    recorder = CaseRecorder(machine)
    told = [(entry.event.at, number, run_id, entry) for number, (run_id, found) in enumerate(runs) for entry in found]
    for _, _, run_id, entry in sorted(told, key=lambda one: (one[0], one[1], one[3].seq)):
        recorder.take(run_id, entry)
    made: dict[str, Any] = msgspec.to_builtins(recorder.make(id, workflow))
    return made
