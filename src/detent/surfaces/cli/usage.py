"""A command line that cannot be meant as it is written, in the words of whoever wrote it."""

import click

from detent.kit.language import _


def describe_usage(error: click.ClickException) -> str:
    """What is wrong with the command line; sentences that are not ours stay as they are."""
    names = ", ".join(f"`{one}`" for one in getattr(error, "possibilities", None) or ())
    command: str = getattr(error, "command_name", "")  # click before 8.4 has no error of its own for that
    if command:
        return name_command(command, names)
    if isinstance(error, click.NoSuchOption):
        if names:
            return _("there is no option `{name}`; did you mean {names}?", name=error.option_name, names=names)
        return _("there is no option `{name}`", name=error.option_name)
    hint = _name_parameter(error) if isinstance(error, click.BadParameter) else ""
    if hint and isinstance(error, click.MissingParameter):
        return _("{name} is missing", name=hint)
    if hint and isinstance(error, click.BadParameter):
        return _("{name} cannot be that: {message}", name=hint, message=error.message)
    return error.format_message()


def name_command(name: str, near: str) -> str:
    """That there is no such command, with those that sound like it."""
    if near:
        return _("there is no command `{name}`; did you mean {names}?", name=name, names=near)
    return _("there is no command `{name}`", name=name)


def _name_parameter(error: click.BadParameter) -> str:
    hint = error.param_hint or (error.param.get_error_hint(error.ctx) if error.param and error.ctx else "")
    return " / ".join(hint) if isinstance(hint, (list, tuple)) else str(hint or "")
