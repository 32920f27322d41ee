"""Addresses of what the assistant remembers: memories, plans, and its settings."""

import asyncio
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta

from detent.agents.assistant import recall, setting
from detent.agents.assistant.conversation import check_model
from detent.agents.assistant.memory_store import Memory, Store
from detent.agents.assistant.node_effects import MEMORY_FILE
from detent.effects.llm import choose_model
from detent.errors import Unknown
from detent.kit.http.context import ServerContext
from detent.kit.http.request_base import Asked, Count
from detent.kit.http.route import HttpCall, Route

R = TypeVar("R")
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


class Correction(Asked, frozen=True):
    """What a memory shall say; without a key it keeps its own."""

    value: Text
    key: Annotated[str, Meta(max_length=500)] = ""


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


class SettingChange(Asked, frozen=True):
    """What is to be set; what is left out stays as it is."""

    intent: Literal["model", "rules", "off"] | None = None
    emotion_threshold: Annotated[float, Meta(ge=0, le=1)] | None = None
    instructions: Annotated[str, Meta(max_length=20_000)] | None = None
    model: Annotated[str, Meta(max_length=200)] | None = None
    identical_calls_max: Annotated[int, Meta(ge=1, le=1000)] | None = None
    compact_at: Annotated[int, Meta(ge=1000, le=10_000_000)] | None = None
    keywords: dict[str, list[setting.Word]] | None = None
    form_ttl_seconds: Annotated[float, Meta(ge=0, le=1e9)] | None = None


class SettingView(msgspec.Struct, frozen=True):
    """How the assistant behaves, which model that means now, and why it cannot be asked if it cannot."""

    intent: str
    emotion_threshold: float
    instructions: str
    model: str
    identical_calls_max: int
    compact_at: int
    keywords: dict[str, list[str]]
    form_ttl_seconds: float
    model_in_use: str
    model_problem: str | None


async def ask_store(room: ServerContext, ask: Callable[[Store], R]) -> R:
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

    return MemoryPage(await ask_store(room, ask))


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

    return _view(_require(await ask_store(room, ask), 0))


async def correct(room: ServerContext, call: HttpCall) -> MemoryView:
    """Give a memory another value."""
    number, wanted = _number(call.path["memory_id"]), call.body

    def ask(store: Store) -> Memory | None:
        return store.memory(number) if store.correct(number, wanted.value, wanted.key) else None

    return _view(_require(await ask_store(room, ask), number))


async def forget(room: ServerContext, call: HttpCall) -> Forgotten:
    """Remove one memory."""
    number = _number(call.path["memory_id"])
    if not await ask_store(room, lambda store: store.forget(number)):
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

    found = sorted(await ask_store(room, ask), key=lambda memory: -memory.id)
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

    return _plan(_require(await ask_store(room, ask), 0))


async def change_plan(room: ServerContext, call: HttpCall) -> Plan:
    """Say what became of a plan."""
    number, category = _number(call.path["plan_id"]), FILED[call.body.status]

    def ask(store: Store) -> Memory | None:
        memory = store.memory(number)
        if memory is None or memory.category not in PLANS:
            return None
        store.file_under(number, category)
        return store.memory(number)

    changed = await ask_store(room, ask)
    if changed is None:
        raise Unknown(f"there is no plan {number}")
    return _plan(changed)


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


TAG, ASSIST = "assistant", "assist"
ROUTES = (
    Route("GET", "/api/memories", memories, "What the assistant remembers", MemoryPage, query=MemoryQuery, tag=TAG),
    Route("POST", "/api/memories", remember, "Have something remembered", MemoryView, takes=Remember, tag=TAG,
          needs=ASSIST),
    Route("POST", "/api/memories/{memory_id}", correct, "Correct something", MemoryView, takes=Correction, tag=TAG,
          needs=ASSIST, errors=(404,)),
    Route("POST", "/api/memories/{memory_id}/forget", forget, "Forget something", Forgotten, tag=TAG,
          needs=ASSIST, errors=(404,)),
    Route("GET", "/api/plans", plans, "What somebody means to do", Plans, query=PlanQuery, tag=TAG),
    Route("POST", "/api/plans", plan, "Make a plan", Plan, takes=NewPlan, tag=TAG, needs=ASSIST),
    Route("POST", "/api/plans/{plan_id}", change_plan, "Say what became of a plan", Plan, takes=PlanChange, tag=TAG,
          needs=ASSIST, errors=(404,)),
    Route("GET", "/api/settings", settings, "How the assistant behaves", SettingView, tag=TAG),
    Route("POST", "/api/settings", change_settings, "Change how the assistant behaves", SettingView,
          takes=SettingChange, tag=TAG, needs=ASSIST, errors=(409,)),
)  # fmt: skip
