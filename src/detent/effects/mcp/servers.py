"""The servers of one host: their tools as effects, each server started once, all of them stopped together."""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

import msgspec

from detent.core.contract import Contract
from detent.core.effect_type import (
    Declared,
    Declined,
    Effect,
    EffectFailed,
    Kind,
    Outcome,
    OutcomeUnknown,
    PartialFailure,
)
from detent.core.progress import Say
from detent.effects.mcp import elicitation_form
from detent.effects.mcp.catalogue import ORDER, Offer, advice, kind_of, load_tools
from detent.effects.mcp.config import ServerConfig
from detent.effects.mcp.connection import MARK, Connection, OnChange
from detent.effects.mcp.oauth_login import LOGIN_S, BrowserLogin, TokenFile
from detent.effects.mcp.tool_call import Ask, PendingCall
from detent.effects.orphan_process import kill_orphans

FOLDER = "mcp"  # in the home: logs of servers, and what they offer
OPEN_MAX = 100  # calls of one host that wait for a person on an open line
GIVEN_UP_S = 10.0  # for a tool to end when it was told that nobody will answer


class ServerStanding(msgspec.Struct, frozen=True):
    """How a server is found."""

    name: str
    place: str
    protocol: str = ""
    tools: tuple[tuple[Offer, Kind], ...] = ()
    undeclared: tuple[str, ...] = ()  # tools of which nobody says what they do whose word counts
    problem: str = ""


class Servers:
    """`async with Servers(home, configs) as servers: effects = await servers.effects()`.

    Leaving it stops every server. Entering it ends those that a dead detent of the same home left running.
    """

    def __init__(self, home: Path, configs: Mapping[str, ServerConfig]) -> None:
        self._configs = dict(configs)
        self.on_change: OnChange | None = None  # hears of servers that change what they offer
        self._folder = home / FOLDER
        self._connections: dict[str, Connection] = {}
        self._open: dict[str, PendingCall] = {}
        self._tasks = asyncio.TaskGroup()
        self.problems: dict[str, str] = {}

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(kill_orphans, str(self._folder.absolute()), MARK)
        await self._tasks.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        for call in list(self._open.values()):
            if call.task is not None:
                call.task.cancel()
        for connection in self._connections.values():
            connection.close()
        await self._tasks.__aexit__(None, None, None)

    async def effects(self) -> dict[str, Effect]:
        """Every tool as an effect; a server that is not known yet is asked, one that does not answer is a problem."""
        found: dict[str, Effect] = {}
        for name, server in self._configs.items():
            try:
                tools = await self._tools(server)
            except EffectFailed as error:
                self.problems[name] = str(error)
                continue
            for offer in tools:
                effect = self._effect(server, offer)
                found[effect.name] = effect
        return found

    async def offers(self) -> dict[str, Offer]:
        """Every tool by the name of its effect, with its description and schema; both are the server's words."""
        found: dict[str, Offer] = {}
        for name, server in self._configs.items():
            try:
                found |= {f"{name}.{offer.name}": offer for offer in await self._tools(server)}
            except EffectFailed as error:
                self.problems[name] = str(error)
        return found

    async def relay(self, name: str, tool: str, arguments: dict[str, Any], say: Say, ask: Ask) -> dict[str, Any]:
        """One call of a tool for somebody else's client; the protocol's result as it came, as JSON."""
        connection = await self._connect(self._configs[name])
        if tool not in connection.tools:
            raise EffectFailed(f"the server `{name}` has no tool `{tool}` any more", "tool_failure.not_found")
        contract = Contract("relay", "relay", f"{name}.{tool}", input=arguments)
        call = PendingCall(connection, tool, contract)
        connection.relayed.add(call)
        try:
            return await call.relay(say, ask)
        finally:
            connection.relayed.discard(call)

    async def open_line(self, name: str) -> Connection:
        """The line to a server, for what is read there: prompts and resources."""
        return await self._connect(self._configs[name])

    async def standing(self, name: str) -> ServerStanding:
        """Start a server and say what it is."""
        server = self._configs[name]
        try:
            connection = await self._connect(server)
        except EffectFailed as error:
            return ServerStanding(name, server.place, problem=str(error))
        tools = tuple((offer, kind_of(server, offer)) for offer in connection.tools.values())
        undeclared = tuple(offer.name for offer, _ in tools if advice(server, offer))
        return ServerStanding(name, server.place, connection.protocol, tools, undeclared)

    async def log_in(self, name: str, show: Callable[[str], None]) -> ServerStanding:
        """Let a person log in to a server, in a browser; `show` is given the address to open."""
        server = self._configs[name]
        TokenFile(self._folder, name, lambda _: None).forget()
        login = BrowserLogin(show)
        async with login.listening():
            connection = self._connections[name] = Connection(server, self._folder, login)
            connection.limit_s = LOGIN_S
            self._tasks.create_task(connection.keep_open())
            return await self.standing(name)

    async def _tools(self, server: ServerConfig) -> tuple[Offer, ...]:
        known = load_tools(self._folder, server)
        return known if known is not None else tuple((await self._connect(server)).tools.values())

    async def _connect(self, server: ServerConfig) -> Connection:
        connection = self._connections.get(server.name)
        if connection is None or (connection.ready.done() and not connection.is_open):
            if connection is not None:
                connection.close()  # it has died; what it left is cleaned up while the next one starts
            connection = self._connections[server.name] = Connection(server, self._folder, on_change=self.on_change)
            self._tasks.create_task(connection.keep_open())
        await asyncio.shield(connection.ready)
        return connection

    def _effect(self, server: ServerConfig, offer: Offer) -> Effect:
        said = server.tool(offer.name)

        async def perform(contract: Contract) -> Outcome:
            return await self._perform(server, offer.name, contract)

        declared = Declared(
            kind=kind_of(server, offer),
            timeout_s=said.timeout_s or server.timeout_s,
            scope=said.scope,
            key=said.key,
        )
        about = offer.description.partition("\n")[0]
        name = f"{server.name}.{offer.name}"
        return Effect(
            name,
            perform,
            declared,
            about=about,
            schema=offer.schema,
            withdraw=self.withdraw,
            advice=advice(server, offer),
        )

    async def _perform(self, server: ServerConfig, tool: str, contract: Contract) -> Outcome:
        token = elicitation_form.question_of(contract).get("call")
        call = self._open.pop(token, None) if isinstance(token, str) else None
        if elicitation_form.is_no(contract):
            return await self._decline(call, contract)
        if call is None and token and contract.is_irreversible:
            raise OutcomeUnknown(f"`{server.name}.{tool}` was at work when it asked, and the line to it is gone")
        if call is None:
            connection = await self._connect(server)
            self._check(connection, tool, contract)
            call = PendingCall(connection, tool, contract)
        if call.connection.is_open and call.connection.is_modern:
            return await call.perform()
        async with call.connection.turn:
            return await self._in_turn(call, contract)

    async def _decline(self, call: PendingCall | None, contract: Contract) -> Outcome:
        """Hand a person's no to the tool that waits for it; the contract is rejected, whatever the tool says to that.

        Only a server that refuses the request as such has said that nothing happened.
        """
        said = contract.answers[-1]
        no = f"{said.by or 'somebody'} said no" + (f": {said.comment}" if said.comment else "")
        if call is None:  # the line is gone, and with it whoever asked
            raise Declined(no, deed="possible" if contract.is_irreversible else "none")
        async with call.connection.turn:
            try:
                outcome = await self._in_turn(call, contract)
            except EffectFailed as error:
                raise Declined(no, {"text": str(error)}) from None
            except PartialFailure as error:
                raise Declined(no, {"text": str(error)}, "possible") from None
        if outcome.question is not None:  # it asks something else: that is no answer to a no
            self._give_up(self._open.pop(call.token))
        raise Declined(no, outcome.result, "possible")

    def withdraw(self, contract: Contract) -> None:
        """Nobody will answer what this contract's call has asked: tell the tool, and let it end."""
        left = contract.question.data.get(elicitation_form.NAME) if contract.question else None
        call = self._open.pop(left.get("call", ""), None) if isinstance(left, dict) else None
        if call is not None:
            self._give_up(call)

    def _give_up(self, call: PendingCall) -> None:
        self._tasks.create_task(self._end(call))

    async def _end(self, call: PendingCall) -> None:
        """Let a call that nobody waits for come to its end, alone on its line; one that does not is cut off."""
        async with call.connection.turn:
            call.connection.active = call
            try:
                call.give_up()
                if call.task is not None:
                    await asyncio.wait({call.task}, timeout=GIVEN_UP_S)
                    call.task.cancel()
            finally:
                call.connection.active = None

    async def _in_turn(self, call: PendingCall, contract: Contract) -> Outcome:
        """Go on with a call until it is done or asks; only one is at work on such a line, so a question is its own."""
        call.connection.active = call
        try:
            if call.task is None:
                call.task = self._tasks.create_task(self._keep(call))
            else:
                call.answer(contract)
            asking = asyncio.ensure_future(call.questions.get())
            try:
                await asyncio.wait({call.task, asking}, return_when=asyncio.FIRST_COMPLETED)
            except asyncio.CancelledError:
                call.task.cancel()
                raise
            finally:
                asking.cancel()
            if call.task.done():
                return self._came(call.task.result())
            self._remember(call)
            return Outcome(question=call.open_question(asking.result()))
        finally:
            call.connection.active = None

    async def _keep(self, call: PendingCall) -> Outcome | Exception:
        """The call as a task that outlives the attempt which began it; its failure is a value, for whoever waits."""
        try:
            return await call.perform()
        except Exception as error:  # noqa: BLE001
            return error

    @staticmethod
    def _came(result: Outcome | Exception) -> Outcome:
        if isinstance(result, Exception):
            raise result
        return result

    def _remember(self, call: PendingCall) -> None:
        self._open[call.token] = call
        while len(self._open) > OPEN_MAX:
            self._give_up(self._open.pop(next(iter(self._open))))

    @staticmethod
    def _check(connection: Connection, tool: str, contract: Contract) -> None:
        """A tool must still be what it was when the run began; a kind it never had is the action's own word."""
        server, offer = connection.server, connection.tools.get(tool)
        if offer is None:
            raise EffectFailed(f"the server `{server.name}` has no tool `{tool}` any more", "tool_failure.not_found")
        now, was = ORDER.index(kind_of(server, offer)), ORDER.index(connection.laxest.get(tool, "irreversible"))
        if server.tool(tool).effect is None and contract.kind in ORDER and was <= ORDER.index(contract.kind) < now:
            message = f"`{server.name}.{tool}` was {ORDER[was]} once, as this run has it, and is {ORDER[now]} now"
            raise EffectFailed(
                f"{message}; start the run again, or say in detent.mcp.yaml what it is", "validation_error"
            )
