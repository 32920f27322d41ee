"""Markdown on a terminal while it comes: every line is drawn once it is whole, and what has come of it is shown before.

Nothing is ever drawn twice: the beginning of a line that was shown is erased where the drawn line takes its place. A
table waits for its end, since its columns are known only then.
"""

import re

from detent.agents.assistant.commands.markdown_table import DIVIDER, draw_table
from detent.agents.assistant.commands.markdown_word import CODE, DIM, END, HEAD, ITALIC, draw_inline
from detent.kit.safe_text import visible, wide

_FENCE = re.compile(r"\s*(?P<mark>`{3,}|~{3,})(?P<word>.*)")
_HEADING = re.compile(r"(#{1,6})\s+(.*?)\s*#*\s*$")
_BULLET = re.compile(r"(\s*)[-*+]\s+(.*)")
_NUMBER = re.compile(r"(\s*)(\d{1,9}[.)])\s+(.*)")
_RULE = re.compile(r"\s*([-*_])(\s*\1){2,}\s*$")
_ROW = re.compile(r"\s*\|.*\|\s*$")
_HELD = re.compile(r"\s*(\||```|~~~|`{0,2}$|~{1,2}$)")


_TOKEN = re.compile(r"\x1b\[[0-9;]*m|\s+|[\u2e80-\uffef]|[^\s\x1b\u2e80-\uffef]+")


class WordWrap:
    """Breaks a line between words while it is written; what has no blanks may be broken between any two letters."""

    def __init__(self, width: int, indent: int = 0) -> None:
        self._width, self._indent = width, indent
        self.column = self.rows = 0  # where the next letter goes

    def add(self, text: str) -> str:
        """The text with its breaks."""
        return "".join(map(self._place, _TOKEN.findall(text)))

    def _place(self, token: str) -> str:
        if token.startswith("\x1b"):
            return token
        size = wide(token)
        if self.column + size <= self._width:
            self.column += size
            return token
        if token.isspace():
            self.column = self._width  # it would stand at the end of the row, where nobody sees it
            return ""
        if size > self._width - self._indent:  # longer than a row: the terminal breaks it
            self.rows += (self.column + size - 1) // self._width
            self.column = (self.column + size - 1) % self._width + 1
            return token
        self.rows, self.column = self.rows + 1, self._indent + size
        return "\n" + " " * self._indent + token


def draw_line(line: str, width: int) -> str:
    """One line outside of fences and tables."""
    if found := _HEADING.match(line):
        return f"{HEAD}{found[2]}{END}"
    if _RULE.match(line):
        return f"{DIM}{'─' * min(width, 40)}{END}"
    if found := _BULLET.match(line):
        return f"{found[1]}{DIM}•{END} {draw_inline(found[2])}"
    if found := _NUMBER.match(line):
        return f"{found[1]}{DIM}{found[2]}{END} {draw_inline(found[3])}"
    if line.lstrip().startswith(">"):
        return f"{DIM}│{END} {ITALIC}{line.lstrip()[1:].lstrip()}{END}"
    return draw_inline(line)


class MarkdownStream:
    """Turns pieces of Markdown into what is written to a terminal of some width."""

    def __init__(self, width: int, height: int = 24) -> None:
        self._width, self._height = max(width, 20), height
        self._line = ""  # of which a part is on the screen
        self._held = ""  # the end of it, which may be half a word
        self._written: WordWrap | None = None  # of what is there
        self._fence = ""
        self._rows: list[str] = []
        self.is_at_start = True  # whether the cursor stands where a line begins

    def add(self, piece: str) -> str:
        """What to write now."""
        *whole, rest = piece.split("\n")
        out = [self._end_line(part) for part in whole]
        out.append(self._begin_line(rest))
        self.is_at_start = self._written is None
        return "".join(out)

    def end(self) -> str:
        """The last line, whether it was ended or not."""
        out = self._end_line("") if self._line else ""
        out += self._flush_table()
        self._fence, self.is_at_start = "", True
        return out

    def _begin_line(self, part: str) -> str:
        if not part:
            return ""
        self._line += part
        if self._rows or _HELD.match(self._line):
            return ""  # a table or a fence is not shown before it is known
        text = visible((self._line if self._written is None else self._held + part).rstrip("\r"), keep="\t")
        cut = max(text.rfind(" "), text.rfind("\t")) + 1
        ends_wide = bool(text) and "\u2e80" <= text[-1] <= "\uffef"
        ready, self._held = (text, "") if ends_wide else (text[:cut], text[cut:])
        if not ready:
            if self._written is None:
                self._held = ""  # the line is written from its beginning, once a word of it is whole
            return ""
        self._written = self._written or WordWrap(self._width)
        return self._written.add(ready)

    def _end_line(self, part: str) -> str:
        line = (self._line + part).rstrip("\r")
        held, written, self._held = visible(self._held + part.rstrip("\r"), keep="\t"), self._written, ""
        self._line, self._written = "", None
        drawn = self._draw(line)
        if written is None:
            return drawn
        is_plain = drawn == self._wrap(visible(line, keep="\t"), 0) + "\n"
        if is_plain or written.rows >= self._height - 2:
            return f"{written.add(held)}\n"  # as it stands, or its beginning has left the screen: nothing is taken back
        return "\r" + (f"\x1b[{written.rows}A" if written.rows else "") + "\x1b[J" + drawn

    def _wrap(self, text: str, indent: int) -> str:
        return WordWrap(self._width, indent).add(text)

    def _draw(self, line: str) -> str:
        fence = _FENCE.match(line)
        if self._fence:
            if fence and fence["mark"].startswith(self._fence) and not fence["word"].strip():
                self._fence = ""
                return ""
            return f"  {CODE}{visible(line, keep=chr(9))}{END}\n"
        if fence:
            out, self._fence = self._flush_table(), fence["mark"]
            word = visible(fence["word"].strip())
            return out + (f"  {DIM}{word}{END}\n" if word else "")
        text = visible(line, keep="\t")
        if _ROW.match(text) or (self._rows and DIVIDER.match(text)):
            self._rows.append(text)
            return ""
        begin = _BULLET.match(text) or _NUMBER.match(text)
        indent = min(begin.start(begin.lastindex or 0), self._width // 2) if begin else 0
        return self._flush_table() + self._wrap(draw_line(text, self._width), indent) + "\n"

    def _flush_table(self) -> str:
        rows, self._rows = self._rows, []
        return "".join(f"{line}\n" for line in draw_table(rows, self._width))
