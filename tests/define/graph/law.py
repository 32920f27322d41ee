"""What must hold of every layout, whatever it shows."""

from collections.abc import Iterator
from itertools import combinations, pairwise

from detent.define.graph.drawing import Picture
from detent.define.graph.geometry import Layout, Points, Rect

Piece = tuple[tuple[int, int], tuple[int, int]]


def broken(picture: Picture, drawn: Layout) -> Iterator[str]:
    """Every way in which a layout is not as it should be."""
    yield from _boxes(picture, drawn)
    yield from _lines(picture, drawn)
    yield from _labels(picture, drawn)
    yield from _frame(drawn)


def _boxes(picture: Picture, drawn: Layout) -> Iterator[str]:
    for (a, one), (b, other) in combinations(enumerate(drawn.boxes), 2):
        if _overlap(one, other):
            yield f"{picture.nodes[a].name} lies on {picture.nodes[b].name}"


def _lines(picture: Picture, drawn: Layout) -> Iterator[str]:
    number = {node.name: at for at, node in enumerate(picture.nodes)}
    for edge, way in zip(picture.edges, drawn.routes, strict=True):
        name = f"{edge.source} → {edge.target}"
        ends = (number[edge.source], number[edge.target])
        if not _on_border(way.points[0], drawn.boxes[ends[0]]) or not _on_border(way.points[-1], drawn.boxes[ends[1]]):
            yield f"{name} does not reach from box to box"
        for one, other in pairwise(way.points):
            if (one[0] == other[0]) == (one[1] == other[1]):
                yield f"{name} has a piece that is slanted or empty"
        for at, box in enumerate(drawn.boxes):
            inner = Rect(box.x0 + 1, box.y0 + 1, box.x1 - 1, box.y1 - 1) if at in ends else box
            if any(_meet(piece, inner) for piece in pairwise(way.points)):
                yield f"{name} runs through {picture.nodes[at].name}"


def _labels(picture: Picture, drawn: Layout) -> Iterator[str]:
    seen: dict[Rect, int] = {}
    for at, (edge, way) in enumerate(zip(picture.edges, drawn.routes, strict=True)):
        if (way.label is None) != (not edge.labels):
            yield f"{edge.source} → {edge.target}: a label is missing or too much"
        if way.label is None:
            continue
        seen[way.label] = at
        for box, node in zip(drawn.boxes, picture.nodes, strict=True):
            if _overlap(way.label, box):
                yield f"the label of {edge.source} → {edge.target} lies on {node.name}"
        for other, line in zip(picture.edges, drawn.routes, strict=True):
            is_own = other is edge or (way.net >= 0 and line.net == way.net)
            if not is_own and any(_meet(piece, way.label) for piece in pairwise(line.points)):
                yield f"{other.source} → {other.target} runs through the label of {edge.source} → {edge.target}"
    for here, there in combinations(seen, 2):
        if _overlap(here, there):
            yield f"labels {seen[here]} and {seen[there]} lie on each other"


def _frame(drawn: Layout) -> Iterator[str]:
    rects = [*drawn.boxes, *(way.label for way in drawn.routes if way.label is not None)]
    corners = [(x, y) for r in rects for x, y in ((r.x0, r.y0), (r.x1, r.y1))]
    for x, y in [*corners, *(point for way in drawn.routes for point in way.points)]:
        if not (0 <= x <= drawn.width and 0 <= y <= drawn.height):
            yield f"{x},{y} is outside of {drawn.width}×{drawn.height}"


def lying(drawn: Layout) -> Iterator[str]:
    """Lines of different nets that lie on each other for a way."""
    pieces = [(at, piece) for at, way in enumerate(drawn.routes) for piece in pairwise(way.points)]
    for (a, one), (b, other) in combinations(pieces, 2):
        nets = drawn.routes[a].net, drawn.routes[b].net
        if a != b and (nets[0] != nets[1] or nets[0] < 0) and _share(one, other):
            yield f"{a} and {b} share a way: {one} {other}"


def _share(one: Piece, other: Piece) -> bool:
    for axis in (0, 1):
        if one[0][axis] == one[1][axis] == other[0][axis] == other[1][axis]:
            along = 1 - axis
            low = max(min(one[0][along], one[1][along]), min(other[0][along], other[1][along]))
            high = min(max(one[0][along], one[1][along]), max(other[0][along], other[1][along]))
            return high > low
    return False


def _overlap(one: Rect, other: Rect) -> bool:
    return one.x0 <= other.x1 and other.x0 <= one.x1 and one.y0 <= other.y1 and other.y0 <= one.y1


def _meet(piece: Piece, rect: Rect) -> bool:
    (ax, ay), (bx, by) = piece
    return min(ax, bx) <= rect.x1 and max(ax, bx) >= rect.x0 and min(ay, by) <= rect.y1 and max(ay, by) >= rect.y0


def _on_border(point: tuple[int, int], rect: Rect) -> bool:
    x, y = point
    is_inside = rect.x0 <= x <= rect.x1 and rect.y0 <= y <= rect.y1
    return is_inside and (x in (rect.x0, rect.x1) or y in (rect.y0, rect.y1))


def bends(points: Points) -> int:
    """How often a line turns."""
    return len(points) - 2
