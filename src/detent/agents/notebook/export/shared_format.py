"""What the three forms share: the title, thinking, and which part of an output is shown."""

import base64
import binascii
import re
from typing import Any, NamedTuple

from detent.agents.notebook.analysis.goal import read_goal
from detent.agents.notebook.cell import Cell, Notebook, Output
from detent.agents.notebook.cell_text import plain_text

SUMMARY = "summary"  # the step of the offline analysis that answers the goal
PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_CHINESE = re.compile(r"[㐀-鿿]")


class Shown(NamedTuple):
    """The part of an output that a reader sees: its kind, and the text or data URI."""

    kind: str  # picture, html, markdown, json, text, stderr, error
    content: str


def order_cells(notebook: Notebook) -> list[Cell]:
    """The cells as they are read: the answer of an analysis was written last, and comes first."""
    if notebook.metadata.get("planner") != "builtin:analysis":
        return [*notebook.cells]
    return sorted(notebook.cells, key=lambda cell: cell.phase_id != SUMMARY)


def add_title(notebook: Notebook) -> list[Cell]:
    """The cells as they are read, beginning with one that holds the title."""
    cells = order_cells(notebook)
    if notebook.title and not (cells and cells[0].content.lstrip().startswith("# ")):
        cells.insert(0, Cell(id="title", type="markdown", content=f"# {notebook.title}"))
    return cells


def thinking_of(cell: Cell) -> tuple[str, list[str]]:
    """Who thought, and the fragments of it."""
    head = cell.agent_name or "Thinking"
    texts = [text for text in (cell.content, cell.custom_text, *cell.text_array) if text]
    return head, list(dict.fromkeys(texts))


def is_chinese(notebook: Notebook) -> bool:
    """Whether the notebook is for a reader of Chinese."""
    return _CHINESE.search(f"{notebook.title} {notebook.metadata.get('goal', '')}") is not None


def has_bar(given: dict[str, Any]) -> bool:
    """Whether there was anything to meet or to miss: a goal, and for the offline analysis a figure in it."""
    goal = str(given.get("goal") or "")
    return bool(goal) and (given.get("planner") != "builtin:analysis" or bool(read_goal(goal).measures))


def choose_part(output: Output) -> Shown | None:
    """The richest part of an output that is safe to show; None if there is nothing."""
    if output.output_type == "stream":
        text = plain_text(output.text or output.content)
        return Shown("stderr" if output.name == "stderr" else "text", text) if text.strip() else None
    if output.output_type == "error":
        text = plain_text("\n".join(output.traceback)) or f"{output.ename}: {output.evalue}"
        return Shown("error", text)
    return _of_bundle(output.data) or (Shown("text", output.content) if output.content.strip() else None)


def _of_bundle(data: dict[str, Any]) -> Shown | None:
    for mime in PICTURES:
        uri = _picture(mime, data.get(mime))
        if uri:
            return Shown("picture", uri)
    drawing = join_part(data.get("image/svg+xml"))
    if drawing:
        coded = base64.b64encode(drawing.encode("utf-8", "replace")).decode()
        return Shown("picture", f"data:image/svg+xml;base64,{coded}")
    for mime, kind in (("text/html", "html"), ("text/markdown", "markdown"), ("text/latex", "text")):
        text = join_part(data.get(mime))
        if text:
            return Shown(kind, text)
    plain = join_part(data.get("text/plain"))
    return Shown("text", plain_text(plain)) if plain else None


def _picture(mime: str, part: Any) -> str:
    """A picture as a data URI; what is no base64 is no picture."""
    text = "".join(join_part(part).split())
    try:
        is_fit = bool(text) and bool(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError):
        is_fit = False
    return f"data:{mime};base64,{text}" if is_fit else ""


def join_part(part: Any) -> str:
    """A MIME part as one text."""
    if isinstance(part, list):
        return "".join(str(one) for one in part)
    return part if isinstance(part, str) else ""
