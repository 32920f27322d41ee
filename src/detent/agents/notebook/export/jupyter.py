"""A notebook as nbformat 4.5, valid by construction: ids, MIME parts and every field the format wants."""

import json
from typing import Any

from detent.agents.notebook.cell import Cell, Notebook, Output, cell_id
from detent.agents.notebook.export.shared_format import add_title, thinking_of
from detent.core.value import scrub

MIMES_AS_JSON = ("application/json", "+json")
OPEN_LINES_MAX = 25  # longer code of the offline analysis is folded
NAMES = {"python3": "Python 3", "": "Python 3"}


def ipynb(notebook: Notebook, *, thinking: bool = True) -> str:
    """The text of an .ipynb file."""
    is_ours = notebook.metadata.get("planner") == "builtin:analysis"
    taken: set[str] = set()
    cells = []
    for cell in add_title(notebook):
        if cell.type == "thinking" and not thinking:
            continue
        found = cell_id(cell.id, taken)
        taken.add(found)
        cells.append(_cell(cell, found))
        if is_ours and cell.content.count("\n") > OPEN_LINES_MAX:
            cells[-1]["metadata"]["jupyter"] = {"source_hidden": True}  # one click away; its first line stays in view
    kernel = notebook.kernel or "python3"
    shown = {"name": kernel, "display_name": NAMES.get(kernel, kernel), "language": notebook.language}
    own = {"notebook_id": notebook.notebook_id, **notebook.metadata}
    language = {**notebook.language_info, "name": notebook.language}
    metadata = {"kernelspec": shown, "language_info": language, "title": notebook.title}
    document = {"cells": cells, "metadata": {**metadata, "detent": own}, "nbformat": 4, "nbformat_minor": 5}
    return scrub(json.dumps(document, ensure_ascii=False, indent=1)) + "\n"


def _cell(cell: Cell, found: str) -> dict[str, Any]:
    is_code = cell.type == "code" or (cell.type == "Hybrid" and bool(cell.outputs))
    metadata: dict[str, Any] = {"detent": _own(cell)} if _own(cell) else {}
    tags: list[str] = [cell.type] if cell.type in ("thinking", "outcome", "error") else []
    if cell.repeat != "replay":
        tags.append(cell.repeat)
    if tags:
        metadata["tags"] = tags
    if not cell.enable_edit:
        metadata["editable"] = False
    if is_code:
        made: dict[str, Any] = {"cell_type": "code", "execution_count": cell.execution_count, "id": found}
        return {**made, "metadata": metadata, "outputs": [_output(one, cell) for one in cell.outputs],
                "source": _lines(cell.content)}  # fmt: skip
    return {"cell_type": "markdown", "id": found, "metadata": metadata, "source": _lines(_text(cell))}


def _own(cell: Cell) -> dict[str, Any]:
    """What only detent knows of a cell, so that reading the file again loses nothing."""
    given = {
        "type": cell.type if cell.type not in ("code", "markdown") else "",
        "stage_id": cell.stage_id,
        "step_id": cell.phase_id or "",
        "store_id": cell.store_id,
        "repeat": cell.repeat if cell.repeat != "replay" else "",
        "ran": cell.ran,
        "duration_s": cell.duration_s,
        "repairs": [*cell.repairs],
        "note": cell.note,
        "chapter_id": cell.metadata.chapter_id or "",
        "section_id": cell.metadata.section_id or "",
    }
    return {name: value for name, value in given.items() if value}


def _text(cell: Cell) -> str:
    """The Markdown of a cell that is no code."""
    if cell.type != "thinking":
        return cell.content
    head, lines = thinking_of(cell)
    body = "\n".join(f"> {line}" for text in lines for line in text.split("\n"))
    return f"> **{head}**\n>\n{body}" if body else f"> **{head}**"


def _output(output: Output, cell: Cell) -> dict[str, Any]:
    kind = output.output_type
    if kind == "stream":
        name = output.name if output.name in ("stdout", "stderr") else "stdout"
        return {"name": name, "output_type": "stream", "text": _lines(output.text or output.content)}
    if kind == "error":
        trace = [*output.traceback] or [output.content or f"{output.ename}: {output.evalue}"]
        return {"ename": output.ename, "evalue": output.evalue, "output_type": "error", "traceback": trace}
    data = {str(mime): _part(str(mime), part) for mime, part in output.data.items()}
    if not data:
        data = {"text/plain": _lines(output.content or output.text)}
    shown = {"data": data, "metadata": {name: one for name, one in output.metadata.items() if isinstance(one, dict)}}
    if kind == "execute_result":
        number = output.execution_count if output.execution_count is not None else cell.execution_count
        return {**shown, "execution_count": number, "output_type": kind}
    return {**shown, "output_type": "display_data"}


def _part(mime: str, part: Any) -> Any:
    if mime.endswith(MIMES_AS_JSON):
        return part
    if isinstance(part, list):
        part = "".join(str(one) for one in part)
    text = part if isinstance(part, str) else json.dumps(part, ensure_ascii=False)
    return _lines(text) if mime.startswith("text/") or mime == "image/svg+xml" else text


def _lines(text: str) -> list[str]:
    """A text the way nbformat writes it: a list of lines, so that files can be compared."""
    parts = text.split("\n")
    lines = [f"{line}\n" for line in parts[:-1]]
    return [*lines, parts[-1]] if parts[-1] else lines
