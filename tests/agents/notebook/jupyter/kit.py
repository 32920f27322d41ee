"""What the kernel tests share: a real kernel, and short words for looking at what a cell did."""

import asyncio
import importlib
import importlib.util
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from detent.agents.notebook.jupyter import CellExecution, Kernel
from tests.effort import PATIENCE_S

MISSING = [name for name in ("jupyter_client", "ipykernel", "nbformat") if importlib.util.find_spec(name) is None]

needs_kernel = pytest.mark.skipif(
    bool(MISSING), reason=f"not installed: {', '.join(MISSING)} (pip install 'detent[notebook]')"
)


def needs(*modules: str) -> pytest.MarkDecorator:
    """Skip where a library that kernels may meet is not installed."""
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")


def library(name: str) -> Any:
    """A library that may be missing, as far as the type checker is concerned."""
    return importlib.import_module(name)


@asynccontextmanager
async def kernel(**given: Any) -> AsyncIterator[Kernel]:
    async with Kernel(**given) as started:
        yield started


def text(execution: CellExecution, name: str = "stdout") -> str:
    """What a cell wrote to a stream."""
    rows = [row for row in execution.outputs if row["output_type"] == "stream" and row["name"] == name]
    return "".join(row["text"] for row in rows)


def notes(execution: CellExecution) -> list[str]:
    """What detent itself said about a cell."""
    return [row["metadata"]["detent"]["note"] for row in execution.outputs if "detent" in row.get("metadata", {})]


def kinds(execution: CellExecution) -> list[str]:
    return [row["output_type"] for row in execution.outputs]


def values(execution: CellExecution) -> dict[str, Any]:
    return {name: variable.value for name, variable in execution.variables.items()}


def check_notebook(execution: CellExecution) -> None:
    """The outputs make a valid notebook that can be written as UTF-8."""
    nbformat = library("nbformat")
    cell = nbformat.v4.new_code_cell("", outputs=[nbformat.from_dict(row) for row in execution.outputs])
    notebook = nbformat.v4.new_notebook(cells=[cell])
    nbformat.validate(notebook)
    nbformat.writes(notebook).encode()


class Heard:
    """A watcher that lets a test wait for a word in the stream of a cell."""

    def __init__(self) -> None:
        self.outputs: list[dict[str, Any]] = []
        self._text = ""
        self._event = asyncio.Event()

    def __call__(self, output: dict[str, Any]) -> None:
        self.outputs.append(output)
        self._text += output.get("text", "")
        self._event.set()

    async def word(self, word: str) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while word not in self._text:
                self._event.clear()
                await self._event.wait()


def is_running(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            state = file.read().rpartition(")")[2].split()
    except OSError:
        return False
    return state[0] != "Z" or int(state[1]) == os.getpid()


async def until(condition: Callable[[], Any], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"not within {PATIENCE_S:g} s: {what}"
        await asyncio.sleep(0.01)
