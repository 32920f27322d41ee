"""Writing runs out as lines of JSON for somebody who does not have detent."""

import sys
from collections.abc import Iterator
from pathlib import Path

from detent.errors import Refused
from detent.kit.language import _
from detent.kit.safe_text import visible
from detent.kit.terminal.caller import Caller, emit
from detent.whole_file import write_whole

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
    count = 0

    def encode() -> Iterator[bytes]:
        nonlocal count
        for line in lines:
            yield line.encode("ascii")
            count += 1

    try:
        write_whole(path, encode(), is_durable=True)
    except OSError as error:
        raise Refused(f"cannot write {path}: {error.strerror}") from None
    return count
