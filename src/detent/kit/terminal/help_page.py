"""The page that `--help` prints: what click writes into it by itself is in the reader's language too."""

import re
from collections.abc import Iterable

import click

from detent.kit.language import _, translate

CLICKS_OWN = ("Options", "Show this message and exit.", "INTEGER", "FLOAT")  # as click has them; looked up as they come
KINDS = re.compile(r" (INTEGER|FLOAT)(?: RANGE)?$")  # click's names of what an option takes; ours have their own
DEFAULT = re.compile(r"(?<=\[)default: ([^;\]]*)(?=[;\]])")
REQUIRED = re.compile(r"(?<=[\[ ])required(?=\])")


class HelpPage(click.HelpFormatter):
    """Click's own formatter, with its words looked up in the catalogue."""

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        """How the command is called."""
        args = args.replace("[OPTIONS]", _("[OPTIONS]")).replace("COMMAND [ARGS]...", _("COMMAND [ARGS]..."))
        super().write_usage(prog, args, prefix or _("Usage: "))

    def write_heading(self, heading: str) -> None:
        """Of a list: options, commands."""
        super().write_heading(translate(heading))

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        """A list: each option or command with what it does."""
        super().write_dl([(_name_kind(name), _add_words(about)) for name, about in rows], col_max, col_spacing)


def _name_kind(option: str) -> str:
    return KINDS.sub(lambda found: f" {translate(found[1])}", option)


def _add_words(about: str) -> str:
    about = DEFAULT.sub(lambda found: _("default: {value}", value=found[1]), translate(about))
    return REQUIRED.sub(_("required"), about)
