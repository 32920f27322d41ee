"""Looking at notebooks: show, status, list, export."""

from pathlib import Path
from typing import Any

import click

from detent.agents.notebook.cell_text import last_of_progress
from detent.agents.notebook.commands.export_file import notebooks, read_book, write
from detent.agents.notebook.export.shared_format import has_bar
from detent.agents.notebook.notebook_file import FORMS, render_notebook
from detent.agents.notebook.notebook_state import NotebookState
from detent.agents.notebook.observation import cell_wire, observe
from detent.kit.language import _
from detent.kit.safe_text import status_word, visible, when
from detent.kit.terminal.caller import Caller, emit
from detent.kit.terminal.option import run_argument, verb
from detent.kit.terminal.run_view import RunReport


@verb("show", _("Show a notebook: its cells with their outputs."))
@click.argument("run", metavar="[RUN]", default="last")
@click.option("--notebook", "--cells", "only_cells", is_flag=True, help=_("Only the cells, without the plan."))
@click.option("--observation", "is_observation", is_flag=True, help=_("What a planner would see, as JSON."))
@click.option("--hide-thinking", is_flag=True, help=_("Omit thinking cells."))
def show(caller: Caller, run: str, only_cells: bool, is_observation: bool, hide_thinking: bool) -> int:
    """Show the cells of a run."""
    run_id = caller.find(run).run_id
    book = read_book(caller, run_id)
    if caller.is_json or is_observation:
        seen = observe(book)
        emit(seen if is_observation else {"ok": True, "run_id": run_id, **_describe_notebook(book), "error": None})
        return 0
    if not only_cells:
        _tell_plan(caller, book)
    for cell in book.cells:
        if cell.type == "thinking" and hide_thinking:
            continue
        mark = f"[{cell.execution_count or ' '}]" if cell.type == "code" else "   "
        for number, line in enumerate(cell.content.split("\n")):
            caller.say(f"{mark if not number else '   '} {visible(line)}", "cyan" if cell.type == "code" else "")
        for output in cell.outputs:
            for line in last_of_progress(output.content).rstrip("\n").split("\n"):
                caller.say(f"    │ {visible(line)}", "red" if output.output_type == "error" else "dim")
        if cell.note:
            caller.say(f"    ! {visible(cell.note)}", "yellow")
        caller.say()
    return 0


def _describe_notebook(book: NotebookState) -> dict[str, Any]:
    seen = observe(book)
    notebook = {**seen["context"]["notebook"], "cells": [cell_wire(cell) for cell in book.cells]}
    return {"state": book.state, "location": seen["location"], "notebook": notebook, "output": book.run.output}


def _tell_plan(caller: Caller, book: NotebookState) -> None:
    place = book.location
    caller.say(f"{book.title or book.run.id}  {book.state}", "")
    done, steps = {*place.list_done("stages")}, {*place.list_done("steps")}
    for stage in book.plan.stages if book.plan else ():
        caller.say(
            f"  {'✓' if stage.id in done else '▸' if stage.id == place.stage_id else '·'} {visible(stage.title)}"
        )
        for step in stage.steps if stage.id == place.stage_id and stage.id not in done else ():
            is_here = step.step_id == place.step_id
            caller.say(f"      {'✓' if step.step_id in steps else '▸' if is_here else '·'} {visible(step.title)}")
    for source, found in book.acceptance.items():
        value = visible(str(found.get("value", found.get("error"))))
        caller.say(f"  {'✓' if found['holds'] else '✗'} {visible(source)}: {value}")
    output = book.run.output
    if isinstance(output, dict) and "achieved" in output and book.notebook.metadata["goal"]:
        words = {True: _("goal met"), False: _("goal not met"), None: _("goal not measurable")}
        word = words[output["achieved"] if has_bar(book.notebook.metadata) else None]
        caller.say(f"  {word}: {visible(str(output.get('reason') or ''))}".rstrip(": "))
    for warning in book.warnings[-5:]:
        caller.say(f"  ! {visible(warning)}", "yellow")
    caller.say()


@verb("status", _("Show where a notebook run stands."))
@click.argument("run", metavar="[RUN]", default="last")
def status(caller: Caller, run: str) -> int:
    """Where a run stands: stage, step, behaviour, and what it waits for."""
    run_id = caller.find(run).run_id
    book = read_book(caller, run_id)
    standing = RunReport(caller, run_id)
    if caller.is_json:
        emit({**standing.envelope(ok=True), "location": observe(book)["location"]})
        return 0
    _tell_plan(caller, book)
    standing.tell()
    return 0


@verb("list", _("List the notebooks, newest first."))
def list_(caller: Caller) -> int:
    """Every notebook run."""
    found = notebooks(caller)
    if caller.is_json:
        rows = [{"run_id": row.run_id, "state": row.state, "status": row.status.value} for row in found]
        emit({"ok": True, "runs": rows, "error": None})
        return 0
    for row in found:
        caller.say(f"{row.run_id}  {row.state}  {status_word(row.status)}  ({when(row.updated_at)})")
    if not found:
        caller.say(_("there are no notebooks here yet"))
    return 0


@verb("export", _("Write a notebook as .ipynb, .html, .md or .json."))
@run_argument
@click.option(
    "-o",
    "--output",
    "outputs",
    multiple=True,
    metavar="FILE",
    help=_("The file to write; its suffix chooses the format. May be repeated."),
)
@click.option(
    "--form",
    type=click.Choice(sorted({*FORMS.values()})),
    default=None,
    help=_("The format, if the suffix does not say."),
)
@click.option("--hide-thinking", is_flag=True, help=_("Omit thinking cells."))
def export(caller: Caller, run: str, outputs: tuple[str, ...], form: str | None, hide_thinking: bool) -> int:
    """Write a run's notebook to files, or to standard output."""
    run_id = caller.find(run).run_id
    for output in outputs:
        write(caller, run_id, Path(output), form=form or "", thinking=not hide_thinking)
    if outputs:
        if caller.is_json:
            emit({"ok": True, "run_id": run_id, "path": outputs[0], "paths": [*outputs], "error": None})
        return 0
    text = render_notebook(read_book(caller, run_id).notebook, form or "markdown", thinking=not hide_thinking)
    if caller.is_json:
        emit({"ok": True, "run_id": run_id, "text": text, "error": None})
    else:
        click.echo(text, nl=False)
    return 0


COMMANDS = {"show": show, "status": status, "list": list_, "export": export}
