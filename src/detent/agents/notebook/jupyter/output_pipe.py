"""A standard output of a kernel, read as it comes: a pipe, or a named one that outlives this process."""

import asyncio
import codecs
import os
from collections.abc import Callable
from pathlib import Path

READ_BYTES = 64 * 1024


class KernelPipe:
    """A standard output of the process, read as it comes; close it on the loop it was opened on."""

    def __init__(self, take: Callable[[str], None], ends: tuple[int, int] | None = None) -> None:
        self._take = take
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._loop = asyncio.get_running_loop()
        self._reader, self.writer = ends or os.pipe()
        os.set_blocking(self._reader, False)
        self._loop.add_reader(self._reader, self.read)

    @classmethod
    def open_named(cls, path: Path, take: Callable[[str], None]) -> "KernelPipe":
        """A pipe that outlives this process: one in the kernel's folder, which its keeper writes to."""
        if not path.exists():
            os.mkfifo(path, 0o600)
        # For writing too, though nobody does: else it would be at its end until the keeper opens it.
        return cls(take, (os.open(path, os.O_RDWR | os.O_NONBLOCK), -1))

    def read(self) -> bool:
        """Take one piece; whether there was one."""
        try:
            chunk = os.read(self._reader, READ_BYTES)
        except BlockingIOError:
            return False
        if not chunk:
            self._loop.remove_reader(self._reader)
        text = self._decoder.decode(chunk, not chunk)
        if text:
            self._take(text)
        return bool(chunk)

    def rest(self) -> None:
        """Take what lies in the pipe now: at most what it can hold, for somebody may go on writing."""
        for _ in range(32):
            if not self.read():
                return

    def release(self) -> None:
        """Let go of our copy of the writing end, once the process has its own."""
        if self.writer >= 0:
            os.close(self.writer)
            self.writer = -1

    def close(self) -> None:
        """Stop reading; whoever still writes gets a broken pipe."""
        self._loop.remove_reader(self._reader)
        os.close(self._reader)
        self.release()
