"""A notebook as a file: .ipynb for Jupyter, one HTML page for readers, Markdown for everything else.

The journal is the truth and these are projections of it: pure functions from a Notebook to a text.
"""

from detent.agents.notebook.export.file_format import FORMS, render
from detent.agents.notebook.export.html_page import html
from detent.agents.notebook.export.jupyter import ipynb
from detent.agents.notebook.export.markdown_text import markdown

__all__ = ["FORMS", "html", "ipynb", "markdown", "render"]
