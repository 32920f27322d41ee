"""Questions and their answers: who may say what to a waiting contract, and what follows.

An answer that does not fit raises `Refused` and leaves the question open.
"""

from typing import Any

import msgspec
from msgspec.structs import replace

from detent.core import contract_lifecycle
from detent.core.branch import in_doubt
from detent.core.contract import ASKED, Contract, Deed, Failure
from detent.core.events import ContractMoved, Signalled
from detent.core.identity import voices
from detent.core.question import Answer, Question
from detent.core.schema import problems
from detent.core.signed_answer import shown_hash, unsigned_problem
from detent.core.status import Status
from detent.core.value import digest
from detent.core.working_copy import WorkingCopy
from detent.errors import NotPermitted, NotWaiting, Refused


def suspend(draft: WorkingCopy, contract: Contract, event: ContractMoved, actor: str) -> None:
    """RUNNING → WAITING: the effect, the policy or a doubt asks first."""
    question = event.question or Question()
    if contract.is_signed and question.reason in ASKED:
        question = replace(question, require_signature=True)
    # A doubt does not expire: closing it unanswered would forget that the deed may have been done.
    expires_at = 0.0 if question.reason == "outcome_unknown" else contract_lifecycle.expiry(draft, question)
    is_policy = actor == POLICY
    if is_policy:
        say_rule(draft, contract, question.data.get(POLICY))
    draft.move(
        contract,
        "suspend",
        actor,
        question=question,
        rule=_rule(question) if is_policy else contract.rule,
        effect_state=DEEDS.get(event.deed, contract.effect_state),
        call_hash=contract.call_hash or digest([contract.effect, contract.input]),
        expires_at=expires_at,
        answered=len(contract.answers),
    )


def resume(draft: WorkingCopy, contract: Contract, event: ContractMoved, actor: str) -> None:
    """An answer to a waiting contract."""
    question = contract.question or Question()
    if question.reason == "callback":
        _take_callback(draft, contract, event, actor)
        return
    if question.reason in ("event", "timer"):
        awaited = "a signal" if question.reason == "event" else "a time"
        raise NotWaiting(f"`{contract.id}` waits for {awaited}, not for an answer")
    said = answer_of(event.result)
    is_policy, actor = actor == POLICY, said.by or actor
    is_void = (
        said.approved is False and event.error is not None
    )  # the host's own no: the key is taken, or a rule denies
    if is_policy:
        _check_rule(contract, question, is_void)
        say_rule(draft, contract, said.data)
        question = replace(question, quorum=1)  # a rule's yes stands for everybody's
    elif not is_void and event.actor != JOURNAL:
        _check_speaker(draft, contract, question, said)
        if event.actor != EVIDENCE and (problem := unsigned_problem(draft.run.id, contract, said)):
            raise Refused(problem)
    if question.reason == "outcome_unknown" and not is_void:
        _settle(draft, contract, said, event, actor)
    elif said.outcome == "use":
        _use_earlier(draft, contract, question, said, actor)
    elif said.approved is False and question.hears_no and not is_void and not contract.is_adrift:
        _keep(draft, contract, said)
        contract_lifecycle.perform(
            draft, contract, "resume", actor, answers=(*contract.answers, said), asked=question.data
        )
    elif said.approved is False:
        _reject(draft, contract, said, event, actor)
    else:
        _check_consent(draft, contract, question, said)
        _agree(draft, contract, question, said, actor)


def take_ruling(draft: WorkingCopy, event: Signalled) -> None:
    """What a rule of the policy said about a contract: it goes on as it is, or others may answer its question."""
    contract = draft.contracts.get(str(event.data.get("contract_id")))
    if contract is None:
        raise NotWaiting(f"contract `{event.data.get('contract_id')}` of run {draft.run.id} is not open")
    try:
        question = msgspec.convert(event.data.get("question"), Question | None)
    except msgspec.ValidationError as error:
        raise Refused(f"the question does not fit: {error}") from None
    say_rule(draft, contract, event.data.get(POLICY))
    if question is None:
        return
    if contract.status is not Status.WAITING or contract.question is None or contract.question.reason not in ASKED:
        raise NotWaiting(f"contract `{contract.id}` asks nothing")
    draft.contracts[contract.id] = replace(
        contract, question=question, rule=_rule(question), expires_at=contract_lifecycle.expiry(draft, question)
    )


def _rule(question: Question) -> str:
    said = question.data.get(POLICY)
    return str(said.get("rule", "")) if isinstance(said, dict) else ""


def _check_rule(contract: Contract, question: Question, is_void: bool) -> None:
    """A rule can say yes only where a plain yes is wanted, and nothing at all to a doubt: only who looks knows."""
    if not is_void and question.require_signature:
        raise Refused(f"no rule can answer `{contract.id}`: the answer must be signed")
    if question.reason == "outcome_unknown" or (question.reason != "approval" and not is_void):
        raise Refused(f"no rule can answer `{contract.id}`: it asks for more than a yes")


def misfit(contract: Contract, said: Answer) -> str:
    """Why an answer does not fit what a contract asks; nothing when it does.

    Hosts ask this before an answer becomes an event. A fold never does: what was taken once must be taken again.
    """
    question = contract.question
    if question is None or not contract.is_asking:
        return ""  # the fold says what it waits for instead
    if said.outcome or question.reason == "outcome_unknown":
        return _misfit_outcome(contract.id, question, said.outcome)
    if question.reason == "form" and said.approved and said.data is None and problems(question.schema, None):
        return f"`{contract.id}` asks for a form to be filled in; say `data`, or `approved: false`"
    if question.reason == "approval" and said.approved is None:
        return f"`{contract.id}` asks for yes or no; say `approved: true` or `approved: false`"
    if said.args is not None:
        return "; ".join(problems(arguments_schema(contract), said.args, "args"))
    return ""


def _misfit_outcome(contract_id: str, question: Question, outcome: str) -> str:
    is_doubt, is_use = question.reason == "outcome_unknown", outcome == "use"
    if is_doubt and (not outcome or is_use):
        return f"nobody knows whether `{contract_id}` has happened; say `outcome`: happened, not_happened or give_up"
    if is_use and not question.earlier:
        return f"`{contract_id}` was not done before: there is no result to use; say `approved` or `data`"
    if is_doubt or is_use:
        return ""
    ways = "`approved`, or `outcome: use`" if question.earlier else "`approved` or `data`"
    return f"there is no doubt about `{contract_id}`: it has not been done yet; say {ways}"


def arguments_schema(contract: Contract) -> dict[str, Any]:
    """What edited arguments must fit: the asker's own schema, else the types the present ones have."""
    asked = contract.question
    if asked is not None and asked.schema:
        return asked.schema
    named = {key: TYPES.get(type(value)) for key, value in contract.input.items()}
    return {"type": "object", "properties": {key: {"type": kind} for key, kind in named.items() if kind}}


def say_rule(draft: WorkingCopy, contract: Contract, said: Any) -> None:
    """Note which rule decided what, for the trace."""
    if isinstance(said, dict) and said.get("rule"):
        draft.say("policy", event=str(said.get("decision", "")), subject=contract.id, value=said["rule"], values=said)


def answer_of(result: Any) -> Answer:
    """What somebody said, if it can be an answer at all."""
    try:
        return msgspec.convert(result if result is not None else {}, Answer)
    except msgspec.ValidationError as error:
        raise Refused(f"the answer does not fit: {error}") from None


def _is_agent(draft: WorkingCopy, name: str) -> bool:
    return name in AGENTS or name.startswith("agent:") or name in (draft.run.id, f"run:{draft.run.id}")


def _check_speaker(draft: WorkingCopy, contract: Contract, question: Question, said: Answer) -> None:
    if _is_agent(draft, said.by):
        raise Refused(f"`{said.by}` is an agent, and an agent may not answer what it asks itself")
    if said.call_hash and said.call_hash != contract.call_hash:
        now = contract.call_hash[:12]
        raise Refused(f"the answer was given to another call; `{contract.id}` now waits with hash {now}")
    if said.shown and said.shown != shown_hash(draft.run.id, contract):
        raise Refused(f"the answer was given to another question than the one `{contract.id}` asks now; look again")
    if question.approvers and said.by not in question.approvers:
        raise NotPermitted(f"`{said.by or 'nobody'}` may not answer; approvers: {', '.join(question.approvers)}")
    if (question.separate or question.quorum > 1) and not said.by:
        raise Refused("say who you are (`by`): this question is not for just anybody")
    if question.separate and (own := _voices(said) & voices(draft.get("by"), draft.get("spoken_by"))):
        raise NotPermitted(f"`{min(own)}` started this run and may not also answer it")


def _voices(said: Answer) -> frozenset[str]:
    """Everybody who is heard in an answer: neither whoever speaks nor whoever it counts for is heard twice."""
    return voices(said.by, said.spoken_by)


def answers_beside(contract: Contract, known_by: str) -> tuple[Answer, ...]:
    """The answers to this question that count beside a new one: beside a name that is vouched for, only such."""
    given = contract.answers[contract.answered :]
    vouched = tuple(one for one in given if one.known_by)
    if known_by or not vouched:
        return vouched if known_by else given
    heard = frozenset[str]().union(*map(_voices, vouched))  # whoever claimed a name first and proved it later is one
    return (*vouched, *(one for one in given if not one.known_by and not heard & _voices(one)))


def _check_consent(draft: WorkingCopy, contract: Contract, question: Question, said: Answer) -> None:
    heard = frozenset[str]().union(*map(_voices, answers_beside(contract, said.known_by))) & _voices(said)
    if question.quorum > 1 and heard:
        raise NotPermitted(f"`{min(heard)}` has already approved; {question.quorum} different people are needed")
    if question.reason == "form":
        found = problems(question.schema, said.data)
        if found:
            raise Refused("; ".join(found))
    elif said.approved is not True:
        raise Refused("say `approved: true` or `approved: false`")
    if contract.is_adrift:
        raise Refused(f"the run has moved on from `{contract.id}`; only `approved: false` is left to say")
    if draft.held and contract.effect != "ask":
        raise Refused("the run is held and begins nothing new; release it first")


def _agree(draft: WorkingCopy, contract: Contract, question: Question, said: Answer, actor: str) -> None:
    is_edited = contract.effect != "ask" and said.args is not None and said.args != contract.input
    if is_edited:
        _supersede(draft, contract, question, said, actor)
        return
    answers = (*contract.answers, said)
    agreed = (*answers_beside(contract, said.known_by), said)
    if len(agreed) < question.quorum:
        draft.contracts[contract.id] = replace(contract, answers=answers)
        draft.say("note", subject=contract.id, value=f"{said.by}: yes ({len(agreed)} of {question.quorum})")
        return
    for one in agreed:
        _keep(draft, contract, one)
    if contract.effect == "ask":
        running = draft.move(contract, "resume", actor, answers=answers)
        result = {"approved": True, "by": said.by, "comment": said.comment, "data": said.data}
        contract_lifecycle.finish(draft, draft.move(running, "succeed", actor, result=result, effect_state="done"))
    else:
        judges = question.approvers or contract.judges
        again = _name_earlier(question.earlier) or contract.again
        contract_lifecycle.perform(draft, contract, "resume", actor, answers=answers, approved=contract.call_hash,
                        asked=question.data, judges=judges, separate=question.separate, again=again,
                        is_signed=contract.is_signed or question.require_signature)  # fmt: skip


def _name_earlier(earlier: dict[str, Any]) -> str:
    """The earlier deed as a contract names the one it repeats."""
    return f"{earlier.get('run_id', '')} {earlier.get('contract_id', '')}" if earlier else ""


def take_repetition(draft: WorkingCopy, event: Signalled) -> None:
    """The same deed was done, or may have been: whoever answers the open question must know."""
    contract = draft.contracts.get(str(event.data.get("contract_id")))
    if contract is None or not contract.is_asking or contract.question is None:
        raise NotWaiting(f"contract `{event.data.get('contract_id')}` of run {draft.run.id} asks nothing")
    earlier = event.data.get("earlier")
    text = "\n".join(part for part in (contract.question.text, str(event.data.get("text", ""))) if part)
    question = replace(contract.question, text=text, earlier=earlier if isinstance(earlier, dict) else {})
    draft.contracts[contract.id] = replace(contract, question=question)


def _use_earlier(draft: WorkingCopy, contract: Contract, question: Question, said: Answer, actor: str) -> None:
    """The result of the earlier deed stands for a second one, which is not done."""
    if not question.earlier:
        raise Refused(
            f"`{contract.id}` was not done before: there is no result to use; say `approved: true` or `false`"
        )
    if contract.is_adrift:
        raise Refused(f"the run has moved on from `{contract.id}`; only `approved: false` is left to say")
    _keep(draft, contract, said)
    running = draft.move(contract, "resume", actor, answers=(*contract.answers, said))
    result = question.earlier.get("result") if said.result is None else said.result
    contract_lifecycle.finish(draft, draft.move(running, "succeed", actor, result=result))


def _supersede(draft: WorkingCopy, contract: Contract, question: Question, said: Answer, actor: str) -> None:
    """Edited arguments make a new contract, approved by the editor alone; the old one is rejected."""
    work = draft.work(contract)
    running = draft.move(contract, "resume", actor, answers=(*contract.answers, said))
    draft.move(running, "reject", actor, error=Failure("approval_rejected", "superseded"))
    args = said.args or {}
    new_id = draft.number(contract.id.rpartition("/")[0], contract.lane)
    key, kind = contract.key, contract_lifecycle.kind_of(draft, work, contract, args)
    if kind == "irreversible" and work.key is None:
        key = contract_lifecycle.deed_key(draft, new_id, contract.effect, args, contract.repeat)
    call_hash = digest([contract.effect, args])
    is_enough = question.quorum <= 1
    if is_enough:
        _keep(draft, contract, said)
    new = replace(
        contract,
        id=new_id,
        status=Status.PENDING,
        kind=kind,
        input=args,
        key=key,
        call_hash=call_hash,
        is_signed=contract.is_signed or question.require_signature,
        approved=call_hash if is_enough else "",
        answers=(said,),
        answered=0,
        supersedes=contract.id,
        created_at=draft.at,
        expires_at=0.0,
    )
    draft.contracts[new_id] = new
    contract_lifecycle.start(draft, new, work)


def _reject(draft: WorkingCopy, contract: Contract, said: Answer, event: ContractMoved, actor: str) -> None:
    _keep(draft, contract, said)
    running = draft.move(contract, "resume", actor, answers=(*contract.answers, said))
    who = f"{said.by or 'somebody'} said no" + (f": {said.comment}" if said.comment else "")
    error = event.error or Failure("approval_rejected", who)
    contract_lifecycle.finish(draft, draft.move(running, "reject", actor, error=error, result=said.result))


def _settle(draft: WorkingCopy, contract: Contract, said: Answer, event: ContractMoved, actor: str) -> None:
    """Somebody found out what nobody knew; beside what people had said about the deed only that it happened is kept."""
    if said.outcome == "not_happened" and event.actor != EVIDENCE:
        _check_landed(draft, contract)
    _patch(draft, contract, said)
    if said.outcome == "happened":
        known = draft.get("answers").get(contract.action) or {"call_hash": contract.call_hash}
        draft.put("answers", contract.action, {**known, "outcome": said.outcome})
        running = draft.move(contract, "resume", actor)
        contract_lifecycle.succeed(draft, running, replace(event, result=said.result), actor)
    elif said.outcome == "not_happened" and contract.is_adrift:
        draft.move(contract, "cancel", actor, error=Failure("cancelled", "it did not happen"), effect_state="none")
    elif said.outcome == "not_happened" and event.error is not None:  # the probe, or late evidence: it failed
        running = draft.move(contract, "resume", actor, effect_state="none")
        contract_lifecycle.finish(draft, draft.move(running, "fail", actor, error=event.error, result=event.result))
    elif said.outcome == "not_happened":
        contract_lifecycle.perform(draft, contract, "resume", actor, effect_state="none")
    elif said.outcome == "give_up":
        if contract.effect_state == "possible" and draft.get("rules") >= 4:
            who = said.by or "somebody"
            draft.raise_alarm(
                f"`{contract.id}` may have happened: {who} gave up on it, and it was neither finished nor taken back"
            )
        unknown = f"{said.by or 'somebody'} gave up: it may or may not have happened"
        error = event.error or Failure("tool_failure.unknown_outcome", unknown)
        contract_lifecycle.finish(draft, draft.move(contract, "cancel", actor, error=error))
    else:
        raise Refused("say `outcome`: happened (with `result`), not_happened (run it) or give_up")


def _check_landed(draft: WorkingCopy, contract: Contract) -> None:
    """As long as a request may still be under way, nobody can know that it did not happen."""
    until = contract.question.data.get("lands_until") if contract.question is not None else None
    if isinstance(until, int | float) and draft.at < until:
        left = until - draft.at
        raise Refused(f"the call of `{contract.id}` may still land for {left:.0f} s; look again then")


def _take_callback(draft: WorkingCopy, contract: Contract, event: ContractMoved, actor: str) -> None:
    if event.actor == CALLER:  # the program that makes the call is there now; what people said to it still holds
        contract_lifecycle.perform(draft, contract, "resume", actor, effect_state="none")
        return
    running = draft.move(contract, "resume", actor)
    if event.error is not None:
        contract_lifecycle.finish(draft, draft.move(running, "fail", actor, error=event.error, result=event.result))
    else:
        contract_lifecycle.succeed(draft, running, event, actor)


def expire(draft: WorkingCopy, contract: Contract) -> None:
    """Nobody answered, or the time of a sleep is over."""
    reason = contract.question.reason if contract.question else "approval"
    if reason == "timer":
        contract_lifecycle.wake(draft, contract)
    elif reason != "outcome_unknown" and contract.is_irreversible and contract.effect_state == "possible":
        if contract.question is not None and contract.question.hears_no:
            draft.aborted.append(contract.id)
        in_doubt(draft, contract, "timer")
    else:
        error = Failure(EXPIRED.get(reason, "timeout"), f"`{contract.action}` waited until its time was over")
        if contract.question is not None and contract.question.earlier:
            error = Failure("already_done", error.message, {"holder": _holder(contract.question.earlier)})
        if contract.question is not None and contract.question.hears_no:
            draft.aborted.append(contract.id)
        contract_lifecycle.finish(draft, draft.move(contract, "timeout", "timer", error=error))


def _holder(earlier: dict[str, Any]) -> dict[str, Any]:
    return {name: earlier.get(name, "") for name in ("run_id", "contract_id")}


POLICY = "policy"  # who moves a contract when a rule decides, and where questions and answers keep what it said
EVIDENCE = "evidence"  # who speaks when a call that was given up answers late
CALLER = "caller"  # who moves a contract that waited for the program which brings its function
JOURNAL = "journal"  # who answers when the action says beforehand that an earlier result will do
AGENTS = ("agent", "reasoning")  # who wants things done and so may never approve them; `agent:NAME` as well
DEEDS: dict[str, Deed] = {"none": "none", "possible": "possible", "done": "done"}
TYPES = {bool: "boolean", int: "number", float: "number", str: "string", list: "array", dict: "object"}
EXPIRED = {
    "event": "timeout.event",
    "approval": "timeout.approval",
    "form": "timeout.approval",
    "outcome_unknown": "tool_failure.unknown_outcome",
    "callback": "timeout.action",
}


def _keep(draft: WorkingCopy, contract: Contract, said: Answer) -> None:
    draft.put("answers", contract.action, msgspec.to_builtins(replace(said, shown="", signature=None)))
    _patch(draft, contract, said)


def _patch(draft: WorkingCopy, contract: Contract, said: Answer) -> None:
    if not contract.is_adrift:
        for name, value in said.patch.items():
            draft.write(contract.lane, name, value)


def awaits_caller(contract: Contract) -> bool:
    """Whether a call is approved and waits for the program that makes it."""
    asked = contract.question if contract.status is Status.WAITING else None
    return asked is not None and asked.reason == "callback" and CALLER in asked.data
