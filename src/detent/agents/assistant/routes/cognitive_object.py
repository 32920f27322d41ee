"""Addresses of conversations as cognitive objects, and of what was said in them."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from detent.agents.assistant import cognitive_object
from detent.agents.assistant.conversation import ledger_of
from detent.agents.assistant.memory_store import Store
from detent.agents.assistant.routes.memory import ask_store
from detent.core.identity import identity_of
from detent.errors import Unknown
from detent.host.port import Reader
from detent.host.reading import Query, Summary
from detent.kit.http.context import ServerContext
from detent.kit.http.request_base import Asked, Count
from detent.kit.http.route import HttpCall, Route

TURNS_MAX = 1000  # that are looked at for a list of conversations
TITLE_MAX, DESCRIPTION_MAX = 200, 2000
MEMORIES_MAX = 1000


class Concern(msgspec.Struct, frozen=True):
    """A conversation as a cognitive object; `waiting` are the ids of the runs that wait for somebody."""

    co_id: str
    title: str
    description: str
    semantic_type: str
    domain_tag: str
    intent_category: str
    status: cognitive_object.State
    transitions: list[dict[str, Any]]
    linked_execution_ids: list[str]
    linked_memory_ids: list[int]
    external_references: list[str]
    related_co_ids: list[str]
    created_at: float
    updated_at: float
    turns: int
    waiting: list[str]


class Concerns(msgspec.Struct, frozen=True):
    """Conversations, the latest first."""

    objects: list[Concern]


class ConcernQuery(Asked, frozen=True):
    """Which conversations; `active=true` leaves out those that were put away."""

    status: cognitive_object.State | None = None
    active: bool = False
    limit: Count = 50


class ConcernMove(Asked, frozen=True):
    """One of the moves of a cognitive object, and why it is made."""

    trigger: Annotated[str, Meta(min_length=1, max_length=50)]
    reason: Annotated[str, Meta(max_length=500)] = ""


class PassageQuery(Asked, frozen=True):
    """What to look for among what a long conversation no longer tells the model word for word."""

    text: Annotated[str, Meta(max_length=4000)] = ""
    limit: Count = 20


class PassageView(msgspec.Struct, frozen=True):
    """Something that was said."""

    id: int
    session: str
    role: str
    content: str
    at: float


class Passages(msgspec.Struct, frozen=True):
    """What was said and put aside, best first or, without a text, the latest first."""

    passages: list[PassageView]


class _Kept:
    """What the memory has on cognitive objects, read once for a list of them."""

    def __init__(self, store: Store) -> None:
        self.moves = store.concern_moves()
        for session, at in store.list_archived().items():  # by older versions
            archived = {"trigger": "archive", "timestamp": at, "actor": "human", "reason": ""}
            self.moves.setdefault(session, []).insert(0, archived)
        self.memories: dict[str, list[int]] = {}
        for memory in store.memories(MEMORIES_MAX):
            self.memories.setdefault(memory.session, []).append(memory.id)


async def concerns(room: ServerContext, call: HttpCall) -> Concerns:
    """The conversations."""
    kept = await ask_store(room, _Kept)
    query: ConcernQuery = call.query

    def read(reader: Reader) -> list[Concern]:
        sessions: dict[str, list[Summary]] = {}
        for turn in _turns(reader):
            sessions.setdefault(turn.session or turn.run_id, []).append(turn)
        found: list[Concern] = []
        for session, turns in sessions.items():
            history = cognitive_object.ConcernHistory(turns, kept.moves.get(session, ()))
            is_wanted = query.status in (None, history.state) and not (query.active and history.state == "archived")
            if is_wanted and len(found) < query.limit:
                found.append(_concern(reader, session, turns, history, kept))
        return found

    return Concerns(await room.ask(read, room.reader))


def _turns(reader: Reader) -> list[Summary]:
    found, query = list[Summary](), Query(agent="assistant", limit=TURNS_MAX)
    while True:
        page = reader.list(query)
        found += page.runs
        if not page.next or len(found) >= TURNS_MAX:
            return found[:TURNS_MAX]
        query = query._replace(before=page.next)


def _concern(
    reader: Reader, session: str, turns: list[Summary], history: cognitive_object.ConcernHistory, kept: _Kept
) -> Concern:
    context = reader.standing(turns[-1].run_id).run.context
    message = str(context.get("message") or "")
    done = [id for turn in reversed(turns) for id in ledger_of(reader, turn.run_id).executions]
    moved = [move["timestamp"] for move in history.transitions]
    return Concern(
        co_id=session,
        title=message.partition("\n")[0][:TITLE_MAX],
        description=message[:DESCRIPTION_MAX],
        semantic_type="conversation",
        domain_tag="",
        intent_category=str((context.get("intent") or {}).get("category") or "normal"),
        status=history.state,
        transitions=history.transitions,
        linked_execution_ids=done,
        linked_memory_ids=kept.memories.get(session, []),
        external_references=[],
        related_co_ids=[],
        created_at=turns[-1].started_at,
        updated_at=max([*moved, *(turn.updated_at for turn in turns)]),
        turns=len(turns),
        waiting=[turn.run_id for turn in turns if turn.waiting],
    )


async def _read_one(room: ServerContext, session: str) -> tuple[Concern, cognitive_object.ConcernHistory]:
    kept = await ask_store(room, _Kept)

    def read(reader: Reader) -> tuple[Concern, cognitive_object.ConcernHistory]:
        turns = list(reader.session(session, TURNS_MAX))
        if not turns:
            raise Unknown(f"there is no session `{session[:80]}`")
        history = cognitive_object.ConcernHistory(turns, kept.moves.get(session, ()))
        return _concern(reader, session, turns, history, kept), history

    return await room.ask(read, room.reader)


async def one_concern(room: ServerContext, call: HttpCall) -> Concern:
    """One conversation."""
    return (await _read_one(room, call.path["session_id"]))[0]


async def move_concern(room: ServerContext, call: HttpCall) -> Concern:
    """Make one of the moves of a cognitive object; one that its status does not have is refused."""
    return await _move(room, call, call.body.trigger, call.body.reason)


async def archive(room: ServerContext, call: HttpCall) -> Concern:
    """Put a conversation away until somebody speaks again."""
    return await _move(room, call, "archive", "")


async def _move(room: ServerContext, call: HttpCall, trigger: str, reason: str) -> Concern:
    session = call.path["session_id"]
    _, history = await _read_one(room, session)
    move = history.check_move(trigger, identity_of(call.by).name or "human", reason)
    await ask_store(room, lambda store: store.move_concern(session, move))
    return (await _read_one(room, session))[0]


async def states(_room: ServerContext, _call: HttpCall) -> dict[str, Any]:
    """The law of cognitive objects."""
    return cognitive_object.topology()


async def passages(room: ServerContext, call: HttpCall) -> Passages:
    """What was said in a long conversation and is summarised for the model now."""
    session, query = call.path["session_id"], call.query
    found = await ask_store(room, lambda store: store.passages(session, query.text, query.limit))
    return Passages([PassageView(**one._asdict()) for one in found])


TAG, ASSIST = "assistant", "assist"
ROUTES = (
    Route("GET", "/api/co", concerns, "Conversations as cognitive objects", Concerns, query=ConcernQuery, tag=TAG),
    Route("GET", "/api/co/topology", states, "The six statuses of a cognitive object", dict[str, Any], tag=TAG),
    Route("GET", "/api/co/{session_id}", one_concern, "One cognitive object", Concern, tag=TAG, errors=(404,)),
    Route("POST", "/api/co/{session_id}/archive", archive, "Put a conversation away", Concern, tag=TAG,
          needs=ASSIST, errors=(404, 409)),
    Route("POST", "/api/co/{session_id}/transition", move_concern, "Move a cognitive object", Concern,
          takes=ConcernMove, tag=TAG, needs=ASSIST, errors=(404, 409)),
    Route("GET", "/api/conversations/{session_id}/passages", passages, "Search what was said in a long conversation",
          Passages, query=PassageQuery, tag=TAG),
)  # fmt: skip
