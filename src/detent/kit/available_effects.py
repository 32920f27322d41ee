"""Every effect there is in this folder: the built-in ones, those of plugins, and the tools of its MCP servers.

The servers are named in `detent.mcp.yaml` (or `detent.mcp.json`) of the current folder; DETENT_MCP names another file.
"""

import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from detent.core.effect_type import Effect
from detent.errors import DefinitionError

if TYPE_CHECKING:
    from detent.effects.mcp import ServerConfig, Servers

FILES = ("detent.mcp.yaml", "detent.mcp.yml", "detent.mcp.json")
OWN_FILE = "DETENT_MCP"


def server_file() -> Path | None:
    """The file that names the servers, if there is one."""
    own = os.environ.get(OWN_FILE)
    if own:
        return Path(own)
    return next((Path(name) for name in FILES if Path(name).exists()), None)


def read_servers(path: Path) -> "dict[str, ServerConfig]":
    """The servers of a file; everything that is wrong with it is told at once, each with its place."""
    from detent.define.document import read_document, read_file
    from detent.define.problem import Problem, refuse
    from detent.effects.mcp import parse_config

    document = read_document(read_file(path), str(path))
    servers, troubles = parse_config(document.value)
    problems = [*document.problems]
    for trouble in troubles:
        line, column = document.places.key(trouble.path) if trouble.path else (1, 1)
        problems.append(Problem(str(path), line, column, trouble.message))
    refuse(problems)
    return servers


def configured_servers() -> "dict[str, ServerConfig]":
    """The servers of this folder."""
    path = server_file()
    return {} if path is None else read_servers(path)


@asynccontextmanager
async def servers_here(home: Path) -> "AsyncIterator[Servers | None]":
    """The servers of this folder, stopped at the end; None when there are none. Each starts when it is needed."""
    configs = configured_servers()
    if not configs:
        yield None
        return
    try:
        import mcp  # noqa: F401
    except ImportError:
        raise DefinitionError("it needs the package mcp: pip install 'detent[mcp]'", str(server_file())) from None
    from detent.effects.mcp import Servers

    async with Servers(home, configs) as servers:
        yield servers


@asynccontextmanager
async def effects_here(home: Path, warn: Callable[[str], object]) -> AsyncIterator[Mapping[str, Effect]]:
    """All effects, each loaded when it is asked for; a server that cannot be asked for its tools is a warning."""
    from detent.effects import Known

    async with servers_here(home) as servers:
        tools = {} if servers is None else await servers.effects()
        for problem in () if servers is None else servers.problems.values():
            warn(problem)
        yield Known(tools)
