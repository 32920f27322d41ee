"""The command serve: the server with its page, until it is told to stop."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import click

from detent.errors import Refused
from detent.kit.language import _
from detent.kit.login_link import make_own_link
from detent.kit.people_file import has_people
from detent.kit.running_server import announce
from detent.kit.terminal.caller import Caller, emit, user
from detent.kit.terminal.option import verb

if TYPE_CHECKING:
    from detent.surfaces.server.service import ServePlan
    from detent.surfaces.server.setting import ServerSettings

PORT = 8410
# How long a short answer waits, at each of its steps, for a thread that reads a long run; 5 ms otherwise.
SWITCH_S = 0.001
PORTS = 10  # that are tried in turn: a browser keeps drafts by address, so it should stay the same


@verb("serve")
@click.argument("files", metavar="[FILE[:NAME]]…", nargs=-1)
@click.option(
    "--host", default="127.0.0.1", metavar="ADDRESS", help=_("The address to listen on; only this machine by default.")
)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=PORT, show_default=True, help=_("The port; 0 picks a free one.")
)
@click.option("--token-file", default="", metavar="FILE", help=_("A file with the token that callers must send."))
@click.option(
    "--config", default="", metavar="FILE", help=_("Hooks, webhooks and limits; detent.serve.yaml by default.")
)
@click.option("--backup", default="", metavar="FOLDER", help=_("Write a backup into this folder at regular intervals."))
@click.option("--every", default="", metavar="TIME", help=_("With --backup: how often, like 1h (the default)."))
@click.option(
    "--keep", type=click.IntRange(1, 100_000), default=None, metavar="COUNT",
    help=_("With --backup: how many are kept; 24 by default."),
)  # fmt: skip
@click.option("--open", "is_open", is_flag=True, help=_("Open the page in a browser."))
async def serve(  # noqa: PLR0913  # one for each option
    caller: Caller,
    *,
    files: tuple[str, ...],
    host: str,
    port: int,
    token_file: str,
    config: str,
    backup: str,
    every: str,
    keep: int | None,
    is_open: bool,
) -> int:
    """Serve until SIGINT or SIGTERM."""
    _check_installed()
    from detent.surfaces.server.service import ServePlan, read_token
    from detent.surfaces.server.setting import read_settings, with_backup

    folder = Path.cwd()
    settings = with_backup(read_settings(folder, config), backup, every, keep)
    token = read_token(Path(token_file)) if token_file else ""
    return await _serve(
        caller, ServePlan(caller.home, folder, host, port, token, files, user()), settings, "", is_open=is_open
    )


async def serve_page(caller: Caller, port: int, way: str, *, is_open: bool) -> int:
    """Serve this folder on this machine as its settings say, and show one place of the page."""
    _check_installed()
    from detent.surfaces.server.service import ServePlan
    from detent.surfaces.server.setting import read_settings

    folder = Path.cwd()
    plan = ServePlan(caller.home, folder, "127.0.0.1", port, user=user())
    return await _serve(caller, plan, read_settings(folder), way, is_open=is_open)


def find_port() -> int:
    """The first free port of those that people know this server by; 0 if none is."""
    _check_installed()
    from detent.surfaces.server.service import bind_socket

    for port in range(PORT, PORT + PORTS):
        try:
            with bind_socket("127.0.0.1", port):
                return port
        except Refused:
            continue
    return 0


def _check_installed() -> None:
    try:
        import detent.surfaces.server.service  # noqa: F401
    except ImportError as error:
        raise Refused(f"`detent serve` needs {error.name}: pip install 'detent[server]'") from None


def make_address(base: str, link: str, way: str) -> str:
    """The address of a place of the page; with a link that logs in first."""
    if link:
        return f"{base}/#login={quote(link)}" + (f"&to={way}" if way else "")
    return f"{base}/#{way}" if way else base


async def _serve(caller: Caller, plan: "ServePlan", settings: "ServerSettings", way: str, *, is_open: bool) -> int:
    from detent.surfaces.server import service

    sys.setswitchinterval(SWITCH_S)
    async with caller.driving() as given, service.serving(plan, settings, **given) as served:
        caller.check_policy(served.room.host)
        # The user of this machine needs no login then.
        is_known = service.is_loopback(plan.host) and settings.login.os_user
        is_free = is_known or settings.proxy is not None
        link = "" if is_free else await make_own_link(served.room.host, caller.home)
        base = settings.address.rstrip("/") or served.address  # what others open, where it is known
        page = make_address(base, link, way)
        with (
            service.listening() as told,
            announce(caller.home, served.room.library.folder, base, is_login_free=is_free),
        ):
            if way and not link:
                caller.say(_("The editor is at {address}", address=page), "green")
            if caller.is_json:
                said = {"ok": True, "address": served.address, "is_holder": served.room.host.is_holder, "error": None}
                emit(said | ({"link": page} if link or way else {}))
            else:
                _tell(caller, served.address, page if link else "", bool(plan.token), served.room.host.is_holder)
            if is_open and not (way and caller.is_json):
                click.launch(page)
            await service.until_told(told, served)
        caller.note(_("Stopping; active runs continue at the next start."))
    return 0


def _tell(caller: Caller, address: str, link: str, has_token: bool, is_holder: bool) -> None:
    caller.say(_("detent serves at {address}", address=address), "green")
    if link:
        caller.say(_("This link logs you in, once and within ten minutes; `detent people link NAME` makes others:"))
        caller.say(f"  {link}")
    elif has_people(caller.home):
        caller.say(_("People log in with their token, or with a link from `detent people link NAME`."))
    elif has_token:
        caller.say(_("Callers must send the token: Authorization: Bearer …"))
    if not is_holder:
        caller.say(
            _("Another process holds the journal; requests are handed to it, and this server takes over when it exits.")
        )
    caller.say(_("Ctrl-C stops it."), "dim")


COMMANDS = {"serve": serve}
