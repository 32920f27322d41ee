"""The parts of an SVG picture: a node with its marks, a line with round corners, an arrow, a label.

Every text passes through `escape`; every number is our own.
"""

from collections.abc import Sequence
from html import escape as _escape

from detent.define.graph.drawing import Edge, Label, Node
from detent.define.graph.geometry import Points, Rect
from detent.define.graph.text_width import clean, pixels, shorten

NAME_SIZE, SMALL_SIZE = 14, 12
NAME_LINE, SMALL_LINE = 20, 16
NAME_MAX = 40  # columns; the rest is in the tooltip
LABEL_MAX = 44
GLYPH, GLYPH_GAP = 16, 6
PAD_X, PAD_Y = 16, 10
HEAD = 34  # above the initial state
BAR = 4
_RADIUS = 9
_HALO = 7
_TIP_LENGTH, _TIP_HALF = 9, 4

GLYPHS = {
    # A raised hand, drawn finger by finger.
    "ask": "M4.9 8.8V4.1a1.05 1.05 0 0 1 2.1 0v3.6M7 7.4V2.6a1.05 1.05 0 0 1 2.1 0v4.8M9.1 7.4V3.5"
    "a1.05 1.05 0 0 1 2.1 0v4.6M11.2 8.1V5.6a1.05 1.05 0 0 1 2.1 0v4.7a4.4 4.4 0 0 1-4.4 4.4h-.5"
    "a4.6 4.6 0 0 1-3.7-1.9L2.4 9.9a1.1 1.1 0 0 1 1.7-1.4l.8.9",
    "wait": "M8 1.8a6.2 6.2 0 1 1 0 12.4a6.2 6.2 0 1 1 0-12.4M8 4.6V8l2.4 1.7",
    "parallel": "M3.5 3v10M8 3v10M12.5 3v10",
    "completed": "M3 8.6l3.3 3.3L13 4.6",
    "failed": "M4 4l8 8M12 4l-8 8",
    "rejected": "M8 2a6 6 0 1 1 0 12a6 6 0 1 1 0-12M3.8 3.8l8.4 8.4",
    "cancelled": "M8 2a6 6 0 1 1 0 12a6 6 0 1 1 0-12M5 8h6",
}
MEANING = {"ask": "asks a person", "wait": "waits", "parallel": "works side by side"}


def escape(text: str) -> str:
    """Text made safe for XML, as content and inside quotes."""
    return _escape(clean(text), quote=True)


def size(node: Node) -> tuple[int, int]:
    """Width and height of a node's box, both even."""
    marks = _marks(node)
    name = pixels(_name(node), NAME_SIZE, bold=True) + len(marks) * (GLYPH + GLYPH_GAP)
    small = [pixels(line, SMALL_SIZE) for line in [*node.details, *node.lanes]]
    width = max([name, 64, *small]) + 2 * PAD_X
    height = NAME_LINE + len(node.details) * SMALL_LINE + 2 * PAD_Y
    if node.lanes:
        height += len(node.lanes) * (SMALL_LINE + 4) + 2 * BAR + 4
    if node.is_end:
        height += 4
    return width + width % 2, height + height % 2


def draw_node(node: Node, rect: Rect) -> str:
    """A node as a group: box, marks, texts."""
    classes = ["node", node.kind, *(["initial"] if node.is_initial else [])]
    classes += [name for name, is_on in (("visited", node.is_visited), ("current", node.is_current)) if is_on]
    parts = [f'<g class="{" ".join(classes)}" data-state="{escape(node.name)}"><title>{escape(_story(node))}</title>']
    radius = _radius(node)
    if node.is_initial:
        y = rect.y0 - HEAD + 8
        parts.append(f'<circle class="dot" cx="{rect.x}" cy="{y}" r="6"/>')
        parts.append(f'<path class="wire" d="M{rect.x} {y + 6}V{rect.y0 - 8}"/>{_tip(rect.x, rect.y0 - 1, 0, 1, 0)}')
    parts.append(_frame("box", rect, 0, radius))
    if node.is_end:
        parts.append(_frame("inner", rect, -4, radius - 3))
    if node.kind == "parallel":
        parts += [_bar(rect, rect.y0 + 5), _bar(rect, rect.y1 - 5 - BAR)]
    parts += _texts(node, rect)
    return "".join(parts) + "</g>"


def draw_halo(node: Node, rect: Rect) -> str:
    """The light behind the state a run is in; it goes below the lines."""
    return _frame("halo", rect, _HALO, _radius(node) + _HALO)


def draw_edges(edges: Sequence[Edge], ways: Sequence[Points]) -> str:
    """Edges to one target as one line with arrows; drawn from the target on, so that dashes of a common way agree."""
    first = edges[0]
    classes = f"edge {first.kind}{' visited' if first.is_visited else ''}"
    sources = escape(" ".join(edge.source for edge in edges))
    parts, tips = [], {}
    for points in ways:
        (x, y), (end_x, end_y) = points[-2], points[-1]
        across, down = (end_x > x) - (end_x < x), (end_y > y) - (end_y < y)
        tail = [*points[:-1], (end_x - across * (_TIP_LENGTH - 1), end_y - down * (_TIP_LENGTH - 1))]
        parts.append(_path(tail[::-1]))
        tips[end_x, end_y] = _tip(end_x - across, end_y - down, across, down, int(first.is_visited))
    named = f'data-source="{sources}" data-target="{escape(first.target)}"'
    return f'<g class="{classes}" {named}><path class="wire" d="{"".join(parts)}"/>{"".join(tips.values())}</g>'


def label_texts(labels: tuple[Label, ...]) -> list[str]:
    """The lines of a label, cut where they are too long."""
    return [shorten(label.text, LABEL_MAX) for label in labels]


def label_size(labels: tuple[Label, ...]) -> tuple[int, int]:
    """Width and height of the lines of a label; nothing for none."""
    if not labels:
        return 0, 0
    width = max(pixels(text, SMALL_SIZE, bold=True) for text in label_texts(labels)) + 8
    return width + width % 2, len(labels) * SMALL_LINE + 2


def draw_label(labels: tuple[Label, ...], rect: Rect) -> str:
    """The lines of a label on a ground of their own, so that the line behind does not cut through them."""
    width, height = rect.x1 - rect.x0, rect.y1 - rect.y0
    parts = [f'<g><rect class="ground" x="{rect.x0}" y="{rect.y0}" width="{width}" height="{height}" rx="4"/>']
    top = rect.y - len(labels) * SMALL_LINE // 2
    for at, (label, text) in enumerate(zip(labels, label_texts(labels), strict=True)):
        classes = f"label {label.kind}{' visited' if label.is_visited else ''}"
        whole = f"<title>{escape(label.text)}</title>" if text != label.text else ""
        y = top + at * SMALL_LINE + 12
        parts.append(f'<text class="{classes}" x="{rect.x}" y="{y}">{escape(text)}{whole}</text>')
    return "".join(parts) + "</g>"


def _radius(node: Node) -> int:
    return 20 if node.kind == "any" else 10


def _name(node: Node) -> str:
    return shorten(node.text, NAME_MAX)


def _marks(node: Node) -> list[str]:
    return [node.kind] if node.is_end else list(node.marks)


def _story(node: Node) -> str:
    said = [MEANING[mark] for mark in node.marks if mark in MEANING]
    said += [node.kind] if node.is_end else []
    said += ["here now"] if node.is_current else []
    return ", ".join([node.text, *said])


def _texts(node: Node, rect: Rect) -> list[str]:
    marks = _marks(node)
    width = pixels(_name(node), NAME_SIZE, bold=True)
    room = len(marks) * (GLYPH + GLYPH_GAP)
    rows = NAME_LINE + len(node.details) * SMALL_LINE + (len(node.lanes) * (SMALL_LINE + 4) + 4 if node.lanes else 0)
    y = rect.y - rows // 2
    x = rect.x - (width + room) // 2
    parts = []
    for mark in marks:
        parts.append(f'<path class="glyph" transform="translate({x} {y + 2})" d="{GLYPHS[mark]}"/>')
        x += GLYPH + GLYPH_GAP
    # Beside a glyph the name begins at a fixed place, so that a wider font does not push it into the glyph.
    centred = f'class="name" x="{rect.x}"' if not marks else f'class="name beside" x="{x}"'
    parts.append(f'<text {centred} y="{y + 15}">{escape(_name(node))}</text>')
    y += NAME_LINE
    for line in node.details:
        parts.append(f'<text class="detail" x="{rect.x}" y="{y + 12}">{escape(line)}</text>')
        y += SMALL_LINE
    y += 4
    for lane in node.lanes:
        parts.append(f'<path class="rule" d="M{rect.x0 + 10} {y}H{rect.x1 - 10}"/>')
        parts.append(f'<text class="lane" x="{rect.x}" y="{y + 14}">{escape(lane)}</text>')
        y += SMALL_LINE + 4
    return parts


def _frame(name: str, rect: Rect, out: int, radius: int) -> str:
    x, y = rect.x0 - out, rect.y0 - out
    width, height = rect.x1 - rect.x0 + 2 * out, rect.y1 - rect.y0 + 2 * out
    return f'<rect class="{name}" x="{x}" y="{y}" width="{width}" height="{height}" rx="{radius}"/>'


def _bar(rect: Rect, y: int) -> str:
    return f'<rect class="bar" x="{rect.x0 + 10}" y="{y}" width="{rect.x1 - rect.x0 - 20}" height="{BAR}" rx="2"/>'


def _tip(x: int, y: int, across: int, down: int, more: int) -> str:
    length, half = _TIP_LENGTH + 2 * more, _TIP_HALF + more
    back_x, back_y = x - across * length, y - down * length
    side_x, side_y = down * half, across * half
    corners = f"M{x} {y}L{back_x + side_x} {back_y + side_y}L{back_x - side_x} {back_y - side_y}Z"
    return f'<path class="tip" d="{corners}"/>'


def _path(points: Points) -> str:
    """A way with rounded corners."""
    parts = [f"M{points[0][0]} {points[0][1]}"]
    for before, (x, y), after in zip(points, points[1:], points[2:], strict=False):
        reach = min(_RADIUS, _length(before, (x, y)) // 2, _length((x, y), after) // 2)
        near = _towards((x, y), before, reach)
        far = _towards((x, y), after, reach)
        parts.append(f"L{near[0]} {near[1]}Q{x} {y} {far[0]} {far[1]}")
    parts.append(f"L{points[-1][0]} {points[-1][1]}")
    return "".join(parts)


def _length(one: tuple[int, int], other: tuple[int, int]) -> int:
    return abs(one[0] - other[0]) + abs(one[1] - other[1])


def _towards(start: tuple[int, int], end: tuple[int, int], reach: int) -> tuple[int, int]:
    across, down = (end[0] > start[0]) - (end[0] < start[0]), (end[1] > start[1]) - (end[1] < start[1])
    return start[0] + across * reach, start[1] + down * reach
