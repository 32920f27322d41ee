"""The inbox: everything that waits for a person, oldest first, with what follows from yes and from no."""

from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import Meta

from detent.core.answer import arguments_schema
from detent.core.commands import Perform
from detent.core.contract import Contract
from detent.core.engine import advance
from detent.core.events import ContractMoved
from detent.core.identity import Identity
from detent.core.machine import Machine, Transition
from detent.core.people import People
from detent.core.policy import Decision, Policy
from detent.core.question import Question
from detent.core.run import Run
from detent.core.signed_answer import shown_hash
from detent.errors import DetentError, Unknown
from detent.host.permission import add_permission
from detent.host.policy_check import OWN, call_of
from detent.host.port import Reader
from detent.host.reading import Calling, OpenQuestion
from detent.host.standing import Standing, question_of
from detent.kit.http.request_base import PAGE_MAX, Asked, Count
from detent.kit.http.route import HttpCall, Route
from detent.surfaces.server.control_routes import decision
from detent.surfaces.server.question_index import Age, DeskFilter, DeskPage, Group, QuestionDesk, is_batchable
from detent.surfaces.server.requester import viewer_of
from detent.surfaces.server.server_context import HttpServer
from detent.surfaces.server.shape import Name, Seq


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


class PolicySays(msgspec.Struct, frozen=True):
    """What the policy in force says to the call now; `deny`: a yes would not make it go through.

    `later`: it goes by facts that only the call has (program, paths, host), and decides when the call is made.
    `next`: the question is no call itself; the calls that follow a yes are decided about one by one, when each is made.
    """

    decision: Decision | Literal["later", "next"]
    rule: str
    message: str = ""


class Item(msgspec.Struct, frozen=True):
    """A question with everything needed to decide."""

    run_id: str
    machine: str
    title: str
    digest: str
    state: str
    question: OpenQuestion
    shown: str  # goes into the answer, which is then refused if anything of what is shown has changed
    asked_by: str  # who started the run
    parent: str
    source: str
    kind: str  # of the effect: pure, idempotent or irreversible
    attempt: int
    rule: str  # of the policy that wants to be asked; empty: the definition does
    policy: PolicySays | None
    similar: int  # open questions that can be approved together with this one; 0: it stands alone
    args_schema: dict[str, Any]  # what edited arguments must fit
    on_yes: Follow
    on_no: Follow


class Inbox(msgspec.Struct, frozen=True):
    """Open questions, oldest first; `cursor` is where `/api/events` goes on from."""

    items: list[Item]
    total: int
    cursor: int


class ItemView(msgspec.Struct, frozen=True, omit_defaults=True):
    """One question: as it is asked, or what was decided, when and by whom."""

    item: Item | None = None
    decided: dict[str, Any] = {}


class InboxQuery(Asked, frozen=True):
    """Which questions, and how many; `batch`: only those that many at once may be approved of."""

    limit: Count = 100
    digest: Name = ""
    action: Name = ""
    batch: bool = False


class LineQuery(Asked, frozen=True):
    """Which questions, of a list of which moment (0: now), from where on; `group` counts them as well."""

    machine: Name = ""
    effect: Name = ""
    by: Name = ""
    age: Age = ""
    text: Name = ""
    group: Group = ""
    at: Seq = 0
    offset: Seq = 0
    limit: Annotated[int, Meta(ge=0, le=PAGE_MAX)] = 100


class Viewer(NamedTuple):
    """For whom questions are shown, and by which policy."""

    who: Identity
    people: People | None
    policy: Policy | None


def _viewer(room: HttpServer, call: HttpCall) -> Viewer:
    return Viewer(*viewer_of(room, call.request), room.host.policy)


async def inbox(room: HttpServer, call: HttpCall) -> Inbox:
    """Everything that waits for a person."""
    asked: InboxQuery = call.query
    wanted = DeskFilter(digest=asked.digest, action=asked.action, is_batch=asked.batch)
    return await room.ask(_inbox, room.reader, room.desk, wanted, asked.limit, _viewer(room, call))


def _inbox(reader: Reader, desk: QuestionDesk, wanted: DeskFilter, limit: int, viewer: Viewer) -> Inbox:
    keys, total, cursor = desk.keys(wanted, limit)
    items = []
    runs: dict[str, Standing] = {}
    for run_id, contract_id in keys:
        try:
            now = runs[run_id] if run_id in runs else runs.setdefault(run_id, reader.standing(run_id))
        except DetentError:
            continue  # a damaged run must not hide the questions of the others
        contract = now.run.contract(contract_id)
        if contract is not None and contract.is_asking:  # else somebody was quicker than this page
            items.append(item(now, contract, viewer, desk))
    return Inbox(items, total, cursor)


async def lines(room: HttpServer, call: HttpCall) -> DeskPage:
    """A part of the list of questions."""
    asked: LineQuery = call.query
    wanted = DeskFilter(asked.machine, asked.effect, asked.by, asked.age, asked.text)
    return await room.ask(room.desk.read, wanted, asked.at, asked.offset, asked.limit, asked.group)


async def show_item(room: HttpServer, call: HttpCall) -> ItemView:
    """One question, or who decided it."""
    run_id, contract_id = await room.find_run_id(call.path["run_id"]), call.path["contract_id"]

    def read() -> ItemView:
        now = room.reader.standing(run_id)
        contract = now.run.contract(contract_id)
        if contract is not None and contract.is_asking:
            return ItemView(item(now, contract, _viewer(room, call), room.desk))
        decided = decision(room.reader, run_id, contract_id)
        if not decided:
            raise Unknown(f"run {run_id} has no question `{contract_id}`")
        return ItemView(decided=decided)

    return await room.ask(read)


def item(now: Standing, contract: Contract, viewer: Viewer, desk: QuestionDesk) -> Item:
    """One question as a person must see it."""
    machine, run = now.machine, now.run
    shown = question_of(contract, has_people=now.has_people)
    return Item(
        run_id=run.id,
        machine=machine.name,
        title=machine.title,
        digest=run.machine,
        state=run.state,
        question=add_permission(shown, machine, run, viewer.who, viewer.people),
        shown=shown_hash(run.id, contract),
        asked_by=run.by,
        parent=run.parent,
        source=run.source,
        kind=contract.kind,
        attempt=contract.attempt,
        rule=contract.rule,
        policy=_ask_policy(viewer.policy, machine, run, contract),
        similar=desk.count_alike(run.machine, contract.action) if is_batchable(shown) else 0,
        args_schema=arguments_schema(contract),
        on_yes=_yes(machine, run, contract),
        on_no=_no(machine, run, contract),
    )


def _ask_policy(policy: Policy | None, machine: Machine, run: Run, contract: Contract) -> PolicySays | None:
    """What the policy would say to the call; None where it says nothing."""
    if policy is not None and policy.rules and contract.effect == "ask":
        return PolicySays("next", "")
    if policy is None or contract.effect in OWN:
        return None
    if policy.has_facts:
        return PolicySays("later", "")
    said = policy.decide(call_of(run, machine, contract))
    return None if said is None else PolicySays(said.decision, said.rule, said.message)


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
    Route("GET", "/api/inbox/lines", lines, "A part of the list of questions, with totals", DeskPage, query=LineQuery,
          tag="inbox", about="The list is that of the moment `at`, which an answer names: whoever pages on sees "
          "the same list, with `decided` at what was answered since. Without `at`, or when it is long gone, it is made "
          "anew."),
    Route("GET", "/api/inbox/{run_id}/{contract_id:path}", show_item, "One question, or who decided it", ItemView,
          errors=(404, 409), tag="inbox"),
)  # fmt: skip
