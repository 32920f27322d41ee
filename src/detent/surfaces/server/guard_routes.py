"""Addresses for programs with guarded functions that know this server only: `detent.guard("http://…")`.

A program opens a stream, and as long as it is open a socket stands for it in `callers` of the home, as for a program of
this machine. What the holder of the journal says there is passed on, and the program's replies are passed back. A
program is told apart by its own secret name and by who sends it: nobody can reply in another's place.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta
from starlette.responses import Response

from detent.core.machine_check import is_effect_name
from detent.core.run import Run
from detent.core.value import digest
from detent.effects.remote_function import CALLER_MARK, Reply
from detent.effects.remote_function_socket import ProgramSocket
from detent.errors import CallNotDone, Refused, Unknown
from detent.guarding.call_journal import CallOrder, JournalDesk
from detent.guarding.remote_call_journal import PATH, CallRequest, CallStanding, ProgramLine
from detent.guarding.tool_machine import build_tool_machine
from detent.kit.http.http_error import BadRequest
from detent.kit.http.request_base import Asked
from detent.kit.http.route import HttpCall, Route
from detent.kit.http.sse import BEAT, Stream
from detent.surfaces.server.requester import visitor_of
from detent.surfaces.server.server_context import HttpServer

PROGRAMS = "callers"  # where the room keeps them
PROGRAMS_MAX = 500
NAME_MIN = 16
TOO_EARLY = 425
LOOK_S = 0.5  # how often a program with nothing to hear is told whether the server goes on
READY = ProgramLine(0, {})


class LineReply(Asked, frozen=True):
    """What a program says to the holder of the journal."""

    said: dict[str, Any]


class ProbedContract(Asked, frozen=True):
    """Which call of a run is offered once more, or asked about."""

    contract_id: Annotated[str, Meta(min_length=1, max_length=200)]


class CallQuery(Asked, frozen=True):
    """How long to wait, and for what."""

    wait: Literal["settled", "moved"] = "settled"
    after: Annotated[int, Meta(ge=0)] = 0
    seconds: Annotated[float, Meta(ge=0, le=30)] = 0.0


class RemoteTalk:
    """One conversation of the holder with a program that is elsewhere."""

    def __init__(self, program: "RemoteProgram") -> None:
        self._program, self.number = program, secrets.randbits(52) + 1
        self._replies: asyncio.Queue[Reply] = asyncio.Queue()

    async def hear(self, said: Reply) -> tuple[bool, Reply]:
        """Whether the program is ready for what the holder wants, and its words."""
        self._program.talks[self.number] = self
        try:
            reply = await self._pass_on(said)
        except BaseException:
            self._program.talks.pop(self.number, None)
            raise
        if "ready" not in reply:
            self._program.talks.pop(self.number, None)
        return "ready" in reply, reply

    async def go(self) -> Reply:
        """What comes of it, once the holder has said go."""
        try:
            reply = await self._pass_on({"go": 1})
            while "ready" in reply:  # a reply that was sent twice
                reply = await self._replies.get()
            return reply
        finally:
            self._program.talks.pop(self.number, None)

    async def _pass_on(self, said: Reply) -> Reply:
        self._program.outbox.put_nowait(ProgramLine(self.number, said))
        return await self._replies.get()

    def take(self, reply: Reply) -> None:
        """The program has replied."""
        self._replies.put_nowait(reply)


class RemoteProgram(ProgramSocket):
    """Stands in the home for a program that is elsewhere, as long as its stream is open."""

    def __init__(self, room: HttpServer, name: str) -> None:
        super().__init__(room.home, name)
        self.outbox: asyncio.Queue[ProgramLine] = asyncio.Queue()
        self.talks: dict[int, RemoteTalk] = {}
        self.desk = JournalDesk(room.host, self)

    def _begin_talk(self) -> RemoteTalk:
        return RemoteTalk(self)


def _programs(room: HttpServer) -> dict[str, RemoteProgram]:
    found: dict[str, RemoteProgram] = room.extras.setdefault(PROGRAMS, {})
    return found


def _name(call: HttpCall) -> str:
    """The program's place in the home: its own secret and who sends it."""
    said = call.path["program"]
    if len(said) < NAME_MIN or len(said) > 100:
        raise BadRequest(f"the name of a program has {NAME_MIN} to 100 letters that nobody can guess")
    who = visitor_of(call.request).who  # not `by`, which may name whom the caller speaks for
    return digest(["" if who is None else who.name, said])[:16]


def _find_program(room: HttpServer, call: HttpCall) -> RemoteProgram:
    found = _programs(room).get(_name(call))
    if found is None:
        raise BadRequest("this program has no stream open here; open it first", TOO_EARLY)
    return found


async def lines(room: HttpServer, call: HttpCall) -> Response:
    """What the holder of the journal says to a program, as long as it listens."""
    programs, name = _programs(room), _name(call)
    if len(programs) >= PROGRAMS_MAX and name not in programs:
        raise BadRequest(f"{PROGRAMS_MAX:,} programs are here already, which is the most this server takes", 429)
    return Stream(room, _stay(room, programs, name))


async def _stay(room: HttpServer, programs: dict[str, RemoteProgram], name: str) -> AsyncIterator[bytes]:
    before = programs.pop(name, None)
    if before is not None:  # it has come back before we noticed that it was gone
        await before.close()
    program = RemoteProgram(room, name)
    await program.open()
    programs[name] = program
    try:
        yield _encode(READY)
        silent_s = 0.0
        while not room.is_closing:
            try:
                async with asyncio.timeout(LOOK_S):
                    line = await program.outbox.get()
            except TimeoutError:
                silent_s += LOOK_S
                yield BEAT if silent_s >= room.settings.limits.heartbeat_seconds else b""
                silent_s %= room.settings.limits.heartbeat_seconds
            else:
                yield _encode(line)
    finally:
        if programs.get(name) is program:
            del programs[name]
        await program.close()


def _encode(line: ProgramLine) -> bytes:
    """A line as it is: the program is asked to make this very call."""
    return b"data: %s\n\n" % msgspec.json.encode(line)


async def reply(room: HttpServer, call: HttpCall) -> CallStanding:
    """Pass a program's reply to the holder."""
    talk = _find_program(room, call).talks.get(_number(call.path["talk"]))
    if talk is None:
        raise Unknown("nobody waits for that reply any more")
    talk.take(call.body.said)
    return CallStanding()


def _number(said: str) -> int:
    return int(said) if said.isascii() and said.isdecimal() and len(said) < 20 else 0


async def find(room: HttpServer, call: HttpCall) -> CallStanding:
    """The id that a call has, or will have."""
    run_id = await _find_program(room, call).desk.find_run_id(_read_order(call))
    return CallStanding(run_id=run_id)


async def begin(room: HttpServer, call: HttpCall) -> CallStanding:
    """Begin a call, or join the one that is under way."""
    program, order = _find_program(room, call), _read_order(call)
    run_id = call.body.run_id
    known = await room.ask(room.reader.summary, run_id) if room.reader.has_runs() else None
    if known is not None and not known.source.startswith(f"{CALLER_MARK}{order.tool} "):
        raise Refused(f"run {run_id} is not a call of `{order.tool}`")
    try:
        return _show(await program.desk.begin(run_id, order))
    except CallNotDone as error:
        return CallStanding(run_id=error.run_id, error=str(error), type=error.type)


def _read_order(call: HttpCall) -> CallOrder:
    """A call as a program asks for it; the machine is made here, so that it can be nothing but one call."""
    given: CallRequest = call.body
    if not is_effect_name(given.terms.name):
        raise BadRequest(f"{given.terms.name!r} cannot be the name of a tool; take one such as `bank.pay`", 422)
    if not isinstance(given.input.get("args"), dict) or given.settle_s < 0:
        raise BadRequest("a call has `args`, a mapping, and no negative times", 422)
    machine = build_tool_machine(given.terms)
    run_id = given.run_id if given.is_known else ""
    return CallOrder(given.terms, machine, given.input, given.settle_s, given.session, given.call_id, call.by, False,
                     run_id)  # fmt: skip


async def show(room: HttpServer, call: HttpCall) -> CallStanding:
    """Where a call stands, after waiting a while for news."""
    program, run_id, query = _find_program(room, call), await _find_run(room, call), call.query
    try:
        async with asyncio.timeout(query.seconds):
            if query.wait == "settled":
                return _show(await program.desk.await_settled(run_id), is_settled=True)
            run = await room.host.show(run_id)
            await program.desk.await_move(msgspec.structs.replace(run, seq=min(run.seq, query.after)))
    except TimeoutError:
        return CallStanding(run_id=run_id)
    return CallStanding(run_id=run_id, is_settled=True)


async def probe(room: HttpServer, call: HttpCall) -> CallStanding:
    """Have an approved call made by this program, or a doubt cleared by what it knows."""
    program, run_id = _find_program(room, call), await _find_run(room, call)
    return CallStanding(run_id=run_id, is_settled=await program.desk.probe(run_id, call.body.contract_id))


async def leave(room: HttpServer, call: HttpCall) -> CallStanding:
    """A program does not wait for a call any more."""
    program, run_id = _find_program(room, call), await _find_run(room, call)
    await program.desk.leave(run_id)
    return CallStanding(run_id=run_id)


async def _find_run(room: HttpServer, call: HttpCall) -> str:
    run_id = call.path["run_id"]
    known = await room.ask(room.reader.summary, run_id)
    if known is None or not known.source.startswith(CALLER_MARK):
        raise Unknown(f"there is no call `{run_id[:100]}`")
    return run_id


def _show(run: Run, *, is_settled: bool = False) -> CallStanding:
    return CallStanding(run=msgspec.to_builtins(run), run_id=run.id, is_settled=is_settled)


TAG, ONE = "callers", PATH + "/{program}"
ROUTES = (
    Route("GET", f"{ONE}/lines", lines, "What the holder of the journal says to a program", kind="stream", tag=TAG,
          needs="start", about="For `detent.guard` with a server's address. While it is open, the program is there."),
    Route("POST", ONE + "/lines/{talk}", reply, "A program's reply", CallStanding, takes=LineReply, tag=TAG,
          needs="start", errors=(404, TOO_EARLY)),
    Route("POST", f"{ONE}/find", find, "The run of a call", CallStanding, takes=CallRequest, tag=TAG, needs="start",
          errors=(404, TOO_EARLY)),
    Route("POST", f"{ONE}/calls", begin, "Begin or join a call of a guarded function", CallStanding, takes=CallRequest,
          tag=TAG, needs="start", errors=(404, TOO_EARLY), about="The program itself makes the call when told."),
    Route("GET", ONE + "/calls/{run_id}", show, "Where a call stands", CallStanding, query=CallQuery, tag=TAG,
          needs="start", errors=(404, TOO_EARLY)),
    Route("POST", ONE + "/calls/{run_id}/probe", probe, "Offer an approved call to this program", CallStanding,
          takes=ProbedContract, tag=TAG, needs="start", errors=(404, TOO_EARLY)),
    Route("POST", ONE + "/calls/{run_id}/leave", leave, "A program no longer waits for a call", CallStanding,
          tag=TAG, needs="start", errors=(404, TOO_EARLY)),
)  # fmt: skip
