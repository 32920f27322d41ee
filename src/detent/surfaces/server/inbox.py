"""The inbox: everything that waits for a person, oldest first, with what follows from yes and from no."""

from typing import Any

import msgspec

from detent.core.answer import arguments_schema
from detent.core.commands import Perform
from detent.core.contract import Contract
from detent.core.engine import advance
from detent.core.events import ContractMoved
from detent.core.identity import Identity
from detent.core.machine import Machine, Transition
from detent.core.people import People
from detent.core.question import Question
from detent.core.run import Run
from detent.errors import DetentError
from detent.host.permission import add_permission
from detent.host.port import Reader
from detent.host.reading import Calling, OpenQuestion
from detent.host.standing import Standing, question_of
from detent.kit.http.asked import Asked, Count
from detent.kit.http.route import HttpCall, Route
from detent.surfaces.server.requester import viewer_of
from detent.surfaces.server.server_context import HttpServer

RUNS_MAX = 2000  # runs looked at for one inbox


class Way(msgspec.Struct, frozen=True, omit_defaults=True):
    """A state the run goes to, one after the other; with `when`, only one of several it may go to."""

    target: str
    when: str = ""


class Follow(msgspec.Struct, frozen=True):
    """What an answer leads to, as far as the machine can say."""

    does: list[Calling]  # the calls that are then made
    ways: list[Way]
    is_certain: bool  # whether this is exactly what happens, or only what may
    ends: str  # the status the run ends with at once; empty: it goes on


class Item(msgspec.Struct, frozen=True):
    """A question with everything needed to decide."""

    run_id: str
    machine: str
    title: str
    state: str
    question: OpenQuestion
    asked_by: str  # who started the run
    parent: str
    source: str
    kind: str  # of the effect: pure, idempotent or irreversible
    attempt: int
    rule: str  # of the policy that wants to be asked; empty: the definition does
    args_schema: dict[str, Any]  # what edited arguments must fit
    on_yes: Follow
    on_no: Follow


class Inbox(msgspec.Struct, frozen=True):
    """Open questions, oldest first; `cursor` is where `/api/events` goes on from."""

    items: list[Item]
    total: int
    cursor: int


class InboxQuery(Asked, frozen=True):
    """How many."""

    limit: Count = 100


async def inbox(room: HttpServer, call: HttpCall) -> Inbox:
    """Everything that waits for a person."""
    who, people = viewer_of(room, call.request)
    return await room.ask(_inbox, room.reader, call.query.limit, who, people)


def _inbox(reader: Reader, limit: int, who: Identity, people: People | None) -> Inbox:
    cursor = reader.cursor()
    asked = [
        (question.since, summary.run_id, question.contract_id)
        for summary in reader.waiting(RUNS_MAX)
        for question in summary.waiting
    ]
    asked.sort()
    items = []
    runs: dict[str, Standing] = {}
    for _, run_id, contract_id in asked[:limit]:
        try:
            now = runs[run_id] if run_id in runs else runs.setdefault(run_id, reader.standing(run_id))
        except DetentError:
            continue  # a damaged run must not hide the questions of the others
        contract = now.run.contract(contract_id)
        if contract is not None and contract.is_asking:  # else somebody was quicker than this page
            items.append(item(now, contract, who, people))
    return Inbox(items, len(asked), cursor)


def item(now: Standing, contract: Contract, who: Identity, people: People | None) -> Item:
    """One question as a person must see it."""
    machine, run = now.machine, now.run
    shown = question_of(contract, has_people=now.has_people)
    return Item(
        run_id=run.id,
        machine=machine.name,
        title=machine.title,
        state=run.state,
        question=add_permission(shown, machine, run, who, people),
        asked_by=run.by,
        parent=run.parent,
        source=run.source,
        kind=contract.kind,
        attempt=contract.attempt,
        rule=contract.rule,
        args_schema=arguments_schema(contract),
        on_yes=_yes(machine, run, contract),
        on_no=_no(machine, run, contract),
    )


def _yes(machine: Machine, run: Run, contract: Contract) -> Follow:
    """The call itself and the states it may lead to; where yes is all that is asked for, exactly what follows."""
    asked = contract.question or Question()
    if contract.effect == "ask" and asked.reason == "approval":
        return _try_answer(machine, run, contract, {"approved": True})
    does = [] if contract.effect == "ask" else [Calling(contract.effect, contract.input)]
    rows = [row for row in _rows(machine, run.state) if not (row.on or row.error or row.only_failed)]
    ways = dict.fromkeys((row.target, row.when) for row in rows)
    return Follow(does, [Way(target, when) for target, when in ways], False, "")


def _no(machine: Machine, run: Run, contract: Contract) -> Follow:
    is_doubt = contract.question is not None and contract.question.reason == "outcome_unknown"
    return _try_answer(machine, run, contract, {"outcome": "give_up"} if is_doubt else {"approved": False})


def _try_answer(machine: Machine, run: Run, contract: Contract, said: dict[str, Any]) -> Follow:
    """What an answer leads to, found out by giving it to a copy: the engine is a function and touches nothing."""
    asked = contract.question or Question()
    by = asked.approvers[0] if asked.approvers else "somebody else"
    event = ContractMoved(contract.id, "resume", result={**said, "by": by}, actor="human", at=run.at)
    try:
        after, commands, taken = advance(machine, run, event)
    except DetentError:
        return Follow([], [], False, "")  # the run is held, or the asker wants to hear more than yes or no
    begun = [after.contract(command.contract_id) for command in commands if isinstance(command, Perform)]
    does = [Calling(one.effect, one.input) for one in begun if one is not None]
    ways = [Way(fact.target) for fact in taken if fact.kind == "transition"]
    is_certain = after.contract(contract.id) is None  # else others must say yes too
    return Follow(does, ways, is_certain, after.ended.value if after.ended else "")


def _rows(machine: Machine, state: str) -> list[Transition]:
    found = [row for row in machine.transitions if row.source == state]
    return sorted(found, key=lambda row: -row.priority) + [row for row in machine.transitions if row.source == "*"]


ROUTES = (
    Route("GET", "/api/inbox", inbox, "Everything that waits for a person, oldest first", Inbox, query=InboxQuery,
          tag="inbox"),
)  # fmt: skip
