"""Markdown on a terminal while it comes: every line is drawn once it is whole, and what has come of it is shown before.

Nothing is ever drawn twice: the beginning of a line that was shown is erased where the drawn line takes its place. A
table waits for its end, since its columns are known only then.
"""

import re
from collections.abc import Iterator

from detent.kit.text import pad, visible, wide

BOLD, DIM, ITALIC, UNDERLINE, CODE, HEAD, LINK, END = (
    "\x1b[1m", "\x1b[2m", "\x1b[3m", "\x1b[4m", "\x1b[36m", "\x1b[1;35m", "\x1b[34m", "\x1b[0m",
)  # fmt: skip
_FENCE = re.compile(r"\s*(?P<mark>`{3,}|~{3,})(?P<word>.*)")
_HEADING = re.compile(r"(#{1,6})\s+(.*?)\s*#*\s*$")
_BULLET = re.compile(r"(\s*)[-*+]\s+(.*)")
_NUMBER = re.compile(r"(\s*)(\d{1,9}[.)])\s+(.*)")
_RULE = re.compile(r"\s*([-*_])(\s*\1){2,}\s*$")
_ROW = re.compile(r"\s*\|.*\|\s*$")
_DIVIDER = re.compile(r"\s*\|?(\s*:?-+:?\s*\|)+\s*:?-*:?\s*\|?\s*$")
_INLINE = re.compile(
    r"(?P<code>`+)(?P<coded>.+?)(?P=code)"
    r"|\*\*(?P<bold>\S(?:.*?\S)?)\*\*"
    r"|(?<![\w*])\*(?P<slanted>[^\s*](?:[^*]*[^\s*])?)\*(?![\w*])"
    r"|\[(?P<words>[^\]]+)\]\((?P<address>[^()\s]+)\)"
)


def draw_inline(text: str) -> str:
    """The marks inside one line."""

    def draw(found: re.Match[str]) -> str:
        if found["coded"] is not None:
            return f"{CODE}{found['coded']}{END}"
        if found["bold"] is not None:
            return f"{BOLD}{found['bold']}{END}"
        if found["slanted"] is not None:
            return f"{ITALIC}{found['slanted']}{END}"
        return f"{UNDERLINE}{found['words']}{END} {LINK}{found['address']}{END}"

    return _INLINE.sub(draw, text)


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


def draw_table(rows: list[str]) -> Iterator[str]:
    """A table with its columns in line; its first row is the head."""
    cells = [[cell.strip() for cell in row.strip().strip("|").split("|")] for row in rows if not _DIVIDER.match(row)]
    count = max(map(len, cells), default=0)
    whole = [row + [""] * (count - len(row)) for row in cells]
    widths = [max(wide(_bare(row[at])) for row in whole) for at in range(count)]
    for number, row in enumerate(whole):
        drawn = [draw_inline(cell) + " " * (widths[at] - wide(_bare(cell))) for at, cell in enumerate(row)]
        line = f" {DIM}│{END} ".join(f"{BOLD}{cell}{END}" if not number else cell for cell in drawn)
        yield line.rstrip()
        if not number:
            yield DIM + "─┼─".join(pad("", width).replace(" ", "─") for width in widths) + END


def _bare(text: str) -> str:
    return _INLINE.sub(lambda m: m["coded"] or m["bold"] or m["slanted"] or f"{m['words']} {m['address']}", text)


class MarkdownStream:
    """Turns pieces of Markdown into what is written to a terminal of some width."""

    def __init__(self, width: int, height: int = 24) -> None:
        self._width, self._height = max(width, 20), height
        self._line = ""  # of which a part is on the screen
        self._shown = 0  # columns of it that are there
        self._fence = ""
        self._rows: list[str] = []
        self.is_at_start = True  # whether the cursor stands where a line begins

    def add(self, piece: str) -> str:
        """What to write now."""
        out = []
        *whole, rest = piece.split("\n")
        for part in whole:
            out.append(self._end_line(part))
        out.append(self._begin_line(rest))
        self.is_at_start = not self._shown
        return "".join(out)

    def end(self) -> str:
        """The last line, whether it was ended or not."""
        out = self._end_line("") if self._line or self._shown else ""
        out += self._flush_table()
        self._fence, self.is_at_start = "", True
        return out

    def _begin_line(self, part: str) -> str:
        if not part:
            return ""
        self._line += part
        if self._rows or _ROW.match(self._line + "|") or (self._line.lstrip().startswith(("|", "```", "~~~"))):
            return ""  # a table or a fence is not shown before it is known
        text = visible(part, keep="\t")
        self._shown += wide(text)
        return text

    def _end_line(self, part: str) -> str:
        line, up = (self._line + part).rstrip("\r"), (self._shown - 1) // self._width
        rest, is_begun = visible(part.rstrip("\r"), keep="\t"), self._shown > 0
        self._line, self._shown = "", 0
        if not is_begun:
            return self._draw(line)
        drawn = self._draw(line)
        if drawn == visible(line, keep="\t") + "\n" or up >= self._height - 2:
            return f"{rest}\n"  # as it stands, or its beginning has left the screen: nothing is taken back
        return "\r" + (f"\x1b[{up}A" if up else "") + "\x1b[J" + drawn

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
        if _ROW.match(text) or (self._rows and _DIVIDER.match(text)):
            self._rows.append(text)
            return ""
        return self._flush_table() + draw_line(text, self._width) + "\n"

    def _flush_table(self) -> str:
        rows, self._rows = self._rows, []
        return "".join(f"{line}\n" for line in draw_table(rows))
