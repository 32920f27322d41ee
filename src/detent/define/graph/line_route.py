"""The way of every line: straight down through the rows, sideways only in the channels between them.

Boxes and labels live in rows and sideways pieces in channels, so no line can run through a box or a foreign label.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from detent.define.graph.geometry import Lattice, Layout, Metric, Points, Rect, Segment, Wire, WireRoute

_HARD = 1_000
_SPLITS_MAX = 40


@dataclass(slots=True)
class _Net:
    """Lines that share one sideways piece: where they come from above and where they go below."""

    key: tuple[int, int]  # number of the net, and of its piece when it had to be split
    tops: set[int]
    bottoms: set[int]
    track: int = 0

    @property
    def low(self) -> int:
        return min(self.tops | self.bottoms)

    @property
    def high(self) -> int:
        return max(self.tops | self.bottoms)


def route(lattice: Lattice, wires: Sequence[Wire], halves: Sequence[tuple[int, int]], metric: Metric) -> Layout:
    """Lay the rows below each other and lead every wire through them; `halves` are those of the boxes."""
    router = _Router(lattice, halves, metric)
    router.stack()
    boxes = [router.box(index) for index in range(len(halves))]
    routes = [router.route(index, wire) for index, wire in enumerate(wires)]
    width = max((spot.x + spot.right for spot in lattice.spots), default=0)
    return Layout(width, router.height, boxes, routes)


class _Router:
    def __init__(self, lattice: Lattice, halves: Sequence[tuple[int, int]], metric: Metric) -> None:
        self.lattice, self.halves, self.metric = lattice, halves, metric
        self.spots = lattice.spots
        self.segments = {(segment.top, segment.bottom): segment for segment in lattice.segments}
        self.row_y: list[int] = []
        self.tracks: dict[tuple[int, int], list[tuple[int, int]]] = {}  # row, net: (y, x it leads to) per piece
        self.ports = self._side_ports()
        self.height = 0

    def stack(self) -> None:
        """Find the y of every row and every sideways piece, from top to bottom."""
        channels: list[list[Segment]] = [[] for _ in self.lattice.rows]
        for segment in self.lattice.segments:
            channels[self.spots[segment.top].row].append(segment)
        y = 0
        for number, row in enumerate(self.lattice.rows):
            y += max(self.spots[index].up for index in row)
            self.row_y.append(y)
            y += max(self.spots[index].down for index in row)
            if number + 1 < len(self.lattice.rows):
                y += self._channel(number, y, channels[number])
        self.height = y

    def _channel(self, number: int, y: int, segments: list[Segment]) -> int:
        """Lay out one channel below `y`; how high it is."""
        nets: dict[int, _Net] = {}
        for segment in segments:
            net = nets.setdefault(segment.net, _Net((segment.net, 0), set(), set()))
            net.tops.add(self._top_x(segment))
            net.bottoms.add(self._bottom_x(segment))
        bent = _assign_tracks([net for net in nets.values() if net.low < net.high], self.metric.track)
        for net in sorted(bent, key=lambda one: one.key):
            at = y + self.metric.lead + net.track * self.metric.track
            self.tracks.setdefault((number, net.key[0]), []).append((at, min(net.bottoms)))
        tip = self.metric.tip if number % 2 else self.metric.lead
        if not bent:
            return self.metric.plain
        return self.metric.lead + max(net.track for net in bent) * self.metric.track + tip

    def _top_x(self, segment: Segment) -> int:
        return self.spots[segment.top].x + segment.top_offset

    def _bottom_x(self, segment: Segment) -> int:
        return self.spots[segment.bottom].x + segment.bottom_offset

    def box(self, index: int) -> Rect:
        """Where a box is."""
        spot, (half_width, half_height) = self.spots[index], self.halves[index]
        y = self.row_y[spot.row]
        return Rect(spot.x - half_width, y - half_height, spot.x + half_width, y + half_height)

    def route(self, index: int, wire: Wire) -> WireRoute:
        """The points of a wire and the place of its label."""
        if wire.source == wire.target:
            return self._loop(wire)
        label = self.lattice.labels[index]
        points = _simple(self._points(self.lattice.paths[index]))
        return WireRoute(points, self._label(label) if label >= 0 else None, self.lattice.nets[index])

    def _label(self, index: int) -> Rect:
        spot = self.spots[index]
        half = spot.left - self.metric.label_margin
        y = self.row_y[spot.row]
        return Rect(spot.x - half, y - spot.up, spot.x + half, y + spot.down)

    def _points(self, path: list[int]) -> Points:
        is_up = self.spots[path[0]].row > self.spots[path[-1]].row
        way = path[::-1] if is_up else path
        points: Points = []
        for above, below in pairwise(way):
            segment = self.segments.get((above, below))
            if segment is None:  # from the box to the line beside it, or back
                points += self._sideways(above, below)
                continue
            if self.spots[above].kind == "box":
                points.append((self._top_x(segment), self.box(above).y1))
            points += self._bend(segment)
            if self.spots[below].kind == "box":
                points.append((self._bottom_x(segment), self.box(below).y0))
        return points[::-1] if is_up else points

    def _bend(self, segment: Segment) -> Points:
        x, target = self._top_x(segment), self._bottom_x(segment)
        pieces = self.tracks.get((self.spots[segment.top].row, segment.net), [])
        if x == target:
            return []
        points: Points = []
        for at, (y, leads_to) in enumerate(pieces):
            onward = target if at == len(pieces) - 1 else leads_to
            points += [(x, y), (onward, y)]
            x = onward
        return points

    def _sideways(self, above: int, below: int) -> Points:
        is_leaving = self.spots[below].host == above
        box, line = (above, below) if is_leaving else (below, above)
        rect, y = self.box(box), self.ports[line] + self.row_y[self.spots[box].row]
        at = rect.x1 if self.spots[line].side > 0 else rect.x0
        points = [(at, y), (self.spots[line].x, y)]
        return points if is_leaving else points[::-1]

    def _side_ports(self) -> dict[int, int]:
        """How far above or below the middle of its box each line beside it touches the box.

        Going outwards, lines that go up touch lower and lower, those that go down higher and higher: none cross.
        """
        beside: dict[tuple[int, int], list[int]] = {}
        for index, spot in enumerate(self.spots):
            if spot.host >= 0:
                beside.setdefault((spot.host, spot.side), []).append(index)
        ports: dict[int, int] = {}
        for (host, side), lines in beside.items():
            lines.sort(key=lambda index: side * self.spots[index].x)
            rising = [index for index in lines if self.spots[index].ups]
            falling = [index for index in lines if not self.spots[index].ups]
            gap = self.metric.side_port
            if len(lines) > 1:
                gap = min(gap, 2 * (self.halves[host][1] - self.metric.side_pad) // (len(lines) - 1))
            for at, index in enumerate([*rising, *falling[::-1]]):
                ports[index] = at * gap - (len(lines) - 1) * gap // 2
        return ports

    def _loop(self, wire: Wire) -> WireRoute:
        side, _ = self.lattice.loops[wire.source]
        rect = self.box(wire.source)
        near = rect.x1 if side > 0 else rect.x0
        far = near + side * self.metric.loop
        reach = min(max(self.metric.side_port // 2 + 1, 1), rect.y1 - rect.y - self.metric.side_pad)
        high, low = rect.y - (reach if reach > 1 else 0), rect.y + reach
        points = [(near, high), (far, high), (far, low), (near, low)]
        if not wire.label_width:
            return WireRoute(points, None)
        start = far + side * self.metric.loop_gap
        x0, x1 = sorted((start, start + side * wire.label_width))
        y0 = rect.y - wire.label_height // 2
        return WireRoute(points, Rect(x0, y0, x1, y0 + wire.label_height))


def _assign_tracks(nets: list[_Net], clear: int) -> list[_Net]:
    """Give every net a track, such that pieces do not lie on each other and few lines cross."""
    for _ in range(_SPLITS_MAX):
        ordered = _order(nets, clear)
        clash = _clash(ordered, clear)
        if clash is None:
            break
        taken = {x for net in nets for x in net.tops | net.bottoms}
        middle = _free((clash.low + clash.high) // 2, taken, clear)
        if middle is None:
            break
        number = clash.key[0]
        nets = [net for net in nets if net is not clash]
        nets += [_Net((number, 1), clash.tops, {middle}), _Net((number, 2), {middle}, clash.bottoms)]
    for at, net in enumerate(ordered):
        above = [other.track for other in ordered[:at] if _touch(other, net, clear)]
        net.track = max(above, default=-1) + 1
    return ordered


def _free(wanted: int, taken: set[int], clear: int) -> int | None:
    for step in range(200):
        for x in (wanted + step, wanted - step):
            if all(abs(x - other) >= clear for other in taken):
                return x
    return None


def _touch(one: _Net, other: _Net, clear: int) -> bool:
    return one.low - clear < other.high and other.low - clear < one.high


def _must(upper: _Net, lower: _Net, clear: int) -> bool:
    """Whether lines would lie on each other unless `upper` is above."""
    return any(abs(x - y) < clear for x in upper.tops for y in lower.bottoms)


def _price(upper: _Net, lower: _Net, clear: int) -> int:
    """What it costs to have one above the other: crossings, and much more for lying on each other."""
    crossings = sum(upper.low < x < upper.high for x in lower.tops)
    crossings += sum(lower.low < x < lower.high for x in upper.bottoms)
    return crossings + (_HARD if _must(lower, upper, clear) else 0)


def _order(nets: list[_Net], clear: int) -> list[_Net]:
    """From top to bottom: always next the one that loses least by being above all that remain."""
    rest = sorted(nets, key=lambda net: (net.low, net.high, net.key))
    dues = {net.key: 0 for net in rest}
    toll: dict[tuple[tuple[int, int], tuple[int, int]], int] = {}
    for one in rest:
        for other in rest:
            if one is not other and _touch(one, other, clear):
                toll[one.key, other.key] = extra = _price(one, other, clear) - _price(other, one, clear)
                dues[one.key] += max(extra, 0)
    ordered = []
    while rest:
        best = min(rest, key=lambda net: dues[net.key])
        rest.remove(best)
        ordered.append(best)
        for net in rest:
            dues[net.key] -= max(toll.get((net.key, best.key), 0), 0)
    return ordered


def _clash(ordered: list[_Net], clear: int) -> _Net | None:
    """A simple net that lies on another in this order."""
    for at, lower in enumerate(ordered):
        for upper in ordered[:at]:
            if _touch(upper, lower, clear) and _must(lower, upper, clear):
                for net in (lower, upper):
                    is_simple = len(net.tops) == 1 and len(net.bottoms) == 1 and net.key[1] == 0
                    if is_simple and net.high - net.low > 2 * clear:
                        return net
    return None


def _simple(points: Points) -> Points:
    """Without repeated points and points in the middle of a straight piece."""
    kept: Points = []
    for point in points:
        if kept and kept[-1] == point:
            continue
        if len(kept) > 1 and (kept[-2][0] == kept[-1][0] == point[0] or kept[-2][1] == kept[-1][1] == point[1]):
            kept[-1] = point
        else:
            kept.append(point)
    return kept
