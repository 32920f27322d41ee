"""Addresses that move a run: signal, answer, cancel, pause, resume, retry, fork; each is one verb of the host."""

from typing import Any

import msgspec

from detent.core.events import ContractMoved
from detent.core.schema import problems
from detent.core.status import Status
from detent.errors import NotWaiting, Refused, Unknown
from detent.host.embedded.family import family
from detent.host.embedded.listing import Listing
from detent.host.embedded.live import load, origin, seq_at
from detent.surfaces.server import shape
from detent.surfaces.server.history import deeds_of
from detent.surfaces.server.inbox import arguments_schema
from detent.surfaces.server.room import Room
from detent.surfaces.server.route import Call, Route
from detent.surfaces.server.run import run_id_of, standing
from detent.surfaces.server.trouble import AlreadyDecided


async def signal(room: Room, call: Call) -> shape.RunView:
    """Send a signal to a run."""
    given: shape.Signal = call.body
    run_id = await _known(room, call)
    await room.host.signal(run_id, given.name, given.data, id=given.id, by=call.by)
    return await standing(room, run_id)


async def answer(room: Room, call: Call) -> shape.RunView:
    """Answer a question; whoever is first wins, and the second is told who that was."""
    given: shape.Answer = call.body
    run_id, contract_id = await _known(room, call), call.path["contract_id"]
    said = {name: value for name, value in msgspec.to_builtins(given).items() if value not in ("", None, {})}
    if given.data is not None:
        said["data"] = given.data
    said |= {"by": call.by, "channel": "http"}
    try:
        await room.read(_check, run_id, contract_id, given)
        await room.host.answer(run_id, contract_id, said)
    except Refused:
        run = await room.host.show(run_id)  # whoever was first is on disk then
        now = run.contract(contract_id)
        decided = {} if now is not None and now.is_asking else await room.read(decision, run_id, contract_id)
        if decided:
            raise AlreadyDecided(_sentence(contract_id, decided), decided) from None
        raise
    return await standing(room, run_id)


def _check(journal: Listing, run_id: str, contract_id: str, given: shape.Answer) -> None:
    """What would be refused anyway, said before anything moves and in the words of this surface."""
    contract = load(journal, run_id).run.contract(contract_id)
    if contract is None or not contract.is_asking or contract.question is None:
        raise NotWaiting(f"contract `{contract_id}` of run {run_id} has no open question")
    is_doubt, is_use = contract.question.reason == "outcome_unknown", given.outcome == "use"
    if is_doubt and (not given.outcome or is_use):
        raise Refused(
            f"nobody knows whether `{contract_id}` has happened; say `outcome`: happened, not_happened or give_up"
        )
    if is_use and not contract.question.earlier:
        raise Refused(f"`{contract_id}` was not done before: there is no result to use; say `approved` or `data`")
    if given.outcome and not is_doubt and not is_use:
        ways = "`approved`, or `outcome: use`" if contract.question.earlier else "`approved` or `data`"
        raise Refused(f"there is no doubt about `{contract_id}`: it has not been done yet; say {ways}")
    if given.args is not None:
        found = problems(arguments_schema(contract.question.schema, contract.input), given.args, "args")
        if found:
            raise Refused("; ".join(found))


def decision(journal: Listing, run_id: str, contract_id: str) -> dict[str, Any]:
    """Who ended the question of a contract, when and how; empty when nobody ever did."""
    record = journal.record(run_id)
    found: dict[str, Any] = {}
    for seq, event, _, _ in journal.events(record.no) if record else ():
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


async def cancel(room: Room, call: Call) -> shape.RunView:
    """Stop a run and everything it has under way."""
    run_id = await _known(room, call)
    await room.host.cancel(run_id, by=call.by, reason=call.body.reason)
    return await standing(room, run_id)


async def pause(room: Room, call: Call) -> shape.RunView:
    """Pause a run: calls under way finish, nothing new starts."""
    run_id = await _known(room, call)
    if (await standing(room, run_id)).paused:
        raise Refused(f"run {run_id} is paused already")
    await room.host.hold(run_id, by=call.by)
    return await standing(room, run_id)


async def resume(room: Room, call: Call) -> shape.RunView:
    """Go on after a pause, and take up what nobody drives."""
    run_id = await _known(room, call)
    if all(one.has_ended for one in await room.read(family, run_id)):
        status = (await standing(room, run_id)).status
        raise Refused(f"run {run_id} has ended ({status}); `retry` goes on from what failed, `fork` begins a new one")
    await room.host.recover(run_id)
    now = await standing(room, run_id)
    if now.paused and not Status(now.status).is_terminal:
        await room.host.release(run_id, by=call.by)
    return await standing(room, run_id)


async def retry(room: Room, call: Call) -> shape.RunView:
    """Let a failed run go on from what failed: what had succeeded stays done."""
    run_id = await _known(room, call)
    await room.host.retry(run_id, by=call.by, id=f"http {call.body.key}" if call.body.key else "")
    return await standing(room, run_id)


async def fork(room: Room, call: Call) -> shape.Forked:
    """Begin a new run where this one was."""
    run_id = await _known(room, call)
    return await _forked(room, run_id, call.body.at, call.body.key, call.by)


async def _forked(room: Room, run_id: str, at: str, key: str, by: str) -> shape.Forked:
    def read(journal: Listing) -> tuple[Any, dict[str, Any], shape.Deeds]:
        record = journal.record(run_id)
        if record is None:
            raise Unknown(f"there is no run {run_id}")
        was = load(journal, run_id, upto=seq_at(journal, record, at))
        return was.machine, origin(was), deeds_of(journal, run_id, was.run.seq)

    machine, was, deeds = await room.read(read)
    new_id = run_id_of(f"fork {run_id} {was['seq']} {key}") if key else ""
    begun = await room.host.start(machine, {}, run_id=new_id, by=by, source=str(was["run"].get("source", "")), fork=was)
    return shape.Forked(await standing(room, begun.id), deeds)


async def _known(room: Room, call: Call) -> str:
    return (await room.find(call.path["run_id"])).summary.run_id


class Retry(shape.Asked, frozen=True):
    """Try again; a `key` makes it happen once."""

    key: shape.Name = ""
    by: shape.Name = ""


MOVED = (404, 409)
ROUTES = (
    Route("POST", "/api/runs/{run_id}/signals", signal, "Tell a run that something happened", shape.RunView,
          takes=shape.Signal, errors=MOVED),
    Route("POST", "/api/runs/{run_id}/contracts/{contract_id:path}/answer", answer, "Answer a question", shape.RunView,
          takes=shape.Answer, errors=MOVED, about="Send the `call_hash` you saw: a changed call is then refused."),
    Route("POST", "/api/runs/{run_id}/cancel", cancel, "Stop a run", shape.RunView, takes=shape.Cancel, errors=MOVED),
    Route("POST", "/api/runs/{run_id}/pause", pause, "Begin nothing new", shape.RunView, takes=shape.Who, errors=MOVED),
    Route("POST", "/api/runs/{run_id}/resume", resume, "Go on", shape.RunView, takes=shape.Who, errors=MOVED),
    Route("POST", "/api/runs/{run_id}/retry", retry, "Go on from what failed", shape.RunView,
          takes=Retry, errors=MOVED),
    Route("POST", "/api/runs/{run_id}/fork", fork, "Begin a new run where this one was", shape.Forked,
          takes=shape.Fork, status=201, errors=MOVED),
)  # fmt: skip
