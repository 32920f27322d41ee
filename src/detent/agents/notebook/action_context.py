"""The notebook as one action sees it: everything there is so far, and a list of changes it wants.

Nothing is changed in place: what an action does is collected and journalled as its result, and only the journal
changes the notebook.
"""

import uuid
from collections import ChainMap
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar

import msgspec

from detent.agents.notebook.cell import Cell, cell_id
from detent.agents.notebook.notebook_state import NotebookState
from detent.agents.notebook.registry import ActionRegistry, Handler, resolve_value
from detent.core.value import digest

LAST_ADDED = ("lastAddedCellId", "last_added_cell_id")
RunCell = Callable[["ScriptStore", Cell, dict[str, Any]], Awaitable[dict[str, Any]]]


class MissingField(Exception):
    """An action lacks something it cannot do without."""


class CellNotFound(Exception):
    """An action names a cell that is not there."""


class ScriptStore:
    """One action at work on a notebook."""

    _everywhere: ClassVar[dict[str, Handler]] = {}

    def __init__(
        self, book: NotebookState | None = None, registry: ActionRegistry | None = None, run_cell: RunCell | None = None
    ) -> None:
        self.book = book or NotebookState()
        self.registry = registry or ActionRegistry()
        self._run_cell = run_cell
        self._cells: dict[str, Cell] = {}
        self._last_added = self._last_code = ""
        self.changes: dict[str, Any] = {}
        self.raised = ""  # the event this action means, besides being done
        self.kernel: dict[str, Any] = {}  # how a cell went, where one was run

    @classmethod
    def register_custom_action(cls, name: str, handler: Handler) -> None:
        """Register an action for every notebook of this process."""
        cls._everywhere[name.strip().replace("-", "_")] = handler

    @property
    def _registry(self) -> ActionRegistry:
        """The registry under the name the protocol's examples use."""
        return self.registry

    # reading

    def cell(self, wanted: str) -> Cell | None:
        """A cell by its id, by the id its planner gave it, or the last added code cell."""
        if wanted in LAST_ADDED:
            wanted = self._last_code or self.book.last_code
        return self._cells.get(wanted) or self.book.cell(wanted)

    @property
    def last_cell(self) -> Cell | None:
        """The last cell of the notebook."""
        return self.cell(self._last_added or self.book.last_added)

    @property
    def variables(self) -> dict[str, Any]:
        """What the person, the planner and the kernel have said, by name."""
        return {**self.book.given, **self.book.variables}

    @property
    def action_id(self) -> str:
        """The name of this action within its run."""
        return f"action-{self.book.actions_done + 1}"

    # changing

    def add_cell(self, type: str, content: str, *, store_id: str = "", **fields: Any) -> Cell:
        """Add a cell at the end."""
        count = len(self._cells)
        made = str(uuid.UUID(digest([self.book.run.id, self.book.actions_done, count])[:32], version=4))
        found = cell_id(store_id or made, ChainMap[str, Any](self._cells, self.book.place))
        place = self.book.location
        given = {
            "id": found,
            "type": type,
            "content": content,
            "store_id": store_id if store_id != found else "",
            "phase_id": place.step_id,
            "stage_id": place.stage_id or "",
            **fields,
        }
        cell = msgspec.convert(given, Cell, from_attributes=True)
        self._last_added = cell.id
        if cell.type == "code":
            self._last_code = cell.id
        return self.put(cell)

    def put(self, cell: Cell) -> Cell:
        """Add a cell, or put it in the place of the one with its id."""
        self._cells[cell.id] = cell
        self.changes["cells"] = [msgspec.to_builtins(one) for one in self._cells.values()]
        return cell

    def add_effect(self, text: str) -> None:
        """Tell the planner something."""
        self.changes.setdefault("effects", []).append(text)

    def warn(self, text: str) -> None:
        """Say that something is not as it should be, without stopping."""
        self.changes.setdefault("warned", []).append(text)

    def set(self, name: str, value: Any) -> None:
        """Replace one of the book's settable values."""
        self.changes.setdefault("set", {})[name] = value

    def set_variable(self, name: str, value: Any) -> None:
        """Set a variable of the context (not of the kernel)."""
        given = self.changes.get("set", {}).get("given", self.book.given)
        self.set("given", {**given, name: value})

    async def execute(self, cell: Cell, step: dict[str, Any]) -> dict[str, Any]:
        """Run a code cell in the kernel."""
        if self._run_cell is None:
            raise RuntimeError("there is no kernel here")
        return await self._run_cell(self, cell, step)

    # carrying out

    async def exec_action(self, step: dict[str, Any]) -> Any:
        """Carry out one action with its hooks; a mapping with `success`, or None for an unknown action."""
        name = step.get("action", "")
        handler = self.registry.handler(name) or self._everywhere.get(name)
        if handler is None:
            self.warn(f"there is no action `{name}`; it was skipped")
            return None
        await self.registry.before(step, self.warn)
        result = await self._handle(handler, step)
        await self.registry.after(step, result, self.warn)
        return result

    async def _handle(self, handler: Handler, step: dict[str, Any]) -> dict[str, Any]:
        try:
            result = await resolve_value(handler(self, step))
        except MissingField as error:
            self.warn(f"{step['action']}: {error}")
            return {"success": False, "error": str(error), "action_id": self.action_id}
        found = result if isinstance(result, dict) else {} if result is None else {"result": result}
        return {"success": True, **{str(name): _keep(value) for name, value in found.items()}}


def _keep(value: Any) -> Any:
    """What a handler gave, as the journal can have it: a cell, or anything else of its own, is named."""
    if value is None or isinstance(value, str | int | float | list | dict):
        return value
    return value.id if isinstance(value, Cell) else str(value)


def require_field(step: dict[str, Any], field: str) -> Any:
    """A field an action cannot do without."""
    value = step.get(field)
    if value is None or value == "":
        raise MissingField(f"`{step['action']}` needs `{field}`")
    return value


def require_text(step: dict[str, Any], field: str) -> str:
    """A text an action cannot do without."""
    value = require_field(step, field)
    if not isinstance(value, str):
        raise MissingField(f"`{field}` of `{step['action']}` must be a text")
    return value
