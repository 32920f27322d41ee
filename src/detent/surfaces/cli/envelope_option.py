"""The option that chooses tool mode; the mode itself is loaded when it is wanted."""

import click

from detent.kit.language import _

FORMATS = ("lobster",)
envelope_option = click.option(
    "--envelope", type=click.Choice(FORMATS), help=_("Answer with one object in the protocol of another program.")
)
