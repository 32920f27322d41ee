"""From boxes and wires to rows: which wires go up, which row a box is in, and the lattice of lines between.

Boxes stand in even rows, labels in odd ones. A wire that goes back up leaves and arrives at the side of its boxes, so
that top and bottom belong to the way forward.
"""

from collections.abc import Sequence
from itertools import pairwise

from detent.define.graph.geometry import MAIN_WEIGHT, Lattice, LayerSpot, Metric, Segment, Shape, Wire
from detent.define.graph.network_simplex import Span, solve
from detent.errors import DefinitionError

BUNDLE_MIN = 3
PIECES_MAX = 40_000  # crossings of lines and rows; beyond it nobody would see anything, nor want to wait
_RANK_STEPS_MAX = 3_000


def lattice(shapes: Sequence[Shape], wires: Sequence[Wire], metric: Metric) -> Lattice:
    """The layered graph of these boxes and wires, not yet ordered within its rows."""
    builder = _Builder(shapes, wires, metric)
    builder.build()
    return builder.made


def upward(count: int, wires: Sequence[Wire]) -> set[int]:
    """The wires to draw upwards: those that close a cycle when the boxes are read in order from the first."""
    out: list[list[int]] = [[] for _ in range(count)]
    for index, wire in enumerate(wires):
        if wire.source != wire.target:
            out[wire.source].append(index)
    for indices in out:
        indices.sort(key=lambda index: -wires[index].weight)  # stable: the main way first, then as written
    state = [0] * count  # 0 new, 1 on the way, 2 done
    found = {index for index, wire in enumerate(wires) if wire.target == 0 and wire.source != 0}
    for start in range(count):
        if state[start]:
            continue
        state[start] = 1
        trail = [(start, iter(out[start]))]
        while trail:
            box, rest = trail[-1]
            index = next(rest, -1)
            if index < 0:
                state[box] = 2
                trail.pop()
                continue
            target = wires[index].target
            if state[target] == 1:
                found.add(index)
            elif not state[target]:
                state[target] = 1
                trail.append((target, iter(out[target])))
    return found


class _Builder:
    def __init__(self, shapes: Sequence[Shape], wires: Sequence[Wire], metric: Metric) -> None:
        self.shapes, self.wires, self.metric = shapes, wires, metric
        self.made = Lattice([], [], [], [[] for _ in wires], [-1] * len(wires), [-1] * len(wires), {}, [])
        self.up = upward(len(shapes), wires)
        self.weights = self._weights()
        self.rank = self._ranks()
        self.nets = 0
        pieces = sum(2 * abs(self.rank[wire.source] - self.rank[wire.target]) for wire in wires)
        if pieces > PIECES_MAX:
            raise DefinitionError(
                f"this machine is too large to be drawn: its {len(wires):,} lines cross rows {pieces:,} times, "
                f"and {PIECES_MAX:,} is the most; the formats dot and mermaid and the list for a terminal have no limit"
            )

    def _weights(self) -> list[int]:
        """Each box's first wire forward is its main way on."""
        weights = [wire.weight for wire in self.wires]
        left: set[int] = set()
        for index, wire in enumerate(self.wires):
            is_forward = wire.source != wire.target and index not in self.up
            if is_forward and wire.weight > 1 and wire.source not in left:
                left.add(wire.source)
                weights[index] = MAIN_WEIGHT
        return weights

    def _ranks(self) -> list[int]:
        spans = []
        for index, wire in enumerate(self.wires):
            if wire.source != wire.target:
                ends = (wire.target, wire.source) if index in self.up else (wire.source, wire.target)
                spans.append(Span(*ends, 1, 1 if index in self.up else self.weights[index]))
        return solve(len(self.shapes), spans, _RANK_STEPS_MAX)

    def build(self) -> None:
        for shape, rank in zip(self.shapes, self.rank, strict=True):
            half, margin = shape.half_width, self.metric.box_margin
            up, down = shape.half_height + shape.head, shape.half_height
            self.made.spots.append(LayerSpot(2 * rank, half + margin, half + margin, up, down, "box"))
        bundles: dict[tuple[int, str, bool], list[int]] = {}
        for index, wire in enumerate(self.wires):
            if wire.source == wire.target:
                continue
            key = (wire.target, wire.bundle if wire.bundle else f"\0{index}", index in self.up)
            bundles.setdefault(key, []).append(index)
        for (_, _, is_up), indices in bundles.items():
            for group in [indices] if len(indices) >= BUNDLE_MIN else [[index] for index in indices]:
                if is_up:
                    self._rise(group)
                else:
                    self._descend(group)
                for index in group:
                    self.made.nets[index] = self.nets
                self.nets += 1
        self._loops()
        self._fill_rows()

    def _descend(self, group: list[int]) -> None:
        """Lines down to one target: they join on the way, and the label stands where all are one."""
        target = self.wires[group[0]].target
        tops = [2 * self.rank[self.wires[index].source] for index in group]
        last = 2 * self.rank[target] - 1
        first = min(tops) + 1
        at = last if len(group) > 1 else first
        trunk = {row: self._label(row, group[0]) if row == at else self._line(row) for row in range(first, last + 1)}
        weight = max(self.weights[index] for index in group)
        self._stack([trunk[row] for row in range(first, last + 1)], weight)
        self._link(trunk[last], target, weight)
        for index, top in zip(group, tops, strict=True):
            wire = self.wires[index]
            self._link(wire.source, trunk[top + 1], self.weights[index])
            self.made.paths[index] = [wire.source, *(trunk[row] for row in range(top + 1, last + 1)), target]
            self.made.labels[index] = trunk[at] if wire.label_width else -1

    def _rise(self, group: list[int]) -> None:
        """Lines up to one target, at the side of the boxes."""
        target = self.wires[group[0]].target
        top = 2 * self.rank[target]
        bottoms = [2 * self.rank[self.wires[index].source] for index in group]
        first, last = top + 1, max(bottoms) - 1
        at = first if len(group) > 1 else last
        trunk = {row: self._label(row, group[0]) if row == at else self._line(row) for row in range(first, last + 1)}
        arrival = self._beside(target, top)
        sources = [self.wires[index].source for index in group]
        sides = [self._beside(source, bottom) for source, bottom in zip(sources, bottoms, strict=True)]
        lowest = sides[bottoms.index(last + 1)]
        self._stack([arrival, *(trunk[row] for row in range(first, last + 1)), lowest], 1)
        for index, source, side, bottom in zip(group, sources, sides, bottoms, strict=True):
            if side != lowest:
                self._link(trunk[bottom - 1], side, 1)
            way = [target, arrival, *(trunk[row] for row in range(first, bottom)), side, source]
            self.made.paths[index] = way[::-1]
            self.made.labels[index] = trunk[at] if self.wires[index].label_width else -1

    def _line(self, row: int) -> int:
        return self._add(LayerSpot(row, self.metric.line_margin, self.metric.line_margin))

    def _label(self, row: int, index: int) -> int:
        wire = self.wires[index]
        if not wire.label_width:
            return self._line(row)
        half, margin = (wire.label_width + 1) // 2, self.metric.label_margin
        up = wire.label_height // 2
        return self._add(LayerSpot(row, half + margin, half + margin, up, wire.label_height - up, "label"))

    def _beside(self, box: int, row: int, side: int = 1) -> int:
        return self._add(LayerSpot(row, self.metric.line_margin, self.metric.line_margin, host=box, side=side))

    def _add(self, spot: LayerSpot) -> int:
        self.made.spots.append(spot)
        return len(self.made.spots) - 1

    def _stack(self, chain: list[int], weight: int) -> None:
        self.made.chains.append(chain)
        for above, below in pairwise(chain):
            self._link(above, below, weight)

    def _link(self, top: int, bottom: int, weight: int) -> None:
        self.made.segments.append(Segment(top, bottom, self.nets, weight))
        self.made.spots[top].downs.append(bottom)
        self.made.spots[bottom].ups.append(top)

    def _loops(self) -> None:
        """Loops stand on the right of their box, or on the left where other lines use the right."""
        busy = {spot.host for spot in self.made.spots if spot.side > 0}
        for index, wire in enumerate(self.wires):
            if wire.source == wire.target:
                side = -1 if wire.source in busy else 1
                room = self.metric.loop + (self.metric.loop_gap + wire.label_width if wire.label_width else 0)
                spot = self.made.spots[wire.source]
                half = (wire.label_height + 1) // 2
                spot.up, spot.down = max(spot.up, half), max(spot.down, half)
                if side > 0:
                    spot.right += room
                else:
                    spot.left += room
                self.made.loops[wire.source] = (side, index)

    def _fill_rows(self) -> None:
        """Rows in the order the boxes are met from the first on; lines stand where their upper end is."""
        spots = self.made.spots
        self.made.rows = [[] for _ in range(max((spot.row for spot in spots), default=-1) + 1)]
        for index, spot in enumerate(spots):
            if spot.host < 0:
                self.made.rows[spot.row].append(index)
        for index, spot in enumerate(spots):
            if spot.host >= 0:
                row = self.made.rows[spot.row]
                row.insert(row.index(spot.host) + (1 if spot.side > 0 else 0), index)
