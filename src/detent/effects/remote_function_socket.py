"""The place in a home where the holder of the journal reaches a program with guarded functions."""

import asyncio
import contextlib
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import msgspec

from detent.core.contract import Contract
from detent.effects.remote_function import (
    FOLDER,
    LINE_MAX,
    PRESENT,
    PROTOCOL,
    CallingProgram,
    Reply,
    decode_line,
    socket_path,
)


class ProgramSocket:
    """A place in `callers` of a home where the holder of the journal reaches a program with guarded functions."""

    def __init__(self, home: Path, name: str) -> None:
        self._folder, self.name = home / FOLDER, name
        self._server: asyncio.AbstractServer | None = None
        self._talking: set[asyncio.Task[Any]] = set()
        self._marked: set[str] = set()

    async def open(self) -> None:
        """Begin to listen."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        await self._sweep()
        before = os.umask(0o177)
        try:
            with socket_path(self._folder, self.name) as path:
                self._server = await asyncio.start_unix_server(self._serve, path, limit=LINE_MAX)
        finally:
            os.umask(before)

    async def _sweep(self) -> None:
        """Take away the sockets of programs that are gone; marks of runs stay: they say who may have made a call."""
        for entry in os.scandir(self._folder):
            if "~" in entry.name:
                continue
            try:
                with socket_path(self._folder, entry.name) as path:
                    _, writer = await asyncio.open_unix_connection(path)
                writer.close()
            except OSError:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(entry.path)

    def drop_marks(self, is_over: Callable[[str], bool]) -> None:
        """Take away what programs that died have left about runs that are over."""
        for name in os.listdir(self._folder):
            run_id, _, program = name.rpartition("~")
            if run_id and program != self.name and is_over(run_id):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(self._folder / name)

    def mark(self, run_id: str) -> None:
        """Say that this program, too, waits for a run that another one began."""
        self._marked.add(run_id)
        with contextlib.suppress(FileExistsError):
            os.symlink(self.name, self._folder / f"{run_id}~{self.name}")

    def unmark(self, run_id: str) -> None:
        """This program has not made that run's call, and does not wait for it any more; or all is over."""
        if run_id in self._marked:
            self._marked.discard(run_id)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._folder / f"{run_id}~{self.name}")

    async def close(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for task in self._talking:
            task.cancel()
        if self._talking:
            await asyncio.wait(self._talking)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._folder / self.name)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task: Any = asyncio.current_task()
        self._talking.add(task)
        try:
            line = await reader.readline()
            if line:
                await self._attend(decode_line(line), reader, writer)
        except (OSError, ValueError, KeyError, TypeError, asyncio.CancelledError):
            return  # whoever talks nonsense or goes away loses its connection, nothing else
        finally:
            self._talking.discard(task)
            writer.close()

    async def _attend(self, said: Reply, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """What passes on one connection: what the holder wants, whether the program is ready, its go, the outcome."""
        talk = self._begin_talk()
        is_ready, reply = await talk.hear(said)
        await _say(writer, reply)
        if is_ready and "go" in decode_line(await reader.readline()):
            await _say(writer, await talk.go())

    def _begin_talk(self) -> "HolderTalk":
        raise NotImplementedError


class HolderTalk(Protocol):
    """One conversation of the holder with a program."""

    async def hear(self, said: Reply) -> tuple[bool, Reply]:
        """Whether the program is ready for what the holder wants, and its words."""

    async def go(self) -> Reply:
        """What comes of it, once the holder has said go."""


class ProgramTalk:
    """The same with a program of this process."""

    def __init__(self, program: CallingProgram) -> None:
        self._program = program
        self._go: Callable[[], None] = lambda: None
        self._outcome: asyncio.Future[Reply] | None = None

    async def hear(self, said: Reply) -> tuple[bool, Reply]:
        """Whether somebody here waits for that run, or has made its call."""
        contract = msgspec.convert(said["contract"], Contract)
        is_call = "call" in said
        run_id = str(said["call"] if is_call else said["probe"])
        find = self._program.accept if is_call else self._program.recall
        self._outcome = find(run_id, contract) if said.get("protocol") == PROTOCOL else None
        if is_call:
            self._go = partial(self._program.go, run_id, contract)
        is_ready = self._outcome is not None
        return is_ready, {"ready": PROTOCOL} if is_ready else {"absent": PROTOCOL}

    async def go(self) -> Reply:
        """Make the call, or say what came of it."""
        assert self._outcome is not None  # noqa: S101 - only what is ready is told to go
        self._go()
        return await asyncio.shield(self._outcome)


class CallerSocket(ProgramSocket):
    """Lets the holder of the journal reach this program's functions, also from another process."""

    def __init__(self, home: Path, name: str, program: CallingProgram) -> None:
        super().__init__(home, name)
        self._program = program

    async def open(self) -> None:
        """Begin to listen."""
        await super().open()
        PRESENT[self.name] = self._program

    async def close(self) -> None:
        """Stop listening."""
        PRESENT.pop(self.name, None)
        await super().close()

    def _begin_talk(self) -> ProgramTalk:
        return ProgramTalk(self._program)


async def _say(writer: asyncio.StreamWriter, said: Reply) -> None:
    writer.write(msgspec.json.encode(said) + b"\n")
    await writer.drain()
