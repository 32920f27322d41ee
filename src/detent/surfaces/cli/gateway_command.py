"""The command gateway: the folder's MCP servers behind contracts, and entering it into the files of clients."""

import os
import shutil
import sys
from pathlib import Path

import click

from detent.errors import Refused
from detent.kit.available_effects import OWN_FILE
from detent.kit.client_config import ServerEntry, client_files, install, uninstall
from detent.kit.language import _
from detent.kit.policy_file import POLICY_VARIABLE
from detent.kit.safe_text import visible
from detent.kit.terminal.caller import Caller, emit
from detent.kit.terminal.option import verb

CLIENTS = ("claude-desktop", "claude-code", "cursor", "vscode", "codex")


@verb("gateway")
@click.argument(
    "what", type=click.Choice(["serve", "install", "uninstall"]), default="serve", metavar="[serve|install|uninstall]"
)
@click.argument("client", default="", metavar="[CLIENT]")
@click.option("--http", "port", type=click.IntRange(0, 65535), help=_("Serve over streamable HTTP on this port."))
@click.option(
    "--page",
    default="",
    metavar="URL",
    help=_("The address of the page where questions are answered, for clients to show."),
)
@click.option(
    "--mcp-may-approve-irreversible",
    "may_approve",
    is_flag=True,
    help=_("Let the MCP client's user approve irreversible calls as well."),
)
async def gateway(caller: Caller, what: str, client: str, port: int | None, page: str, may_approve: bool) -> int:
    """Serve, or enter it into a client's configuration."""
    if what != "serve":
        return _change_client(caller, what, client)
    try:
        from detent.surfaces.mcp.gateway_entry import open_gateway, serve_http, serve_stdio
    except ImportError:
        raise Refused("`detent gateway` needs the package mcp: pip install 'detent[mcp]'") from None
    async with open_gateway(caller.home, caller.policy(), page=page.rstrip("/"), may_approve=may_approve) as made:
        for problem in made.problems.values():
            caller.warn(problem)
        if port is not None:
            caller.note(_("the gateway serves at {address}", address=f"http://127.0.0.1:{port}/mcp"))
            await serve_http(made, port)
            return 0
        if sys.stdin.isatty():
            caller.note(_("The gateway speaks MCP on its standard input and output: an MCP client starts it."))
            caller.note(_("`detent gateway install CLIENT` tells a client so; Ctrl-C ends the waiting."))
        await serve_stdio(made)
    return 0


def _change_client(caller: Caller, what: str, client: str) -> int:
    files = client_files(Path.cwd())
    if client not in files:
        raise Refused(_("say which client: {names}", names=", ".join(CLIENTS)))
    file = files[client]
    if what == "install":
        from detent.surfaces.mcp.gateway_entry import gateway_file

        env = {OWN_FILE: str(gateway_file())}
        if policy := os.environ.get(POLICY_VARIABLE):
            env[POLICY_VARIABLE] = str(Path(policy).absolute())
        program = shutil.which("detent") or sys.argv[0]
        is_done = install(file, ServerEntry(program, ["gateway", "--home", str(caller.home.absolute())], env))
    else:
        is_done = uninstall(file)
    if caller.is_json:
        emit({"ok": True, "client": client, "file": str(file.path), "changed": is_done, "error": None})
    elif what == "install":
        caller.say(_("{client} starts the gateway now: {file}", client=client, file=visible(str(file.path))))
        caller.say(_("Take the servers that are behind it out of that file, or they can be called directly as well."))
    else:
        told = _("the gateway is no longer in {file}") if is_done else _("the gateway was not in {file}")
        caller.say(told.format(file=visible(str(file.path))))
    return 0


COMMANDS = {"gateway": gateway}
