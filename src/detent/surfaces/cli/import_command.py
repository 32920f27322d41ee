"""The command import: other people's workflow files, written as one of detent's that somebody keeps."""

from pathlib import Path

import click
import yaml

from detent.define.asl import translate_asl
from detent.define.asl.translation import read_asl
from detent.define.document import read_file
from detent.define.workflow import read_workflow
from detent.errors import DefinitionError, Refused
from detent.kit.language import _
from detent.kit.safe_text import visible
from detent.kit.terminal.caller import Caller, emit
from detent.kit.terminal.option import verb

WIDTH = 110


@verb("import")
@click.argument("file", metavar="FILE")
@click.option("--output", default="", metavar="FILE", help=_("Where to write it; otherwise it is printed."))
def import_file(caller: Caller, file: str, output: str) -> int:
    """Translate a state machine of Amazon States Language, and say what could not be carried over."""
    made = translate_asl(read_asl(read_file(Path(file)), file), Path(file).name.partition(".")[0])
    text = yaml.safe_dump(made.workflow, sort_keys=False, allow_unicode=True, width=WIDTH)
    notes = [{"place": one.place, "message": one.message} for one in made.notes]
    notes += [{"place": "$", "message": f"somebody must provide the tool `{tool}`"} for tool in made.tools]
    try:
        read_workflow(text, output or file)
    except DefinitionError as error:
        notes.append({"place": "$", "message": str(error)})
    if output:
        _write(Path(output), text)
    if caller.is_json:
        emit({"ok": True, "workflow": made.workflow, "notes": notes, "tools": list(made.tools), "error": None})
        return 0
    if not output:
        click.echo(text, nl=False)
    for note in notes:
        caller.note(f"{visible(file)} {visible(note['place'])}: {visible(note['message'])}", "yellow")
    if output:
        caller.say(_("written to {file}", file=visible(output)), "green")
    return 0


def _write(path: Path, text: str) -> None:
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise Refused(f"{path} is there already and is not overwritten; give another name") from None
    except OSError as error:
        raise Refused(f"cannot write {path}: {error.strerror}") from None


COMMANDS = {"import": import_file}
