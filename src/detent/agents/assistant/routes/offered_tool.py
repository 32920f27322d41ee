"""Addresses about the assistant's tools and files: which there are, and what a call would change in a file."""

import os
from functools import partial
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from detent.agents.assistant.attachment import list_inside
from detent.agents.assistant.conversation import own_effects, plan_only, tools_of
from detent.agents.assistant.file_diff import list_changed_lines, read_inside
from detent.agents.assistant.routes.chat import TAG, TOOLS_FILE
from detent.errors import Unknown
from detent.host.port import Reader
from detent.kit.http.context import ServerContext
from detent.kit.http.request_base import Asked
from detent.kit.http.route import HttpCall, Route

LINES_MAX = 400


class ToolView(msgspec.Struct, frozen=True):
    """A tool that the model is offered."""

    name: str
    kind: str
    about: str


class ToolList(msgspec.Struct, frozen=True):
    """What the next message is answered with."""

    tools: list[ToolView]


class ToolQuery(Asked, frozen=True):
    """`plan=true`: only those that change nothing."""

    plan: bool = False


class ChangeQuery(Asked, frozen=True):
    """Which call is meant."""

    contract: Annotated[str, Meta(min_length=1, max_length=200)]


class FileNameQuery(Asked, frozen=True):
    """How a name begins, as it is typed after an `@`."""

    begun: Annotated[str, Meta(max_length=1000)] = ""


class FileNames(msgspec.Struct, frozen=True):
    """Files and folders that can go with a message; a folder ends with a slash."""

    names: list[str]


class FileChange(msgspec.Struct, frozen=True):
    """What a call that waits would change in a file, as a unified diff; empty for other calls."""

    lines: list[str]
    left_out: int = 0


async def tools(room: ServerContext, call: HttpCall) -> ToolList:
    """The tools of the next message."""
    source = os.environ.get(TOOLS_FILE, "")
    offered = tools_of(room.host.effects, own_effects(source) if source else {}, ())
    if call.query.plan:
        offered = plan_only(offered, {})[0]
    told = ((str(one["name"]), str(one["kind"]), str(one.get("description") or "")) for one in offered)
    return ToolList([ToolView(name, kind, about.partition("\n")[0][:200]) for name, kind, about in told])


async def files(room: ServerContext, call: HttpCall) -> FileNames:
    """Files of this server's folder that can go with a message."""
    return FileNames(await room.ask(list_inside, call.query.begun, Path.cwd(), room.home))


async def changes(room: ServerContext, call: HttpCall) -> FileChange:
    """What a call that waits would change in a file of this server's folder."""
    run_id = (await room.find(call.path["run_id"])).run_id
    lines = await room.ask(_list_changes, room.reader, run_id, call.query.contract, room.home)
    return FileChange(lines[:LINES_MAX], max(0, len(lines) - LINES_MAX))


def _list_changes(reader: Reader, run_id: str, contract_id: str, home: Path) -> list[str]:
    contract = reader.standing(run_id).run.contract(contract_id)
    if contract is None or not contract.is_asking:
        raise Unknown(f"nothing is asked about `{contract_id[:100]}` of run {run_id}")
    call = {"effect": contract.effect, "input": contract.input if isinstance(contract.input, dict) else {}}
    return list_changed_lines(call, partial(read_inside, Path.cwd(), home))


ROUTES = (
    Route("GET", "/api/assistant/tools", tools, "The tools that the model is offered", ToolList, query=ToolQuery,
          tag=TAG, errors=(422,)),
    Route("GET", "/api/assistant/files", files, "Files that can go with a message", FileNames, query=FileNameQuery,
          tag=TAG, needs="start",
          about="Of the server's folder, but nothing of the home and no name that begins with a dot."),
    Route("GET", "/api/runs/{run_id}/changes", changes, "What a waiting call would change in a file", FileChange,
          query=ChangeQuery, tag=TAG, needs="answer", errors=(404, 409),
          about="Only files in the folder of the server are looked at, and none whose name begins with a dot."),
)  # fmt: skip
