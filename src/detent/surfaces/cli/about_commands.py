"""Commands about the program itself: version and completion."""

import click

from detent.kit.terminal.caller import Caller, emit
from detent.kit.terminal.option import verb
from detent.surfaces.cli.program import program


@verb("version")
def version(caller: Caller) -> int:
    """Print the version."""
    import platform
    from importlib.metadata import version as version_of

    found = version_of("detent")
    if caller.is_json:
        emit({"ok": True, "version": found, "python": platform.python_version(), "error": None})
    else:
        caller.say(f"detent {found}")
    return 0


@verb("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(caller: Caller, shell: str) -> int:
    """Print what the shell must read, as in: eval "$(detent completion bash)"."""
    from click.shell_completion import get_completion_class

    made = get_completion_class(shell)
    script = made(program(), {}, "detent", "_DETENT_COMPLETE").source() if made is not None else ""
    if caller.is_json:
        emit({"ok": True, "shell": shell, "script": script, "error": None})
    else:
        click.echo(script)
    return 0


COMMANDS = {"version": version, "completion": completion}
