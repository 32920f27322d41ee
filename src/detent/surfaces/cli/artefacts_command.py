"""The command artefacts: the files that a run and its children have kept, and fetching one of them."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import click
import msgspec

from detent.errors import Refused
from detent.host.artefact_list import KeptFile, find_artefact, list_artefacts
from detent.kit.language import _
from detent.kit.safe_text import clock, visible
from detent.kit.terminal.caller import Caller, emit
from detent.kit.terminal.option import run_argument, verb
from detent.whole_file import write_whole

STDOUT = "-"
SHOWN = 12  # letters of a digest


@verb("artefacts")
@run_argument
@click.argument("name", metavar="[NAME|DIGEST]", default="")
@click.option(
    "--to", "place", default="", metavar="FILE|-", help=_("Where to write it; by default under its own name.")
)
@click.option("--force", "is_forced", is_flag=True, help=_("Replace an existing file."))
def artefacts(caller: Caller, run: str, name: str, place: str, is_forced: bool) -> int:
    """List the files a run has kept, or fetch one."""
    found = list_artefacts(caller.reader, caller.find(run).run_id)
    if not name:
        return _list(caller, found)
    file = find_artefact(found, name)
    pieces = caller.reader.read_artefact(file.run_id, file.digest)
    if place == STDOUT:
        for piece in pieces:
            sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()
        return 0
    path = Path(place or PurePosixPath(file.name).name)
    _write(path, pieces, is_forced)
    if caller.is_json:
        emit({"ok": True, "file": str(path), **msgspec.to_builtins(file), "error": None})
    else:
        caller.say(_("written to {file}", file=visible(str(path))))
    return 0


def _list(caller: Caller, found: list[KeptFile]) -> int:
    if caller.is_json:
        emit({"ok": True, "artefacts": [msgspec.to_builtins(one) for one in found], "error": None})
        return 0
    for one in found:
        caller.say(f"{one.digest[:SHOWN]}  {one.size:>12,}  {clock(one.at)}  {visible(one.name)}")
    if not found:
        caller.say(_("no artefacts"))
    return 0


def _write(path: Path, pieces: Iterator[bytes], is_forced: bool) -> None:
    """The whole file or none of it, and never in the place of another without being told to."""
    if not is_forced and os.path.lexists(path):
        raise Refused(f"{path} is there already; another name, or --force")
    try:
        write_whole(path, pieces)
    except OSError as error:
        raise Refused(f"cannot write {path}: {error.strerror}") from None


COMMANDS = {"artefacts": artefacts}
