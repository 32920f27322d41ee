"""The program `detent`: finds the command, runs it, and turns whatever happens into words and an exit code.

A command's module is imported when the command is used: `--help` loads click and what guests there are, nothing else.
"""

import importlib
import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from itertools import chain
from typing import Any

import click

from detent.kit.agent import built_in_agents, guest_commands, installed_agents
from detent.kit.language import _, language, translate
from detent.kit.terminal.command_summary import summaries
from detent.kit.terminal.exit_code import FAILED, INTERRUPTED, MISTAKE
from detent.kit.terminal.help_page import HelpPage

COMMANDS = {
    "init": "init_command",
    "import": "import_command",
    "run": "run_command",
    "validate": "validate_command",
    "explain": "explain_command",
    "test": "test_command",
    "graph": "graph_command",
    "edit": "edit_command",
    "signal": "control_commands",
    "approve": "answer_commands",
    "reject": "answer_commands",
    "answer": "answer_commands",
    "settle": "settle_command",
    "cancel": "control_commands",
    "pause": "control_commands",
    "resume": "control_commands",
    "retry": "control_commands",
    "fork": "control_commands",
    "migrate": "control_commands",
    "bulk": "bulk_command",
    "show": "read_commands",
    "log": "read_commands",
    "list": "read_commands",
    "watch": "read_commands",
    "artefacts": "artefacts_command",
    "audit": "audit_command",
    "policy": "policy_command",
    "trigger": "trigger_commands",
    "next": "trigger_commands",
    "serve": "serve_command",
    "worker": "worker_command",
    "db": "worker_command",
    "schema": "init_command",
    "mcp": "mcp_command",
    "gateway": "gateway_command",
    "hook": "hook_command",
    "people": "people_command",
    "prune": "prune_command",
    "backup": "backup_command",
    "restore": "backup_command",
    "move": "backup_command",
    "anchor": "anchor_command",
    "doctor": "doctor_command",
    "completion": "about_commands",
    "version": "about_commands",
}


class Program(click.Group):
    """A group whose commands are loaded by name."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """The commands in the order of their use, then those of agents."""
        return [*COMMANDS, *_agent_commands()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import the module that has the command."""
        module = COMMANDS.get(cmd_name)
        if module is None:
            return _of_agent(cmd_name)
        found: dict[str, click.Command] = importlib.import_module(f"detent.surfaces.cli.{module}").COMMANDS
        return found[cmd_name]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or say which ones sound like it."""
        name = args[0]
        if self.get_command(ctx, name) is None and not ctx.resilient_parsing and not name.startswith("-"):
            near = get_close_matches(name, self.list_commands(ctx), n=3, cutoff=0.6)
            names = ", ".join(f"`{one}`" for one in near)
            from detent.surfaces.cli.usage_error import name_command

            ctx.fail(name_command(name, names))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """The list of commands, without importing any."""
        with formatter.section(_("Commands")):
            formatter.write_dl(list(summaries().items()))
        with formatter.section(_("Agents")):
            formatter.write_dl([(name, translate(about)) for name, about in _agent_commands().items()])


def _agent_commands() -> dict[str, str]:
    """The commands of agents with what they do: detent's own, then those of guests that do not take another's name."""
    own = {name: about for agent in built_in_agents() for name, about in agent.commands.items()}
    return own | {name: about for name, about in guest_commands().items() if name not in own and name not in COMMANDS}


def _of_agent(name: str) -> click.Command | None:
    """The command of an agent; package metadata is read only for one that detent itself has not."""
    for agent in chain(built_in_agents(), installed_agents()):
        if name in agent.commands:
            found: dict[str, click.Command] = agent.load("program")
            return found[name]
    return None


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
        ["--home"],
        metavar="HOME",
        help=_("The journal's folder, or postgresql://…; by default $DETENT_HOME, or .detent here."),
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
        code = _call(given)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader has seen enough
        return FAILED


def _call(given: list[str]) -> int:
    is_json = "--json" in given
    click.Context.formatter_class = HelpPage  # for every command, whoever has made it
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
        from detent.kit.terminal.terminal_error import report_error

        return report_error(error, is_json)


def _mistake(error: click.ClickException, is_json: bool) -> int:
    """A command line that cannot be meant as it is written."""
    from detent.surfaces.cli.usage_error import describe_usage

    context: Any = getattr(error, "ctx", None)
    message = describe_usage(error)
    if is_json:
        from detent.kit.terminal.terminal_error import failure

        failure("usage", message)
    elif isinstance(error, click.exceptions.NoArgsIsHelpError):
        click.echo(message, err=True)
    else:
        click.echo(_("Error: {message}", message=message), err=True)
        path = context.command_path if context else "detent"
        click.echo(_("See `{command} --help`.", command=path), err=True)
    return MISTAKE
