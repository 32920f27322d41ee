"""Writing runs out as lines of JSON for somebody who does not have detent."""

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from detent.errors import Refused
from detent.kit.language import _
from detent.kit.terminal.caller import Caller, emit
from detent.kit.text import visible

STDOUT = "-"
PAGE = 200


def export(caller: Caller, run_ids: Iterator[str], file: str) -> int:
    """Write a transcript of these runs to a file or to stdout."""
    lines = caller.reader.transcript(run_ids)
    if file == STDOUT:
        for line in lines:
            sys.stdout.write(line)
        return 0
    path = Path(file)
    count = _write(path, lines)
    if caller.is_json:
        emit({"ok": True, "file": str(path), "lines": count, "error": None})
    else:
        caller.say(_("written to {file}", file=visible(str(path))))
    return 0


def _write(path: Path, lines: Iterator[str]) -> int:
    """The whole file or none of it: a transcript that stops half way must not be taken for one."""
    count, aside = 0, ""
    try:
        place, aside = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with open(place, "w", encoding="ascii") as out:
            for line in lines:
                out.write(line)
                count += 1
            out.flush()
            os.fsync(out.fileno())
        os.replace(aside, path)
    except OSError as error:
        raise Refused(f"cannot write {path}: {error.strerror}") from None
    finally:
        if aside:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(aside)
    return count
