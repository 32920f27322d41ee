"""The gateway: every tool of the folder's MCP servers, offered again behind contracts to any MCP client.

A harmless call goes through, and is in the journal. One that cannot be taken back is answered at once with the question
and where to answer it; made again after the decision, it gives the result. The client itself decides nothing, unless
the operator has said `mcp_may_approve_irreversible`, and never what is for certain people or must be signed.
"""

import asyncio
import contextlib
import json
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from functools import partial
from typing import Any, NamedTuple

from mcp import MCPError, types
from mcp.server.lowlevel import Server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.subscriptions import PromptsListChanged, ResourcesListChanged, ToolsListChanged

from detent.core.effect_type import EffectFailed, OutcomeUnknown, PartialFailure
from detent.core.identity import Identity
from detent.effects.mcp import Offer, ServerConfig, Servers, kind_of
from detent.errors import AlreadyDone, CallNotDone, DetentError, Waiting
from detent.guarding import FunctionGuard
from detent.kit.safe_text import call_lines, visible
from detent.surfaces.mcp.client_session import ClientLine, PausedCalls
from detent.surfaces.mcp.passed_reading import PassedReading, make_names
from detent.surfaces.mcp.tool_pin import Pins, ToolPin, pin_of, tell_change

OPENING_S = 8.0  # clients give up on a server after ten seconds, and servers may have to be fetched first
LISTENING_MAX = 100  # older clients that are told of changes
INSTRUCTIONS = (
    "Tools of several servers, behind contracts. A call that cannot be taken back is answered with a question for a "
    "person and where it is answered: tell your user, and make exactly the same call again after the decision. "
    "Do not change the arguments to get around a question."
)
DECISION = {
    "type": "object",
    "properties": {"approve": {"type": "boolean", "title": "Do it?", "description": "Yes: exactly as shown."}},
    "required": ["approve"],
}
CHANGES: dict[str, tuple[Any, Any]] = {  # by how a server's word for it begins
    "Tool": (ToolsListChanged, types.ToolListChangedNotification),
    "Prompt": (PromptsListChanged, types.PromptListChangedNotification),
    "Resource": (ResourcesListChanged, types.ResourceListChangedNotification),
}
_COMPLETE = {"resultType": "complete"}  # what an older server does not say of its result
_client: ContextVar[ClientLine] = ContextVar("client")  # whose call this is


class ToolReported(PartialFailure):
    """The tool ran and reported an error; `reply` is what it said, for the client."""

    def __init__(self, message: str, reply: types.CallToolResult) -> None:
        super().__init__(message)
        self.reply = reply


class OfferedTool(NamedTuple):
    """A tool as the gateway offers it."""

    name: str  # for clients
    effect: str  # for policies and the journal
    server: ServerConfig
    offer: Offer
    pin: ToolPin
    call: Callable[..., Awaitable[Any]]

    @property
    def is_changed(self) -> bool:
        """Whether its server says something else of it than what is believed."""
        return not self.pin.fits(self.offer)


class Gateway:
    """One MCP server in front of all the others."""

    def __init__(
        self,
        guard: FunctionGuard,
        servers: Servers,
        configs: dict[str, ServerConfig],
        pins: Pins,
        *,
        page: str = "",
        may_approve: bool = False,
    ) -> None:
        self._guard, self._servers, self._configs, self._pins = guard, servers, configs, pins
        self._page, self._may_approve = page, may_approve
        self._tools: dict[str, OfferedTool] = {}
        self.problems: dict[str, str] = {}  # servers that could not be asked, and why
        self._accept = self._guard_pins()
        self._reading = PassedReading(servers, configs)
        self._bus = InMemorySubscriptionBus()  # clients that listen for changes,
        self._older: OrderedDict[str, Any] = OrderedDict()  # and older ones, which are told unasked: by session
        self._telling: set[asyncio.Task[None]] = set()
        self._paused = PausedCalls()
        servers.on_change = self._note_change
        self.server: Server[Any] = Server(
            "detent-gateway",
            instructions=INSTRUCTIONS,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._reading.list_resources,
            on_list_resource_templates=self._reading.list_templates,
            on_read_resource=self._reading.read_resource,
            on_list_prompts=self._reading.list_prompts,
            on_get_prompt=self._reading.get_prompt,
            on_completion=self._reading.complete,
            on_subscriptions_listen=ListenHandler(self._bus),
        )

    async def open(self) -> None:
        """Find out what there is to offer; a server that takes long is offered when it has answered."""
        # Asked now, and not remembered: what a server says today is what is compared with the pins.
        asked = {server: asyncio.ensure_future(self._servers.open_line(server)) for server in self._configs}
        await asyncio.wait(asked.values(), timeout=OPENING_S)
        offers: dict[tuple[str, str], Offer] = {}
        for server, answer in asked.items():
            if not answer.done():
                self.problems[server] = f"server `{server}` has not answered yet; its tools are offered when it has"
                answer.add_done_callback(partial(self._note_late, server))
                continue
            if isinstance(error := answer.exception(), EffectFailed):
                self.problems[server] = str(error)
                continue
            line = answer.result()
            if line.has_more:
                self.problems[server] = f"server `{server}` has more tools than {len(line.tools)}; these are offered"
            offers |= {(server, offer.name): offer for offer in line.tools.values()}
        self._offer_all(offers)

    def _offer_all(self, offers: dict[tuple[str, str], Offer]) -> None:
        """Offer exactly these tools; one that is as it was stays, for it may be at work."""
        before = {(one.server.name, one.offer.name): one for one in self._tools.values()}
        self._tools = {}
        for name, (server, tool) in make_names(offers).items():
            offer, known = offers[server, tool], before.get((server, tool))
            if known is None or known.offer != offer or known.name != name:
                self._guard.tools.pop(f"{server}.{tool}", None)
                known = self._offer(name, self._configs[server], offer)
            self._tools[name] = known
        self._pins.keep()

    def _note_late(self, server: str, answer: "asyncio.Future[Any]") -> None:
        if not answer.cancelled() and answer.exception() is None:
            self.problems.pop(server, None)
            for what in CHANGES:
                self._note_change(server, what)

    def _note_change(self, server: str, what: str) -> None:
        task = asyncio.ensure_future(self._tell_change(server, what))
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def _tell_change(self, server: str, what: str) -> None:
        """A server offers something else now: look, and tell every client that it does."""
        event, notice = next(told for name, told in CHANGES.items() if what.startswith(name))
        with contextlib.suppress(EffectFailed, MCPError):
            if event is ToolsListChanged:
                line = await self._servers.open_line(server)
                await line.refresh()
                kept = {(t.server.name, t.offer.name): t.offer for t in self._tools.values() if t.server.name != server}
                self._offer_all(kept | {(server, offer.name): offer for offer in line.tools.values()})
            self._reading.forget()
            await self._bus.publish(event())
            for session in list(self._older.values()):
                await session.send_notification(notice())

    def _offer(self, name: str, server: ServerConfig, offer: Offer) -> OfferedTool:
        effect, said, kind = f"{server.name}.{offer.name}", server.tool(offer.name), kind_of(server, offer)
        limit_s = said.timeout_s or server.timeout_s

        async def call(**arguments: Any) -> Any:
            client = _client.get()
            try:
                async with asyncio.timeout(limit_s) as limit:
                    ask = client.ask_without(limit, limit_s)
                    reply = await self._servers.relay(server.name, offer.name, arguments, client.say, ask)
            except TimeoutError:
                raise OutcomeUnknown(
                    f"`{effect}` did not answer within {limit_s:g} s; the call had been sent"
                ) from None
            if reply.get("isError"):
                failed = types.CallToolResult.model_validate(reply)
                raise ToolReported(_text(failed) or f"`{effect}` reported an error", failed)
            return reply

        call.__doc__ = offer.description
        key = (lambda **given: [given.get(one) for one in said.key]) if said.key else None
        decorate = self._guard.tool(effect, effect=kind, key=key, scope=said.scope, settle_s=0.0, budget=said.budget)
        return OfferedTool(name, effect, server, offer, self._pins.find(effect, offer), decorate(call))

    def _guard_pins(self) -> Callable[..., Awaitable[Any]]:
        """Believing a server's new words about a tool is itself a call that a person is asked about."""

        def write(tool: str, now: str, before: str) -> str:
            return (
                f"The server of `{tool}` describes it otherwise than before, and models obey descriptions.\n"
                f"before: {before}\nnow: {now}\nBelieve the new one?"
            )

        @self._guard.tool("mcp.pin", effect="idempotent", ask=write)
        async def accept(tool: str, now: str, before: str) -> str:  # noqa: ARG001
            offered = next(one for one in self._tools.values() if one.effect == tool)
            self._pins.put(tool, pin_of(offered.offer))
            return now

        return accept

    # tools

    async def _list_tools(self, ctx: Any, __: Any) -> types.ListToolsResult:
        if getattr(ctx.session, "client_params", None) is not None and ctx.session.can_send_request:
            self._older[_name_session(ctx)] = ctx.session
            while len(self._older) > LISTENING_MAX:
                self._older.popitem(last=False)
        shown = []
        for tool in self._tools.values():
            hints = tool.offer.hints
            notes = types.ToolAnnotations(
                read_only_hint=hints.read_only,
                destructive_hint=hints.destructive,
                idempotent_hint=hints.idempotent,
                open_world_hint=hints.open_world,
            )
            pin = tool.pin
            shown.append(types.Tool(
                name=tool.name, title=pin.title or None, description=pin.description,
                input_schema=pin.schema or {"type": "object"}, output_schema=pin.output or None, annotations=notes,
            ))  # fmt: skip
        return types.ListToolsResult(tools=shown)

    async def _call_tool(self, ctx: Any, params: types.CallToolRequestParams) -> Any:
        tool = self._tools.get(params.name)
        if tool is None:
            return _fail(f"there is no tool `{visible(params.name)}` here")
        given, session, mark = dict(params.arguments or {}), _name_session(ctx), params.request_state
        call = (params.name, given, session)
        if mark is not None and self._paused.find(mark, call):
            return await self._paused.go_on(ctx, mark, params.input_responses)
        client = ClientLine(ctx)
        work = self._make_call(client, tool, given, session)
        return await (self._paused.begin(client, work, call) if client.may_come_back else work)

    async def _make_call(self, client: ClientLine, tool: OfferedTool, given: dict[str, Any], session: str) -> Any:
        token = _client.set(client)
        try:
            return await self._call(client, tool, given, session)
        except (EffectFailed, PartialFailure, OutcomeUnknown, DetentError, TypeError) as error:
            return _fail(visible(str(error), keep="\n"))
        finally:
            _client.reset(token)

    async def _call(self, client: ClientLine, tool: OfferedTool, given: dict[str, Any], session: str) -> Any:
        asked = None
        for _ in range(2):
            try:
                if tool.is_changed:
                    tool = await self._ask_about_change(tool)
                call = self._guard.options(tool.call, waiting="raise", session=session, by=session)
                return {**_COMPLETE, **await call(**given)}
            except Waiting as waiting:
                if asked is not None or not await self._ask_user(client, waiting):
                    return self._describe_waiting(waiting)
                asked = waiting  # decided just now: the same call again
            except AlreadyDone as done:
                return _describe_done(done)
            except ToolReported as failed:
                return failed.reply
            except CallNotDone as error:
                return _fail(f"{error} (run {error.run_id})" if error.run_id else str(error))
        return _fail("it could not be decided")

    async def _ask_about_change(self, tool: OfferedTool) -> OfferedTool:
        accept = self._guard.options(self._accept, waiting="raise", call_id=f"{tool.effect} {pin_of(tool.offer).mark}")
        now, before = tell_change(pin_of(tool.offer), tool.pin)
        await accept(tool=tool.effect, now=now, before=before)
        self._tools[tool.name] = believed = tool._replace(pin=self._pins.find(tool.effect, tool.offer))
        return believed

    def _describe_waiting(self, asked: Waiting) -> types.CallToolResult:
        """The question, the exact call, and where a person answers; no failure of the tool."""
        lines = ["This call waits for a person. Nothing was done.", visible(asked.question, keep="\n")]
        lines += call_lines(asked.call)
        lines.append(f"A person answers it with: {asked.command}")
        lines += [f"or on the page: {self._page}/#/runs/{asked.run_id}"] if self._page else []
        lines.append("Then make exactly the same call again.")
        told = {"status": "waiting", "run_id": asked.run_id, "contract_id": asked.contract_id}
        text = types.TextContent(type="text", text="\n".join(lines))
        return types.CallToolResult(content=[text], is_error=True, _meta={"detent": told})

    async def _ask_user(self, client: ClientLine, asked: Waiting) -> bool:
        """Have the client ask its user, where the operator allows that; whether somebody has decided."""
        if not self._may_approve or not client.can_be_asked():
            return False
        host = self._guard.background.host
        question = next(
            (q for run_id, q in host.reader.questions(asked.run_id) if q.contract_id == asked.contract_id), None
        )
        if question is None or question.reason != "approval":
            return False
        if question.approvers or question.quorum > 1 or question.require_signature:
            return False  # what an MCP client says carries no credential
        words = "\n".join([visible(asked.question, keep="\n"), *call_lines(asked.call)])
        reply = await client.ask(types.ElicitRequestFormParams(message=words, requested_schema=DECISION))
        if reply.action == "cancel" or (reply.action == "accept" and not reply.content):
            return False
        is_yes = reply.action == "accept" and (reply.content or {}).get("approve") is True
        said = {"approved": is_yes, "channel": "mcp", "call_hash": question.call_hash}
        await self._guard.answer_async(asked, said, by=Identity(_name_client(client.ctx), "mcp"))
        return True


def _name_client(ctx: Any) -> str:
    """The client's own name, which nobody has checked."""
    info = getattr(getattr(ctx.session, "client_params", None), "client_info", None)
    name = "".join(ch for ch in getattr(info, "name", "") if ch.isalnum() or ch in "-_.")[:60] or "unknown"
    return f"mcp:{name}"


def _name_session(ctx: Any) -> str:
    """Whose calls these are: the client by its name, and its session over HTTP."""
    headers = getattr(ctx.request, "headers", None)
    number = headers.get("mcp-session-id", "") if headers is not None else ""
    return _name_client(ctx) + (f":{number[:32]}" if number else "")


def _text(reply: types.CallToolResult) -> str:
    return "\n".join(one.text for one in reply.content if isinstance(one, types.TextContent))[:2000]


def _fail(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=True)


def _describe_done(done: AlreadyDone) -> types.CallToolResult:
    head = f"This very call was made before, by run {done.run_id}, and is not made again. Its result was:"
    blocks: list[Any] = [types.TextContent(type="text", text=head)]
    told = {"detent": {"status": "already_done", "run_id": done.run_id}}
    if isinstance(done.result, dict) and "content" in done.result:
        kept = types.CallToolResult.model_validate(done.result)
        content = [*blocks, *kept.content]
        return types.CallToolResult(content=content, structured_content=kept.structured_content, _meta=told)
    blocks.append(types.TextContent(type="text", text=json.dumps(done.result, ensure_ascii=False)))
    return types.CallToolResult(content=blocks, _meta=told)
