"""A sheet of terminal cells: texts, boxes, and lines that join properly where they meet."""

from itertools import pairwise, product

from detent.define.graph.geometry import Points, Rect
from detent.define.graph.text_width import columns

LIGHT, HEAVY = 1, 2
_UP, _RIGHT, _DOWN, _LEFT = range(4)

# One character for each way four arms can be absent, light or heavy: up, right, down, left, the last changing first.
_JOINTS = dict(
    zip(
        product(range(3), repeat=4),
        " ╴╸╷┐┑╻┒┓╶─╾┌┬┭┎┰┱╺╼━┍┮┯┏┲┳╵┘┙│┤┥╽┧┪└┴┵├┼┽┟╁╅┕┶┷┝┾┿┢╆╈╹┚┛╿┦┩┃┨┫┖┸┹┞╀╃┠╂╉┗┺┻┡╄╇┣╊╋",
        strict=True,
    )
)
_ROUND = {"┌": "╭", "┐": "╮", "└": "╰", "┘": "╯"}
# Top left, horizontal, top right, vertical, bottom left, bottom right, and where a line leaves: below, right, left.
BORDERS = {
    "plain": "┌─┐│└┘┬├┤",
    "end": "╔═╗║╚╝╤╟╢",
    "current": "┏━┓┃┗┛┯┠┨",
    "any": "┌╌┐╎└┘┬├┤",
}
_ARROWS = {_DOWN: "▼", _UP: "▲", _LEFT: "◀", _RIGHT: "▶"}


class Canvas:
    """Cells by place; the later text wins over the earlier, and any text over lines."""

    def __init__(self) -> None:
        self._texts: dict[tuple[int, int], str] = {}
        self._arms: dict[tuple[int, int], list[int]] = {}

    def write(self, x: int, y: int, text: str) -> None:
        """Put a text; a wide character takes two cells."""
        for ch in text:
            cells = columns(ch)
            if not cells:
                before = max((at for at in self._texts if at[1] == y and at[0] < x), default=None)
                if before is not None:
                    self._texts[before] += ch
                continue
            self._texts[x, y] = ch
            if cells == 2:
                self._texts[x + 1, y] = ""
            x += cells

    def centre(self, rect: Rect, y: int, text: str) -> None:
        """Put a text in the middle of a box's row."""
        room = rect.x1 - rect.x0 + 1
        self.write(rect.x0 + (room - columns(text)) // 2, y, text)

    def box(self, rect: Rect, border: str) -> None:
        """Draw a frame."""
        tl, across, tr, down, bl, br = list(BORDERS[border])[:6]
        inner = rect.x1 - rect.x0 - 1
        self.write(rect.x0, rect.y0, tl + across * inner + tr)
        self.write(rect.x0, rect.y1, bl + across * inner + br)
        for y in range(rect.y0 + 1, rect.y1):
            self.write(rect.x0, y, down)
            self.write(rect.x1, y, down)

    def line(self, points: Points, weight: int) -> None:
        """Draw a line from box to box: its first and last cell belong to them, the one before the last is an arrow."""
        cells = list(_cells(points))
        for before, (x, y), after in zip(cells, cells[1:], cells[2:], strict=False):
            arms = self._arms.setdefault((x, y), [0, 0, 0, 0])
            for other in (before, after):
                side = _side((x, y), other)
                arms[side] = max(arms[side], weight)
        self.write(*cells[-2], _ARROWS[_side(cells[-2], cells[-1])])

    def leave(self, points: Points, border: str) -> None:
        """Join a line to the border it begins at."""
        (x, y), after = points[0], points[1]
        at = {_DOWN: 6, _RIGHT: 7, _LEFT: 8}[_side((x, y), after)]
        self.write(x, y, BORDERS[border][at])

    def text(self) -> str:
        """The sheet as lines without blank edges."""
        cells = {at: self._joint(arms) for at, arms in self._arms.items()} | self._texts
        if not cells:
            return ""
        left, top = min(x for x, _ in cells), min(y for _, y in cells)
        rows: list[dict[int, str]] = [{} for _ in range(max(y for _, y in cells) - top + 1)]
        for (x, y), ch in cells.items():
            rows[y - top][x - left] = ch
        lines = ("".join(row.get(x, " ") for x in range(max(row, default=-1) + 1)).rstrip() for row in rows)
        return "\n".join(lines) + "\n"

    def _joint(self, arms: list[int]) -> str:
        joint = _JOINTS[arms[0], arms[1], arms[2], arms[3]]
        return _ROUND.get(joint, joint)


def _side(start: tuple[int, int], end: tuple[int, int]) -> int:
    if start[0] == end[0]:
        return _DOWN if end[1] > start[1] else _UP
    return _RIGHT if end[0] > start[0] else _LEFT


def _cells(points: Points) -> list[tuple[int, int]]:
    cells = [points[0]]
    for (ax, ay), (bx, by) in pairwise(points):
        step_x, step_y = (bx > ax) - (bx < ax), (by > ay) - (by < ay)
        x, y = ax, ay
        while (x, y) != (bx, by):
            x, y = x + step_x, y + step_y
            cells.append((x, y))
    return cells
