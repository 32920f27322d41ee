"""Questions and their answers: who may say what to a waiting contract, and what follows.

An answer that does not fit raises `Refused` and leaves the question open.
"""

from typing import Any

import msgspec
from msgspec.structs import replace

from detent.core import lane
from detent.core.contract import Contract, Failure
from detent.core.draft import Draft
from detent.core.events import ContractMoved
from detent.core.question import Answer, Question
from detent.core.schema import problems
from detent.core.value import digest
from detent.errors import NotWaiting, Refused


def suspended(draft: Draft, contract: Contract, event: ContractMoved, actor: str) -> None:
    """RUNNING → WAITING: the effect, the policy or a doubt asks first."""
    question = event.question or Question()
    expires = draft.at + question.expires_s if question.expires_s else 0.0
    deed = event.deed or contract.deed
    draft.move(contract, "suspend", actor, question=question, deed=deed, expires_at=expires)


def resumed(draft: Draft, contract: Contract, event: ContractMoved, actor: str) -> None:
    """An answer to a waiting contract."""
    question = contract.question or Question()
    if question.reason == "callback":
        _called_back(draft, contract, event, actor)
        return
    if question.reason in ("event", "timer"):
        raise NotWaiting(f"`{contract.id}` waits for {'a signal' if question.reason == 'event' else 'a time'}, not for an answer")
    said = _answer(event.result)
    if event.error is None:
        _check_speaker(draft, contract, question, said)
    if question.reason == "outcome_unknown":
        _settled(draft, contract, said, actor)
    elif said.approved is False:
        _rejected(draft, contract, said, event, actor)
    elif question.reason == "form":
        _filled(draft, contract, question, said, actor)
    elif said.approved is not True:
        raise Refused("say `approved: true` or `approved: false`")
    else:
        _approved(draft, contract, question, said, actor)


def _answer(result: Any) -> Answer:
    try:
        return msgspec.convert(result if result is not None else {}, Answer)
    except msgspec.ValidationError as error:
        raise Refused(f"the answer does not fit: {error}") from None


def _check_speaker(draft: Draft, contract: Contract, question: Question, said: Answer) -> None:
    if said.call_hash and said.call_hash != contract.call_hash:
        raise Refused(f"the answer was given to another call; `{contract.id}` now waits with hash {contract.call_hash[:12]}")
    if question.approvers and said.by not in question.approvers:
        raise Refused(f"`{said.by or 'nobody'}` may not answer; approvers: {', '.join(question.approvers)}")
    if question.separate and said.by == draft.get("by"):
        raise Refused(f"`{said.by}` started this run and may not also answer it")
    if said.approved and any(earlier.by == said.by for earlier in contract.answers):
        raise Refused(f"`{said.by}` has already approved; {question.quorum} different people are needed")


def _approved(draft: Draft, contract: Contract, question: Question, said: Answer, actor: str) -> None:
    answers = (*contract.answers, said)
    if said.args is None and len(answers) < question.quorum:
        draft.contracts[contract.id] = replace(contract, answers=answers)
        draft.say("note", subject=contract.id, value=f"{said.by}: yes ({len(answers)} of {question.quorum})")
        return
    _keep(draft, contract, said)
    running = draft.move(contract, "resume", said.by or actor, answers=answers, approved=contract.call_hash, expires_at=0.0)
    if said.args is not None and said.args != contract.input:
        _superseded(draft, running, said)
    elif contract.effect == "ask":
        result = {"approved": True, "by": said.by, "comment": said.comment, "data": said.data}
        lane.finished(draft, draft.move(running, "succeed", said.by or actor, result=result, deed="done"))
    else:
        lane.perform(draft, running)


def _superseded(draft: Draft, contract: Contract, said: Answer) -> None:
    """Edited arguments make a new contract, already approved for them; the old one is rejected."""
    draft.move(contract, "reject", said.by, error=Failure("approval_rejected", "superseded"))
    name, _, count = contract.id.rpartition("/")
    draft.put("counts", name, int(count) + 1)
    args = said.args or {}
    call_hash = digest([contract.effect, args])
    key = contract.key
    if contract.is_irreversible and key.startswith(f"{contract.effect}:"):
        key = f"{contract.effect}:{digest(args)}"
    new = replace(contract, id=f"{name}/{int(count) + 1}", input=args, call_hash=call_hash, approved=call_hash, key=key,
                  supersedes=contract.id, created_at=draft.at, status=contract.status.PENDING, deed="none")  # fmt: skip
    draft.contracts[new.id] = new
    lane.perform(draft, draft.move(new, "start", said.by))


def _rejected(draft: Draft, contract: Contract, said: Answer, event: ContractMoved, actor: str) -> None:
    _keep(draft, contract, said)
    running = draft.move(contract, "resume", said.by or actor, answers=(*contract.answers, said), expires_at=0.0)
    who = f"{said.by or 'somebody'} said no" + (f": {said.comment}" if said.comment else "")
    error = event.error or Failure("approval_rejected", who)
    lane.finished(draft, draft.move(running, "reject", said.by or actor, error=error, result=said.result))


def _filled(draft: Draft, contract: Contract, question: Question, said: Answer, actor: str) -> None:
    found = problems(question.schema, said.data)
    if found:
        raise Refused("; ".join(found))
    _keep(draft, contract, said)
    running = draft.move(contract, "resume", said.by or actor, answers=(*contract.answers, said), expires_at=0.0)
    if contract.effect == "ask":
        result = {"approved": True, "by": said.by, "comment": said.comment, "data": said.data}
        lane.finished(draft, draft.move(running, "succeed", said.by or actor, result=result, deed="done"))
    else:
        lane.perform(draft, running)


def _settled(draft: Draft, contract: Contract, said: Answer, actor: str) -> None:
    """Somebody found out what nobody knew."""
    if said.outcome == "happened":
        running = draft.move(contract, "resume", said.by or actor, answers=(*contract.answers, said))
        lane.finished(draft, draft.move(running, "succeed", said.by or actor, result=said.result, deed="done"))
    elif said.outcome == "not_happened" and contract.is_adrift:
        cancelled = Failure("cancelled", "it did not happen")
        draft.move(contract, "cancel", said.by or actor, error=cancelled, deed="none")
    elif said.outcome == "not_happened":
        running = draft.move(contract, "resume", said.by or actor, answers=(*contract.answers, said), deed="none")
        lane.perform(draft, running)
    elif said.outcome == "give_up":
        error = Failure("tool_failure.unknown_outcome", f"{said.by or 'somebody'} gave up: it may or may not have happened")
        lane.finished(draft, draft.move(contract, "cancel", said.by or actor, error=error))
    else:
        raise Refused("say `outcome`: happened (with `result`), not_happened (run it) or give_up")


def _called_back(draft: Draft, contract: Contract, event: ContractMoved, actor: str) -> None:
    running = draft.move(contract, "resume", actor, expires_at=0.0)
    if event.error is not None:
        lane.finished(draft, draft.move(running, "fail", actor, error=event.error, result=event.result))
    else:
        for name, value in event.patch.items():
            draft.assign(contract.lane if contract.lane in draft.lanes else "", name, value)
        lane.finished(draft, draft.move(running, "succeed", actor, result=event.result, deed="done"))


def expired(draft: Draft, contract: Contract) -> None:
    """Nobody answered, or the time of a sleep is over."""
    reason = contract.question.reason if contract.question else "approval"
    if reason == "timer":
        running = draft.move(contract, "resume", "timer", expires_at=0.0)
        lane.finished(draft, draft.move(running, "succeed", "timer", result={"slept": True}, deed="done"))
        return
    kind = {"event": "timeout.event", "approval": "timeout.approval", "form": "timeout.approval"}.get(reason, "timeout")
    error = Failure(kind, f"`{contract.action}` waited until its time was over")
    lane.finished(draft, draft.move(contract, "timeout", "timer", error=error, expires_at=0.0))


def _keep(draft: Draft, contract: Contract, said: Answer) -> None:
    draft.put("answers", contract.action, msgspec.to_builtins(said))
    for name, value in said.patch.items():
        draft.assign(contract.lane if contract.lane in draft.lanes else "", name, value)
