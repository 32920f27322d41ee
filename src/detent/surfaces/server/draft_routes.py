"""Addresses of a draft: a text that is not saved, checked, drawn, rehearsed, put through its cases and compared.

A draft is compiled and simulated, never executed: tools answer what the cases say, or nothing. One draft at a time is
worked on, for a hostile one takes all the time that the limits give it.
"""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from detent.core.identity import identity_of
from detent.core.machine import Machine
from detent.core.schema import leave_out_secrets, problems
from detent.define.document import read_document
from detent.define.graph import picture
from detent.define.problem import BrokenDefinition, Problem
from detent.define.workflow import Workflow, read_workflow
from detent.effects import Known
from detent.errors import DefinitionError
from detent.kit.http.http_error import BadRequest
from detent.kit.http.request_base import Asked
from detent.kit.http.route import HttpCall, Route
from detent.surfaces.server import shape
from detent.surfaces.server.definition_library import describe_problem, list_case_files, place_problem
from detent.surfaces.server.definition_routes import Comparison, Flaw, compare_machines
from detent.surfaces.server.dry_run_routes import Rehearsed, walk
from detent.surfaces.server.editor_routes import FileName, SourceText, check_editor, project_of
from detent.surfaces.server.graph import Graph, lay_out
from detent.surfaces.server.refusal import say_to
from detent.surfaces.server.server_context import HttpServer

DRAWN_MAX = 400  # states of a picture, and rows between them: more cannot be read, and take long to lay out
FLAWS_MAX = 200
CASES_MAX = 200
CASES_S = 20.0  # cases that are not played by then are told as such
R = TypeVar("R")


class DraftBody(Asked, frozen=True):
    """A text, and the file it is meant for."""

    name: FileName
    text: SourceText
    by: shape.Name = ""


class RehearseDraft(Asked, frozen=True):
    """A text, and what a run of it would be given."""

    name: FileName
    text: SourceText
    input: dict[str, Any] = {}  # noqa: RUF012  # a struct copies its defaults
    by: shape.Name = ""


class CompareDraft(Asked, frozen=True):
    """A text, and the digest of the version it is compared with."""

    name: FileName
    text: SourceText
    digest: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
    by: shape.Name = ""


class CheckedDraft(msgspec.Struct, frozen=True):
    """What a text would be: its problems at their places, and its picture if it can be drawn."""

    ok: bool
    problems: list[Flaw]
    machine: str
    digest: str
    states: int
    input: dict[str, Any]
    graph: Graph | None


class PlayedCase(msgspec.Struct, frozen=True):
    """A case and what came of it; `path`: the states it went through."""

    id: str
    about: str
    file: str
    line: int
    ok: bool
    is_played: bool
    differs: list[str]
    expected: dict[str, Any]
    actual: dict[str, Any]
    refused: list[str]
    problem: str
    path: list[str]


class PlayedCases(msgspec.Struct, frozen=True):
    """The cases of a file, played with a text in its place."""

    files: list[str]  # where they are
    passed: int
    failed: int
    cases: list[PlayedCase]


async def check_draft(room: HttpServer, call: HttpCall) -> CheckedDraft:
    """Say what is wrong with a text, and draw it."""
    given: DraftBody = call.body
    path = await _find_path(room, call)

    def check() -> CheckedDraft:
        try:
            made = _compile(room, path, given.text)
        except DefinitionError as error:
            flaws = _describe(
                room, call, error.problems if isinstance(error, BrokenDefinition) else [place_problem(error)]
            )
            return CheckedDraft(False, flaws, "", "", 0, {}, None)
        machine = made.machine
        drawn = _draw(machine)
        told = _describe(room, call, [*made.warnings, *made.advice])
        return CheckedDraft(True, told, machine.name, machine.digest, len(machine.states), dict(made.input), drawn)

    return await _work(room, check)


def _draw(machine: Machine) -> Graph | None:
    """The picture of a machine; None if it is too large for one that follows every pause of typing."""
    if max(len(machine.states), len(machine.transitions)) > DRAWN_MAX:
        return None
    try:
        return lay_out(machine, picture(machine))
    except DefinitionError:
        return None


def _describe(room: HttpServer, call: HttpCall, found: "list[Problem] | tuple[Problem, ...]") -> list[Flaw]:
    folder = room.library.folder
    said = [describe_problem(problem, folder) for problem in found[:FLAWS_MAX]]
    return [
        Flaw(**{**one, "message": say_to(call.request, one["message"]), "hint": say_to(call.request, one["hint"])})
        for one in said
    ]


async def rehearse_draft(room: HttpServer, call: HttpCall) -> Rehearsed:
    """Walk through a text without touching anything."""
    given: RehearseDraft = call.body
    path = await _find_path(room, call)
    policy, by = room.host.policy, identity_of(call.by).name

    def rehearse() -> Rehearsed:
        made = _compile(room, path, given.text)
        if found := problems(leave_out_secrets(made.input), made.machine.take_secrets(given.input)[0], "input"):
            raise BadRequest("; ".join(found), 422)
        return walk(made.machine, _effects(room), given.input, policy, by)

    return await _work(room, rehearse)


async def play_draft(room: HttpServer, call: HttpCall) -> PlayedCases:
    """Play the cases of a file with a text in its place."""
    given: DraftBody = call.body
    path = await _find_path(room, call)
    return await _work(room, lambda: _play(room, path, given.text))


def _play(room: HttpServer, path: Path, text: str) -> PlayedCases:
    from detent.testing import Case, read_cases, try_case

    read_document(text, str(path))  # what is no YAML at all is told at once
    cases: list[Case] = []
    files: list[str] = []
    told: list[PlayedCase] = []
    for file in list_case_files(room.library.folder):
        try:
            found = [case for case in read_cases(file) if case.file is not None and case.file.resolve() == path]
        except DefinitionError:
            continue  # it holds something else, or `detent test` says what is wrong with it
        if found:
            files.append(str(file.relative_to(room.library.folder)))
            cases += found
    end = time.monotonic() + CASES_S
    for case in cases[:CASES_MAX]:
        if time.monotonic() > end:
            told.append(_describe_case(room, case, None))
            continue
        document = read_document(text, str(path))  # of its own: what is found wrong is written into it
        played = try_case(case._replace(file=None, definition=document, folder=path.parent))
        told.append(_describe_case(room, case, played))
    passed = sum(one.ok for one in told)
    return PlayedCases(files, passed, sum(one.is_played and not one.ok for one in told), told)


def _describe_case(room: HttpServer, case: Any, verdict: Any) -> PlayedCase:
    file, _, rest = case.where.partition(":")
    line = int(rest.partition(":")[0]) if rest.partition(":")[0].isdecimal() else 1
    known = describe_problem(Problem(file, line, 1, ""), room.library.folder)
    shown = {"id": case.id, "about": case.about, "file": known["file"], "line": line}
    if verdict is None:
        return PlayedCase(**shown, ok=False, is_played=False, differs=[], expected={}, actual={}, refused=[],
                          problem="", path=[])  # fmt: skip
    return PlayedCase(
        **shown,
        ok=verdict.ok,
        is_played=True,
        differs=list(verdict.differs),
        expected={key: verdict.expected.get(key) for key in verdict.differs},
        actual={key: verdict.actual.get(key) for key in verdict.differs},
        refused=list(verdict.refused),
        problem=verdict.problem,
        path=list(verdict.path),
    )


async def compare_draft(room: HttpServer, call: HttpCall) -> Comparison:
    """Say what differs between a version that runs are pinned to and a text."""
    given: CompareDraft = call.body
    path = await _find_path(room, call)
    pinned = await room.ask(room.reader.machine, given.digest)
    return await _work(room, lambda: compare_machines(pinned, _compile(room, path, given.text).machine))


async def _find_path(room: HttpServer, call: HttpCall) -> Path:
    """The file that a draft is meant for, if there is one, and who asks may change it."""
    check_editor(room, call)
    await asyncio.to_thread(project_of(room).read, call.body.name)
    return room.library.folder / str(call.body.name)


def _compile(room: HttpServer, path: Path, text: str) -> Workflow:
    return read_workflow(text, str(path), folder=path.parent, known_effects=_effects(room))


def _effects(room: HttpServer) -> Known:
    """Every tool there is here."""
    return room.extras.setdefault("draft effects", Known(room.host.effects))  # type: ignore[no-any-return]


async def _work(room: HttpServer, work: Callable[[], R]) -> R:
    turn: asyncio.Lock = room.extras.setdefault("draft turn", asyncio.Lock())
    async with turn:
        return await room.ask(work)


SOME = (403, 404, 409)
ROUTES = (
    Route("POST", "/api/drafts/check", check_draft, "Problems and picture of a text that is not saved", CheckedDraft,
          takes=DraftBody, errors=SOME, tag="editor", is_guarded=True, needs="edit"),
    Route("POST", "/api/drafts/rehearsal", rehearse_draft, "What a run of a text would do", Rehearsed,
          takes=RehearseDraft, errors=(*SOME, 422), tag="editor", is_guarded=True, needs="edit"),
    Route("POST", "/api/drafts/cases", play_draft, "Play the cases of a file with a text in its place", PlayedCases,
          takes=DraftBody, errors=(*SOME, 422), tag="editor", is_guarded=True, needs="edit",
          about="Cases are those of the project's `*.test.yaml` files that name this file. Tools answer what each "
          "case says; nothing is called."),
    Route("POST", "/api/drafts/compare", compare_draft, "What differs between a pinned version and a text", Comparison,
          takes=CompareDraft, errors=(*SOME, 422), tag="editor", is_guarded=True, needs="edit"),
)  # fmt: skip
