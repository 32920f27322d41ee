"""A proxy in front of PostgreSQL that loses what it should pass on: it falls silent, or cuts a commit off."""

import asyncio
import struct
from contextlib import suppress

SILENT_S = 12.0  # longer than a worker may be silent


class CuttingProxy:
    """One worker's way to the database."""

    def __init__(self, port: int) -> None:
        self._target, self.port = port, 0
        self._clear = asyncio.Event()
        self._clear.set()
        self.cuts: list[bool] = []  # commits that are still to be cut: before they are passed on, or after
        self.made = {"cut before COMMIT": 0, "cut after COMMIT": 0}
        self._pipes: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()

    async def start(self) -> None:
        """Listen on a free port."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Cut everything."""
        self._server.close()
        for writer in tuple(self._writers):
            writer.transport.abort()
        for pipe in tuple(self._pipes):
            pipe.cancel()
        await asyncio.gather(*self._pipes, return_exceptions=True)

    async def fall_silent(self, *, is_cut: bool) -> None:
        """Pass nothing on for a while, in either direction; then all that was kept, or cut what was open."""
        self._clear.clear()
        await asyncio.sleep(SILENT_S)
        if is_cut:
            for writer in tuple(self._writers):
                writer.transport.abort()
        self._clear.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.transport.abort()
            return
        ends = (writer, far_writer)
        self._writers.update(ends)
        up = asyncio.create_task(self._pass_up(reader, ends))
        down = asyncio.create_task(self._pass_down(far_reader, writer))
        self._pipes.update((up, down))
        await asyncio.wait((up, down), return_when=asyncio.FIRST_COMPLETED)
        for end in ends:
            end.transport.abort()
            self._writers.discard(end)
        for pipe in (up, down):
            pipe.cancel()
            self._pipes.discard(pipe)

    async def _pass_down(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                await self._clear.wait()
                writer.write(data)
                await writer.drain()

    async def _pass_up(
        self, reader: asyncio.StreamReader, ends: tuple[asyncio.StreamWriter, asyncio.StreamWriter]
    ) -> None:
        """Message by message, so that a commit is known as one."""
        watch, (_, far) = CommitWatch(), ends
        with suppress(OSError, asyncio.IncompleteReadError):
            head = await reader.readexactly(4)
            far.write(head + await reader.readexactly(struct.unpack("!i", head)[0] - 4))
            while True:
                kind, size = await reader.readexactly(1), await reader.readexactly(4)
                body = await reader.readexactly(struct.unpack("!i", size)[0] - 4)
                await self._clear.wait()
                is_before = self.cuts.pop() if watch.is_commit(kind, body) and self.cuts else None
                if is_before:
                    self.made["cut before COMMIT"] += 1
                    return
                far.write(kind + size + body)
                await far.drain()
                if is_before is False:
                    self.made["cut after COMMIT"] += 1
                    far.write(struct.pack("!ci", b"S", 4))  # so that it is carried out
                    await far.drain()
                    await asyncio.sleep(0.02)
                    return


class CommitWatch:
    """Knows which messages of a connection have the database commit."""

    def __init__(self) -> None:
        self._names: set[bytes] = set()  # under which a commit was prepared
        self._is_bound = False

    def is_commit(self, kind: bytes, body: bytes) -> bool:
        """Whether a message does; it is told of every one."""
        if kind == b"P":
            name, query, *_ = body.split(b"\0")
            (self._names.add if query.strip().lower() == b"commit" else self._names.discard)(name)
        elif kind == b"B":
            self._is_bound = body.split(b"\0")[1] in self._names
        return (kind == b"E" and self._is_bound) or (kind == b"Q" and body.strip(b"\0 ").lower() == b"commit")
