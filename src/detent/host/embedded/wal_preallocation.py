"""Preallocation: zeros written past the used part of the write-ahead log, so that commits only overwrite.

An fsync of a file that has grown must also commit the file system's own journal, which costs twice the processor time
and, beside other writers, ten times the wait. SQLite grows its log frame by frame until the first checkpoint; we write
zeros ahead of it. A reader stops at the first frame whose checksum does not fit, and zeros never do: SQLite leaves old
frames behind the last valid one itself.
"""

import os
from pathlib import Path

FRAME = 24 + 4096  # bytes: a frame's header and its page
HEADER = 32  # bytes before the first frame
LEFT = 8  # frames still ahead when more is laid: what one commit may write
LAID = bytes(128 * FRAME)  # at once; fewer would be laid too often, more would be written for nothing in short runs


class WalPreallocation:
    """Lays zeros ahead of the log's last frame; belongs to the writing connection."""

    def __init__(self, journal: Path) -> None:
        self._path = journal.with_name(journal.name + "-wal")
        self._fd = -1
        self._mark = HEADER  # where a frame begins that is written when more is needed

    def roll(self) -> None:
        """After a commit: lay more if the log has come near the end of what is laid."""
        try:
            if self._fd < 0:
                self._fd = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
            if not any(os.pread(self._fd, 4, self._mark)):
                return
            size = os.fstat(self._fd).st_size
            os.pwrite(self._fd, LAID, size)
            end = os.fstat(self._fd).st_size
            self._mark = HEADER + ((end - HEADER) // FRAME - LEFT) * FRAME
        except OSError:
            self._mark = 1 << 62  # no space, or no such file: commits grow the log themselves, and say what is wrong

    def sync(self) -> None:
        """Wait until the log is on disk."""
        if self._fd >= 0:
            os.fdatasync(self._fd)

    def close(self) -> None:
        """Let go of the log."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
