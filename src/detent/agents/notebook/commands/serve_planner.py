"""`detent notebook serve-planner`: detent's planners behind the protocol's two endpoints."""

from pathlib import Path

import click

from detent.agents.notebook.commands.notebook import DSLC_PORT, PLANNERS, _planner
from detent.agents.notebook.service import source
from detent.errors import Refused
from detent.kit.language import _
from detent.kit.terminal.caller import Caller, emit

GRACE_S = 3


def _serve(host: str, port: int, planner: str, file: str) -> None:
    import uvicorn

    from detent.agents.notebook.commands.planner_endpoints import HERE, planner_app

    if planner == "http":
        raise click.UsageError(_("an http planner is served already, where it is"))
    settings = _planner(planner, Path(file) if file else None, "", {})
    names = HERE if host in HERE else (*HERE, host)
    config = uvicorn.Config(
        planner_app(source(settings["use"])(settings), names),
        host=host,
        port=port,
        log_level="warning",
        timeout_graceful_shutdown=GRACE_S,
    )
    uvicorn.Server(config).run()


@click.command("serve-planner", help=_("Serve POST /planning and POST /generating for other programs."))
@click.argument("file", metavar="[SCRIPT]", default="")
@click.option(
    "--planner",
    type=click.Choice(PLANNERS),
    default=None,
    help=_("The planner: builtin:analysis, builtin:script, http or llm."),
)
@click.option("--host", default="127.0.0.1", help=_("The address to listen on."))
@click.option("--port", type=int, default=DSLC_PORT, help=_("The port to listen on."))
@click.option("--home", metavar="FOLDER", default=None, help=_("Where the journal is."))
@click.option("--json", "is_json", is_flag=True, help=_("Answer in JSON."))
def serve_planner(file: str, planner: str | None, host: str, port: int, home: str | None, is_json: bool) -> int:
    """Serve a planner until interrupted."""
    caller = Caller(home, is_json)
    url = f"http://{host}:{port}"
    if is_json:
        emit({"ok": True, "url": url, "error": None})
    else:
        caller.say(_("planner at {url}; Ctrl-C ends it", url=url))
    try:
        _serve(host, port, planner or ("builtin:script" if file else "builtin:analysis"), file)
    except ImportError as error:
        raise Refused(f"serving needs the package {error.name}: pip install 'detent[server]'") from None
    except KeyboardInterrupt:
        return 130
    return 0


COMMANDS = {"serve-planner": serve_planner}
