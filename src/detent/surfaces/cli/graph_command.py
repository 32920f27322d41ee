"""The command that draws: a machine from a file, or a run with its path and its present state lit."""

import shutil
from pathlib import Path

import click

from detent.define import load
from detent.define.graph import Picture, RunPath, ascii, dot, mermaid, picture, svg
from detent.errors import Refused, Unknown
from detent.kit.language import _
from detent.kit.terminal.caller import Caller, emit
from detent.kit.terminal.option import verb

FORMATS = ("ascii", "svg", "mermaid", "dot")
WIDTH_MIN, WIDTH_MAX = 60, 160


@verb("graph")
@click.argument("subject", metavar="FILE|RUN")
@click.option(
    "--format", "form", type=click.Choice(FORMATS), default="ascii", show_default=True, help=_("The output format.")
)
@click.option("--output", default="", metavar="FILE", help=_("Write the picture to this file."))
@click.option("--theme", type=click.Choice(["auto", "light", "dark"]), default="auto", help=_("The colours of an SVG."))
def graph(caller: Caller, subject: str, form: str, output: str, theme: str) -> int:
    """Draw a machine or a run."""
    drawn = _draw(_picture(caller, subject), form, theme)
    if output:
        try:
            Path(output).write_text(drawn, encoding="utf-8")
        except OSError as error:
            raise Refused(f"cannot write {output}: {error.strerror}") from None
    if caller.is_json:
        emit(
            {"ok": True, "format": form, "output": output or None, "picture": None if output else drawn, "error": None}
        )
    elif output:
        caller.say(_("written to {file}", file=output))
    else:
        click.echo(drawn)
    return 0


def _picture(caller: Caller, subject: str) -> Picture:
    """A file if there is one of that name, else a run."""
    if Path(subject.rpartition(":")[0] or subject).is_file() or Path(subject).suffix in (
        ".py",
        ".json",
        ".yaml",
        ".yml",
    ):
        return picture(load(subject).machine)
    try:
        run_id = caller.find(subject).run_id
    except Unknown:
        raise Unknown(f"there is neither a file nor a run `{subject}`") from None
    standing = caller.reader.standing(run_id)
    return picture(standing.machine, standing.run, path=caller.reader.project(run_id, RunPath))


def _draw(made: Picture, form: str, theme: str) -> str:
    if form == "svg":
        return svg(made, theme=theme)  # type: ignore[arg-type]
    if form == "mermaid":
        return mermaid(made)
    if form == "dot":
        return dot(made)
    columns = min(max(shutil.get_terminal_size((100, 40)).columns, WIDTH_MIN), WIDTH_MAX)
    return ascii(made, width=columns)


COMMANDS = {"graph": graph}
