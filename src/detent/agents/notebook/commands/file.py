"""Notebooks written to files: the ending says which form."""

import importlib
import json
import os
import tempfile
import time
from itertools import islice
from pathlib import Path

import msgspec

from detent.agents.notebook.cell import Notebook
from detent.agents.notebook.machine import NOTEBOOK
from detent.agents.notebook.notebook_state import NotebookState
from detent.errors import Refused
from detent.host.reading import Query, Summary
from detent.kit.every_run import walk_runs
from detent.kit.language import _
from detent.kit.terminal.caller import Caller

LISTED_MAX = 100
FORMS = {".ipynb": "ipynb", ".html": "html", ".htm": "html", ".md": "markdown", ".json": "json"}


def read_book(caller: Caller, run_id: str) -> NotebookState:
    """A run's book, as it is now."""
    summary = caller.reader.find(run_id)
    if "act" not in {action.id for work in caller.reader.machine(summary.machine).work.values() for action in work}:
        raise Refused(f"run {run_id} is no notebook")
    return caller.reader.project(run_id, NotebookState)


def notebooks(caller: Caller) -> list[Summary]:
    """The newest notebook runs of this home."""
    return list(islice(walk_runs(caller.reader, Query(name=NOTEBOOK.name)), LISTED_MAX)) if caller.has_journal() else []


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


def write(caller: Caller, run_id: str, path: Path, *, form: str = "", thinking: bool = True) -> None:
    """Write a run's notebook to a file, whole or not at all."""
    form = form or FORMS.get(path.suffix.lower(), "")
    if not form:
        raise Refused(f"{path}: the ending says the form, and is one of {', '.join(FORMS)}")
    text = render_notebook(read_book(caller, run_id).notebook, form, thinking=thinking)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    caller.note(_("written: {path}", path=str(path)), "dim")
