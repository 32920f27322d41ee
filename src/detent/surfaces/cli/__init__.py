"""The command line: the seven verbs and what helps to look after runs."""

from detent.surfaces.cli.program import main

__all__ = ["main"]
