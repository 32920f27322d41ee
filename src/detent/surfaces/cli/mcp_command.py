"""The command mcp: detent as an MCP server on stdio, and a look at the MCP servers of this folder."""

import sys

import click

from detent.errors import Refused, Unknown
from detent.kit.available_effects import FILES, configured_servers, servers_here
from detent.kit.language import _
from detent.kit.safe_text import columns, visible
from detent.kit.terminal.caller import Caller, emit
from detent.kit.terminal.option import verb


@verb("mcp")
@click.argument(
    "what",
    type=click.Choice(["serve", "list", "tools", "add", "login", "logout"]),
    default="serve",
    metavar="[serve|list|tools|add|login|logout]",
)
@click.argument("name", default="", metavar="[SERVER|FILE]")
@click.option("--yes", "is_sure", is_flag=True, help=_("Take the kinds that `add` proposes, without asking."))
@click.option(
    "--mcp-may-approve-irreversible",
    "may_approve",
    is_flag=True,
    help=_("Let the MCP client's user approve irreversible calls as well."),
)
async def mcp(caller: Caller, what: str, name: str, is_sure: bool, may_approve: bool) -> int:
    """Serve, list the servers or their tools, or add a server."""
    if what == "add":
        from detent.surfaces.cli.mcp_add_command import add_servers

        return await add_servers(caller, name, is_sure)
    if what == "serve":
        try:
            from detent.surfaces.mcp.stdio_server import serve
        except ImportError as error:
            raise Refused(f"`detent mcp` needs {error.name}: pip install 'detent[mcp]'") from None
        if sys.stdin.isatty():
            caller.note(_("detent mcp speaks MCP on its standard input and output: an MCP client starts it."))
            caller.note(_("Configure the client like this; Ctrl-C ends the waiting."))
            caller.note('  {"mcpServers": {"detent": {"command": "detent", "args": ["mcp"]}}}')
        await serve(caller.host, may_approve_irreversible=may_approve)
        return 0
    configs = configured_servers()
    if name and name not in configs:
        known = ", ".join(configs) or "-"
        raise Unknown(_("there is no server `{name}`; known: {names}", name=name, names=known))
    if what in ("login", "logout"):
        return await _log_in(caller, name) if what == "login" else _log_out(caller, name)
    if what == "list":
        return _list_servers(caller)
    return await _tools(caller, [name] if name else list(configs))


def _list_servers(caller: Caller) -> int:
    configs = configured_servers()
    if caller.is_json:
        rows = [{"name": one.name, "place": one.place, "trusted": one.trusted} for one in configs.values()]
        emit({"ok": True, "servers": rows, "error": None})
    elif not configs:
        caller.say(_("no servers: there is no {file} here", file=FILES[0]))
    else:
        trust = {True: _("trusted"), False: _("not trusted")}
        for line in columns([[visible(s.name), trust[s.trusted], visible(s.place)] for s in configs.values()]):
            caller.say(line)
    return 0


async def _log_in(caller: Caller, name: str) -> int:
    """Send the person to the server's own page, and keep what it gives."""
    if not name:
        raise Unknown(_("say which server: {names}", names=", ".join(configured_servers()) or "-"))

    def show(url: str) -> None:
        sys.stderr.write(f"{_('Open this page to log in:')} {visible(url)}\n")
        sys.stderr.flush()
        if sys.stdin.isatty():
            import webbrowser

            webbrowser.open(url)

    async with servers_here(caller.home) as servers:
        assert servers is not None  # noqa: S101 - it has just been found among them
        found = await servers.log_in(name, show)
    if caller.is_json:
        emit({"ok": not found.problem, "server": name, "tools": len(found.tools), "error": found.problem or None})
    elif found.problem:
        caller.say(visible(found.problem), "red")
    else:
        caller.say(f"{visible(name)}: {_('{count} tools', count=len(found.tools))}")
    return 1 if found.problem else 0


def _log_out(caller: Caller, name: str) -> int:
    from detent.effects.mcp.oauth_login import TokenFile
    from detent.effects.mcp.servers import FOLDER

    TokenFile(caller.home / FOLDER, name, lambda _: None).forget()
    if caller.is_json:
        emit({"ok": True, "server": name, "error": None})
    else:
        caller.say(_("the login to {name} is forgotten", name=visible(name)))
    return 0


async def _tools(caller: Caller, names: list[str]) -> int:
    found = []
    async with servers_here(caller.home) as servers:
        if servers is not None:
            found = [await servers.standing(name) for name in names]
    if caller.is_json:
        rows = [
            {
                "name": one.name,
                "protocol": one.protocol,
                "problem": one.problem or None,
                "tools": [
                    {"name": offer.name, "effect": kind, "about": offer.description} for offer, kind in one.tools
                ],
                "undeclared": list(one.undeclared),
            }
            for one in found
        ]
        emit({"ok": not any(one.problem for one in found), "servers": rows, "error": None})
    for one in found:
        head = one.problem or f"{one.protocol}, {_('{count} tools', count=len(one.tools))}"
        caller.say(f"{visible(one.name)}: {visible(head)}", "red" if one.problem else "")
        lines = [
            [f"  {visible(one.name)}.{visible(offer.name)}", kind, visible(offer.description.partition("\n")[0])[:80]]
            for offer, kind in one.tools
        ]
        for line in columns(lines):
            caller.say(line)
        if one.undeclared:
            about = _(
                "  {count} of them count as irreversible because nobody says otherwise whose word counts. If one only "
                "reads, write `TOOL: {{effect: pure}}` under `tools` of `{name}` in {file}.",
                name=visible(one.name),
                count=len(one.undeclared),
                file=FILES[0],
            )
            caller.say(about, "yellow")
    if not found:
        caller.say(_("no servers: there is no {file} here", file=FILES[0]))
    return 1 if any(one.problem for one in found) else 0


COMMANDS = {"mcp": mcp}
