"""The program `detent`: finds the command, runs it, and turns whatever happens into words and an exit code.

A command's module is imported when the command is used: `--help` loads click and nothing else.
"""

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from detent.surfaces.language import _, language

# 0 completed, 1 failed, 2 usage, definition or refused, 3 waiting, 4 rejected or cancelled
FAILED, MISTAKE, INTERRUPTED = 1, 2, 130
DEBUG = "DETENT_DEBUG"

COMMANDS = {
    "init": "beginning",
    "run": "start",
    "chat": "chat",
    "validate": "start",
    "test": "trial",
    "graph": "drawing",
    "code": "code",
    "signal": "control",
    "approve": "answering",
    "reject": "answering",
    "answer": "answering",
    "settle": "settling",
    "cancel": "control",
    "pause": "control",
    "resume": "control",
    "retry": "control",
    "fork": "control",
    "migrate": "control",
    "show": "reading",
    "log": "reading",
    "list": "reading",
    "watch": "reading",
    "notebook": "notebook",
    "serve": "serving",
    "schema": "beginning",
    "mcp": "protocol",
    "prune": "pruning",
    "doctor": "health",
    "completion": "about",
    "version": "about",
}


def summaries() -> dict[str, str]:
    """One line per command, known without importing it."""
    return {
        "init": _("Create a workflow from a template, with test cases."),
        "run": _("Start a run and stay with it until it ends or waits."),
        "chat": _("Chat with the assistant; it asks before anything irreversible."),
        "validate": _("Check a definition file, without running it."),
        "test": _("Run a workflow's test cases, with stubbed tools and virtual time."),
        "graph": _("Draw a machine, or a run with its path and current state."),
        "code": _("Turn a requirement into a verified change in a git repository."),
        "signal": _("Send a signal to a run."),
        "approve": _("Answer yes to a question."),
        "reject": _("Answer no to a question."),
        "answer": _("Fill in a form, or settle a call whose outcome is unknown."),
        "settle": _("List calls whose outcome is unknown, or settle many at once."),
        "cancel": _("Stop a run and everything it has under way."),
        "pause": _("Pause a run: calls under way finish, nothing new starts."),
        "resume": _("Continue after a crash, an interruption or a pause."),
        "retry": _("Continue a failed run from the action that failed."),
        "fork": _("Start a new run from a past point of another."),
        "migrate": _("Move a waiting run to another machine."),
        "show": _("Show where a run stands."),
        "log": _("Show what happened in a run, event by event."),
        "list": _("List the runs, newest first."),
        "watch": _("Follow a run's events until it ends."),
        "notebook": _("Build a notebook from a goal, a script or a planner."),
        "serve": _("Serve the web page and the API."),
        "schema": _("Print the JSON Schema of workflow files, or of policies."),
        "mcp": _("Serve runs to MCP clients, or list MCP servers and their tools."),
        "prune": _("Delete old runs that protect no irreversible call."),
        "doctor": _("Check this installation and its journal."),
        "completion": _("Print the completion script for a shell."),
        "version": _("Print the version."),
    }


class Program(click.Group):
    """A group whose commands are loaded by name."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """The commands in the order of their use."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import the module that has the command."""
        module = COMMANDS.get(cmd_name)
        if module is None:
            return None
        found: dict[str, click.Command] = importlib.import_module(f"detent.surfaces.cli.{module}").COMMANDS
        return found[cmd_name]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """The list of commands, without importing any."""
        with formatter.section(_("Commands")):
            formatter.write_dl(list(summaries().items()))


def _version(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from importlib.metadata import version

        click.echo(f"detent {version('detent')}")
        ctx.exit()


def program() -> Program:
    """The whole command line."""
    version = click.Option(
        ["--version"], is_flag=True, is_eager=True, expose_value=False, callback=_version, help=_("Print the version.")
    )
    home = click.Option(
        ["--home"], metavar="FOLDER", help=_("The journal's folder; by default $DETENT_HOME, or .detent here.")
    )
    about = _("A durable state-machine runtime for AI agents: kill it at any byte, nothing is lost.")
    more = _("RUN is an id, the unambiguous beginning of one, or `last`. Every command takes --json.")
    return Program(
        "detent",
        params=[home, version],
        help=about,
        epilog=more,
        context_settings={"help_option_names": ["-h", "--help"]},
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Do what the command line says; returns the exit code."""
    given = list(sys.argv[1:] if argv is None else argv)
    language.cache_clear()  # the caller may have another one than the last
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a terminal that cannot show a letter must not end a run
    try:
        code = _called(given)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader has seen enough
        return FAILED


def _called(given: list[str]) -> int:
    is_json = "--json" in given
    try:
        code = program().main(given, prog_name="detent", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except click.ClickException as error:
        return _mistake(error, is_json)
    except click.Abort:
        return INTERRUPTED  # Ctrl-C before a command began
    except BrokenPipeError:
        raise
    except (Exception, BaseExceptionGroup) as error:  # noqa: BLE001  # the last place where anything can become words
        from detent.surfaces.cli.trouble import told

        return told(error, is_json)


def _mistake(error: click.ClickException, is_json: bool) -> int:
    """A command line that cannot be meant as it is written."""
    context: Any = getattr(error, "ctx", None)
    message = error.format_message()
    if is_json:
        from detent.surfaces.cli.trouble import failure

        failure("usage", message)
    elif isinstance(error, click.exceptions.NoArgsIsHelpError):
        click.echo(message, err=True)
    else:
        click.echo(_("Error: {message}", message=message), err=True)
        path = context.command_path if context else "detent"
        click.echo(_("See `{command} --help`.", command=path), err=True)
    return MISTAKE
