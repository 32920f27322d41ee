"""Decisions: what somebody or something decided about a call, with what was in front of them and what came of it.

`DecisionFold` takes the entries of one run and gives its decisions, each as soon as its outcome is known. It keeps only
what is still open, so a long run needs no more memory than a short one.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from detent.core.answer import JOURNAL, POLICY, answer_of
from detent.core.contract import ASKED, Contract
from detent.core.events import CANCEL, EVIDENCE, MIGRATE, RETRY, RULED, ContractMoved, Event, Signalled, Started
from detent.core.history import Entry
from detent.core.policy import SPEAKER
from detent.core.question import Answer, Question
from detent.core.run import Run
from detent.core.status import Status
from detent.core.value import digest
from detent.host.parts.restore_gap import CLOSE
from detent.host.parts.restore_gap import RECORDED as RESTORE
from detent.host.system_run import FILES_ID

DecisionKind = Literal[
    "answer", "policy", "settle", "repeat", "evidence", "expiry", "retry", "cancel", "fork", "migrate", "attempt",
    "people", "restore", "close_gap", "save",
]  # fmt: skip
DecisionOutcome = Literal["done", "failed", "refused", "cancelled", "reused", "doubt", "not_yet"]
CLAIMED = "claimed"  # a name that nobody has checked
WITNESSES = ("evidence", "probe")  # what answers a doubt by itself
OWN_HANDS = ("parent",)  # who moves a run because another run was moved; that one has the decision
ATTEMPT = "@attempt"  # somebody tried to answer who may not
PEOPLE_RUN = "detent_people"  # the run that keeps who may do what, and its events
PEOPLE_EVENTS: dict[str, tuple[DecisionKind, DecisionOutcome]] = {
    "CHANGED": ("people", "done"),
    "ATTEMPTED": ("attempt", "refused"),
}
VERBS: dict[str, DecisionKind] = {CANCEL: "cancel", RETRY: "retry", MIGRATE: "migrate"}
ENDED: dict[Status, DecisionOutcome] = {
    Status.COMPLETED: "done",
    Status.FAILED: "failed",
    Status.REJECTED: "refused",
    Status.CANCELLED: "cancelled",
}


class Edit(msgspec.Struct, frozen=True):
    """One argument that somebody changed before saying yes; null where there was none, or is none now."""

    path: str
    was: Any
    now: Any


class AuditDecision(msgspec.Struct, frozen=True):
    """One decision: about which call, by whom, and what came of it."""

    at: float
    run_id: str
    seq: int
    workflow: str
    contract_id: str
    effect: str
    effect_kind: str
    decision: DecisionKind
    answer: str  # approve, reject, edit, fill, use · allow, ask, deny · happened, not_happened, give_up · the verb
    by: str
    known_by: str  # how it is known that it was them: claimed, … ; for what is no person, what it is
    spoken_by: str = ""  # who said it in that name, where that is somebody else
    channel: str = ""
    question: str = ""
    arguments: dict[str, Any] | None = None  # of the call as it was shown
    call_hash: str = ""
    approvers: list[str] = []
    quorum: str = ""
    is_separate: bool = False  # whoever started the run might not answer
    edits: list[Edit] = []
    given: Any = None  # what a form was filled in with, or the result that was stated
    reason: str = ""
    rule: str = ""
    policy: str = ""  # the digest of the policy that decided
    asked_by: str = ""  # who put the question: engine (the author), policy, journal (a repeat), recovery, or the effect
    outcome: DecisionOutcome = "not_yet"
    outcome_at: float = 0.0
    signed: bool = False  # whether the answer has an SSH signature, which was checked when it was given


class DecisionFold:
    """The decisions of one run, made of its entries."""

    def __init__(self, run_id: str, find_name: Callable[[str], str]) -> None:
        self.run_id = run_id
        self._find_name = find_name  # a machine's name by its digest
        self._before = Run(id=run_id)
        self._askers: dict[str, str] = {}  # who has put the question of a waiting contract
        self._open: dict[str, list[AuditDecision]] = {}  # by contract: decisions about what has not ended
        self._of_run: list[AuditDecision] = []
        self._doubts: dict[
            str, tuple[Contract, list[AuditDecision]]
        ] = {}  # of contracts that ended with nobody knowing

    def take(self, entry: Entry) -> Iterator[AuditDecision]:
        """Take the next entry; gives the decisions whose outcome is known now."""
        yield from self._hear_evidence(entry)
        for made in self._decide(entry):
            if made.outcome_at:
                yield made
                continue
            (self._open.setdefault(made.contract_id, []) if made.contract_id else self._of_run).append(made)
        for taken in entry.taken:
            if taken.kind == "contract" and taken.target == Status.WAITING:
                self._askers[taken.subject] = taken.actor
            elif taken.kind == "contract" and Status(taken.target).is_terminal:
                yield from self._end(entry, taken.subject, Status(taken.target), taken.event)
        ended = entry.run.ended
        if ended is not None and self._of_run:
            yield from (replace(one, outcome=ENDED[ended], outcome_at=entry.event.at) for one in self._of_run)
            self._of_run.clear()
        self._before = entry.run

    def close(self) -> Iterator[AuditDecision]:
        """There are no more entries: the decisions of which nothing has come yet."""
        for contract_id, decisions in self._open.items():
            contract = self._before.contract(contract_id)
            question = contract.question if contract is not None else None
            is_doubt = question is not None and question.reason == "outcome_unknown"
            yield from (replace(one, outcome="doubt") if is_doubt else one for one in decisions)
        for _contract, decisions in self._doubts.values():
            yield from decisions
        yield from self._of_run

    def _decide(self, entry: Entry) -> Iterator[AuditDecision]:
        event, made = entry.event, None
        if type(event) is ContractMoved:
            contract = self._find(entry, event.contract_id)
            made = None if contract is None else self._judge_move(entry, event, contract)
        elif type(event) is Signalled:
            made = self._judge_signal(entry, event)
        elif type(event) is Started and event.machine == RESTORE.digest:
            made = self._describe_restore(entry, event)
        elif type(event) is Started and event.fork is not None:
            source = f"{event.fork.get('run_id', '')}@{event.fork.get('seq', '')}"
            made = self._about_run(entry, "fork", event.by, source, event)
        if made is not None:
            yield made
        for contract in self._find_expired(entry):
            yield self._about(entry, contract, "expiry", "expire", "timer", "timer")

    def _judge_signal(self, entry: Entry, event: Signalled) -> AuditDecision | None:
        if self.run_id == PEOPLE_RUN and event.name in PEOPLE_EVENTS:
            kind, outcome = PEOPLE_EVENTS[event.name]
            reason = "; ".join(str(event.data[key]) for key in ("change", "why") if event.data.get(key))
            made = self._about_run(entry, kind, event.by, reason, event)
            return replace(made, outcome=outcome, outcome_at=event.at)
        if self.run_id == FILES_ID and event.name == "SAVED":
            made = self._about_run(entry, "save", event.by, str(event.data.get("file", "")), event)
            return replace(made, given=event.data, outcome="done", outcome_at=event.at)
        if event.name == CLOSE and self._before.machine == RESTORE.digest:
            made = self._about_run(entry, "close_gap", event.by, str(event.data.get("comment", "")), event)
            return replace(made, outcome="done", outcome_at=event.at)
        if event.name in VERBS:
            if event.by in OWN_HANDS:
                return None
            reason = str(event.data.get("reason", "") or event.data.get("machine", ""))
            return self._about_run(entry, VERBS[event.name], event.by, reason, event)
        contract = self._find(entry, str(event.data.get("contract_id", "")))
        if event.name == ATTEMPT:
            return self._describe_attempt(entry, event, contract)
        if event.name == RULED and contract is not None:
            return self._describe_rule(entry, contract, event.data.get(POLICY), event.by)
        return None

    def _describe_restore(self, entry: Entry, event: Started) -> AuditDecision:
        """Somebody put a backup in place: from when to when the journal knows nothing."""
        since, until = (float(event.input.get(name, 0.0)) for name in ("since", "until"))
        made = self._about_run(
            entry, "restore", event.by, f"{_write_minute(since)} to {_write_minute(until)} UTC", event
        )
        return replace(made, given=event.input, outcome="done", outcome_at=event.at)

    def _describe_attempt(self, entry: Entry, event: Signalled, contract: Contract | None) -> AuditDecision:
        """Somebody tried what they may not: it was refused, and changed nothing."""
        verb, known = str(event.data.get("verb", "")), read_identity(event)
        tried = contract or Contract(str(event.data.get("contract_id", "")), "", "")
        made = self._about(entry, tried, "attempt", verb, event.by, known, reason=str(event.data.get("why", "")))
        made = replace(made, arguments=made.arguments if contract else None, spoken_by=getattr(event, "spoken_by", ""))
        return replace(made, outcome="refused", outcome_at=event.at)

    def _judge_move(self, entry: Entry, event: ContractMoved, contract: Contract) -> AuditDecision | None:
        if event.actor == POLICY and event.trigger in ("suspend", "reject"):
            said = (event.question.data if event.question else event.error.data if event.error else {}).get(POLICY)
            return self._describe_rule(entry, contract, said, POLICY)
        if event.trigger == "reject" and event.actor == JOURNAL:
            reason = event.error.message if event.error else ""
            return self._about(entry, contract, "repeat", "reject", JOURNAL, JOURNAL, reason=reason)
        question = contract.question
        if event.trigger != "resume" or question is None or question.reason not in ASKED:
            return None
        said = answer_of(event.result)
        if event.actor == POLICY:
            return self._describe_rule(entry, contract, said.data, POLICY)
        return self._describe_answer(entry, event, contract, question, said)

    def _describe_answer(
        self, entry: Entry, event: ContractMoved, contract: Contract, question: Question, said: Answer
    ) -> AuditDecision:
        is_doubt = question.reason == "outcome_unknown"
        kind: DecisionKind = "settle" if is_doubt else "repeat" if question.earlier else "answer"
        if event.actor in WITNESSES:
            kind, known = "evidence", event.actor
        elif event.actor == JOURNAL:
            kind, known = "repeat", JOURNAL
        else:
            known = read_identity(event)
        is_edited = said.args is not None and said.args != contract.input and said.approved is True
        agreed = 1 + sum(
            bool(_read_voucher(one)) or not _read_voucher(said) for one in contract.answers[contract.answered :]
        )
        is_count = question.quorum > 1 and said.approved is True and not is_edited
        return self._about(
            entry, contract, kind, name_answer(said, question, is_edited), said.by, known,
            channel=said.channel,
            spoken_by=getattr(said, "spoken_by", ""),
            quorum=f"{agreed} of {question.quorum}" if is_count else "",
            edits=list(list_edits(contract.input, said.args or {})) if is_edited else [],
            given=said.data if said.data is not None else said.result,
            reason=said.comment,
        )  # fmt: skip

    def _describe_rule(self, entry: Entry, contract: Contract, said: Any, by: str) -> AuditDecision | None:
        """What a rule decided; one that is the journal's own is about a repeat."""
        if not isinstance(said, dict) or not said.get("rule"):
            return None
        rule, is_policy = str(said["rule"]), by == POLICY
        return self._about(
            entry, contract, "policy" if is_policy else "repeat", str(said.get("decision", "")),
            f"{SPEAKER}{rule}" if is_policy else by, POLICY if is_policy else by,
            reason=str(said.get("message", "") or said.get("repeats", "")),
            rule=rule,
            policy=str(said.get("digest", "")),
        )  # fmt: skip

    def _about(
        self, entry: Entry, contract: Contract, kind: DecisionKind, answer: str, by: str, known_by: str, **more: Any
    ) -> AuditDecision:
        question = contract.question if contract.status is Status.WAITING else None
        asking = question or (entry.event.question if type(entry.event) is ContractMoved else None)
        return AuditDecision(
            at=entry.event.at, run_id=self.run_id, seq=entry.seq, workflow=self._name(entry),
            contract_id=contract.id, effect=contract.effect, effect_kind=contract.kind,
            decision=kind, answer=answer, by=by, known_by=known_by,
            question=asking.text if asking else "",
            arguments=contract.input,
            call_hash=contract.call_hash or digest([contract.effect, contract.input]),
            approvers=list(asking.approvers) if asking else [],
            is_separate=asking.separate if asking else False,
            asked_by=self._askers.get(contract.id, "") if question else "",
            signed=_has_signature(entry.event),
            **more,
        )  # fmt: skip

    def _about_run(
        self, entry: Entry, kind: DecisionKind, by: str, reason: str, event: Signalled | Started
    ) -> AuditDecision:
        return AuditDecision(
            at=event.at, run_id=self.run_id, seq=entry.seq, workflow=self._name(entry), contract_id="",
            effect="", effect_kind="", decision=kind, answer=kind, by=by, known_by=read_identity(event), reason=reason,
            spoken_by=getattr(event, "spoken_by", ""),
        )  # fmt: skip

    def _name(self, entry: Entry) -> str:
        return self._find_name(entry.run.machine or self._before.machine)

    def _find(self, entry: Entry, contract_id: str) -> Contract | None:
        return self._before.contract(contract_id) or entry.run.contract(contract_id)

    def _find_expired(self, entry: Entry) -> Iterator[Contract]:
        """The contracts whose questions nobody has answered in time."""
        for taken in entry.taken:
            contract = self._before.contract(taken.subject) if taken.kind == "contract" else None
            if contract is not None and contract.is_asking and (taken.event, taken.actor) == ("timeout", "timer"):
                yield contract

    def _end(self, entry: Entry, contract_id: str, status: Status, trigger: str) -> Iterator[AuditDecision]:
        """A contract has ended: so it is known what came of the decisions about it, unless another carries them on."""
        self._askers.pop(contract_id, None)
        decisions = self._open.pop(contract_id, [])
        contract = self._before.contract(contract_id) or Contract(contract_id, "", "")
        successor = self._find_successor(entry.run, contract)
        if successor:
            self._open.setdefault(successor, []).extend(decisions)
            return
        outcome = _outcome(entry, contract, status, trigger)
        ended = [replace(one, outcome=outcome, outcome_at=entry.event.at) for one in decisions]
        if outcome == "doubt":
            self._doubts[contract_id] = contract, ended
        else:
            yield from ended

    def _find_successor(self, run: Run, contract: Contract) -> str:
        """The contract that goes on with what was decided: the same call edited, or its next attempt."""
        for new in run.contracts:
            if new.id == contract.id or self._before.contract(new.id) is not None:
                continue
            is_next = new.attempt == contract.attempt + 1 and (new.lane, new.action) == (contract.lane, contract.action)
            if new.supersedes == contract.id or is_next:
                return new.id
        return ""

    def _hear_evidence(self, entry: Entry) -> Iterator[AuditDecision]:
        """What came late of a call that had been given up: a decision of its own, and the outcome of earlier ones."""
        event = entry.event
        if type(event) is not Signalled or event.name != EVIDENCE:
            return
        contract_id = str(event.data.get("contract_id", ""))
        contract, decisions = self._doubts.pop(contract_id, (None, []))
        contract = contract or self._find(entry, contract_id) or Contract(contract_id, "", "")
        said = str(event.data.get("said", ""))
        late = self._about(entry, contract, "evidence", "happened", event.by, "evidence", reason=said)
        for one in (*decisions, replace(late, given=event.data.get("result"))):
            yield replace(one, outcome="done", outcome_at=event.at)


def read_identity(event: ContractMoved | Signalled | Started) -> str:
    """How it is known who has spoken: what the journal says, else the name is only claimed."""
    known = getattr(event, "known_by", "")
    if not known and type(event) is ContractMoved and isinstance(event.result, dict):
        known = event.result.get("known_by", "")
    return known if isinstance(known, str) and known else CLAIMED


def _write_minute(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.gmtime(at))


def _has_signature(event: Event) -> bool:
    result = event.result if type(event) is ContractMoved and event.trigger == "resume" else None
    return isinstance(result, dict) and result.get("signature") is not None


def _read_voucher(said: Answer) -> str:
    """What vouches for the name of an answer; beside one that is vouched for, only such count for a quorum."""
    return str(getattr(said, "known_by", ""))


def name_answer(said: Answer, question: Question, is_edited: bool) -> str:
    """An answer in one word."""
    if said.outcome:
        return said.outcome
    if said.approved is False:
        return "reject"
    if is_edited:
        return "edit"
    return "fill" if question.reason == "form" else "approve"


def list_edits(was: Mapping[str, Any], now: Mapping[str, Any], path: str = "args") -> Iterator[Edit]:
    """What differs between two sets of arguments, the deepest mapping first."""
    for key in (*was, *(key for key in now if key not in was)):
        before, after, place = was.get(key), now.get(key), f"{path}.{key}"
        if key in was and key in now and before == after:
            continue
        if isinstance(before, dict) and isinstance(after, dict):
            yield from list_edits(before, after, place)
        else:
            yield Edit(place, before, after)


def _outcome(entry: Entry, contract: Contract, status: Status, trigger: str) -> DecisionOutcome:
    """What came of a contract that this entry has ended."""
    event = entry.event
    is_own = type(event) is ContractMoved and event.contract_id == contract.id
    given = event.result if is_own and type(event) is ContractMoved and isinstance(event.result, dict) else {}
    deed = event.deed if is_own and type(event) is ContractMoved else ""
    if status is Status.COMPLETED:
        if given.get("outcome") == "use":
            return "reused"
        return "failed" if trigger == "succeed" and given.get("success") is False else "done"
    if status is Status.CANCELLED:
        is_possible = contract.is_irreversible and contract.effect_state == "possible" and deed != "none"
        return "doubt" if is_possible and given.get("outcome") != "not_happened" else "cancelled"
    return "doubt" if deed == "possible" and contract.is_irreversible else ENDED[status]
