"""The command edit: a workflow file on the page of this project's server, which is started if there is none."""

from pathlib import Path
from urllib.parse import quote

import click

from detent.kit.language import _
from detent.kit.login_link import make_own_link
from detent.kit.running_server import RunningServer, find_server
from detent.kit.terminal.caller import Caller, emit
from detent.kit.terminal.option import verb
from detent.kit.workflow_file import ProjectFolder
from detent.surfaces.cli.serve_command import PORT, find_port, make_address, serve_page


@verb("edit")
@click.argument("file", metavar="FILE")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help=_("The port of a server that is started; by default the first free one from {port} on.", port=PORT),
)
@click.option("--no-open", "is_quiet", is_flag=True, help=_("Print the link instead of opening a browser."))
async def edit(caller: Caller, *, file: str, port: int | None, is_quiet: bool) -> int:
    """Open a file in the editor; serves until SIGINT or SIGTERM if no server was there."""
    project = ProjectFolder(Path.cwd(), caller.home)
    name = project.name_of(file)
    project.read(name)  # says what is wrong with it before anything is started
    way = f"/edit/{quote(name, safe='')}"
    found = find_server(caller.home, project.folder)
    if found is not None:
        return await _show(caller, found, way, is_open=not is_quiet)
    return await serve_page(caller, find_port() if port is None else port, way, is_open=not is_quiet)


async def _show(caller: Caller, found: RunningServer, way: str, *, is_open: bool) -> int:
    link = ""
    if not found.is_login_free:
        async with caller.host() as host:
            link = await make_own_link(host, caller.home)
    page = make_address(found.address, link, way)
    if caller.is_json:
        emit({"ok": True, "address": found.address, "link": page, "error": None})
        return 0
    caller.say(_("The server of this project shows it:"))
    caller.say(f"  {page}")
    if is_open:
        click.launch(page)
    return 0


COMMANDS = {"edit": edit}
