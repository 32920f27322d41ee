"""The policy at work: what its verdict on a call means for the contract that is about to make it.

A verdict becomes an event of the run, in the same transaction as the event that led to the call, so a replay reads
what was decided and never asks the policy again.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec.structs import replace

from detent.core.answer import POLICY
from detent.core.contract import Contract, Failure
from detent.core.events import RULED, ContractMoved, Event, Signalled
from detent.core.machine import Machine
from detent.core.people import People
from detent.core.policy import ROLE, SPEAKER, Call, Policy, Verdict, stricter
from detent.core.question import Question
from detent.core.run import Run
from detent.core.status import Status
from detent.host.people import NAMED, find_approvers

OWN = ("ask", "wait")  # what the engine does itself; a question of its own is only for people


FindFacts = Callable[[Contract], Mapping[str, Any]]


def _no_facts(_: Contract) -> Mapping[str, Any]:
    return {}


def _known_facts(found: Mapping[str, Any]) -> dict[str, Any]:
    """The facts of an effect that a rule can go by, each of its type; an effect of a plugin may say anything."""
    facts = {name: found[name] for name in ("program", "host", "sandbox") if isinstance(found.get(name), str)}
    paths = found.get("paths")
    if isinstance(paths, (list, tuple)):
        facts["paths"] = tuple(path for path in paths if isinstance(path, str))
    return facts


def call_of(run: Run, machine: Machine, contract: Contract, found: Mapping[str, Any] = MappingProxyType({})) -> Call:
    """The call of a contract as rules see it, with the facts of its run and of the call itself at this moment."""
    about = {"id": run.id, "machine": machine.name, "state": run.state, "by": run.by, "session": run.session}
    cost = float(run.usage.get("cost_usd", 0.0)) if run.usage else 0.0
    return Call(contract.effect, contract.input, contract.kind, machine.name, run.by, cost, about, **found)


class Rulings:
    """Asks one policy about every contract before it acts."""

    def __init__(self, policy: Policy | None, find_people: Callable[[], People | None] = lambda: None) -> None:
        self.has_policy = policy is not None
        self.policy, self._find_people = policy or Policy(), find_people
        self._with_groups: tuple[str, Policy] = ("", self.policy)

    @property
    def _law(self) -> Policy:
        """The policy, whose roles are the groups of the people where there are any."""
        people = self._find_people()
        if people is None:
            return self.policy
        if self._with_groups[0] != people.digest:
            self._with_groups = people.digest, replace(self.policy, roles=people.groups)
        return self._with_groups[1]

    def on(
        self, before: Run, run: Run, machine: Machine, contract_id: str, facts: FindFacts = _no_facts
    ) -> Event | None:
        """What follows for a contract that is about to act or to ask; a ContractMoved means: it does not go on now."""
        contract = run.contract(contract_id)
        if contract is None:
            return None
        if not self.has_policy and (contract.question is None or not contract.question.approvers):
            return None  # only groups of people could be put in place of their names
        earlier = before.contract(contract_id)
        if contract.status is Status.WAITING:
            is_first = earlier is None or earlier.status is Status.PENDING  # else the effect asks, a doubt, or a rule
            return self._on_question(run, machine, contract, facts) if is_first else None
        is_doubt = earlier is not None and earlier.question is not None and earlier.question.reason == "outcome_unknown"
        return None if is_doubt else self._on_deed(run, machine, contract, facts)

    def on_repeat(self, run: Run, machine: Machine, contract: Contract, facts: FindFacts = _no_facts) -> str:
        """What a rule wants done about a deed that was done before, if it says."""
        verdict, _ = self._verdict(run, machine, contract, facts)
        return "" if verdict is None else verdict.on_repeat

    def lets_through(self, run: Run, machine: Machine, contract: Contract, facts: FindFacts = _no_facts) -> bool:
        """Whether the policy has nothing against a call, and nobody need be asked."""
        verdict, _ = self._verdict(run, machine, contract, facts)
        return verdict is None or verdict.decision == "allow"

    def least_sandbox(self, run: Run, machine: Machine, contract: Contract, facts: FindFacts = _no_facts) -> str:
        """The weakest sandbox in which the call may be made, of a policy that says so for some."""
        verdict, _ = self._verdict(run, machine, contract, facts)
        return (verdict.sandbox if verdict is not None else "") or self.policy.sandbox

    def _verdict(
        self, run: Run, machine: Machine, contract: Contract, facts: FindFacts
    ) -> tuple[Verdict | None, dict[str, Any]]:
        """What the policy says, and what it was told beside the call itself, which the journal keeps with it."""
        found = _known_facts(facts(contract)) if self.policy.has_facts else {}
        told = {name: list(value) if isinstance(value, tuple) else value for name, value in found.items()}
        return self._law.decide(call_of(run, machine, contract, found)), told

    def _on_deed(self, run: Run, machine: Machine, contract: Contract, facts: FindFacts) -> Event | None:
        verdict, found = self._verdict(run, machine, contract, facts)
        if verdict is None:
            return None
        is_approved = contract.call_hash != "" and contract.approved == contract.call_hash
        if verdict.decision == "deny":
            error = self._refusal(contract, verdict, found)
            return ContractMoved(contract.id, "reject", error=error, actor=POLICY, at=run.at)
        if verdict.decision == "ask":
            is_same = not verdict.is_rule or contract.rule == verdict.rule
            wants_more = verdict.question is not None and verdict.question.require_signature and not contract.is_signed
            if is_approved and is_same and not wants_more:
                return None
            named = self._keep_names((self._rule_approvers(verdict),))
            data = {POLICY: self._describe_verdict(verdict, found)} | named
            question = replace(verdict.question or Question(), data=data)
            return ContractMoved(contract.id, "suspend", question=question, deed="none", actor=POLICY, at=run.at)
        if is_approved or not verdict.is_rule:
            return None
        return self._make_signal(run, contract, verdict, found=found)

    def _on_question(self, run: Run, machine: Machine, contract: Contract, facts: FindFacts) -> Event | None:
        """An author's question: a rule may answer it, forbid the call, or say more strictly who may answer."""
        asked = contract.question or Question()
        is_own = contract.effect in OWN
        verdict, found = (None, {}) if is_own else self._verdict(run, machine, contract, facts)
        if verdict is not None and verdict.decision == "deny":
            error = self._refusal(contract, verdict, found)
            said = self._answer(contract, verdict, found, is_yes=False)
            return ContractMoved(contract.id, "resume", result=said, error=error, actor=POLICY, at=run.at)
        if verdict is not None and verdict.is_rule:
            is_open = verdict.is_for_named or (not asked.approvers and asked.quorum == 1)
            is_plain = asked.reason == "approval" and not asked.require_signature
            if verdict.decision == "allow" and is_plain and is_open:
                said = self._answer(contract, verdict, found, is_yes=True)
                return ContractMoved(contract.id, "resume", result=said, actor=POLICY, at=run.at)
            if verdict.decision == "ask" and contract.rule != verdict.rule:
                known = self._with_people(asked) or asked
                wanted = stricter(known, verdict.question or Question(), verdict.message)
                named = self._keep_names((asked.approvers, self._rule_approvers(verdict)))
                wanted = replace(wanted, data={**wanted.data, **named}) if named else wanted
                return self._make_signal(run, contract, verdict, wanted, found)
        resolved = self._with_people(asked)
        return self._make_signal(run, contract, None, resolved) if resolved is not None else None

    def _with_people(self, asked: Question) -> Question | None:
        """The question with its roles replaced by who holds them; None when there is nothing to replace."""
        people = self._law.people(asked.approvers)
        if people == asked.approvers:
            return None
        roles = [name.removeprefix(ROLE) for name in asked.approvers if name.startswith(ROLE)]
        data = {**asked.data, "roles": roles, **self._keep_names((asked.approvers,))}
        return replace(asked, approvers=people, data=data)

    def _rule_approvers(self, verdict: Verdict) -> tuple[str, ...]:
        return next((rule.approvers for rule in self.policy.rules if rule.name == verdict.rule), ())

    def _keep_names(self, lists: tuple[tuple[str, ...], ...]) -> dict[str, Any]:
        """Whom a question was for before groups became people: who is in them is looked up again at the answer."""
        has_groups = any(name.startswith(ROLE) for names in lists for name in names)
        if not has_groups or self._find_people() is None:
            return {}
        return {NAMED: [list(names) for names in lists if names]}

    def refresh(self, run: Run, contract: Contract, at: float) -> Signalled | None:
        """The question with the people who are in its groups now; None where that has not changed."""
        asked, people = contract.question, self._find_people()
        if asked is None or people is None or (now := find_approvers(asked, people)) == asked.approvers:
            return None
        left_s = max(0.001, contract.expires_at - at) if contract.expires_at else 0.0  # its time goes on as before
        return replace(self._make_signal(run, contract, None, replace(asked, approvers=now, expires_s=left_s)), at=at)

    def _make_signal(
        self,
        run: Run,
        contract: Contract,
        verdict: Verdict | None,
        question: Question | None = None,
        found: Mapping[str, Any] = {},
    ) -> Signalled:
        data: dict[str, Any] = {"contract_id": contract.id}
        if verdict is not None:
            data[POLICY] = self._describe_verdict(verdict, found)
        if question is not None:
            if verdict is not None:
                question = replace(question, data={**question.data, POLICY: data[POLICY]})
            data["question"] = msgspec.to_builtins(question)
        return Signalled(RULED, data, POLICY, run.at)

    def _answer(
        self, contract: Contract, verdict: Verdict, found: Mapping[str, Any], *, is_yes: bool
    ) -> dict[str, Any]:
        about = {"by": f"{SPEAKER}{verdict.rule}", "channel": POLICY, "call_hash": contract.call_hash}
        comment = {"comment": verdict.message} if verdict.message else {}
        return {"approved": is_yes, **about, **comment, "data": self._describe_verdict(verdict, found)}

    def _refusal(self, contract: Contract, verdict: Verdict, found: Mapping[str, Any]) -> Failure:
        why = f": {verdict.message}" if verdict.message else ""
        problem = f"the policy's rule `{verdict.rule}` denies `{contract.effect}`{why}"
        return Failure("approval_rejected", problem, {POLICY: self._describe_verdict(verdict, found)})

    def _describe_verdict(self, verdict: Verdict, found: Mapping[str, Any]) -> dict[str, Any]:
        said = {"decision": verdict.decision, "rule": verdict.rule, "digest": self.policy.digest}
        said |= {"message": verdict.message} if verdict.message else {}
        return said | ({"facts": dict(found)} if found else {})
