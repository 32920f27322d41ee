"""Workflow files that a workflow runs as children: found beside it, read once, never in a circle."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from detent.core.machine import Machine
from detent.define.compile_context import Page
from detent.define.document import Route
from detent.define.problem import BrokenDefinition, Problem
from detent.errors import DefinitionError

DEPTH_MAX = 16
SUFFIXES = (".yaml", ".yml", ".lobster", ".json")
SIZE_MAX = 4 * 1024 * 1024  # of all children's machines together: a child stands in its parent as a whole


class Shelf:
    """The files one workflow is made of."""

    def __init__(self, read: Callable[[Path, "Shelf"], tuple[Machine, list[Problem]]]) -> None:
        self._read = read
        self._open: list[Path] = []
        self._done: dict[Path, dict[str, Any] | None] = {}
        self._size: dict[Path, int] = {}
        self._taken = 0

    def enter(self, path: Path) -> None:
        """A file is being compiled; what it names is looked for beside it."""
        self._open.append(path)

    def leave(self) -> None:
        """The file is done."""
        self._open.pop()

    def child(self, page: Page, place: Route, named: str) -> dict[str, Any] | None:
        """The machine of another file as plain data, or None after a note."""
        if not self._open:
            page.say(place, "a text that is not in a file cannot name other files", "load the workflow from a file")
            return None
        try:
            path = (self._open[-1].parent / named).resolve()
        except (OSError, ValueError, RuntimeError) as error:
            page.say(place, f"this is not a path: {error}")
            return None
        if path.suffix.lower() not in SUFFIXES:
            page.say(place, "a child workflow is a file that ends in .yaml, .yml or .lobster")
            return None
        if path in self._open:
            circle = " → ".join(one.name for one in [*self._open[self._open.index(path) :], path])
            page.say(place, f"workflows in a circle: {circle}", "a workflow cannot run itself")
            return None
        if len(self._open) >= DEPTH_MAX:
            page.say(place, f"workflows nested more than {DEPTH_MAX} deep")
            return None
        return self._find(page, place, path, named)

    def _find(self, page: Page, place: Route, path: Path, named: str) -> dict[str, Any] | None:
        if path not in self._done:
            self._done[path] = self._compile(page, place, path, named)
        self._taken += self._size.get(path, 0)
        if self._taken > SIZE_MAX:
            page.say(place, f"the child workflows are larger than {SIZE_MAX:,} bytes together")
            return None
        return self._done[path]

    def _compile(self, page: Page, place: Route, path: Path, named: str) -> dict[str, Any] | None:
        try:
            machine, problems = self._read(path, self)
        except BrokenDefinition as error:
            page.say(place, f"the child workflow `{named}` cannot be used", "see what is wrong in it")
            page.problems.extend(error.problems)
            return None
        except DefinitionError as error:
            page.say(place, f"the child workflow `{named}` cannot be used: {error.problem}")
            return None
        page.problems.extend(problems)
        text = machine.to_json()
        self._size[path] = len(text)
        found: dict[str, Any] = json.loads(text)
        return found
