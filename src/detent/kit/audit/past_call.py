"""Calls of the past with what the policy of their day said, what another one would have said, and what people said.

A contract is put before the policy when it is about to act or to ask. Those moments are found by folding the journal
again, and the other policy is asked at each of them by the same code that asks the one in force.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from detent.core.answer import JOURNAL, POLICY, answer_of
from detent.core.commands import Ask, Perform
from detent.core.contract import Contract
from detent.core.engine import advance
from detent.core.events import RULED, ContractMoved, Event, Signalled
from detent.core.history import Entry
from detent.core.machine import Machine
from detent.core.policy import DECISIONS, Decision, Policy
from detent.core.run import Run
from detent.core.status import Status
from detent.host.policy_check import OWN, Rulings, call_of

PeopleSaid = Literal["", "approve", "reject", "edit"]
ASKED_FOR_CALL = ("engine", "policy")  # who asks before a call is made: its author, or a rule


class Ruled(NamedTuple):
    """What became of a call by a policy: made, asked about or denied, and the rule that said so."""

    decision: Decision
    rule: str = ""  # nothing: no rule, so the machine's author decides
    policy: str = ""  # the policy's digest, where it is recorded


class PastCall(msgspec.Struct, frozen=True):
    """One call: as it was seen, what was decided, and what would have been."""

    at: float
    run_id: str
    seq: int
    contract_id: str
    workflow: str
    effect: str
    effect_kind: str
    arguments: Mapping[str, Any]
    initiator: str
    cost: float
    was: Ruled
    now: Ruled
    said: PeopleSaid = ""
    by: str = ""
    has_facts: bool = False  # whether the journal has what the host had found out about the call


class _Moment:
    """A contract before the policy: the one in force has not answered yet."""

    __slots__ = ("at", "contract", "rule")

    def __init__(self, at: float, contract: Contract, rule: Callable[[Mapping[str, Any]], Event | None]) -> None:
        self.at, self.contract, self.rule = at, contract, rule


class CallFold:
    """The calls of one run, and what a policy would have said to each."""

    def __init__(self, run_id: str, find_machine: Callable[[str], Machine], policy: Policy) -> None:
        self.run_id = run_id
        self._find_machine, self._rulings = find_machine, Rulings(policy)
        self._before = Run(id=run_id)
        self._moments: dict[str, _Moment] = {}
        self._calls: dict[str, PastCall] = {}
        self._rules: dict[str, str] = {}  # by place: the rule of the new policy that has asked about what stands there
        self._askers: dict[str, str] = {}

    def take(self, entry: Entry) -> Iterator[PastCall]:
        """Take the next entry; gives the calls that are over."""
        self._hear(entry)
        self._carry_rules(entry.run)
        moved = [taken for taken in entry.taken if taken.kind == "contract"]
        for taken in moved:
            if taken.target == Status.WAITING:
                self._askers[taken.subject] = taken.actor
        if any(taken.target in (Status.RUNNING, Status.WAITING) for taken in moved):
            self._put_before_policy(entry)
        for taken in moved:
            if Status(taken.target).is_terminal:
                yield from self._end(taken.subject, entry)
        self._before = entry.run

    def close(self) -> Iterator[PastCall]:
        """There are no more entries: the calls that are still open."""
        for contract_id in tuple(self._moments):
            self._answer_moment(contract_id, None)
        yield from self._calls.values()

    def _put_before_policy(self, entry: Entry) -> None:
        machine, before, run = self._find_machine(entry.run.machine), self._before, entry.run
        for command in advance(machine, before, entry.event)[1]:
            contract = run.contract(command.contract_id) if isinstance(command, Ask | Perform) else None
            if contract is None or contract.effect in OWN:
                continue
            earlier = before.contract(contract.id)
            if isinstance(command, Ask) and earlier is not None and earlier.status is not Status.PENDING:
                continue  # a rule asks, the effect itself, or nobody knows what happened: the policy has no say
            seen = replace(contract, rule=self._rules.get(_place(contract.id), ""))
            rule = partial(self._rule, before, _with(run, seen), machine, contract.id)
            self._moments[contract.id] = _Moment(entry.event.at, contract, rule)
            if contract.id not in self._calls:
                self._calls[contract.id] = self._begin(entry, machine, contract)

    def _rule(
        self, before: Run, run: Run, machine: Machine, contract_id: str, facts: Mapping[str, Any]
    ) -> Event | None:
        """What the other policy says, told the facts that the one in force was told."""
        return self._rulings.on(before, run, machine, contract_id, lambda _: facts)

    def _begin(self, entry: Entry, machine: Machine, contract: Contract) -> PastCall:
        call, nothing = call_of(entry.run, machine, contract), Ruled("allow")
        return PastCall(
            entry.event.at, self.run_id, entry.seq, contract.id, call.workflow, call.tool, call.kind, call.args,
            call.initiator, call.cost, nothing, nothing,
        )  # fmt: skip

    def _hear(self, entry: Entry) -> None:
        """What the policy in force said to an open moment, and what people said to a call."""
        event = entry.event
        contract_id = _subject(event)
        if contract_id in self._moments:
            is_policy = getattr(event, "actor", "") == POLICY or getattr(event, "by", "") == POLICY
            self._answer_moment(contract_id, event if is_policy else None)
        call = self._calls.get(contract_id)
        contract = self._before.contract(contract_id)
        if call is None or contract is None or type(event) is not ContractMoved or event.trigger != "resume":
            return
        question = contract.question
        is_person = event.actor not in (POLICY, JOURNAL) and self._askers.get(contract_id) in ASKED_FOR_CALL
        if question is None or question.reason not in ("approval", "form") or question.earlier or not is_person:
            return
        said = answer_of(event.result)
        self._calls[contract_id] = replace(call, said=_word(contract, said.approved, said.args), by=said.by)

    def _answer_moment(self, contract_id: str, recorded: Event | None) -> None:
        moment, call = self._moments.pop(contract_id), self._calls.get(contract_id)
        if call is None:
            return
        facts = _read_facts(recorded)
        was, now = read_ruling(recorded, moment.contract), read_ruling(moment.rule(facts), moment.contract)
        if now.rule and now.decision == "ask":
            self._rules[_place(contract_id)] = now.rule
        was, now = _stricter(call.was, was), _stricter(call.now, now)
        self._calls[contract_id] = replace(call, was=was, now=now, has_facts=call.has_facts or bool(facts))

    def _end(self, contract_id: str, entry: Entry) -> Iterator[PastCall]:
        """A contract has ended. One that the end of another took along at once was never put to anybody."""
        moment, call = self._moments.get(contract_id), self._calls.pop(contract_id, None)
        self._askers.pop(contract_id, None)
        if moment is None:
            if call is not None:
                yield call
            return
        is_at_once = moment.at == entry.event.at and _speaker(entry.event) in (POLICY, JOURNAL)
        if call is None or (is_at_once and _subject(entry.event) != contract_id):
            del self._moments[contract_id]
            return
        self._calls[contract_id] = call
        self._answer_moment(contract_id, None)
        yield self._calls.pop(contract_id)

    def _carry_rules(self, run: Run) -> None:
        """A new contract is under a rule only where it goes on with one that was: edited, tried again, or forked."""
        for new in run.contracts:
            if self._before.contract(new.id) is not None:
                continue
            if not self._before.seq and new.rule:  # a fork begins with it
                self._rules[_place(new.id)] = new.rule
            elif not new.approved and self._before.contract(new.supersedes) is None:
                self._rules.pop(_place(new.id), None)


def read_ruling(event: Event | None, contract: Contract) -> Ruled:
    """What an event of the policy means for the call of a contract; without one it goes on as its author wrote it."""
    said = _read_said(event)
    decision: Decision = "ask" if contract.status is Status.WAITING else "allow"
    if type(event) is ContractMoved and event.trigger == "suspend":
        decision = "ask"
    elif type(event) is ContractMoved and event.trigger == "reject":
        decision = "deny"
    elif type(event) is ContractMoved:
        decision = "allow" if answer_of(event.result).approved else "deny"
    return Ruled(decision, str(said.get("rule", "")), str(said.get("digest", "")))


def _read_said(event: Event | None) -> dict[str, Any]:
    """What the policy put on record with an event of its own."""
    said: Any = None
    if type(event) is Signalled:
        said = event.data.get(POLICY)
    elif type(event) is ContractMoved and event.trigger == "suspend":
        said = event.question.data.get(POLICY) if event.question else None
    elif type(event) is ContractMoved and event.trigger == "reject":
        said = event.error.data.get(POLICY) if event.error else None
    elif type(event) is ContractMoved:
        said = answer_of(event.result).data
    return said if isinstance(said, dict) else {}


def _read_facts(event: Event | None) -> dict[str, Any]:
    """What the host had found out about the call when the policy in force was asked."""
    facts = _read_said(event).get("facts")
    return facts if isinstance(facts, dict) else {}


def _stricter(one: Ruled, other: Ruled) -> Ruled:
    """Of what was said to a call at two moments, what it had to go through; of equals, what names a rule."""
    first, second = DECISIONS.index(one.decision), DECISIONS.index(other.decision)
    if first == second:
        return one if one.rule else other
    return one if first > second else other


def _word(contract: Contract, approved: bool | None, args: dict[str, Any] | None) -> PeopleSaid:
    if approved is False:
        return "reject"
    return "edit" if args is not None and args != contract.input else "approve"


def _subject(event: Event) -> str:
    if type(event) is ContractMoved:
        return event.contract_id
    return str(event.data.get("contract_id", "")) if type(event) is Signalled and event.name == RULED else ""


def _place(contract_id: str) -> str:
    """The state, branch and action of a contract; its attempts and edits differ in the number only."""
    return contract_id.rpartition("/")[0]


def _speaker(event: Event) -> str:
    return event.actor if isinstance(event, ContractMoved) else event.by


def _with(run: Run, contract: Contract) -> Run:
    """The run with one of its contracts as another policy would have left it."""
    return replace(run, contracts=tuple(contract if one.id == contract.id else one for one in run.contracts))
