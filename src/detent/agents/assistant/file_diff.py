"""What a call would change in a file, as a diff: seen before somebody says yes to it."""

import difflib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

FILE_MAX = 1_000_000
PATHS, TEXTS = ("path", "file_path", "file"), ("text", "content", "contents", "file_text")
OLD, NEW = ("old_text", "old_string", "old_str", "oldText"), ("new_text", "new_string", "new_str", "newText")

ReadFile = Callable[[Path], str | None]  # None: there is nothing to show of it


def list_changed_lines(call: Mapping[str, Any], read: ReadFile) -> list[str]:
    """The unified diff of a call that writes or edits a file; nothing for other calls."""
    given = call.get("input") or {}
    name = _first(given, PATHS)
    if not name:
        return []
    before, after = _texts(call, given, name, read)
    if before is None or after is None or before == after:
        return []
    return list(difflib.unified_diff(before.splitlines(), after.splitlines(), name, name, lineterm=""))


def _texts(
    call: Mapping[str, Any], given: Mapping[str, Any], name: str, read: ReadFile
) -> tuple[str | None, str | None]:
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
    before = read(Path(str(given.get("root") or ".")) / name)
    is_added = "append" in str(call.get("effect")) or given.get("op") == "append"
    return before, f"{before}{text}" if is_added and before is not None else text


def _first(given: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    return next((given[name] for name in names if isinstance(given.get(name), str)), None)


def read_text(path: Path) -> str | None:
    """A file as it is; one that is not there is empty, and of one that is no text there is no diff."""
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


def find_inside(folder: Path, hidden: Path, path: Path) -> Path | None:
    """Where a file is that somebody elsewhere names: in the folder, not in `hidden`, and below no name with a dot."""
    try:
        found = (folder / path).resolve()
    except (OSError, ValueError, RuntimeError):
        return None
    is_inside = found.is_relative_to(folder.resolve()) and not found.is_relative_to(hidden.resolve())
    parts = found.relative_to(folder.resolve()).parts if is_inside else (".",)
    return None if any(part.startswith(".") for part in parts) else found


def read_inside(folder: Path, hidden: Path, path: Path) -> str | None:
    """What such a file holds.

    Which file it is, a model has said; whoever is asked must not be shown what the server alone may read.
    """
    found = find_inside(folder, hidden, path)
    return None if found is None else read_text(found)
