"""Addresses of the editor: a workflow file as text, saving it, and the runs that are pinned to earlier versions of it.

Whoever may save a file decides what its runs do on this machine, so it takes the role `admin`; where nobody says who is
who, the user who runs this server. Nothing that a step has started gets in. Each save is in the journal before the file
is replaced.
"""

import asyncio
import os
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from detent.core.identity import Identity
from detent.core.machine import Machine, Transition
from detent.core.status import Status
from detent.define.document import SOURCE_MAX
from detent.errors import DetentError, NotPermitted, Refused
from detent.host.port import Reader
from detent.host.reading import Query, Summary
from detent.host.system_run import FILES_ID
from detent.kit.http.request_base import Asked
from detent.kit.http.route import HttpCall, Route
from detent.kit.workflow_file import FileText, Grammar, ProjectFolder, find_grammar
from detent.redaction import HIDDEN, ambient_redactor
from detent.surfaces.server import shape
from detent.surfaces.server.peer import find_uid, is_from_here
from detent.surfaces.server.refusal import say_to
from detent.surfaces.server.requester import check_verb, name_caller
from detent.surfaces.server.server_context import HttpServer

PAGE = 500  # runs that are read at once
PINNED_MAX = 200  # runs that are shown of one version
SCAN_MAX = 20_000  # open runs that are looked at
OPEN = (Status.PENDING, Status.RUNNING, Status.WAITING)
# What was saved by whom, in a hash chain like everything else.
RECORD = Machine(
    name=FILES_ID,
    initial="kept",
    transitions=[Transition("kept", "kept", on="SAVED")],
    title="Files of the project that were saved on the page",
)

FileName = Annotated[str, Meta(min_length=1, max_length=1000)]
SourceText = Annotated[str, Meta(max_length=SOURCE_MAX)]
FileHash = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


class FileQuery(Asked, frozen=True):
    """Which file, by its way from the project's folder."""

    name: FileName


class FileView(msgspec.Struct, frozen=True):
    """A workflow file as text; `hash` goes with a save, so that nobody's change is lost."""

    name: str
    text: str
    hash: str
    grammar: Grammar
    may_save: bool
    why_not: str  # it may not be saved


class SaveBody(Asked, frozen=True):
    """A new text for a file, and the hash of what it takes the place of."""

    name: FileName
    text: SourceText
    hash: FileHash
    by: shape.Name = ""


class SavedFile(msgspec.Struct, frozen=True):
    """What a file is now."""

    name: str
    hash: str


class PinnedRun(msgspec.Struct, frozen=True):
    """One open run."""

    run_id: str
    state: str
    status: shape.StatusName
    by: str
    started_at: float


class PinnedVersion(msgspec.Struct, frozen=True):
    """One version of a file that open runs are pinned to."""

    digest: str
    is_saved: bool  # it is what the file says now
    count: int
    runs: list[PinnedRun]  # the newest of them


class FilePins(msgspec.Struct, frozen=True):
    """The versions of a file that open runs are pinned to, the newest run's first."""

    digest: str  # of what the file says now; empty: it has problems
    versions: list[PinnedVersion]


def project_of(room: HttpServer) -> ProjectFolder:
    """The folder whose files are edited."""
    return ProjectFolder(room.library.folder, room.home)


def check_editor(room: HttpServer, call: HttpCall) -> None:
    """Refuse whoever may not change files here."""
    if not room.settings.edit:
        raise Refused("files are not edited here: detent.serve.yaml says `edit: false`")
    by = call.by
    if isinstance(by, Identity) and by.is_nobodys:
        raise NotPermitted("nothing that a step has started may edit files; a person has to, outside of it")
    if room.reception.people() is None and is_from_here(call.request.scope):
        uid = find_uid(call.request.scope)
        if uid not in (None, 0, os.getuid()):
            raise NotPermitted("as long as nobody here says who is who, only the user who runs this server edits files")


async def open_file(room: HttpServer, call: HttpCall) -> FileView:
    """The text of a workflow file."""
    name = call.query.name
    found = await asyncio.to_thread(project_of(room).read, name)
    why_not = _find_obstacle(room, call, name, found)
    return FileView(
        name, found.text, found.hash, find_grammar(found.content), not why_not, say_to(call.request, why_not)
    )


def _find_obstacle(room: HttpServer, call: HttpCall, name: str, found: FileText) -> str:
    """Why somebody who looks at a file cannot save it; nothing when they can."""
    by = name_caller(room, call.request, "", is_guarded=True)
    try:
        check_verb(room, "edit", by)
        check_editor(room, msgspec.structs.replace(call, by=by))
        _check_shown(name, found.text)
    except DetentError as error:
        return str(error)
    return ""


def _check_shown(name: str, text: str) -> None:
    """What is not shown cannot be saved: the page would put the mark of a secret in its place."""
    spans = ambient_redactor().find_free_spans(text)
    if spans:
        line = text.count("\n", 0, spans[0][0]) + 1
        raise Refused(
            f"line {line} of `{name}` holds what looks like a secret; name the variable that holds it instead"
        )


async def save_file(room: HttpServer, call: HttpCall) -> SavedFile:
    """Put a new text in a file's place, unless somebody has changed it meanwhile."""
    given: SaveBody = call.body
    check_editor(room, call)
    project = project_of(room)
    found = await asyncio.to_thread(project.read, given.name)
    _check_shown(given.name, found.text)
    _check_shown(given.name, given.text)
    if HIDDEN in given.text and HIDDEN not in found.text:
        raise Refused(f"the text holds {HIDDEN}, which stands for a secret that is not shown; leave that part out")
    if found.hash == given.hash:  # else the file says no by itself, and there is nothing to write down
        await _note_save(room, call, {"file": given.name, "before": found.hash, "length": len(given.text)})
    saved = await asyncio.to_thread(project.replace, given.name, given.text, given.hash)
    return SavedFile(given.name, saved.hash)


async def _note_save(room: HttpServer, call: HttpCall, data: dict[str, Any]) -> None:
    if await room.ask(room.reader.summary, FILES_ID) is None:
        await room.host.start(RECORD, {}, run_id=FILES_ID, by=Identity("", "detent"))
    await room.host.signal(FILES_ID, "SAVED", data, by=call.by)


async def list_pins(room: HttpServer, call: HttpCall) -> FilePins:
    """Which versions of a file open runs are pinned to."""
    name = call.query.name
    await asyncio.to_thread(project_of(room).read, name)  # says whether there is such a file
    try:
        digest = (await room.library.load(name)).machine.digest
    except DetentError:
        digest = ""
    found = await room.ask(_find_pinned, room.reader, str(room.library.folder / name))
    versions: dict[str, list[Summary]] = {}
    for one in found:
        versions.setdefault(one.machine, []).append(one)
    return FilePins(digest, [_describe_version(key, runs, digest) for key, runs in versions.items()])


def _describe_version(digest: str, runs: list[Summary], saved: str) -> PinnedVersion:
    shown = [PinnedRun(one.run_id, one.state, one.status.value, one.by, one.started_at) for one in runs[:PINNED_MAX]]
    return PinnedVersion(digest, digest == saved, len(runs), shown)


def _find_pinned(reader: Reader, source: str) -> list[Summary]:
    """The open runs that were begun from a file, newest first; children go with their parents."""
    found: list[Summary] = []
    before = 0
    for _ in range(SCAN_MAX // PAGE):
        page = reader.list(Query(status=OPEN, is_top=True, before=before, limit=PAGE))
        found += [one for one in page.runs if one.source == source]
        before = page.next
        if not before:
            break
    return found


ROUTES = (
    Route("GET", "/api/files/view", open_file, "A workflow file as text", FileView, query=FileQuery,
          errors=(404, 409), tag="editor"),
    Route("POST", "/api/files/save", save_file, "Save a workflow file", SavedFile, takes=SaveBody,
          errors=(403, 404, 409), tag="editor", is_guarded=True, needs="edit",
          about="`hash` is that of the file as it was read: a file that was changed meanwhile is refused "
          "(`file_changed`), and nothing is written. Only workflow files beneath the project's folder can be saved."),
    Route("GET", "/api/files/pins", list_pins, "Which versions of a file open runs are pinned to", FilePins,
          query=FileQuery, errors=(404, 409), tag="editor"),
)  # fmt: skip
