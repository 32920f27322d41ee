"""`detent mcp add`: servers pasted from another program's file, with a kind for each tool that a person confirms."""

import sys
from pathlib import Path
from typing import Any

import click

from detent.define.problem import Problem, refuse
from detent.errors import Refused
from detent.kit.available_effects import FILES, configured_servers, server_file
from detent.kit.language import _
from detent.kit.safe_text import columns, visible
from detent.kit.server_proposal import insert_block, propose_kind, write_block
from detent.kit.terminal.caller import Caller, emit


async def add_servers(caller: Caller, name: str, is_sure: bool) -> int:
    """Ask each server for its tools, show what they are taken for, and write that down once somebody agrees."""
    from detent.effects.mcp import Servers, parse_config
    from detent.kit.pasted_block import parse_pasted

    pasted, notes = parse_pasted(_read(caller, name))
    for note in notes:
        caller.note(visible(note))
    taken = [one for one in pasted if one in configured_servers()]
    if taken:
        raise Refused(_("there is a server `{name}` already", name=taken[0]))
    configs, troubles = parse_config({"servers": pasted})
    refuse([Problem("paste", 1, 1, trouble.message) for trouble in troubles])
    told: list[dict[str, Any]] = []
    async with Servers(caller.home, configs) as servers:
        for one in configs:
            told.append(await _propose(caller, servers, one, pasted[one]))
    is_wanted = is_sure or (sys.stdin.isatty() and not caller.is_json and click.confirm(_("Add them like this?")))
    path = server_file() or Path(FILES[0])
    for proposed in told if is_wanted else ():
        insert_block(path, proposed["block"])
    if caller.is_json:
        emit({"ok": True, "servers": told, "file": str(path), "written": is_wanted, "error": None})
    elif is_wanted:
        caller.say(_("written to {file}", file=visible(str(path))))
    else:
        caller.say(_("Nothing was written; `--yes` takes it as it is."))
    return 0


def _read(caller: Caller, name: str) -> str:
    if name and name != "-":
        try:
            return Path(name).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise Refused(_("{file} cannot be read: {problem}", file=name, problem=error)) from None
    if sys.stdin.isatty():
        caller.note(_("Paste the block of JSON, then Ctrl-D:"))
    return sys.stdin.read()


async def _propose(caller: Caller, servers: Any, name: str, pasted: dict[str, Any]) -> dict[str, Any]:
    found = await servers.standing(name)
    if found.problem:
        caller.warn(found.problem)
    proposed = {offer.name: propose_kind(offer) for offer, _kind in found.tools}
    caller.say(f"{visible(name)}: {visible(found.place)}")
    for line in columns([[f"  {visible(tool)}", one.kind, one.why] for tool, one in proposed.items()]):
        caller.say(line)
    kinds = {tool: one.kind for tool, one in proposed.items()}
    shown = [{"name": tool, "effect": one.kind, "why": one.why} for tool, one in proposed.items()]
    return {"name": name, "tools": shown, "problem": found.problem or None, "block": write_block(name, pasted, kinds)}
