"""The picture for a terminal: drawn with box characters where it fits, told as a list where it does not."""

from collections.abc import Iterator

from detent.define.graph.canvas import HEAVY, LIGHT, Canvas
from detent.define.graph.drawing import Edge, Node, Picture
from detent.define.graph.geometry import Layout, Metric, Points, Rect, Shape, WireRoute
from detent.define.graph.layout import lay_out
from detent.define.graph.svg_picture import wire
from detent.define.graph.text_width import clean, columns, shorten

WIDTH = 100
METRIC = Metric(
    box_margin=2,
    line_margin=1,
    label_margin=1,
    port=3,
    port_pad=2,
    side_port=1,
    side_pad=1,
    lead=1,
    tip=2,
    track=1,
    plain=2,
    loop=3,
    loop_gap=2,
)
NODES_MAX, EDGES_MAX = 60, 200  # a drawing of more is longer than anybody scrolls
NAME_MAX = 40
LABEL_MAX = 40
_LABEL_SHORT = 18


def ascii(picture: Picture, *, width: int = WIDTH) -> str:
    """The picture in at most `width` columns; one that cannot be drawn so narrow becomes a list of its states."""
    if len(picture.nodes) <= NODES_MAX and len(picture.edges) <= EDGES_MAX:
        for has_details, label_max in ((True, LABEL_MAX), (False, LABEL_MAX), (False, _LABEL_SHORT)):
            sheet = Sheet(picture, has_details, label_max)
            if sheet.width <= width:
                return sheet.draw()
            if sheet.width > 2 * width:  # leaving things out does not halve it
                break
    return "".join(f"{shorten(line, width) if columns(line) > width else line}\n" for line in _list_states(picture))


class Sheet:
    """A drawing being made: what is written where, and whether it fits."""

    def __init__(self, picture: Picture, has_details: bool, label_max: int) -> None:
        self.picture = picture
        self.has_details = has_details
        self.label_max = label_max
        self.drawn = self._layout()
        boxes, routes = self.drawn.boxes, self.drawn.routes
        edges = [x for way in routes for rect in [way.label] if rect for x in (rect.x0, rect.x1)]
        edges += [x for box in boxes for x in (box.x0, box.x1)] + [x for way in routes for x, _ in way.points]
        self.width = max(edges, default=0) - min(edges, default=0) + 1

    def lines(self, node: Node) -> list[str]:
        """What is written in a box."""
        name = shorten(node.text, NAME_MAX)
        more = [*node.details, *(f"║ {lane}" for lane in node.lanes)] if self.has_details else []
        return [f"▶ {name}" if node.is_current else name, *(clean(line) for line in more)]

    def labels(self, edge: Edge) -> list[str]:
        """What is written on an edge."""
        return [shorten(label.text, self.label_max) for label in edge.labels]

    def _layout(self) -> Layout:
        loops = {edge.source for edge in self.picture.edges if edge.is_loop}
        shapes = []
        for node in self.picture.nodes:
            lines = self.lines(node)
            wide = max([*(columns(line) for line in lines), columns(tag(node)) + 2, 3]) + 4
            high = max(len(lines), 2 if node.name in loops else 1) + 2
            shapes.append(Shape(wide // 2, high // 2, 2 if node.is_initial else 0))
        sizes = []
        for edge in self.picture.edges:
            lines = self.labels(edge)
            wide = max((columns(line) for line in lines), default=0)
            sizes.append((max(1, wide - 1), len(lines) - 1) if lines else (0, 0))
        return lay_out(shapes, wire(self.picture, sizes), METRIC)

    def draw(self) -> str:
        """The drawing as text."""
        canvas = Canvas()
        placed = zip(self.picture.nodes, self.drawn.boxes, strict=True)
        boxes = {node.name: self._trim(node, rect) for node, rect in placed}
        frames = {node.name: border(node) for node in self.picture.nodes}
        ways = [(edge, way, _meet(way.points, boxes[edge.source])) for edge, way in self._pairs()]
        for edge, _, points in sorted(ways, key=lambda one: one[0].is_visited):
            canvas.line(points, HEAVY if edge.is_visited else LIGHT)
        for node in self.picture.nodes:
            self._draw_node(canvas, node, boxes[node.name])
        for edge, way, points in ways:
            canvas.leave(points, frames[edge.source])
            if way.label is not None:
                for at, line in enumerate(self.labels(edge)):
                    canvas.centre(way.label, way.label.y0 + at, line)
        return canvas.text() + "".join(f"{line}\n" for line in _legend(self.picture))

    def _pairs(self) -> list[tuple[Edge, WireRoute]]:
        return list(zip(self.picture.edges, self.drawn.routes, strict=True))

    def _trim(self, node: Node, rect: Rect) -> Rect:
        """A box without its last row where that would be empty, unless a line ends there."""
        is_used = any(
            y == rect.y1 - 1 and x in (rect.x0, rect.x1)
            for way in self.drawn.routes
            for x, y in (way.points[0], way.points[-1])
        )
        has_room = rect.y1 - rect.y0 - 1 > len(self.lines(node))
        return rect._replace(y1=rect.y1 - 1) if has_room and not is_used else rect

    def _draw_node(self, canvas: Canvas, node: Node, rect: Rect) -> None:
        canvas.box(rect, border(node))
        if tag(node):
            canvas.write(rect.x0 + 2, rect.y0, f" {tag(node)} ")
        if node.is_initial:
            canvas.write(rect.x, rect.y0 - 2, "●")
            canvas.write(rect.x, rect.y0 - 1, "▼")
        lines = self.lines(node)
        y = rect.y0 + 1 + (rect.y1 - rect.y0 - 1 - len(lines)) // 2
        for at, line in enumerate(lines):
            canvas.centre(rect, y + at, line)


def _meet(points: Points, box: Rect) -> Points:
    """A line that begins at the bottom of a box, also when the box ends one row earlier."""
    (x, y), *rest = points
    return [(x, min(y, box.y1)), *rest]


def _legend(picture: Picture) -> list[str]:
    return ["", f"▶ {picture.status} in {clean(picture.current.text)}   ━ the way so far"] if picture.current else []


def border(node: Node) -> str:
    """How the frame of a node is drawn."""
    return "end" if node.is_end else "current" if node.is_current else "any" if node.kind == "any" else "plain"


def tag(node: Node) -> str:
    """The word on the frame of a node that is more than a plain one."""
    words = {"ask": "asks", "wait": "waits", "parallel": "parallel"}
    said = [node.kind] if node.is_end else [words[mark] for mark in node.marks if mark in words]
    return ", ".join(word for word in said if word != node.name)  # a state `failed` need not say so twice


def _list_states(picture: Picture) -> Iterator[str]:
    """The machine as a list: each state with its ways out."""
    yield f"{clean(picture.title or picture.name)} · {len(picture.nodes)} states"
    if picture.current is not None:
        yield f"▶ {picture.status} in {clean(picture.current.text)}, • been there, ━ the way so far"
    for node in picture.nodes:
        sign = "▶" if node.is_current else "•" if node.is_visited else "●" if node.is_initial else " "
        about = f"  [{tag(node)}]" if tag(node) else ""
        yield ""
        yield f"{sign} {shorten(node.text, NAME_MAX)}{about}"
        for edge in picture.edges:
            if edge.source == node.name:
                why = " | ".join(clean(label.text) for label in edge.labels)
                line = "━" if edge.is_visited else "─"
                yield f"  {line} {why} {line}▶ {clean(edge.target)}" if why else f"  {line}▶ {clean(edge.target)}"
