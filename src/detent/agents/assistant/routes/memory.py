"""Addresses of what the assistant has in mind: memories, plans, conversations as cognitive objects, settings."""

import asyncio
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta

from detent.agents.assistant import concern, recall, setting
from detent.agents.assistant.conversation import check_model
from detent.agents.assistant.node import MEMORY_FILE
from detent.agents.assistant.store import Memory, Store
from detent.effects.llm import choose_model
from detent.errors import Refused, Unknown
from detent.host.port import Reader
from detent.host.reading import Query, Summary
from detent.kit.http.asked import Asked, Count
from detent.kit.http.context import ServerContext
from detent.kit.http.route import HttpCall, Route

R = TypeVar("R")
TURNS_MAX = 1000  # that are looked at for a list of conversations
TITLE_MAX = 200
Text = Annotated[str, Meta(min_length=1, max_length=20_000)]
Short = Annotated[str, Meta(min_length=1, max_length=500)]
Category = Annotated[str, Meta(pattern=r"^[a-z][a-z_]{0,49}$")]
PLANS = {"plan": "open", "plan_done": "done", "plan_dropped": "dropped"}  # a plan is a memory, filed by its status
FILED = {status: category for category, status in PLANS.items()}
PlanStatus = Literal["open", "done", "dropped"]


class MemoryView(msgspec.Struct, frozen=True):
    """One thing that is remembered; `score` is how much it matters for the text that was asked about."""

    id: int
    category: str
    key: str
    value: str
    confidence: float
    session: str
    created_at: float
    accessed_at: float
    access_count: int
    score: float | None = None


class MemoryPage(msgspec.Struct, frozen=True):
    """Memories, newest first or, with a text, best first."""

    memories: list[MemoryView]


class MemoryQuery(Asked, frozen=True):
    """Which memories; `text` gives what a message would recall, of at most fifty candidates."""

    text: Annotated[str, Meta(max_length=4000)] = ""
    category: Annotated[str, Meta(max_length=100)] = ""
    limit: Count = 100


class Remember(Asked, frozen=True):
    """Something to remember; the same category and key again replace it."""

    category: Category
    key: Short
    value: Text
    confidence: Annotated[float, Meta(ge=0, le=1)] = 1.0


class Forgotten(msgspec.Struct, frozen=True):
    """That something is not remembered any more."""

    forgotten: int


class Plan(msgspec.Struct, frozen=True):
    """Something somebody means to do."""

    id: int
    title: str
    text: str
    status: PlanStatus
    session: str
    created_at: float


class Plans(msgspec.Struct, frozen=True):
    """Plans, newest first."""

    plans: list[Plan]


class PlanQuery(Asked, frozen=True):
    """Which plans."""

    status: PlanStatus | None = None
    limit: Count = 100


class NewPlan(Asked, frozen=True):
    """Something to do."""

    title: Short
    text: Annotated[str, Meta(max_length=20_000)] = ""


class PlanChange(Asked, frozen=True):
    """What became of a plan."""

    status: PlanStatus


class Concern(msgspec.Struct, frozen=True):
    """A conversation as a cognitive object; `waiting` are the ids of the runs that wait for somebody."""

    id: str
    title: str
    state: concern.State
    turns: int
    waiting: list[str]
    created_at: float
    updated_at: float
    archived_at: float | None = None


class Concerns(msgspec.Struct, frozen=True):
    """Conversations, the latest first."""

    objects: list[Concern]


class ConcernQuery(Asked, frozen=True):
    """Which conversations."""

    state: concern.State | None = None
    limit: Count = 50


class SettingChange(Asked, frozen=True):
    """What is to be set; what is left out stays as it is."""

    intent: Literal["model", "rules", "off"] | None = None
    emotion_threshold: Annotated[float, Meta(ge=0, le=1)] | None = None
    instructions: Annotated[str, Meta(max_length=20_000)] | None = None
    model: Annotated[str, Meta(max_length=200)] | None = None
    form_ttl_seconds: Annotated[float, Meta(ge=0, le=1e9)] | None = None


class SettingView(msgspec.Struct, frozen=True):
    """How the assistant behaves, which model that means now, and why it cannot be asked if it cannot."""

    intent: str
    emotion_threshold: float
    instructions: str
    model: str
    form_ttl_seconds: float
    model_in_use: str
    model_problem: str | None


async def _ask_store(room: ServerContext, ask: Callable[[Store], R]) -> R:
    """Ask the memory in a thread."""

    def work() -> R:
        with closing(Store(room.home / MEMORY_FILE)) as store:
            return ask(store)

    return await asyncio.to_thread(work)


async def memories(room: ServerContext, call: HttpCall) -> MemoryPage:
    """What is remembered."""
    query: MemoryQuery = call.query

    def ask(store: Store) -> list[MemoryView]:
        if not query.text.strip():
            return [_view(memory) for memory in store.memories(query.limit, query.category)]
        found = [one for one in store.candidates(query.text) if query.category in ("", one.category)]
        best = recall.choose_memories(found, query.text, store.now())[: query.limit]
        return [_view(memory, round(score, 4)) for score, memory in best]

    return MemoryPage(await _ask_store(room, ask))


def _view(memory: Memory, score: float | None = None) -> MemoryView:
    return MemoryView(**memory._asdict(), score=score)


def _require(memory: Memory | None, number: int) -> Memory:
    if memory is None:
        raise Unknown(f"there is no memory {number}")
    return memory


async def remember(room: ServerContext, call: HttpCall) -> MemoryView:
    """Remember something."""
    entry = msgspec.structs.asdict(call.body)

    def ask(store: Store) -> Memory | None:
        return store.memory(store.keep([entry])[0]["id"])

    return _view(_require(await _ask_store(room, ask), 0))


async def forget(room: ServerContext, call: HttpCall) -> Forgotten:
    """Remove one memory."""
    number = _number(call.path["memory_id"])
    if not await _ask_store(room, lambda store: store.forget(number)):
        raise Unknown(f"there is no memory {number}")
    return Forgotten(number)


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 15:
        raise Unknown(f"there is no memory {text[:20]!r}; its name is a number")
    return int(text)


async def plans(room: ServerContext, call: HttpCall) -> Plans:
    """What somebody means to do."""
    wanted = [FILED[call.query.status]] if call.query.status else list(PLANS)

    def ask(store: Store) -> list[Memory]:
        return [memory for category in wanted for memory in store.memories(call.query.limit, category)]

    found = sorted(await _ask_store(room, ask), key=lambda memory: -memory.id)
    return Plans([_plan(memory) for memory in found[: call.query.limit]])


def _plan(memory: Memory) -> Plan:
    status: Any = PLANS[memory.category]
    return Plan(memory.id, memory.key, memory.value, status, memory.session, memory.created_at)


async def plan(room: ServerContext, call: HttpCall) -> Plan:
    """Make a plan."""
    entry = {"category": FILED["open"], "key": call.body.title, "value": call.body.text}

    def ask(store: Store) -> Memory | None:
        number = store.keep([entry])[0]["id"]
        store.file_under(number, FILED["open"])  # one of this title that was done is begun again
        return store.memory(number)

    return _plan(_require(await _ask_store(room, ask), 0))


async def change_plan(room: ServerContext, call: HttpCall) -> Plan:
    """Say what became of a plan."""
    number, category = _number(call.path["plan_id"]), FILED[call.body.status]

    def ask(store: Store) -> Memory | None:
        memory = store.memory(number)
        if memory is None or memory.category not in PLANS:
            return None
        store.file_under(number, category)
        return store.memory(number)

    changed = await _ask_store(room, ask)
    if changed is None:
        raise Unknown(f"there is no plan {number}")
    return _plan(changed)


async def concerns(room: ServerContext, call: HttpCall) -> Concerns:
    """The conversations."""
    archived = await _ask_store(room, Store.list_archived)
    query: ConcernQuery = call.query

    def read(reader: Reader) -> list[Concern]:
        sessions: dict[str, list[Summary]] = {}
        for turn in _turns(reader):
            sessions.setdefault(turn.session or turn.run_id, []).append(turn)
        found: list[Concern] = []
        for session, turns in sessions.items():
            state = concern.state_of(turns, archived.get(session, 0.0))
            if query.state in (None, state) and len(found) < query.limit:
                found.append(_concern(reader, session, turns, archived))
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


def _concern(reader: Reader, session: str, turns: list[Summary], archived: dict[str, float]) -> Concern:
    first = reader.standing(turns[-1].run_id).run
    state = concern.state_of(turns, archived.get(session, 0.0))
    return Concern(
        session,
        str(first.context.get("message") or "")[:TITLE_MAX],
        state,
        len(turns),
        [turn.run_id for turn in turns if turn.waiting],
        turns[-1].started_at,
        max(turn.updated_at for turn in turns),
        archived[session] if state == "archived" else None,
    )


async def one_concern(room: ServerContext, call: HttpCall) -> Concern:
    """One conversation."""
    session = call.path["session_id"]
    archived = await _ask_store(room, Store.list_archived)

    def read(reader: Reader) -> Concern:
        turns = list(reader.session(session, TURNS_MAX))
        if not turns:
            raise Unknown(f"there is no session `{session[:80]}`")
        return _concern(reader, session, turns, archived)

    return await room.ask(read, room.reader)


async def archive(room: ServerContext, call: HttpCall) -> Concern:
    """Put a conversation away until somebody speaks again."""
    now = await one_concern(room, call)
    if now.state not in ("stable", "blocked", "archived") or now.waiting:
        raise Refused(f"`{now.id}` is {now.state}: answer or cancel {', '.join(now.waiting) or 'its turn'} first")
    await _ask_store(room, lambda store: store.archive(now.id))
    return await one_concern(room, call)


async def states(_room: ServerContext, _call: HttpCall) -> dict[str, Any]:
    """The law of cognitive objects."""
    return concern.topology()


async def settings(room: ServerContext, _call: HttpCall) -> SettingView:
    """How the assistant behaves."""
    return await asyncio.to_thread(_settings, room.home)


def _settings(home: Path) -> SettingView:
    found = setting.load(home)
    choice = choose_model(found.model)
    return SettingView(**msgspec.structs.asdict(found), model_in_use=choice.spec, model_problem=choice.problem or None)


async def change_settings(room: ServerContext, call: HttpCall) -> SettingView:
    """Set something; it holds for turns begun from now on."""
    given = {name: value for name, value in msgspec.structs.asdict(call.body).items() if value is not None}
    if given.get("model"):
        check_model(given["model"], is_here=room.host.is_holder)

    def work() -> SettingView:
        setting.save(room.home, msgspec.structs.replace(setting.load(room.home), **given))
        return _settings(room.home)

    return await asyncio.to_thread(work)


TAG = "assistant"
ROUTES = (
    Route("GET", "/api/memories", memories, "What the assistant remembers", MemoryPage, query=MemoryQuery, tag=TAG),
    Route("POST", "/api/memories", remember, "Have something remembered", MemoryView, takes=Remember, tag=TAG),
    Route("POST", "/api/memories/{memory_id}/forget", forget, "Forget something", Forgotten, tag=TAG, errors=(404,)),
    Route("GET", "/api/plans", plans, "What somebody means to do", Plans, query=PlanQuery, tag=TAG),
    Route("POST", "/api/plans", plan, "Make a plan", Plan, takes=NewPlan, tag=TAG),
    Route("POST", "/api/plans/{plan_id}", change_plan, "Say what became of a plan", Plan, takes=PlanChange, tag=TAG,
          errors=(404,)),
    Route("GET", "/api/co", concerns, "Conversations as cognitive objects", Concerns, query=ConcernQuery, tag=TAG),
    Route("GET", "/api/co/topology", states, "The six states of a cognitive object", dict[str, Any], tag=TAG),
    Route("GET", "/api/co/{session_id}", one_concern, "One cognitive object", Concern, tag=TAG, errors=(404,)),
    Route("POST", "/api/co/{session_id}/archive", archive, "Put a conversation away", Concern, tag=TAG,
          errors=(404, 409)),
    Route("GET", "/api/settings", settings, "How the assistant behaves", SettingView, tag=TAG),
    Route("POST", "/api/settings", change_settings, "Change how the assistant behaves", SettingView,
          takes=SettingChange, tag=TAG, errors=(409,)),
)  # fmt: skip
