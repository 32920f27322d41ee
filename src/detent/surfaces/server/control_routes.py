"""Addresses that move a run: signal, answer, cancel, pause, resume, retry, fork; each is one verb of the host."""

from collections.abc import Iterator
from typing import Any

import msgspec

from detent.core.commands import Ask, Perform
from detent.core.engine import advance
from detent.core.events import RETRY, ContractMoved, Signalled
from detent.core.history import Entry
from detent.core.identity import identity_of
from detent.core.status import Status
from detent.errors import Refused
from detent.host.port import Reader
from detent.kit.http.http_error import AlreadyDecided, BadRequest
from detent.kit.http.request_base import Asked
from detent.kit.http.route import HttpCall, Route
from detent.redaction import HIDDEN
from detent.surfaces.server import shape
from detent.surfaces.server.history_routes import deeds_of
from detent.surfaces.server.run_routes import run_id_of, standing
from detent.surfaces.server.server_context import HttpServer

CALLS_MAX = 50  # calls that the preview of a retry lists
LOOK_BACK = 500  # events read at once to find out who was first


async def signal(room: HttpServer, call: HttpCall) -> shape.RunView:
    """Send a signal to a run."""
    given: shape.Signal = call.body
    run_id = await _find_run(room, call)
    await room.host.signal(run_id, given.name, given.data, id=given.id, by=call.by)
    return await standing(room, run_id, call)


async def answer(room: HttpServer, call: HttpCall) -> shape.RunView:
    """Answer a question; whoever is first wins, and the second is told who that was."""
    given: shape.AnswerBody = call.body
    run_id, contract_id = await _find_run(room, call), call.path["contract_id"]
    if HIDDEN.encode() in msgspec.json.encode([given.args, given.patch, given.data, given.result]):
        raise BadRequest(
            f"the answer holds {HIDDEN}, which stands for a secret that is not shown; leave that part out", 422
        )
    said = {name: value for name, value in msgspec.to_builtins(given).items() if value not in ("", None, {})}
    if given.data is not None:
        said["data"] = given.data
    said |= {"by": identity_of(call.by).name, "channel": "http"}
    try:
        await room.host.answer(run_id, contract_id, said, by=call.by)
    except Refused:
        run = await room.host.show(run_id)  # whoever was first is on disk then
        now = run.contract(contract_id)
        is_open = now is not None and now.is_asking
        decided = {} if is_open else await room.ask(decision, room.reader, run_id, contract_id)
        if decided:
            raise AlreadyDecided(_sentence(contract_id, decided), decided) from None
        raise
    return await standing(room, run_id, call)


def decision(reader: Reader, run_id: str, contract_id: str) -> dict[str, Any]:
    """Who ended the question of a contract, when and how; empty when nobody ever did."""
    for upto in range(reader.standing(run_id).run.seq, 0, -LOOK_BACK):  # the latest is what counts
        found = _find_decision(reader.entries(run_id, max(0, upto - LOOK_BACK), upto), contract_id)
        if found:
            return found
    return {}


def _find_decision(entries: Iterator[Entry], contract_id: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for entry in entries:
        seq, event = entry.seq, entry.event
        if not isinstance(event, ContractMoved) or event.contract_id != contract_id:
            continue
        said = event.result if event.trigger == "resume" and isinstance(event.result, dict) else {}
        if event.trigger == "resume":
            kept = {name: said[name] for name in ("approved", "outcome", "comment") if name in said}
            found = {"by": said.get("by") or event.actor, "at": event.at, "seq": seq, **kept}
        elif event.trigger in ("cancel", "timeout"):
            found = {"by": event.actor, "at": event.at, "seq": seq, "approved": None}
    return found


def _sentence(contract_id: str, decided: dict[str, Any]) -> str:
    words = {True: "approved", False: "rejected", None: "answered"}
    return f"`{contract_id}` was {words[decided.get('approved')]} by {decided['by'] or 'somebody'} already"


async def cancel(room: HttpServer, call: HttpCall) -> shape.RunView:
    """Stop a run and everything it has under way."""
    run_id = await _find_run(room, call)
    await room.host.cancel(run_id, by=call.by, reason=call.body.reason)
    return await standing(room, run_id, call)


async def pause(room: HttpServer, call: HttpCall) -> shape.RunView:
    """Pause a run: calls under way finish, nothing new starts."""
    run_id = await _find_run(room, call)
    if (await standing(room, run_id, call)).paused:
        raise Refused(f"run {run_id} is paused already")
    await room.host.hold(run_id, by=call.by)
    return await standing(room, run_id, call)


async def resume(room: HttpServer, call: HttpCall) -> shape.RunView:
    """Go on after a pause, and take up what nobody drives."""
    run_id = await _find_run(room, call)
    if all(one.has_ended for one in await room.ask(room.reader.family, run_id)):
        status = (await standing(room, run_id, call)).status
        raise Refused(f"run {run_id} has ended ({status}); `retry` goes on from what failed, `fork` begins a new one")
    await room.host.recover(run_id)
    now = await standing(room, run_id, call)
    if now.paused and not Status(now.status).is_terminal:
        await room.host.release(run_id, by=call.by)
    return await standing(room, run_id, call)


async def retry(room: HttpServer, call: HttpCall) -> shape.RunView:
    """Let a failed run go on from what failed: what had succeeded stays done."""
    run_id = await _find_run(room, call)
    await room.host.retry(run_id, by=call.by, id=f"http {call.body.key}" if call.body.key else "")
    return await standing(room, run_id, call)


async def preview_retry(room: HttpServer, call: HttpCall) -> "RetryPreview":
    """What a retry would do first, found out by trying it on a copy: the engine is a function and touches nothing."""
    run_id = await _find_run(room, call)

    def read() -> RetryPreview:
        now = room.reader.standing(run_id)
        after, commands, _ = advance(now.machine, now.run, Signalled(RETRY, {}, "", now.run.at))
        begun = [(after.contract(one.contract_id), one) for one in commands if isinstance(one, (Perform, Ask))]
        calls = [
            RetryCall(found.id, found.effect, found.input, found.kind, isinstance(one, Ask))
            for found, one in begun
            if found is not None
        ]
        return RetryPreview(calls[:CALLS_MAX], len(calls))

    return await room.ask(read)


async def fork(room: HttpServer, call: HttpCall) -> shape.Forked:
    """Begin a new run where this one was."""
    run_id = await _find_run(room, call)
    return await _fork(room, run_id, call)


async def _fork(room: HttpServer, run_id: str, call: HttpCall) -> shape.Forked:
    at, key, loop = call.body.at, call.body.key, call.body.loop

    def read() -> shape.Deeds:
        return deeds_of(room.reader, run_id, room.reader.seq_at(run_id, at, loop))

    deeds = await room.ask(read)
    new_id = run_id_of(f"fork {run_id} {loop or deeds.at} {key}") if key else ""
    begun = await room.host.fork(run_id, str(deeds.at), new_id=new_id, by=call.by, loop=loop)
    return shape.Forked(await standing(room, begun.id, call), deeds)


async def _find_run(room: HttpServer, call: HttpCall) -> str:
    return await room.find_run_id(call.path["run_id"])


class RetryBody(Asked, frozen=True):
    """Try again; a `key` makes it happen once."""

    key: shape.Name = ""
    by: shape.Name = ""


class RetryCall(msgspec.Struct, frozen=True):
    """A call that would be made again; `is_asked`: somebody is asked first."""

    contract_id: str
    effect: str
    input: dict[str, Any]
    kind: str
    is_asked: bool


class RetryPreview(msgspec.Struct, frozen=True):
    """The calls a retry would begin with."""

    calls: list[RetryCall]
    total: int


MOVED = (404, 409)
ROUTES = (
    Route("POST", "/api/runs/{run_id}/signals", signal, "Tell a run that something happened", shape.RunView,
          takes=shape.Signal, errors=MOVED),
    Route("POST", "/api/runs/{run_id}/contracts/{contract_id:path}/answer", answer, "Answer a question", shape.RunView,
          takes=shape.AnswerBody, errors=(403, *MOVED), is_guarded=True,
          about="Send the `call_hash` you saw: a changed call is then refused."),
    Route("POST", "/api/runs/{run_id}/cancel", cancel, "Stop a run", shape.RunView, takes=shape.Cancel, errors=MOVED),
    Route("POST", "/api/runs/{run_id}/pause", pause, "Begin nothing new", shape.RunView, takes=shape.Who, errors=MOVED),
    Route("POST", "/api/runs/{run_id}/resume", resume, "Go on", shape.RunView, takes=shape.Who, errors=MOVED),
    Route("POST", "/api/runs/{run_id}/retry", retry, "Go on from what failed", shape.RunView,
          takes=RetryBody, errors=MOVED),
    Route("GET", "/api/runs/{run_id}/retry", preview_retry, "What a retry would do again", RetryPreview, errors=MOVED),
    Route("POST", "/api/runs/{run_id}/fork", fork, "Begin a new run where this one was", shape.Forked,
          takes=shape.Fork, status=201, errors=MOVED),
)  # fmt: skip
