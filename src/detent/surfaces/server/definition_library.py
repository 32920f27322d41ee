"""The definitions of a project: its workflow files with their problems, and the files the server was told of.

A workflow is data and is listed wherever it lies in the folder. A Python file runs when it is loaded, so only those
that whoever started the server has named are ever touched.
"""

import asyncio
import itertools
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from detent.define import Definition, load
from detent.define.document import SOURCE_MAX
from detent.define.problem import BrokenDefinition, Problem
from detent.errors import DefinitionError, Refused, Unknown
from detent.kit.workflow_file import SUFFIXES, find_grammar

FILES_MAX = 500
FOLDERS_MAX = 2000
DEPTH_MAX = 6
SKIPPED = frozenset({"node_modules", "__pycache__", "site-packages", "venv", "dist", "build"})
STEP_ID = re.compile(rb"(?:^|[\s{,-])id[ \t]*:")  # other tools have files with `steps:` too; ours name each step


class LibraryEntry(NamedTuple):
    """One definition: what it is called, and either what it gives or what is wrong with it."""

    name: str  # how it is asked for: the path from the project's folder
    definition: Definition | None
    problems: tuple[Problem, ...]
    changed_at: float


class Library:
    """What can be started here."""

    def __init__(self, folder: Path, named: Sequence[str] = ()) -> None:
        self.folder = folder.resolve()
        self.named = tuple(named)
        self._known: dict[str, tuple[tuple[int, int], LibraryEntry]] = {}
        self._reading = asyncio.Lock()

    async def entries(self) -> list[LibraryEntry]:
        """Every definition, in the order of the names."""
        async with self._reading:
            return await asyncio.to_thread(self._entries)

    async def entry(self, name: str) -> LibraryEntry:
        """One definition by its file or by the name of its machine."""
        every = await self.entries()
        found = [one for one in every if one.name == name]
        found = found or [one for one in every if one.definition and one.definition.machine.name == name]
        if len(found) > 1:
            raise Refused(f"several files define `{name}`; name one: {', '.join(one.name for one in found)}")
        if not found:
            known = ", ".join(one.name for one in every[:20]) or "none"
            raise Unknown(f"there is no definition `{name[:200]}` in this project; known: {known}")
        return found[0]

    async def load(self, name: str) -> Definition:
        """A definition that can be run."""
        found = await self.entry(name)
        if found.definition is None:
            raise BrokenDefinition(found.problems)
        return found.definition

    def _entries(self) -> list[LibraryEntry]:
        names = dict.fromkeys([*self.named, *self._files()])
        found = {name: self._entry(name) for name in names}
        self._known = {name: self._known[name] for name in found if name in self._known}
        return sorted(found.values(), key=lambda one: one.name)

    def _files(self) -> Iterator[str]:
        """Workflow files of the folder, without those that only try others out."""
        found = filter(_is_workflow, _walk(self.folder))
        return (str(path.relative_to(self.folder)) for path in itertools.islice(found, FILES_MAX))

    def _entry(self, name: str) -> LibraryEntry:
        path = self.folder / name
        file = path if path.exists() else self.folder / name.rpartition(":")[0]
        try:
            stat = file.stat()
            version = (stat.st_mtime_ns, stat.st_size)
        except OSError:
            version = (0, 0)
        known = self._known.get(name)
        if known is not None and known[0] == version:
            return known[1]
        made = self._read(name, path, version[0] / 1e9)
        self._known[name] = version, made
        return made

    def _read(self, name: str, path: Path, at: float) -> LibraryEntry:
        try:
            return LibraryEntry(name, load(path), (), at)
        except BrokenDefinition as error:
            return LibraryEntry(name, None, error.problems, at)
        except DefinitionError as error:
            return LibraryEntry(name, None, (place_problem(error),), at)


def _walk(folder: Path) -> Iterator[Path]:
    """The files of a project, in the order of their names."""
    for folders, (here, inner, files) in enumerate(os.walk(folder)):
        depth = len(Path(here).relative_to(folder).parts)
        inner[:] = sorted(n for n in inner if not n.startswith(".") and n not in SKIPPED and depth < DEPTH_MAX)
        yield from (Path(here) / name for name in sorted(files))
        if folders >= FOLDERS_MAX:
            return


def list_case_files(folder: Path) -> list[Path]:
    """The files of a project that try workflows out."""
    found = (path for path in _walk(folder) if path.suffix in (".yaml", ".yml") and path.stem.endswith(".test"))
    found = (path for path in found if not path.is_symlink())
    return list(itertools.islice(found, FILES_MAX))


def _is_workflow(path: Path) -> bool:
    if path.suffix not in SUFFIXES or path.stem.endswith(".test"):
        return False
    try:
        if path.is_symlink() or not path.is_file():
            return False
        with path.open("rb") as file:
            content = file.read(SOURCE_MAX)
    except OSError:
        return False
    grammar = find_grammar(content)
    return grammar == "states" or (grammar == "steps" and bool(STEP_ID.search(content)))


def place_problem(error: DefinitionError) -> Problem:
    """A problem at its place, where the error says one."""
    file, line, column = error.where, 1, 1
    parts = re.fullmatch(r"(.*?):(\d+)(?::(\d+))?", error.where)
    if parts is not None:
        file, line, column = parts[1], int(parts[2]), int(parts[3] or 1)
    return Problem(file, line, column, error.problem)


def describe_problem(problem: Problem, folder: Path) -> dict[str, Any]:
    """A problem for the page, with the file as the project calls it."""
    file = problem.file
    if Path(file).is_absolute() and Path(file).is_relative_to(folder):
        file = str(Path(file).relative_to(folder))
    return {**problem._asdict(), "file": file}
