"""What a call would change in a file, on the terminal."""

from collections.abc import Iterator, Mapping
from typing import Any

from detent.agents.assistant.file_diff import list_changed_lines, read_text
from detent.kit.language import _
from detent.kit.safe_text import visible

LINES_MAX = 120


def render_change(call: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The diff of a call that writes or edits a file, as lines with their colours; nothing for other calls."""
    lines = list_changed_lines(call, read_text)
    for line in lines[:LINES_MAX]:
        yield f"    {visible(line, keep=chr(9))}", _colour(line)
    if len(lines) > LINES_MAX:
        yield _("    … {count} more lines of the change", count=len(lines) - LINES_MAX), "yellow"


def _colour(line: str) -> str:
    if line.startswith(("+++", "---", "@@")):
        return "dim"
    return {"+": "green", "-": "red"}.get(line[:1], "")
