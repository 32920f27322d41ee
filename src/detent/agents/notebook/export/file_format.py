"""The forms a notebook can take as a file, by name."""

from detent.agents.notebook.cell import Notebook
from detent.agents.notebook.export.html_page import html
from detent.agents.notebook.export.jupyter import ipynb
from detent.agents.notebook.export.markdown_text import markdown
from detent.errors import Refused

FORMS = {"ipynb": ipynb, "html": html, "markdown": markdown}


def render(notebook: Notebook, form: str, *, thinking: bool = True) -> str:
    """A notebook in one of the forms, with or without its thinking."""
    make = FORMS.get(form)
    if make is None:
        raise Refused(f"there is no form `{form}`; there are {', '.join(FORMS)}")
    return make(notebook, thinking=thinking)
