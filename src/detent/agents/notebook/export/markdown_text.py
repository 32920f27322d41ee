"""A notebook as Markdown: code fenced, outputs below it, pictures inside the text."""

import re

from detent.agents.notebook.cell import Cell, Notebook, Output
from detent.agents.notebook.export.shared_format import add_title, choose_part, join_part, thinking_of
from detent.core.value import scrub

OUTPUT = "**Output:**"


def markdown(notebook: Notebook, *, thinking: bool = True) -> str:
    """The text of a .md file."""
    parts = [_cell(cell, notebook.language) for cell in add_title(notebook) if thinking or cell.type != "thinking"]
    return scrub("\n\n".join(part for part in parts if part)) + "\n"


def _cell(cell: Cell, language: str) -> str:
    if cell.type == "thinking":
        head, lines = thinking_of(cell)
        return "\n".join(f"> {line}" for line in [f"**{head}**", "", *"\n".join(lines).split("\n")])
    if cell.type not in ("code", "Hybrid"):
        return cell.content.strip("\n")
    parts = [fence(cell.content, cell.language or language)] if cell.content else []
    outputs = [text for text in map(_output, cell.outputs) if text]
    if outputs:
        parts += [OUTPUT, *outputs]
    if cell.note:
        parts.append(f"*{cell.note}*")
    return "\n\n".join(parts)


def _output(output: Output) -> str:
    found = choose_part(output)
    if found is None:
        return ""
    if found.kind == "picture":
        return f"![output]({found.content})"
    if found.kind == "markdown":
        return found.content
    if found.kind == "html":
        return fence(join_part(output.data.get("text/plain")) or output.content, "text")
    return fence(found.content.rstrip("\n"), "text")


def fence(text: str, language: str) -> str:
    """A text in a fence that is longer than any inside it."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    mark = "`" * (longest + 1)
    return f"{mark}{language}\n{text}\n{mark}"
