"""Where a run stands: one value for every surface, made of the run and its machine alone."""

import msgspec

from detent.core.contract import Contract
from detent.core.machine import Machine
from detent.core.question import Question
from detent.core.retry import is_vain, obstacle
from detent.core.run import Run
from detent.core.status import Status
from detent.core.tolerance import ToleratedFailure, list_tolerated
from detent.host.reading import Calling, OpenQuestion

RESULT_MAX = 16_384  # bytes of what is known of a deed that are shown with a question
ASK_WITHIN_S = 10.0  # so long a doubt may hold back for a request in flight before it asks


class Can(msgspec.Struct, frozen=True):
    """What makes sense to do with the run now."""

    signal: list[str]
    answer: bool
    cancel: bool
    pause: bool
    resume: bool
    retry: bool
    fork_failed: list[str] = []  # loops of which a new run can do again what failed, though this one has completed


class Standing(msgspec.Struct, frozen=True):
    """A run with its machine, as it is now or as it was after one of its events."""

    run: Run
    machine: Machine
    checkpoint: str
    last: int  # how many events the run has now
    has_people: bool = False  # whether its home says who is who

    @property
    def is_past(self) -> bool:
        """Whether more has happened since."""
        return self.run.seq < self.last

    @property
    def accepts(self) -> tuple[str, ...]:
        """The signals that lead on from here."""
        return () if self.run.ended or self.run.ending else self.machine.accepts(self.run.state)

    @property
    def questions(self) -> list[OpenQuestion]:
        """What the run itself waits for a person to say; its children may ask more."""
        return [question_of(contract, has_people=self.has_people) for contract in self.run.waiting]

    @property
    def children(self) -> list[str]:
        """The runs this one waits for."""
        return children_of(self.run)

    @property
    def tolerated(self) -> list[ToleratedFailure]:
        """What failed in it though it has completed."""
        return list_tolerated(self.machine, self.run)

    @property
    def can(self) -> Can:
        """What can be done with it; nothing, with a moment that is past."""
        run = self.run
        is_open = run.ended is None and not self.is_past
        return Can(
            signal=[] if self.is_past else list(self.accepts),
            answer=bool(run.waiting) and not self.is_past,
            cancel=is_open,
            pause=is_open and not run.is_held,
            resume=is_open,
            retry=not (self.is_past or run.parent or obstacle(run) or is_vain(run)),
            fork_failed=[] if self.is_past or run.rules < 2 else [one.action for one in self.tolerated if one.is_loop],
        )


def children_of(run: Run) -> list[str]:
    """The runs a run waits for."""
    waiting = [c.question for c in run.contracts if c.status is Status.WAITING and c.question]
    return [str(asked.data["run_id"]) for asked in waiting if asked.reason == "callback" and "run_id" in asked.data]


def settle_time(run: Run, contract: Contract, now: float) -> float:
    """When nothing of a call can be in flight any more.

    Its caller gave up now at the latest; if it died long ago, then when the call's own time was over. Where the effect
    says nothing of how long a request may take to land, an action that allows it more time expects it to take longer.
    """
    given_up = min(now, contract.moved_at + contract.timeout_s) if contract.timeout_s else now
    declared = run.effects.get(contract.effect)
    is_own = declared is not None and declared.settle_s >= 0
    return given_up + (contract.settle_s if is_own else max(contract.settle_s, contract.timeout_s))


def question_of(contract: Contract, *, has_people: bool = True) -> OpenQuestion:
    """What a person must see to answer: the question and the exact call it is about."""
    asked = contract.question or Question()
    return OpenQuestion(
        contract_id=contract.id,
        action=contract.action,
        question=asked.text,
        reason=asked.reason,
        call=Calling(contract.effect, contract.input),
        call_hash=contract.call_hash,
        since=contract.moved_at,
        approvers=list(asked.approvers),
        quorum=asked.quorum,
        require_signature=asked.require_signature,
        approved_by=[answer.by for answer in contract.answers] if asked.quorum > 1 else [],
        claimed=not has_people
        and bool(asked.approvers or asked.quorum > 1 or asked.separate or asked.require_signature),
        schema=asked.schema,
        data=shorten(asked.data),
        earlier=shorten(asked.earlier),
        expires_at=contract.expires_at or None,
    )


def shorten(known: dict[str, object]) -> dict[str, object]:
    """What is known of a deed, without a result that is too long to be shown with a question."""
    if "result" not in known or len(msgspec.json.encode(known)) <= RESULT_MAX:
        return known
    return {**{name: value for name, value in known.items() if name != "result"}, "is_shortened": True}
