"""A notebook as plain values: cells with their outputs and everything the protocol says of them.

The journal is the truth; a Notebook is what folding it gives, and every file (.ipynb, HTML, Markdown) is made from it.
Field names are those of the protocol; what other programs write in camelCase is taken as well.
"""

import re
from collections.abc import Container
from typing import Any, Literal

import msgspec

CellType = Literal["markdown", "code", "thinking", "Hybrid", "outcome", "error"]
Repeat = Literal["replay", "once", "skip"]  # what a resume does with a code cell: run it again, ask, leave it out
Ran = Literal["", "ok", "error", "timeout", "dead", "interrupted", "skipped"]  # how a code cell ended; "": not yet run

FOREIGN = re.compile(r"[^A-Za-z0-9_-]")
ID_MAX = 64


class Output(msgspec.Struct, frozen=True, omit_defaults=True):
    """One output of a code cell, in nbformat's shape with the protocol's `content` beside it."""

    output_type: str  # stream, execute_result, display_data, error
    content: str = ""  # the output as one text, for planners and people
    text: str = ""  # stream: what was written
    name: str = ""  # stream: stdout or stderr
    data: dict[str, Any] = {}  # execute_result, display_data: MIME bundle
    metadata: dict[str, Any] = {}
    execution_count: int | None = None
    ename: str = ""
    evalue: str = ""
    traceback: tuple[str, ...] = ()


class Metadata(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an action says about the cell it makes; unknown keys are kept in `extra`."""

    is_step: bool = False
    is_chapter: bool = False
    is_section: bool = False
    chapter_id: str | None = None
    section_id: str | None = None
    chapter_number: int | None = None
    section_number: int | None = None
    finished_thinking: bool = False
    thinking_text: str | None = None
    extra: dict[str, Any] = {}


class Cell(msgspec.Struct, frozen=True, omit_defaults=True, rename={"is_update": "isUpdate"}):
    """One cell: the protocol's fields, then how detent treats it and how it went."""

    id: str  # 1 to 64 letters, digits, `-`, `_`, as nbformat wants it
    type: CellType = "markdown"
    content: str = ""
    outputs: tuple[Output, ...] = ()
    enable_edit: bool = True
    description: str = ""
    metadata: Metadata = Metadata()
    language: str = "python"
    could_visible_in_writing_mode: bool = True
    is_update: bool = False  # changed since a planner last saw it
    phase_id: str | None = None  # the step the cell belongs to
    execution_count: int | None = None
    # thinking cells
    agent_name: str = ""
    custom_text: str = ""
    text_array: tuple[str, ...] = ()
    use_workflow_thinking: bool = False
    # detent's own
    stage_id: str = ""
    store_id: str = ""  # the id the planner gave, where nbformat does not allow it
    repeat: Repeat = "replay"
    ran: Ran = ""
    error: dict[str, Any] | None = None  # ename, evalue, traceback of the run that failed
    duration_s: float = 0.0
    need_output: bool = True  # false: its outputs are kept out of the planner's sight
    keep_debug_button_visible: bool = False
    repairs: tuple[str, ...] = ()  # what auto_debug did to it, one sentence each
    note: str = ""  # what detent has to say about it
    deeds: tuple[str, ...] = ()  # what it was seen to do to the world, one line each


class Notebook(msgspec.Struct, frozen=True, omit_defaults=True):
    """A whole notebook."""

    notebook_id: str = ""  # 32 hex digits
    title: str = ""
    cells: tuple[Cell, ...] = ()
    execution_count: int = 0
    language: str = "python"
    language_info: dict[str, Any] = {}  # what a kernel that is not Python says of its language
    kernel: str = "python3"
    metadata: dict[str, Any] = {}  # goal, planner, run_id, achieved, saved_at …


def cell_id(wanted: str, taken: Container[str]) -> str:
    """An id nbformat accepts and no other cell has, as near as possible to the one that was wanted."""
    base = FOREIGN.sub("-", wanted)[:ID_MAX] or "cell"
    found, number = base, 2
    while found in taken:
        tail = f"-{number}"
        found, number = base[: ID_MAX - len(tail)] + tail, number + 1
    return found


def snake(name: str) -> str:
    """`isSection` as `is_section`."""
    return re.sub(r"(?<=[a-z0-9])([A-Z])", lambda found: "_" + found[1].lower(), name)


def metadata_of(given: Any) -> Metadata:
    """Metadata as it may come from outside: both spellings, wrong types and unknown keys go to `extra`."""
    known: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    for name, value in (given if isinstance(given, dict) else {}).items():
        field = snake(str(name))
        if field == "extra" and isinstance(value, dict):
            extra.update(value)
        elif field in Metadata.__struct_fields__ and field != "extra" and _fits(field, value):
            known[field] = value
        else:
            extra[str(name)] = value
    return Metadata(**known, extra=extra)


def _fits(field: str, value: Any) -> bool:
    if field.endswith("_number"):
        return value is None or type(value) is int
    return isinstance(value, bool) if field.startswith(("is_", "finished")) else value is None or isinstance(value, str)
