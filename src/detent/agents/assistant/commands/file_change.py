"""What a call would change in a file, as a diff: seen before somebody says yes to it."""

import difflib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from detent.kit.language import _
from detent.kit.text import visible

FILE_MAX = 1_000_000
LINES_MAX = 120
PATHS, TEXTS = ("path", "file_path", "file"), ("text", "content", "contents", "file_text")
OLD, NEW = ("old_text", "old_string", "old_str", "oldText"), ("new_text", "new_string", "new_str", "newText")


def render_change(call: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The diff of a call that writes or edits a file, as lines with their colours; nothing for other calls."""
    given = call.get("input") or {}
    name = _first(given, PATHS)
    if not name:
        return
    before, after = _texts(call, given, name)
    if before is None or after is None or before == after:
        return
    lines = list(difflib.unified_diff(before.splitlines(), after.splitlines(), name, name, lineterm=""))
    for line in lines[:LINES_MAX]:
        yield f"    {visible(line, keep=chr(9))}", _colour(line)
    if len(lines) > LINES_MAX:
        yield _("    … {count} more lines of the change", count=len(lines) - LINES_MAX), "yellow"


def _texts(call: Mapping[str, Any], given: Mapping[str, Any], name: str) -> tuple[str | None, str | None]:
    """What is there, and what would be there instead."""
    old, new = _first(given, OLD), _first(given, NEW)
    if old is not None and new is not None:
        return old, new
    edits = given.get("edits")
    if isinstance(edits, list) and all(isinstance(one, dict) for one in edits):
        return ("\n".join(str(_first(one, OLD) or "") for one in edits),
                "\n".join(str(_first(one, NEW) or "") for one in edits))  # fmt: skip
    text = _first(given, TEXTS)
    if text is None:
        return None, None
    before = _read(Path(str(given.get("root") or ".")) / name)
    is_added = "append" in str(call.get("effect")) or given.get("op") == "append"
    return before, f"{before}{text}" if is_added and before is not None else text


def _first(given: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    return next((given[name] for name in names if isinstance(given.get(name), str)), None)


def _read(path: Path) -> str | None:
    """The file as it is; one that is not there is empty, and of one that is no text there is no diff."""
    try:
        if not path.exists():
            return ""
        if not path.is_file():
            return None  # a pipe would keep whoever opens it
        with path.open(encoding="utf-8") as file:
            text = file.read(FILE_MAX + 1)
    except (OSError, ValueError):
        return None
    return text if len(text) <= FILE_MAX else None


def _colour(line: str) -> str:
    if line.startswith(("+++", "---", "@@")):
        return "dim"
    return {"+": "green", "-": "red"}.get(line[:1], "")
