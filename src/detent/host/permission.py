"""Who may answer a question, told before anybody tries: the same rules as at the answer, because they are asked.

The role is the host's own rule (`people.check_role`). The rest is the engine's, which is a function: the answer is
given to a copy of the run, and whether it is refused for who gives it is all that is looked at.
"""

from typing import Any

from msgspec.structs import replace

from detent.core.answer import answers_beside
from detent.core.contract import Contract
from detent.core.engine import advance
from detent.core.events import ContractMoved
from detent.core.identity import Identity
from detent.core.machine import Machine
from detent.core.people import People
from detent.core.question import Question
from detent.core.run import Run
from detent.errors import DetentError, NotPermitted
from detent.host.people import check_role, find_approvers
from detent.host.reading import HeardAnswer, May, Needed, OpenQuestion

NAMES_MAX = 20  # people who are looked at for one question


def add_permission(
    shown: OpenQuestion, machine: Machine, run: Run, who: Identity, people: People | None
) -> OpenQuestion:
    """A question with whether this person may answer it, who has, and who still must."""
    contract = run.contract(shown.contract_id)
    if contract is None or contract.question is None:
        return shown
    asked = contract.question
    approvers = asked.approvers if people is None else find_approvers(asked, people)
    now = _with_approvers(run, contract, approvers)
    why = find_obstacle(machine, now, contract.id, who, people)
    heard = answers_beside(contract, who.known_by)
    return replace(
        shown,
        approvers=list(approvers),
        may=May(not why, why, _find_spoken_for(machine, now, contract.id, who, people)),
        needed=Needed(max(1, asked.quorum - len(heard)), _find_answerers(machine, now, contract.id, approvers, people)),
        answered=[HeardAnswer(one.by, one.spoken_by, one.known_by) for one in heard],
    )


def find_obstacle(machine: Machine, run: Run, contract_id: str, who: Identity, people: People | None) -> str:
    """Why this person's answer would be refused for who they are; nothing when it would be taken."""
    contract = run.contract(contract_id)
    is_doubt = contract is not None and contract.question is not None and contract.question.reason == "outcome_unknown"
    said: dict[str, Any] = {"outcome": "give_up"} if is_doubt else {"approved": True}
    said |= {"by": who.name, "known_by": who.known_by, "spoken_by": who.spoken_by}
    try:
        if people is not None:
            check_role(people, "settle" if is_doubt else "answer", who)
        advance(machine, run, ContractMoved(contract_id, "resume", result=said, actor="human", at=run.at))
    except NotPermitted as error:
        return str(error)
    except DetentError:
        return ""  # not for who they are: the run is held, or the question wants more than a yes
    return ""


def _find_answerers(
    machine: Machine, run: Run, contract_id: str, approvers: tuple[str, ...], people: People | None
) -> list[str]:
    """Who could answer now, as far as their names are known."""
    names = approvers or (() if people is None else tuple(people.by_name))
    known = "claimed" if people is None else "session"
    return [
        name
        for name in names[:NAMES_MAX]
        if not find_obstacle(machine, run, contract_id, Identity(name, known), people)  # type: ignore[arg-type]
    ]


def _find_spoken_for(machine: Machine, run: Run, contract_id: str, who: Identity, people: People | None) -> list[str]:
    """Those for whom this person could answer now."""
    person = None if people is None or who.spoken_by else people.by_name.get(who.name)
    return [
        name
        for name in (person.speaks_for if person is not None else ())[:NAMES_MAX]
        if not find_obstacle(machine, run, contract_id, Identity(name, who.known, who.name), people)
    ]


def _with_approvers(run: Run, contract: Contract, approvers: tuple[str, ...]) -> Run:
    """The run with the people in the place of the groups, as the answer would find it."""
    asked = contract.question or Question()
    if approvers == asked.approvers:
        return run
    changed = replace(contract, question=replace(asked, approvers=approvers))
    return replace(run, contracts=tuple(changed if one.id == contract.id else one for one in run.contracts))
