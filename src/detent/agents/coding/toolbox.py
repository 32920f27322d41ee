"""What the built-in worker may do: read, search and edit files of the work tree, and run the project's own checks.

A model's words are hostile. A path is walked part by part from the tree's root, and no symbolic link is followed, so it
ends inside or nowhere; `.git`, `.detent` and protected files are refused; no command line is ever taken from a model.
"""

import asyncio
import contextlib
import os
import secrets
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from detent.agents.coding import check
from detent.agents.coding.check_result import matching, without
from detent.agents.coding.port import Assignment, Hear
from detent.effects.llm import Tool

FILE_BYTES_MAX = 1024 * 1024
RESULT_CHARS_MAX = 20_000
FOUND_MAX = 100
LISTED_MAX = 500
LOOKED_AT_MAX = 20_000
CLOSED = (".git", ".detent")
SKIPPED = {"node_modules", "__pycache__", ".venv", "target", ".tox", ".mypy_cache", ".ruff_cache", ".pytest_cache"}


class NotAllowed(Exception):
    """Why something was not done; told to the model."""


def parts_of(text: str) -> tuple[str, ...]:
    """The parts of a path inside the tree."""
    path = PurePosixPath(text)
    if not text.strip() or "\0" in text:
        raise NotAllowed("the path is empty")
    if path.is_absolute() or ".." in path.parts:
        raise NotAllowed(f"{text!r} leads out of the project; give a path relative to its root, without `..`")
    closed = [part for part in path.parts if part.lower().rstrip(". ") in CLOSED]
    if closed:
        raise NotAllowed(f"`{closed[0]}` is none of your business")
    return path.parts


def _file(text: str) -> tuple[str, ...]:
    parts = parts_of(text)
    if not parts:
        raise NotAllowed(f"{text!r} is not a file")
    return parts


class Tree:
    """The files of one work tree, for somebody who is not trusted."""

    def __init__(self, root: str, protected: Sequence[str] = (), changeable: Sequence[str] = ()) -> None:
        self._root, self._protected, self._changed = root, tuple(protected), tuple(changeable)

    @contextlib.contextmanager
    def _folder(self, parts: Sequence[str], *, is_made: bool = False) -> Iterator[int]:
        """A folder inside, opened without following a link anywhere on the way."""
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        at = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for part in parts:
                if is_made:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(part, dir_fd=at)
                inner = os.open(part, flags, dir_fd=at)
                os.close(at)
                at = inner
            yield at
        finally:
            os.close(at)

    def read(self, text: str) -> bytes:
        """A file's bytes."""
        *folder, name = _file(text)
        with self._folder(folder) as at:
            fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=at)
            with open(fd, "rb") as file:
                if not stat.S_ISREG(os.fstat(fd).st_mode):
                    raise NotAllowed(f"{text!r} is not an ordinary file")
                body = file.read(FILE_BYTES_MAX + 1)
        if len(body) > FILE_BYTES_MAX:
            raise NotAllowed(f"{text!r} has more than {FILE_BYTES_MAX:,} bytes")
        return body

    def write(self, text: str, body: bytes) -> None:
        """Replace or make a file; its mode stays."""
        *folder, name = self._changeable(text)
        draft = f".detent-{secrets.token_hex(8)}.tmp"
        with self._folder(folder, is_made=True) as at:
            mode = _mode(at, name, text)
            fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666, dir_fd=at)
            try:
                with open(fd, "wb") as file:
                    file.write(body)
                    if mode is not None:
                        os.fchmod(fd, mode)
                os.replace(draft, name, src_dir_fd=at, dst_dir_fd=at)
            except BaseException:
                os.unlink(draft, dir_fd=at)
                raise

    def delete(self, text: str) -> None:
        """Take a file away."""
        *folder, name = self._changeable(text)
        with self._folder(folder) as at:
            _mode(at, name, text)
            os.unlink(name, dir_fd=at)

    def _changeable(self, text: str) -> tuple[str, ...]:
        parts = _file(text)
        if without(matching(["/".join(parts)], self._protected), self._changed):
            raise NotAllowed(f"{text!r} is protected; this task must leave it alone")
        return parts

    def files(self, text: str = ".") -> Iterator[str]:
        """The files below a folder, in order, without what is generated."""
        parts = parts_of(text)
        with self._folder(parts):
            pass
        start = os.path.join(self._root, *parts)
        for folder, folders, names in os.walk(start):
            folders[:] = sorted(set(folders) - SKIPPED - set(CLOSED))
            for name in sorted(names):
                yield os.path.relpath(os.path.join(folder, name), self._root)


def _mode(at: int, name: str, text: str) -> int | None:
    """The mode of a file that is to be changed; None when there is none yet."""
    try:
        found = os.stat(name, dir_fd=at, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found):
        raise NotAllowed(f"{text!r} is not an ordinary file")
    return stat.S_IMODE(found)


def _schema(required: str, **properties: str) -> dict[str, Any]:
    kinds = {"start": "integer", "lines": "integer"}
    fields = {name: {"type": kinds.get(name, "string"), "description": about} for name, about in properties.items()}
    return {"type": "object", "required": required.split(), "properties": fields, "additionalProperties": False}


PATH = "relative to the project's root"
READING = (
    Tool("list_files", "The files of the project, or of one of its folders.", _schema("", path=PATH)),
    Tool(
        "read_file",
        "The text of a file, from a line on.",
        _schema("path", path=PATH, start="first line, from 1", lines="how many"),
    ),
    Tool("search", "Lines that contain a text, exactly as given.", _schema("text", text="what to find", path=PATH)),
)
EDITING = (
    Tool(
        "edit_file",
        "Replace a text that occurs exactly once in a file.",
        _schema("path old new", path=PATH, old="the text with enough around it to be unique", new="what comes instead"),
    ),
    Tool("write_file", "Make a file, or replace all of it.", _schema("path content", path=PATH, content="all of it")),
    Tool("delete_file", "Take a file away.", _schema("path", path=PATH)),
)


class Toolbox:
    """The tools for one attempt."""

    def __init__(self, assignment: Assignment, hear: Hear) -> None:
        self._assignment, self._hear = assignment, hear
        self._tree = Tree(assignment.tree or assignment.root, assignment.protected, assignment.changeable)
        self._checks = {step.name: step for step in assignment.checks}
        self._is_plan = assignment.role == "plan"

    @property
    def tools(self) -> tuple[Tool, ...]:
        """What the model is offered."""
        if self._is_plan:
            return READING
        names = {"type": "string", "enum": list(self._checks)}
        schema = {"type": "object", "required": ["name"], "properties": {"name": names}, "additionalProperties": False}
        run = (Tool("run_check", "Run one of the project's checks.", schema),) if self._checks else ()
        return (*READING, *EDITING, *run)

    async def use(self, name: str, given: dict[str, Any]) -> str:
        """Do what a model asks for; what is wrong with it is part of the answer."""
        if name not in {tool.name for tool in self.tools}:
            return f"there is no tool `{name[:60]}` here"
        try:
            if name == "run_check":
                return cut(await self._run_check(_text(given, "name")))
            return cut(await asyncio.to_thread(getattr(self, f"_{name}"), given))
        except NotAllowed as error:
            return f"refused: {error}"
        except FileNotFoundError:
            return "refused: there is no such file or folder"
        except OSError as error:  # also: a symbolic link on the way, which we do not follow
            return f"refused: {error.strerror or error}; symbolic links are not followed"

    def _list_files(self, given: dict[str, Any]) -> str:
        found: list[str] = []
        for path in self._tree.files(_text(given, "path", ".")):
            if len(found) == LISTED_MAX:
                return "\n".join([*found, f"[only the first {LISTED_MAX}; name a folder]"])
            found.append(path)
        return "\n".join(found) or "no files"

    def _read_file(self, given: dict[str, Any]) -> str:
        lines = self._tree.read(_text(given, "path")).decode("utf-8", "replace").splitlines(keepends=True)
        start, count = max(1, _int(given, "start", 1)), max(1, _int(given, "lines", 1_000_000))
        return "".join(lines[start - 1 : start - 1 + count]) or f"[nothing; the file has {len(lines)} lines]"

    def _search(self, given: dict[str, Any]) -> str:
        wanted = _text(given, "text")
        if not wanted:
            raise NotAllowed("the text is empty")
        found: list[str] = []
        for number, path in enumerate(self._tree.files(_text(given, "path", "."))):
            if number >= LOOKED_AT_MAX or len(found) >= FOUND_MAX:
                return "\n".join([*found, "[there may be more; search in one folder]"])
            with contextlib.suppress(OSError, NotAllowed):
                body = self._tree.read(path)
                if wanted.encode() in body and b"\0" not in body[:8000]:
                    lines = body.decode("utf-8", "replace").splitlines()
                    found += [f"{path}:{at}: {line[:300]}" for at, line in enumerate(lines, 1) if wanted in line]
        return "\n".join(found[:FOUND_MAX]) or "nothing was found"

    def _edit_file(self, given: dict[str, Any]) -> str:
        path, old, new = _text(given, "path"), _text(given, "old"), _text(given, "new")
        body = self._tree.read(path)
        count = body.count(old.encode()) if old else 0
        if count != 1:
            raise NotAllowed(f"`old` occurs {count} times in {path!r}; it must occur exactly once")
        self._tree.write(path, body.replace(old.encode(), new.encode()))
        return "done"

    def _write_file(self, given: dict[str, Any]) -> str:
        body = _text(given, "content").encode()
        if len(body) > FILE_BYTES_MAX:
            raise NotAllowed(f"the content has more than {FILE_BYTES_MAX:,} bytes")
        self._tree.write(_text(given, "path"), body)
        return "done"

    def _delete_file(self, given: dict[str, Any]) -> str:
        self._tree.delete(_text(given, "path"))
        return "done"

    async def _run_check(self, name: str) -> str:
        if name not in self._checks:
            raise NotAllowed(f"there is no check `{name[:60]}`; there are {', '.join(self._checks)}")
        folder = Path(self._assignment.folder) / "checks"
        steps = [self._checks[name]]
        given = self._assignment
        ran = await check.run_steps(steps, given.place, folder, given.key, self._hear, space=given.limits.space)
        done = ran[0].checked
        if done.environment:
            return f"it could not be run: {done.environment}"
        ended = "timed out" if done.timed_out else "passed" if done.is_green else f"failed with {done.exit}"
        failures = msgspec.json.encode(done.failures[:20]).decode()
        return f"{ended}; {done.passed} tests passed\n{failures}\n{done.tail}"


def _text(given: dict[str, Any], name: str, default: str | None = None) -> str:
    value = given.get(name, default)
    if not isinstance(value, str):
        raise NotAllowed(f"`{name}` must be a text")
    return value


def _int(given: dict[str, Any], name: str, default: int) -> int:
    value = given.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool):
        raise NotAllowed(f"`{name}` must be a whole number")
    return value


def cut(text: str) -> str:
    """What a model gets to see of a long text: its beginning and its end."""
    if len(text) <= RESULT_CHARS_MAX:
        return text
    half = RESULT_CHARS_MAX // 2
    return f"{text[:half]}\n[{len(text) - 2 * half:,} characters are left out here]\n{text[-half:]}"
