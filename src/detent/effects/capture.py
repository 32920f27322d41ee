"""What a process writes, kept within bounds: its beginning, its end, and a sentence about what is missing between.

A reader is a callback of the event loop on a pipe that we own, so no amount of output and no stranger who holds the
other end open can block anybody.
"""

import asyncio
import codecs
import os
from collections.abc import Callable

CAP_BYTES = 256 * 1024
READ_BYTES = 64 * 1024
REST_BYTES = 1024 * 1024


class Capture:
    """Bytes as they come; at most `cap` of them are kept, half from the beginning and half from the end."""

    def __init__(self, cap: int = CAP_BYTES) -> None:
        self._half = cap // 2
        self._head = bytearray()
        self._tail = bytearray()
        self._count = 0

    def feed(self, chunk: bytes) -> None:
        """Take what was written next."""
        self._count += len(chunk)
        room = self._half - len(self._head)
        if room > 0:
            self._head += chunk[:room]
            chunk = chunk[room:]
        self._tail += chunk
        if len(self._tail) > 4 * self._half:  # not at every chunk: moving the end costs as much as its length
            del self._tail[: -self._half]

    @property
    def is_cut(self) -> bool:
        """Whether something is missing."""
        return self._count > 2 * self._half

    def text(self) -> str:
        """What was kept, as text; bytes that are no UTF-8 become replacement characters."""
        if not self.is_cut:
            return (self._head + self._tail).decode("utf-8", "replace")
        tail = self._tail[-self._half :]
        begun = next((i for i, byte in enumerate(tail[:4]) if byte & 0xC0 != 0x80), 0)
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        head = decoder.decode(bytes(self._head))  # an unfinished last character stays inside the decoder
        missing = self._count - len(self._head) - len(tail) + len(decoder.getstate()[0]) + begun
        return f"{head}\n[{missing:,} bytes are left out here]\n{tail[begun:].decode('utf-8', 'replace')}"


class Pipe:
    """One output of a process on its way into a Capture; close it on the loop it was opened on."""

    def __init__(self, hear: Callable[[bytes], None] | None = None) -> None:
        self.capture = Capture()
        self._hear = hear
        self.ended = asyncio.Event()  # every process that held the writing end has let it go
        self._loop = asyncio.get_running_loop()
        self._reader, self.writer = os.pipe()
        os.set_blocking(self._reader, False)
        self._loop.add_reader(self._reader, self._read)

    def _read(self) -> bool:
        """Take one piece; whether there was one."""
        try:
            chunk = os.read(self._reader, READ_BYTES)
        except BlockingIOError:
            return False
        self.capture.feed(chunk)
        if chunk and self._hear is not None:
            self._hear(chunk)
        if not chunk:
            self._loop.remove_reader(self._reader)
            self.ended.set()
        return bool(chunk)

    def release(self) -> None:
        """Let go of our copy of the writing end, once the process has its own."""
        if self.writer >= 0:
            os.close(self.writer)
            self.writer = -1

    def rest(self) -> None:
        """Take what lies in the pipe now, although it has not ended."""
        if not self.ended.is_set():
            for _ in range(REST_BYTES // READ_BYTES):
                if not self._read():
                    return

    def close(self) -> None:
        """Stop reading; whoever still writes gets a broken pipe."""
        self._loop.remove_reader(self._reader)
        os.close(self._reader)
        self.release()
