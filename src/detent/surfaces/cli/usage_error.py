"""A command line that cannot be meant as it is written, in the words of whoever wrote it."""

import re

import click

from detent.kit.language import _

EXTRA = re.compile(r"Got unexpected extra arguments? \((.*)\)$", re.DOTALL)  # click has no error of its own for that


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
        return _("{name} cannot be that: {message}", name=hint, message=_say_what_it_takes(error) or error.message)
    if isinstance(error, click.BadOptionUsage):
        return _describe_option(error)
    extra = EXTRA.match(error.message)
    return _("more was given than it takes: {words}", words=extra[1]) if extra else error.format_message()


def _say_what_it_takes(error: click.BadParameter) -> str:
    """What the parameter takes, by its type; nothing where click or the command knows more than that."""
    kind = error.param.type if error.param is not None else None
    if isinstance(kind, click.Choice):
        return _("it is one of {names}", names=", ".join(str(one) for one in kind.choices))
    if isinstance(kind, (click.IntRange, click.FloatRange)):
        least, most = kind.min, kind.max
        whole = isinstance(kind, click.IntRange)
        if least is not None and most is not None:
            if whole:
                return _("it is a whole number from {least} to {most}", least=least, most=most)
            return _("it is a number from {least} to {most}", least=least, most=most)
        if least is not None and whole:
            return _("it is a whole number, {least} or more", least=least)
        if least is not None:
            return _("it is a number, {least} or more", least=least)
    if kind in (click.INT, click.FLOAT):
        return _("it is a whole number") if kind is click.INT else _("it is a number")
    return ""


def _describe_option(error: click.BadOptionUsage) -> str:
    """An option without its value, or a switch with one: which of them, only click's sentence says."""
    if "does not take a value" in error.message:
        return _("`{name}` takes no value", name=error.option_name)
    if "requires" in error.message:
        return _("`{name}` needs a value", name=error.option_name)
    return error.format_message()


def name_command(name: str, near: str) -> str:
    """That there is no such command, with those that sound like it."""
    if near:
        return _("there is no command `{name}`; did you mean {names}?", name=name, names=near)
    return _("there is no command `{name}`", name=name)


def _name_parameter(error: click.BadParameter) -> str:
    hint = error.param_hint or (error.param.get_error_hint(error.ctx) if error.param and error.ctx else "")
    return " / ".join(hint) if isinstance(hint, (list, tuple)) else str(hint or "")
