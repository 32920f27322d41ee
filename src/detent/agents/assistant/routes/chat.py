"""Addresses of the assistant: a message in, Server-Sent Events out; forms and confirmations; what was executed."""

import os
import time
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta
from starlette.responses import Response

from detent.agents.assistant import Execution, Ledger, check_session, from_client, new_session
from detent.agents.assistant.attachment import attach_inside
from detent.agents.assistant.conversation import (
    begin,
    check_model,
    history,
    ledger_of,
    ledgers,
    own_effects,
    plan_only,
    settings_of,
    tools_of,
)
from detent.agents.assistant.form import DISPLAY
from detent.agents.assistant.image import IMAGE_MAX, read_image
from detent.agents.assistant.question_form import answer_of, form_of, problems
from detent.agents.assistant.routes.legacy_chat_stream import stream_turn
from detent.agents.assistant.view import snapshot, timeline, topology
from detent.core.contract import Contract
from detent.core.effect_type import Effect
from detent.core.events import ContractMoved
from detent.core.history import Entry
from detent.core.identity import identity_of
from detent.core.status import Status
from detent.errors import DefinitionError, NotPermitted, NotWaiting, Refused, Unknown
from detent.host.port import Reader
from detent.kit.agent import owner
from detent.kit.http.context import ServerContext
from detent.kit.http.http_error import BadRequest
from detent.kit.http.request_base import Asked
from detent.kit.http.route import HttpCall, Route
from detent.kit.http.sse import Stream

TOOLS_FILE = "DETENT_TOOLS"  # a Python file whose effects are offered to the model
IMAGES_MAX = 8  # with one message
Session = Annotated[str, Meta(max_length=60)]


class ChatRequest(Asked, frozen=True):
    """Something to say; without a session a new one begins."""

    message: Annotated[str, Meta(min_length=1, max_length=200_000)]
    session_id: Session = ""
    history: list[dict[str, Any]] | None = None
    images: Annotated[list[str], Meta(max_length=IMAGES_MAX)] | None = None  # in base64 or as data URLs
    files: Annotated[list[Annotated[str, Meta(min_length=1, max_length=1000)]], Meta(max_length=20)] | None = None
    undo: Annotated[int, Meta(ge=0, le=100)] = 0  # so many turns at the end are taken back first
    plan: bool = False  # only tools that change nothing, and a plan for an answer
    model: Annotated[str, Meta(max_length=200)] = ""  # for this turn


class ImageRequest(Asked, frozen=True):
    """An image, in base64 or as a data URL, and what to do with it."""

    image: Annotated[str, Meta(min_length=1)]
    session_id: Session = ""
    action: Annotated[str, Meta(max_length=200)] = ""


class RespondRequest(Asked, frozen=True):
    """The answer to a form or a confirmation."""

    request_id: Annotated[str, Meta(max_length=200)]
    session_id: Session
    action: Annotated[str, Meta(max_length=100)]
    data: dict[str, Any] | None = None


class Continuation(msgspec.Struct, frozen=True):
    """What was answered, for the client to go on with."""

    request_title: str
    action: str
    form_data: dict[str, Any]
    field_labels: dict[str, str]


class RespondResult(msgspec.Struct, frozen=True):
    """What became of an answer."""

    success: bool
    next_action: Literal["continue", "complete"]
    message: str = ""
    error: str | None = None
    continuation_data: Continuation | None = None


class ContinueRequest(Asked, frozen=True):
    """Go on after an answer."""

    session_id: Session
    continuation_data: dict[str, Any] | None = None


class RequestStatus(msgspec.Struct, frozen=True):
    """Whether a form still waits."""

    exists: bool
    expired: bool
    session_id: str | None = None
    title: str | None = None
    expires_at: float | None = None


class HumanQuery(Asked, frozen=True):
    """`human=true` gives objects with Chinese labels, without anything internal."""

    human: bool = False


async def chat(room: ServerContext, call: HttpCall) -> Response:
    """One turn."""
    given: ChatRequest = call.body
    attached = await room.ask(attach_inside, given.message, given.files or (), Path.cwd(), room.home)
    images = [*map(_image, given.images or ()), *attached.images]
    if len(images) > IMAGES_MAX:
        raise BadRequest(f"at most {IMAGES_MAX} images can go with one message")
    return await _turn(room, call, msgspec.structs.replace(given, message=attached.message), images=images)


async def image(room: ServerContext, call: HttpCall) -> Response:
    """One turn about an image."""
    given: ImageRequest = call.body
    wanted = ChatRequest(given.action or "Describe this image.", given.session_id)
    return await _turn(room, call, wanted, images=[_image(given.image)])


async def compact(room: ServerContext, call: HttpCall) -> Response:
    """Have a conversation summarised now: a turn without a message."""
    session = call.path["session_id"]
    if not await room.ask(room.reader.session, session, 1):
        raise Unknown(f"there is no session `{session[:80]}`")
    return await _turn(room, call, ChatRequest("", session))


def _image(text: str) -> dict[str, str]:
    found = read_image(text)
    if found is None:
        raise BadRequest(
            f"`image` must be PNG, JPEG, GIF or WebP of at most {IMAGE_MAX:,} bytes, in base64 or a data URL"
        )
    return found


async def _turn(room: ServerContext, call: HttpCall, given: ChatRequest, **more: Any) -> Response:
    session = check_session(given.session_id) if given.session_id else new_session()
    settings = settings_of(room.home, **({"model": given.model} if given.model else {}))
    if given.model:
        check_model(given.model, is_here=room.host.is_holder)
    source = os.environ.get(TOOLS_FILE, "")
    own = _own(source) if source else {}
    past = await room.ask(history, room.reader, session, given.undo)
    before = (from_client(given.history) if given.history is not None else past.said) + past.news
    tools = tools_of(room.host.effects, own, ())
    if given.plan:
        tools, settings = plan_only(tools, settings)
    run = await begin(room.host, session, given.message, said=before, tools=tools, source=source, by=call.by,
                      facts=past.facts, settings=settings, **more)  # fmt: skip
    return Stream(room, stream_turn(room, run.id, session, "starting"))


def _own(source: str) -> dict[str, Effect]:
    """The operator's tools; without them no conversation begins, for it would promise what it cannot do."""
    try:
        return own_effects(source)
    except DefinitionError as error:
        raise Refused(f"the tools of this server cannot be used; {TOOLS_FILE} names {error}") from None


def _execution(reader: Reader, request_id: str) -> tuple[str, Ledger, Execution] | None:
    """An execution by its id, with its session and its turn."""
    run_id = request_id.rpartition(":")[0]
    turn = reader.summary(run_id) if run_id else None
    if turn is None or owner(turn.source, turn.parent) != "assistant":
        return None
    ledger = ledger_of(reader, run_id)
    execution = ledger.executions.get(request_id)
    return None if execution is None else (turn.session, ledger, execution)


async def respond(room: ServerContext, call: HttpCall) -> RespondResult:
    """Answer a form or a confirmation; whoever is first wins."""
    given: RespondRequest = call.body
    if given.action not in ("approve", "edit", "reject"):
        raise BadRequest(f"`action` must be approve, edit or reject, not `{given.action}`")
    found = await room.ask(_execution, room.reader, given.request_id)
    if found is None or found[0] != given.session_id:
        return RespondResult(False, "complete", error="there is no such request")
    execution = found[2]
    if execution.detail.get("type") == DISPLAY:
        return RespondResult(True, "complete", "nothing to answer")
    if execution.status is not Status.WAITING:
        return RespondResult(False, "complete", error=f"this request is {execution.status.value} already")
    run_id = given.request_id.rpartition(":")[0]
    data = given.data or {}
    if wrong := problems(execution, given.action, data):
        return RespondResult(False, "continue", error="; ".join(wrong))
    said = answer_of(execution, given.action, data) | {"by": identity_of(call.by).name, "channel": "http"}
    try:
        run = await room.host.answer(run_id, execution.contract_id, said, by=call.by)
    except NotPermitted:
        raise
    except NotWaiting as error:
        return RespondResult(False, "complete", error=str(error))
    except Refused as error:
        return RespondResult(False, "continue", error=str(error))
    if more := _yes_wanted(run.contract(execution.contract_id)):
        return RespondResult(True, "complete", f"noted; {more} more must say yes")
    form = form_of(execution)
    labels = {field["name"]: field["label"] for field in form["fields"]}
    return RespondResult(True, "continue", "answered",
                         continuation_data=Continuation(form["title"], given.action, data, labels))  # fmt: skip


def _yes_wanted(contract: Contract | None) -> int:
    """How many more people must agree before the call of a contract that several must agree to is made."""
    if contract is None or contract.status is not Status.WAITING or contract.question is None:
        return 0
    agreed = len(contract.answers) - contract.answered
    return contract.question.quorum - agreed if agreed else 0


async def go_on(room: ServerContext, call: HttpCall) -> Response:
    """The stream of a turn from its latest answer on."""
    session = call.body.session_id
    found = await room.ask(_find_answered, room.reader, session)
    if found is None:
        raise NotWaiting(f"nothing was answered in session `{session}`")
    return Stream(room, stream_turn(room, found[0], session, "resuming", found[1]))


class LastAnswer:
    """Which event of a turn was its latest answer; a projection of the run."""

    name: ClassVar[str] = "last answer"
    version: ClassVar[int] = 1
    reach: ClassVar[int] = 0

    def __init__(self, run_id: str) -> None:
        self.run_id, self.seq, self.at = run_id, 0, 0.0  # 0: nobody has answered

    def take(self, entry: Entry) -> None:
        """Look whether it is an answer."""
        if isinstance(entry.event, ContractMoved) and entry.event.trigger == "resume":
            self.seq, self.at = entry.seq, entry.event.at


def _find_answered(reader: Reader, session: str) -> tuple[str, int] | None:
    """The turn that was answered last, and the event before that answer."""
    best: LastAnswer | None = None
    for turn in reader.session(session, 20):
        found = reader.project(turn.run_id, LastAnswer)
        if found.seq and (best is None or found.at >= best.at):
            best = found
    return None if best is None else (best.run_id, best.seq - 1)


async def status(room: ServerContext, call: HttpCall) -> RequestStatus:
    """Whether a form or a confirmation still waits; it does so through restarts."""
    found = await room.ask(_execution, room.reader, call.path["request_id"])
    if found is None:
        return RequestStatus(exists=False, expired=False)
    session, _, execution = found
    is_expired = bool(execution.moves) and execution.moves[-1].trigger == "timeout"
    exists = execution.status is Status.WAITING
    return RequestStatus(exists, is_expired, session, execution.summary, execution.expires_at or None)


async def session_timeline(room: ServerContext, call: HttpCall) -> dict[str, Any]:
    """Everything a session has done; of one in which nothing was said yet, zeros."""
    session = call.path["session_id"]

    def read(reader: Reader) -> dict[str, Any]:
        return timeline(session, list(ledgers(reader, session)), time.time(), human=call.query.human)

    return await room.ask(read, room.reader)


async def execution_snapshot(room: ServerContext, call: HttpCall) -> dict[str, Any]:
    """Where one execution stands."""
    id = call.path["execution_id"]
    found = await room.ask(_execution, room.reader, id)
    if found is None:
        raise Unknown(f"there is no execution `{id}`")
    return snapshot(found[2], time.time(), human=call.query.human)


async def law(_room: ServerContext, _call: HttpCall) -> dict[str, Any]:
    """The statuses and moves of every execution."""
    return topology()


TAG = "assistant"
ROUTES = (
    Route("POST", "/chat", chat, "Say something to the assistant", takes=ChatRequest, kind="stream", tag=TAG,
          errors=(409,)),
    Route("POST", "/chat/image", image, "Ask the assistant about an image", takes=ImageRequest, kind="stream", tag=TAG,
          errors=(409,)),
    Route("POST", "/api/conversations/{session_id}/compact", compact, "Have a conversation summarised", kind="stream",
          tag=TAG, errors=(404, 409)),
    Route("POST", "/ecs/respond", respond, "Answer a form or a confirmation", RespondResult, takes=RespondRequest,
          tag=TAG, is_guarded=True),
    Route("POST", "/ecs/continue", go_on, "Follow a turn after an answer", takes=ContinueRequest, kind="stream",
          tag=TAG, errors=(409,)),
    Route("GET", "/ecs/status/{request_id:path}", status, "Whether a form still waits", RequestStatus, tag=TAG),
    Route("GET", "/api/execution/topology", law, "The law of executions", dict[str, Any], tag=TAG),
    Route("GET", "/api/execution/{session_id}/timeline", session_timeline, "What a session has done", dict[str, Any],
          query=HumanQuery, tag=TAG),
    Route("GET", "/api/execution/{execution_id:path}/snapshot", execution_snapshot, "Where an execution stands",
          dict[str, Any], query=HumanQuery, tag=TAG, errors=(404,)),
)  # fmt: skip
