"""A table of Markdown on a terminal: in a frame, its columns as they are aligned, no wider than there is room."""

import re
from collections.abc import Iterator

from detent.agents.assistant.commands.markdown_word import BOLD, DIM, END, draw_inline, strip_marks
from detent.kit.safe_text import wide

DIVIDER = re.compile(r"\s*\|?(\s*:?-+:?\s*\|)+\s*:?-*:?\s*\|?\s*$")
COLUMN_MIN = 6  # no column is made narrower to save room
_PIPE = re.compile(r"(?<!\\)\|")


def draw_table(rows: list[str], width: int) -> Iterator[str]:
    """The rows of a table; the first is the head. A cell for which there is no room goes on in the next line."""
    cells = [_split(row) for row in rows if not DIVIDER.match(row)]
    if not cells:
        return
    count = max(map(len, cells))
    whole = [row + [""] * (count - len(row)) for row in cells]
    aligned = next((_split(row) for row in rows if DIVIDER.match(row)), [])
    is_right = [
        at < len(aligned) and aligned[at].endswith(":") and not aligned[at].startswith(":") for at in range(count)
    ]
    widths = _fit([max(wide(strip_marks(row[at])) for row in whole) for at in range(count)], width - 3 * count - 1)
    yield _rule("┌┬┐", widths)
    for number, row in enumerate(whole):
        yield from _draw_row(row, widths, is_right, is_head=not number)
        if not number:
            yield _rule("├┼┤", widths)
    yield _rule("└┴┘", widths)


def _split(row: str) -> list[str]:
    bare = row.strip().removeprefix("|")
    parts = _PIPE.split(bare.removesuffix("|") if not bare.endswith("\\|") else bare)
    return [part.strip().replace("\\|", "|") for part in parts]


def _fit(widths: list[int], room: int) -> list[int]:
    """The widths with the widest columns made narrower until there is room."""
    widths = list(widths)
    while sum(widths) > room and max(widths) > COLUMN_MIN:
        widths[widths.index(max(widths))] -= 1
    return widths


def _draw_row(row: list[str], widths: list[int], is_right: list[bool], *, is_head: bool) -> Iterator[str]:
    drawn = [_draw_cell(cell, size) for cell, size in zip(row, widths, strict=True)]
    for number in range(max(map(len, drawn))):
        parts = []
        for lines, size, right in zip(drawn, widths, is_right, strict=True):
            text, taken = lines[number] if number < len(lines) else ("", 0)
            blank = " " * max(0, size - taken)
            text = f"{BOLD}{text}{END}" if is_head and text else text
            parts.append(blank + text if right else text + blank)
        edge = f"{DIM}│{END}"
        yield f"{edge} " + f" {edge} ".join(parts) + f" {edge}"


def _draw_cell(cell: str, size: int) -> list[tuple[str, int]]:
    """The lines of a cell, each with the columns it takes; one that is broken loses its marks."""
    bare = strip_marks(cell)
    if wide(bare) <= size:
        return [(draw_inline(cell), wide(bare))]
    lines, line = list[str](), ""
    for word in re.findall(r"\S+\s*|\s+", bare):
        if line and wide(line + word.rstrip()) > size:
            lines.append(line.rstrip())
            line = ""
        for letter in word:
            if wide(line + letter) > size and letter != " ":
                lines.append(line.rstrip())
                line = ""
            line += letter
    return [(one, wide(one)) for one in [*lines, line.rstrip()] if one]


def _rule(corners: str, widths: list[int]) -> str:
    return f"{DIM}{corners[0]}{corners[1].join('─' * (size + 2) for size in widths)}{corners[2]}{END}"
