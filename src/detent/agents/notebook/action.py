"""The eleven actions of the protocol, and the few more that programs send."""

from typing import Any

import msgspec
from msgspec.structs import replace

from detent.agents.notebook.action_context import (
    LAST_ADDED,
    CellNotFound,
    MissingField,
    ScriptStore,
    require_field,
    require_text,
)
from detent.agents.notebook.cell import Cell, Metadata, metadata_of
from detent.agents.notebook.cell_text import code_of, heading, text_of
from detent.agents.notebook.notebook_plan import steps_of, template_of
from detent.agents.notebook.registry import ActionRegistry
from detent.errors import Refused

Step = dict[str, Any]
REPEATS = ("replay", "once", "skip")


def add(store: ScriptStore, step: Step) -> Step:
    """Add a text or a code cell, as `shot_type` says."""
    content = require_text(step, "content")
    shot_type = step.get("shot_type", "dialogue")
    metadata = metadata_of(step.get("metadata"))
    store_id = str(step.get("store_id") or "")
    if shot_type == "action":
        repeat = repeat_of(step, metadata)
        cell = store.add_cell("code", code_of(content), store_id=store_id, metadata=metadata, repeat=repeat)
        return {"cell_id": cell.id}
    text = text_of(content)
    last = store.last_cell
    if shot_type == "markdown" and last and last.type == "markdown" and not last.content.lstrip().startswith("#"):
        return {"cell_id": store.put(replace(last, content=f"{last.content}\n\n{text}")).id}
    return {"cell_id": store.add_cell("markdown", text, store_id=store_id, metadata=metadata).id}


def repeat_of(step: Step, metadata: Metadata) -> str:
    """The repeat policy an action asks for."""
    wanted = step.get("repeat") or metadata.extra.get("repeat") or "replay"
    if wanted not in REPEATS:
        raise MissingField(f"`repeat` is {wanted!r}; it is one of {', '.join(REPEATS)}")
    return str(wanted)


async def exec_code(store: ScriptStore, step: Step) -> Step:
    """Run a code cell."""
    wanted = require_text(step, "codecell_id")
    return await store.execute(code_cell(store, wanted), step)


def code_cell(store: ScriptStore, wanted: str) -> Cell:
    """The code cell an `exec` means."""
    cell = store.cell(wanted)
    if cell is None:
        known = "no code cell was added yet" if wanted in LAST_ADDED else f"there is no cell `{wanted}`"
        raise CellNotFound(known)
    if cell.type != "code":
        raise CellNotFound(f"the cell `{wanted}` holds {cell.type}, not code")
    return cell


def is_thinking(store: ScriptStore, step: Step) -> Step:
    """Begin to think aloud."""
    text = str(step.get("thinking_text") or "")
    fragments = step.get("text_array")
    cell = store.add_cell(
        "thinking",
        text,
        store_id=str(step.get("store_id") or ""),
        agent_name=str(step.get("agent_name") or ""),
        custom_text=str(step.get("custom_text") or ""),
        text_array=tuple(str(one) for one in fragments) if isinstance(fragments, list) else (),
        use_workflow_thinking=step.get("use_workflow_thinking") is True,
        metadata=replace(metadata_of(step.get("metadata")), thinking_text=text or None, finished_thinking=False),
    )
    return {"cell_id": cell.id}


def finish_thinking(store: ScriptStore, _step: Step) -> Step:
    """Mark the thinking that is under way as finished."""
    for cell in reversed(store.book.cells):
        if cell.type == "thinking" and not cell.metadata.finished_thinking:
            store.put(replace(cell, metadata=replace(cell.metadata, finished_thinking=True)))
            return {"cell_id": cell.id}
    store.warn("finish_thinking: nobody was thinking")
    return {}


def new_chapter(store: ScriptStore, step: Step) -> Step:
    """Add a chapter heading; chapters are numbered through."""
    number = store.book.chapters + 1
    metadata = replace(
        metadata_of(step.get("metadata")), is_chapter=True, chapter_number=number, chapter_id=f"chapter-{number}"
    )
    content = heading(require_text(step, "content"), 2)
    cell = store.add_cell("markdown", content, store_id=str(step.get("store_id") or ""), metadata=metadata)
    return {"cell_id": cell.id, "chapter_id": metadata.chapter_id}


def new_section(store: ScriptStore, step: Step) -> Step:
    """Add a section heading; sections are numbered through and know their chapter."""
    number, chapter = store.book.sections + 1, store.book.chapters
    metadata = replace(
        metadata_of(step.get("metadata")),
        is_section=True,
        section_number=number,
        section_id=f"section-{number}",
        chapter_id=f"chapter-{chapter}" if chapter else None,
    )
    content = heading(require_text(step, "content"), 3)
    cell = store.add_cell("markdown", content, store_id=str(step.get("store_id") or ""), metadata=metadata)
    return {"cell_id": cell.id, "section_id": metadata.section_id}


def new_step(store: ScriptStore, step: Step) -> Step:
    """Add a step heading, for generators that send one."""
    metadata = replace(metadata_of(step.get("metadata")), is_step=True)
    return {"cell_id": store.add_cell("markdown", heading(require_text(step, "content"), 3), metadata=metadata).id}


def update_title(store: ScriptStore, step: Step) -> Step:
    """Give the notebook a title; a title cell at its beginning follows."""
    title = text_of(require_text(step, "title" if step.get("title") else "content")).strip().lstrip("#").strip()
    store.set("title", title)
    first = store.book.cells[0] if store.book.cells else None
    if first is not None and first.type == "markdown" and first.content.startswith("# "):
        store.put(replace(first, content=f"# {title}"))
    return {"title": title}


def update_workflow(store: ScriptStore, step: Step) -> Step:
    """Propose another plan."""
    try:
        template = template_of(require_field(step, "updated_workflow"))
    except Refused as error:
        raise MissingField(f"`updated_workflow`: {error}") from None
    store.raised = "UPDATE_WORKFLOW"
    return {"workflow_update_pending": True, "workflow": msgspec.to_builtins(template)}


def update_stage_steps(store: ScriptStore, step: Step) -> Step:
    """Propose other steps for one stage."""
    stage_id = step.get("stage_id") or store.book.location.stage_id
    plan = store.book.plan
    if plan is None or plan.stage(str(stage_id)) is None:
        raise MissingField(f"`stage_id`: the plan has no stage `{stage_id}`")
    try:
        steps = steps_of(require_field(step, "updated_steps"), "updated_steps")
    except Refused as error:
        raise MissingField(str(error)) from None
    store.raised = "UPDATE_STEP"
    return {"step_update_pending": True, "stage_id": stage_id, "steps": msgspec.to_builtins(steps)}


def end_phase(store: ScriptStore, step: Step) -> Step:
    """Say that the step is done; the planner hears of it with the feedback."""
    step_id = step.get("step_id") or store.book.location.step_id
    return {"step_id": step_id}


def next_event(store: ScriptStore, step: Step) -> Step:
    """Reserved by the protocol: noted, and nothing else."""
    event_type = str(step.get("event_type") or "")
    store.warn(f"next_event `{event_type}` is noted; the protocol gives it no meaning yet")
    return {"event_type": event_type}


def update_last_text(store: ScriptStore, step: Step) -> Step:
    """Replace the text of the last text cell."""
    text = require_text(step, "text")
    for cell in reversed(store.book.cells):
        if cell.type == "markdown":
            return {"cell_id": store.put(replace(cell, content=text)).id}
    raise MissingField("there is no text cell to update")


def set_effect_as_thinking(store: ScriptStore, step: Step) -> Step:
    """Show the current effects as finished thinking."""
    text = str(step.get("thinking_text") or "finished thinking")
    metadata = Metadata(finished_thinking=True, thinking_text=text)
    cell = store.add_cell("thinking", text, text_array=tuple(store.book.current[-20:]), metadata=metadata)
    return {"cell_id": cell.id}


def comment_result(store: ScriptStore, step: Step) -> Step:
    """Add a comment on what was just shown, and file the effects away."""
    cell = store.add_cell("markdown", text_of(require_text(step, "content")))
    store.changes["effects_set"] = {"current": [], "history": [*store.book.past, *store.book.current]}
    return {"cell_id": cell.id}


async def promote(store: ScriptStore, step: Step) -> Step:
    """Make a temporary variable a lasting one: renamed in the kernel, registered as an artifact, told as produced."""
    variable, version = require_text(step, "variable"), require_text(step, "version")
    base = str(step.get("base") or variable.removeprefix("tmp_").removeprefix("_"))
    artifact_id = f"{base}@{version}"
    name = artifact_id.replace("@", "_")
    if not all(word.isidentifier() for word in (variable, name)):
        raise MissingField(f"`{variable}` cannot become `{name}`: both must be names")
    cell = store.add_cell("code", f"{name} = {variable}\ndel {variable}")
    result = await store.execute(cell, step)
    if result.get("success") is not False:
        store.changes["artifact"] = {
            "artifact_id": artifact_id,
            "variable_name": name,
            "description": str(step.get("description") or ""),
            "source": variable,
            "parent": step.get("parent"),
            "created_at": store.book.run.at,
        }
    return {**result, "artifact_id": artifact_id}


PROTOCOL = {
    "add": add,
    "exec": exec_code,
    "is_thinking": is_thinking,
    "finish_thinking": finish_thinking,
    "new_chapter": new_chapter,
    "new_section": new_section,
    "update_title": update_title,
    "update_workflow": update_workflow,
    "update_stage_steps": update_stage_steps,
    "end_phase": end_phase,
    "next_event": next_event,
}
BESIDES = {
    "add_text": add,
    "new_step": new_step,
    "update_last_text": update_last_text,
    "set_effect_as_thinking": set_effect_as_thinking,
    "comment_result": comment_result,
    "promote": promote,
}


def registry() -> ActionRegistry:
    """A registry with every action detent knows."""
    return ActionRegistry({**PROTOCOL, **BESIDES})
