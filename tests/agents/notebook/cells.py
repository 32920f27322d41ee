"""The cells of the analysis run in this process, without a kernel: fast, and with the same facts."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from detent.agents.notebook.analysis.analysis_template import CellRecipe, fill_slots, recipe
from detent.agents.notebook.analysis.data_file_check import kinds_of
from detent.agents.notebook.analysis.goal import columns_named_in, read_goal, target_of
from detent.agents.notebook.analysis.kernel_figure import Facts

READING: dict[str, Any] = {"large_bytes": 200_000_000, "auto_join": False, "labels": {}}


def run_cells(*paths: Path, goal: str, last: str, answers: tuple[str, ...] = (), **given: Any) -> dict[str, Any]:
    """The names that the cells up to `last` have made, with their `facts` and the `asked` questions."""
    wanted, facts = read_goal(goal), Facts([])
    shown: list[dict[str, Any]] = []
    asked: list[str] = []
    replies: Iterator[str] = iter(answers)

    def ask(prompt: str) -> str:
        asked.append(prompt)
        return next(replies)

    space: dict[str, Any] = {"__name__": "cells", "input": ask}
    space["display"] = lambda parts, raw: shown.append({"outputs": [{"data": parts}]})  # noqa: ARG005
    kinds = kinds_of(map(str, paths))
    for cell in _cells(kinds):
        if cell.only and facts.get("task") not in cell.only:
            continue
        columns = facts.get("columns") or []
        target = target_of(wanted, columns, facts.get("roles") or {})
        values: dict[str, Any] = {"data_files": [str(path) for path in paths], "target": target.column, "goal": goal}
        values |= {"named": columns_named_in(wanted, columns), "stem": "x", "is_forecast": wanted.is_forecast}
        values |= {"task": wanted.task or ("description" if target.how == "unasked" else ""), "measures": []}
        values |= {"lead": "", "horizon": wanted.horizon, **READING, **given}
        code = fill_slots(cell.code, values, {}).replace("from IPython.display import display", "")
        exec(compile(code, cell.id, "exec"), space)  # noqa: S102
        facts = Facts(shown)
        if cell.id == last:
            return {**space, "facts": facts, "asked": asked}
    raise AssertionError(f"there is no cell {last}")


def _cells(kinds: set[str]) -> list[CellRecipe]:
    steps = [step for stage in recipe().stages for step in stage.steps]
    return [cell for step in steps for cell in step.cells if not cell.kinds or kinds & {*cell.kinds}]
