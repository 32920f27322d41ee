"""A desk at a running server: guarded functions of a program that knows the journal by an address only.

The program keeps one stream open, on which the server passes on what the holder of the journal says to it, and answers
each line with a request of its own (`effects/remote_function` has the words). Whoever has the stream is there; a
program whose stream breaks is gone, and comes back under its name with what it knows.
"""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec

from detent.core.identity import By, identity_of
from detent.core.run import Run
from detent.effects.http import tls
from detent.effects.remote_function import CallingProgram, Reply
from detent.effects.remote_function_socket import ProgramTalk
from detent.errors import CallNotDone, DetentError, JournalError, NotPermitted, NotWaiting, Refused, Unknown
from detent.guarding.call_journal import CallOrder
from detent.guarding.tool_machine import ToolTerms

PATH = "/api/callers"
POLL_S = 20.0  # so long does one request wait for news
CANCEL_S = 0.5  # so long is a cancellation given before it is said again
PATIENCE_S = 60.0  # so long may a server be away
PAUSE_S = 0.2
T = TypeVar("T")


class CallRequest(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A call that a program wants to make, as a server is told."""

    run_id: str
    terms: ToolTerms
    input: dict[str, Any]
    settle_s: float = 0.0
    session: str = ""
    call_id: str = ""
    by: str = ""
    is_known: bool = False  # it was begun before


class CallStanding(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a server says of a call: the run it is, or why it is not made."""

    run: Any = None
    run_id: str = ""
    is_settled: bool = False
    error: str = ""
    type: str = ""


class ProgramLine(msgspec.Struct, frozen=True):
    """One line of the journal's holder to a program: `talk` is the number of their conversation."""

    talk: int
    said: dict[str, Any]


@contextlib.asynccontextmanager
async def open_server_desk(address: str, token: str, program: CallingProgram) -> AsyncIterator[tuple[Any, None]]:
    """A desk at the server of that address, for the functions of this process."""
    try:
        import httpx2  # noqa: PLC0415
    except ImportError:
        raise Refused("a guard at a server's address needs the package httpx2: pip install 'detent[client]'") from None
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    limits = httpx2.Timeout(POLL_S * 2, connect=10.0)
    async with httpx2.AsyncClient(base_url=address, headers=headers, verify=tls(), timeout=limits) as client:
        desk = ServerDesk(client, address, program)
        await desk.open()
        try:
            yield desk, None
        finally:
            await desk.close()


class ServerDesk:
    """The desk of one program at a server."""

    def __init__(self, client: Any, address: str, program: CallingProgram) -> None:
        self._client, self._address, self._program = client, address, program
        self._path = f"{PATH}/{secrets.token_hex(16)}"
        self._talks: dict[int, ProgramTalk] = {}
        self._replying: set[asyncio.Task[None]] = set()
        self._listening: asyncio.Task[None] | None = None
        self._is_there = asyncio.Event()
        self._problem: DetentError | None = None
        self._is_leaving = False

    async def open(self) -> None:
        """Go there; a server that cannot be reached or does not let us in is told at once."""
        first: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._listening = asyncio.create_task(self._listen(first))
        await first

    async def close(self) -> None:
        """Leave; replies under way are sent first."""
        if self._replying:
            await asyncio.wait(self._replying, timeout=PATIENCE_S)
        self._is_leaving = True
        while self._listening is not None and not self._listening.done():
            self._listening.cancel()
            await asyncio.wait({self._listening}, timeout=CANCEL_S)

    # what the holder of the journal says

    async def _listen(self, first: "asyncio.Future[None]") -> None:
        """Keep the stream open, and open it again when it breaks."""
        import httpx2  # noqa: PLC0415

        # `cancel` alone may not end this: where anyio cancels something of its own in the same turn of the loop (a read
        # whose time is over, the slower of two ways to connect), both are one exception, which anyio took for its own
        # up to 4.14 (issue 1214 there). The line is then broken, or open, as if nobody had cancelled.
        while not self._is_leaving:
            try:
                limits = httpx2.Timeout(POLL_S * 3, connect=10.0)
                async with self._client.stream("GET", f"{self._path}/lines", timeout=limits) as response:
                    if response.status_code != 200:
                        await response.aread()
                        raise self._read_trouble(response)
                    await self._hear(response, first)
            except DetentError as error:
                self._problem = error
            except (httpx2.HTTPError, httpx2.StreamError) as error:
                self._problem = JournalError(f"the server at {self._address} cannot be reached: {error}")
            self._is_there.clear()
            self._talks.clear()  # they were with the stream; what was made is remembered by the program itself
            if not first.done():
                first.set_exception(self._problem or JournalError(f"{self._address} does not talk to programs"))
                return
            await asyncio.sleep(PAUSE_S)

    async def _hear(self, response: Any, first: "asyncio.Future[None]") -> None:
        async for line in response.aiter_lines():
            if self._is_leaving:
                return
            if not line.startswith("data: "):
                continue
            told = msgspec.json.decode(line.removeprefix("data: "), type=ProgramLine)
            if not told.talk:  # the server is ready for us
                self._is_there.set()
                if not first.done():
                    first.set_result(None)
                continue
            task = asyncio.create_task(self._reply(told))
            self._replying.add(task)
            task.add_done_callback(self._replying.discard)

    async def _reply(self, told: ProgramLine) -> None:
        talk = self._talks.get(told.talk)
        if talk is None:
            talk = self._talks[told.talk] = ProgramTalk(self._program)
            is_ready, reply = await talk.hear(told.said)
            if not is_ready:
                del self._talks[told.talk]
        else:
            reply = await talk.go()
            self._talks.pop(told.talk, None)
        with contextlib.suppress(DetentError):  # the holder asks again, and is told what is remembered here
            await self._send(f"{self._path}/lines/{told.talk}", {"said": reply}, _shorten(reply))

    # what this program wants

    async def find_run_id(self, order: CallOrder) -> str:
        """The run of a call: the one that has it under way in this session, else a new one."""
        if known := order.known_run_id:
            return known
        return (await self._ask(f"{self._path}/find", _write(order, ""))).run_id

    async def begin(self, run_id: str, order: CallOrder) -> Run:
        """Begin a run, or join the one that is there."""
        return _read_run(await self._ask(f"{self._path}/calls", _write(order, run_id)))

    async def await_settled(self, run_id: str) -> Run:
        """Wait until a run has ended, or waits."""
        while True:
            found = await self._get(f"{self._path}/calls/{quote(run_id)}", wait="settled")
            if found.is_settled:
                return _read_run(found)

    async def await_move(self, run: Run) -> None:
        """Wait until something more has happened to a run."""
        while True:
            found = await self._get(f"{self._path}/calls/{quote(run.id)}", wait="moved", after=run.seq)
            if found.is_settled:
                return

    async def probe(self, run_id: str, contract_id: str) -> bool:
        """Have an approved call made now, or a doubt cleared by who knows; whether that was possible."""
        await self._await_server()
        said = {"contract_id": contract_id}
        return (await self._ask(f"{self._path}/calls/{quote(run_id)}/probe", said)).is_settled

    async def answer(self, run_id: str, contract_id: str, answer: Mapping[str, Any], by: By) -> None:
        """Answer what a call waits for."""
        said = {**answer, "by": identity_of(by).name}
        path = f"/api/runs/{quote(run_id)}/contracts/{quote(contract_id)}/answer"
        await self._send(path, {name: value for name, value in said.items() if value not in ("", None)})

    async def leave(self, run_id: str) -> None:
        """This program has not made that run's call, and does not wait for it any more; or all is over."""
        with contextlib.suppress(DetentError):
            await self._send(f"{self._path}/calls/{quote(run_id)}/leave", {})

    # requests

    async def _ask(self, path: str, body: Any) -> CallStanding:
        return _read_standing(await self._send(path, body))

    async def _get(self, path: str, **query: Any) -> CallStanding:
        async def get() -> Any:
            return await self._client.get(path, params={**query, "seconds": POLL_S})

        return _read_standing(await self._insist(get))

    async def _send(self, path: str, body: Any, shorter: Any = None) -> bytes:
        async def post() -> Any:
            answer = await self._client.post(path, content=msgspec.json.encode(body), headers=JSON)
            if answer.status_code == 413 and shorter is not None:
                answer = await self._client.post(path, content=msgspec.json.encode(shorter), headers=JSON)
            return answer

        return await self._insist(post)

    async def _insist(self, request: Callable[[], Awaitable[Any]]) -> bytes:
        """What the server answers; one that is away for a while is asked again. Every request may be made twice."""
        import httpx2  # noqa: PLC0415

        until = asyncio.get_running_loop().time() + PATIENCE_S
        while True:
            try:
                answer = await request()
                if answer.status_code not in AWAY:
                    break
            except (httpx2.HTTPError, httpx2.StreamError) as error:
                self._problem = JournalError(f"the server at {self._address} cannot be reached: {error}")
                answer = None
            if asyncio.get_running_loop().time() > until:
                raise self._problem or self._read_trouble(answer)
            await asyncio.sleep(PAUSE_S)
            await self._await_server()
        if answer.status_code >= 300:
            raise self._read_trouble(answer)
        content: bytes = answer.content
        return content

    async def _await_server(self) -> None:
        """A server that was away must know this program again before anything is asked of it."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._is_there.wait(), PATIENCE_S)

    def _read_trouble(self, answer: Any) -> DetentError:
        try:
            said = msgspec.json.decode(answer.content, type=dict[str, Any])["error"]
            kind, message = str(said["type"]), str(said["message"])
        except (msgspec.MsgspecError, KeyError, TypeError, AttributeError):
            return Refused(f"{self._address} is not a detent server, or is an older one")
        if answer.status_code == 401:
            return NotPermitted(f"{self._address}: {message} (say `token=` to `detent.guard`, or set DETENT_TOKEN)")
        return ERRORS.get(kind, Refused)(message)


JSON = {"Content-Type": "application/json"}
AWAY = (425, 429, 500, 502, 503, 504)  # it does not know us yet, stops, or is behind something that waits for it
ERRORS: dict[str, Callable[[str], DetentError]] = {
    "unknown": Unknown,
    "not_waiting": NotWaiting,
    "already_decided": NotWaiting,
    "not_permitted": NotPermitted,
    "journal_error": JournalError,
}


def _write(order: CallOrder, run_id: str) -> CallRequest:
    return CallRequest(run_id, order.terms, order.input, order.settle_s, order.session, order.call_id,
                       identity_of(order.by).name, bool(order.run_id))  # fmt: skip


def _read_standing(content: bytes) -> CallStanding:
    found = msgspec.json.decode(content, type=CallStanding)
    if found.error:
        raise CallNotDone(found.error, run_id=found.run_id, type=found.type)
    return found


def _read_run(found: CallStanding) -> Run:
    return msgspec.convert(found.run, Run)


def _shorten(reply: Reply) -> Any:
    """What is said of a result that is too large for the server: that there was one."""
    result = reply.get("result")
    if not isinstance(result, dict):
        return None
    return {"said": {"result": {name: {"not_kept": "it is larger than the server takes"} for name in result}}}
