"""Addresses of definitions: what the project offers, with pictures and problems, and what differs between two."""

import os
from pathlib import Path
from typing import Any, Literal

import msgspec
from starlette.responses import Response

from detent.core.machine import Machine
from detent.core.schema import list_secret_inputs
from detent.define.document import read_file
from detent.define.graph import picture, svg
from detent.define.problem import BrokenDefinition
from detent.errors import DefinitionError, Unknown
from detent.kit.http.request_base import Asked
from detent.kit.http.route import HttpCall, Route
from detent.surfaces.server import shape
from detent.surfaces.server.definition_library import LibraryEntry, describe_problem
from detent.surfaces.server.graph import Graph, drawing, lay_out
from detent.surfaces.server.server_context import HttpServer


class Flaw(msgspec.Struct, frozen=True):
    """One thing that is wrong with a file, where it stands, and what would be right."""

    file: str
    line: int
    column: int
    message: str
    hint: str
    severity: Literal["error", "warning", "advice"]


class DefinitionLine(msgspec.Struct, frozen=True):
    """One definition of the project."""

    name: str
    machine: str
    title: str
    version: str
    digest: str
    states: int
    ok: bool
    problems: list[Flaw]
    warnings: list[str]
    changed_at: float


class DefinitionView(msgspec.Struct, frozen=True):
    """A definition with its text, its picture and what a run of it must be given."""

    line: DefinitionLine
    source: str
    input: dict[str, Any]
    graph: Graph | None


class MachineChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """One difference between two machines."""

    what: Literal["state", "transition", "work", "end", "variable", "limit", "name"]
    kind: Literal["added", "removed", "changed"]
    subject: str
    before: Any = None
    after: Any = None


class Comparison(msgspec.Struct, frozen=True):
    """What differs between two machines, and both pictures."""

    is_same: bool
    changes: list[MachineChange]
    left: Graph
    right: Graph


class CompareQuery(Asked, frozen=True):
    """Which two: a file, a machine's name, `run:ID`, or a digest."""

    left: shape.Name
    right: shape.Name


class NameQuery(Asked, frozen=True):
    """Which one: a file of the project or the name of its machine."""

    name: shape.Name


class DefinitionQuery(Asked, frozen=True):
    """Which one, and whether the groups of a large machine are folded, but for those that are named."""

    name: shape.Name
    fold: bool = False
    open: shape.Opened = ()


async def definitions(room: HttpServer, _: HttpCall) -> list[DefinitionLine]:
    """What can be started here."""
    return [_line(entry, room.library.folder) for entry in await room.library.entries()]


def _line(entry: LibraryEntry, folder: Path) -> DefinitionLine:
    machine = entry.definition.machine if entry.definition else None
    return DefinitionLine(
        name=entry.name,
        machine=machine.name if machine else "",
        title=machine.title if machine else "",
        version=machine.version if machine else "",
        digest=machine.digest if machine else "",
        states=len(machine.states) if machine else 0,
        ok=machine is not None,
        problems=[Flaw(**describe_problem(problem, folder)) for problem in entry.problems],
        warnings=list(entry.definition.warnings) if entry.definition else [],
        changed_at=entry.changed_at,
    )


def _describe_input(schema: dict[str, Any]) -> dict[str, Any]:
    """What a form asks for; a secret that the server's environment has need not be given."""
    known = [name for name in list_secret_inputs(schema) if name in os.environ]
    return (
        {**schema, "required": [name for name in schema.get("required", ()) if name not in known]} if known else schema
    )


async def definition(room: HttpServer, call: HttpCall) -> DefinitionView:
    """One definition."""
    entry = await room.library.entry(call.query.name)
    made, asked = entry.definition, call.query

    def draw(machine: Machine) -> Graph:
        return lay_out(machine, picture(machine), asked.open if asked.fold else None)

    return DefinitionView(
        line=_line(entry, room.library.folder),
        source=_source(room.library.folder / entry.name),
        input=_describe_input(dict(made.input)) if made else {},
        graph=await room.ask(draw, made.machine) if made else None,  # a large one takes its time
    )


def _source(path: Path) -> str:
    """The text of a workflow; that of a program is left out."""
    if path.suffix not in (".yaml", ".yml"):
        return ""
    try:
        return read_file(path)
    except DefinitionError:
        return ""


async def definition_svg(room: HttpServer, call: HttpCall) -> Response:
    """The picture of a definition as SVG."""
    entry = await room.library.entry(call.query.name)
    if entry.definition is None:
        raise BrokenDefinition(entry.problems)
    return drawing(svg(picture(entry.definition.machine)))


async def compare(room: HttpServer, call: HttpCall) -> Comparison:
    """What differs between two machines."""
    left, right = await _machine(room, call.query.left), await _machine(room, call.query.right)
    return await room.ask(compare_machines, left, right)


def compare_machines(left: Machine, right: Machine) -> Comparison:
    """What differs between two machines, and both pictures."""
    changes = list(differences(left, right))
    return Comparison(not changes, changes, lay_out(left, picture(left)), lay_out(right, picture(right)))


async def _machine(room: HttpServer, name: str) -> Machine:
    if name.startswith("run:"):
        found = await room.find(name.removeprefix("run:"))
        return await room.ask(room.reader.machine, found.machine)
    if len(name) == 64 and all(mark in "0123456789abcdef" for mark in name):
        try:
            return await room.ask(room.reader.machine, name)
        except Unknown:
            raise Unknown(f"there is no machine {name[:12]}") from None
    return (await room.library.load(name)).machine


def differences(left: Machine, right: Machine) -> list[MachineChange]:
    """Every difference, states first."""
    before, after = msgspec.to_builtins(left), msgspec.to_builtins(right)
    found = _keys("state", dict.fromkeys(left.states), dict.fromkeys(right.states))
    found += _keys("transition", _rows(before), _rows(after))
    for what, field in (("work", "work"), ("end", "ends"), ("variable", "variables")):
        found += _keys(what, before.get(field, {}), after.get(field, {}))
    found += _keys("limit", before.get("limits", {}), after.get("limits", {}))
    names = ("name", "title", "version", "initial", "output", "keeps", "timeouts_s", "local")
    found += _keys("name", {k: before[k] for k in names if k in before}, {k: after[k] for k in names if k in after})
    return found


def _rows(machine: dict[str, Any]) -> dict[str, Any]:
    rows: dict[str, Any] = {}
    for row in machine.get("transitions", ()):
        on = row.get("on") or (f"!{row['error']}" if row.get("error") else "-")
        when = f" if {row['when']}" if row.get("when") else ""
        rows[f"{row['source']} {on} {row['target']}{when}"] = row
    return rows


def _keys(what: Any, before: dict[str, Any], after: dict[str, Any]) -> list[MachineChange]:
    found = [MachineChange(what, "removed", key, before=before[key]) for key in before if key not in after]
    found += [MachineChange(what, "added", key, after=after[key]) for key in after if key not in before]
    shared = [key for key in before if key in after and before[key] != after[key]]
    return found + [MachineChange(what, "changed", key, before[key], after[key]) for key in shared]


SOME = (404, 409)
ROUTES = (
    Route("GET", "/api/definitions", definitions, "The workflow files of the project, with their problems",
          list[DefinitionLine], tag="definitions"),
    Route("GET", "/api/definitions/view", definition, "One definition: text, picture, input schema", DefinitionView,
          query=DefinitionQuery, errors=SOME, tag="definitions"),
    Route("GET", "/api/definitions/graph.svg", definition_svg, "The picture of a definition as SVG", query=NameQuery,
          kind="svg", errors=SOME, tag="definitions"),
    Route("GET", "/api/definitions/compare", compare, "What differs between two machines", Comparison,
          query=CompareQuery, errors=SOME, tag="definitions"),
)  # fmt: skip
