"""Standard input and output as a server's line to its client, read and written by the event loop itself.

The SDK has a thread read and write every line, which costs more than the call. While the line is in use, whoever else
reads standard input finds nothing there and what others print goes to standard error: the line is the client's alone.
"""

import asyncio
import os
import stat
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

LINE_MAX = 256 * 1024 * 1024  # images come in one line


@asynccontextmanager
async def standard_streams() -> AsyncIterator[tuple[Any, Any]]:
    """What the client says and what it is told, as streams of messages; files and terminals are left to the SDK."""
    from mcp.server.stdio import stdio_server

    async with AsyncExitStack() as stack:
        if _is_pipe(0) and _is_pipe(1):
            lines = await stack.enter_async_context(_reading())
            page = await stack.enter_async_context(_writing())
            yield await stack.enter_async_context(stdio_server(lines, page))
        else:
            yield await stack.enter_async_context(stdio_server())


def _is_pipe(number: int) -> bool:
    mode = os.fstat(number).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


@asynccontextmanager
async def _take(number: int, other: int) -> AsyncIterator[int]:
    """A descriptor for us alone; `other` stands in its place meanwhile."""
    own = os.dup(number)
    try:
        os.dup2(other, number)
        yield own
    finally:
        os.set_blocking(own, True)  # it is shared with whoever started us
        os.dup2(own, number)
        os.close(own)


class _Lines:
    """The lines of a stream as texts."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    def __aiter__(self) -> "_Lines":
        return self

    async def __anext__(self) -> str:
        line = await self._reader.readline()
        if not line:
            raise StopAsyncIteration
        return line.decode(errors="replace")


class _Page:
    """A stream that texts are written to."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def write(self, text: str) -> None:
        self._writer.write(text.encode())

    async def flush(self) -> None:
        await self._writer.drain()


@asynccontextmanager
async def _reading() -> AsyncIterator[Any]:
    loop, reader = asyncio.get_running_loop(), asyncio.StreamReader(LINE_MAX)
    nothing = os.open(os.devnull, os.O_RDONLY)
    async with _take(0, nothing) as own:
        os.close(nothing)
        transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(os.dup(own), "rb", 0)
        )
        try:
            yield _Lines(reader)
        finally:
            transport.close()


@asynccontextmanager
async def _writing() -> AsyncIterator[Any]:
    loop = asyncio.get_running_loop()
    async with _take(1, 2) as own:
        transport, protocol = await loop.connect_write_pipe(
            lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), os.fdopen(os.dup(own), "wb", 0)
        )
        try:
            yield _Page(asyncio.StreamWriter(transport, protocol, None, loop))
        finally:
            transport.close()
