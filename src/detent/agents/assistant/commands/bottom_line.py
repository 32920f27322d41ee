"""The last row of a terminal, kept for one line while everything else scrolls above it.

What is at work, and what is typed meanwhile, stays in sight there, also while an answer is being written.
"""

import os
import shutil
import sys

from detent.kit.safe_text import wide

ROWS_MIN = 6  # of a terminal that has a row to spare


class BottomLine:
    """Drawn with the cursor left where it is; `free` gives the row back."""

    def __init__(self) -> None:
        self._size: os.terminal_size | None = None  # of the terminal, while the row is kept

    def keep(self) -> None:
        """Let everything else scroll above the last row; the cursor stands at the beginning of a line."""
        size = shutil.get_terminal_size()
        if size.lines >= ROWS_MIN:
            # A new row first: the cursor may stand in the last one.
            self._write(f"\n\x1b7\x1b[1;{size.lines - 1}r\x1b8\x1b[1A")
            self._size = size

    def draw(self, text: str) -> None:
        """Write the line anew, cut where the row ends."""
        if self._size is None:
            return
        size = shutil.get_terminal_size()
        if size != self._size:  # the window has changed: terminals forget what scrolls
            self._size = size
            self._write(f"\x1b7\x1b[1;{size.lines - 1}r\x1b8")
        while wide(text) > size.columns - 1:
            text = text[:-1]
        self._write(f"\x1b7\x1b[{size.lines};1H\x1b[2K\x1b[2m{text}\x1b[0m\x1b8")

    def free(self) -> None:
        """The row is like all others again."""
        if self._size is not None:
            lines, self._size = shutil.get_terminal_size().lines, None
            self._write(f"\x1b7\x1b[r\x1b[{lines};1H\x1b[2K\x1b8")

    @staticmethod
    def _write(text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()
