"""Notebooks as documents: what other programs read of a run."""

from functools import partial

from detent.agents.notebook.export.file_format import render
from detent.agents.notebook.notebook_state import NotebookState
from detent.host.port import Reader
from detent.kit.agent import RunDocument


def write_notebook(form: str, reader: Reader, run_id: str) -> str:
    """A run's notebook as it is now, in one of the forms."""
    return render(reader.project(run_id, NotebookState).notebook, form)


DOCUMENTS = {
    "notebook.ipynb": RunDocument("application/x-ipynb+json", partial(write_notebook, "ipynb")),
    "notebook.md": RunDocument("text/markdown", partial(write_notebook, "markdown")),
    "notebook.html": RunDocument("text/html", partial(write_notebook, "html")),
}
