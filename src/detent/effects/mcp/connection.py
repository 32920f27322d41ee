"""One server and the line to it: started when it is needed, started again when it has died, stopped with its owner.

The SDK's client must be entered and left by one task, so each connection has a task of its own that keeps it open.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from detent.core.effect_type import EffectFailed, Kind
from detent.effects.http import tls
from detent.effects.mcp.catalogue import Offer, keep, make_folder, offers
from detent.effects.mcp.config import Resolver, ServerConfig
from detent.effects.mcp.oauth_login import BrowserLogin, TokenFile, make_auth
from detent.effects.orphan_process import marks

if TYPE_CHECKING:
    from mcp.client.session import ClientSession

    from detent.effects.mcp.tool_call import PendingCall

MARK = "DETENT_MCP_OF"  # not DETENT_MCP, which names the file of a detent that is itself a server
CONNECT_S = 60.0  # npm may have to fetch a package first
LISTEN_S = 2.0  # for a server to agree that it tells what it changes
LOG_MAX = 1024 * 1024
PAGES_MAX = 100
CHANGING = ("tools", "prompts", "resources")
TOOLS_MAX = 2000


OnChange = Callable[[str, str], None]  # told the server, and what of it has changed


class WatchedTransport:
    """A transport that notices when the other side is gone."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.is_closed = False

    async def __aenter__(self) -> tuple[Any, Any]:
        read, write = await self._inner.__aenter__()
        return _Reading(read, self), write

    async def __aexit__(self, *error: Any) -> Any:
        return await self._inner.__aexit__(*error)


class _Reading:
    def __init__(self, inner: Any, line: WatchedTransport) -> None:
        self._inner, self._line = inner, line

    async def __aenter__(self) -> "_Reading":
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> Any:
        return await self._inner.__aexit__(*error)

    def __aiter__(self) -> "_Reading":
        return self

    async def __anext__(self) -> Any:
        try:
            return _mend_tools(await self._inner.__anext__())
        except BaseException:
            self._line.is_closed = True  # its end, or ours
            raise

    async def receive(self) -> Any:
        return _mend_tools(await self._inner.receive())

    async def aclose(self) -> None:
        await self._inner.aclose()

    @property
    def last_context(self) -> Any:
        return getattr(self._inner, "last_context", None)


def _mend_tools(message: Any) -> Any:
    """A list of tools, of which one without a schema would have the SDK refuse them all, takes any object there."""
    result = getattr(getattr(message, "message", None), "result", None)
    listed = result.get("tools") if isinstance(result, dict) else None
    for tool in listed if isinstance(listed, list) else ():
        if isinstance(tool, dict):
            schema = tool.get("inputSchema")
            tool["inputSchema"] = {**(schema if isinstance(schema, dict) else {}), "type": "object"}
    return message


class Connection:
    """A server that answers, its tools, and the call that is at work on it."""

    def __init__(
        self, server: ServerConfig, folder: Path, login: BrowserLogin | None = None, on_change: OnChange | None = None
    ) -> None:
        self.server, self._login, self._on_change = server, login, on_change
        self.resolver = Resolver(server.name)
        self.tools: dict[str, Offer] = {}
        self.laxest: dict[str, Kind] = {}  # by tool: the most harmless that it was ever taken for
        self.protocol, self.has_more = "", False  # more tools than are looked at
        self.limit_s = CONNECT_S
        self._is_turned_away = False  # the server wants to know first who we are
        self.turn = asyncio.Lock()  # of a server whose questions do not say which call they belong to
        self.active: PendingCall | None = None
        self.relayed: set[PendingCall] = set()  # calls of somebody else's clients that are at work
        self._folder = folder
        self._line: WatchedTransport | None = None
        self._client: Any = None
        self._stop = asyncio.Event()
        self._task: asyncio.Task[Any] | None = None
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def is_open(self) -> bool:
        """Whether a call can be sent."""
        return self._client is not None and self._line is not None and not self._line.is_closed

    @property
    def session(self) -> "ClientSession":
        """The SDK's own session."""
        session: ClientSession = self._client.session
        return session

    @property
    def client(self) -> Any:
        """The SDK's own client."""
        return self._client

    @property
    def is_modern(self) -> bool:
        """Whether a tool's question comes as a result, with everything needed to go on later."""
        return self.session.discover_result is not None

    def close(self) -> None:
        """Let the task that keeps it open end; one that has not got an answer so far is not waited for."""
        self._stop.set()
        if self._task is not None and not self.ready.done():
            self._task.cancel()

    async def keep_open(self) -> None:
        """Connect, stay, and leave when told to; what goes wrong on the way is told through `ready`."""
        self._task = asyncio.current_task()
        try:
            async with self._transport() as line, asyncio.timeout(self.limit_s) as limit:
                self._line = line
                async with self._make_client(line) as client:
                    self._client = client
                    self.protocol = client.protocol_version
                    self.tools = {offer.name: offer for offer in await self._list(client)}
                    limit.reschedule(None)
                    await self._stay(client)
        except asyncio.CancelledError:
            if not self.ready.done():
                self.ready.cancel()
            raise
        except BaseException as error:  # noqa: BLE001  # a server may break in any way; groups of errors among them
            if not self.ready.done():
                self.ready.set_exception(self._not_reached(error))
        finally:
            self._client = None

    async def _stay(self, client: Any) -> None:
        """Keep the line until it is closed, and hear of changes where somebody wants to know."""
        listening = None
        if self._on_change is not None and self.is_modern:  # an older server tells them unasked
            heard = asyncio.Event()
            listening = asyncio.create_task(self._listen(client, self._on_change, heard))
            listening.add_done_callback(lambda _task: heard.set())
        try:
            if listening is not None:  # the first call may change something already
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(heard.wait(), LISTEN_S)
            self.ready.set_result(None)
            await self._stop.wait()
        finally:
            if listening is not None:
                listening.cancel()
                await asyncio.gather(listening, return_exceptions=True)

    async def _listen(self, client: Any, on_change: OnChange, heard: asyncio.Event) -> None:
        able = client.server_capabilities
        wanted = {
            f"{what}_list_changed": True for what in CHANGING if getattr(getattr(able, what), "list_changed", False)
        }
        if wanted:
            async with client.listen(**wanted) as events:
                heard.set()
                async for event in events:
                    on_change(self.server.name, type(event).__name__)

    async def _hear(self, message: Any) -> None:
        name = type(message).__name__
        if self._on_change is not None and name.endswith("ListChangedNotification") and not self.is_modern:
            self._on_change(self.server.name, name)

    async def refresh(self) -> None:
        """Ask the server again what it offers."""
        self.tools = {offer.name: offer for offer in await self._list(self._client)}

    def _make_client(self, line: WatchedTransport) -> Any:
        from mcp import Client  # noqa: PLC0415  # takes a while to load
        from mcp.types import Implementation  # noqa: PLC0415

        about = Implementation(name="detent", version="0")
        return Client(
            line,
            mode=self.server.protocol,
            client_info=about,
            elicitation_callback=self._elicit,
            message_handler=self._hear,
            cache=None,
        )

    @contextlib.asynccontextmanager
    async def _transport(self) -> AsyncIterator[WatchedTransport]:
        server = self.server
        if server.url:
            import httpx2  # noqa: PLC0415
            from mcp.client.streamable_http import streamable_http_client  # noqa: PLC0415

            limits = httpx2.Timeout(None, connect=10.0)
            headers = self.resolver.texts(server.headers)
            url = self.resolver.text(server.url)
            tokens = TokenFile(self._folder, server.name, self.resolver.know)
            is_known = self._login is not None or tokens.is_there
            auth = make_auth(url, tokens, self._login) if is_known else None
            hooks: Any = {"response": [self._note_status]}
            made = httpx2.AsyncClient(headers=headers, verify=tls(), timeout=limits, auth=auth, event_hooks=hooks)
            async with made as client:
                yield WatchedTransport(streamable_http_client(url, http_client=client))
            return
        from mcp.client.stdio import StdioServerParameters, stdio_client  # noqa: PLC0415

        parameters = StdioServerParameters(
            command=self.resolver.text(server.command),
            args=[self.resolver.text(one) for one in server.args],
            env={**self.resolver.texts(server.env), **marks(str(self._folder.absolute()), MARK)},
            cwd=self.resolver.text(server.cwd) or None,
            encoding_error_handler="replace",
        )
        with open_log(self._folder, server.name) as log:
            yield WatchedTransport(stdio_client(parameters, errlog=log))

    async def _list(self, client: Any) -> tuple[Offer, ...]:
        if client.server_capabilities.tools is None:
            return ()
        found: list[Any] = []
        cursor: str | None = None
        for _ in range(PAGES_MAX):
            page = await client.list_tools(cursor=cursor)
            found += page.tools
            cursor = page.next_cursor
            if not cursor or len(found) >= TOOLS_MAX:
                break
        self.has_more = bool(cursor) or len(found) > TOOLS_MAX
        tools = offers(self.server.name, found[:TOOLS_MAX])
        self.laxest = keep(self._folder, self.server, tools)
        return tools

    async def _note_status(self, response: Any) -> None:
        self._is_turned_away = response.status_code == 401

    def _not_reached(self, error: BaseException) -> EffectFailed:
        """Why there is no connection: nothing was called, so nothing happened."""
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        if isinstance(error, EffectFailed):
            return error
        name = self.server.name
        if isinstance(error, FileNotFoundError):
            return EffectFailed(
                f"server `{name}`: there is no program `{self.server.command}`", "tool_failure.not_found"
            )
        if isinstance(error, TimeoutError):
            return EffectFailed(f"server `{name}` did not answer within {self.limit_s:g} s", "timeout.action")
        said = self.resolver.hide(str(error) or type(error).__name__)
        if self._is_turned_away:
            wanted = f"server `{name}` wants to know who you are; log in with `detent mcp login {name}`"
            return EffectFailed(wanted, "tool_failure.unavailable")
        log = "" if self.server.url else f"; what it said itself is in {self._folder / (name + '.log')}"
        return EffectFailed(f"server `{name}` cannot be reached: {said}{log}", "tool_failure.unavailable")

    async def _elicit(self, context: Any, params: Any) -> Any:  # noqa: ARG002
        """A tool asks a person, and its call is waiting on this line: the only one that is not waiting already.

        Of several calls that are passed on, nobody can tell which one asks: then nobody is asked.
        """
        from mcp.types import ElicitResult  # noqa: PLC0415

        asking = self.active or (next(iter(self.relayed)) if len(self.relayed) == 1 else None)
        return await asking.elicit(params) if asking is not None else ElicitResult(action="cancel")


@contextlib.contextmanager
def open_log(folder: Path, name: str) -> Any:
    """Where a server's stderr goes; the last one is kept beside it when it has grown."""
    make_folder(folder)
    path = folder / f"{name}.log"
    if path.exists() and path.stat().st_size > LOG_MAX:
        os.replace(path, path.with_suffix(".old.log"))
    number = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    with os.fdopen(number, "a", encoding="utf-8", errors="replace") as log:
        yield log
