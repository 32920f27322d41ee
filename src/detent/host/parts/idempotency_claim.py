"""Once only: keys of irreversible deeds, claimed across all runs of a journal.

A claim is written in the same transaction as the contract that takes it. It is freed only on evidence that nothing
happened; a doubt keeps it. What came of a deed is read from its holder's events when somebody else asks for its key.
"""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from detent.core.contract import Contract, Failure
from detent.core.events import EVIDENCE, REPEATED, RULED, ContractMoved, Event, Signalled
from detent.core.question import Question
from detent.core.run import Run
from detent.core.status import Status
from detent.host.parts.clock import Clock
from detent.host.parts.journal_query import AnyJournal, Batch, Claim, decode_event, encode
from detent.host.parts.restore_gap import GAP, Gap, is_gap, note_in_question

REUSED = "Its result is used."  # how a question ends that the journal answers by itself
MENTIONS = (
    "select cast(body as blob) from events where run = (select no from runs where run_id = ?)"
    " and instr(body, cast(? as blob)) > 0 order by seq desc"
)
OPEN, POSSIBLE, DONE = "open", "possible", Status.COMPLETED.value


class Fate(NamedTuple):
    """What came of a deed whose key is taken: under way, possibly done, or done."""

    status: str = OPEN
    result: Any = None
    error: Failure | None = None
    at: float = 0.0


class Wish(NamedTuple):
    """What the policy wants of a deed that was done before ("": it says nothing), and what its effect advises."""

    on_repeat: str = ""
    advice: str = ""


OnRepeat = Callable[[Contract], Wish]


class ClaimReply(NamedTuple):
    """What the keys say to a contract that wants to act or ask: whether it may, and what must be folded first."""

    may_go_on: bool = True
    events: tuple[Event, ...] = ()


FREE = ClaimReply()


class Claims:
    """Takes, frees and looks up keys; what is not yet on disk is kept here.

    Only this process writes the journal, so what is kept here is what the journal will say in a moment.
    """

    def __init__(self, journal: Callable[[], AnyJournal]) -> None:
        self._journal = journal
        self._fresh: dict[tuple[str, str], Claim | None] = {}
        self._ended: dict[tuple[str, str], Fate] = {}  # by run and contract
        self.gap: Gap | None = None  # what a restored journal does not know; see `gap`

    def take(self, batch: Batch, run: Run, contract_id: str, clock: Clock, policy: OnRepeat) -> ClaimReply:
        """Claim a contract's key, or say what follows from somebody else's having it."""
        contract = run.contract(contract_id)
        if contract is None or contract.kind != "irreversible" or contract.effect in ("ask", "wait"):
            return FREE
        place = place_of(run, contract)
        held = self.holder(*place)
        if held is not None and (held.run_id, held.contract_id) == (run.id, contract_id):
            return FREE if self.gap is None else self._unless_gap(run, contract, clock.now())
        is_mine = held is None or (held.run_id == run.id and held.contract_id == contract.supersedes)
        if is_mine or (held is not None and contract.again == f"{held.run_id} {held.contract_id}"):
            self._put(batch, Claim(*place, run.id, contract_id, contract.call_hash, clock.now()), held)
            return FREE if self.gap is None else self._unless_gap(run, contract, clock.now())
        assert held is not None  # noqa: S101 - the type checker cannot see it
        return self._meet(batch, run, contract, held, policy(contract), clock.now())

    def _unless_gap(self, run: Run, contract: Contract, at: float) -> ClaimReply:
        """The key is there to be had; whoever is asked about the call learns that it may have been made in the gap."""
        note = note_in_question(self.gap, run, contract, at) if self.gap is not None else None
        return FREE if note is None else ClaimReply(True, (note,))

    def follow(self, batch: Batch, before: Run, run: Run, event: Event) -> None:
        """Free the keys of contracts this event has ended, unless they have happened, or nobody knows."""
        for contract in before.contracts:
            if contract.kind == "irreversible" and run.contract(contract.id) is None:
                self._follow(batch, run, contract, event)

    def holder(self, scope: str, key: str) -> Claim | None:
        """Who has this key."""
        if (scope, key) in self._fresh:
            return self._fresh[scope, key]
        return self._journal().claim(scope, key)

    def is_repeated(self, run: Run, contract: Contract) -> bool:
        """Whether a deed was handed to somebody else to do it again."""
        held = self.holder(*place_of(run, contract))
        return held is not None and (held.run_id, held.contract_id) != (run.id, contract.id)

    def wrote(self, batch: Batch) -> None:
        """What is on disk need not be kept here."""
        for claim in batch.claims:
            if self._fresh.get((claim.scope, claim.key)) is claim:
                del self._fresh[claim.scope, claim.key]
        for scope, key, _, _ in batch.freed:
            if (scope, key) in self._fresh and self._fresh[scope, key] is None:
                del self._fresh[scope, key]
        for mark in batch.fates:
            self._ended.pop(mark, None)

    def forget(self, run_id: str) -> None:
        """Drop what a run has claimed only in memory."""
        for place in [p for p, claim in self._fresh.items() if claim is None or claim.run_id == run_id]:
            del self._fresh[place]
        for mark in [m for m in self._ended if m[0] == run_id]:
            del self._ended[mark]

    def _put(self, batch: Batch, claim: Claim, held: Claim | None) -> None:
        if held is not None and held.run_id != claim.run_id:
            batch.moved += ((held.scope, held.key, held.run_id, held.contract_id),)
        self._fresh[claim.scope, claim.key] = claim
        batch.claims += (claim,)

    def _follow(self, batch: Batch, run: Run, contract: Contract, event: Event) -> None:
        fate = judge_fate(contract, event)
        if fate is not None:
            self._ended[run.id, contract.id] = fate
            batch.fates += ((run.id, contract.id),)
            return
        place = place_of(run, contract)
        held = self.holder(*place)
        if held is None or (held.run_id, held.contract_id) != (run.id, contract.id):
            return
        run_id, _, contract_id = contract.again.partition(" ")
        if contract.again and contract_id != GAP:  # the earlier deed is what it was
            self._put(batch, Claim(*place, run_id, contract_id, contract.call_hash, event.at), held)
        else:
            self._fresh[place] = None
            batch.freed += ((*place, run.id, contract.id),)

    def _meet(self, batch: Batch, run: Run, contract: Contract, held: Claim, said: Wish, at: float) -> ClaimReply:
        """Somebody else has the key: refuse, ask whether to do it again, or do as author or policy have said."""
        fate = self._fate(held)
        is_other_call = held.call_hash != contract.call_hash and held.call_hash
        wish = said.on_repeat or contract.on_repeat or ("ask" if run.rules > 1 else "refuse")
        is_own = held.run_id == run.id
        if is_other_call or fate.status == OPEN or wish == "refuse" or (is_own and fate.status == DONE):
            return ClaimReply(False, (_refusal(contract, held, fate, at, said.advice),))
        if wish == "allow" and fate.status == DONE:
            self._put(batch, Claim(held.scope, held.key, run.id, contract.id, contract.call_hash, at), held)
            return ClaimReply(True, (_note_repetition(contract, held, at),))
        question = contract.question
        if question is not None and question.earlier and _is_about(question.earlier, held):
            return FREE  # it asks about this very deed already
        earlier = _earlier(held, fate) | _people(self._journal(), held)
        is_reused = wish == "reuse" and fate.status == DONE
        asking = _asking(contract, earlier, at, said.advice, is_reused=is_reused)
        if is_reused:
            use = {"outcome": "use", "by": "journal", "result": fate.result}
            return ClaimReply(
                False, (*asking, ContractMoved(contract.id, "resume", result=use, actor="journal", at=at))
            )
        return ClaimReply(False, asking)

    def _fate(self, held: Claim) -> Fate:
        known = self._ended.get((held.run_id, held.contract_id))
        return known if known is not None else fate_of(self._journal(), held)


def judge_fate(contract: Contract, event: Event) -> Fate | None:
    """What came of a contract that this event has ended, if it keeps its key: it was done, or nobody knows."""
    if type(event) is not ContractMoved or event.contract_id != contract.id:
        return None
    fate = _find_callback(contract, event) or _find_use_from_gap(contract, event) or _fate(event)
    is_possible = fate.status == POSSIBLE and contract.effect_state == "possible"
    return fate if is_possible or (fate.status == DONE and not contract.is_lenient) else None


def fate_of(journal: AnyJournal, held: Claim) -> Fate:
    """What came of a deed, as the events of its holder tell it; a holder that was pruned has done it."""
    if journal.record(held.run_id) is None:
        return Fate(DONE, at=held.at)
    for (body,) in journal.rows(MENTIONS, (held.run_id, encode(held.contract_id))):
        try:
            event = decode_event(body)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            continue  # its own run will say that it is damaged; here the key just stays taken
        if type(event) is ContractMoved and event.contract_id == held.contract_id:
            return _find_use(event) or _fate(event)
        if type(event) is Signalled and event.name == EVIDENCE and event.data.get("contract_id") == held.contract_id:
            return Fate(DONE, event.data.get("result"), at=event.at)
    return Fate()


def was_redone(journal: AnyJournal, run_id: str, contract_id: str) -> bool:
    """Whether a contract was put to work again because somebody said that nothing had happened."""
    for (body,) in journal.rows(MENTIONS, (run_id, encode(contract_id))):
        event = decode_event(body)
        if type(event) is ContractMoved and event.contract_id == contract_id and event.trigger == "resume":
            said = event.result if isinstance(event.result, dict) else {}
            if said.get("outcome") == "not_happened" and event.error is None:
                return True
    return False


def place_of(run: Run, contract: Contract) -> tuple[str, str]:
    """The scope and the key under which a contract's deed is claimed."""
    if contract.scope == "run":
        return f"run:{run.id}", contract.key
    if contract.scope == "session":
        return f"session:{run.session or run.id}", contract.key
    return "global", contract.key


def _fate(moved: ContractMoved) -> Fate:
    """What a contract's latest event says of its deed; one that ended otherwise than here has given back its key."""
    given = moved.result if isinstance(moved.result, dict) else {}
    if moved.trigger == "succeed" and given.get("success") is not False:
        return Fate(DONE, moved.result, at=moved.at)
    if moved.trigger == "resume" and given.get("outcome") == "happened":
        return Fate(DONE, given.get("result"), at=moved.at)
    # It failed on its way, somebody gave up on finding out, or a call that was told no did not say it did nothing.
    is_said = moved.trigger in ("fail", "reject") and moved.deed == "possible"
    if is_said or (moved.trigger == "resume" and given.get("outcome") == "give_up"):
        return Fate(POSSIBLE, moved.result if is_said else None, moved.error, moved.at)
    return Fate()


def _find_callback(contract: Contract, moved: ContractMoved) -> Fate | None:
    """Somebody outside has called back that it is done."""
    is_callback = contract.question is not None and contract.question.reason == "callback"
    is_done = is_callback and moved.trigger == "resume" and moved.error is None
    return Fate(DONE, moved.result, at=moved.at) if is_done else None


def _find_use_from_gap(contract: Contract, moved: ContractMoved) -> Fate | None:
    """Somebody knows that the deed was done before the journal was restored, and with what result."""
    is_asked = contract.question is not None and is_gap(contract.question.earlier)
    return _find_use(moved) if is_asked else None


def _find_use(moved: ContractMoved) -> Fate | None:
    """A result that stands for a deed; of one who holds a key, that of a deed in the gap."""
    given = moved.result if isinstance(moved.result, dict) and moved.trigger == "resume" else {}
    return Fate(DONE, given.get("result"), at=moved.at) if given.get("outcome") == "use" else None


def _is_about(earlier: dict[str, Any], held: Claim) -> bool:
    return (earlier.get("run_id"), earlier.get("contract_id")) == (held.run_id, held.contract_id)


def _earlier(held: Claim, fate: Fate) -> dict[str, Any]:
    """The deed that was done, for whoever decides about a second one."""
    known = {"run_id": held.run_id, "contract_id": held.contract_id, "status": fate.status, "at": fate.at or held.at}
    if fate.result is not None:
        known["result"] = fate.result
    if fate.error is not None:
        known["error"] = msgspec.to_builtins(fate.error)
    return known


def _people(journal: AnyJournal, held: Claim) -> dict[str, Any]:
    """Who started the run of a deed, and who said yes to the deed."""
    record = journal.record(held.run_id)
    known = {"by": record.summary.by} if record is not None and record.summary.by else {}
    for (body,) in journal.rows(MENTIONS, (held.run_id, encode(held.contract_id))):
        try:
            event = decode_event(body)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            continue
        is_answer = type(event) is ContractMoved and event.contract_id == held.contract_id
        said = event.result if is_answer and event.trigger == "resume" else None
        if isinstance(said, dict) and said.get("approved") is True and said.get("by"):
            return {**known, "approved_by": str(said["by"])}
    return known


def _asking(
    contract: Contract, earlier: dict[str, Any], at: float, advice: str, *, is_reused: bool
) -> tuple[Event, ...]:
    """The question whether to do it again, alone or beside what the contract asks already.

    Where its result is to be used the answer follows at once, and nobody is asked.
    """
    then = REUSED if is_reused else "Do it again?"
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(earlier["at"]))
    where = f"{earlier['contract_id']} of run {earlier['run_id']}"
    text = f"`{contract.effect}` was already done with these arguments, by {where} at {when} UTC. {then}"
    if earlier["status"] == POSSIBLE:
        why = earlier.get("error", {}).get("message") or "nobody found out"
        text = f"`{contract.effect}` may already have been done, by {where} at {when} UTC: {why}. Do it again?"
    text = f"{text}\n{advice}" if advice and not is_reused else text
    if contract.status is Status.WAITING:
        return (Signalled(REPEATED, {"contract_id": contract.id, "text": text, "earlier": earlier}, "journal", at),)
    question = Question(text, earlier=earlier)
    return (ContractMoved(contract.id, "suspend", question=question, deed="none", actor="journal", at=at),)


def _note_repetition(contract: Contract, held: Claim, at: float) -> Signalled:
    """That a second deed was allowed beforehand, for the trace."""
    said = {"rule": "on_repeat: allow", "decision": "allow", "repeats": f"{held.contract_id} of run {held.run_id}"}
    return Signalled(RULED, {"contract_id": contract.id, "policy": said}, "journal", at)


def _refusal(contract: Contract, held: Claim, fate: Fate, at: float, advice: str) -> ContractMoved:
    holder = {"run_id": held.run_id, "contract_id": held.contract_id}
    if held.call_hash != contract.call_hash and held.call_hash:
        problem = f"the key {contract.key} was used for another call by {held.run_id}"
        error = Failure("validation_error", problem, {"holder": holder})
    elif fate.status == DONE:
        problem = f"already done by {held.contract_id} of run {held.run_id}" + (f". {advice}" if advice else "")
        error = Failure("already_done", problem, {"holder": holder})
    else:
        what = "open" if fate.status == OPEN else "in doubt"
        problem = f"the same deed is {what} in {held.contract_id} of run {held.run_id}"
        error = Failure("key_held", problem, {"holder": holder})
    if contract.status is Status.WAITING:
        answer = {"approved": False, "by": "journal", "comment": error.message, "result": fate.result}
        return ContractMoved(contract.id, "resume", result=answer, error=error, actor="journal", at=at)
    return ContractMoved(contract.id, "reject", result=fate.result, error=error, actor="journal", at=at)
