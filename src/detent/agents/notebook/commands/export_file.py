"""Notebooks written to files: the ending says which form."""

from itertools import islice
from pathlib import Path

from detent.agents.notebook.notebook_file import write_notebook
from detent.agents.notebook.notebook_state import NotebookState
from detent.errors import Refused
from detent.host.reading import Query, Summary
from detent.kit.every_run import walk_runs
from detent.kit.language import _
from detent.kit.terminal.caller import Caller

LISTED_MAX = 100


def find_notebook(caller: Caller, name: str) -> Summary:
    """A run of the notebook agent, or one that another run has started as its child."""
    summary = caller.find(name)
    work = caller.reader.machine(summary.machine).work.values()
    if "notebook.plan" not in {action.effect for actions in work for action in actions}:
        raise Refused(f"run {summary.run_id} is not a notebook")
    return summary


def read_book(caller: Caller, run_id: str) -> NotebookState:
    """A run's book, as it is now."""
    return caller.reader.project(find_notebook(caller, run_id).run_id, NotebookState)


def notebooks(caller: Caller) -> list[Summary]:
    """The newest notebook runs of this home."""
    return list(islice(walk_runs(caller.reader, Query(agent="notebook")), LISTED_MAX)) if caller.has_journal() else []


def write(
    caller: Caller, run_id: str, path: Path, *, form: str = "", thinking: bool = True, is_told: bool = False
) -> None:
    """Write a run's notebook to a file, and say so unless somebody else does."""
    write_notebook(read_book(caller, run_id).notebook, path, form=form, thinking=thinking)
    if not is_told:
        caller.note(_("written: {path}", path=str(path)), "dim")
