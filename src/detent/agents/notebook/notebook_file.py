"""Notebooks as files: in which form, and where a run leaves its own when it is over.

Whoever drives a run to its end writes its notebook: the command that started it, an answer from another terminal, a
server. It is written into the folder that the run's cells work in, and never over a file of somebody else's.
"""

import importlib
import json
import os
import time
from contextlib import suppress
from html import escape
from pathlib import Path

import msgspec

from detent.agents.notebook.cell import Notebook
from detent.agents.notebook.notebook_state import NotebookState
from detent.core.run import Run
from detent.core.status import Status
from detent.errors import Refused
from detent.whole_file import FOR_ALL, write_whole

FORMS = {".ipynb": "ipynb", ".html": "html", ".htm": "html", ".md": "markdown", ".json": "json"}
USUAL = (".ipynb", ".html")


def render_notebook(notebook: Notebook, form: str, *, thinking: bool = True) -> str:
    """A notebook as the text of a file."""
    if form == "json":
        own = {**msgspec.to_builtins(notebook), "saved_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
        return json.dumps(own, ensure_ascii=False, indent=1) + "\n"
    try:
        render = importlib.import_module("detent.agents.notebook.export").render
    except ModuleNotFoundError:
        raise Refused(f"this detent cannot write {form}; --form json is always there") from None
    return str(render(notebook, form, thinking=thinking))


def write_notebook(notebook: Notebook, path: Path, *, form: str = "", thinking: bool = True) -> None:
    """Write a notebook to a file, whole or not at all; the ending says the form."""
    form = form or FORMS.get(path.suffix.lower(), "")
    if not form:
        raise Refused(f"{path}: the ending says the form, and is one of {', '.join(FORMS)}")
    text = render_notebook(notebook, form, thinking=thinking)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, text.encode(), mode=FOR_ALL)


def publish(book: NotebookState) -> None:
    """Write the notebook of a run that is over where its files belong.

    What cannot be written there is no failure of the run: `notebook export` writes it anywhere.
    """
    for path in choose_places(book.run):
        with suppress(OSError, Refused):
            write_notebook(book.notebook, path)


def choose_places(run: Run) -> tuple[Path, ...]:
    """Where the notebook of an ended run belongs: the files it was started with, or those usual for an analysis."""
    cwd = str((run.context.get("kernel") or {}).get("cwd") or "")
    folder, asked = Path(cwd), run.context.get("outputs") or ()
    if run.ended is None or not cwd or not os.access(folder, os.W_OK):
        return ()
    if asked:  # elsewhere only the command itself may write: what a run is given may come from anybody
        inside = [Path(str(one)) for one in asked]
        return tuple(path for path in inside if path.resolve().is_relative_to(folder.resolve()))
    if run.ended is not Status.COMPLETED or (run.context.get("planner") or {}).get("use") != "builtin:analysis":
        return ()
    data = str((run.context.get("variables") or {}).get("data_file") or "")
    stem = Path(data).name.partition(".")[0] or "analysis"
    for name in (stem, f"{stem}-{run.id}"):
        found = tuple(folder / f"{name}{suffix}" for suffix in USUAL)
        if all(not path.exists() or _has_mark(path, "builtin:analysis") for path in found):
            return found
    return ()


def find_written(run: Run) -> tuple[str, ...]:
    """The files of its own that an ended run has left, seen from here."""
    return tuple(os.path.relpath(path) for path in choose_places(run) if _is_of(path, run))


def _is_of(path: Path, run: Run) -> bool:
    """Whether a file is this run's: it names the run, or has no place for that and is not older than its end."""
    if path.suffix.lower() in USUAL:
        return _has_mark(path, run.id)
    return path.is_file() and path.stat().st_mtime >= run.at - 1


def _has_mark(path: Path, mark: str) -> bool:
    """Whether a file was written by a run of this id, or by this planner: both are in what it says of itself."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            text = file.read()
    except OSError:
        return False
    named = json.dumps(mark, ensure_ascii=False)
    return f'"run_id": {named}' in text or f'"planner": {named}' in text or f"<li>{escape(mark)}</li>" in text
