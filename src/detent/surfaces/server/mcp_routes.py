"""Addresses of the tools' own side: the MCP servers of this folder, and what they wrote to their logs."""

import asyncio
import contextlib
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from detent.core.effect_type import EffectFailed
from detent.effects.mcp.catalogue import kind_of, load_tools
from detent.effects.mcp.config import NAME, Resolver, ServerConfig
from detent.effects.mcp.servers import FOLDER
from detent.errors import Unknown
from detent.kit.available_effects import configured_servers
from detent.kit.http.request_base import Asked
from detent.kit.http.route import HttpCall, Route
from detent.surfaces.server.server_context import HttpServer

TAIL_MAX = 256 * 1024


class ServedTool(msgspec.Struct, frozen=True):
    """A tool as an effect: how careful detent is with it, and what its server says of it."""

    name: str
    effect: str
    about: str


class ToolServer(msgspec.Struct, frozen=True):
    """An MCP server; its tools are those it had when it was last seen, null if it never was."""

    name: str
    place: str
    trusted: bool
    tools: list[ServedTool] | None


class ToolServers(msgspec.Struct, frozen=True):
    """The servers that `detent.mcp.yaml` names."""

    servers: list[ToolServer]


class LogFile(msgspec.Struct, frozen=True):
    """A log of a server."""

    name: str
    bytes: int
    updated_at: float


class LogFiles(msgspec.Struct, frozen=True):
    """The logs there are."""

    logs: list[LogFile]


class LogTail(msgspec.Struct, frozen=True):
    """The end of a log; its words are the server's, and decide nothing."""

    name: str
    lines: list[str]
    is_cut: bool


class TailQuery(Asked, frozen=True):
    """How much of it."""

    lines: Annotated[int, Meta(ge=1, le=5000)] = 200


async def servers(room: HttpServer, _call: HttpCall) -> ToolServers:
    """The servers and their tools, without starting one."""

    def read() -> list[ToolServer]:
        return [_server(room.home / FOLDER, config) for config in configured_servers().values()]

    return ToolServers(await asyncio.to_thread(read))


def _server(folder: Path, config: ServerConfig) -> ToolServer:
    offers = load_tools(folder, config)
    tools = None
    if offers is not None:
        tools = [
            ServedTool(f"{config.name}.{offer.name}", kind_of(config, offer), offer.description.partition("\n")[0])
            for offer in offers
        ]
    return ToolServer(config.name, config.place, config.trusted, tools)


async def logs(room: HttpServer, _call: HttpCall) -> LogFiles:
    """The logs of servers."""

    def read() -> list[LogFile]:
        found = sorted((room.home / FOLDER).glob("*.log")) if (room.home / FOLDER).is_dir() else []
        sizes = [(path.name.removesuffix(".log"), path.stat()) for path in found if not path.name.endswith(".old.log")]
        return [LogFile(name, about.st_size, about.st_mtime) for name, about in sizes]

    return LogFiles(await asyncio.to_thread(read))


async def log_tail(room: HttpServer, call: HttpCall) -> LogTail:
    """The end of one log, with secrets that the server was given hidden."""
    name = call.path["name"]

    def read() -> LogTail:
        path = room.home / FOLDER / f"{name}.log"
        if not NAME.fullmatch(name) or not path.is_file():
            raise Unknown(f"there is no log `{name[:80]}`")
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - TAIL_MAX))
            text = file.read(TAIL_MAX).decode(errors="replace")
        every = _hide(name, text).split("\n")
        lines = every[:-1] if every[-1] == "" else every
        is_cut = size > TAIL_MAX or len(lines) > call.query.lines
        return LogTail(name, lines[-call.query.lines :], is_cut)

    return await asyncio.to_thread(read)


def _hide(name: str, text: str) -> str:
    config, resolver = configured_servers().get(name), Resolver(name)
    for value in (*config.env.values(), *config.headers.values(), *config.args, config.url) if config else ():
        with contextlib.suppress(EffectFailed):  # a reference to nothing hides nothing
            resolver.text(value)
    return str(resolver.hide(text))


TAG = "tools"
ROUTES = (
    Route("GET", "/api/mcp/servers", servers, "The MCP servers of this folder", ToolServers, tag=TAG),
    Route("GET", "/api/logs", logs, "Logs of MCP servers", LogFiles, tag=TAG),
    Route("GET", "/api/logs/{name}", log_tail, "The end of a log", LogTail, query=TailQuery, tag=TAG, errors=(404,)),
)
